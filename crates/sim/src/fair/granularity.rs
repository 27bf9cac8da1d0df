//! Granularities: tunables scaled by the number of CPUs (`sched_proc_update_handler`, `update_sysctl`; all kernels).

use schedlab_kernel::Kernel;

/// The limit of scaled latency and min_granularity, before 2.6.32.
const MOST_NS: u64 = 200_000_000;

/// The scaled granularities of a kernel on a machine, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granularity {
    pub latency_ns: u64,
    pub min_ns: u64,
    pub wakeup_ns: u64,
    /// base_slice (6.6+).
    pub base_ns: u64,
    /// Number of tasks up to which the period is `latency_ns` (latency / min_granularity, unscaled).
    pub nr_latency: u64,
}

impl Granularity {
    pub fn of(kernel: &Kernel, nr_cpus: usize) -> Granularity {
        let (t, factor) = (&kernel.tunables, kernel.tunables.factor(nr_cpus));
        // Kernels that scale by every CPU (before 2.6.32) limit two of the three.
        let limit = if t.scale_by_cpus == 2 { MOST_NS } else { u64::MAX };
        Granularity {
            latency_ns: (t.sched_latency_ns * factor).min(limit),
            min_ns: (t.min_granularity_ns * factor).min(limit),
            wakeup_ns: t.wakeup_granularity_ns * factor,
            base_ns: t.base_slice_ns * factor,
            nr_latency: t.sched_latency_ns.div_ceil(t.min_granularity_ns),
        }
    }
    /// The period in which each of `nr` tasks runs once.
    #[inline]
    pub fn period_ns(&self, nr: u64) -> u64 {
        if nr <= self.nr_latency { self.latency_ns } else { nr * self.min_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fair::cfs::slice::share;
    use schedlab_base::Version;

    #[test]
    fn constants_on_eight_cpus_and_more() {
        let g = Granularity::of(&Kernel::of(Version::new(4, 5)), 48);
        assert_eq!(
            (g.latency_ns, g.min_ns, g.wakeup_ns, g.nr_latency),
            (24_000_000, 3_000_000, 4_000_000, 8)
        );
        assert_eq!(g.period_ns(8), 24_000_000);
        assert_eq!(g.period_ns(9), 27_000_000);
        assert_eq!(share(g.period_ns(2), 1024, 2048), 12_000_000, "two tasks: 12 ms each");
    }

    #[test]
    fn early_granularities_grow_with_every_cpu_up_to_200_ms() {
        let kernel = Kernel::of(Version::v2_6(30));
        let ms = |cpus| {
            let g = Granularity::of(&kernel, cpus);
            [g.latency_ns, g.min_ns, g.wakeup_ns, g.nr_latency * 1_000_000].map(|v| v / 1_000_000)
        };
        assert_eq!(ms(2), [40, 8, 10, 5]);
        assert_eq!(ms(1024), [200, 44, 55, 5], "220 ms would be the latency");
        let g = Granularity::of(&kernel, 2);
        assert_eq!(share(g.period_ns(8), 1024, 8 * 1024), 8_000_000, "D004: eight hogs on each of two CPUs");
    }
}
