//! Limits on a guest's boot and run time. All times are the host's.
//!
//! A limit should detect hangs, not slowness, so it is several times the measured times. Translated guests booted
//! within 5 s of real time at 8 CPUs, and within 75 s at 32 when instructions are counted; a second of virtual time
//! with all CPUs busy took 8 to 13 s. A busy host may take several times as long.

use crate::{Accelerator, Guest, Mode};
use schedlab_base::{Error, Ns, Result};
use std::time::Duration;

/// The environment variable for both limits, in seconds.
pub const LIMIT_VARIABLE: &str = "SCHEDLAB_VM_TIMEOUT";

/// Maximal durations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From the start of QEMU until init runs.
    pub boot: Duration,
    /// From then until the reply.
    pub run: Duration,
}

/// The limits for a guest whose run takes `run` in its own time. The user's limits override them.
///
/// # Errors
/// When the variable is not a number of seconds.
pub fn limits(guest: &Guest, cpus: usize, run: Ns) -> Result<Limits> {
    given_or(usual(guest.mode, guest.accelerator, cpus as u64, run))
}

/// The user's limits, else `usual`.
pub fn given_or(usual: Limits) -> Result<Limits> {
    std::env::var(LIMIT_VARIABLE).map_or(Ok(usual), |text| given(&text))
}

fn given(text: &str) -> Result<Limits> {
    let seconds = text.trim().parse().ok().filter(|s| (1..=604_800).contains(s)).ok_or_else(|| {
        Error::input(format!("{LIMIT_VARIABLE} is '{text}', which is not a number of seconds"))
            .help("give 1 to 604800 (a week)")
    })?;
    Ok(Limits { boot: Duration::from_secs(seconds), run: Duration::from_secs(seconds) })
}

fn usual(mode: Mode, accelerator: Accelerator, cpus: u64, run: Ns) -> Limits {
    let run = run.0.div_ceil(1_000_000_000);
    let (boot, run) = match (mode, accelerator) {
        (Mode::Deterministic, _) => (90 + 10 * cpus, 120 + 60 * run),
        (Mode::RealTime, Accelerator::Tcg) => (60 + 5 * cpus, 60 + 5 * cpus + 3 * run),
        (Mode::RealTime, Accelerator::Kvm) => (30 + cpus, 30 + cpus + 2 * run),
    };
    Limits { boot: Duration::from_secs(boot), run: Duration::from_secs(run) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_grow_with_work_and_the_users_prevail() {
        let tcg = |cpus, run| usual(Mode::RealTime, Accelerator::Tcg, cpus, Ns::secs(run));
        assert!(
            tcg(32, 10).boot > tcg(8, 10).boot && tcg(8, 100).run > tcg(8, 10).run + Duration::from_secs(90)
        );
        let counted = usual(Mode::Deterministic, Accelerator::Tcg, 32, Ns::secs(1));
        assert!(counted.boot > Duration::from_secs(3 * 75));
        let own = given(" 7 ").unwrap();
        assert_eq!((own.boot, own.run), (Duration::from_secs(7), Duration::from_secs(7)));
        assert!(given("soon").unwrap_err().to_string().contains(LIMIT_VARIABLE) && given("0").is_err());
    }
}
