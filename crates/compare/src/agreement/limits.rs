//! Whether CPU limits change a real kernel's tail latency as they change that of the judged side.
//!
//! A case has one latency and several limits, and one of these is the limit as it is. A change is that of the mean over
//! runs against it, with a 95 % interval of pairs of runs ([`MeanMove`]). The real change has a sign if its interval
//! leaves out 0. Then the judged change agrees in sign if it has the same, and in size if it is also off by at most
//! [`TOLERANCE_PCT`] of the real one. Where the real change has no sign the row is shown and decides nothing. A result
//! is kept as JSON (`cases/results`), a line for each limit; its real side serves later models.

use super::result::{CaseSide, NotRun};
use super::stored::{rounded, with_list};
use crate::metrics;
use crate::predicted::{MeanMove, TOLERANCE_PCT};
use schedlab_record::{ENGINE, MODEL, Record, Value};
use serde::{Deserialize, Serialize};

pub const LIMITS_SCHEMA: &str = "schedlab/limits/1";

/// The part of the sizes that must agree.
const ENOUGH_OF_SIZES: f64 = 0.75;

/// What a limit changes, on both sides.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LimitRow {
    pub limit: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub real: Option<MeanMove>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged: Option<MeanMove>,
    /// Why a side has no change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl LimitRow {
    /// The real change if it has a sign, and the judged one.
    fn known(&self) -> Option<(f64, f64)> {
        let (real, judged) = (self.real?, self.judged?);
        (real.pct.abs() > real.half?).then_some((real.pct, judged.pct))
    }
    /// Whether both changes have one sign; `None` where the real one has none.
    pub fn same_sign(&self) -> Option<bool> {
        self.known().map(|(real, judged)| real * judged > 0.0)
    }
    /// Whether their sizes agree, too.
    pub fn same_size(&self) -> Option<bool> {
        let within = |(real, judged): (f64, f64)| {
            real * judged > 0.0 && (judged - real).abs() <= TOLERANCE_PCT / 100.0 * real.abs()
        };
        self.known().map(within)
    }
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LimitsResult {
    pub name: String,
    /// The latency that is compared.
    pub metric: String,
    /// The variant with the limit as it is.
    pub from: String,
    pub real: CaseSide,
    pub judged: CaseSide,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<LimitRow>,
}

/// The real side of a case: its runs, or an earlier result.
#[derive(Clone, Copy, Debug)]
pub enum RealLimits<'a> {
    Runs(&'a [Record]),
    Earlier(&'a LimitsResult),
}

/// What is asked of the records.
#[derive(Clone, Copy, Debug)]
pub struct LimitsQuestion<'a> {
    pub name: &'a str,
    pub metric: &'a str,
    pub from: &'a str,
    /// The variants with other limits.
    pub to: &'a [String],
}

impl LimitsQuestion<'_> {
    /// Judges a case; `None` if a side has no run.
    pub fn judge(&self, real: RealLimits<'_>, judged: &[Record]) -> Option<LimitsResult> {
        let as_is = |records: &[Record]| {
            let of: Vec<Record> = records.iter().filter(|r| r.variant.name == self.from).cloned().collect();
            CaseSide::of(&of).map(|side| CaseSide { variant: None, ..side })
        };
        let real_side = match real {
            RealLimits::Runs(records) => as_is(records)?,
            RealLimits::Earlier(case) => case.real.clone(),
        };
        let row = |limit: &String| {
            let there = match real {
                RealLimits::Runs(records) => self.change(records, limit),
                RealLimits::Earlier(case) => {
                    let kept = case.limits.iter().find(|row| row.limit == *limit).and_then(|row| row.real);
                    kept.ok_or_else(|| "the earlier result has no change".to_owned())
                }
            };
            let here = self.change(judged, limit);
            let said = |side: &str, of: &Result<MeanMove, String>| {
                of.as_ref().err().map(|why| format!("{side}: {why}"))
            };
            let why = said("real", &there).or_else(|| said("judged", &here));
            LimitRow { limit: limit.clone(), real: there.ok(), judged: here.ok(), why }
        };
        Some(LimitsResult {
            name: self.name.to_owned(),
            metric: self.metric.to_owned(),
            from: self.from.to_owned(),
            real: real_side,
            judged: as_is(judged)?,
            limits: self.to.iter().map(row).collect(),
        })
    }

    fn change(&self, records: &[Record], limit: &str) -> Result<MeanMove, String> {
        let values = |variant: &str| -> Result<Vec<f64>, String> {
            let of = records.iter().filter(|r| r.variant.name == variant);
            of.map(|record| match metrics::evaluate(record, self.metric).value {
                Value::Number(n) => Ok(n),
                Value::Missing(why) => Err(why),
            })
            .collect()
        };
        let change = MeanMove::of_values(&[values(self.from)?, values(limit)?])?;
        let (means, half) = (change.means.map(rounded), change.half.map(rounded));
        Ok(MeanMove { means, pct: rounded(change.pct), half })
    }
}

/// The results of all cases.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Limits {
    pub schema: String,
    /// Versions of our rules, and of the engine of the kernel's own code.
    pub model: u32,
    pub engine: u32,
    pub not_run: Vec<NotRun>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cases: Vec<LimitsResult>,
}

/// How many changes have a sign, and how many of these agree in it, and in size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LimitsShare {
    pub signed: usize,
    pub same_sign: usize,
    pub same_size: usize,
}

impl Limits {
    pub fn of(cases: Vec<LimitsResult>, not_run: Vec<NotRun>) -> Limits {
        Limits { schema: LIMITS_SCHEMA.to_owned(), model: MODEL, engine: ENGINE, not_run, cases }
    }
    /// The share of these cases.
    pub fn share<'a>(cases: impl Iterator<Item = &'a LimitsResult>) -> LimitsShare {
        cases.flat_map(|case| &case.limits).fold(LimitsShare::default(), |sum, row| LimitsShare {
            signed: sum.signed + usize::from(row.same_sign().is_some()),
            same_sign: sum.same_sign + usize::from(row.same_sign() == Some(true)),
            same_size: sum.same_size + usize::from(row.same_size() == Some(true)),
        })
    }
    /// Whether every case was run, all signs agree, and three sizes in four.
    pub fn passed(&self) -> bool {
        let all = Limits::share(self.cases.iter());
        let sizes = all.same_size as f64 >= ENOUGH_OF_SIZES * all.signed as f64;
        self.not_run.is_empty() && all.signed > 0 && all.same_sign == all.signed && sizes
    }
    /// The text of a file that keeps the result.
    ///
    /// # Errors
    /// None that is known: all is plain data.
    pub fn write(&self) -> serde_json::Result<String> {
        let one = |case: &LimitsResult| {
            let rows =
                case.limits.iter().map(serde_json::to_string).collect::<serde_json::Result<Vec<_>>>()?;
            with_list(&LimitsResult { limits: Vec::new(), ..case.clone() }, "limits", &rows)
        };
        let cases = self.cases.iter().map(one).collect::<serde_json::Result<Vec<_>>>()?;
        Ok(with_list(&Limits { cases: Vec::new(), ..self.clone() }, "cases", &cases)? + "\n")
    }
    /// Reads such a file.
    ///
    /// # Errors
    /// When it is another file.
    pub fn read(text: &str) -> Result<Limits, String> {
        let all: Limits = serde_json::from_str(text).map_err(|e| e.to_string())?;
        if all.schema == LIMITS_SCHEMA {
            return Ok(all);
        }
        Err(format!("its schema is '{}', not {LIMITS_SCHEMA}", all.schema))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::switched;
    use schedlab_base::Backend;

    const QUESTION: LimitsQuestion<'static> =
        LimitsQuestion { name: "x", metric: "migrations", from: "as-is", to: &[] };

    /// A result whose limit changes 100 to `real` in reality and to `judged` by us.
    fn judged(real: [u64; 4], judged: u64) -> LimitsResult {
        let of = |backend, variant, values| switched(backend, variant, "migrations", values);
        let there: Vec<Record> =
            of(Backend::Vm, "as-is", [99, 100, 101, 100]).chain(of(Backend::Vm, "none", real)).collect();
        let here: Vec<Record> =
            of(Backend::Sim, "as-is", [100; 4]).chain(of(Backend::Sim, "none", [judged; 4])).collect();
        let to = ["none".to_owned()];
        LimitsQuestion { to: &to, ..QUESTION }.judge(RealLimits::Runs(&there), &here).unwrap()
    }

    #[test]
    fn a_change_agrees_by_sign_and_size_where_the_real_one_has_a_sign() {
        let of = |real, mine| {
            let case = judged(real, mine);
            (case.limits[0].same_sign(), case.limits[0].same_size())
        };
        let half = [49, 50, 51, 50];
        assert_eq!(of(half, 40), (Some(true), Some(true)), "60 % instead of 50 %");
        assert_eq!(of(half, 30), (Some(true), Some(false)), "70 %");
        assert_eq!(of(half, 120), (Some(false), Some(false)));
        assert_eq!(of(half, 100), (Some(false), Some(false)), "no change where there is one");
        assert_eq!(of([60, 150, 90, 110], 50), (None, None), "the real change may be nothing");
    }

    #[test]
    fn all_signs_and_three_sizes_in_four_must_agree() {
        let (right, small) = (judged([50, 51, 49, 50], 50), judged([50, 51, 49, 50], 90));
        let of = |cases: &[&LimitsResult]| {
            Limits::of(cases.iter().map(|c| (*c).clone()).collect(), Vec::new()).passed()
        };
        assert!(of(&[&right, &right, &right, &small]) && !of(&[&right, &small]) && !of(&[]));
        assert!(!of(&[&right, &right, &right, &right, &judged([50, 51, 49, 50], 110)]), "a wrong sign");
    }

    #[test]
    fn a_kept_result_is_read_again_and_its_real_side_judges_another_simulation() {
        let all = Limits::of(vec![judged([50, 51, 49, 50], 50)], Vec::new());
        let text = all.write().unwrap();
        assert_eq!(Limits::read(&text).unwrap(), all);
        assert_eq!(text.lines().filter(|line| line.starts_with("{\"limit\"")).count(), 1, "{text}");
        assert!(Limits::read(&text.replace("limits/1", "limits/9")).unwrap_err().contains("limits/9"));
        let to = ["none".to_owned()];
        let again = judged([10; 4], 60);
        let here: Vec<Record> = (switched(Backend::Sim, "as-is", "migrations", [100; 4]))
            .chain(switched(Backend::Sim, "none", "migrations", [60; 4]))
            .collect();
        let question = LimitsQuestion { to: &to, ..QUESTION };
        let case = question.judge(RealLimits::Earlier(&all.cases[0]), &here).unwrap();
        assert_eq!(case.limits[0].real, all.cases[0].limits[0].real);
        assert_eq!(case.limits[0].judged, again.limits[0].judged);
        let lost = LimitsQuestion { to: &["half".to_owned()], ..QUESTION };
        let lost = lost.judge(RealLimits::Earlier(&all.cases[0]), &here).unwrap();
        assert!(lost.limits[0].why.as_ref().unwrap().contains("real: the earlier result"), "{lost:?}");
    }
}
