//! Flags and parameters of a fresh domain, one row per kernel era and level.
//!
//! Mirrors the `SD_*_INIT` tables (2.6.x to 3.15) and `sd_init` (3.16+) of x86, and ia64's `SD_NODE_INIT` of 2.6.12. A
//! row holds from its version up to the next row's. Intervals are milliseconds; since 3.16 (NUMA: 3.5) they are the
//! number of CPUs in the domain. Eras begin because of these changes: 2.6.13 brought indices and balancing at fork;
//! 2.6.23 is the first CFS; 2.6.28 tuned domains anew; 2.6.32 dropped `SD_WAKE_BALANCE`; 3.5 rewrote NUMA domains; 3.16
//! unified the tables; 5.3 removed `cpu_load[]` and its indices; 5.10 lowered `busy_factor` and `imbalance_pct`.
//!
//! Read in sources: the values of 2.6.12, 2.6.13 (except NODE), 2.6.29-30, 2.6.32-3.4, about 4.12 and 6.1. From memory
//! of the history, not read: the releases of the changes between these (3.5, 3.12, 3.16, 5.3, 5.10), and the rows of
//! 3.5 and 5.3.

use super::parts::{DomainParams, Level};
use crate::Arch;
use schedlab_base::Version;

/// Balance intervals of a domain.
#[derive(Clone, Copy)]
enum Interval {
    /// Shortest and longest, ms; a fresh domain starts with 1 ms.
    Fixed(u32, u32),
    /// Shortest: the domain's number of CPUs, ms; longest: twice that. A fresh domain starts with the shortest.
    Weight,
}
use Interval::{Fixed, Weight};

const NEWIDLE: u16 = 1 << 0;
const FORK: u16 = 1 << 1;
const EXEC: u16 = 1 << 2;
const AFFINE: u16 = 1 << 3;
const WAKE_BALANCE: u16 = 1 << 4;
const WAKE_IDLE: u16 = 1 << 5;
const SHARE_CAPACITY: u16 = 1 << 6;
const SHARE_LLC: u16 = 1 << 7;
const PREFER_SIBLING: u16 = 1 << 8;
const SERIALIZE: u16 = 1 << 9;
const NUMA: u16 = 1 << 10;

/// Flags of every level since 3.16, in addition to its own.
const COMMON: u16 = NEWIDLE | FORK | EXEC | AFFINE;
/// Flags in the unified `sd_init`: SMT, MC, DIE, NUMA.
const SMT_316: u16 = COMMON | SHARE_CAPACITY | SHARE_LLC | PREFER_SIBLING;
const MC_316: u16 = COMMON | SHARE_LLC | PREFER_SIBLING;
const DIE_316: u16 = COMMON | PREFER_SIBLING;
const NUMA_316: u16 = COMMON | SERIALIZE | NUMA;
/// 2.6.13 to 2.6.26: wakeups look for an idle thread.
const SMT_2626: u16 = NEWIDLE | EXEC | AFFINE | WAKE_IDLE | SHARE_CAPACITY | SHARE_LLC;
/// 2.6.29: both kinds of balancing at wakeup.
const WAKE_2629: u16 = FORK | EXEC | AFFINE | WAKE_BALANCE;

struct Row {
    interval: Interval,
    busy_factor: u32,
    imbalance_pct: u32,
    cache_nice_tries: u32,
    /// Indices: busy, idle, newidle, wake, forkexec.
    idx: [u8; 5],
    flags: u16,
}

struct Era {
    since: Version,
    smt: Row,
    mc: Row,
    die: Row,
    numa: Row,
}

const fn row(interval: Interval, busy: u32, pct: u32, tries: u32, idx: [u8; 5], flags: u16) -> Row {
    Row { interval, busy_factor: busy, imbalance_pct: pct, cache_nice_tries: tries, idx, flags }
}

/// No index into `cpu_load[]`: the array is absent, or its first entry is used.
const NO: [u8; 5] = [0; 5];
/// The single average of 2.6.12 behaves like the second entry of the later array.
const ONE: [u8; 5] = [2; 5];

// SMT and MC have SHARE_LLC in every era, because a shared cache is a fact of the hardware. Kernels without that flag
// at a level have no code that reads it there.
#[rustfmt::skip]
const ERAS: &[Era] = &[
    // 2.6.12 sched.h and i386/x86_64 topology.h. NODE has no newidle flag; fork balancing came later.
    Era {
        since: Version::new(0, 0),
        smt: row(Fixed(1, 2), 8, 110, 0, ONE, NEWIDLE | EXEC | AFFINE | WAKE_IDLE | SHARE_CAPACITY | SHARE_LLC),
        mc: row(Fixed(1, 4), 64, 125, 1, ONE, NEWIDLE | EXEC | AFFINE | SHARE_LLC),
        die: row(Fixed(1, 4), 64, 125, 1, ONE, NEWIDLE | EXEC | AFFINE),
        numa: row(Fixed(8, 32), 32, 125, 1, ONE, EXEC | WAKE_BALANCE | NUMA),
    },
    // 2.6.13 to 2.6.22: topology.h of that time. MC (2.6.17) has the values of CPU; NODE is x86_64's, from memory.
    Era {
        since: Version::v2_6(13),
        smt: row(Fixed(1, 2), 8, 110, 0, [0, 0, 1, 0, 0], SMT_2626),
        mc: row(Fixed(1, 4), 64, 125, 1, [2, 1, 2, 1, 1], NEWIDLE | EXEC | AFFINE | SHARE_LLC),
        die: row(Fixed(1, 4), 64, 125, 1, [2, 1, 2, 1, 1], NEWIDLE | EXEC | AFFINE),
        numa: row(Fixed(8, 32), 32, 125, 2, [3, 2, 0, 1, 1], EXEC | FORK | WAKE_BALANCE | NUMA),
    },
    // 2.6.26 sched.h and topology.h: only nodes balance at wakeup or fork.
    Era {
        since: Version::v2_6(23),
        smt: row(Fixed(1, 2), 64, 110, 0, [0, 0, 2, 1, 1], SMT_2626),
        mc: row(Fixed(1, 4), 64, 125, 1, [2, 1, 2, 1, 1], NEWIDLE | EXEC | AFFINE | SHARE_LLC),
        die: row(Fixed(1, 4), 64, 125, 1, [2, 1, 2, 1, 1], NEWIDLE | EXEC | AFFINE),
        numa: row(Fixed(8, 32), 32, 125, 2, [3, 2, 2, 1, 1], WAKE_2629 | SERIALIZE | NUMA),
    },
    // 2.6.29-30, x86_64.
    Era {
        since: Version::v2_6(28),
        smt: row(Fixed(1, 2), 64, 110, 0, NO, NEWIDLE | WAKE_2629 | SHARE_CAPACITY | SHARE_LLC),
        mc: row(Fixed(1, 4), 64, 125, 1, [2, 0, 0, 1, 1], WAKE_2629 | SHARE_LLC),
        die: row(Fixed(1, 4), 64, 125, 1, [2, 1, 2, 1, 1], WAKE_2629),
        numa: row(Fixed(8, 32), 32, 125, 2, [3, 2, 2, 1, 1], WAKE_2629 | SERIALIZE | NUMA),
    },
    // 2.6.32 to 3.4, x86_64, with power saving off: MC and CPU prefer siblings then.
    Era {
        since: Version::v2_6(32),
        smt: row(Fixed(1, 2), 64, 110, 0, NO, COMMON | SHARE_CAPACITY | SHARE_LLC),
        mc: row(Fixed(1, 4), 64, 125, 1, [2, 0, 0, 0, 0], COMMON | SHARE_LLC | PREFER_SIBLING),
        die: row(Fixed(1, 4), 64, 125, 1, [2, 1, 0, 0, 0], COMMON | PREFER_SIBLING),
        numa: row(Fixed(8, 32), 32, 125, 2, [3, 2, 0, 0, 0], COMMON | SERIALIZE | NUMA),
    },
    Era {
        since: Version::new(3, 5),
        smt: row(Fixed(1, 2), 64, 110, 0, NO, COMMON | SHARE_CAPACITY | SHARE_LLC),
        mc: row(Fixed(1, 4), 64, 125, 1, [2, 0, 0, 0, 0], COMMON | SHARE_LLC),
        die: row(Fixed(1, 4), 64, 125, 1, [2, 1, 0, 0, 0], COMMON | PREFER_SIBLING),
        numa: row(Weight, 32, 125, 2, [3, 2, 0, 0, 0], NUMA_316),
    },
    Era {
        since: Version::new(3, 16),
        smt: row(Weight, 32, 110, 0, NO, SMT_316),
        mc: row(Weight, 32, 117, 1, [2, 0, 0, 0, 0], MC_316),
        die: row(Weight, 32, 125, 1, [2, 1, 0, 0, 0], DIE_316),
        numa: row(Weight, 32, 125, 2, [3, 2, 0, 0, 0], NUMA_316),
    },
    Era {
        since: Version::new(5, 3),
        smt: row(Weight, 32, 110, 0, NO, SMT_316),
        mc: row(Weight, 32, 117, 1, NO, MC_316),
        die: row(Weight, 32, 125, 1, NO, DIE_316),
        numa: row(Weight, 32, 125, 2, NO, NUMA_316),
    },
    Era {
        since: Version::new(5, 10),
        smt: row(Weight, 16, 110, 0, NO, SMT_316),
        mc: row(Weight, 16, 117, 1, NO, MC_316),
        die: row(Weight, 16, 117, 1, NO, DIE_316),
        numa: row(Weight, 16, 117, 2, NO, NUMA_316),
    },
];

/// NODE of ia64 in 2.6.12 (D003): balanced ten times less often than on x86. Other levels and later kernels use the
/// rows of x86; ia64's rows of later kernels were not read.
const IA64_NUMA: Row = row(Fixed(80, 320), 320, 125, 1, ONE, EXEC | WAKE_BALANCE | NUMA);

/// The parameters of a fresh domain of `level` with `weight` CPUs. NUMA levels beyond `reclaim_distance` lose exec,
/// fork and affine-wakeup balancing since 3.5 (`sd_numa_init`, later `sd_init`).
pub(super) fn params(
    version: Version,
    level: Level,
    weight: u32,
    reclaim_distance: u32,
    arch: Arch,
) -> DomainParams {
    let era = ERAS.iter().rev().find(|e| e.since <= version).unwrap_or(&ERAS[0]);
    let row = match level {
        Level::Smt => &era.smt,
        Level::Cls | Level::Mc => &era.mc,
        Level::Die => &era.die,
        Level::Numa(_) if arch == Arch::Ia64 && version < Version::v2_6(13) => &IA64_NUMA,
        Level::Numa(_) => &era.numa,
    };
    let far = matches!(level, Level::Numa(d) if d > reclaim_distance) && version >= Version::new(3, 5);
    let flags = if far { row.flags & !(EXEC | FORK | AFFINE) } else { row.flags };
    let (min_interval_ms, max_interval_ms, first_interval_ms) = match row.interval {
        Fixed(min, max) => (min, max, 1),
        Weight => (weight, 2 * weight, weight),
    };
    let has = |flag: u16| flags & flag != 0;
    DomainParams {
        min_interval_ms,
        max_interval_ms,
        first_interval_ms,
        busy_factor: row.busy_factor,
        imbalance_pct: row.imbalance_pct,
        cache_nice_tries: row.cache_nice_tries,
        busy_idx: row.idx[0],
        idle_idx: row.idx[1],
        newidle_idx: row.idx[2],
        wake_idx: row.idx[3],
        forkexec_idx: row.idx[4],
        balance_newidle: has(NEWIDLE),
        balance_fork: has(FORK),
        balance_exec: has(EXEC),
        wake_affine: has(AFFINE),
        wake_balance: has(WAKE_BALANCE),
        wake_idle: has(WAKE_IDLE),
        share_capacity: has(SHARE_CAPACITY),
        share_llc: has(SHARE_LLC),
        prefer_sibling: has(PREFER_SIBLING),
        serialize: has(SERIALIZE),
        numa: has(NUMA),
        asym_capacity: false,
        asym_full: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(version: &str, level: Level, weight: u32) -> DomainParams {
        params(Version::parse(version).unwrap(), level, weight, 30, Arch::X86)
    }

    #[test]
    fn eras_are_in_order() {
        assert!(ERAS.is_sorted_by_key(|e| e.since));
    }

    #[test]
    fn intervals_follow_the_era() {
        let ms = |v, l, w| {
            let p = of(v, l, w);
            (p.min_interval_ms, p.max_interval_ms, p.first_interval_ms, p.busy_factor)
        };
        assert_eq!(ms("2.6.12", Level::Smt, 2), (1, 2, 1, 8));
        assert_eq!(ms("2.6.30", Level::Numa(20), 16), (8, 32, 1, 32));
        assert_eq!(ms("3.4", Level::Mc, 8), (1, 4, 1, 64));
        assert_eq!(ms("4.5", Level::Mc, 24), (24, 48, 24, 32));
        assert_eq!(ms("6.5", Level::Mc, 112), (112, 224, 112, 16));
    }

    #[test]
    fn nodes_of_ia64_were_balanced_ten_times_less_often() {
        let of = |v: &str, level| params(Version::parse(v).unwrap(), level, 8, 30, Arch::Ia64);
        let node = of("2.6.12", Level::Numa(20));
        assert_eq!((node.min_interval_ms, node.max_interval_ms, node.busy_factor), (80, 320, 320));
        assert!(node.wake_balance && node.balance_exec && !node.balance_newidle && node.numa);
        assert_eq!(of("2.6.12", Level::Die), super::params(Version::v2_6(12), Level::Die, 8, 30, Arch::X86));
    }

    #[test]
    fn thresholds_and_indices_follow_the_era() {
        let pct = |v| [Level::Smt, Level::Mc, Level::Die, Level::Numa(20)].map(|l| of(v, l, 8).imbalance_pct);
        assert_eq!(pct("2.6.30"), [110, 125, 125, 125]);
        assert_eq!(pct("4.5"), [110, 117, 125, 125]);
        assert_eq!(pct("6.5"), [110, 117, 117, 117]);
        let idx = |v, l| {
            let p = of(v, l, 8);
            [p.busy_idx, p.idle_idx, p.newidle_idx, p.wake_idx, p.forkexec_idx]
        };
        assert_eq!(idx("2.6.30", Level::Die), [2, 1, 2, 1, 1]);
        assert_eq!(idx("4.5", Level::Numa(20)), [3, 2, 0, 0, 0]);
        assert_eq!(idx("6.1", Level::Numa(20)), [0; 5]);
    }

    #[test]
    fn newidle_balancing_spread_over_the_levels() {
        let on =
            |v| [Level::Smt, Level::Mc, Level::Die, Level::Numa(20)].map(|l| of(v, l, 8).balance_newidle);
        assert_eq!(on("2.6.12"), [true, true, true, false]);
        assert_eq!(on("2.6.30"), [true, false, false, false]);
        assert_eq!(on("3.4"), [true; 4]);
        assert_eq!(on("6.5"), [true; 4]);
    }

    #[test]
    fn far_nodes_lose_wakeup_and_fork_balancing_since_3_5() {
        let far = |v, d, r| {
            let p = params(Version::parse(v).unwrap(), Level::Numa(d), 8, r, Arch::X86);
            (p.wake_affine, p.balance_fork, p.balance_exec, p.balance_newidle)
        };
        assert_eq!(far("4.5", 30, 30), (true, true, true, true));
        assert_eq!(far("4.5", 31, 30), (false, false, false, true));
        assert_eq!(far("6.5", 32, 32), (true, true, true, true));
        assert_eq!(far("3.4", 40, 30), (true, true, true, true));
    }
}
