//! Counts around a command that keeps its terminal, or on the whole system for a time.
//!
//! The command inherits input and outputs and stays in the caller's process group, so Ctrl-C reaches it as without
//! schedlab. Its output is not read. It is counted from its exec to its end, including all its children that have ended
//! by then. The whole system is counted CPU by CPU, with everything that runs there.

use super::counts::Counts;
use super::set::{Set, Whom};
use super::table::Width;
use crate::settings::exec::unstartable;
use crate::sys;
use crate::sys::offspring;
use schedlab_base::{CpuSet, Error, Ns, Result};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const ONLINE: &str = "/sys/devices/system/cpu/online";
/// Interval of checks of the stop flag.
const LOOK_EVERY: Ns = Ns::ms(100);
/// Interval of checks for the end on kernels without pidfds.
const LOOK_EVERY_BLIND: Ns = Ns::ms(2);
/// Time for a command to end by itself after a stop.
const END_WITHIN: Ns = Ns::secs(2);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchOptions {
    /// Count the whole system, not only the command and its children.
    pub system: bool,
    pub width: Width,
    /// Destination of the command's standard output.
    pub output: Output,
}

/// Destination of a watched command's standard output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// schedlab's own standard output.
    #[default]
    Kept,
    /// Standard error, because only schedlab's result goes to standard output.
    Aside,
    /// Nowhere, because the command runs many times.
    Dropped,
}

#[derive(Clone, Debug)]
pub struct Watched {
    pub counts: Counts,
    /// Duration of the command, or of the watched time.
    pub elapsed: Ns,
    /// User mode CPU time of the command and the children it reaped.
    pub user: Ns,
    /// Their CPU time in the kernel.
    pub system: Ns,
    /// `None` without a command.
    pub status: Option<ExitStatus>,
}

impl Watched {
    /// The exit code of a shell: 128 plus the signal if the command was killed; 0 without a command.
    pub fn code(&self) -> u8 {
        let code = |s: ExitStatus| s.code().or_else(|| s.signal().map(|n| 128 + n)).unwrap_or(0);
        self.status.map_or(0, |s| code(s) as u8)
    }
}

/// Runs a command and counts. When `stop` becomes true the command gets two seconds to end, then SIGTERM.
///
/// # Errors
/// When the command can't be started, or this user may not count the whole system.
pub fn command(argv: &[String], how: WatchOptions, stop: &AtomicBool) -> Result<Watched> {
    let mut set = if how.system { everywhere(how.width)? } else { Set::open(&Whom::Programs, how.width) };
    if how.system {
        set.enable()?;
    }
    let mut watched = start(argv, how)?.finish(stop, &mut || {})?;
    if how.system {
        set.disable()?;
    }
    watched.counts = set.read();
    Ok(watched)
}

/// Counts the whole system for a time, or until `stop` becomes true.
///
/// # Errors
/// When this user may not count the whole system.
pub fn system(length: Option<Ns>, width: Width, stop: &AtomicBool) -> Result<Watched> {
    let mut set = everywhere(width)?;
    set.enable()?;
    let elapsed = pass(length, stop, LOOK_EVERY, &mut || {});
    set.disable()?;
    Ok(Watched { counts: set.read(), elapsed, user: Ns::ZERO, system: Ns::ZERO, status: None })
}

/// Waits until a time has passed or a stop, and calls `meanwhile` regularly; returns the elapsed time.
pub(crate) fn pass(length: Option<Ns>, stop: &AtomicBool, every: Ns, meanwhile: &mut dyn FnMut()) -> Ns {
    let from = sys::monotonic_ns();
    let until = length.map_or(u64::MAX, |l| from.saturating_add(l.0));
    while !stop.load(Relaxed) && sys::monotonic_ns() < until {
        sys::sleep_for(until.saturating_sub(sys::monotonic_ns()).min(every.0));
        meanwhile();
    }
    Ns(sys::monotonic_ns() - from)
}

pub(crate) struct Started {
    child: Child,
    program: String,
    from: u64,
}

/// # Errors
/// When the command can't be started.
pub(crate) fn start(argv: &[String], how: WatchOptions) -> Result<Started> {
    let (program, arguments) = argv.split_first().ok_or_else(|| Error::input("the command is empty"))?;
    let mut command = Command::new(program);
    command.args(arguments);
    match how.output {
        Output::Kept => {}
        Output::Aside => {
            let aside = std::io::stderr().as_fd().try_clone_to_owned();
            command.stdout(aside.map_or_else(|_| Stdio::null(), Stdio::from));
        }
        Output::Dropped => {
            command.stdout(Stdio::null());
        }
    }
    let from = sys::monotonic_ns();
    let child = command.spawn().map_err(|e| unstartable(program, &e))?;
    Ok(Started { child, program: program.clone(), from })
}

impl Started {
    pub fn id(&self) -> u32 {
        self.child.id()
    }
    /// Waits for the end, and calls `meanwhile` several times a second. The caller reads the counters.
    ///
    /// # Errors
    /// When it is not a child of this process.
    pub fn finish(self, stop: &AtomicBool, meanwhile: &mut dyn FnMut()) -> Result<Watched> {
        let id = self.child.id();
        let elapsed = Ns(wait(id, stop, meanwhile) - self.from);
        let (status, used) = offspring::take(id)
            .map_err(|e| Error::machine(format!("can't wait for '{}': {e}", self.program)))?;
        let (user, system) = (used.user, used.system);
        Ok(Watched { counts: Counts::default(), elapsed, user, system, status: Some(status) })
    }
}

fn everywhere(width: Width) -> Result<Set> {
    let set = Set::open(&Whom::Cpus(online()?), width);
    match set.why("perf.task_clock") {
        Some(why) if set.is_empty() => {
            Err(Error::machine(format!("the whole system can't be counted: {why}"))
                .help("without -a the command and its children are counted"))
        }
        _ => Ok(set),
    }
}

/// # Errors
/// When sysfs does not list online CPUs.
pub fn online() -> Result<Vec<u32>> {
    let text = std::fs::read_to_string(ONLINE).map_err(|e| Error::io(ONLINE.as_ref(), "read", &e))?;
    Ok(CpuSet::parse(text.trim())?.iter().map(|c| c.0).collect())
}

/// Waits for a child's end without reaping it; returns the time of the end, ns of the monotonic clock.
fn wait(child: u32, stop: &AtomicBool, meanwhile: &mut dyn FnMut()) -> u64 {
    let end = offspring::end_of(child);
    let pause = if end.is_some() { LOOK_EVERY } else { LOOK_EVERY_BLIND };
    let mut end_at = None;
    loop {
        let [ended] = sys::wait_readable([end.as_ref().map(AsFd::as_fd)], pause.0);
        let now = sys::monotonic_ns();
        meanwhile();
        if ended || (end.is_none() && offspring::has_ended(child)) {
            return now;
        }
        if stop.load(Relaxed) && now >= *end_at.get_or_insert(now + END_WITHIN.0) {
            offspring::terminate(child);
            end_at = Some(u64::MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::testing::skipped;

    fn run(words: &[&str]) -> Watched {
        let argv: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        command(
            &argv,
            WatchOptions { output: Output::Aside, ..WatchOptions::default() },
            &AtomicBool::new(false),
        )
        .unwrap()
    }

    #[test]
    fn a_command_is_counted_from_its_exec_with_its_children() {
        let w = run(&["sh", "-c", "sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'; exit 7"]);
        assert_eq!(w.code(), 7);
        let Some(clock) = w.counts.counters.get("perf.task_clock") else {
            return skipped(format!("perf.task_clock: {:?}", w.counts.uncounted));
        };
        assert!(*clock > 1_000_000 && *clock <= 4 * w.elapsed.0, "{clock} of {}", w.elapsed);
        assert!(w.counts.counters["perf.page_faults"] > 20, "{:?}", w.counts);
        assert_eq!(run(&["sh", "-c", "kill -9 $$"]).code(), 137);
    }

    #[test]
    fn a_stop_ends_a_command_that_would_not() {
        let stop = AtomicBool::new(true);
        let argv = ["sleep", "60"].map(str::to_owned);
        let w = command(&argv, WatchOptions::default(), &stop).unwrap();
        assert_eq!(w.code(), 128 + libc::SIGTERM as u8);
        assert!(w.elapsed < Ns::secs(20));
    }

    #[test]
    fn missing_commands_are_errors() {
        let argv = ["/no/such/program".to_owned()];
        let e = command(&argv, WatchOptions::default(), &AtomicBool::new(false)).unwrap_err();
        assert!(e.to_string().contains("it is not there"), "{e}");
    }

    #[test]
    fn the_whole_system_is_counted_on_every_cpu_or_the_error_has_a_remedy() {
        let mut shares = Vec::new();
        // Between the starts on two CPUs, or between the ends of counters and clock, other work may run, but not
        // always.
        while !shares.last().is_some_and(|share| (0.8..1.2).contains(share)) {
            assert!(shares.len() < 5, "{shares:?}");
            match system(Some(Ns::ms(50)), Width::Usual, &AtomicBool::new(false)) {
                Ok(w) => {
                    let cpus = online().unwrap().len() as u64;
                    let clock = w.counts.counters["perf.task_clock"];
                    shares.push(clock as f64 / (w.elapsed.0 * cpus) as f64);
                }
                Err(e) => return assert!(e.to_string().contains("perf_event_paranoid"), "{e}"),
            }
        }
    }
}
