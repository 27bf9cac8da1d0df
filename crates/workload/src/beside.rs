//! Warns about parts that run in parallel with a workload and end long before it: then the workload runs alone.

use crate::build::{Built, TaskDecl};
use schedlab_base::{Ns, Warning};

/// The share of the run, per cent, that a part may miss without a warning.
const LEFT_PCT: u64 = 5;

/// The end of a task that exists at the end of the run.
pub const STAYS: Ns = Ns(u64::MAX);

/// The parts that run in parallel with a workload.
#[derive(Clone, Debug)]
pub struct Parts {
    names: Vec<String>,
    /// By task, the number of its part; 0: none, or the task only serves one.
    of_tasks: Vec<u64>,
}

impl Parts {
    pub fn of(built: &Built) -> Parts {
        let is_beside = |t: &TaskDecl| !t.background && (1..=built.beside.len() as u64).contains(&t.part);
        let part = |t: &TaskDecl| if is_beside(t) { t.part } else { 0 };
        Parts { names: built.beside.clone(), of_tasks: built.tasks.iter().map(part).collect() }
    }
    /// Warnings about parts whose last task ended early in the measured time, or before it. `ends`: when tasks ended,
    /// by id; `None` for a task that never began, [`STAYS`] for one that did not end.
    pub fn ended_early(&self, ends: &[Option<Ns>], from: Ns, end: Ns) -> Vec<Warning> {
        let duration = end.since(from);
        let last = Ns(end.0 - duration.0 * LEFT_PCT / 100);
        let one = |(n, name): (usize, &String)| {
            let own = self.of_tasks.iter().zip(ends).filter(|(part, _)| **part == n as u64 + 1);
            let done = own.filter_map(|(_, ended)| *ended).max().filter(|done| *done < last)?;
            let when = match done > from {
                true => format!("after {} of {duration}", done.since(from)),
                false => "before the measured time began".to_owned(),
            };
            let text = format!(
                "{name} beside the workload was done {when}: give it more to do, or the run a shorter runtime"
            );
            Some(Warning::new("beside.ended", text))
        };
        self.names.iter().enumerate().filter_map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_done_with_its_last_task() {
        let names = vec!["pipe".to_owned(), "pipe".to_owned(), "x".to_owned(), "hogs".to_owned()];
        let parts = Parts { names, of_tasks: vec![0, 1, 1, 2, 2, 3, 4, 4] };
        let (from, end) = (Ns::ms(100), Ns::ms(1_100));
        let at = |ms| Some(Ns::ms(ms));
        let ends = [at(5), at(300), at(200), at(1_090), None, at(90), at(100), Some(STAYS)];
        let said: Vec<String> =
            parts.ended_early(&ends, from, end).into_iter().map(|warning| warning.message).collect();
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].starts_with("pipe beside the workload was done after 200ms of 1s"), "{said:?}");
        assert!(said[1].starts_with("x beside the workload was done before the measured time"), "{said:?}");
    }
}
