//! The program of a sched_ext scheduler: its place and its hash.

use schedlab_base::content_hash;
use schedlab_base::{Error, Result};
use schedlab_kernel::{Scx, Variant};
use std::path::Path;

/// The variant with its scheduler's program as a whole path and with its hash, so that runs of another program belong
/// to another cell. A word with a slash is relative to `folder`, any other is found by PATH.
///
/// # Errors
/// When the program is not there.
pub fn resolved(variant: &Variant, folder: &Path) -> Result<Variant> {
    let Some(scx) = &variant.scx else { return Ok(variant.clone()) };
    let named = |e: Error| e.context(format!("variant '{}'", variant.name));
    let (program, args) = scx.words().ok_or_else(|| named(Error::input("scx names no program")))?;
    let path = if program.contains('/') { folder.join(program) } else { on_path(program).map_err(named)? };
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
