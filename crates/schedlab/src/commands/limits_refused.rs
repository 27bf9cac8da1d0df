//! What `schedlab limits` refuses before anything is simulated, with the remedy.

use schedlab_base::{Backend, Error, Ns, Origin, Result, Version, input};
use schedlab_compare::runs::{self, ListedCell};
use schedlab_kernel::Limit;
use schedlab_kernel::cpu_limit::cpus_in_words;
use schedlab_kernels::{cache, code, images};
use schedlab_workload::spec::MAX_FILE_MB;
use std::path::Path;

/// Cells that an error lists.
const MOST: usize = 4;

/// Options that mean nothing for a recorded schedule.
pub fn of_schedule(alone: bool, threads_of: bool) -> Result<()> {
    if alone {
        return Err(Error::input("--alone: the recorded tasks outside the group are part of the recording")
            .help("leave it out; a service that is described (schedlab limits http) can be alone"));
    }
    if threads_of {
        return Err(Error::input("--threads-of: a recording has the threads that it has")
            .help("'schedlab limits pool --threads-of go-1.25' describes a service with other ones"));
    }
    Ok(())
}

/// A limit of more CPUs than all machines have throttles nothing.
pub fn above_the_machine(
    text: &str,
    limit: &Limit,
    machine: (&str, u64),
    recorded: Option<&Limit>,
) -> Result<()> {
    let (name, cpus) = machine;
    let Some(quota) = limit.quota.filter(|quota| quota.0 > cpus.saturating_mul(limit.period.0)) else {
        return Ok(());
    };
    let was = recorded.map_or_else(String::new, |l| format!("; the recorded limit is {}", cpus_in_words(l)));
    let whole = Limit { quota: Some(quota), burst: Ns::ZERO, ..*limit };
    let help = match text.trim().parse::<f64>() {
        Ok(_) => {
            format!("a plain number is CPUs, {text}% is per cent of one; --machine names a larger machine")
        }
        Err(_) => "--machine names a larger machine".to_owned(),
    };
    let text =
        format!("--limit {text}: a limit of {} CPUs, and {name} has {cpus}{was}", cpus_in_words(&whole));
    Err(Error::input(text).help(help))
}

/// Guests have no default kernel: the error names the one here that is nearest to the recorded one.
pub fn no_kernel(backend: Backend, recorded: &str) -> Error {
    let text = format!("--backend {backend}: no kernel is named, and the recording is of {recorded}");
    Error::input(text).help(nearest_here(backend, recorded))
}

/// The code of the recorded kernel can't be had: the error names a kernel here that can stand for it.
pub fn no_code(e: Error, recorded: &str) -> Error {
    // The first part says what there is; others may name options of other commands.
    let there = e.remedy().and_then(|remedy| remedy.split(';').next());
    let remedy = there.map_or_else(String::new, |there| format!("; {there}"));
    let nearest = nearest_here(Backend::Code, recorded);
    e.help(format!("{nearest}{remedy}"))
}

/// The kernel that was built or fetched here and is nearest to the recorded one, as an option.
fn nearest_here(backend: Backend, recorded: &str) -> String {
    let folder = cache::folder(None).unwrap_or_default();
    let here: Vec<Version> = match backend {
        Backend::Code => code::all(&folder).iter().filter_map(|image| image.version().ok()).collect(),
        _ => images::list(&[], &folder).into_iter().filter_map(|l| Some(l.image.ok()?.version)).collect(),
    };
    let own = Version::parse(&format!("v{}", recorded.trim_start_matches('v')));
    let below = here.iter().filter(|v| own.as_ref().is_ok_and(|own| *v <= own)).max();
    match below.or_else(|| here.iter().min()) {
        Some(Version { major, minor, .. }) => format!("--kernel {major}.{minor} is here, and nearest to it"),
        None => "--kernel names one; 'schedlab kernel fetch 6.12' gets it".to_owned(),
    }
}

/// A store of several cells, of which one is to be named: `limits` has no options that choose.
pub fn of_store(path: &Path, e: Error) -> Error {
    let cells = if path.is_dir() { runs::list(path).unwrap_or_default() } else { Vec::new() };
    if cells.len() < 2 {
        return e;
    }
    let word = |c: &ListedCell| c.of.as_ref().map_or_else(String::new, |o| format!(" ({})", o.workload));
    let recorded = |c: &&ListedCell| c.of.as_ref().is_some_and(|o| o.backend.name() == Origin::RECORDING);
    let mut shown: Vec<&ListedCell> = cells.iter().filter(recorded).collect();
    if shown.is_empty() {
        shown = cells.iter().collect();
    }
    let more = if shown.len() > MOST { ", ..." } else { "" };
    let all: Vec<String> = shown.iter().take(MOST).map(|c| format!("{}{}", c.folder, word(c))).collect();
    e.help(format!("name one of its folders: {}{more}; 'schedlab runs' lists them", all.join(", ")))
}

/// The error for a file that does not begin as a description does.
pub fn unless_described(path: &Path, e: Error) -> Error {
    let begins = |text: String| text.trim_start().starts_with(['{', '/', '#']);
    if path.extension().is_some_and(|e| e == "json") || input::text_up_to(path, MAX_FILE_MB).is_ok_and(begins)
    {
        return e;
    }
    Error::input(format!("{} is not a run, a .sched or an rt-app file", path.display()))
        .help("name a run's folder ('schedlab runs' lists them), or a workload: schedlab limits --help")
}
