//! Hogs: tasks that always compute. They load the machine next to other workloads, and show the weights of groups. Each
//! records how long 10 ms of its work took, which shows its share of a CPU.

use super::params::{SECOND, in_mode, mode, runtime, warmup};
use crate::build::Builder;
use crate::op::{Env, Op, Program, SeriesId};
use crate::param::{Benchmark, Choice, Param, Params};
use schedlab_base::{Ns, Result};
use schedlab_kernel::Attr;

pub const HOGS: Benchmark = Benchmark {
    name: "hogs",
    about: "tasks that compute all the time",
    params: PARAMS,
    headline: &["hogs.stretch.mean", "hogs.stretch.p99"],
    own: &["hogs.stretch.mean", "hogs.stretch.p99"],
    load_param: "tasks",
    brief: &[("runtime", "500ms")],
    brief_loads: ["{cpus}", "{cpus*2}"],
    form_of: None,
    build,
};

const PARAMS: &[Param] = &[
    Param::count("tasks", None, 1, (1, 100_000), "tasks that compute"),
    Param::nice("hog_nice", "their nice value"),
    runtime(Some('r'), 5 * SECOND),
    warmup(None),
    mode(&[Choice::word("process"), Choice::word("thread")]),
];

/// The work per recorded time.
const STRETCH: Ns = Ns::ms(10);

fn build(params: &Params, b: &mut Builder) -> Result<()> {
    let nice = params.nice("hog_nice")?;
    let stretch = b.series("hogs.stretch", "ns", "lower");
    for n in 0..params.count("tasks")? {
        let task = b.task(format!("hog/{n}"), Box::new(Hog { stretch, begun: None }))?;
        b.edit(task).attr = Attr::nice(nice);
    }
    in_mode(params, b)?;
    b.lasts(params.time("runtime")?, params.time("warmup")?);
    Ok(())
}

struct Hog {
    stretch: SeriesId,
    /// Start of the current stretch.
    begun: Option<Ns>,
}

impl Program for Hog {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        let now = env.now();
        if let Some(begun) = self.begun.replace(now) {
            env.record(self.stretch, now.since(begun).0);
        }
        Op::Run { work: STRETCH }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Spec;
    use crate::rig::{Costs, bench};

    #[test]
    fn each_computes_for_ever_at_its_nice_value() {
        let params = Params([("tasks".to_owned(), 3), ("hog_nice".to_owned(), 25)].into());
        let built = Spec::bench("hogs", &params).unwrap().build(1).unwrap();
        assert_eq!(built.tasks.len(), 3);
        assert!(built.tasks.iter().all(|t| t.attr.nice == 5 && t.name.starts_with("hog/")));
        assert!(built.processes);
    }

    #[test]
    fn each_stretch_is_recorded_with_the_time_it_took() {
        let costs = Costs { op: Ns(0), wakeup: Ns(0), slack: Ns(0) };
        let log = bench("hogs", &[("runtime", 100_000_000)], 1, costs);
        let values = log.values("hogs.stretch");
        assert!((8..=10).contains(&values.len()) && values.iter().all(|v| *v == 10_000_000), "{values:?}");
    }
}
