//! Uncertain figures of a machine: those with a range, and machines whose figures are drawn from their ranges.
//!
//! A figure is a cost ("ipi_far_ns") or the typical time to leave an idle state ("idle.C6", ns). It is drawn if its
//! stated range has more than one value ([`Machine::note`]). Where code is charged by its instructions, costs that
//! these replace are not drawn, and the instructions of a call are ("call.pipe_io"). Figures without a range stay as
//! they are: those of a driver's table, those that an experiment sets, and background tasks, which belong to the scene
//! rather than to the model.
//!
//! Draws are log-uniform, because ranges are estimates "within a factor of": halving and doubling should be equally
//! likely. Each draw is keyed by run and figure, so that a new figure does not shift the draws of others. Figures in an
//! order given by the memory hierarchy or the driver's table ([`Machine::chains`]) are sorted again after the draw.

use crate::calls::CallRow;
use crate::costs::{CostRow, LONGEST};
use crate::{CostNote, Costs, Machine};
use schedlab_base::{Error, Ns, Result, Stream, Version};
use serde::{Deserialize, Serialize};

/// Chains of costs in rising order. A chain applies to machines whose own values rise along it.
const ORDERED: &[&[&str]] = &[
    &["ipi_near_ns", "ipi_far_ns"],
    &["rq_lock_near_ns", "rq_lock_far_ns"],
    &["probe_hit_ns", "probe_miss_near_ns", "probe_miss_far_ns"],
    &["visit_hit_ns", "visit_miss_near_ns", "visit_miss_far_ns"],
    &["refill_near_ns_per_kb", "refill_far_ns_per_kb"],
];

/// The prefix of an idle state's figure.
const IDLE: &str = "idle.";

/// The prefix of a call's instructions.
const CALL: &str = "call.";

/// A figure with a range.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// A cost's name, "idle.C6" or "call.pipe_io".
    pub name: String,
    /// Lowest and highest plausible value, in the cost's unit (idle states: ns, calls: instructions).
    pub range: (u64, u64),
}

/// A figure's value in one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drawn {
    #[serde(flatten)]
    pub span: Span,
    pub value: u64,
}

impl Machine {
    /// The figures with a range: costs in the table's order, idle states, calls. `counted`: the release whose code is
    /// charged by its instructions.
    pub fn uncertain(&self, counted: Option<Version>) -> Vec<Span> {
        let is_used = |row: &&CostRow| match counted {
            Some(release) => self.is_beside_counted_code(row.name, release),
            None => !Costs::OF_COUNTED_CODE.contains(&row.name),
        };
        let costs = Costs::TABLE.iter().filter(is_used).map(|row| (row.name.to_owned(), possible(row.name)));
        let idle = self.idle_states.iter().map(|s| (format!("{IDLE}{}", s.name), (0, s.exit.0)));
        let span = |(name, (least, most)): (String, (u64, u64))| {
            let (low, high) = self.note(&name).range?;
            let range = (low.max(least), high.min(most));
            (range.0 < range.1).then_some(Span { name, range })
        };
        let calls = counted.into_iter().flat_map(|release| self.counted_calls(release));
        let calls = calls.filter(|row| row.range.0 < row.range.1).map(|row| Span {
            name: format!("{CALL}{}", row.cost.trim_end_matches("_ns")),
            range: row.range,
        });
        costs.chain(idle).filter_map(span).chain(calls).collect()
    }
    /// Whether a cost still counts where code is charged by its instructions.
    fn is_beside_counted_code(&self, name: &str, release: Version) -> bool {
        let mut other = self.costs;
        other.set(name, self.stated(name).unwrap_or_default() + 1);
        let [this, other] = [&self.costs, &other].map(|costs| self.costs_beside_counted_code(costs, release));
        this != other
    }

    pub fn draw(&self, seed: u64, counted: Option<Version>) -> Vec<Drawn> {
        let stream = Stream::new(seed).purpose("uncertainty");
        let one =
            |span: Span| Drawn { value: log_uniform(stream.purpose(&span.name).bits(0), span.range), span };
        let mut drawn: Vec<Drawn> = self.uncertain(counted).into_iter().map(one).collect();
        for chain in self.chains() {
            put_in_order(&mut drawn, &chain);
        }
        drawn
    }

    /// The same machine with drawn figures.
    ///
    /// # Errors
    /// For a figure that the machine lacks, or an impossible value.
    pub fn with(&self, drawn: &[Drawn]) -> Result<Machine> {
        let mut machine = self.clone();
        // They take drawn times.
        let (calls, costs): (Vec<_>, Vec<_>) = drawn.iter().partition(|d| d.span.name.starts_with(CALL));
        for Drawn { span, value } in costs {
            match span.name.strip_prefix(IDLE) {
                None => machine.costs.change(&span.name, *value)?,
                Some(name) => {
                    let state = machine.idle_states.iter_mut().find(|s| s.name == name);
                    let known = || {
                        Error::unknown("idle state", name, self.idle_states.iter().map(|s| s.name.as_str()))
                    };
                    state.ok_or_else(known)?.typical = Ns(*value);
                }
            }
        }
        for Drawn { span, value } in calls {
            let name = format!("{}_ns", &span.name[CALL.len()..]);
            machine.costs.change(&name, CallRow::ns(*value, &machine.costs))?;
            // A cost that is stated is not replaced.
            machine.provenance.push(CostNote { name, range: None, source: "drawn".to_owned() });
        }
        Ok(machine)
    }

    /// The machine's value of a figure.
    fn stated(&self, name: &str) -> Option<u64> {
        match name.strip_prefix(IDLE) {
            None => self.costs.get(name),
            Some(state) => self.idle_states.iter().find(|s| s.name == state).map(|s| s.typical.0),
        }
    }

    /// Figures in rising order, if the machine's own values rise: near before far, shallow before deep.
    fn chains(&self) -> Vec<Vec<String>> {
        let costs = ORDERED.iter().map(|chain| chain.iter().map(|n| (*n).to_owned()).collect());
        let idle = self.idle_states.iter().map(|s| format!("{IDLE}{}", s.name)).collect();
        let rises = |chain: &Vec<String>| chain.is_sorted_by_key(|name| self.stated(name));
        costs.chain([idle]).filter(rises).collect()
    }
}

/// The range of possible values of a cost.
fn possible(name: &str) -> (u64, u64) {
    if name.ends_with("_pct") { (1, 100) } else { (0, LONGEST.0) }
}

/// A whole number of a range, log-uniform. The logarithm counts from one below the range, so that a range may begin at
/// 0.
fn log_uniform(bits: u64, (low, high): (u64, u64)) -> u64 {
    // A double holds 53 bits exactly.
    let share = (bits >> 11) as f64 / (1_u64 << 53) as f64;
    let (first, beyond) = (low as f64 + 1.0, high as f64 + 2.0);
    let drawn = first * libm::exp(share * libm::log(beyond / first));
    ((drawn as u64).saturating_sub(1)).clamp(low, high)
}

/// Sorts the values of a chain. If ranges rise along the chain, as in the table, sorted values stay in them. A
/// machine's file may state other ranges, so each value is clamped to its own.
fn put_in_order(drawn: &mut [Drawn], chain: &[String]) {
    let places: Vec<usize> =
        chain.iter().filter_map(|name| drawn.iter().position(|d| d.span.name == *name)).collect();
    let mut values: Vec<u64> = places.iter().map(|at| drawn[*at].value).collect();
    values.sort_unstable();
    for (at, value) in places.into_iter().zip(values) {
        let Drawn { span: Span { range: (low, high), .. }, value: own } = &mut drawn[at];
        *own = value.clamp(*low, *high);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value(drawn: &[Drawn], name: &str) -> u64 {
        drawn.iter().find(|d| d.span.name == name).unwrap().value
    }

    #[test]
    fn every_separate_cost_is_uncertain_and_tables_of_drivers_are_not() {
        let machine = Machine::load("fb-2x12-smt").unwrap();
        let names: Vec<String> = machine.uncertain(None).into_iter().map(|s| s.name).collect();
        assert!(names.iter().all(|name| !Costs::OF_COUNTED_CODE.contains(&name.as_str())));
        let is_drawn = |name: &&&str| Costs::default().get(name).is_some_and(|default| default > 0);
        let counted = Costs::OF_COUNTED_CODE.iter().filter(is_drawn).count();
        let all = Costs::TABLE.iter().filter(|row| row.default > 0).count();
        assert_eq!(names.len() + counted, all + 1);
        assert_eq!(names.last().map(String::as_str), Some("idle.C6"));
        for name in ORDERED.iter().copied().flatten() {
            assert!(Costs::default().get(name).is_some(), "{name}");
        }
    }

    #[test]
    fn each_figure_that_is_drawn_where_code_is_counted_has_an_effect() {
        let mut machine = Machine::load("fb-2x12-smt").unwrap();
        let note =
            CostNote { name: "futex_wake_ns".into(), range: Some((90, 900)), source: "measured".into() };
        machine.provenance.push(note);
        let release = Version::new(6, 12);
        let drawn = machine.draw(3, Some(release));
        let beside = |drawn: &[Drawn]| {
            let beside = machine.with(drawn).unwrap().beside_counted_code(release);
            (beside.costs, beside.idle_states)
        };
        let whole = beside(&drawn);
        for (i, d) in drawn.iter().enumerate() {
            let mut other = drawn.clone();
            // A call's instructions take less than a ns each.
            other[i].value += 10;
            assert_ne!(beside(&other), whole, "{d:?}");
        }
        let has = |name: &str| drawn.iter().any(|d| d.span.name == name);
        assert!(has("call.pipe_io") && has("line_near_ns") && has("copy_ns_per_kb"));
        assert!(!has("pipe_io_ns") && !has("remote_send_ns") && !has("enqueue_ns"), "they are replaced");
        assert!(has("futex_wake_ns") && !has("call.futex_wake"), "the machine states it");
        let [ps, calls] = ["instruction_ps", "call.pipe_io"].map(|name| value(&drawn, name));
        assert_eq!(whole.0.pipe_io_ns, (calls * ps + 500) / 1000);
        assert!((628..=850).contains(&calls));
    }

    #[test]
    fn values_set_by_an_experiment_stay() {
        let mut machine = Machine::load("smp-2").unwrap();
        let note = crate::CostNote { name: "tick_ns".into(), range: None, source: "set".into() };
        machine.provenance.insert(0, note);
        assert!(machine.draw(1, None).iter().all(|d| d.span.name != "tick_ns"));
        let point = crate::CostNote { name: "fork_ns".into(), range: Some((7, 7)), source: "sure".into() };
        machine.provenance.insert(0, point);
        assert!(machine.uncertain(None).iter().all(|s| s.name != "fork_ns"));
    }

    #[test]
    fn parts_of_other_costs_are_drawn_only_if_stated() {
        let named = |machine: &str| {
            let spans = Machine::load(machine).unwrap().uncertain(None);
            spans.into_iter().map(|s| s.name).collect::<Vec<_>>()
        };
        let (plain, guest) = (named("smp-4"), named("icount-4"));
        for apart in Costs::TABLE.iter().filter(|row| row.default == 0) {
            assert!(!plain.iter().any(|name| name == apart.name), "{}", apart.name);
        }
        assert!(plain.iter().any(|name| name == "unix_send_ns"));
        for name in ["unix_lock_ns", "pipe_lock_ns", "preempt_check_ns"] {
            assert!(guest.iter().any(|n| n == name), "{name}");
        }
    }

    #[test]
    fn draws_are_keyed_by_figure() {
        let all = Machine::load("smp-4").unwrap();
        let mut fewer = all.clone();
        let note = crate::CostNote { name: "syscall_ns".into(), range: None, source: "set".into() };
        fewer.provenance.insert(0, note);
        let (mut a, b) = (all.draw(7, None), fewer.draw(7, None));
        a.retain(|d| d.span.name != "syscall_ns");
        assert_eq!(a, b, "a figure more or less shifts no other's draw");
        assert_ne!(value(&a, "tick_ns"), value(&all.draw(8, None), "tick_ns"));
    }

    #[test]
    fn halves_of_a_range_are_equally_likely_by_the_logarithm() {
        let stream = Stream::new(5).purpose("test");
        let low = (0..10_000).filter(|i| log_uniform(stream.bits(*i), (100, 10_000)) < 1000).count();
        assert!((4_800..5_200).contains(&low), "{low} of 10000 below the geometric mean");
        assert!((0..100).all(|i| log_uniform(stream.bits(i), (0, 0)) == 0));
        let seen: std::collections::BTreeSet<u64> =
            (0..200).map(|i| log_uniform(stream.bits(i), (0, 3))).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3], "both ends can be drawn");
    }

    #[test]
    fn draws_make_a_machine_that_differs_in_nothing_else() {
        let machine = Machine::load("fb-2x12-smt").unwrap();
        let drawn = machine.draw(3, None);
        let other = machine.with(&drawn).unwrap();
        assert_eq!(other.costs.tick_ns, value(&drawn, "tick_ns"));
        assert_eq!(other.idle_states[3].typical.0, value(&drawn, "idle.C6"));
        assert_eq!(other.idle_states[3].exit, machine.idle_states[3].exit, "governors know the table only");
        let back = Machine { costs: machine.costs, idle_states: machine.idle_states.clone(), ..other };
        assert_eq!(back, machine);
        let strange = Drawn { span: Span { name: "idle.C9".into(), range: (1, 2) }, value: 1 };
        assert!(machine.with(&[strange]).unwrap_err().to_string().contains("C9"));
    }

    proptest! {
        #[test]
        fn draws_stay_in_range_and_in_order(seed in any::<u64>()) {
            for name in ["fb-2x12-smt", "spr-2x56", "smp-2"] {
                let drawn = Machine::load(name).unwrap().draw(seed, None);
                for d in &drawn {
                    prop_assert!((d.span.range.0..=d.span.range.1).contains(&d.value), "{d:?}");
                }
                for chain in ORDERED {
                    prop_assert!(chain.is_sorted_by_key(|n| value(&drawn, n)), "{chain:?}");
                }
            }
        }
    }
}
