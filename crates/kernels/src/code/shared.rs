//! Chooses the sources that are compiled with headers that were read before.
//!
//! Reading the kernel's headers takes most of the time in which a small object is made. So the compiler reads
//! `image/headers.h` once and keeps what it knows then (a precompiled header); `cc` of the overlay, which kbuild calls
//! instead of gcc, begins the objects of a list with that. Their code is the same bytes. Macros make the difference: a
//! source that defines one before it includes a header of the tree may mean that header to be read otherwise. Such a
//! source is compiled as kbuild has it, and so is one that the compiler refuses.

use super::objects::{self, FOLDERS};
use super::{Overlay, overlay};
use crate::make::Make;
use crate::outdated;
use schedlab_base::{Result, temp};
use std::fs;
use std::path::Path;

/// The compiler of kbuild, below the overlay's place.
const COMPILER: &str = "cc";
/// The list that [`COMPILER`] reads, and the beginning of the names of its files, in the folder of objects.
const LIST: &str = "img_shared.list";
const OWN: &str = "img_shared";
const SCHED: &str = FOLDERS[0];
/// The headers are not read for fewer objects: that takes as long as three of them.
const FEW: u64 = 8;
/// How frames are laid out concerns no header.
const FRAMES: &str = "-fno-omit-frame-pointer";
/// Macros that a source may define early: headers ask for the first one where it is used, and those that ask for the
/// second one are read again for that.
const HARMLESS: [&str; 2] = ["pr_fmt", "CREATE_TRACE_POINTS"];

/// Whether a build will make so many objects that the headers are read for all. A new folder's objects are those of
/// another configuration.
pub(super) fn is_worth_it(folder: &Path, is_new: bool) -> bool {
    is_new || outdated::objects(folder, &[]).outdated >= FEW
}

/// make's variable for the compiler; with ccache, which knows no such headers, it is that program.
pub(super) fn compiler(make: &Make<'_>) -> Option<String> {
    let script = make.tree.join(overlay::PLACE).join(COMPILER);
    (!crate::tools::on_path("ccache")).then(|| format!("CC=sh {} gcc", script.display()))
}

/// Writes the list for objects of the tree and of the overlay, and names the objects that make the headers.
///
/// # Errors
/// When the list can't be written.
pub(super) fn begin(
    make: &Make<'_>,
    overlay: Overlay<'_>,
    files: &[String],
    counts: bool,
) -> Result<Vec<String>> {
    let headers: &[&str] = if counts { &["headers", "headers_counted"] } else { &["headers"] };
    let asked: Vec<String> =
        headers.iter().map(|name| format!("{}/image/{name}.o", overlay::PLACE)).collect();
    // Objects that are there would not be made again.
    asked.iter().for_each(|object| _ = fs::remove_file(make.objects.join(object)));
    let shims = overlay.0.iter().filter(|(path, _)| path.starts_with("image/") && path.ends_with(".c"));
    let shims = shims.map(|(path, _)| format!("{}/{path}", overlay::PLACE));
    let makefile = fs::read_to_string(make.tree.join(SCHED).join("Makefile")).unwrap_or_default();
    let of_sched = objects::named(&makefile).map(|object| format!("{SCHED}{object}"));
    let of_tree = files.iter().cloned().chain(of_sched);
    let of_tree = of_tree.filter_map(|object| Some(format!("{}.c", object.strip_suffix(".o")?)));
    let all = shims.chain(of_tree).filter(|path| may_share(make.tree, path));
    let lines: String = all.map(|path| format!("{}\n", make.tree.join(path).display())).collect();
    temp::write_whole(&make.objects.join(LIST), lines.as_bytes())?;
    Ok(asked)
}

/// Removes the headers and the list, so that single objects are compiled without.
pub(super) fn end(make: &Make<'_>) {
    for entry in fs::read_dir(make.objects).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(OWN) {
            // What stays is written anew by the next build that has use for it.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Whether headers of the tree mean the same to a source when they were read before it.
fn may_share(tree: &Path, path: &str) -> bool {
    let mut macros = Vec::new();
    !has_options(tree, path) && is_read_plainly(tree, path, &mut macros)
}

/// Whether a folder's Makefile gives one object options of its own that may matter to headers.
fn has_options(tree: &Path, path: &str) -> bool {
    let Some((folder, file)) = path.rsplit_once('/') else { return false };
    let makefile = fs::read_to_string(tree.join(folder).join("Makefile")).unwrap_or_default();
    let key = format!("CFLAGS_{}.o", file.strip_suffix(".c").unwrap_or(file));
    let given = makefile.lines().filter_map(|line| line.trim_start().strip_prefix(key.as_str()));
    given
        .flat_map(str::split_whitespace)
        .any(|word| ![":=", "+=", "=", "$(PROFILING)", FRAMES].contains(&word))
}

/// Reads a source and those that it includes; `false` where a header of the tree comes behind a macro. `macros` are
/// those defined so far. The overlay's own macros concern no header of the tree.
fn is_read_plainly(tree: &Path, path: &str, macros: &mut Vec<String>) -> bool {
    let Ok(text) = fs::read_to_string(tree.join(path)) else { return true };
    let is_ours = path.starts_with(overlay::PLACE);
    for line in text.lines().filter_map(|line| line.trim_start().strip_prefix('#')) {
        let (word, rest) = line.trim_start().split_once([' ', '\t']).unwrap_or((line.trim_start(), ""));
        let rest = rest.trim_start();
        match word {
            "define" | "undef" if !is_ours => {
                let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
                if !HARMLESS.contains(&name) {
                    macros.push(name.to_owned());
                }
            }
            "include" if rest.starts_with('<') && !macros.is_empty() => return false,
            "include" => {
                let source = rest.strip_prefix('"').and_then(|r| r.split_once(".c\"")).map(|(stem, _)| stem);
                let Some(stem) = source else { continue };
                let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
                let beside = format!("{folder}/{stem}.c");
                let at = if tree.join(&beside).is_file() { beside } else { format!("{stem}.c") };
                if at != path && !is_read_plainly(tree, &at, macros) {
                    return false;
                }
            }
            _ => {}
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_with_a_macro_before_a_header_of_the_tree_are_compiled_alone() {
        let tree = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = tree.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("kernel/a.c", "#define pr_fmt(f) f\n#include <x.h>\n# define A 1\n#include \"own.h\"\n");
        put("kernel/b.c", "#define INSTANTIATE\n#include <x.h>\n");
        put("kernel/c.c", "#undef __X\n#include \"c2.c\"\n");
        put("kernel/c2.c", "#\tinclude <x.h>\n");
        put("arch/sim/image/d.c", "#define OURS 1\n#include \"kernel/a.c\"\n#include \"image.h\"\n");
        put("arch/sim/image/e.c", "#include \"kernel/b.c\"\n");
        put("kernel/f.c", "#include \"f.c\"\n#include <x.h>\n");
        let found = ["kernel/a.c", "kernel/b.c", "kernel/c.c", "arch/sim/image/d.c", "arch/sim/image/e.c"]
            .map(|path| may_share(tree.path(), path));
        assert_eq!(found, [true, false, false, true, false]);
        assert!(may_share(tree.path(), "kernel/f.c"), "one that includes itself ends");
        put(
            "kernel/Makefile",
            "CFLAGS_a.o := -fno-builtin\n\tCFLAGS_f.o := $(PROFILING) -fno-omit-frame-pointer\n",
        );
        let found = ["kernel/a.c", "kernel/f.c"].map(|path| may_share(tree.path(), path));
        assert_eq!(found, [false, true], "options of its own");
    }
}
