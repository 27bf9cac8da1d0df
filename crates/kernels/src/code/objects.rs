//! Chooses the files of a tree that go into the image.

use super::Overlay;
use schedlab_base::Result;
use std::path::Path;

/// Folders that are built by their own Makefiles, so that files added by a patch are built, too.
pub(super) const FOLDERS: [&str; 2] = ["kernel/sched/", "arch/sim/image/"];

/// The archives that kbuild makes of these folders.
pub(super) fn archives() -> impl Iterator<Item = String> {
    FOLDERS.iter().map(|folder| format!("{folder}built-in.a"))
}

/// Objects of the overlay's list whose source the tree has.
///
/// # Errors
/// When the overlay has no list.
pub(super) fn of(overlay: Overlay<'_>, tree: &Path) -> Result<Vec<String>> {
    let there = |stem: &&str| tree.join(format!("{stem}.c")).is_file();
    Ok(overlay.list("objects")?.filter(there).map(|stem| format!("{stem}.o")).collect())
}

/// The objects that a folder's Makefile names, whether the configuration has them or not.
pub(super) fn named(makefile: &str) -> impl Iterator<Item = &str> {
    let lists = makefile.lines().filter(|line| line.starts_with("obj-"));
    lists.flat_map(str::split_whitespace).filter(|word| word.ends_with(".o"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_those_that_the_tree_has() {
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(tree.path().join("lib")).unwrap();
        std::fs::write(tree.path().join("lib/sort.c"), "").unwrap();
        let overlay = Overlay(&[("objects", "# why\nlib/sort\n\nlib/newer\n")]);
        assert_eq!(of(overlay, tree.path()).unwrap(), ["lib/sort.o"]);
    }

    #[test]
    fn a_makefile_names_its_objects() {
        let text = "# fair.o\nCFLAGS_core.o := -O2\nobj-y += core.o fair.o\nobj-$(CONFIG_X) += x.o image/\n";
        assert_eq!(named(text).collect::<Vec<_>>(), ["core.o", "fair.o", "x.o"]);
    }
}
