//! Sched_ext schedulers of variants: a program's place and hash, and schedulers in the words of a command line.

use schedlab_base::content_hash;
use schedlab_base::{Error, ErrorKind, Result, Version};
use schedlab_kernel::{Scx, Variant};
use schedlab_kernels::fit;
use schedlab_transplant::NOT_LASTING;
use std::path::Path;

/// The first release with sched_ext.
const FIRST: Version = Version::new(6, 12);
/// The name of a kernel's own class beside schedulers.
const FAIR: &str = "fair";

/// The kernel under schedulers if none is named: the newest series at hand that has sched_ext, else the newest release.
pub fn usual_kernel(cache: &Path) -> String {
    let has = |series: &String| Version::parse(series).is_ok_and(|release| release >= FIRST);
    fit::series_at_hand(cache).into_iter().rev().find(has).unwrap_or_else(|| "7".to_owned())
}

/// The kernel `on` under its own class, or under the scheduler `baseline`, and under each of the schedulers `wanted`.
/// These are words of a command line: `[NAME=]PROGRAM ARGUMENTS` or `[NAME=]OBJECT VALUES`.
///
/// # Errors
/// When a program is not there, and when two have one name.
pub fn sides(wanted: &[String], baseline: Option<&str>, on: &Variant) -> Result<(Variant, Vec<Variant>)> {
    let fair = || Ok(Variant { name: FAIR.to_owned(), ..on.clone() });
    let baseline = baseline.map_or_else(fair, |text| in_words(text, on))?;
    let others = wanted.iter().map(|text| in_words(text, on)).collect::<Result<Vec<_>>>()?;
    let mut names: Vec<&str> = others.iter().chain([&baseline]).map(|v| v.name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|two| two[0] == two[1]) {
        Some(two) => Err(Error::input(format!("two schedulers have the name '{}'", two[0]))
            .help("name one: --scx NAME=PROGRAM")),
        None => Ok((baseline, others)),
    }
}

/// The variant of a kernel under a scheduler; its program has a whole path. Without a name it has the program's.
fn in_words(text: &str, on: &Variant) -> Result<Variant> {
    let text = text.trim_start();
    let named =
        text.split_once('=').filter(|(name, _)| !name.contains(|c: char| c == '/' || c.is_whitespace()));
    let (name, command) = named.map_or((None, text), |(name, command)| (Some(name), command));
    let scx = Scx { command: command.to_owned(), hash: None };
    let file = scx.words().and_then(|(program, _)| Some(Path::new(program).file_name()?.to_string_lossy()));
    let file = file.unwrap_or_default();
    let name = name.unwrap_or_else(|| file.strip_suffix(".bpf.o").unwrap_or(&file)).to_owned();
    resolved(&Variant { name, scx: Some(scx), ..on.clone() }, Path::new(""))
}

/// Whether a run ended because of its scheduler: it did not last, or it does not fit the kernel or the machine.
pub fn has_failed(variant: &Variant, e: &Error) -> bool {
    variant.scx.is_some() && e.kind() == ErrorKind::Input
}

/// The variant with its scheduler's program as a whole path and with its hash, so that runs of another program belong
/// to another cell. A word with a slash, or of an object, is relative to `folder`, any other is found by PATH.
///
/// # Errors
/// When the program is not there.
pub fn resolved(variant: &Variant, folder: &Path) -> Result<Variant> {
    let Some(scx) = &variant.scx else { return Ok(variant.clone()) };
    let named = |e: Error| e.context(format!("variant '{}'", variant.name));
    let (program, args) = scx.words().ok_or_else(|| named(Error::input("scx names no program")))?;
    let is_file = program.contains('/') || program.ends_with(".o");
    let path = if is_file { folder.join(program) } else { on_path(program).map_err(named)? };
    let path = path.canonicalize().map_err(|e| named(Error::io(&path, "find the scheduler", &e)))?;
    let bytes = std::fs::read(&path).map_err(|e| named(Error::io(&path, "read the scheduler", &e)))?;
    let whole = path.to_str().filter(|p| !p.contains(char::is_whitespace)).ok_or_else(|| {
        named(
            Error::input(format!("{}: the path has spaces or is not UTF-8", path.display()))
                .help("move the program"),
        )
    })?;
    let words: Vec<&str> = std::iter::once(whole).chain(args).collect();
    let scx = Scx { command: words.join(" "), hash: Some(content_hash(&bytes)) };
    Ok(Variant { scx: Some(scx), ..variant.clone() })
}

fn on_path(program: &str) -> Result<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(program)).find(|p| p.is_file());
    found.ok_or_else(|| {
        Error::machine(format!("the scheduler '{program}' is not installed here"))
            .help("name it with its folder")
    })
}

/// Whether the kernel threw the scheduler out, or its program left.
pub fn has_left(e: &Error) -> bool {
    NOT_LASTING.iter().any(|words| e.message().contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(command: &str) -> Variant {
        Variant { scx: Some(Scx { command: command.into(), hash: None }), ..Variant::plain("running") }
    }

    #[test]
    fn schedulers_have_the_names_of_their_files_or_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        ["a.bpf.o", "scx_b"].iter().for_each(|name| std::fs::write(path(name), name).unwrap());
        let on = Variant::plain("7");
        let (a, b) = (format!("{} x=1,2 y=3", path("a.bpf.o")), format!("mine={} -v", path("scx_b")));
        let (fair, all) = sides(&[a.clone(), b], None, &on).unwrap();
        let names: Vec<&str> = all.iter().map(|v| v.name.as_str()).collect();
        assert_eq!((fair.name.as_str(), names), ("fair", vec!["a", "mine"]));
        assert_eq!(all[0].scx.as_ref().map(|scx| scx.command.as_str()), Some(a.as_str()));
        let (old, _) = sides(std::slice::from_ref(&a), Some(&format!("old={a}")), &on).unwrap();
        assert_eq!((old.name.as_str(), old.scx), ("old", all[0].scx.clone()));
        let twice = sides(std::slice::from_ref(&a), Some(&a), &on).unwrap_err().to_string();
        assert!(twice.contains("two schedulers have the name 'a'"), "{twice}");
    }
    #[test]
    fn the_usual_kernel_is_the_newest_at_hand_that_has_sched_ext() {
        let cache = tempfile::tempdir().unwrap();
        let add = |series: &str| {
            let folder = format!("linux-source-{series}_{series}.1-1");
            std::fs::create_dir_all(schedlab_kernels::cache::sources(cache.path()).join(folder)).unwrap();
            usual_kernel(cache.path())
        };
        assert_eq!(["6.1", "7.3", "6.12"].map(add), ["7", "7.3", "7.3"]);
    }
    #[test]
    fn a_program_is_known_by_its_place_and_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("scx_mine");
        std::fs::write(&program, "1").unwrap();
        let one = resolved(&with("./scx_mine --slice 5"), folder.path()).unwrap().scx.unwrap();
        assert!(one.command.ends_with("scx_mine --slice 5") && one.command.starts_with('/'));
        std::fs::write(&program, "2").unwrap();
        let other = resolved(&with("./scx_mine --slice 5"), folder.path()).unwrap().scx.unwrap();
        assert_ne!(one.hash, other.hash);
        let e = resolved(&with("./none"), folder.path()).unwrap_err().to_string();
        assert!(e.contains("variant 'running'") && e.contains("none"), "{e}");
        assert!(
            resolved(&with("no-such-scheduler"), folder.path())
                .unwrap_err()
                .to_string()
                .contains("not installed")
        );
        assert_eq!(resolved(&Variant::plain("v6.5"), folder.path()).unwrap(), Variant::plain("v6.5"));
    }
}
