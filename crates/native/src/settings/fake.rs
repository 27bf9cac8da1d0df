//! A kernel's files in memory for tests: `features` accepts one name and shows all, bad numbers are refused, new
//! control groups have files, and sealed files are read-only.

use super::files::Files;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Text by path; paths in `sealed` are read-only.
#[derive(Default)]
pub struct FakeKernel {
    pub files: RefCell<BTreeMap<PathBuf, String>>,
    pub sealed: Vec<PathBuf>,
}

impl FakeKernel {
    pub fn with(files: &[(&str, &str)]) -> FakeKernel {
        let files = files.iter().map(|(path, text)| (PathBuf::from(path), format!("{text}\n"))).collect();
        FakeKernel { files: RefCell::new(files), sealed: Vec::new() }
    }
    pub fn text(&self, path: &str) -> String {
        self.files.borrow()[Path::new(path)].trim_end().to_owned()
    }
}

fn toggled(list: &str, wanted: &str) -> io::Result<String> {
    let name = super::form::feature_name(wanted.trim());
    let words: Vec<&str> = list.split_whitespace().collect();
    if !words.iter().any(|w| super::form::feature_name(w) == name) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let turn = |w: &&str| {
        if super::form::feature_name(w) == name { wanted.trim().to_owned() } else { (*w).to_owned() }
    };
    Ok(words.iter().map(turn).collect::<Vec<_>>().join(" "))
}

impl Files for FakeKernel {
    fn place(&self, path: &str) -> PathBuf {
        PathBuf::from(path)
    }
    fn read(&self, path: &Path) -> io::Result<String> {
        self.files.borrow().get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        self.writable(path)?;
        let old = self.read(path)?;
        let new = match path.file_name().and_then(|n| n.to_str()) {
            Some("features" | "sched_features") => toggled(&old, text)?,
            Some("preempt") => {
                let bare = old.replace(['(', ')'], "");
                bare.replace(text.trim(), &format!("({})", text.trim()))
            }
            // Like a driver that rounds its value.
            Some("scaling_min_freq") => format!("{}", text.trim().parse::<u64>().unwrap_or(0) / 1000 * 1000),
            Some("cgroup.subtree_control") => match text.split_at(1) {
                ("+", name) => format!("{} {name}", old.trim()),
                (_, name) => old.split_whitespace().filter(|w| *w != name).collect::<Vec<_>>().join(" "),
            },
            _ => text.to_owned(),
        };
        self.files.borrow_mut().insert(path.to_owned(), format!("{}\n", new.trim_end()));
        Ok(())
    }
    fn writable(&self, path: &Path) -> io::Result<()> {
        self.read(path)?;
        if self.sealed.iter().any(|p| p == path) {
            Err(io::ErrorKind::PermissionDenied.into())
        } else {
            Ok(())
        }
    }
    fn is_folder(&self, path: &Path) -> bool {
        self.files.borrow().keys().any(|file| file.starts_with(path) && file != path)
    }
    fn make_group(&self, path: &Path) -> io::Result<()> {
        let above = path.parent().filter(|above| self.is_folder(above)).ok_or(io::ErrorKind::NotFound)?;
        if self.sealed.iter().any(|p| p == above) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        // A new group has the files of its parent group.
        let names: Vec<String> = self
            .list(above)
            .into_iter()
            .filter(|name| self.files.borrow().contains_key(&above.join(name)))
            .collect();
        let mut files = self.files.borrow_mut();
        files.extend(names.iter().map(|name| (path.join(name), "\n".to_owned())));
        Ok(())
    }
    fn remove_group(&self, path: &Path) -> io::Result<()> {
        let own = |file: &PathBuf| file.parent() == Some(path);
        if self.files.borrow().keys().any(|file| file.starts_with(path) && !own(file)) {
            return Err(io::Error::from_raw_os_error(libc::EBUSY));
        }
        self.files.borrow_mut().retain(|file, _| !own(file));
        Ok(())
    }
    fn list(&self, folder: &Path) -> Vec<String> {
        let files = self.files.borrow();
        let below = files.keys().filter_map(|p| p.strip_prefix(folder).ok());
        let mut names: Vec<String> =
            below.filter_map(|p| Some(p.components().next()?.as_os_str().to_str()?.to_owned())).collect();
        names.dedup();
        names
    }
}
