//! The tools that a kernel's build needs, each with its package, checked before anything is fetched or compiled.

use schedlab_base::{Error, Result, temp};
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How to check that a tool is installed.
enum Probe {
    /// A program on PATH.
    Program(&'static str),
    /// A header that the host's compiler finds.
    Header(&'static str),
}

/// A tool, and the Debian package that has it.
struct Tool {
    probe: Probe,
    package: &'static str,
    why: &'static str,
}

const fn program(name: &'static str, package: &'static str, why: &'static str) -> Tool {
    Tool { probe: Probe::Program(name), package, why }
}

const TOOLS: &[Tool] = &[
    program("gcc", "gcc", "compiles the kernel"),
    program("ld", "binutils", "links it"),
    program("make", "make", "runs its build"),
    program("bc", "bc", "computes time constants"),
    program("flex", "flex", "makes the configuration's scanner"),
    program("bison", "bison", "makes its parser"),
    program("perl", "perl", "runs scripts of the build"),
    program("tar", "tar", "unpacks sources"),
    program("xz", "xz-utils", "unpacks sources"),
    Tool { probe: Probe::Header("libelf.h"), package: "libelf-dev", why: "objtool reads objects by it" },
];

/// Checks that every tool is installed.
///
/// # Errors
/// The missing tools, with the command that installs all of them.
pub fn check() -> Result<()> {
    refuse(&TOOLS.iter().filter(|t| !t.is_there()).collect::<Vec<_>>())
}

fn refuse(missing: &[&Tool]) -> Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    let told = |t: &&Tool| format!("{} ({})", t.name(), t.why);
    let what: Vec<String> = missing.iter().map(told).collect();
    let packages: Vec<&str> = missing.iter().map(|t| t.package).collect();
    Err(Error::machine(format!("a kernel can't be built here: missing {}", what.join(", ")))
        .help(format!("Debian and its kin have them in packages: apt-get install {}", packages.join(" "))))
}

impl Tool {
    fn name(&self) -> &'static str {
        match self.probe {
            Probe::Program(name) | Probe::Header(name) => name,
        }
    }
    fn is_there(&self) -> bool {
        match self.probe {
            Probe::Program(name) => on_path(name),
            // Without a compiler headers can't be looked for; then only the compiler is reported as missing.
            Probe::Header(name) => !on_path("gcc") || compiles(&format!("#include <{name}>\n")),
        }
    }
}

/// Whether a program is on PATH.
pub fn on_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|d| d.join(name).is_file())
}

fn compiles(text: &str) -> bool {
    use std::io::Write;
    let mut command = Command::new("gcc");
    command
        .args(["-fsyntax-only", "-xc", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else { return false };
    let written = child.stdin.take().is_some_and(|mut to| to.write_all(text.as_bytes()).is_ok());
    written && child.wait().is_ok_and(|s| s.success())
}

/// The compiler's name and version, as its first line says.
///
/// # Errors
/// When it can't be started.
pub fn compiler() -> Result<String> {
    let output = Command::new("gcc").arg("--version").stdin(Stdio::null()).output();
    let output = output.map_err(|e| Error::machine(format!("gcc can't be started: {e}")))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.lines().next().unwrap_or("gcc").to_owned())
}

/// What [`compiler`] says, kept in the cache: it is asked once for each file that `gcc` of PATH is.
///
/// # Errors
/// When it can't be started.
pub fn known_compiler(cache: &Path) -> Result<String> {
    let Some(file) = CompilerFile::here() else { return compiler() };
    let place = cache.join(COMPILER_NOTE);
    let noted = std::fs::read(&place).ok().and_then(|text| serde_json::from_slice::<Noted>(&text).ok());
    if let Some(noted) = noted.filter(|noted| noted.file == file) {
        return Ok(noted.says);
    }
    let says = compiler()?;
    let noted = Noted { file, says };
    if let (Ok(text), Ok(())) = (serde_json::to_vec(&noted), std::fs::create_dir_all(cache)) {
        // A cache that can't be written costs a question more.
        let _ = temp::write_whole(&place, &text);
    }
    Ok(noted.says)
}

/// In the cache: the compiler that was asked last.
const COMPILER_NOTE: &str = "compiler.json";

#[derive(Serialize, Deserialize)]
struct Noted {
    file: CompilerFile,
    says: String,
}

/// The file behind `gcc`.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct CompilerFile {
    path: PathBuf,
    bytes: u64,
    modified_s: i64,
    modified_ns: i64,
}

impl CompilerFile {
    /// `None`: there is none, or a script or a program of another name is in its place, which may call any compiler.
    fn here() -> Option<CompilerFile> {
        use std::os::unix::fs::MetadataExt;
        let folders = std::env::var_os("PATH")?;
        let runs = |p: &PathBuf| p.metadata().is_ok_and(|m| m.is_file() && m.mode() & 0o111 != 0);
        let found = std::env::split_paths(&folders).map(|d| d.join("gcc")).find(runs)?;
        let path = found.canonicalize().ok()?;
        let about = path.metadata().ok()?;
        let mut begin = [0; 4];
        std::fs::File::open(&path).ok()?.read_exact(&mut begin).ok()?;
        let is_gcc = path.file_name()?.to_str()?.contains("gcc") && begin == *b"\x7fELF";
        is_gcc.then_some(CompilerFile {
            bytes: about.len(),
            modified_s: about.mtime(),
            modified_ns: about.mtime_nsec(),
            path,
        })
    }
}

/// Checks that a file system has enough free space.
///
/// # Errors
/// When it has less; both figures are named.
pub fn check_room(folder: &Path, need_mb: u64, what: &str) -> Result<()> {
    let Some(free_mb) = free_mb(folder) else { return Ok(()) };
    if free_mb >= need_mb {
        return Ok(());
    }
    let text = format!("{} has {free_mb} MB left; {what} takes about {need_mb} MB", folder.display());
    Err(Error::machine(text)
        .help(format!("make room there, or name another folder: {}", crate::cache::CACHE_VARIABLE)))
}

/// Free space of the file system that holds a folder, or its nearest parent that exists.
fn free_mb(folder: &Path) -> Option<u64> {
    use std::os::unix::ffi::OsStrExt;
    let there = folder.ancestors().find(|d| d.exists())?;
    let path = std::ffi::CString::new(there.as_os_str().as_bytes()).ok()?;
    // SAFETY: statvfs is plain data for which all-zero bytes are a value; the call fills it.
    let mut about: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers live through the call, and the path ends with a zero.
    let failed = unsafe { libc::statvfs(path.as_ptr(), &raw mut about) };
    (failed == 0).then(|| about.f_bavail.saturating_mul(about.f_frsize) >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_tools_are_named_with_their_packages() {
        let missing = [
            &Tool { probe: Probe::Program("no-such-tool"), package: "pkg-a", why: "does a" },
            &Tool { probe: Probe::Header("no/such.h"), package: "pkg-b", why: "does b" },
        ];
        assert!(missing.iter().all(|t| !t.is_there()));
        let error = refuse(&missing).unwrap_err();
        assert_eq!(error.kind().exit_code(), 3);
        let text = error.to_string();
        assert!(
            text.contains("no-such-tool (does a)") && text.contains("apt-get install pkg-a pkg-b"),
            "{text}"
        );
        assert!(refuse(&[]).is_ok());
    }

    #[test]
    fn a_compiler_is_asked_again_when_its_file_has_changed() {
        let Some(file) = CompilerFile::here() else { return };
        let cache = tempfile::tempdir().unwrap();
        let note = |file, says: &str| {
            let noted = Noted { file, says: says.to_owned() };
            std::fs::write(cache.path().join(COMPILER_NOTE), serde_json::to_vec(&noted).unwrap()).unwrap();
        };
        let other = CompilerFile { bytes: file.bytes + 1, ..CompilerFile::here().unwrap() };
        note(file, "as noted");
        assert_eq!(known_compiler(cache.path()).unwrap(), "as noted");
        note(other, "of an older file");
        assert_eq!(known_compiler(cache.path()).unwrap(), compiler().unwrap());
    }

    #[test]
    fn room_is_checked_where_the_folder_will_be() {
        let dir = tempfile::tempdir().unwrap();
        let later = dir.path().join("a/b");
        assert!(check_room(&later, 0, "x").is_ok());
        let text = check_room(&later, u64::MAX, "a build").unwrap_err().to_string();
        assert!(text.contains("a build takes about"), "{text}");
    }
}
