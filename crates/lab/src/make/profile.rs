//! Samples as shares of the time CPUs were busy, with the interval of each share.

use schedlab_base::Warning;
use schedlab_compare::cpu_profile::{PROFILE_SCHEMA, ShareRow, Shares};
use schedlab_compare::stats::share::wilson95;

pub use schedlab_native::profile::symbols::also_called;
pub use schedlab_native::profile::{Ask, Clock, Profile, Sampled, Share, command, system};

/// The shares of a profile; only of the functions `names` unless that is empty.
pub fn shares(sampled: &Sampled, command: &str, whole_system: bool, rate: u64, names: &[String]) -> Shares {
    let p = &sampled.profile;
    let row = |name: &str, here: Option<&str>, share: Share| ShareRow {
        name: name.to_owned(),
        here: here.filter(|h| *h != name).map(str::to_owned),
        total: share.total,
        own: share.own,
        total_pct: percent(share.total, p.busy),
        total_ci95_pct: wilson95(share.total, p.busy),
        self_pct: percent(share.own, p.busy),
        self_ci95_pct: wilson95(share.own, p.busy),
    };
    let mut functions: Vec<ShareRow> = if names.is_empty() {
        p.functions.iter().map(|(name, share)| row(name, None, *share)).collect()
    } else {
        let called =
            |name: &str| also_called(name).filter(|_| !sampled.known.has(name)).unwrap_or(name).to_owned();
        let named = names.iter().map(|name| (name, called(name)));
        named
            .map(|(name, here)| row(name, Some(&here), p.functions.get(&here).copied().unwrap_or_default()))
            .collect()
    };
    let mut objects: Vec<ShareRow> =
        p.objects.iter().map(|(name, n)| row(name, None, Share { total: *n, own: *n })).collect();
    if names.is_empty() {
        functions.sort_by_key(|r| (std::cmp::Reverse((r.own, r.total)), r.name.clone()));
    }
    objects.sort_by_key(|r| (std::cmp::Reverse(r.own), r.name.clone()));
    let warnings = warnings(sampled, names);
    Shares {
        schema: PROFILE_SCHEMA,
        command: command.to_owned(),
        whole_system,
        elapsed_ns: sampled.watched.elapsed.0,
        rate,
        clock: if sampled.clock == Clock::Cycles { "cycles" } else { "timer" },
        samples: p.busy,
        idle: p.idle,
        kernel: p.kernel,
        lost: p.lost,
        functions,
        objects,
        warnings,
    }
}

fn percent(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { 100.0 * part as f64 / all as f64 }
}

fn warnings(sampled: &Sampled, names: &[String]) -> Vec<Warning> {
    let p = &sampled.profile;
    let mut warnings = Vec::new();
    let mut warn = |code: &str, text: String| warnings.push(Warning::new(code, text));
    if sampled.clock == Clock::Timer {
        warn(
            "profile.timer",
            "no cycle counter here: samples are taken by a timer's interrupt, so that code which holds interrupts off, \
             as much of the scheduler does, is seen where it lets them in again"
                .to_owned(),
        );
    }
    if p.lost > 0 {
        warn(
            "profile.lost",
            format!(
                "{} {} lost for lack of room: use a lower --freq",
                schedlab_base::counted(p.lost, "record"),
                schedlab_base::one_or(p.lost, "was", "were")
            ),
        );
    }
    if p.throttled > 0 {
        let text = format!(
            "the kernel slowed sampling down {}: use a lower --freq",
            schedlab_base::counted(p.throttled, "time")
        );
        warn("profile.throttled", text);
    }
    let unknown =
        |n: &&String| !sampled.known.has(n) && also_called(n).is_none_or(|other| !sampled.known.has(other));
    let unknown: Vec<&str> = names.iter().filter(unknown).map(String::as_str).collect();
    if !unknown.is_empty() {
        let text = format!(
            "no function of this kernel is called {}: misspelt, or made part of its caller by the compiler",
            unknown.join(", ")
        );
        warn("profile.unknown", text);
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::Ns;
    use schedlab_native::counters::{Counts, watch::Watched};
    use schedlab_native::profile::symbols::Symbols;
    use std::collections::BTreeMap;

    fn sampled() -> Sampled {
        let functions = [("schedule", 6, 1), ("sched_balance_newidle", 5, 2), ("update_sd_lb_stats", 3, 3)];
        let functions = functions.map(|(n, total, own)| (n.to_owned(), Share { total, own })).into();
        let objects = BTreeMap::from([("libc.so.6".to_owned(), 4)]);
        let profile = Profile { busy: 10, idle: 5, kernel: 6, functions, objects, ..Profile::default() };
        let (counts, user, system) = (Counts::default(), Ns::ZERO, Ns::ZERO);
        let watched = Watched { counts, elapsed: Ns::ms(15), user, system, status: None };
        let known = Symbols::parse(
            "100 T schedule\n200 t sched_balance_newidle\n300 t update_sd_lb_stats\n400 t x\n",
        );
        Sampled { profile, clock: Clock::Timer, watched, known }
    }

    #[test]
    fn shares_are_of_busy_samples_and_most_of_their_own_come_first() {
        let s = shares(&sampled(), "x", false, 999, &[]);
        let rows: Vec<(&str, f64, f64)> =
            s.functions.iter().map(|r| (r.name.as_str(), r.total_pct, r.self_pct)).collect();
        let want = [
            ("update_sd_lb_stats", 30.0, 30.0),
            ("sched_balance_newidle", 50.0, 20.0),
            ("schedule", 60.0, 10.0),
        ];
        assert_eq!(rows, want);
        assert_eq!((s.objects[0].name.as_str(), s.objects[0].self_pct), ("libc.so.6", 40.0));
        assert_eq!(s.warnings.len(), 1);
    }

    #[test]
    fn functions_are_found_by_old_and_new_names_and_may_be_zero() {
        let names = ["newidle_balance", "x", "no_such"].map(str::to_owned);
        let s = shares(&sampled(), "x", false, 999, &names);
        assert_eq!(
            (s.functions[0].total, s.functions[0].here.as_deref()),
            (5, Some("sched_balance_newidle"))
        );
        assert_eq!((s.functions[1].total, s.functions[1].here.as_deref()), (0, None));
        assert!(s.functions[1].total_ci95_pct.is_some_and(|[low, high]| low == 0.0 && high > 20.0));
        assert!(s.warnings.iter().any(|w| w.code == "profile.unknown" && w.message.contains("no_such:")));
    }
}
