//! A request for runs of an experiment, and the lab that makes them, from the plan to the comparison.
//!
//! A [`RunRequest`] is plain data. A [`Lab`] has an executor, maybe an engine, and a listener. `run`, `study`, `suite`,
//! `try`, `hunt`, `bisect` and the cases of `validate --changes` differ only in their requests.

mod cells;
mod looks;
mod planned;
mod question;

pub use cells::ComparedCells;
pub use question::{planned_of, question};

use crate::ask::code::Driven;
use crate::ask::experiment::Part;
use crate::ask::guests::GuestSetup;
use crate::ask::here;
use crate::listener::Listener;
use crate::make::budget::Budget;
use crate::make::exec::{Engine, Executor};
use crate::make::plan::{Options, Plan};
use schedlab_base::{Backend, Error};
use schedlab_compare::Comparison;
use schedlab_kernel::Level;
use schedlab_record::Record;
use std::path::PathBuf;

/// The requested runs of an experiment. The default is the whole experiment in the simulator, unchanged.
#[derive(Clone, Debug)]
pub struct RunRequest {
    pub backend: Backend,
    /// The part of the experiment.
    pub part: Part,
    /// Number of runs, first seed and the like.
    pub wanted: Options,
    /// Kernels of guests or of the kernel's own code; empty: those named by the variants.
    pub kernel: Vec<String>,
    /// The variants of the kernel's own code, if their images are known already.
    pub driven: Vec<Driven>,
    /// How guests are set up.
    pub guest: GuestSetup,
    /// How the kernel's own code is charged; `None`: according to the variants.
    pub level: Option<Level>,
    /// Runs side by side; `None`: one for each CPU.
    pub jobs: Option<u64>,
    /// Where runs are stored.
    pub out: PathBuf,
    /// Whether it is a trial: runs are made in deterministic guests, and the simulations for them are predictions.
    pub trial: bool,
    /// The budget for more runs after a first look; `None`: no further runs.
    pub budget: Option<Budget>,
    /// Whether sched_ext schedulers are compared: cells whose scheduler does not last are left out, with a warning
    /// each, and nothing is simulated by our rules beside them.
    pub of_schedulers: bool,
}

impl Default for RunRequest {
    fn default() -> RunRequest {
        RunRequest {
            backend: Backend::Sim,
            part: Part::default(),
            wanted: Options::default(),
            kernel: Vec::new(),
            driven: Vec::new(),
            guest: GuestSetup::default(),
            level: None,
            jobs: None,
            out: PathBuf::from("runs"),
            trial: false,
            budget: None,
            of_schedulers: false,
        }
    }
}

impl RunRequest {
    /// A trial of a whole experiment.
    pub fn trial(backend: Backend) -> RunRequest {
        RunRequest { backend, trial: true, ..RunRequest::default() }
    }
    /// Runs side by side.
    pub(crate) fn jobs(&self) -> u64 {
        self.jobs.unwrap_or_else(here::cpus)
    }
}

/// The makers of a request's runs, and the listener.
#[derive(Clone, Copy)]
pub struct Lab<'a> {
    pub executor: &'a dyn Executor,
    /// Makes missing runs elsewhere; `None`: this process makes them.
    pub engine: Option<&'a dyn Engine>,
    pub listener: &'a dyn Listener,
}

impl<'a> Lab<'a> {
    /// A lab that makes all runs in this process.
    pub fn here(executor: &'a dyn Executor, listener: &'a dyn Listener) -> Lab<'a> {
        Lab { executor, engine: None, listener }
    }
}

/// Runs that were made or found, compared.
pub struct Compared {
    pub comparison: Comparison,
    pub plan: Plan,
    /// The records in the plan's order.
    pub records: Vec<Record>,
    pub new: usize,
    /// Number of runs found in the store.
    pub found: usize,
    /// Why runs of the plan are missing: the work was interrupted. Only [`Lab::compared_so_far`] sets it.
    pub unfinished: Option<Error>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::experiment::parse;
    use crate::listener::Silent;
    use crate::make::exec::Backends;
    use std::path::Path;

    const TEXT: &str = "name = \"x\"\nmachine = \"smp-2\"\nruns = 2\nmetrics = [\"migrations\"]\n\
        [workload]\nname = \"pipe\"\nloops = 200\n\
        [[variant]]\nkernel = \"v6.5\"\n[[variant]]\nkernel = \"v4.5\"\n";

    #[test]
    fn a_request_needs_only_differences_and_finds_its_runs_again() {
        let store = tempfile::tempdir().unwrap();
        let experiment = parse(Path::new("x.toml"), TEXT, 2).unwrap();
        let request = RunRequest { out: store.path().to_owned(), ..RunRequest::default() };
        let backends = Backends::default();
        let lab = Lab::here(&backends, &Silent);
        let first = lab.compared(&request, experiment.clone()).unwrap();
        assert_eq!((first.new, first.found, first.plan.cells.len()), (4, 0, 2));
        assert_eq!(first.comparison.comparisons.len(), 1, "one metric of one variant against the baseline");
        let again = lab.compared(&request, experiment.clone()).unwrap();
        assert_eq!((again.new, again.found), (0, 4));
        let part = Part { variants: vec!["v4.5".to_owned()], ..Part::default() };
        let one = lab.planned(&RunRequest { part, ..request }, experiment).unwrap().0;
        assert_eq!(one.cells.len(), 1);
    }
}
