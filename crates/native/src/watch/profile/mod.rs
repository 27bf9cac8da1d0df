//! CPU time in the kernel by function: samples of a command, or of the whole system.
//!
//! Each CPU has a ring into which the kernel writes samples of its position, at a rate per second of CPU time. The
//! cycle counter triggers them if the machine has one; it also interrupts code with disabled interrupts. Otherwise a
//! timer triggers them, and samples of such code appear where it enables interrupts again. Names of kernel addresses
//! come from /proc/kallsyms.

mod perf_record;
mod stacks;
pub mod symbols;
mod tally;

pub use tally::{Profile, Share};

use crate::watch::counters::watch::{self, WatchOptions, Watched};
use crate::watch::counters::{Counts, denied, masked, not_allowed};
use perf_event::events::{Hardware, Software};
use perf_event::{Builder, SampleFlag, Sampler};
use schedlab_base::{Error, Ns, Result};
use std::io;
use std::sync::atomic::AtomicBool;
use symbols::Symbols;
use tally::Tally;

/// Bytes of a CPU's ring: an unprivileged user's limit (kernel.perf_event_mlock_kb), less a page.
const RING_BYTES: usize = 512 << 10;
/// Interval of emptying the rings.
const EMPTY_EVERY: Ns = Ns::ms(100);
/// The file with the kernel's highest rate.
const MAX_RATE: &str = "/proc/sys/kernel/perf_event_max_sample_rate";

/// The trigger of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The CPU's cycle counter.
    Cycles,
    Timer,
}

#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// Samples per second of CPU time.
    pub rate: u64,
    /// Whether call chains are kept, including user mode: for flame graphs.
    pub chains: bool,
}

/// A profile and the sampled run.
#[derive(Clone, Debug)]
pub struct Sampled {
    pub profile: Profile,
    pub clock: Clock,
    /// The run, without counters.
    pub watched: Watched,
    /// The kernel's functions, to find a requested function under its older or newer name.
    pub known: Symbols,
}

/// Samples a command with its children (or, with `how.system`, all CPUs while it runs).
///
/// # Errors
/// When sampling the kernel is not allowed, symbols are hidden, or the command can't be started.
pub fn command(argv: &[String], how: WatchOptions, ask: Ask, stop: &AtomicBool) -> Result<Sampled> {
    let (mut rings, known) = Rings::open(how.system, ask)?;
    let watched = watch::start(argv, how)?.finish(stop, &mut || rings.empty())?;
    Ok(rings.finish(watched, known))
}

/// Samples the whole system for a time, or until `stop` becomes true.
pub fn system(length: Option<Ns>, ask: Ask, stop: &AtomicBool) -> Result<Sampled> {
    let (mut rings, known) = Rings::open(true, ask)?;
    let elapsed = watch::pass(length, stop, EMPTY_EVERY, &mut || rings.empty());
    let none = Counts::default();
    let watched = Watched { counts: none, elapsed, user: Ns::ZERO, system: Ns::ZERO, status: None };
    Ok(rings.finish(watched, known))
}

struct Rings {
    rings: Vec<Sampler>,
    tally: Tally,
    clock: Clock,
}

impl Rings {
    fn open(system: bool, ask: Ask) -> Result<(Rings, Symbols)> {
        let rate = ask.rate;
        let most = std::fs::read_to_string(MAX_RATE).ok().and_then(|t| t.trim().parse::<u64>().ok());
        if let Some(most) = most.filter(|most| rate > *most) {
            return Err(Error::input(format!("{rate} samples a second: this kernel gives {most}"))
                .help(format!("sysctl kernel.perf_event_max_sample_rate={rate}")));
        }
        let known = Symbols::running()?;
        let mut tally = Tally::new(known.clone(), ask.chains);
        if system {
            mappings_so_far(&mut tally);
        }
        let cpus = watch::online()?;
        let attempt = |clock| {
            let open = |cpu: &u32| configured(clock, system, *cpu, ask).build()?.sampled(RING_BYTES);
            cpus.iter().map(open).collect::<io::Result<Vec<Sampler>>>()
        };
        let cycles = if masked() { Err(io::ErrorKind::NotFound.into()) } else { attempt(Clock::Cycles) };
        let (rings, clock) = match cycles {
            Err(e) if !denied(&e) => (attempt(Clock::Timer), Clock::Timer),
            other => (other, Clock::Cycles),
        };
        let mut rings = rings.map_err(|e| refused(&e, system))?;
        if system {
            let fault = |e| Error::machine(format!("samples can't be started: {e}"));
            rings.iter_mut().try_for_each(|r| r.enable()).map_err(fault)?;
        }
        Ok((Rings { rings, tally, clock }, known))
    }

    /// Reads all available records.
    fn empty(&mut self) {
        for ring in &mut self.rings {
            while let Some(written) = ring.next_record() {
                let parsed = perf_record::parse(written.ty(), written.misc(), &written.to_contiguous());
                self.tally.add(parsed.unwrap_or(perf_record::Record::Lost(1)));
            }
        }
    }

    fn finish(mut self, watched: Watched, known: Symbols) -> Sampled {
        for ring in &mut self.rings {
            // A ring that can't be stopped ends with its descriptor.
            let _ = ring.disable();
        }
        self.empty();
        Sampled { profile: self.tally.finish(), clock: self.clock, watched, known }
    }
}

/// The event's configuration on one CPU.
fn configured(clock: Clock, system: bool, cpu: u32, ask: Ask) -> Builder<'static> {
    let mut builder = match clock {
        Clock::Cycles => Builder::new(Hardware::CPU_CYCLES),
        Clock::Timer => Builder::new(Software::CPU_CLOCK),
    };
    builder.exclude_kernel(false).exclude_hv(false).exclude_callchain_user(!ask.chains);
    builder.sample(SampleFlag::from_bits_retain(perf_record::SAMPLE_TYPE)).sample_frequency(ask.rate);
    builder.mmap(true).task(true).comm(ask.chains).one_cpu(cpu as usize);
    if system {
        builder.any_pid();
    } else {
        builder.inherit(true).enable_on_exec(true);
    }
    builder
}

fn refused(e: &io::Error, system: bool) -> Error {
    if denied(e) {
        return Error::machine(format!("the kernel can't be sampled: {}", not_allowed(system)));
    }
    Error::machine(format!("samples can't be taken: {e}"))
}

/// Reads the mappings and thread names of all existing processes. Processes that end at the same time are skipped.
fn mappings_so_far(tally: &mut Tally) {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in processes.filter_map(|f| f.file_name().to_str()?.parse::<u32>().ok()) {
        let text = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
        for (start, length, object) in text.lines().filter_map(mapping) {
            tally.mapped(process, start, length, object);
        }
        let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        for thread in threads.filter_map(|t| t.file_name().to_str()?.parse::<u32>().ok()) {
            let name = std::fs::read_to_string(format!("/proc/{process}/task/{thread}/comm"));
            tally.named(thread, name.unwrap_or_default().trim_end());
        }
    }
}

/// First address, length and object in a line of /proc/PID/maps that maps code.
fn mapping(line: &str) -> Option<(u64, u64, &str)> {
    let mut words = line.split_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let (start, end) = (number(start)?, number(end)?);
    let code = words.next()?.contains('x');
    let object = words.nth(3).unwrap_or("[anonymous]");
    code.then(|| (start, end.saturating_sub(start), object))
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::testing::skipped;

    #[test]
    fn code_of_a_process_is_read_from_its_maps() {
        let line = "7f00-7f80 r-xp 00001000 fe:00 1234      /usr/lib/libc.so.6";
        assert_eq!(mapping(line), Some((0x7f00, 0x80, "/usr/lib/libc.so.6")));
        assert_eq!(mapping("7f00-7f80 rw-p 00000000 00:00 0"), None);
        assert_eq!(mapping("7f00-7f80 r-xp 00000000 00:00 0"), Some((0x7f00, 0x80, "[anonymous]")));
        assert_eq!(mapping("nonsense"), None);
    }

    #[test]
    fn samples_are_asked_for_as_they_are_read() {
        let b = configured(Clock::Cycles, false, 1, Ask { rate: 999, chains: false });
        let a = b.attrs();
        assert_eq!((a.type_, a.config, a.sample_type), (0, 0, perf_record::SAMPLE_TYPE));
        assert_eq!((a.inherit(), a.enable_on_exec(), a.disabled(), a.exclude_kernel()), (1, 1, 1, 0));
        assert_eq!((a.mmap(), a.task(), a.freq(), a.exclude_callchain_user()), (1, 1, 1, 1));
        let b = configured(Clock::Timer, true, 1, Ask { rate: 999, chains: true });
        let a = b.attrs();
        assert_eq!((a.type_, a.config, a.inherit(), a.enable_on_exec()), (1, 0, 0, 0));
        assert_eq!((a.comm(), a.exclude_callchain_user()), (1, 0), "chains go on in user mode");
    }

    #[test]
    fn a_rate_beyond_the_kernels_is_refused_with_the_setting() {
        let argv = ["true".to_owned()];
        let e = command(
            &argv,
            WatchOptions::default(),
            Ask { rate: u64::MAX, chains: false },
            &AtomicBool::new(false),
        )
        .unwrap_err();
        assert!(e.to_string().contains("perf_event_max_sample_rate"), "{e}");
    }

    #[test]
    fn a_busy_command_is_found_in_kernel_and_user() {
        let argv = ["dd", "if=/dev/zero", "of=/dev/null", "bs=512", "count=300000"].map(str::to_owned);
        let how = WatchOptions { output: watch::Output::Aside, ..WatchOptions::default() };
        match command(&argv, how, Ask { rate: 1999, chains: true }, &AtomicBool::new(false)) {
            Err(e) => skipped(format!("samples: {e}")),
            Ok(s) => {
                let p = &s.profile;
                assert!(p.busy > 20 && p.kernel > 0 && p.kernel <= p.busy, "{p:?}");
                assert_eq!(p.objects.values().sum::<u64>() + p.kernel, p.busy);
                assert_eq!(p.stacks.values().sum::<u64>(), p.busy);
                assert!(p.stacks.keys().any(|line| line.starts_with("dd;")), "{:?}", p.stacks);
                assert!(p.functions.values().all(|f| f.own <= f.total && f.total <= p.kernel));
                assert!(
                    p.objects.contains_key("dd") || p.objects.keys().any(|o| o.starts_with("libc")),
                    "{p:?}"
                );
            }
        }
    }
}
