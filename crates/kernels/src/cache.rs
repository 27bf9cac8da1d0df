//! The cache: a folder for each fetched kernel image and QEMU, with a note that names its package.
//!
//! ```text
//! CACHE/kernels/RELEASE/{vmlinuz, config, note.json}
//! CACHE/qemu/VERSION/{usr/..., note.json}
//! CACHE/sources/SOURCE/{tree, note.json, ...}    kernels' sources and the objects compiled from them
//! CACHE/sources/bisect-HASH/...  commits of a repository that was bisected: their files, and what was built of them
//! CACHE/builds/NAME/{vmlinuz, config, built.json}  kernels built here
//! CACHE/images/NAME/{image.so, config, image.json}  the scheduler's own code, compiled for simulated machines
//! CACHE/.apt/                    the package client's own state: lists, sources, downloads
//! ```
//!
//! A folder is made under another name and renamed into place, so that each folder in place is complete.

use schedlab_base::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// The environment variable that names the cache.
pub const CACHE_VARIABLE: &str = "SCHEDLAB_CACHE_DIR";
const NOTE: &str = "note.json";

/// The cache folder: the one given, that of [`CACHE_VARIABLE`], or schedlab's in the user's cache.
///
/// # Errors
/// When the environment names none.
pub fn folder(given: Option<&Path>) -> Result<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    given
        .map(Path::to_owned)
        .or_else(|| named(CACHE_VARIABLE))
        .or_else(|| named("XDG_CACHE_HOME").map(|d| d.join("schedlab")))
        .or_else(|| named("HOME").map(|d| d.join(".cache/schedlab")))
        .ok_or_else(|| {
            Error::input("there is no folder for fetched kernels: HOME is not set")
                .help(format!("{CACHE_VARIABLE} names one"))
        })
}

pub fn kernels(cache: &Path) -> PathBuf {
    cache.join("kernels")
}

pub fn qemus(cache: &Path) -> PathBuf {
    cache.join("qemu")
}

pub fn sources(cache: &Path) -> PathBuf {
    cache.join("sources")
}

/// Where kernels built from sources are in a cache.
pub fn builds(cache: &Path) -> PathBuf {
    cache.join("builds")
}

pub fn images(cache: &Path) -> PathBuf {
    cache.join("images")
}

/// The note in a folder of the cache: the package it came from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Note {
    pub package: String,
    pub version: String,
}

impl Note {
    pub fn read(folder: &Path) -> Option<Note> {
        serde_json::from_str(&fs::read_to_string(folder.join(NOTE)).ok()?).ok()
    }
    pub fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(NOTE);
        let text = serde_json::to_string_pretty(self).map_err(|e| Error::internal(e.to_string()))?;
        fs::write(&path, text + "\n").map_err(|e| Error::io(&path, "write", &e))
    }
}

/// The folders in a folder, sorted; hidden ones, which are still being made, are left out.
pub fn entries(folder: &Path) -> Vec<PathBuf> {
    let listed = fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path());
    let hidden = |p: &Path| p.file_name().is_none_or(|n| n.as_encoded_bytes().starts_with(b"."));
    let mut all: Vec<PathBuf> = listed.filter(|p| p.is_dir() && !hidden(p)).collect();
    all.sort();
    all
}
