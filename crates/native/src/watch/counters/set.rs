//! A set of counters opened together: the tasks they watch, enabling and disabling, reading, and reasons for missing
//! ones.

use super::counts::Counts;
use super::scale::{Reading, Scaled};
use super::table::{EVENTS, Event, Width};
use perf_event::{Builder, Counter};
use schedlab_base::{Error, Result, Warning};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// With the value `off` the CPU's own counters count as absent, so that a machine behaves like one without them.
const MASK: &str = "SCHEDLAB_PMU";
/// perf_event_attr's type for CPU events (PERF_TYPE_HARDWARE).
const HARDWARE: u32 = 0;
/// The setting that restricts users' counting.
const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

/// Tasks or CPUs watched by a set of counters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Whom {
    /// This thread and all threads and processes it makes, after [`Set::enable`].
    Offspring,
    /// The programs started by this thread, each from its exec on.
    Programs,
    /// Only this thread.
    Myself,
    /// Everything that runs on these CPUs.
    Cpus(Vec<u32>),
}

impl Whom {
    fn inherits(&self) -> bool {
        matches!(self, Whom::Offspring | Whom::Programs)
    }
}

struct Opened {
    event: &'static Event,
    counter: Counter,
    leads: bool,
}

/// Open counters; they close on drop.
pub struct Set {
    opened: Vec<Opened>,
    missing: BTreeMap<&'static str, String>,
    user_only: bool,
}

impl Set {
    /// Opens the counters of that width that this machine has; they do not count yet.
    pub fn open(whom: &Whom, width: Width) -> Set {
        let masked = masked();
        Set::open_with(whom, width, &|builder, leader| match leader {
            _ if masked && hardware(builder) => Err(io::Error::from_raw_os_error(libc::ENOENT)),
            Some(leader) => builder.build_with_group(leader),
            None => builder.build(),
        })
    }

    /// No counters, because none were requested.
    pub fn unwanted() -> Set {
        Set { opened: Vec::new(), missing: BTreeMap::new(), user_only: false }
    }

    pub fn none(why: &str) -> Set {
        let missing = EVENTS.iter().map(|event| (event.name, why.to_owned())).collect();
        Set { opened: Vec::new(), missing, user_only: false }
    }

    /// As [`Set::open`], with another way to open a counter, for tests.
    fn open_with(
        whom: &Whom,
        width: Width,
        ask: &dyn Fn(&Builder<'_>, Option<&mut Counter>) -> io::Result<Counter>,
    ) -> Set {
        let mut set = Set { opened: Vec::new(), missing: BTreeMap::new(), user_only: false };
        let cpus: Vec<Option<u32>> = match whom {
            Whom::Cpus(cpus) => cpus.iter().copied().map(Some).collect(),
            _ => vec![None],
        };
        for cpu in cpus {
            let first = set.opened.len();
            for event in EVENTS.iter().filter(|e| e.width <= width) {
                set.open_one(whom, cpu, event, first, ask);
            }
        }
        set
    }

    fn open_one(
        &mut self,
        whom: &Whom,
        cpu: Option<u32>,
        event: &'static Event,
        first: usize,
        ask: &dyn Fn(&Builder<'_>, Option<&mut Counter>) -> io::Result<Counter>,
    ) {
        let leader = self.opened[first..].iter().position(|o| o.leads && o.event.group == event.group);
        let mut builder = configured(event, whom, cpu, leader.is_none());
        let mut attempt =
            |builder: &Builder<'_>| ask(builder, leader.map(|at| &mut self.opened[first + at].counter));
        let mut made = attempt(&builder);
        let crowded = made.as_ref().is_err_and(|e| e.raw_os_error() == Some(libc::EINVAL));
        if crowded && leader.is_some() {
            let alone = ask(&configured(event, whom, cpu, true), None);
            match alone {
                Ok(counter) => self.opened.push(Opened { event, counter, leads: true }),
                Err(e) => drop(self.missing.insert(event.name, reason(&e, matches!(whom, Whom::Cpus(_))))),
            }
            return;
        }
        if made.as_ref().is_err_and(denied) && !matches!(whom, Whom::Cpus(_)) {
            builder.exclude_kernel(true);
            if let Ok(counter) = attempt(&builder) {
                self.user_only = true;
                made =
                    if event.in_kernel { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(counter) };
            }
        }
        match made {
            Ok(counter) => self.opened.push(Opened { event, counter, leads: leader.is_none() }),
            Err(e) => {
                self.missing.insert(event.name, reason(&e, matches!(whom, Whom::Cpus(_))));
            }
        }
    }

    /// Why a counter is missing.
    pub fn why(&self, name: &str) -> Option<&str> {
        self.missing.get(name).map(String::as_str)
    }
    /// Whether some counters exclude the kernel for lack of rights.
    pub fn counts_user_only(&self) -> bool {
        self.user_only
    }
    /// Whether nothing can be counted.
    pub fn is_empty(&self) -> bool {
        self.opened.is_empty()
    }

    /// Enables all counters, in every task that has inherited them.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn enable(&mut self) -> Result<()> {
        self.leaders().try_for_each(Counter::enable).map_err(|e| fault("started", &e))
    }
    /// Disables all counters, in the same tasks.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn disable(&mut self) -> Result<()> {
        self.leaders().try_for_each(Counter::disable).map_err(|e| fault("stopped", &e))
    }
    fn leaders(&mut self) -> impl Iterator<Item = &mut Counter> {
        self.opened.iter_mut().filter(|o| o.leads).map(|o| &mut o.counter)
    }

    /// The counts so far, including tasks that have ended.
    pub fn read(&mut self) -> Counts {
        let mut readings: BTreeMap<&'static str, Reading> = BTreeMap::new();
        let mut counts = Counts::default();
        let mut missing = self.missing.clone();
        for Opened { event, counter, .. } in &mut self.opened {
            match counter.read_full() {
                Ok(data) => {
                    let ns = |t: Option<std::time::Duration>| t.map_or(0, |t| t.as_nanos() as u64);
                    let (enabled_ns, running_ns) = (ns(data.time_enabled()), ns(data.time_running()));
                    let reading = Reading { count: data.count(), enabled_ns, running_ns };
                    let sum = readings.entry(event.name).or_default();
                    *sum = sum.plus(reading);
                }
                Err(e) => {
                    missing.insert(event.name, format!("it could not be read: {e}"));
                }
            }
        }
        let mut stretched = Vec::new();
        for (name, reading) in readings.into_iter().filter(|(name, _)| !self.missing.contains_key(name)) {
            match reading.scaled() {
                Scaled::Whole(n) => drop(counts.counters.insert(name.to_owned(), n)),
                Scaled::Stretched(n, share) => {
                    counts.counters.insert(name.to_owned(), n);
                    stretched.push((name, share));
                }
                Scaled::Never => drop(missing.insert(name, "the CPU had no free register for it".to_owned())),
            }
        }
        counts.uncounted = missing.into_iter().map(|(name, why)| (name.to_owned(), why)).collect();
        counts.warnings.extend(multiplexed(&stretched));
        counts.warnings.extend(self.user_only.then(user_only));
        counts
    }
}

/// Whether the CPU's own counters must count as absent.
pub fn masked() -> bool {
    std::env::var_os(MASK).is_some_and(|word| word == "off")
}

fn hardware(builder: &Builder<'_>) -> bool {
    builder.attrs().type_ == HARDWARE
}

/// The event's configuration: watched tasks, start, and whether the kernel is included.
fn configured(event: &Event, whom: &Whom, cpu: Option<u32>, leads: bool) -> Builder<'static> {
    let mut builder = event.builder();
    builder.exclude_kernel(false).exclude_hv(false).inherit(whom.inherits());
    // A member counts when its leader does, so only leaders begin disabled.
    builder.enabled(!leads).enable_on_exec(leads && *whom == Whom::Programs);
    if let Some(cpu) = cpu {
        builder.any_pid().one_cpu(cpu as usize);
    }
    builder
}

fn fault(what: &str, e: &io::Error) -> Error {
    Error::machine(format!("the performance counters can't be {what}: {e}"))
}

/// Whether the kernel refused for lack of rights.
pub fn denied(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::EACCES | libc::EPERM))
}

/// Why the kernel did not open a counter, with a remedy.
fn reason(e: &io::Error, whole_system: bool) -> String {
    match e.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::ENXIO) => {
            "this machine has no such counter".to_owned()
        }
        Some(libc::ENOSYS) => "this kernel was built without performance counters".to_owned(),
        Some(libc::EMFILE | libc::ENFILE) => "no file descriptors are left for it (ulimit -n)".to_owned(),
        _ if denied(e) || e.kind() == io::ErrorKind::PermissionDenied => not_allowed(whole_system),
        _ => format!("the kernel refuses it: {e}"),
    }
}

/// The message that counting is not allowed, with the setting that would allow it.
pub fn not_allowed(whole_system: bool) -> String {
    let now =
        std::fs::read_to_string(PARANOID).map_or_else(|_| "unknown".to_owned(), |t| t.trim().to_owned());
    let wanted = if whole_system { 0 } else { 1 };
    format!(
        "not allowed: kernel.perf_event_paranoid is {now}; sysctl kernel.perf_event_paranoid={wanted}, or CAP_PERFMON"
    )
}

fn multiplexed(stretched: &[(&str, f64)]) -> Option<Warning> {
    let least = stretched.iter().map(|(_, share)| *share).min_by(f64::total_cmp)?;
    let names: BTreeSet<&str> = stretched.iter().map(|(name, _)| *name).collect();
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    let text = format!(
        "the CPU has too few registers: {names} took turns and were counted for {least:.0}% of the time at least; \
         the figures are stretched to the whole"
    );
    Some(Warning::new("perf.multiplexed", text))
}

fn user_only() -> Warning {
    let text = format!("counters leave out what the kernel did for the tasks: {}", not_allowed(false));
    Warning::new("perf.user_only", text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::testing::skipped;

    fn refusing(errno: i32, kernel_only: bool) -> Set {
        Set::open_with(&Whom::Offspring, Width::Caches, &|builder, leader| {
            if kernel_only && builder.attrs().exclude_kernel() == 1 {
                return match leader {
                    Some(leader) => builder.build_with_group(leader),
                    None => builder.build(),
                };
            }
            Err(io::Error::from_raw_os_error(errno))
        })
    }

    #[test]
    fn unavailable_counters_have_a_reason_and_a_remedy() {
        let mut none = refusing(libc::ENOENT, false);
        assert!(none.is_empty() && none.why("perf.cycles").is_some_and(|w| w.contains("no such counter")));
        let counts = none.read();
        assert!(counts.counters.is_empty() && counts.uncounted.len() == EVENTS.len());
        let set = refusing(libc::EACCES, false);
        assert!(set.why("perf.task_clock").is_some_and(|w| w.contains("kernel.perf_event_paranoid=1")));
        assert!(refusing(libc::EMFILE, false).why("perf.cycles").is_some_and(|w| w.contains("ulimit -n")));
        let cpus = Whom::Cpus(vec![0, 1]);
        let set =
            Set::open_with(&cpus, Width::Caches, &|_, _| Err(io::Error::from_raw_os_error(libc::EACCES)));
        assert!(set.why("perf.cycles").is_some_and(|w| w.contains("kernel.perf_event_paranoid=0")));
    }

    /// Software clocks replace the CPU's events, and the kernel refuses a third member like a CPU with two registers.
    #[test]
    fn a_group_that_does_not_fit_is_counted_alone_and_one_that_does_as_one() {
        let leads = |registers: usize| {
            let members = std::cell::Cell::new(0);
            let set = Set::open_with(&Whom::Myself, Width::Usual, &|builder, leader| {
                let mut clock = Builder::new(perf_event::events::Software::CPU_CLOCK);
                let clock =
                    if hardware(builder) { &mut clock } else { return Err(io::ErrorKind::NotFound.into()) };
                match leader {
                    Some(_) if members.get() + 1 >= registers => {
                        Err(io::Error::from_raw_os_error(libc::EINVAL))
                    }
                    Some(leader) => {
                        members.set(members.get() + 1);
                        clock.exclude_kernel(true).build_with_group(leader)
                    }
                    None => clock.exclude_kernel(true).enabled(false).build(),
                }
            });
            (set.opened.len(), set.opened.iter().filter(|o| o.leads).count())
        };
        if leads(8).0 == 0 {
            return skipped("a clock of user mode");
        }
        assert_eq!((leads(8), leads(2)), ((4, 1), (4, 3)));
    }

    #[test]
    fn user_mode_alone_counts_no_events_of_the_kernel() {
        let mut set = refusing(libc::EACCES, true);
        if set.is_empty() {
            return skipped("a counter of user mode");
        }
        let counts = set.read();
        for absent in ["perf.context_switches", "perf.migrations"] {
            assert!(!counts.counters.contains_key(absent) && counts.uncounted.contains_key(absent));
        }
        assert!(counts.counters.contains_key("perf.task_clock"), "{counts:?}");
        assert_eq!(counts.warnings.iter().filter(|w| w.code == "perf.user_only").count(), 1);
    }

    #[test]
    fn only_leaders_wait_and_programs_begin_at_their_exec() {
        let of = |whom: &Whom, leads| {
            let b = configured(&EVENTS[0], whom, None, leads);
            let a = b.attrs();
            [a.disabled(), a.enable_on_exec(), a.inherit(), a.exclude_kernel()]
        };
        assert_eq!(of(&Whom::Offspring, true), [1, 0, 1, 0]);
        assert_eq!(of(&Whom::Offspring, false), [0, 0, 1, 0]);
        assert_eq!(of(&Whom::Programs, true), [1, 1, 1, 0]);
        assert_eq!(of(&Whom::Programs, false), [0, 0, 1, 0]);
        assert_eq!(of(&Whom::Myself, true), [1, 0, 0, 0]);
    }

    #[test]
    fn counters_that_took_turns_are_reported_with_the_share() {
        assert_eq!(multiplexed(&[]), None);
        let text = multiplexed(&[("perf.cycles", 61.7), ("perf.branches", 33.2)]).unwrap().message;
        assert!(text.contains("perf.branches, perf.cycles took turns") && text.contains("33%"), "{text}");
    }
}
