//! Finds a QEMU: the one named, the newest that was fetched, or the installed one.
//!
//! A fetched QEMU is a folder of unpacked packages. It needs its own libraries and modules before the system's
//! (LD_LIBRARY_PATH, QEMU_MODULE_DIR) and its own firmware (-L). Firmware that the cache lacks is found in the system's
//! folder, by QEMU's built-in path.

use crate::cache;
use schedlab_base::natural;
use schedlab_base::{Error, Result, Version};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The environment variable that names the program.
pub const QEMU_VARIABLE: &str = "SCHEDLAB_QEMU";
/// The program within a folder of the cache.
pub const PROGRAM: &str = "usr/bin/qemu-system-x86_64";
const INSTALLED: &str = "qemu-system-x86_64";
/// How many folders below usr/lib are searched for libraries.
const LIBRARY_DEPTH: u32 = 3;

/// The first QEMU that can save the state of a guest to a file. Since 8.1 `-icount` divides virtual time among the CPUs
/// of a guest; older ones hang at SMP boot.
const DETERMINISTIC_SINCE: Version = Version::new(8, 2);

/// A QEMU that starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qemu {
    /// The executable (qemu-system-x86_64).
    pub program: PathBuf,
    pub version: Version,
    /// Folders of libraries that it needs before the system's (LD_LIBRARY_PATH).
    pub libraries: Vec<PathBuf>,
    /// Folder of its modules; `None` for QEMU's built-in path.
    pub modules: Option<PathBuf>,
    /// Folders of firmware (-L); empty for QEMU's built-in path.
    pub data: Vec<PathBuf>,
}

/// How a guest's time passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// As on the host, so that measured times are the host's.
    RealTime,
    /// By instructions executed: a run gives the same bytes every time. All CPUs share one CPU's time, in turns.
    Deterministic,
}

impl Mode {
    /// The mode's name in options and records.
    pub fn name(self) -> &'static str {
        match self {
            Mode::RealTime => "real-time",
            Mode::Deterministic => "deterministic",
        }
    }
    /// Reads "real-time" or "deterministic".
    ///
    /// # Errors
    /// Another word.
    pub fn parse(text: &str) -> Result<Mode> {
        match text {
            "real-time" => Ok(Mode::RealTime),
            "deterministic" => Ok(Mode::Deterministic),
            other => Err(Error::unknown("mode", other, ["real-time", "deterministic"])),
        }
    }
}

/// The QEMU that guests run in.
///
/// # Errors
/// When there is no QEMU, or it does not start: the error quotes its output and says how to get another. On machines
/// that are not x86-64: this executable can't be a guest's init.
pub fn find_qemu() -> Result<Qemu> {
    if !cfg!(target_arch = "x86_64") {
        let arch = std::env::consts::ARCH;
        return Err(Error::machine(format!("guests are x86-64 machines, and this schedlab is for {arch}"))
            .help("its own executable would be their init: use --backend sim, or run guests on an x86-64 machine"));
    }
    if let Some(named) = std::env::var_os(QEMU_VARIABLE).filter(|v| !v.is_empty()) {
        let named = PathBuf::from(named);
        let program = on_path(&named).unwrap_or(named);
        return plain(program).map_err(|e| e.context(QEMU_VARIABLE));
    }
    if let Some(folder) = cache::folder(None).ok().and_then(|c| newest(&c)) {
        return unpacked(&folder);
    }
    match on_path(Path::new(INSTALLED)) {
        Some(program) => plain(program),
        None => Err(Error::machine("there is no QEMU (qemu-system-x86_64) here").help(format!(
            "'schedlab kernel fetch qemu' fetches one without installing it; {QEMU_VARIABLE} names another program"
        ))),
    }
}

pub fn newest(cache: &Path) -> Option<PathBuf> {
    let whole = cache::entries(&cache::qemus(cache)).into_iter().filter(|d| d.join(PROGRAM).is_file());
    whole.max_by(|a, b| natural(&a.to_string_lossy(), &b.to_string_lossy()))
}

/// The QEMU of unpacked packages.
///
/// # Errors
/// When it does not start.
pub fn unpacked(folder: &Path) -> Result<Qemu> {
    let mut libraries = Vec::new();
    for below in ["usr/lib", "lib"] {
        with_libraries(&folder.join(below), LIBRARY_DEPTH, &mut libraries);
    }
    let modules = libraries_of_machine(folder).into_iter().map(|d| d.join("qemu")).find(|d| d.is_dir());
    let data = ["usr/share/qemu", "usr/share/seabios", "usr/lib/ipxe/qemu"].map(|d| folder.join(d));
    let data = data.into_iter().filter(|d| d.is_dir()).collect();
    let version = Version::new(0, 0);
    let mut qemu = Qemu { program: folder.join(PROGRAM), version, libraries, modules, data };
    qemu.version = version_of(&qemu).map_err(|e| {
        e.help(format!("remove {} and run 'schedlab kernel fetch qemu' again", folder.display()))
    })?;
    Ok(qemu)
}

fn plain(program: PathBuf) -> Result<Qemu> {
    let version = Version::new(0, 0);
    let mut qemu = Qemu { program, version, libraries: Vec::new(), modules: None, data: Vec::new() };
    qemu.version = version_of(&qemu)?;
    Ok(qemu)
}

impl Qemu {
    /// The version as QEMU writes it.
    pub fn number(&self) -> String {
        plain_number(self.version)
    }
    /// Checks that this QEMU can run guests of several CPUs in the mode.
    ///
    /// # Errors
    /// When it can't; the error says which QEMU can, and what to do without one.
    pub fn can(&self, mode: Mode) -> Result<()> {
        if mode == Mode::RealTime || self.version >= DETERMINISTIC_SINCE {
            return Ok(());
        }
        let (have, need) = (self.number(), plain_number(DETERMINISTIC_SINCE));
        let text = format!(
            "QEMU {have} ({}) can't run deterministic guests of several CPUs",
            self.program.display()
        );
        Err(Error::machine(text).help(format!(
            "QEMU {need} or later can: 'schedlab kernel fetch qemu' fetches one; --guest-mode real-time needs none"
        )))
    }
    /// The program with its libraries, modules and firmware; the caller adds options.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        if !self.libraries.is_empty() {
            let own = std::env::var_os("LD_LIBRARY_PATH").filter(|v| !v.is_empty());
            let before = own.iter().flat_map(std::env::split_paths);
            // LD_LIBRARY_PATH can't hold a folder with a colon in its name; the program then reports missing libraries.
            let all = std::env::join_paths(self.libraries.iter().cloned().chain(before));
            command.envs(all.ok().map(|v| ("LD_LIBRARY_PATH", v)));
        }
        command.envs(self.modules.as_ref().map(|d| ("QEMU_MODULE_DIR", d)));
        command.args(self.data.iter().flat_map(|d| [Path::new("-L"), d]));
        command
    }
}

/// A version without the `v` that kernel versions begin with.
fn plain_number(version: Version) -> String {
    version.to_string().trim_start_matches('v').to_owned()
}

fn version_of(qemu: &Qemu) -> Result<Version> {
    let program = qemu.program.display();
    let output = qemu.command().arg("--version").stdin(Stdio::null()).output();
    let output = output.map_err(|e| Error::machine(format!("{program} can't be started: {e}")))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    version_in(&said).ok_or_else(|| {
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let line = errors.lines().chain(said.lines()).next().unwrap_or("nothing").to_owned();
        Error::machine(format!("{program} does not report its version; it said: {line}"))
    })
}

/// "QEMU emulator version 10.0.2 (...)".
fn version_in(text: &str) -> Option<Version> {
    let (_, rest) = text.lines().next()?.split_once("QEMU emulator version ")?;
    Version::parse(rest.split_whitespace().next()?).ok()
}

fn on_path(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return None;
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|d| d.join(program)).find(|p| p.is_file())
}

/// The multi-architecture folders: usr/lib/x86_64-linux-gnu.
fn libraries_of_machine(folder: &Path) -> Vec<PathBuf> {
    let all = cache::entries(&folder.join("usr/lib"));
    all.into_iter().filter(|d| d.to_string_lossy().ends_with("-linux-gnu")).collect()
}

/// Folders with shared libraries ("libx.so.1"), but not those with modules only, which end in ".so".
fn with_libraries(folder: &Path, depth: u32, found: &mut Vec<PathBuf>) {
    let mut files = fs::read_dir(folder).into_iter().flatten().flatten();
    if files.any(|e| e.file_name().to_string_lossy().contains(".so.")) {
        found.push(folder.to_owned());
    }
    if depth > 0 {
        cache::entries(folder).iter().for_each(|d| with_libraries(d, depth - 1, found));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn modes_read_as_they_are_written() {
        for mode in [Mode::RealTime, Mode::Deterministic] {
            assert_eq!(Mode::parse(mode.name()).unwrap(), mode);
        }
        assert!(Mode::parse("determinstic").unwrap_err().to_string().contains("'deterministic'"));
    }

    #[test]
    fn versions_are_read_from_the_programs_output() {
        let said = "QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)\nCopyright (c) 2003\n";
        assert_eq!(version_in(said).unwrap().to_string(), "v10.0.2");
        assert!(version_in(said).unwrap() >= DETERMINISTIC_SINCE);
        assert_eq!(version_in("something else"), None);
    }

    #[test]
    fn unpacked_packages_run_with_their_own_libraries_and_firmware() {
        let cache = tempfile::tempdir().unwrap();
        let folder = |version: &str| cache::qemus(cache.path()).join(version);
        for version in ["9.2.1", "10.0.2"] {
            let program = folder(version).join(PROGRAM);
            let lib = folder(version).join("usr/lib/x86_64-linux-gnu");
            for dir in [
                program.parent().unwrap(),
                &lib.join("qemu"),
                &lib.join("pulse"),
                &folder(version).join("usr/share/seabios"),
            ] {
                fs::create_dir_all(dir).unwrap();
            }
            fs::write(lib.join("libslirp.so.0"), "").unwrap();
            fs::write(lib.join("pulse/libx.so.1"), "").unwrap();
            fs::write(lib.join("qemu/accel.so"), "").unwrap();
            let script = format!("#!/bin/sh\necho \"QEMU emulator version {version} $QEMU_MODULE_DIR\"\n");
            fs::write(&program, script).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        }
        assert_eq!(newest(cache.path()), Some(folder("10.0.2")));
        let qemu = unpacked(&folder("10.0.2")).unwrap();
        assert_eq!(qemu.version.to_string(), "v10.0.2");
        let lib = folder("10.0.2").join("usr/lib/x86_64-linux-gnu");
        assert_eq!(qemu.libraries, [lib.clone(), lib.join("pulse")]);
        assert_eq!(qemu.modules, Some(lib.join("qemu")));
        assert_eq!(qemu.data, [folder("10.0.2").join("usr/share/seabios")]);
        fs::write(qemu.program, "#!/bin/sh\necho 'error while loading' >&2\n").unwrap();
        let error = unpacked(&folder("10.0.2")).unwrap_err().to_string();
        assert!(error.contains("error while loading") && error.contains("fetch qemu"), "{error}");
    }
}
