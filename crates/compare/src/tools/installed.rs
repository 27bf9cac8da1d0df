//! Checks before the first run that a command's programs are installed.

use super::find;
use schedlab_base::{Error, Result};
use schedlab_workload::CommandSpec;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Looks for a command's programs in the places where starting them will look.
///
/// # Errors
/// When one is missing; for a known tool, with the package that has it.
pub fn check_installed(spec: &CommandSpec) -> Result<()> {
    let words = [&spec.argv, &spec.setup, &spec.server, &spec.cleanup];
    for program in words.into_iter().filter_map(|w| w.first()) {
        if !is_there(spec, program) {
            return Err(absent(spec, program));
        }
    }
    Ok(())
}

fn is_there(spec: &CommandSpec, program: &str) -> bool {
    let runs =
        |path: &Path| path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0);
    if program.contains('/') {
        let folder = spec.cwd.as_deref().unwrap_or(".");
        return runs(&Path::new(folder).join(program));
    }
    let path = spec.env.get("PATH").map(Into::into).or_else(|| std::env::var_os("PATH"));
    path.is_some_and(|path| std::env::split_paths(&path).any(|folder| runs(&folder.join(program))))
}

fn absent(spec: &CommandSpec, program: &str) -> Error {
    let error = Error::machine(format!("'{program}' is not installed"));
    let tool = spec.tool.as_deref().and_then(|name| find(name).ok());
    let stage = tool.filter(|t| t.server.first() == Some(&program)).and_then(|t| t.stage.as_ref());
    if let Some(stage) = stage {
        return error
            .help(format!("the package {} has it (it may lie in /usr/sbin: see PATH)", stage.package));
    }
    match tool.filter(|t| t.program == program || t.server.first() == Some(&program)) {
        Some(tool) if tool.package.is_empty() => {
            error.help("no package of Debian has it: build it from its source, and put it in PATH")
        }
        Some(tool) => error.help(format!("the package {} has it", tool.package)),
        None => error.help("install it, or name it with its folder"),
    }
}
