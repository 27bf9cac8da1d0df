//! The race: round by round, within the time that is given.

use super::{Course, Tune};
use crate::ask::experiment::Experiment;
use schedlab_base::{Backend, Result};
use schedlab_compare::Comparison;
use schedlab_compare::stats::race::{Round, order};
use schedlab_compare::tuned::{LeftOut, Raced};
use schedlab_kernel::Variant;

impl Tune<'_> {
    /// The first `take` rounds of a race, or fewer where time is up; the settings that are left, best first: `least` or
    /// more, if there are so many.
    pub(super) fn race<'v>(
        &self,
        settings: &'v [Variant],
        all: &[Round],
        (take, least): (usize, usize),
        course: &mut Course,
    ) -> Result<Vec<&'v str>> {
        let whole = self.with_variants(settings)?;
        let mut left: Vec<&str> = settings.iter().map(|v| v.name.as_str()).collect();
        let (mut standing, mut before): (Vec<Raced>, u64) = (Vec::new(), 0);
        for (at, round) in all[..take].iter().enumerate() {
            let Some(seen) = self.round(&whole, &mut left, (*round, before), course)? else { break };
            before = round.runs;
            let placed = self.placed(&seen, &whole.baseline, &left, round.runs)?;
            course.cut_short |= at + 1 < take && self.is_late(course);
            let keep = all.get(at + 1).map_or(least, |next| next.settings.max(least));
            let stay = placed.len().min(keep);
            course.race.splice(0..0, placed[stay..].iter().cloned());
            standing = placed[..stay].to_vec();
            left = standing
                .iter()
                .filter_map(|one| left.iter().copied().find(|name| *name == one.setting))
                .collect();
            if course.cut_short {
                break;
            }
        }
        course.race.splice(0..0, standing.into_iter().filter(|one| left.contains(&one.setting.as_str())));
        Ok(left)
    }

    fn is_late(&self, course: &Course) -> bool {
        self.limit.is_some_and(|limit| course.begun.elapsed() > limit)
    }

    /// The runs of a round; `None` if time was up before all had theirs: then the places are those of the round before.
    /// Of the first round those remain that had their runs.
    fn round(
        &self,
        whole: &Experiment,
        left: &mut Vec<&str>,
        (round, before): (Round, u64),
        course: &mut Course,
    ) -> Result<Option<Comparison>> {
        let runs = (round.runs, self.seed());
        if self.limit.is_some() {
            // Settings with their runs, few at a time, so that the time is looked at between them.
            let part = if self.request.backend == Backend::Host { 1 } else { self.request.jobs() as usize };
            let mut done = 0;
            while done < left.len() && !(done > 0 && self.is_late(course)) {
                let end = (done + part.max(1)).min(left.len());
                let mut some = left[done..end].to_vec();
                self.sift(whole, &mut some, runs, course)?;
                let many = some.len();
                left.splice(done..end, some);
                done += many;
                if many == 0 && self.is_late(course) {
                    break;
                }
            }
            if done < left.len() {
                course.cut_short = true;
                course.runs += (round.runs - before) * (done as u64 + 1);
                if before > 0 {
                    return Ok(None);
                }
                let why = "time was up before its turn".to_owned();
                let late =
                    left.drain(done..).map(|name| LeftOut { setting: name.to_owned(), why: why.clone() });
                course.left_out.extend(late);
            } else {
                course.runs += (round.runs - before) * (left.len() as u64 + 1);
            }
            return self.look_at(whole, left, runs, (None, course)).map(Some);
        }
        let seen = self.look_at(whole, left, runs, (None, course))?;
        course.runs += (round.runs - before) * (left.len() as u64 + 1);
        Ok(Some(seen))
    }

    /// The settings with their changes, best first.
    pub(super) fn placed(
        &self,
        seen: &Comparison,
        base: &str,
        names: &[&str],
        runs: u64,
    ) -> Result<Vec<Raced>> {
        let scored = names.iter().map(|name| self.scores(seen, base, name)).collect::<Result<Vec<_>>>()?;
        let scores: Vec<Vec<Option<f64>>> =
            scored.iter().map(|of| of.iter().map(|one| one.score).collect()).collect();
        let raced = |place: usize| Raced {
            setting: names[place].to_owned(),
            runs,
            change_pct: scored[place].iter().map(|one| one.change_pct()).collect(),
        };
        Ok(order(&scores).into_iter().map(raced).collect())
    }
}
