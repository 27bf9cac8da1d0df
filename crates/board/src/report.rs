//! The results of a simulation, other than its events.

use schedlab_base::Ns;
use schedlab_record::{Counts, Findings};
use std::collections::BTreeMap;

/// CPU time and work of one task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskAccount {
    pub name: String,
    /// Whether it belongs to the machine and not to the workload.
    pub background: bool,
    /// Simulated time of its end: `None` if it never began, `u64::MAX` if it was there at the end of the run.
    pub ended: Option<Ns>,
    /// Time on a CPU, ns, since the warm-up ended.
    pub cpu_time_ns: u64,
    /// Work done, ns of a CPU at full speed, since the warm-up ended.
    pub work_ns: u64,
}

/// The results of a simulation, other than the events that went to its sink.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SimReport {
    /// Simulated time at the end.
    pub end: Ns,
    /// Figures that events do not carry: counters by dotted metric name ("work", "smt.shared_time",
    /// "balance.newidle_time"), the counters of /proc/schedstat since the warm-up ended, the programs' measurements by
    /// interval. An analyser adds the rest.
    pub found: Findings,
    /// Tasks by id: workload tasks first.
    pub tasks: Vec<TaskAccount>,
    /// Events processed.
    pub events: u64,
    pub wakeups: u64,
    /// The time, from the end of the warm-up, of the first change that was not made because the run was over.
    pub missed: Option<Ns>,
    /// Executions of each function of the scheduler's own code; empty where they are not counted.
    pub functions: Counts,
    /// Samples of the scheduler's own code by chain of calls, outermost function first with ';' between them; each
    /// stands for 100 us. Empty where that is not counted.
    pub chains: BTreeMap<String, u64>,
    /// The functions of the image whose samples these are.
    pub image_functions: Vec<String>,
    /// Whether `stop` ended it early.
    pub stopped: bool,
}
