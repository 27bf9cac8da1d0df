//! Chooses the files of a tree that go into the image.

use super::Overlay;
use crate::kconfig;
use schedlab_base::Result;
use std::path::Path;

/// Folders that are built by their own Makefiles, so that files added by a patch are built, too.
pub(super) const FOLDERS: [&str; 2] = ["kernel/sched/", "arch/sim/image/"];

/// The archives that kbuild makes of these folders.
pub(super) fn archives() -> impl Iterator<Item = String> {
    FOLDERS.iter().map(|folder| format!("{folder}built-in.a"))
}

/// Objects of the overlay's list whose source the tree has. A line is a file's name without its end, and perhaps the
/// option without which the image does not need it; `config` is the image's configuration.
///
/// # Errors
/// When the overlay has no list.
pub(super) fn of(overlay: Overlay<'_>, tree: &Path, config: &str) -> Result<Vec<String>> {
    let wanted = |line: &str| {
        let (stem, option) = line.split_once(' ').map_or((line, None), |(stem, option)| (stem, Some(option)));
        let has = |option: &str| kconfig::value_in(config, option).as_deref() == Some("y");
        let is_here = option.is_none_or(has) && tree.join(format!("{stem}.c")).is_file();
        is_here.then(|| format!("{stem}.o"))
    };
    Ok(overlay.list("objects")?.filter_map(wanted).collect())
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
        std::fs::write(tree.path().join("lib/hash.c"), "").unwrap();
        let overlay = Overlay(&[("objects", "# why\nlib/sort\nlib/hash EXT\n\nlib/newer\n")]);
        let of = |config| of(overlay, tree.path(), config).unwrap();
        assert_eq!(of("# CONFIG_EXT is not set\n"), ["lib/sort.o"]);
        assert_eq!(of("CONFIG_EXT=y\n"), ["lib/sort.o", "lib/hash.o"]);
    }

    #[test]
    fn a_makefile_names_its_objects() {
        let text = "# fair.o\nCFLAGS_core.o := -O2\nobj-y += core.o fair.o\nobj-$(CONFIG_X) += x.o image/\n";
        assert_eq!(named(text).collect::<Vec<_>>(), ["core.o", "fair.o", "x.o"]);
    }
}
