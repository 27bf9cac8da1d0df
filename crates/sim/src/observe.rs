//! Figures that are not in events: counters of the costs of a run.

use schedlab_board::board::Counts;
use schedlab_kernel::{Feature, FeatureSet};
use schedlab_machine::Domains;
use schedlab_record::schedstat::Schedstat;
use schedlab_trace::{ActiveReason, AffineReason, KickReason, SkipReason};

/// Sums over a run, from the end of the warm-up; times in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub wakeups: u64,
    /// Time spent by wakers on choosing a CPU.
    pub select_ns: u64,
    /// Time in newidle balance.
    pub newidle_ns: u64,
    /// Time in periodic and nohz balance.
    pub periodic_ns: u64,
    /// The part of `newidle_ns` and `periodic_ns` spent on reading statistics.
    pub stats_ns: u64,
    /// Checks by wakers that found the wakee still on its old CPU.
    pub on_cpu_waits: u64,
    /// Ticks at which two tasks of a group shared a CPU while another CPU of its cache had a shorter queue.
    pub crowded_ticks: u64,
    /// Time spent leaving idle states.
    pub idle_exit_ns: u64,
    /// Answers of `wake_affine` about tasks of the workload, by reason.
    pub affine: [u64; AffineReason::ALL.len()],
    /// Balance passes that were not begun, by reason.
    pub skips: [u64; SkipReason::ALL.len()],
    /// Decisions of ticks about balancing for tickless CPUs, by reason.
    pub kicks: [u64; KickReason::ALL.len()],
    /// Attempts to push a running task, by reason.
    pub pushes: [u64; ActiveReason::ALL.len()],
}

impl Stats {
    /// Every counter by metric name, with those of the board.
    pub fn named(&self, board: &Counts) -> Vec<(String, u64)> {
        let sums = [
            ("select.time", self.select_ns),
            ("balance.newidle_time", self.newidle_ns),
            ("balance.periodic_time", self.periodic_ns),
            ("balance.stats_time", self.stats_ns),
            ("refill.time", board.refill_ns),
            ("wakeup.on_cpu_waits", self.on_cpu_waits),
            ("smt.shared_time", board.smt_shared_ns),
            ("idle.exit_time", self.idle_exit_ns),
        ];
        let mut all: Vec<(String, u64)> = sums.map(|(name, n)| (name.to_owned(), n)).into();
        let mut family = |of: &str, name: &str, n: u64| all.push((format!("{of}.{name}"), n));
        // Two reasons of one old kernel are left out if they do not occur.
        let rare = [AffineReason::CacheCold, AffineReason::CacheHot];
        let told = |r: &&AffineReason| !rare.contains(r) || self.affine[**r as usize] > 0;
        let affine = AffineReason::ALL.iter().filter(told);
        affine.for_each(|r| family("affine", r.name(), self.affine[*r as usize]));
        SkipReason::ALL.iter().for_each(|r| family("balance.skip", r.name(), self.skips[*r as usize]));
        KickReason::ALL.iter().for_each(|r| family("balance.kick", r.name(), self.kicks[*r as usize]));
        ActiveReason::ALL.iter().for_each(|r| family("balance.active", r.name(), self.pushes[*r as usize]));
        all
    }
}

/// Everything counted and recorded of a run, and since when.
pub struct Accounts {
    /// Counters that are not in events.
    pub stats: Stats,
    /// The counters of /proc/schedstat.
    pub schedstat: Schedstat,
}

impl Accounts {
    /// All counts are 0, and everything is recorded.
    pub fn new(domains: &Domains, features: FeatureSet) -> Accounts {
        Accounts { stats: Stats::default(), schedstat: schedstat(domains, features) }
    }
}

/// Counters of 0 for a machine's domains under a kernel with these features.
fn schedstat(domains: &Domains, features: FeatureSet) -> Schedstat {
    let names = |cpu: &Vec<schedlab_machine::Domain>| {
        cpu.iter().map(|d| (d.name.to_owned(), d.span.clone())).collect::<Vec<_>>()
    };
    let mut stat = Schedstat::new(domains.of_cpu.iter().map(names));
    // A kernel without D001's last patch has no such column: its count is missing, not 0.
    stat.layout.sg_scan = features.has(Feature::LbSgScan);
    stat
}
