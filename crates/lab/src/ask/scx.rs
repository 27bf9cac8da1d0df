//! Sched_ext schedulers of variants: their programs' places and hashes, schedulers in the words of a command line, and
//! what real kernels take of them.

use schedlab_base::content_hash;
use schedlab_base::{Error, ErrorKind, Result, SchedulerFailure, Version};
use schedlab_kernel::{Scx, Variant};
use schedlab_kernels::fit;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The first release with sched_ext.
pub(crate) const FIRST: Version = Version::new(6, 12);
/// Where a scheduler is looked for.
const PLACE: &str = "a path is relative to the experiment's file, on the command line to the working folder; a name \
                     without a slash is found by PATH";
/// The name of a kernel's own class beside schedulers.
const FAIR: &str = "fair";

/// The kernel under schedulers if none is named: the newest series at hand that has sched_ext, else the newest release.
pub fn usual_kernel(cache: &Path) -> String {
    let has = |series: &String| Version::parse(series).is_ok_and(|release| release >= FIRST);
    fit::series_at_hand(cache).into_iter().rev().find(has).unwrap_or_else(|| "7".to_owned())
}

/// Checks that a kernel which is named by its series has sched_ext; a tree shows that when it is configured.
///
/// # Errors
/// When the series is an earlier one.
pub(crate) fn has_class(kernel: &str) -> Result<()> {
    let series = kernel.contains('.').then(|| Version::parse(kernel).ok()).flatten();
    match series.is_some_and(|release| release < FIRST) {
        true => Err(Error::input(format!("kernel {kernel} has no sched_ext")).help("take 6.12 or later")),
        false => Ok(()),
    }
}

/// The kernel `on` under its own class, or under the scheduler `baseline`, and under each of the schedulers `wanted`.
/// These are words of a command line: `[NAME=]PROGRAM ARGUMENTS` or `[NAME=]OBJECT VALUES`.
///
/// # Errors
/// When a program is not there, when two have one name, and for a series without sched_ext.
pub fn sides(wanted: &[String], baseline: Option<&str>, on: &Variant) -> Result<(Variant, Vec<Variant>)> {
    has_class(&on.kernel)?;
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
    is_named(&scx)?;
    let name = name.unwrap_or_else(|| scx.name()).to_owned();
    resolved(&Variant { name, scx: Some(scx), ..on.clone() }, Path::new(""))
}

/// Checks that words of a command line name a scheduler.
///
/// # Errors
/// When they are empty, or `none`, which stands for the kernel's own classes in a file.
pub fn is_named(scx: &Scx) -> Result<()> {
    match scx.is_none() || scx.words().is_none() {
        true => Err(Error::input(format!("--scx '{}' names no scheduler", scx.command))
            .help("--scx \"PROGRAM ARGUMENTS\" or --scx \"FILE.bpf.o NAME=VALUE\"")),
        false => Ok(()),
    }
}

/// Whether a run ended because of its scheduler: it did not last, or it does not fit the kernel or the machine.
pub fn has_failed(variant: &Variant, e: &Error) -> bool {
    variant.scx.is_some() && e.kind() == ErrorKind::Input
}

/// The variant with its schedulers' programs as whole paths and with their hashes, so that runs of another program
/// belong to another cell. A word with a slash, or of an object, is relative to `folder`, any other is found by PATH.
/// Files that its arguments name get whole paths, too.
///
/// # Errors
/// When a program is not there, or can't be one.
pub fn resolved(variant: &Variant, folder: &Path) -> Result<Variant> {
    let named = |e: Error| e.context(format!("variant '{}'", variant.name));
    let mut resolved = variant.clone();
    let later = resolved.at.iter_mut().filter_map(|change| change.scx.as_mut());
    for scx in resolved.scx.as_mut().into_iter().chain(later) {
        *scx = whole(scx, folder).map_err(named)?;
    }
    // It is as good as not there.
    resolved.scx = resolved.scx.filter(|scx| !scx.is_none());
    Ok(resolved)
}

fn whole(scx: &Scx, folder: &Path) -> Result<Scx> {
    if scx.is_none() {
        return Ok(Scx { command: Scx::NONE.to_owned(), hash: None });
    }
    let (program, args) = scx.words().ok_or_else(|| Error::input("scx names no program"))?;
    let is_file = program.contains('/') || program.ends_with(".o");
    let path = if is_file { folder.join(program) } else { on_path(program)? };
    let lost = |e: &std::io::Error| Error::io(&path, "find the scheduler", e).help(PLACE);
    let path = path.canonicalize().map_err(|e| lost(&e))?;
    let bytes = std::fs::read(&path).map_err(|e| Error::io(&path, "read the scheduler", &e))?;
    let whole = path.to_str().filter(|p| !p.contains(char::is_whitespace)).ok_or_else(|| {
        Error::input(format!("{}: the path has spaces or is not UTF-8", path.display()))
            .help("move the program")
    })?;
    let mut all = bytes;
    let mut words = vec![whole.to_owned()];
    if is_object(&all) {
        args.iter().try_for_each(|word| value(word, scx.name()).map(drop))?;
        words.extend(args.into_iter().map(str::to_owned));
    } else {
        is_executable(&path)?;
        for word in args {
            let (word, file) = with_file(word, folder);
            words.push(word);
            if let Some(file) = file {
                all.extend(std::fs::read(&file).map_err(|e| Error::io(&file, "read for the scheduler", &e))?);
            }
        }
    }
    Ok(Scx { command: words.join(" "), hash: Some(content_hash(&all)) })
}

/// A word behind an object.
pub(crate) fn value(word: &str, object: &str) -> Result<(String, String)> {
    let value = word.split_once('=').filter(|(name, _)| !name.is_empty());
    value.map(|(name, value)| (name.to_owned(), value.to_owned())).ok_or_else(|| {
        Error::input(format!("'{word}' behind {object}: what follows an object is NAME=VALUE"))
            .help("write each value as one word, without spaces: slice_ns=5000000")
    })
}

fn is_executable(path: &Path) -> Result<()> {
    let about = path.metadata().map_err(|e| Error::io(path, "look at the scheduler", &e))?;
    match about.is_file() && about.mode() & 0o111 != 0 {
        true => Ok(()),
        false => {
            let text =
                format!("{} is neither a compiled object of BPF nor an executable program", path.display());
            Err(Error::input(text)
                .help("'clang -target bpf -O2 -g -c' compiles an object; chmod +x a program"))
        }
    }
}

/// A word of a program's arguments, and the file that it names, alone or behind `=` or `:`: the program may read it,
/// and it is a part of it. A path is relative to `folder`, as the program's is, and becomes a whole one. A name without
/// a dot and a slash may be a word like any other.
pub(crate) fn with_file(word: &str, folder: &Path) -> (String, Option<PathBuf>) {
    let behind = |mark| word.find(mark).map(|at| at + 1);
    let one = |at: usize| {
        let path = std::path::absolute(folder.join(&word[at..])).ok()?;
        let is_named = word[at..].contains(['.', '/']) && path.is_file();
        let whole = path.to_str().filter(|text| is_named && !text.contains(char::is_whitespace))?;
        Some((format!("{}{whole}", &word[..at]), Some(path.clone())))
    };
    let found = [Some(0), behind('='), behind(':')].into_iter().flatten().find_map(one);
    found.unwrap_or_else(|| (word.to_owned(), None))
}

/// `e_machine` of an object of a BPF compiler, at byte 18.
const EM_BPF: [u8; 2] = [247, 0];

/// Whether a file is a compiled object, and not a program that loads one.
pub fn is_object(bytes: &[u8]) -> bool {
    bytes.get(18..20) == Some(&EM_BPF)
}

/// The same for a real kernel, of the host or of a guest.
///
/// # Errors
/// Also for an object, and for a scheduler that comes or goes in the middle of a run.
pub fn live(variant: &Variant, folder: &Path) -> Result<Variant> {
    let resolved = resolved(variant, folder)?;
    let named = |e: Error| Err(e.context(format!("variant '{}'", variant.name)));
    if resolved.at.iter().any(|change| change.scx.is_some()) {
        let text = "[[at]] scx: backends host and vm change no scheduler in the middle of a run";
        return named(
            Error::input(text).help("--backend code does; or two variants, each with its scheduler"),
        );
    }
    let program = resolved.scx.as_ref().and_then(|scx| Some(scx.words()?.0));
    if let Some(path) = program.map(Path::new) {
        let bytes = std::fs::read(path).map_err(|e| Error::io(path, "read the scheduler", &e))?;
        if is_object(&bytes) {
            let text =
                format!("{} is a compiled object, which a real kernel takes from a program", path.display());
            return named(Error::input(text).help(
                "scx = \"PROGRAM ARGS\": the scheduler's own program loads its object; --backend code takes both",
            ));
        }
    }
    Ok(resolved)
}

fn on_path(program: &str) -> Result<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(program)).find(|p| p.is_file());
    found
        .ok_or_else(|| Error::machine(format!("the scheduler '{program}' is not installed here")).help(PLACE))
}

/// Whether a scheduler had the tasks and failed them: it was thrown out, left, went wrong, or lets no time pass.
pub fn has_not_lasted(e: &Error) -> bool {
    !matches!(e.scheduler(), None | Some(SchedulerFailure::Refused))
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_kernel::Change;
    use std::os::unix::fs::PermissionsExt;

    fn with(command: &str) -> Variant {
        Variant { scx: Some(Scx { command: command.into(), hash: None }), ..Variant::plain("running") }
    }

    /// A file that may be executed.
    fn program(path: &Path, text: &str) {
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn files_of_the_arguments_are_found_where_the_program_is() {
        let folder = tempfile::tempdir().unwrap();
        program(&folder.path().join("scx_mine"), "1");
        std::fs::write(folder.path().join("mine.json"), "{}").unwrap();
        let of = |words: &str| {
            resolved(&with(&format!("./scx_mine {words}")), folder.path()).unwrap().scx.unwrap()
        };
        let file = std::path::absolute(folder.path().join("mine.json")).unwrap().display().to_string();
        let one = of("--config=mine.json f:./mine.json mine.json none.json 20 -v");
        let words = format!(" --config={file} f:{} {file} none.json 20 -v", file.replace("mine", "./mine"));
        let words = words.replace("/./", "/");
        assert!(one.command.ends_with(&words), "{} {words}", one.command);
        std::fs::write(folder.path().join("mine.json"), "{ }").unwrap();
        let other = of("--config=mine.json f:./mine.json mine.json none.json 20 -v");
        assert_ne!(one.hash, other.hash, "the file is a part of it");
    }

    #[test]
    fn schedulers_have_the_names_of_their_files_or_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        ["a.bpf.o", "scx_b"].iter().for_each(|name| program(Path::new(&path(name)), name));
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
        let early = sides(std::slice::from_ref(&a), None, &Variant::plain("6.1")).unwrap_err().to_string();
        assert!(early.contains("kernel 6.1 has no sched_ext") && early.contains("6.12"), "{early}");
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
        let mine = folder.path().join("scx_mine");
        program(&mine, "1");
        let one = resolved(&with("./scx_mine --slice 5"), folder.path()).unwrap().scx.unwrap();
        assert!(one.command.ends_with("scx_mine --slice 5") && one.command.starts_with('/'));
        program(&mine, "2");
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
        std::fs::write(folder.path().join("text.bpf.o"), "text").unwrap();
        let e = resolved(&with("text.bpf.o"), folder.path()).unwrap_err();
        let said = e.to_string();
        assert!(said.contains("text.bpf.o is neither a compiled object") && e.remedy().is_some(), "{said}");
        assert_eq!(resolved(&Variant::plain("v6.5"), folder.path()).unwrap(), Variant::plain("v6.5"));
    }

    #[test]
    fn a_real_kernel_takes_programs_from_the_start_on() {
        let folder = tempfile::tempdir().unwrap();
        let mut object = vec![0; 64];
        object[18..20].copy_from_slice(&EM_BPF);
        std::fs::write(folder.path().join("mine.bpf.o"), object).unwrap();
        program(&folder.path().join("scx_mine"), "1");
        let refused = |v: &Variant| live(v, folder.path()).unwrap_err().to_string();
        let e = refused(&with("./mine.bpf.o slice_ns=5"));
        assert!(e.contains("variant 'running'") && e.contains("is a compiled object"), "{e}");
        let mine = with("./scx_mine");
        assert!(live(&mine, folder.path()).is_ok() && resolved(&with("./mine.bpf.o"), folder.path()).is_ok());
        let none = Change { scx: with("none").scx, ..Change::default() };
        let changes = Variant { at: vec![none], ..mine };
        assert!(refused(&changes).contains("in the middle of a run"), "{}", refused(&changes));
        let resolved = resolved(&changes, folder.path()).unwrap();
        assert!(resolved.has_schedulers() && resolved.at[0].scx.as_ref().unwrap().is_none());
    }
}
