//! Checks identities among the counters of one CPU. They hold over any interval and for any workload.
//!
//! They follow from the exits of `load_balance()` in kernel 6.1. An attempt ends balanced (in four ways, two of which
//! have a counter), failed, or with tasks moved. Attempts that moved something have no counter: they are the rest of
//! lb_count. Two things can't be checked by counters: how the rest of lb_balanced splits (not our turn, all pinned),
//! and lb_hot_gained, which these kernels increment before they know that the task will move.

use super::{Balance, CpuStat, DomainStat, IdleType, Layout, Schedstat};

/// Violations of the identities, each a sentence with its place. The counters must cover whole attempts: a pass in
/// progress at either end breaks identities ([`identities_within`] allows for that).
pub fn identities(stat: &Schedstat) -> Vec<String> {
    identities_within(stat, 0)
}

/// As [`identities`], but each sum may be off by `slack`. For a live file that is 2: CPUs continue to count while it is
/// read, by 1 at each end.
pub fn identities_within(stat: &Schedstat, slack: u64) -> Vec<String> {
    let mut found =
        BrokenIdentities { slack, wraps: fits_32_bits(stat), place: String::new(), all: Vec::new() };
    let every = stat.cpus.iter().map(|c| c.id).collect();
    for cpu in &stat.cpus {
        let sees_all = cpu.domains.last().is_some_and(|d| d.span == every);
        found.place = cpu.id.to_string();
        wakeups(cpu, sees_all, &mut found);
        for (level, domain) in cpu.domains.iter().enumerate() {
            found.place = format!("{}.domain{level}", cpu.id);
            active(domain, &mut found);
            for idle in IdleType::ALL {
                found.place = format!("{}.domain{level}.{}", cpu.id, idle.kernel_name());
                // Active balance counts its moves as gained by an idle CPU, even if the CPU was not idle.
                let pushed = if idle == IdleType::Idle { domain.alb_pushed } else { 0 };
                attempts(&domain.lb[idle as usize], pushed, stat.layout, &mut found);
            }
        }
    }
    found.all
}

/// Whether every counter fits the kernel's width, so that each may have wrapped. A simulator's counters are wider.
fn fits_32_bits(stat: &Schedstat) -> bool {
    let fits = |n: u64| n <= u64::from(u32::MAX);
    stat.cpus.iter().all(|cpu| {
        [cpu.ttwu_count, cpu.ttwu_local, cpu.sched_count, cpu.sched_goidle].into_iter().all(fits)
            && cpu.domains.iter().all(|d| {
                let of = |b: &Balance| fits(b.lb_count) && fits(b.lb_balanced) && fits(b.lb_gained);
                fits(d.ttwu_wake_remote) && fits(d.alb_count) && d.lb.iter().all(of)
            })
    })
}

/// A counter of 32 bits, and half of its range.
const MASK: u64 = u32::MAX as u64;
const HALF: u64 = 1 << 31;

struct BrokenIdentities {
    slack: u64,
    /// Whether the counters are 32 bits wide and may have wrapped. Then a sum is known only modulo 2^32, and a value
    /// that is smaller by more than half that range may actually be larger.
    wraps: bool,
    place: String,
    all: Vec<String>,
}

impl BrokenIdentities {
    /// By how much `a` exceeds `b`; 0 if it does not. If `a` may have wrapped, a small difference modulo 2^32 counts.
    fn more(&self, a: u64, b: u64) -> u64 {
        let wrapped = u64::from(a.wrapping_sub(b) as u32);
        match a.checked_sub(b) {
            Some(more) => more,
            None if self.wraps && wrapped < HALF => wrapped,
            None => 0,
        }
    }
    fn at_most(&mut self, what: &str, small: u64, large: u64) {
        let by = small.saturating_sub(large);
        // If `large` may have wrapped, it is larger by the amount that it seems smaller.
        let by = if self.wraps && by & MASK >= HALF {
            0
        } else if self.wraps {
            by & MASK
        } else {
            by
        };
        if by > self.slack {
            self.all.push(format!("{}: {what}, but {small} > {large}", self.place));
        }
    }
    fn equal(&mut self, what: &str, a: u64, b: u64) {
        let by = a.abs_diff(b);
        let by = if self.wraps { (by & MASK).min(by.wrapping_neg() & MASK) } else { by };
        if by > self.slack {
            self.all.push(format!("{}: {what}, but {a} is not {b}", self.place));
        }
    }
}

fn attempts(b: &Balance, pushed: u64, layout: Layout, found: &mut BrokenIdentities) {
    let ended = b.lb_balanced.saturating_add(b.lb_failed);
    found.at_most("lb_balanced + lb_failed <= lb_count", ended, b.lb_count);
    let named = b.lb_nobusyg.saturating_add(b.lb_nobusyq);
    found.at_most("lb_nobusyg + lb_nobusyq <= lb_balanced", named, b.lb_balanced);
    let moved = found.more(b.lb_count, ended);
    let gained = found.more(b.lb_gained, pushed);
    found.at_most("alb_pushed <= lb_gained of CPU_IDLE", pushed, b.lb_gained);
    found.at_most("each attempt that neither balanced nor failed gained a task", moved, gained);
    if moved == 0 {
        found.equal("no attempt moved anything, so none gained", gained, 0);
    }
    // All other attempts leave before they read statistics, or they find a queue.
    let unnamed = found.more(b.lb_balanced, named);
    let searched = found.more(b.lb_count, unnamed);
    if layout.sg_scan {
        found.at_most("each search reads one group or more", searched, b.lb_sg_scan);
        if b.lb_count == 0 {
            found.equal("no attempt, no group read", b.lb_sg_scan, 0);
        }
    }
    // If counters may have wrapped, `lb_count` below the sum of the others shows nothing else.
    let none_found = if found.wraps { b.lb_count == named } else { b.lb_count <= named };
    if none_found {
        let row = super::BALANCE_ROWS.iter().find(|r| r.name == "lb_imbalance");
        found.equal("no attempt found a queue, so no imbalance was added", row.map_or(0, |r| (r.get)(b)), 0);
    }
}

fn active(d: &DomainStat, found: &mut BrokenIdentities) {
    let ended = d.alb_failed.saturating_add(d.alb_pushed);
    found.equal("alb_count = alb_failed + alb_pushed", d.alb_count, ended);
}

fn wakeups(cpu: &CpuStat, sees_all: bool, found: &mut BrokenIdentities) {
    let sum = |field: fn(&DomainStat) -> u64| cpu.domains.iter().map(field).fold(0, u64::saturating_add);
    let placed = cpu.ttwu_local.saturating_add(sum(|d| d.ttwu_wake_remote));
    if sees_all {
        found.equal("ttwu_count = ttwu_local + ttwu_wake_remote of all domains", cpu.ttwu_count, placed);
    } else {
        found.at_most("ttwu_local + ttwu_wake_remote of all domains <= ttwu_count", placed, cpu.ttwu_count);
    }
    found.at_most(
        "ttwu_move_affine of all domains <= ttwu_count",
        sum(|d| d.ttwu_move_affine),
        cpu.ttwu_count,
    );
    found.at_most("sched_goidle <= sched_count", cpu.sched_goidle, cpu.sched_count);
}
