//! Links objects into one shared object in which only the names of its interface are global.
//!
//! A name that no object has gets a *stub*: a page of its own, which the loader makes inaccessible. Whether it is a
//! function or data, the first touch faults there, and the loader reports the name.

use super::{Overlay, objects, overlay};
use crate::make::Make;
use crate::{functions, kconfig};
use schedlab_base::{Error, Result, temp};
use schedlab_scx::btf::of_image;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Symbols that the stubs' file and the linker's options define.
const OWN: [&str; 4] = ["jiffies", "img_stubs_start", "img_stubs_end", "img_stub_names"];

/// The linked image, in the folder of objects.
pub(super) const IMAGE: &str = "image.so";
/// Its BTF, beside it.
const BTF: &str = "image.btf";
/// The option of images that have one.
const EXT: &str = "SCHED_CLASS_EXT";

/// The compiler's options for linking, a part of the image's key. They lead a call of schedule_timeout() to the shims'
/// `__wrap_schedule_timeout`, and one of scx_tick() to `__wrap_scx_tick`.
pub(super) const OPTIONS: [&str; 13] = [
    "-shared",
    "-nostartfiles",
    "-o",
    IMAGE,
    "-Wl,-Bsymbolic",
    "-Wl,--build-id=none",
    "-Wl,-T,image.lds",
    "-Wl,--defsym=jiffies=jiffies_64",
    "-Wl,--wrap=schedule_timeout",
    "-Wl,--wrap=scx_tick",
    "-Wl,-z,noexecstack",
    "-Wl,-z,now",
    "stubs.o",
];

/// The form of the BTF that [`of_image`] makes: another number makes the images that have one anew.
const BTF_FORM: &str = "btf 1";

/// What the image's key has of this step.
pub(super) fn in_key(config: &str) -> String {
    let has_btf = kconfig::value_in(config, EXT).as_deref() == Some("y");
    OPTIONS.into_iter().chain(has_btf.then_some(BTF_FORM)).collect::<Vec<_>>().join(" ")
}

/// An object of the overlay, and the tree's object that it replaces because it includes its source.
const INSTEAD: (&str, &str) = ("arch/sim/image/fleet.o", "kernel/sched/fair.o");

pub(super) struct Linked {
    pub object: PathBuf,
    /// The image's own BTF, if its configuration asks for that.
    pub btf: Option<PathBuf>,
    /// The functions of `kernel/sched`, as [`functions::table`] has them.
    pub functions: String,
    /// Names that have stubs, sorted.
    pub stubs: Vec<String>,
    /// The objects that it is made of, by their paths in the folder of objects.
    pub parts: Vec<String>,
}

/// Links the objects that [`objects`] lists.
///
/// # Errors
/// When the compiler or the linker refuses.
pub(super) fn link(make: &Make<'_>, overlay: Overlay<'_>, config: &str) -> Result<Linked> {
    let members = members(make)?;
    let files = objects::of(overlay, make.tree, config)?;
    refuse_constructors(&run(
        make,
        "readelf",
        ["-SW"].into_iter().chain(names(&members)).chain(names(&files)),
    )?)?;
    let script = script(make)?;
    let symbols = run(make, "nm", ["-g"].into_iter().chain(names(&members)).chain(names(&files)))?;
    refuse_late_choices(&symbols)?;
    let host: BTreeSet<&str> = host_names(overlay.text("image/host.h")?).collect();
    let own = OWN.into_iter().chain(script_symbols(&script));
    let stubs = undefined(&symbols, &host, &own.collect());
    temp::write_whole(&make.objects.join("image.lds"), script.as_bytes())?;
    temp::write_whole(&make.objects.join("stubs.S"), assembly(&stubs).as_bytes())?;
    run(make, "gcc", ["-c", "stubs.S", "-o", "stubs.o"])?;
    run(make, "gcc", OPTIONS.into_iter().chain(names(&members)).chain(names(&files)))?;
    let own = run(make, "nm", ["--defined-only"].into_iter().chain(names(&members)))?;
    let all = run(make, "nm", ["-S", "--defined-only", IMAGE])?;
    let functions = functions::table(&own, &all);
    let parts = members.into_iter().chain(files).collect();
    let btf = btf(make, config)?;
    Ok(Linked { object: make.objects.join(IMAGE), btf, functions, stubs, parts })
}

/// The image's section of variables that each CPU has.
const PERCPU: &str = ".kernel_percpu";

/// Makes the image's BTF from its debug data, if it has sched_ext.
fn btf(make: &Make<'_>, config: &str) -> Result<Option<PathBuf>> {
    if kconfig::value_in(config, EXT).as_deref() != Some("y") {
        return Ok(None);
    }
    let image = make.objects.join(IMAGE);
    let bytes = std::fs::read(&image).map_err(|e| Error::io(&image, "read", &e))?;
    let made = of_image(&bytes, PERCPU).map_err(|e| e.context("the image's BTF"))?;
    let path = make.objects.join(BTF);
    temp::write_whole(&path, &made)?;
    Ok(Some(path))
}

/// Sections of functions that a loader calls.
const CALLED: [&str; 5] = [".init_array", ".preinit_array", ".fini_array", ".ctors", ".dtors"];
/// The section, named by its priority, that the compiler's counting adds to each object.
const OF_COUNTING: &str = ".init_array.00099";

/// Refuses objects with functions that would run when the image is loaded, before anything watches it. `sections` is
/// readelf(1)'s output.
fn refuse_constructors(sections: &str) -> Result<()> {
    let mut file = "";
    for line in sections.lines() {
        if let Some(name) = line.strip_prefix("File: ") {
            file = name;
        }
        let mut words = line.split(|c: char| c.is_whitespace() || c == ']').filter(|word| !word.is_empty());
        let is_called = |word: &str| {
            let begins = |name: &&str| {
                word.strip_prefix(*name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            word != OF_COUNTING && CALLED.iter().any(begins)
        };
        if words.any(is_called) {
            let text =
                format!("{file} has a constructor or destructor: it would run when the image is loaded");
            return Err(Error::input(text)
                .help("no kernel runs one at its start: an initcall does what is to be done there"));
        }
    }
    Ok(())
}

/// Refuses indirect functions (ifunc): their resolvers would run when the image is loaded.
fn refuse_late_choices(symbols: &str) -> Result<()> {
    let chosen = symbols.lines().find_map(|line| line.split_once(" i ").map(|(_, name)| name.trim()));
    chosen.map_or(Ok(()), |name| {
        let text =
            format!("{name}() is chosen when the image is loaded (ifunc), by code that nothing watches yet");
        Err(Error::input(text).help("take a static call or a pointer"))
    })
}

/// The objects in the folders' archives.
fn members(make: &Make<'_>) -> Result<Vec<String>> {
    let lists = objects::archives().map(|archive| run(make, "ar", ["t", archive.as_str()]));
    let lists = lists.collect::<Result<Vec<String>>>()?;
    Ok(without_replaced(lists.iter().flat_map(|list| list.lines())))
}

/// Leaves out the object that another object replaces ([`INSTEAD`]).
fn without_replaced<'a>(objects: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut all: Vec<String> = objects.map(str::to_owned).collect();
    if all.iter().any(|object| object == INSTEAD.0) {
        all.retain(|object| object != INSTEAD.1);
    }
    all
}

fn names(of: &[String]) -> impl Iterator<Item = &str> {
    of.iter().map(String::as_str)
}

/// The linker's script, preprocessed with the tree's macros.
fn script(make: &Make<'_>) -> Result<String> {
    let tree = make.tree.display();
    let include = [
        format!("-I{tree}/{}/include", overlay::PLACE),
        format!("-I{}/include/generated", overlay::PLACE),
        format!("-I{tree}/include"),
        "-Iinclude".to_owned(),
        format!("-include{tree}/include/linux/kconfig.h"),
        format!("{tree}/{}/image.lds", overlay::PLACE),
    ];
    let options = ["-E", "-P", "-xc", "-nostdinc", "-D__KERNEL__", "-D__ASSEMBLY__", "-DLINKER_SCRIPT"];
    run(make, "gcc", options.into_iter().chain(names(&include)))
}

/// Symbols that the script defines: "NAME = .;".
fn script_symbols(script: &str) -> impl Iterator<Item = &str> {
    script.lines().flat_map(|line| line.split(';')).filter_map(|statement| {
        let (name, value) = statement.rsplit_once('=')?;
        let name = name.trim().rsplit([' ', '{', '(']).next()?;
        (value.trim() == "." && name != ".").then_some(name)
    })
}

/// Names that the image takes from the C library.
fn host_names(header: &str) -> impl Iterator<Item = &str> {
    header.split("__asm__(\"").skip(1).filter_map(|rest| rest.split('"').next())
}

/// Undefined names in nm's output.
fn undefined(symbols: &str, host: &BTreeSet<&str>, own: &BTreeSet<&str>) -> Vec<String> {
    let (mut wanted, mut defined) = (BTreeSet::new(), BTreeSet::new());
    for line in symbols.lines() {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["U", name] => _ = wanted.insert(name),
            [_, _, name] => _ = defined.insert(name),
            _ => {}
        }
    }
    // The linker defines the ends of sections, the table of addresses and the targets of wrapped names.
    let made = |n: &str| {
        n.starts_with("__start_")
            || n.starts_with("__stop_")
            || n.starts_with("__real_")
            || n == "_GLOBAL_OFFSET_TABLE_"
    };
    let is_lacking =
        |n: &&&str| !defined.contains(**n) && !host.contains(**n) && !own.contains(**n) && !made(n);
    wanted.iter().filter(is_lacking).map(|n| (*n).to_owned()).collect()
}

/// Assembly of the stubs: a page for each name, then all names in the same order, each with a zero behind it.
fn assembly(stubs: &[String]) -> String {
    let mut text = ".section .img_stubs,\"aw\",@nobits\n.balign 4096\n".to_owned();
    text += ".hidden img_stubs_start\n.globl img_stubs_start\nimg_stubs_start:\n";
    for name in stubs {
        let _ = writeln!(text, ".hidden {name}\n.globl {name}\n{name}: .skip 4096");
    }
    text += ".hidden img_stubs_end\n.globl img_stubs_end\nimg_stubs_end: .skip 4096\n.section .rodata\n";
    text += ".hidden img_stub_names\n.globl img_stub_names\nimg_stub_names:\n";
    stubs.iter().for_each(|name| _ = writeln!(text, ".asciz \"{name}\""));
    text + ".byte 0\n.section .note.GNU-stack,\"\",@progbits\n"
}

/// Runs a tool in the folder of objects and gives its output.
fn run<'a>(make: &Make<'_>, tool: &str, words: impl IntoIterator<Item = &'a str>) -> Result<String> {
    let mut command = Command::new(tool);
    command.current_dir(make.objects).args(words).env("LC_ALL", "C").stdin(Stdio::null());
    let said = command.output().map_err(|e| Error::machine(format!("{tool} can't be started: {e}")))?;
    if said.status.success() {
        return Ok(String::from_utf8_lossy(&said.stdout).into_owned());
    }
    let words = String::from_utf8_lossy(&said.stderr);
    let shown: Vec<&str> = words.lines().filter(|l| !l.is_empty()).take(12).collect();
    Err(Error::input(format!("{tool} failed for the image:\n    {}", shown.join("\n    ")))
        .help(format!("its objects are in {}", make.objects.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_would_run_at_load_is_refused_with_its_object() {
        let of = |section: &str| {
            let line =
                format!("  [ 9] {section}       INIT_ARRAY      0000 001bd0 000008 08  WA  0   0  8\n");
            let text = format!("\nFile: a.o\n  [ 1] .text  PROGBITS\n\nFile: kernel/sched/fair.o\n{line}");
            refuse_constructors(&text).map_err(|e| e.message().to_owned())
        };
        for section in [".init_array", ".init_array.00200", ".ctors", ".fini_array"] {
            assert!(
                of(section).is_err_and(|e| e.starts_with("kernel/sched/fair.o has a constructor")),
                "{section}"
            );
        }
        for section in [OF_COUNTING, ".initcall6.init", ".data"] {
            assert_eq!(of(section), Ok(()), "{section}");
        }
    }

    #[test]
    fn undefined_names_become_stubs() {
        let symbols = "\na.o:\n                 U memdup\n                 U mmap\n0000 T schedule\n\nb.o:\n                 \
                       U schedule\n                 U __start_x\n                 U begin\n";
        let stubs = undefined(symbols, &BTreeSet::from(["mmap"]), &BTreeSet::from(["begin"]));
        assert_eq!(stubs, ["memdup"]);
        let text = assembly(&stubs);
        assert!(
            text.contains("\nmemdup: .skip 4096\n") && text.contains(".asciz \"memdup\"\n.byte 0\n"),
            "{text}"
        );
    }

    #[test]
    fn an_object_that_includes_another_ones_source_replaces_it() {
        let all = ["kernel/sched/core.o", "kernel/sched/fair.o", "arch/sim/image/lib.o"];
        assert_eq!(without_replaced(all.into_iter()), all);
        let asked = without_replaced(all.into_iter().chain([INSTEAD.0]));
        assert_eq!(asked, ["kernel/sched/core.o", "arch/sim/image/lib.o", "arch/sim/image/fleet.o"]);
    }

    #[test]
    fn names_of_the_script_and_the_header_are_not_stubs() {
        let script = ".x : { __begin_x = .; *(.x) . = ALIGN(8); __end_x = .; }\ninit_stack = .;";
        assert_eq!(script_symbols(script).collect::<Vec<_>>(), ["__begin_x", "__end_x", "init_stack"]);
        let header =
            "extern void *host_mmap(long n) __asm__(\"mmap\");\nextern void x(void) __asm__(\"abort\");";
        assert_eq!(host_names(header).collect::<Vec<_>>(), ["mmap", "abort"]);
    }
}
