//! The programs of sched_ext schedulers: their places and hashes, and what real kernels take of them.

use schedlab_base::content_hash;
use schedlab_base::{Error, Result};
use schedlab_kernel::{Scx, Variant};
use std::path::Path;

/// The variant with its schedulers' programs as whole paths and with their hashes, so that runs of another program
/// belong to another cell. A word with a slash is relative to `folder`, any other is found by PATH.
///
/// # Errors
/// When a program is not there.
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
    let path = if program.contains('/') { folder.join(program) } else { on_path(program)? };
    let path = path.canonicalize().map_err(|e| Error::io(&path, "find the scheduler", &e))?;
    let bytes = std::fs::read(&path).map_err(|e| Error::io(&path, "read the scheduler", &e))?;
    let whole = path.to_str().filter(|p| !p.contains(char::is_whitespace)).ok_or_else(|| {
        Error::input(format!("{}: the path has spaces or is not UTF-8", path.display()))
            .help("move the program")
    })?;
    let words: Vec<&str> = std::iter::once(whole).chain(args).collect();
    Ok(Scx { command: words.join(" "), hash: Some(content_hash(&bytes)) })
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
    found.ok_or_else(|| {
        Error::machine(format!("the scheduler '{program}' is not installed here"))
            .help("name it with its folder")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_kernel::Change;

    fn with(command: &str) -> Variant {
        Variant { scx: Some(Scx { command: command.into(), hash: None }), ..Variant::plain("running") }
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

    #[test]
    fn a_real_kernel_takes_programs_from_the_start_on() {
        let folder = tempfile::tempdir().unwrap();
        let mut object = vec![0; 64];
        object[18..20].copy_from_slice(&EM_BPF);
        std::fs::write(folder.path().join("mine.bpf.o"), object).unwrap();
        std::fs::write(folder.path().join("scx_mine"), "1").unwrap();
        let refused = |v: &Variant| live(v, folder.path()).unwrap_err().to_string();
        let e = refused(&with("./mine.bpf.o slice_ns=5"));
        assert!(e.contains("variant 'running'") && e.contains("is a compiled object"), "{e}");
        let program = with("./scx_mine");
        assert!(
            live(&program, folder.path()).is_ok() && resolved(&with("./mine.bpf.o"), folder.path()).is_ok()
        );
        let none = Change { scx: with("none").scx, ..Change::default() };
        let changes = Variant { at: vec![none], ..program };
        assert!(refused(&changes).contains("in the middle of a run"), "{}", refused(&changes));
        let resolved = resolved(&changes, folder.path()).unwrap();
        assert!(resolved.has_schedulers() && resolved.at[0].scx.as_ref().unwrap().is_none());
    }
}
