//! Files that patches change and that are in no object of an image: those changes have no effect.
//!
//! The compiler lists the files that it reads (`.NAME.o.cmd`), and so does kconfig (`include/config/auto.conf.cmd`). A
//! makefile counts as read if it stands above an object.

use super::Overlay;
use crate::diff::{FileDiff, Patch};
use crate::kconfig::is_kconfig;
use crate::make::Make;
use schedlab_base::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// kconfig's list of the files that it has read, in the folder of objects.
const CONFIG_FILES: &str = "include/config/auto.conf.cmd";
/// Folders of files that no kernel is made of.
const BESIDE: [&str; 4] = ["Documentation", "tools", "samples", "scripts"];

/// A file that a patch changes and that the image is not made of.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Outside {
    pub patch: String,
    pub path: String,
    /// The overlay's file that stands in for it, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shim: Option<String>,
}

impl Outside {
    pub fn words(&self) -> String {
        let Outside { patch, path, .. } = self;
        let what = match path.rsplit('.').next().unwrap_or_default() {
            _ if is_kconfig(path) => "whose options the image does not have",
            "h" => "which nothing in the image includes",
            _ => "which the image does not compile",
        };
        let shim = self.shim.as_ref().map(|shim| format!(" ({shim} stands for it)"));
        let shim = shim.unwrap_or_default();
        format!("{patch} changes {path}, {what}{shim}: that part of the patch has no effect here")
    }
}

/// The changed files that are outside, each once. `objects` are paths of the image's objects in their folder.
///
/// # Errors
/// When the compiler's notes can't be read.
pub(super) fn of(
    patches: &[Patch],
    overlay: Overlay<'_>,
    make: &Make<'_>,
    objects: &[String],
) -> Result<Vec<Outside>> {
    let inside = Inside::of(make.objects, make.tree, objects)?;
    let mut all: Vec<Outside> = Vec::new();
    for patch in patches {
        // A file that a patch removes is gone from the tree: no tool can have read it.
        let changed = patch.files.iter().filter(|f| f.new.is_some()).map(FileDiff::path);
        for path in changed.filter(|path| is_code(path) && !inside.has(path)) {
            if !all.iter().any(|o| o.path == path) {
                let shim = overlay.stands_for(path);
                all.push(Outside { patch: patch.name.clone(), path: path.to_owned(), shim });
            }
        }
    }
    Ok(all)
}

/// Whether a file may be part of a kernel.
fn is_code(path: &str) -> bool {
    let first = path.split('/').next().unwrap_or_default();
    let is_text = [".rst", ".txt", ".gitignore", ".mailmap"].iter().any(|end| path.ends_with(end));
    !BESIDE.contains(&first) && !is_text && !["MAINTAINERS", "CREDITS"].contains(&path)
}

/// The files and folders that an image is made of, by paths of the tree.
struct Inside {
    files: BTreeSet<String>,
    /// Folders with objects, and the folders above them.
    folders: BTreeSet<String>,
}

impl Inside {
    fn of(folder: &Path, tree: &Path, objects: &[String]) -> Result<Inside> {
        let (mut files, mut folders) = (BTreeSet::new(), BTreeSet::from([String::new()]));
        let notes = objects.iter().map(|object| {
            let (place, name) = object.rsplit_once('/').unwrap_or(("", object));
            format!("{place}/.{name}.cmd")
        });
        for note in notes.chain([CONFIG_FILES.to_owned()]) {
            let path = folder.join(note);
            let text = fs::read_to_string(&path).map_err(|e| Error::io(&path, "read", &e))?;
            files.extend(named(&text, tree));
        }
        for object in objects {
            let above = Path::new(object).ancestors().skip(1);
            folders.extend(above.map(|folder| folder.to_string_lossy().into_owned()));
        }
        Ok(Inside { files, folders })
    }
    fn has(&self, path: &str) -> bool {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let is_makefile = matches!(name, "Makefile" | "Kbuild");
        self.files.contains(path) || (is_makefile && self.folders.contains(folder))
    }
}

/// The tree's files that a note names: one for each word, as a path from the root or from the tree.
fn named<'n>(note: &'n str, tree: &'n Path) -> impl Iterator<Item = String> + 'n {
    let words = note.lines().map(|line| line.trim().trim_end_matches('\\').trim_end());
    // The source's line is "source_X := PATH".
    let words = words.map(|line| line.rsplit(' ').next().unwrap_or_default());
    words.map(move |word| {
        let own = Path::new(word).strip_prefix(tree).unwrap_or(Path::new(word));
        own.to_string_lossy().into_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    const OVERLAY: Overlay<'static> =
        Overlay(&[("image/tasks.c", "/*\n * Tasks. Stands for kernel/fork.c and kernel/pid.c.\n */\n")]);

    /// A folder of objects with the compiler's notes on kernel/sched/fair.o and those of kconfig.
    fn objects() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            "kernel/sched/.fair.o.cmd",
            "savedcmd_kernel/sched/fair.o := gcc -c\n\nsource_kernel/sched/fair.o := /t/tree/kernel/sched/fair.c\n\n\
             deps_kernel/sched/fair.o := \\\n    $(wildcard include/config/SMP) \\\n  \
             /t/tree/include/linux/sched.h \\\n  include/generated/x.h \\\n",
        );
        write(CONFIG_FILES, "deps_config := \\\n\tKconfig \\\n\tinit/Kconfig \\\n");
        folder
    }

    fn outside(paths: &[&str]) -> Vec<Outside> {
        let diff: String =
            paths.iter().map(|p| format!("--- a/{p}\n+++ b/{p}\n@@ -1 +1 @@\n-a\n+b\n")).collect();
        found(&diff)
    }
    fn found(diff: &str) -> Vec<Outside> {
        let patches = crate::diff::parse("p.patch", diff.as_bytes()).unwrap();
        let (folder, stop) = (objects(), AtomicBool::new(false));
        let (tree, log) = (Path::new("/t/tree"), folder.path().join("log"));
        let make = Make { tree, objects: folder.path(), log, expected: 0, stop: &stop };
        of(&patches, OVERLAY, &make, &["kernel/sched/fair.o".to_owned()]).unwrap()
    }

    #[test]
    fn files_that_no_object_is_made_of_are_outside() {
        let inside =
            ["kernel/sched/fair.c", "include/linux/sched.h", "init/Kconfig", "kernel/sched/Makefile"];
        let beside = ["Documentation/x.rst", "tools/rv/rv.h", "MAINTAINERS", "kernel/Makefile"];
        assert_eq!(outside(&[&inside[..], &beside[..]].concat()), []);
        let others = ["kernel/fork.c", "include/linux/rv.h", "arch/x86/Kconfig", "fs/Makefile"];
        let found = outside(&others);
        assert_eq!(found.iter().map(|o| o.path.as_str()).collect::<Vec<_>>(), others);
        assert_eq!(
            found[0].words(),
            "p.patch changes kernel/fork.c, which the image does not compile (arch/sim/image/tasks.c stands for it): \
             that part of the patch has no effect here"
        );
        assert!(
            found[1].words().contains("rv.h, which nothing in the image includes:"),
            "{}",
            found[1].words()
        );
        assert!(found[2].words().contains("whose options the image does not have:"), "{}", found[2].words());
    }

    #[test]
    fn a_file_that_a_patch_removes_is_not_outside() {
        assert_eq!(found("--- a/kernel/old.c\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"), []);
    }
}
