//! Those that are confirmed by fresh seeds, and which of them has won.

use super::{Course, Tune, space};
use schedlab_base::Result;
use schedlab_compare::comparison::ComparisonRow;
use schedlab_compare::stats::Verdict;
use schedlab_compare::stats::race::FINALISTS;
use schedlab_kernel::Variant;
use std::collections::BTreeSet;

/// Pairs are made of so many that lead.
pub(super) const PAIRED: usize = 4;

/// Two settings as one.
struct Pair {
    variant: Variant,
    of: [String; 2],
}

pub(super) struct Finalists {
    singles: Vec<Variant>,
    pair: Option<Pair>,
}

impl Finalists {
    pub fn all(&self) -> Vec<Variant> {
        self.singles.iter().chain(self.pair.as_ref().map(|pair| &pair.variant)).cloned().collect()
    }
    pub fn names(&self) -> Vec<&str> {
        self.singles
            .iter()
            .chain(self.pair.as_ref().map(|pair| &pair.variant))
            .map(|v| v.name.as_str())
            .collect()
    }
    /// The one with the largest gain of those that are better beyond chance in some row and worse in none. A pair does
    /// not win over one winner and something that does nothing: of its members both are winners, or neither.
    pub fn winner(&self, rows: &[ComparisonRow]) -> Option<String> {
        let of = |name: &str, verdict: Verdict| {
            rows.iter().filter(|row| row.variant == name && row.verdict == verdict).collect::<Vec<_>>()
        };
        let gain = |name: &str| -> f64 {
            of(name, Verdict::Better).iter().filter_map(|row| row.change_pct).map(f64::abs).sum()
        };
        let wins = |name: &str| !of(name, Verdict::Better).is_empty() && of(name, Verdict::Worse).is_empty();
        let of_one = |pair: &Pair| pair.of.iter().filter(|name| wins(name)).count() == 1;
        let odd = self.pair.as_ref().filter(|pair| of_one(pair)).map(|pair| pair.variant.name.as_str());
        let winners: Vec<&str> =
            self.names().into_iter().filter(|name| wins(name) && Some(*name) != odd).collect();
        // Of equals the first: max_by takes the last.
        winners.iter().rev().max_by(|a, b| gain(a).total_cmp(&gain(b))).map(|name| (*name).to_owned())
    }
}

impl Tune<'_> {
    /// The best setting and the best pair with its members, if the pair is before all of those that lead; else the
    /// best settings.
    pub(super) fn finalists(
        &self,
        base: &Variant,
        left: &[&str],
        runs: u64,
        course: &mut Course,
    ) -> Result<Finalists> {
        let single = |name: &&str| self.made(base, name).ok();
        let leaders: Vec<&str> = left.iter().take(PAIRED).copied().collect();
        let pair = match self.pairs(base, &leaders) {
            // The confirmation is all that two of them need.
            mut pairs if leaders.len() == 2 || course.cut_short => {
                (!pairs.is_empty()).then(|| pairs.remove(0))
            }
            pairs if pairs.is_empty() => None,
            pairs => self.best_pair(base, &leaders, pairs, runs, course)?,
        };
        let Some(pair) = pair else {
            return Ok(Finalists {
                singles: left.iter().take(FINALISTS).filter_map(single).collect(),
                pair: None,
            });
        };
        let members = leaders.iter().filter(|name| pair.of.iter().any(|of| of == *name));
        let others = leaders.iter().take(1).filter(|name| !pair.of.iter().any(|of| of == *name));
        Ok(Finalists { singles: others.chain(members).filter_map(single).collect(), pair: Some(pair) })
    }

    /// Pairs of these, best members first.
    fn pairs(&self, base: &Variant, leaders: &[&str]) -> Vec<Pair> {
        let mut places: Vec<(usize, usize)> =
            (0..leaders.len()).flat_map(|b| (0..b).map(move |a| (a, b))).collect();
        places.sort_by_key(|(a, b)| a + b);
        let pair = |(a, b): (usize, usize)| {
            let of = [leaders[a], leaders[b]];
            // Two values of one setting are not two settings.
            let is_two = knobs(of[0]).is_disjoint(&knobs(of[1]));
            let variant = is_two.then(|| self.made(base, &together(of[0], of[1])).ok()).flatten()?;
            Some(Pair { variant, of: of.map(str::to_owned) })
        };
        places.into_iter().filter_map(pair).collect()
    }

    /// The pairs race beside those that lead, with as many runs; `None`: one of these is before all pairs.
    fn best_pair(
        &self,
        base: &Variant,
        leaders: &[&str],
        pairs: Vec<Pair>,
        runs: u64,
        course: &mut Course,
    ) -> Result<Option<Pair>> {
        let variants: Vec<Variant> = pairs.iter().map(|pair| pair.variant.clone()).collect();
        let singles = leaders.iter().filter_map(|name| self.made(base, name).ok());
        let whole = self.with_variants(&variants.iter().cloned().chain(singles).collect::<Vec<_>>())?;
        let mut names: Vec<&str> = leaders.to_vec();
        names.extend(variants.iter().map(|v| v.name.as_str()));
        let seen = self.look_at(&whole, &mut names, (runs, self.seed()), (None, course))?;
        let new = names.len().saturating_sub(leaders.iter().filter(|name| course.has(name)).count());
        course.runs += runs * new as u64;
        let placed = self.placed(&seen, &base.name, &names, runs)?;
        course.race.retain(|one| !placed.iter().any(|other| other.setting == one.setting));
        course.race.splice(0..0, placed.iter().cloned());
        let first = placed.first().map(|one| one.setting.clone());
        Ok(pairs.into_iter().find(|pair| Some(&pair.variant.name) == first.as_ref()))
    }
}

impl Course {
    /// Whether a setting has raced.
    fn has(&self, setting: &str) -> bool {
        self.race.iter().any(|one| one.setting == setting)
    }
}

/// What the words change.
fn knobs(words: &str) -> BTreeSet<&str> {
    let (changes, scheduler) = match words.find(space::SCX) {
        Some(at) => (&words[..at], Some(space::SCX)),
        None => (words, None),
    };
    let changes = changes.split(',').filter(|word| !word.is_empty());
    changes
        .map(|word| word.split('=').next().unwrap_or_default().trim_start_matches("NO_"))
        .chain(scheduler)
        .collect()
}

/// Both settings as one; a scheduler's words are last.
fn together(first: &str, second: &str) -> String {
    if first.starts_with(space::SCX) { format!("{second},{first}") } else { format!("{first},{second}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row of one metric with a verdict.
    fn row(variant: &str, verdict: &str, change_pct: f64) -> ComparisonRow {
        let row = serde_json::json!({
            "backend": "sim", "machine": "smp-4", "workload": "nanosleep", "load": "default", "metric": "m",
            "baseline": "v6.12", "variant": variant, "change_pct": change_pct, "ci95_pct": null, "p": 0.01,
            "verdict": verdict, "mean_change_pct": null, "rank_pct": null, "pairs": 12, "correlation": null,
            "detectable_pct": null,
        });
        serde_json::from_value(row).unwrap()
    }

    /// The winner of rows; that of `a,b` is a pair's.
    fn won(rows: &[(&str, &str, f64)]) -> Option<String> {
        let variant = |name: &str| Variant { name: name.to_owned(), ..Variant::plain("v6.12") };
        let (pairs, singles): (Vec<&str>, Vec<&str>) =
            rows.iter().map(|row| row.0).partition(|name| name.contains(','));
        let pair =
            pairs.first().map(|name| Pair { variant: variant(name), of: ["a", "b"].map(str::to_owned) });
        let finalists = Finalists { singles: singles.into_iter().map(variant).collect(), pair };
        let rows: Vec<ComparisonRow> =
            rows.iter().map(|(name, verdict, pct)| row(name, verdict, *pct)).collect();
        finalists.winner(&rows)
    }

    #[test]
    fn a_pair_wins_over_two_winners_only() {
        let of = |second, pair| won(&[("a", "better", -20.0), ("b", second, -5.0), ("a,b", "better", pair)]);
        assert_eq!(of("better", -24.0).as_deref(), Some("a,b"));
        assert_eq!(of("better", -15.0).as_deref(), Some("a"));
        assert_eq!(of("same", -20.5).as_deref(), Some("a"));
        let only = won(&[("a", "unclear", -3.0), ("b", "unclear", -3.0), ("a,b", "better", -6.0)]);
        assert_eq!(only.as_deref(), Some("a,b"), "each is too small to be seen alone");
        assert_eq!(won(&[("a", "better", -9.0), ("b", "better", -9.0)]).as_deref(), Some("a"));
        assert_eq!(won(&[("a", "same", 0.0), ("b", "worse", 4.0)]), None);
        let third = won(&[
            ("c", "better", -30.0),
            ("a", "better", -9.0),
            ("b", "better", -9.0),
            ("a,b", "better", -20.0),
        ]);
        assert_eq!(third.as_deref(), Some("c"));
    }

    #[test]
    fn a_scheduler_s_words_are_last() {
        assert_eq!(together("scx=scx_mine -a", "slice=1ms"), "slice=1ms,scx=scx_mine -a");
        assert_eq!(together("NO_A", "policy=batch"), "NO_A,policy=batch");
    }

    #[test]
    fn values_of_one_setting_are_no_pair() {
        assert!(!knobs("slice=1ms").is_disjoint(&knobs("NO_A,slice=2ms")));
        assert!(!knobs("NO_A").is_disjoint(&knobs("A")));
        assert!(knobs("scx=scx_mine -a 1,slice=3").is_disjoint(&knobs("slice=1ms")));
    }
}
