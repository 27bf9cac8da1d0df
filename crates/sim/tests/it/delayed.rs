//! A balancer may move a task that sleeps while queued, while a waker waits for its runqueue's lock. The waker then
//! wakes the task on its new CPU. Many jobs on a guest of many caches under 7.3 meet this within a second.

use crate::support::{kernel, machine};
use schedlab_kernel::Feature;
use schedlab_sim::{Setup, simulate};
use schedlab_workload::{Params, Spec};

#[test]
fn a_waker_follows_a_sleeping_task_that_was_moved_while_queued() {
    let given = [("jobs", 48), ("touched", 1024), ("sleep", 1_000_000), ("wakers", 2), ("burst", 200_000)];
    let more = [("blocks", 4), ("rate", 100)];
    let common = [("compute", 1_000_000), ("set", 32), ("mode", 1), ("runtime", 1_000_000_000)];
    let params =
        given.into_iter().chain(common).chain(more).map(|(name, value)| (name.to_owned(), value)).collect();
    let spec = Spec::bench("batch", &Params(params)).expect("parameters of batch");
    let mut kernel = kernel("v7.3");
    kernel.features.switch(Feature::UtilEst, false);
    let machine = machine("icount-2x4x2").under(kernel.version);
    for seed in 10..=12 {
        let setup = Setup {
            machine: &machine,
            kernel,
            changes: Vec::new(),
            workload: spec.build(seed).expect("a workload"),
            seed,
            background: true,
            check: false,
            stop: None,
            clock: None,
        };
        let run = simulate(setup, &mut schedlab_trace::Discard);
        assert!(run.is_ok(), "seed {seed}: {:?}", run.err());
    }
}
