//! Fetching kernels and QEMU into the cache through the machine's package client. Nothing is installed.
//!
//! A kernel needs its image alone, because the drivers of the guest's devices are built in. QEMU comes with the
//! packages that it needs and the machine lacks, and is run from the cache ([`crate::emulator`]). A folder of the cache
//! is complete before it gets its name.

mod client;
mod packages;
mod sources;

use crate::emulator::{self, find_qemu};
use crate::{cache, images};
use cache::Note;
use client::Client;
use packages::{KernelPackages, Package, SOURCE_PACKAGE};
use schedlab_base::{Error, Result};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

/// The word for QEMU, among series of kernels.
pub const QEMU: &str = "qemu";
/// Fetched when no word is given: a long-term kernel with CFS, a kernel with sched_ext, and a QEMU for the
/// deterministic mode.
pub const USUAL: &[&str] = &["6.1", "7", QEMU];
const QEMU_PACKAGE: &str = "qemu-system-x86";

/// A kernel or QEMU that is in the cache, or installed, after `fetch`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Fetched {
    /// The word that asked for it.
    pub word: String,
    /// A kernel's release, or QEMU's version.
    pub name: String,
    /// The image, or QEMU's program.
    pub path: PathBuf,
    /// Whether it was fetched now rather than found.
    pub new: bool,
}

impl Fetched {
    /// Whether it is new, in words.
    pub fn state(&self) -> &'static str {
        if self.new { "fetched" } else { "was there already" }
    }
}

/// Fetches what the words name: [`QEMU`], or kernels by series ("6.1", "7"). Nothing is fetched for a word that the
/// cache can answer, unless `refresh` asks for newer versions.
///
/// # Errors
/// When a word is neither, the machine has no package client, or the client fails.
pub fn fetch(
    words: &[String],
    cache: &Path,
    refresh: bool,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<Fetched>> {
    words.iter().try_for_each(|w| check(w))?;
    let mut client = None;
    let mut all = Vec::new();
    for word in words {
        let there = if refresh { None } else { there(word, cache) };
        all.push(match there {
            Some(there) => there,
            None => {
                let client = match &mut client {
                    Some(client) => client,
                    none => none.insert(Client::start(cache, say)?),
                };
                if word == QEMU { qemu(client, cache, say)? } else { kernel(client, word, cache, say)? }
            }
        });
    }
    Ok(all)
}

fn check(word: &str) -> Result<()> {
    let parts: Vec<&str> = word.split('.').collect();
    let numbers = parts.iter().all(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()));
    if word == QEMU || (numbers && parts.len() <= 3) {
        return Ok(());
    }
    Err(Error::input(format!("'{word}' is neither 'qemu' nor a series of kernels"))
        .help("write a series as 6.1, 6.12 or 7"))
}

fn there(word: &str, cache: &Path) -> Option<Fetched> {
    let of = |name, path| Fetched { word: word.to_owned(), name, path, new: false };
    if word == QEMU {
        let folder = emulator::newest(cache)?;
        let name = folder.file_name()?.to_string_lossy().into_owned();
        return Some(of(name, folder.join(emulator::PROGRAM)));
    }
    images::in_cache(word, cache).map(|image| of(image.release, image.path))
}

fn kernel(client: &mut Client, series: &str, cache: &Path, say: &mut dyn FnMut(&str)) -> Result<Fetched> {
    let mut names = client.names("linux-")?;
    if packages::newest(&names, series).is_none() && client.look_back(say)? {
        names = client.names("linux-")?;
    }
    let Some(kernel) = packages::newest(&names, series) else {
        let has = packages::series(&names).join(", ");
        if has.is_empty() {
            return Err(client.knows_no("kernel at all"));
        }
        return Err(Error::machine(format!("the package client has no kernel {series}"))
            .help(format!("it has {has}; for others give the path of a bzImage (--kernel FILE)")));
    };
    let version = client.version(&kernel.image)?;
    let place = cache::kernels(cache).join(&kernel.release);
    let note = Note { package: kernel.image.clone(), version };
    let image = place.join("vmlinuz");
    let new = Note::read(&place).as_ref() != Some(&note) || !image.is_file();
    if new {
        say(&format!("fetching {} {}", note.package, note.version));
        let kept = kept(client, &kernel, &note)?;
        put_in_place(&kept, &place)?;
    }
    Ok(Fetched { word: series.to_owned(), name: kernel.release, path: image, new })
}

/// The tree within a folder of sources.
pub const TREE: &str = "tree";

/// Fetches the distribution's source of a kernel series into the cache, unpacked; returns its folder, which has the
/// note of its package and the tree ([`TREE`]). A source in the cache is not fetched again.
///
/// # Errors
/// As [`fetch`], and when the source can't be unpacked.
pub fn source(series: &str, cache: &Path, refresh: bool, say: &mut dyn FnMut(&str)) -> Result<PathBuf> {
    check(series)?;
    if let Some(there) = source_in_cache(series, cache).filter(|_| !refresh) {
        return Ok(there);
    }
    let mut client = Client::start(cache, say)?;
    let mut all = packages::sources(&client.names(SOURCE_PACKAGE)?);
    let newest = |all: &[String]| {
        let fit = all.iter().filter(|own| images::starts(series, own));
        fit.max_by(|a, b| schedlab_base::natural(a, b)).cloned()
    };
    if newest(&all).is_none() && client.look_back(say)? {
        all = packages::sources(&client.names(SOURCE_PACKAGE)?);
    }
    let Some(own) = newest(&all) else {
        if all.is_empty() {
            return Err(client.knows_no("source of a kernel"));
        }
        return Err(Error::machine(format!("the package client has no source of kernel {series}"))
            .help(format!("it has {}; --source FOLDER takes a tree of your own", all.join(", "))));
    };
    let package = format!("{SOURCE_PACKAGE}{own}");
    let version = client.version(&package)?;
    let note = Note { package, version };
    let place = cache::sources(cache).join(format!("{}_{}", note.package, note.version));
    if Note::read(&place).as_ref() == Some(&note) {
        return Ok(place);
    }
    say(&format!("fetching {} {}", note.package, note.version));
    let wanted = Package { name: note.package.clone(), version: note.version.clone() };
    let unpacked = client.unpacked("source", &[wanted])?;
    let packed = fs::read_dir(unpacked.join("usr/src")).into_iter().flatten().flatten().map(|e| e.path());
    let Some(packed) = packed.into_iter().find(|p| p.to_string_lossy().contains(".tar.")) else {
        return Err(Error::machine(format!("package {} {} holds no source", note.package, note.version))
            .help("--source FOLDER takes a tree of your own"));
    };
    say("unpacking it");
    let folder = client.folder("source.kept")?;
    unpack(&packed, &folder.join(TREE))?;
    note.write(&folder)?;
    put_in_place(&folder, &place)?;
    Ok(place)
}

pub fn source_in_cache(series: &str, cache: &Path) -> Option<PathBuf> {
    let all = cache::entries(&cache::sources(cache)).into_iter();
    let of = |folder: PathBuf| {
        let note = Note::read(&folder)?;
        let own = note.package.strip_prefix(SOURCE_PACKAGE)?;
        (images::starts(series, own) || images::starts(series, &note.version))
            .then_some((note.version, folder))
    };
    all.filter_map(of).max_by(|a, b| schedlab_base::natural(&a.0, &b.0)).map(|(_, folder)| folder)
}

/// Unpacks a tarball into a folder, without the tarball's own first folder.
///
/// # Errors
/// When tar is not there or fails; the error quotes it.
pub fn unpack(packed: &Path, into: &Path) -> Result<()> {
    fs::create_dir_all(into).map_err(|e| Error::io(into, "make", &e))?;
    let mut tar = std::process::Command::new("tar");
    tar.arg("-x")
        .arg("-f")
        .arg(packed)
        .arg("--strip-components=1")
        .arg("--no-same-owner")
        .arg("-C")
        .arg(into);
    let output =
        tar.env("LC_ALL", "C").output().map_err(|e| Error::machine(format!("tar can't be started: {e}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = said.lines().next().unwrap_or("nothing").to_owned();
    Err(Error::machine(format!("{} can't be unpacked; tar said: {line}", packed.display()))
        .help("is the disk full, or the file torn?"))
}

/// Makes a folder with the image, its configuration and the note.
fn kept(client: &Client, kernel: &KernelPackages, note: &Note) -> Result<PathBuf> {
    let mut wanted = vec![Package { name: note.package.clone(), version: note.version.clone() }];
    if let Some(config) = &kernel.config {
        wanted.push(Package { name: config.clone(), version: client.version(config)? });
    }
    let unpacked = client.unpacked(&kernel.release, &wanted)?;
    let of = |name: &str| {
        let places = ["boot", "usr/lib/modules", "lib/modules"].map(|d| unpacked.join(d));
        let [boot, usr, lib] = places;
        [
            boot.join(format!("{name}-{}", kernel.release)),
            usr.join(&kernel.release).join(name),
            lib.join(&kernel.release).join(name),
        ]
        .into_iter()
        .find(|p| p.is_file())
    };
    let Some(image) = of("vmlinuz") else {
        return Err(Error::machine(format!("package {} {} holds no vmlinuz", note.package, note.version))
            .help("give the path of a bzImage (--kernel FILE)"));
    };
    crate::Image::open(&image)?;
    let folder = client.folder(&format!("{}.kept", kernel.release))?;
    let mut moves = vec![(image, "vmlinuz")];
    moves.extend(of("config").map(|path| (path, "config")));
    for (from, name) in moves {
        fs::rename(&from, folder.join(name)).map_err(|e| Error::io(&from, "move", &e))?;
    }
    note.write(&folder)?;
    Ok(folder)
}

fn qemu(client: &Client, cache: &Path, say: &mut dyn FnMut(&str)) -> Result<Fetched> {
    let wanted = packages::closure(&client.simulate(&[QEMU_PACKAGE, "seabios"])?);
    let Some(own) = wanted.iter().find(|p| p.name == QEMU_PACKAGE) else {
        let qemu = find_qemu()?;
        say(&format!("the installed QEMU is as new as the package client's: {}", qemu.number()));
        let name = qemu.number();
        return Ok(Fetched { word: QEMU.to_owned(), name, path: qemu.program, new: false });
    };
    let name = packages::upstream(&own.version).to_owned();
    let place = cache::qemus(cache).join(&name);
    let note = Note { package: own.name.clone(), version: own.version.clone() };
    let new = Note::read(&place).as_ref() != Some(&note) || !place.join(emulator::PROGRAM).is_file();
    if new {
        say(&format!(
            "fetching {} {} and {} it needs",
            note.package,
            note.version,
            schedlab_base::counted(wanted.len() - 1, "package")
        ));
        let folder = client.unpacked(QEMU, &wanted)?;
        note.write(&folder)?;
        emulator::unpacked(&folder)?;
        put_in_place(&folder, &place)?;
    }
    Ok(Fetched { word: QEMU.to_owned(), name, path: place.join(emulator::PROGRAM), new })
}

/// Renames a complete folder into place, and moves away the folder that was there.
///
/// # Errors
/// When writing fails.
pub fn put_in_place(folder: &Path, place: &Path) -> Result<()> {
    let failed = |e: std::io::Error| Error::io(place, "make", &e);
    if let Some(above) = place.parent() {
        fs::create_dir_all(above).map_err(failed)?;
    }
    let mut old = folder.as_os_str().to_owned();
    old.push(".old");
    if place.exists() {
        fs::rename(place, old).map_err(failed)?;
    }
    fs::rename(folder, place).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::header;

    #[test]
    fn words_are_series_or_qemu() {
        for good in USUAL.iter().copied().chain(["6.12", "6.12.57"]) {
            assert!(check(good).is_ok(), "{good}");
        }
        for bad in ["", "six", "6.", "v6.1", "6.1-rc1", "Qemu", "1.2.3.4"] {
            assert!(check(bad).unwrap_err().to_string().contains("6.12"), "{bad}");
        }
    }

    #[test]
    fn a_cached_kernel_is_not_fetched_again() {
        let cache = tempfile::tempdir().unwrap();
        let folder = cache::kernels(cache.path()).join("6.1.0-56-cloud-amd64");
        fs::create_dir_all(&folder).unwrap();
        let banner = "6.1.0-56-cloud-amd64 (k@x) #1 SMP Debian 6.1.192-2";
        fs::write(folder.join("vmlinuz"), header::tests::image(banner)).unwrap();
        let program = cache::qemus(cache.path()).join("10.0.2").join(emulator::PROGRAM);
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        fs::write(&program, "").unwrap();
        let words = ["6.1".to_owned(), "qemu".to_owned()];
        let all = fetch(&words, cache.path(), false, &mut |said| panic!("{said}")).unwrap();
        assert_eq!((all[0].name.as_str(), all[0].new), ("6.1.0-56-cloud-amd64", false));
        assert_eq!((all[1].name.as_str(), &all[1].path), ("10.0.2", &program));
        assert!(fetch(&["x".to_owned()], cache.path(), false, &mut |_| ()).is_err());
    }

    #[test]
    fn a_folder_takes_the_place_of_an_older_one() {
        let cache = tempfile::tempdir().unwrap();
        let (new, place) = (cache.path().join("new"), cache.path().join("kernels/x"));
        for (folder, text) in [(&place, "old"), (&new, "new")] {
            fs::create_dir_all(folder).unwrap();
            fs::write(folder.join("vmlinuz"), text).unwrap();
        }
        put_in_place(&new, &place).unwrap();
        assert_eq!(fs::read_to_string(place.join("vmlinuz")).unwrap(), "new");
    }
}
