//! The machine's package client (apt), run on a state of its own.
//!
//! Lists, downloads and sources are in a work folder of the cache, which is removed when the [`Client`] is dropped. The
//! client reads the machine's list of installed packages, keys and network settings (proxies), and writes nothing
//! there. It takes no lock of the machine, runs no hook of its configuration, and needs no privilege.

use super::packages::Package;
use super::sources::{self, More};
use schedlab_base::{Error, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const WORK: &str = ".work-";
/// An error shows this many lines of the client's output.
const SHOWN_LINES: usize = 5;

/// A work folder of the cache, removed when this is dropped. The folder of a killed process is removed when the next
/// one is made.
#[derive(Debug)]
pub struct Work(PathBuf);

impl Work {
    pub fn new(cache: &Path) -> Result<Work> {
        let left = fs::read_dir(cache).into_iter().flatten().flatten().filter(|e| {
            let name = e.file_name().to_string_lossy().into_owned();
            name.strip_prefix(WORK).is_some_and(|pid| !Path::new("/proc").join(pid).exists())
        });
        left.for_each(|e| drop(fs::remove_dir_all(e.path())));
        let path = cache.join(format!("{WORK}{}", std::process::id()));
        let made = fs::create_dir_all(&path).and_then(|()| path.canonicalize());
        made.map(Work).map_err(|e| {
            let help = format!("{} names another cache", crate::cache::CACHE_VARIABLE);
            Error::io(&path, "make", &e).help(help)
        })
    }
    pub fn folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.0.join(name);
        fs::create_dir_all(&path).map_err(|e| Error::io(&path, "make", &e))?;
        Ok(path)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // A folder that can't be removed now is removed by the next fetch.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[derive(Debug)]
pub struct Client {
    work: Work,
    config: PathBuf,
    /// The machine's release.
    codename: String,
    /// Lists in addition to those of the release's own suites.
    more: More,
    /// The client's output about its lists, for errors about missing packages.
    said: String,
}

impl Client {
    /// Starts the client on a machine that has apt, and gets the lists of the machine's release, of its backports and
    /// of the backports of the stable release.
    ///
    /// # Errors
    /// A machine without apt, without sources of its release, or a cache that can't be written.
    pub fn start(cache: &Path, say: &mut dyn FnMut(&str)) -> Result<Client> {
        check_tools()?;
        let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
        let codename = codename(&release).unwrap_or_else(|| "stable".to_owned());
        let work = Work::new(cache)?;
        let config = work.0.join("apt.conf");
        let mut client = Client { work, config, codename, more: More::default(), said: String::new() };
        client.configure()?;
        say("asking the package client for its lists");
        // Only the stable release's own list reports its codename. Mirrors may update suites named "stable" late, so
        // the codename is used from here on.
        client.more.suites = vec![client.backports(), "stable-backports".to_owned()];
        client.update()?;
        let stable =
            client.release_files()?.find(|r| r.file.contains("stable-backports_")).map(|r| r.codename);
        if let Some(stable) = stable.filter(|s| *s != client.backports()) {
            client.more.suites = vec![client.backports(), stable];
            client.update()?;
        }
        Ok(client)
    }

    /// Also gets the lists of releases before the machine's; returns whether there are any. They have older kernels and
    /// take some seconds, so only searches that failed without them should ask.
    ///
    /// # Errors
    /// As [`Client::start`].
    pub fn look_back(&mut self, say: &mut dyn FnMut(&str)) -> Result<bool> {
        let own = self.release_files()?.find(|r| r.codename == self.codename).map(|r| r.suite);
        let older = sources::older_than(own.as_deref());
        if older.is_empty() || !self.more.older.is_empty() {
            return Ok(false);
        }
        say("asking for the lists of older releases, too");
        self.more.older = older.iter().map(|suite| (*suite).to_owned()).collect();
        self.update()?;
        // Suites of security updates are known by codename only.
        let named = self.release_files()?.filter(|r| older.contains(&r.suite.as_str()));
        self.more.older_security = named.map(|r| format!("{}-security", r.codename)).collect();
        self.update()?;
        Ok(true)
    }

    /// The heads of the lists, which name their releases.
    fn release_files(&self) -> Result<impl Iterator<Item = ReleaseFile> + use<>> {
        let files = fs::read_dir(self.work.folder("lists")?).into_iter().flatten().flatten();
        Ok(files.filter_map(|e| {
            let file = e.file_name().to_string_lossy().into_owned();
            let text = fs::read_to_string(e.path()).ok().filter(|_| file.ends_with("Release"))?;
            ReleaseFile::of(file, &text)
        }))
    }

    /// The suite of this machine's backports.
    fn backports(&self) -> String {
        format!("{}-backports", self.codename)
    }

    fn configure(&self) -> Result<()> {
        let at = |name: &str| self.work.0.join(name).display().to_string();
        for folder in ["lists/partial", "archives/partial", "parts"] {
            self.work.folder(folder)?;
        }
        let text = format!(
            "#clear APT::Update;\n#clear DPkg::Pre-Invoke;\n#clear DPkg::Post-Invoke;\n#clear APT::Default-Release;\n\
             Dir::State \"{0}\";\nDir::State::lists \"{1}\";\nDir::State::status \"/var/lib/dpkg/status\";\n\
             Dir::Cache \"{0}\";\nDir::Cache::archives \"{2}\";\nDir::Etc::sourcelist \"/dev/null\";\n\
             Dir::Etc::sourceparts \"{3}\";\nDir::Etc::preferences \"/dev/null\";\n\
             Dir::Etc::preferencesparts \"/dev/null\";\nDebug::NoLocking \"1\";\nAcquire::Languages \"none\";\n\
             APT::Sandbox::User \"root\";\n",
            self.work.0.display(),
            at("lists"),
            at("archives"),
            at("parts"),
        );
        fs::write(&self.config, text).map_err(|e| Error::io(&self.config, "write", &e))
    }

    /// Gets the lists. A suite that a mirror lacks is not an error; a package that is not found later is one.
    fn update(&mut self) -> Result<()> {
        let text = sources::derive(&sources::of_machine(), &self.codename, &self.more);
        if text.is_empty() {
            let text =
                format!("the package client has no source of this machine's release ({})", self.codename);
            return Err(Error::machine(text).help(BY_HAND));
        }
        let path = self.work.0.join("parts/derived.sources");
        fs::write(&path, text).map_err(|e| Error::io(&path, "write", &e))?;
        self.said = self.run("apt-get", &["-q", "update"], &self.work.0)?.text;
        Ok(())
    }

    /// Makes a folder next to the unpacked packages. It is removed when the client is dropped, unless it is moved away.
    ///
    /// # Errors
    /// When writing fails.
    pub fn folder(&self, name: &str) -> Result<PathBuf> {
        self.work.folder(name)
    }

    /// Names of packages that begin with a prefix, installed ones included.
    ///
    /// # Errors
    /// When the client can't be started.
    pub fn names(&self, prefix: &str) -> Result<Vec<String>> {
        let told = self.run("apt-cache", &["pkgnames", prefix], &self.work.0)?;
        let names = told.text.lines().map(str::trim).filter(|l| l.starts_with(prefix));
        Ok(names.map(str::to_owned).collect())
    }

    /// The error for an unknown package. The lists may be at fault, so it quotes the client's output about them.
    pub fn knows_no(&self, what: &str) -> Error {
        let said = last_lines(&self.said);
        Error::machine(format!("the package client knows no {what}; it said of its lists:\n{said}"))
            .help(format!("check the network, or {BY_HAND}"))
    }

    /// Simulates an installation of packages, from the backports where there are any; returns the client's output.
    ///
    /// # Errors
    /// When the client can't resolve the dependencies.
    pub fn simulate(&self, packages: &[&str]) -> Result<String> {
        let backports = self.backports();
        let listed = fs::read_dir(self.work.folder("lists")?).into_iter().flatten().flatten();
        let has =
            listed.into_iter().any(|e| e.file_name().to_string_lossy().contains(&format!("_{backports}_")));
        let mut words = vec!["-q", "-s", "--no-install-recommends", "install"];
        words.extend(has.then_some(["-t", &backports]).into_iter().flatten());
        words.extend(packages);
        let told = self.run("apt-get", &words, &self.work.0)?;
        if told.good {
            Ok(told.text)
        } else {
            Err(told.error("the package client can't put the packages together"))
        }
    }

    /// Downloads packages and unpacks them into one folder of the work folder; returns that folder.
    ///
    /// # Errors
    /// When the client or the unpacker fails, with their words.
    pub fn unpacked(&self, name: &str, packages: &[Package]) -> Result<PathBuf> {
        let (debs, target) = (self.work.folder(&format!("{name}.debs"))?, self.work.folder(name)?);
        let named: Vec<String> = packages.iter().map(|p| format!("{}={}", p.name, p.version)).collect();
        let mut words = vec!["-q", "download"];
        words.extend(named.iter().map(String::as_str));
        let told = self.run("apt-get", &words, &debs)?;
        if !told.good {
            return Err(told.error("a package could not be downloaded"));
        }
        let files = fs::read_dir(&debs).map_err(|e| Error::io(&debs, "read", &e))?;
        for file in files.flatten().map(|e| e.path()) {
            let (deb, to) = (file.to_string_lossy().into_owned(), target.to_string_lossy().into_owned());
            let told = self.run("dpkg-deb", &["-x", &deb, &to], &debs)?;
            if !told.good {
                return Err(told.error(&format!("{} could not be unpacked", file.display())));
            }
        }
        // Files that can't be removed here are removed with the work folder.
        let _ = fs::remove_dir_all(&debs);
        Ok(target)
    }

    /// The version that would be installed.
    ///
    /// # Errors
    /// A package without one.
    pub fn version(&self, package: &str) -> Result<String> {
        let told = self.run("apt-cache", &["policy", package], &self.work.0)?;
        let candidate = told.text.lines().find_map(|l| l.trim().strip_prefix("Candidate:")).map(str::trim);
        match candidate.filter(|c| *c != "(none)") {
            Some(version) => Ok(version.to_owned()),
            None => Err(told.error(&format!("the package client has no version of {package}"))),
        }
    }

    fn run(&self, program: &str, words: &[&str], folder: &Path) -> Result<ClientOutput> {
        let mut command = Command::new(program);
        if program != "dpkg-deb" {
            command.arg("-c").arg(&self.config);
        }
        command.args(words).current_dir(folder).env("LC_ALL", "C").stdin(Stdio::null());
        let output = command
            .output()
            .map_err(|e| Error::machine(format!("{program} can't be started: {e}")).help(BY_HAND))?;
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text += &String::from_utf8_lossy(&output.stderr);
        if !output.status.success() && text.trim().is_empty() {
            text = format!("{program} said nothing and ended with {}", output.status);
        }
        Ok(ClientOutput { good: output.status.success(), text })
    }
}

/// The head of a list: the release to which it belongs.
struct ReleaseFile {
    file: String,
    suite: String,
    codename: String,
}

impl ReleaseFile {
    fn of(file: String, text: &str) -> Option<ReleaseFile> {
        let field = |name: &str| text.lines().find_map(|l| l.strip_prefix(name)).map(|v| v.trim().to_owned());
        Some(ReleaseFile { file, suite: field("Suite: ")?, codename: field("Codename: ")? })
    }
}

struct ClientOutput {
    good: bool,
    text: String,
}

impl ClientOutput {
    fn error(&self, what: &str) -> Error {
        Error::machine(format!("{what}:\n{}", last_lines(&self.text))).help(BY_HAND)
    }
}

const BY_HAND: &str =
    "give the path of an image or program that you have: --kernel FILE, SCHEDLAB_QEMU=PROGRAM";

/// The lines that apt marks as errors; without any, its last lines.
fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|l| !l.is_empty()).collect();
    let marked: Vec<&str> =
        lines.iter().copied().filter(|l| l.starts_with("E:") || l.starts_with("Err:")).collect();
    let shown = if marked.is_empty() { lines } else { marked };
    let from = shown.len().saturating_sub(SHOWN_LINES);
    shown[from..].iter().map(|l| format!("    {l}")).collect::<Vec<_>>().join("\n")
}

fn check_tools() -> Result<()> {
    if std::env::consts::ARCH != "x86_64" {
        return Err(Error::machine("guests are x86-64 machines: nothing can be fetched for them here"));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = |tool: &str| std::env::split_paths(&path).any(|d| d.join(tool).is_file());
    match ["apt-get", "apt-cache", "dpkg-deb"].into_iter().find(|t| !there(t)) {
        None => Ok(()),
        Some(tool) => {
            Err(Error::machine(format!("'kernel fetch' works through apt, and this machine has no {tool}"))
                .help(format!(
                    "get a bzImage (and QEMU 8.1 or later) from your distribution by hand, then {BY_HAND}"
                )))
        }
    }
}

/// The codename of the machine's release, from os-release(5).
fn codename(text: &str) -> Option<String> {
    let value = text.lines().find_map(|l| l.strip_prefix("VERSION_CODENAME="))?;
    let value = value.trim().trim_matches('"');
    (!value.is_empty()).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_show_the_lines_that_the_client_marked() {
        let text = "Get:1 x\nErr:2 http://m.example x Release\nW: hm\nE: Unable to locate package y\n\n";
        assert_eq!(
            last_lines(text),
            "    Err:2 http://m.example x Release\n    E: Unable to locate package y"
        );
        assert_eq!(last_lines("a\nb\nc\nd\ne\nf\n").lines().count(), SHOWN_LINES);
    }

    #[test]
    fn a_release_has_a_codename() {
        assert_eq!(codename("ID=debian\nVERSION_CODENAME=\"trixie\"\n").as_deref(), Some("trixie"));
        assert_eq!(codename("ID=arch\n"), None);
    }

    #[test]
    fn a_list_names_its_release() {
        let text =
            "-----BEGIN\n\nOrigin: Debian\nSuite: oldstable\nVersion: 12.12\nCodename: bookworm\nDate: x\n";
        let release = ReleaseFile::of("m_dists_bookworm_InRelease".to_owned(), text).unwrap();
        assert_eq!((release.suite.as_str(), release.codename.as_str()), ("oldstable", "bookworm"));
        assert!(ReleaseFile::of("x".to_owned(), "Suite: stable\n").is_none());
    }

    #[test]
    fn a_work_folder_is_removed_and_so_are_those_of_dead_processes() {
        let cache = tempfile::tempdir().unwrap();
        let dead = cache.path().join(format!("{WORK}4294967295"));
        let alive = cache.path().join(format!("{WORK}1"));
        [&dead, &alive].into_iter().for_each(|d| fs::create_dir_all(d.join("lists")).unwrap());
        let work = Work::new(cache.path()).unwrap();
        assert!(work.folder("lists").unwrap().is_dir());
        drop(work);
        assert!(!dead.exists() && alive.exists());
        assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 1);
    }
}
