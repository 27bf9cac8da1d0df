//! Our rules compared with a kernel's own code, one decision at a time (`schedlab validate --rules`).
//!
//! A state is drawn, written into an image and into a system of our rules, and one function of the fair class is asked
//! on both sides. Neither side continues from its answer, so a difference belongs to this decision alone. A difference
//! is shrunk as far as possible ([`subject::shrink`]) and counted by the parts of its smallest state.
//!
//! Each function is a row of [`FUNCTIONS`]. Its states are those of a runqueue ([`queue`]), of a CPU whose tasks are in
//! groups ([`tree`]) or of a whole machine ([`fleet`]); [`subject`] has what these share. A process holds one image and
//! one machine, so each tree has its own processes ([`child`]).

pub mod child;
mod dice;
mod fleet;
mod machines;
mod queue;
mod subject;
mod tree;

pub use child::{COMMAND, decide};

use schedlab_base::{Error, Result, Version, each_once};
use schedlab_board::decision::{FleetQuestion, QueueQuestion, TreeQuestion};
use schedlab_kernel::History;

/// A function of the fair class that can be asked.
#[derive(Debug)]
pub struct Function {
    pub name: &'static str,
    /// The kernel's functions that answer.
    pub kernel: &'static str,
    asks: Asks,
}

/// The question of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    Queue(QueueQuestion),
    Tree(TreeQuestion),
    Fleet(FleetQuestion),
}

impl Asks {
    /// Whether a release can be asked. States with groups are EEVDF's; for CFS they are not complete yet.
    fn is_for(self, version: Version) -> bool {
        !matches!(self, Asks::Tree(_)) || History::of(version).eevdf
    }
    /// The machines on which states are drawn, in turn.
    fn machines(self) -> &'static [&'static str] {
        match self {
            // Its CPUs decide the length of slices.
            Asks::Queue(_) | Asks::Tree(_) => &["smp-2"],
            Asks::Fleet(FleetQuestion::Shares) => &["smp-8"],
            Asks::Fleet(_) => machines::OF_FLEETS,
        }
    }
}

const fn of_queue(name: &'static str, kernel: &'static str, question: QueueQuestion) -> Function {
    Function { name, kernel, asks: Asks::Queue(question) }
}
const fn of_tree(name: &'static str, kernel: &'static str, question: TreeQuestion) -> Function {
    Function { name, kernel, asks: Asks::Tree(question) }
}
const fn of_fleet(name: &'static str, kernel: &'static str, question: FleetQuestion) -> Function {
    Function { name, kernel, asks: Asks::Fleet(question) }
}

pub const FUNCTIONS: &[Function] = &[
    of_queue("pick", "pick_next_entity(), pick_eevdf()", QueueQuestion::Pick),
    of_queue("placement", "place_entity()", QueueQuestion::Place),
    of_queue("preemption", "check_preempt_wakeup(), wakeup_preempt_fair()", QueueQuestion::Preempt),
    of_tree("group-pick", "pick_next_task_fair(), pick_task_fair()", TreeQuestion::Pick),
    of_tree("group-wake", "enqueue_task_fair(), requeue_delayed_entity()", TreeQuestion::Wake),
    of_tree("group-sleep", "dequeue_task_fair(), dequeue_entities()", TreeQuestion::Sleep),
    of_tree("group-preemption", "check_preempt_wakeup(), wakeup_preempt_fair()", TreeQuestion::Preempt),
    of_tree("group-tick", "task_tick_fair()", TreeQuestion::Tick),
    of_fleet("select", "select_task_rq_fair()", FleetQuestion::Select),
    of_fleet("busiest", "find_busiest_group(), sched_balance_find_src_group()", FleetQuestion::Busiest),
    of_fleet("detach", "detach_tasks()", FleetQuestion::Detach),
    of_fleet("newidle", "newidle_balance(), sched_balance_newidle()", FleetQuestion::Newidle),
    of_fleet("shares", "update_cfs_group()", FleetQuestion::Shares),
    of_fleet("fork", "find_idlest_cpu(), sched_balance_find_dst_cpu()", FleetQuestion::Fork),
    of_fleet("exec", "find_idlest_cpu(), sched_balance_find_dst_cpu()", FleetQuestion::Exec),
];

/// The functions of these names that a release has, each once; all of them without a name.
///
/// # Errors
/// For an unknown name, and for one that the release does not have.
fn functions_of(names: &[String], version: Version) -> Result<Vec<&'static Function>> {
    let mut all = functions(names)?;
    if let Some(f) = all.iter().find(|f| !names.is_empty() && !f.asks.is_for(version)) {
        let text = format!("v{version} can't be asked for {}", f.name);
        return Err(Error::input(text).help("states with groups are asked of releases since 6.6"));
    }
    all.retain(|f| f.asks.is_for(version));
    Ok(all)
}

/// The functions of these names, each once; all without a name.
///
/// # Errors
/// For an unknown name.
pub fn functions(names: &[String]) -> Result<Vec<&'static Function>> {
    if names.is_empty() {
        return Ok(FUNCTIONS.iter().collect());
    }
    let find = |name: &String| {
        let found = FUNCTIONS.iter().find(|f| f.name == *name);
        found.ok_or_else(|| Error::unknown("function", name, FUNCTIONS.iter().map(|f| f.name)))
    };
    each_once(names).iter().map(find).collect()
}
