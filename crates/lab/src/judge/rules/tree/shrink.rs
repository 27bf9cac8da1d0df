//! Shrinks a state as long as it shows a difference: fewer tasks, fewer properties, rounder numbers.

use schedlab_board::decision::{AskedEntity, AskedTree, Buddy, Presence, TREE_GROUPS, TreeQuestion};
use schedlab_kernel::Policy;

/// Units for rounding times, the coarsest first, ns.
const UNITS_NS: [i64; 3] = [1_000_000, 10_000, 1_000];

/// States that are simpler by one step, the largest steps first. Some of them are impossible.
pub fn simpler(s: &AskedTree, question: TreeQuestion) -> Vec<AskedTree> {
    let mut all: Vec<AskedTree> = (0..s.tasks.len()).filter_map(|i| without(s, i, question)).collect();
    let mut change = |edit: &dyn Fn(&mut AskedTree)| {
        let mut next = s.clone();
        edit(&mut next);
        if next != *s {
            all.push(next);
        }
    };
    change(&|s| s.next = None);
    change(&|s| s.ran_ns = 0);
    change(&|s| s.is_new = false);
    change(&|s| s.sync = false);
    for i in 0..s.tasks.len() {
        change(&|s| s.tasks[i].group = s.tasks[i].group.and_then(|g| TREE_GROUPS[g]));
        change(&|s| s.tasks[i].entity.policy = Policy::Other);
        change(&|s| s.tasks[i].entity.nice = 0);
        change(&|s| s.tasks[i].entity.relative = false);
    }
    for g in 0..s.groups.len() {
        change(&|s| s.groups[g].delayed = false);
        change(&|s| s.groups[g].idle = false);
        change(&|s| (s.groups[g].load, s.groups[g].load_elsewhere) = (0, 0));
        change(&|s| s.groups[g].runnable = 0);
        change(&|s| s.groups[g].shares = 1024);
        change(&|s| s.groups[g].weight = 1024 * 1024);
    }
    let zero = s.min_vruntime;
    change(&|s| shift(s, -zero));
    for unit in UNITS_NS {
        let round = |t: i64| t.div_euclid(unit) * unit;
        change(&|s| s.ran_ns = round(s.ran_ns as i64) as u64);
        for i in 0..s.tasks.len() {
            change(&|s| rounded(&mut s.tasks[i].entity, round));
        }
        for g in 0..s.groups.len() {
            change(&|s| rounded(&mut s.groups[g].entity, round));
        }
    }
    all
}

/// Protection that ends with the deadline, or has not begun, stays so, since some kernels have no other.
fn rounded(e: &mut AskedEntity, round: impl Fn(i64) -> i64) {
    let (whole, none) = (e.protected_until == e.deadline, e.protected_until == e.vruntime);
    let debt = e.lag < 0;
    let away = if e.relative { e.deadline } else { e.deadline - e.vruntime };
    e.vruntime = round(e.vruntime);
    let away = round(away).max(1);
    e.deadline = if e.relative { away } else { e.vruntime + away };
    e.lag = round(e.lag).min(if debt { -1 } else { i64::MAX });
    e.protected_until = match (whole, none) {
        (true, _) => e.deadline,
        (_, true) => e.vruntime,
        _ => e.protected_until,
    };
}

/// Moves all vruntimes.
fn shift(s: &mut AskedTree, by: i64) {
    s.min_vruntime += by;
    let tasks = s.tasks.iter_mut().map(|t| &mut t.entity);
    for e in tasks.chain(s.groups.iter_mut().map(|g| &mut g.entity)) {
        e.vruntime += by;
        e.protected_until += by;
        e.deadline += if e.relative { 0 } else { by };
    }
}

/// The state without a task, if the question can do without it.
fn without(s: &AskedTree, gone: usize, question: TreeQuestion) -> Option<AskedTree> {
    let asked = question != TreeQuestion::Pick && s.about == gone;
    if asked || s.tasks.len() == 1 {
        return None;
    }
    let moved = |at: usize| if at > gone { at - 1 } else { at };
    let mut next = s.clone();
    next.tasks.remove(gone);
    next.current = s.current.filter(|c| *c != gone).map(moved);
    next.next = match s.next {
        Some(Buddy::Task(i)) if i == gone => None,
        Some(Buddy::Task(i)) => Some(Buddy::Task(moved(i))),
        Some(Buddy::Group(g)) if !next.is_queued(g) => None,
        group => group,
    };
    next.about = moved(s.about).min(next.tasks.len() - 1);
    // A group that is left without tasks is on no queue, and has no protection.
    let queued = |s: &AskedTree| s.tasks.iter().any(|t| t.presence == Presence::Queued);
    queued(&next).then_some(next)
}
