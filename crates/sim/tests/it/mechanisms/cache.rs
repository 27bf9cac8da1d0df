//! Private caches: a task that comes back pays for the data that others displaced, and no other task pays.

use crate::support::{Load, forever, kernel, machine, run_seeded};
use schedlab_base::Ns;
use schedlab_workload::Op;

#[test]
fn short_slices_cost_work() {
    // Two tasks that together are larger than the cache, taking turns every 1 or 2 ms, or every 8.
    let m = machine("smp-2");
    let work = |slice: Ns| {
        let mut load = Load::lasting_ms(1_000);
        for name in ["a", "b"] {
            let task = load.task(name, Some("0"), forever(vec![Op::Touch { kb: 256, rounds: 65 }]));
            load.builder.edit(task).footprint_kb = 256;
        }
        let mut kernel = kernel("v4.5");
        (kernel.tunables.hz, kernel.tunables.min_granularity_ns) = (1_000, slice.0);
        kernel.tunables.sched_latency_ns = 2 * slice.0;
        let seen = run_seeded(&m, kernel, 1, load);
        (seen.counter("work"), seen.counter("refill.time"))
    };
    let ((short, refilled_short), (long, refilled_long)) = (work(Ns::us(250)), work(Ns::ms(4)));
    assert!(refilled_short > 5 * refilled_long, "{refilled_short} {refilled_long}");
    // 256 KB at 160 ns each are 41 us: 2 to 4 % of the short slices, 0.5 % of slices of 8 ms.
    let gain = (long - short) * 1_000 / short;
    assert!((15..45).contains(&gain), "{gain} per mille");
}
