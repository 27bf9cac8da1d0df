//! The stage of a command whose server needs files and a port: a new folder per run, with the tool's files, and a free
//! port of 127.0.0.1.
//!
//! They replace `{folder}` and `{port}` in the command's words and in the files. The folder is removed after the run,
//! even a failed one. A killed run leaves its folder; the next run removes it.

use schedlab_base::{Error, Ns, Result, own_uid};
use schedlab_workload::CommandSpec;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Prefix of a folder's name; the process id follows.
const NAME: &str = "schedlab-stage-";
/// Time for a server to answer on its port.
const READY_WITHIN: Ns = Ns::secs(20);
/// Interval between attempts to connect.
const TRY_EVERY: Ns = Ns::ms(20);

#[derive(Debug)]
pub struct Stage {
    folder: PathBuf,
    port: u16,
}

impl Stage {
    /// Makes the folder with its files, and finds a port.
    ///
    /// # Errors
    /// When a temporary folder can't be made, or no port is free.
    pub fn set(files: &BTreeMap<String, String>) -> Result<Stage> {
        let all = std::env::temp_dir();
        remove_stale(&all);
        let fault = |e: io::Error| {
            Error::machine(format!("can't make a folder for a server in {}: {e}", all.display()))
                .help("TMPDIR names another place")
        };
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|l| l.local_addr());
        let port = free.map_err(|e| Error::machine(format!("no free port on 127.0.0.1: {e}")))?.port();
        let folder = all.join(format!("{NAME}{}", std::process::id()));
        // Servers that drop root's rights read their files as another user.
        fs::DirBuilder::new().mode(0o755).create(&folder).map_err(fault)?;
        let stage = Stage { folder, port };
        for (name, text) in files {
            let path = stage.folder.join(name);
            path.parent().map_or(Ok(()), fs::create_dir_all).map_err(fault)?;
            fs::write(&path, stage.filled(text)).map_err(fault)?;
        }
        Ok(stage)
    }

    fn filled(&self, text: &str) -> String {
        text.replace("{folder}", &self.folder.to_string_lossy()).replace("{port}", &self.port.to_string())
    }

    /// The command with this folder and port.
    pub fn fill(&self, spec: &CommandSpec) -> CommandSpec {
        let mut spec = spec.clone();
        let parts = [&mut spec.argv, &mut spec.setup, &mut spec.server, &mut spec.cleanup];
        for word in parts.into_iter().flatten().chain(spec.env.values_mut()) {
            *word = self.filled(word);
        }
        spec
    }

    /// Waits until a server answers on the port, or `ended` returns true. Returns whether it answers.
    pub fn answers(&self, ended: impl Fn() -> bool) -> bool {
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, self.port);
        let deadline = crate::sys::monotonic_ns() + READY_WITHIN.0;
        while crate::sys::monotonic_ns() < deadline && !ended() {
            if TcpStream::connect_timeout(&address.into(), Duration::from_secs(1)).is_ok() {
                return true;
            }
            crate::sys::sleep_for(TRY_EVERY.0);
        }
        false
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Removes folders of dead processes.
fn remove_stale(all: &Path) {
    let own =
        |path: &Path| fs::symlink_metadata(path).is_ok_and(|m| m.is_dir() && Some(m.uid()) == own_uid());
    for entry in fs::read_dir(all).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(process) = name.to_str().and_then(|n| n.strip_prefix(NAME)) else { continue };
        let number = !process.is_empty() && process.bytes().all(|b| b.is_ascii_digit());
        let mine = process == std::process::id().to_string();
        if number && (mine || !Path::new("/proc").join(process).exists()) && own(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The folder's name contains the process id, so there is one stage at a time; hence one test for everything.
    #[test]
    fn a_stage_has_its_files_and_port_and_leaves_nothing() {
        let stale = std::env::temp_dir().join(format!("{NAME}999999999"));
        fs::create_dir_all(stale.join("deep")).unwrap();
        let files = BTreeMap::from([("www/a.conf".to_owned(), "at {port} in {folder} {x}".to_owned())]);
        let stage = Stage::set(&files).unwrap();
        assert!(!stale.exists(), "its process is gone");
        let folder = stage.folder.clone();
        let text = fs::read_to_string(folder.join("www/a.conf")).unwrap();
        assert_eq!(text, format!("at {} in {} {{x}}", stage.port, folder.display()));
        let mut spec = CommandSpec::new("x", vec!["x".to_owned(), "--port={port}".to_owned()]);
        spec.server = vec!["s".to_owned(), "{folder}/c".to_owned()];
        let filled = stage.fill(&spec);
        assert_eq!(filled.argv[1], format!("--port={}", stage.port));
        assert_eq!(filled.server[1], format!("{}/c", folder.display()));
        assert_eq!(filled.params, spec.params, "records of two runs name the same command");
        assert!(!stage.answers(|| true), "the server has ended");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, stage.port)).unwrap();
        assert!(stage.answers(|| false));
        drop((listener, stage));
        assert!(!folder.exists());
    }
}
