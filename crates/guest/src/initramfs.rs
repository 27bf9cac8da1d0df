//! Makes a guest's root file system: schedlab as init, its shared libraries, the programs of a command, and the job.
//!
//! Libraries are found without the loader: in the folders that an executable names, in those of the libraries mapped
//! into this process, and in the usual ones. Each library keeps its path, since the guest's loader is the same and
//! looks there too. A static executable needs none. The initramfs is two concatenated archives; the second has only
//! init's orders.

use crate::cpio::{Archive, Node};
use crate::elf::{self, Elf};
use schedlab_base::{Error, Result};
use schedlab_native::AGENT_VARIABLE;
use schedlab_workload::{CommandSpec, Spec};
use std::path::{Path, PathBuf};

/// The file in the guest with init's orders.
pub const BOOT_PATH: &str = "/schedlab/boot.json";
/// The loader's default library folders (ld.so(8)).
const USUAL: &[&str] =
    &["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"];
/// Mount points and writable folders.
const FOLDERS: &[&str] = &["/proc", "/sys", "/tmp", "/run", "/var/lib", "/root"];
/// The search path for commands if PATH is not set.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

/// A sched_ext scheduler in a guest.
pub struct Scheduler {
    pub program: PathBuf,
    /// Its path in the guest.
    pub place: String,
    /// The configuration of the guest's kernel, and the release: libbpf reads `/boot/config-RELEASE` for options that a
    /// scheduler asks for.
    pub config: Option<(PathBuf, String)>,
}

/// The initramfs for a run.
///
/// # Errors
/// When this executable, a library or a command can't be read or is not for Linux on x86-64.
pub fn pack(spec: &Spec, scheduler: Option<&Scheduler>, boot: &[u8]) -> Result<Vec<u8>> {
    let mut base = Archive::default();
    FOLDERS.iter().for_each(|f| base.put(f, Node::Folder));
    // Init has only these devices until it mounts /dev; the console is its standard input and output.
    base.put("/dev/console", Node::Device(5, 1));
    base.put("/dev/null", Node::Device(1, 3));
    let mut packer = Packer { archive: base, mapped: mapped_libraries() };
    packer.executable(&own_executable(), "/init")?;
    if let Spec::Command(command) = spec {
        packer.programs(command)?;
    }
    if let Some(scheduler) = scheduler {
        packer.executable(&scheduler.program, &scheduler.place)?;
        if let Some((config, release)) = &scheduler.config {
            let content = std::fs::read(config).map_err(|e| Error::io(config, "read", &e))?;
            let place = format!("/boot/config-{release}");
            packer.archive.put(&place, Node::File { content, executable: false });
        }
    }
    let mut bytes = packer.archive.bytes();
    let mut second = Archive::default();
    second.put(BOOT_PATH, Node::File { content: boot.to_vec(), executable: false });
    bytes.extend(second.bytes());
    Ok(bytes)
}

/// This executable, even if its file was replaced or removed; in tests the one that the variable names.
fn own_executable() -> PathBuf {
    let named = std::env::var_os(AGENT_VARIABLE).map(PathBuf::from);
    named.unwrap_or_else(|| PathBuf::from("/proc/self/exe"))
}

struct Packer {
    archive: Archive,
    /// Libraries mapped into this process.
    mapped: Vec<PathBuf>,
}

/// The path by which a command names this executable, in guests and elsewhere.
pub const OWN: &str = "/proc/self/exe";

impl Packer {
    /// Packs an executable or library and everything that it needs.
    fn executable(&mut self, file: &Path, to: &str) -> Result<()> {
        let bytes = std::fs::read(file).map_err(|e| Error::io(file, "read", &e))?;
        let elf = Elf::parse(&bytes).map_err(|e| {
            e.context(format!("can't take {} into a guest", file.display()))
                .help("a guest has no shell: only executables can be taken into it, no scripts")
        })?;
        self.archive.put(to, Node::File { content: elf::stripped(&bytes, &elf), executable: true });
        if let Some(loader) = &elf.interpreter
            && !self.archive.has(loader)
        {
            self.executable(Path::new(loader), loader)?;
        }
        for name in &elf.needed {
            let found = self.library(name, file, &elf)?;
            let place = text(&found)?;
            if !self.archive.has(&place) {
                self.executable(&found, &place)?;
            }
        }
        Ok(())
    }

    fn library(&self, name: &str, of: &Path, elf: &Elf) -> Result<PathBuf> {
        let origin = of.parent().unwrap_or(Path::new("/")).display().to_string();
        let own = elf
            .run_path
            .iter()
            .map(|p| PathBuf::from(p.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin)).join(name));
        let mapped = self.mapped.iter().filter(|m| m.file_name().is_some_and(|n| n == name)).cloned();
        let usual = USUAL.iter().map(|folder| Path::new(folder).join(name));
        own.chain(mapped).chain(usual).find(|p| p.is_file()).ok_or_else(|| {
            Error::machine(format!("can't find {name}, which {} is linked with", of.display())).help(
                "build schedlab statically: RUSTFLAGS='-C target-feature=+crt-static' cargo build --release",
            )
        })
    }

    /// Packs every program that a command starts, under its path on this host.
    fn programs(&mut self, command: &CommandSpec) -> Result<()> {
        let started = [&command.argv, &command.setup, &command.server, &command.cleanup];
        // This executable is in the archive already, as init.
        let others = |program: &&String| *program != OWN;
        for program in started.into_iter().filter_map(|argv| argv.first()).filter(others) {
            let path = which(program)?;
            let place = text(&path)?;
            if !self.archive.has(&place) {
                self.executable(&path, &place)?;
            }
            // The guest has no PATH, so /bin is searched first.
            let usual = format!("/bin/{program}");
            if !program.contains('/') && !self.archive.has(&usual) {
                self.archive.put(&usual, Node::Link(place));
            }
        }
        if let Some(folder) = &command.cwd {
            self.archive.put(folder, Node::Folder);
        }
        Ok(())
    }
}

/// Finds a program's file.
fn which(program: &str) -> Result<PathBuf> {
    if program.contains('/') {
        return std::path::absolute(program).map_err(|e| Error::io(Path::new(program), "find", &e));
    }
    let path = std::env::var("PATH").unwrap_or_else(|_| DEFAULT_PATH.to_owned());
    path.split(':').map(|folder| Path::new(folder).join(program)).find(|p| p.is_file()).ok_or_else(|| {
        Error::machine(format!("'{program}' is not installed here, so it can't be taken into a guest"))
            .help("install it, or name it with its folder")
    })
}

fn text(path: &Path) -> Result<String> {
    path.to_str()
        .map(str::to_owned)
        .ok_or_else(|| Error::input(format!("{} is not a UTF-8 path, so it can't be packed", path.display())))
}

/// The shared libraries of this process, from /proc/self/maps.
fn mapped_libraries() -> Vec<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut files: Vec<PathBuf> = maps.lines().filter_map(mapped_file).map(PathBuf::from).collect();
    files.sort();
    files.dedup();
    files
}

/// The file in a line of /proc/self/maps: the text after the fifth field.
fn mapped_file(line: &str) -> Option<&str> {
    let at = line.find('/')?;
    let path = &line[at..];
    (path.contains(".so") && !path.ends_with(" (deleted)")).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_workload::Params;

    #[test]
    fn init_comes_with_its_loader_and_libraries() {
        let mut packer = Packer { archive: Archive::default(), mapped: mapped_libraries() };
        let own = std::env::current_exe().unwrap();
        packer.executable(&own, "/init").unwrap();
        assert!(packer.archive.has("/init"));
        let elf = Elf::parse(&std::fs::read(&own).unwrap()).unwrap();
        assert!(elf.interpreter.iter().all(|l| packer.archive.has(l)), "{elf:?}");
        for name in &elf.needed {
            let found = packer.library(name, &own, &elf).unwrap();
            assert!(packer.archive.has(found.to_str().unwrap()), "{name}");
        }
    }

    #[test]
    fn the_same_boot_is_packed_to_the_same_bytes_and_its_purpose_is_the_end() {
        let spec = Spec::bench("schbench", &Params::default()).unwrap();
        let (a, b, other) = (
            pack(&spec, None, b"one").unwrap(),
            pack(&spec, None, b"one").unwrap(),
            pack(&spec, None, b"two").unwrap(),
        );
        assert!(a == b && a.len().is_multiple_of(512));
        let first_difference = a.iter().zip(&other).position(|(x, y)| x != y).unwrap();
        assert!(first_difference > a.len() - 512, "{first_difference} of {}", a.len());
    }

    #[test]
    fn a_command_brings_its_programs_and_a_script_is_refused() {
        let pack = |argv: &[&str]| {
            let command = CommandSpec::new("x", argv.iter().map(|s| (*s).to_owned()).collect());
            let mut packer = Packer { archive: Archive::default(), mapped: Vec::new() };
            packer.programs(&command).map(|()| packer.archive)
        };
        assert!(pack(&["sleep", "1"]).unwrap().has("/bin/sleep"));
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        std::fs::write(&script, "#!/bin/sh\n").unwrap();
        let told = pack(&[script.to_str().unwrap()]).unwrap_err().to_string();
        assert!(told.contains("no shell"), "{told}");
        assert!(pack(&["no-such-program"]).unwrap_err().to_string().contains("not installed"));
    }

    #[test]
    fn maps_are_read_with_their_paths() {
        let line = "7f0000000000-7f0000001000 r-xp 00000000 fe:00 1234      /usr/lib/a b/libc.so.6";
        assert_eq!(mapped_file(line), Some("/usr/lib/a b/libc.so.6"));
        assert_eq!(mapped_file("7ffd0000-7ffd1000 rw-p 00000000 00:00 0  [stack]"), None);
        assert_eq!(mapped_file(&format!("{line} (deleted)")), None);
    }
}
