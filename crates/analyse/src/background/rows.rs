//! Makes rows of a background file from groups of threads.

use super::groups::{Group, STOPPER, ThreadKind};
use schedlab_base::{Ns, counted, printable};
use schedlab_machine::{Background, BackgroundFile};

/// The background file of these groups, measured in `window` on `cpus` CPUs; with `kernel`, only the kernel's threads.
/// Also returns the groups that are left out, each with the reason: the simulator has its own stoppers, it cannot have
/// a task that runs all the time, and a group without an arrival has no rate.
pub fn file(
    (name, about): (&str, &str),
    groups: &[Group],
    cpus: usize,
    window: Ns,
    kernel: bool,
) -> (BackgroundFile, Vec<(String, &'static str)>) {
    let (mut rows, mut left_out) = (Vec::new(), Vec::new());
    for group in groups {
        match row(group, cpus, window) {
            _ if kernel && group.kind == ThreadKind::User => left_out.push((group.name.clone(), "a process")),
            Ok(row) => rows.push(row),
            Err(why) => left_out.push((group.name.clone(), why)),
        }
    }
    let file = BackgroundFile { name: name.to_owned(), about: about.to_owned(), cpus: cpus as u32, rows };
    (file, left_out)
}

fn row(group: &Group, cpus: usize, window: Ns) -> Result<Background, &'static str> {
    if group.name == STOPPER {
        return Err("the simulator has stoppers of its own");
    }
    let (Some(run), wakeups @ 1..) = (group.run.mean, group.wakeups) else {
        return Err("no arrival began and ended within the time");
    };
    let places = if group.per_cpu { cpus as u64 } else { 1 };
    let every = Ns((u128::from(window.0) * u128::from(places) / u128::from(wakeups)) as u64);
    let run = Ns((run.round() as u64).max(1));
    if run >= every {
        return Err("it runs all the time");
    }
    Ok(Background {
        name: printable::name(&group.name).into_owned(),
        per_cpu: group.per_cpu,
        every: rounded(every),
        run,
        nice: if group.real_time { -20 } else { group.nice },
        source: source(group, cpus, window),
    })
}

/// Rounded to the microsecond if that changes less than a thousandth.
fn rounded(time: Ns) -> Ns {
    if time < Ns::ms(1) { time } else { Ns((time.0 + 500) / 1_000 * 1_000) }
}

fn source(group: &Group, cpus: usize, window: Ns) -> String {
    let time = |ns: f64| Ns(ns.round() as u64).to_string();
    let mut text = format!(
        "measured: {} of {} in {window} on {}",
        counted(group.wakeups, "wakeup"),
        counted(group.threads, "thread"),
        counted(cpus, "CPU")
    );
    if let Some(p50) = group.run.p50 {
        text += &format!("; run p50 {}", time(p50));
    }
    if let Some(p90) = group.run.p90 {
        text += &format!(", p90 {}", time(p90));
    }
    if let Some(max) = group.run.max {
        text += &format!(", longest {}", Ns(max));
    }
    text += &format!("; gaps {}", group.shape.name());
    if group.real_time {
        text += "; real-time, stands here as nice -20";
    }
    text
}
