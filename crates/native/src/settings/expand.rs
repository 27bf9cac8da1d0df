//! Turns a setting and a value into writes to this machine's files; errors name missing things.

use super::files::{Files, matching};
use super::form::{Form, Write, feature_name};
use super::table::{FILE_PREFIX, Place, Row, Values, check, one_line, row};
use super::trust;
use crate::settings::cgroups;
use schedlab_base::{Error, ErrorKind, Result};
use schedlab_kernel::feature::FEATURES;
use std::io;
use std::path::{Path, PathBuf};

/// The longest content of a file with one value.
const MAX_VALUE_BYTES: usize = 4096;
/// Alternatives without the setting, for remedies.
pub const INSTEAD: &str =
    "without it: variants that leave it alone, and the simulator for features and tunables";

/// The writes for a setting's value on this machine.
///
/// # Errors
/// When the name or value is unknown, this machine lacks the setting, or this user may not change it.
pub fn expand(files: &dyn Files, name: &str, value: &str) -> Result<Vec<Write>> {
    let writes = match name.strip_prefix(FILE_PREFIX) {
        Some(path) => vec![own_file(files, name, Path::new(path), value)?],
        None => of_row(files, row(name)?, value)?,
    };
    for write in &writes {
        files.writable(&write.path).map_err(|e| refused(&write.setting, &write.path, "change", &e))?;
    }
    Ok(writes)
}

fn of_row(files: &dyn Files, row: &Row, value: &str) -> Result<Vec<Write>> {
    let value = row.normalise(value)?;
    let (place, paths) = place_of(files, row).ok_or_else(|| missing(files, row))?;
    let write = |path: &PathBuf, value: &str| Write {
        setting: row.name.to_owned(),
        path: path.clone(),
        form: place.form,
        value: value.to_owned(),
    };
    match row.values {
        Values::Features => {
            let list = read(files, row.name, &paths[0])?;
            value.split(',').map(|name| known_feature(&list, name).map(|()| write(&paths[0], name))).collect()
        }
        Values::IdleState => idle_states(files, &paths, &value)
            .map(|all| all.iter().map(|(path, disable)| write(path, disable)).collect()),
        _ => {
            paths.iter().try_for_each(|path| known_word(files, row, path, &value))?;
            let value = if place.inverted { flipped(&value) } else { &value };
            Ok(paths.iter().map(|path| write(path, value)).collect())
        }
    }
}

/// The first place that this machine has, and its files. A readable place has priority, because files visible only to
/// root (debugfs) may or may not exist.
pub fn place_of(files: &dyn Files, row: &Row) -> Option<(&'static Place, Vec<PathBuf>)> {
    let mut there: Vec<(&Place, Vec<PathBuf>)> = row
        .places
        .iter()
        .map(|p| (p, matching(files, p.pattern)))
        .filter(|(_, paths)| !paths.is_empty())
        .collect();
    let readable = there.iter().position(|(_, paths)| files.read(&paths[0]).is_ok()).unwrap_or(0);
    (!there.is_empty()).then(|| there.swap_remove(readable))
}

/// Swaps 0 and 1.
pub fn flipped(value: &str) -> &str {
    if value.trim() == "0" { "1" } else { "0" }
}

/// The name of the idle state with this `disable` file.
pub fn state_name(files: &dyn Files, disable: &Path) -> String {
    let named = files.read(&disable.with_file_name("name"));
    named.map(|n| n.trim().to_owned()).unwrap_or_default()
}

/// For each state of each CPU: whether it must be disabled. These are the states after the named one.
fn idle_states(files: &dyn Files, paths: &[PathBuf], deepest: &str) -> Result<Vec<(PathBuf, &'static str)>> {
    let cpu = |path: &Path| path.ancestors().nth(3).map(Path::to_owned);
    let mut all = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for states in paths.chunk_by(|a, b| cpu(a) == cpu(b)) {
        let own: Vec<String> = states.iter().map(|path| state_name(files, path)).collect();
        let last = match deepest {
            "all" => Some(own.len()),
            name => own.iter().position(|n| n.eq_ignore_ascii_case(name)),
        };
        names.extend(own.into_iter().filter(|n| !names.contains(n)).collect::<Vec<_>>());
        let Some(last) = last else {
            let known = names.iter().map(String::as_str).chain(["all"]);
            return Err(Error::unknown("idle state", deepest, known));
        };
        all.extend(states.iter().enumerate().map(|(i, p)| (p.clone(), if i > last { "1" } else { "0" })));
    }
    Ok(all)
}

fn known_feature(list: &str, name: &str) -> Result<()> {
    let wanted = feature_name(name);
    if list.split_whitespace().any(|word| feature_name(word) == wanted) {
        return Ok(());
    }
    if FEATURES.iter().any(|r| r.source.is_ours() && r.name == wanted) {
        return Err(Error::machine(format!(
            "'{wanted}' is a feature of the simulator: no kernel can switch it"
        ))
        .help("run that variant with --backend sim"));
    }
    let e = Error::unknown("feature of this kernel", wanted, list.split_whitespace().map(feature_name));
    let help = e.remedy().unwrap_or_default().to_owned();
    Err(Error::machine(format!("this kernel has no feature '{wanted}'")).help(help))
}

/// Checks the word against the words listed in this file or in one next to it; it passes if there is no list.
fn known_word(files: &dyn Files, row: &Row, path: &Path, value: &str) -> Result<()> {
    let now = read(files, row.name, path)?;
    let listed = match row.values {
        Values::Word => files.read(&path.with_file_name("scaling_available_governors")).unwrap_or_default(),
        Values::Words(_) if now.contains('(') => now.replace(['(', ')'], " "),
        Values::Words(_) if matches!(now.trim(), "notsupported" | "notimplemented" | "forceoff") => {
            let text = format!("setting '{}': {} says '{}'", row.name, path.display(), now.trim());
            return Err(Error::machine(text).help(INSTEAD));
        }
        _ => return Ok(()),
    };
    let listed: Vec<&str> = listed.split_whitespace().collect();
    if listed.is_empty() || listed.contains(&value) {
        return Ok(());
    }
    let text = format!("setting '{}': this machine has no '{value}'", row.name);
    Err(Error::machine(text).help(format!("it has {}", listed.join(", "))))
}

fn own_file(files: &dyn Files, name: &str, path: &Path, value: &str) -> Result<Write> {
    check(name, value)?;
    let path = &trust::real(path);
    if path.exists() && !path.is_file() {
        return Err(Error::input(format!("setting '{name}': the path is not an ordinary file")));
    }
    let now = read(files, name, path)?;
    if now.len() > MAX_VALUE_BYTES || now.trim_end().contains('\n') {
        return Err(Error::input(format!("setting '{name}': the file does not hold one value on one line")));
    }
    let value = one_line(name, value)?.to_owned();
    // Named by the resolved path: the link may no longer exist when the old value is restored.
    let setting = format!("{FILE_PREFIX}{}", path.display());
    Ok(Write { setting, path: path.clone(), form: Form::Plain, value })
}

fn read(files: &dyn Files, setting: &str, path: &Path) -> Result<String> {
    files.read(path).map_err(|e| refused(setting, path, "read", &e))
}

/// The error about a setting that this machine lacks, with a way to get it.
pub fn missing(files: &dyn Files, row: &Row) -> Error {
    let text = format!("setting '{}': this machine has no {}", row.name, row.whereabouts());
    let mounted = !files.list(&files.place("/sys/kernel/debug")).is_empty();
    let help = match row.in_debugfs() && !mounted {
        true => format!(
            "debugfs is not mounted or not visible: 'mount -t debugfs none /sys/kernel/debug' as root (CAP_SYS_ADMIN); {INSTEAD}"
        ),
        false => INSTEAD.to_owned(),
    };
    Error::machine(text).help(help)
}

/// The error about a change that this user may not make, with the needed capability.
pub fn refused(setting: &str, path: &Path, doing: &str, e: &io::Error) -> Error {
    let path = path.display();
    if setting == cgroups::SETTING {
        return cgroups::refused(&path.to_string(), doing, e);
    }
    let text = format!("setting '{setting}': can't {doing} {path}: {e}");
    match (e.kind(), e.raw_os_error()) {
        (_, Some(libc::EPERM)) => Error::machine(text).help(format!(
            "it needs CAP_SYS_ADMIN, and a kernel that is not locked down (/sys/kernel/security/lockdown); {INSTEAD}"
        )),
        (io::ErrorKind::PermissionDenied, _) => Error::machine(text).help(format!(
            "it needs root (CAP_DAC_OVERRIDE; for some settings CAP_SYS_ADMIN) or the right to write the file; {INSTEAD}"
        )),
        (io::ErrorKind::ReadOnlyFilesystem, _) => {
            Error::machine(text).help(format!("a container shows it read-only: use the host; {INSTEAD}"))
        }
        (io::ErrorKind::InvalidInput, _) => Error::machine(text).help("the kernel does not take this value"),
        (io::ErrorKind::NotFound, _) => Error::new(ErrorKind::Input, text),
        _ => Error::machine(text),
    }
}
