//! Kernel images on this machine: opens them, lists them, and finds the image that a word means.
//!
//! An image is identified by the hash of its bytes, so that a record means the same kernel wherever its file lies.
//! Images are looked for in the cache ([`cache`](crate::cache)), in /boot, and in the folders of modules, where newer
//! packages keep them.

mod find;
pub mod header;

pub use find::{Listed, Origin, list};
pub(crate) use find::{in_cache, starts};

use crate::catalog::CONFIG;
use header::Refused;
use schedlab_base::{Error, Result, Version};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The longest file that is read; no kernel image is longer, even with all its debug information.
const MOST_BYTES: u64 = 4 << 30;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The bzImage.
    pub path: PathBuf,
    /// The release as `uname -r` prints it ("6.1.0-56-cloud-amd64").
    pub release: String,
    /// The upstream version, if the image reports it.
    pub version: Version,
    /// Hash of its bytes. Records identify the image by it, wherever the file lies.
    pub hash: String,
}

impl Image {
    /// The image at a path.
    ///
    /// # Errors
    /// When the file can't be read or is not a bootable x86-64 kernel; the error says what it is and what to give
    /// instead.
    pub fn open(path: &Path) -> Result<Image> {
        let unreadable = |e: std::io::Error| unreadable(path, &e);
        let mut file = File::open(path).map_err(unreadable)?;
        let about = file.metadata().map_err(unreadable)?;
        if about.len() > MOST_BYTES {
            return Err(Refused::NoBanner.error(path).context("longer than any kernel image"));
        }
        if !about.is_file() {
            return Err(Error::input(format!("{} is not a file", path.display()))
                .help("give a kernel image: a bzImage, or /boot/vmlinuz-VERSION"));
        }
        let mut bytes = Vec::new();
        file.by_ref().take(header::ENOUGH as u64).read_to_end(&mut bytes).map_err(unreadable)?;
        let header = header::parse(&bytes).map_err(|refused| refused.error(path))?;
        let version = Version::parse(header.version()).map_err(|_| Refused::NoBanner.error(path))?;
        file.read_to_end(&mut bytes).map_err(unreadable)?;
        let path = path.canonicalize().map_err(unreadable)?;
        let hash = schedlab_base::content_hash(&bytes);
        Ok(Image { path, release: header.release().to_owned(), version, hash })
    }
    /// The image that a word means: a path, or the start of a version or release ("6.1", "7", "6.1.0-56").
    ///
    /// # Errors
    /// When there is no such file, no bootable image, or no image of that version; the error names the images of this
    /// machine and how to get one.
    pub fn find(word: &str) -> Result<Image> {
        find::find(word)
    }
    /// The configuration it was built with: fetched and built images have it beside them, installed ones in /boot or
    /// with their modules. `None` if there is none.
    pub fn config(&self) -> Option<PathBuf> {
        let beside = |name: &str| self.path.with_file_name(name);
        let (named, modules) =
            (format!("config-{}", self.release), format!("/lib/modules/{}/config", self.release));
        let boot = Path::new("/boot").join(&named);
        [beside(&named), beside(CONFIG), boot, modules.into()].into_iter().find(|path| path.is_file())
    }
}

/// Distributions make images readable by root only. The help offers a way that does not run everything as root.
fn unreadable(path: &Path, e: &std::io::Error) -> Error {
    let error = Error::io(path, "read", e);
    match e.kind() {
        std::io::ErrorKind::PermissionDenied => error.help(format!(
            "only root may read it: 'sudo install -m 644 {} .' makes a copy for you, or 'schedlab kernel fetch' gets one",
            path.display()
        )),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_known_by_its_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let banner = "6.1.0-56-cloud-amd64 (k@x) #1 SMP Debian 6.1.192-2 (2026-11-16)";
        let mut bytes = header::tests::image(banner);
        let image = Image::open(&put("a", &bytes)).unwrap();
        assert_eq!(
            (image.release.as_str(), image.version.to_string().as_str()),
            ("6.1.0-56-cloud-amd64", "v6.1.192")
        );
        bytes.push(1);
        assert_ne!(Image::open(&put("b", &bytes)).unwrap().hash, image.hash, "all of the file counts");
        let elf = Image::open(&put("vmlinux", b"\x7fELF and more")).unwrap_err().to_string();
        assert!(elf.contains("vmlinux is an ELF file") && elf.contains("help: give the bzImage"), "{elf}");
        let folder = Image::open(dir.path()).unwrap_err().to_string();
        assert!(folder.contains("is not a file"), "{folder}");
        let none = Image::open(&dir.path().join("none")).unwrap_err();
        assert_eq!(none.kind().exit_code(), 2);
    }
}
