//! Sorts records by time, within a bounded window.
//!
//! Recorders write per CPU, and their tools merge. The merged order may be off by some records. Records of one CPU keep
//! their order; across CPUs they are sorted by time, stable, within [`WINDOW`] records. A record that comes even later
//! is left out and counts as lost on its CPU. If the time of all records stays behind, the clock has restarted, and
//! times continue from the last one.

use crate::losses::Losses;
use crate::sched_record::{RecordKind, SchedRecord};
use schedlab_base::Ns;
use std::collections::VecDeque;

/// Number of records that are held back.
pub const WINDOW: usize = 4096;
/// Records of one CPU may be this far out of order: an interrupt's record may stand before that of the interrupted
/// code. Then their order counts, not their times.
const JITTER_NS: u64 = 1_000_000;
/// This many late records in a row mean that the clock has restarted.
const ANEW_AFTER: u64 = 1024;

/// The longest recording, 26 days: sums of times over all CPUs must fit into 64 bits. A time further away is damaged.
const LONGEST_NS: u64 = 1 << 51;

#[derive(Default)]
pub struct Order {
    held: VecDeque<SchedRecord>,
    /// The time of each CPU's last record.
    last_ns: Vec<u64>,
    /// Number of records of each CPU that were left out since its last one that was taken.
    missing: Vec<u64>,
    /// The time of the last record passed on.
    given_ns: u64,
    late_in_a_row: u64,
    /// Added to the recording's times since the clock restarted.
    shift_ns: i128,
    /// The time of the first record.
    first_ns: Option<u64>,
    /// Number of records so far, without losses.
    pub count: u64,
    /// The steps of printed times.
    pub printed: Printed,
}

/// Steps between the printed times of each CPU's records.
#[derive(Default)]
pub struct Printed {
    last_ns: Vec<Option<u64>>,
    /// Number of steps back, and the sums of steps back and forward.
    pub back: u64,
    pub back_ns: u128,
    pub forth_ns: u128,
}

impl Printed {
    fn note(&mut self, cpu: usize, at_ns: u64) {
        if cpu >= self.last_ns.len() {
            self.last_ns.resize(cpu + 1, None);
        }
        let Some(last_ns) = self.last_ns[cpu].replace(at_ns) else { return };
        if at_ns < last_ns {
            self.back += 1;
            self.back_ns += u128::from(last_ns - at_ns);
        } else {
            self.forth_ns += u128::from(at_ns - last_ns);
        }
    }
}

impl Order {
    /// Takes a record; passes on the oldest ones once the window is full.
    pub fn take(
        &mut self,
        mut record: SchedRecord,
        losses: &mut Losses,
        mut give: impl FnMut(&mut VecDeque<SchedRecord>, SchedRecord),
    ) {
        self.count += u64::from(!matches!(record.what, RecordKind::Lost { .. }));
        let cpu = record.cpu as usize;
        if cpu >= self.last_ns.len() {
            self.last_ns.resize(cpu + 1, 0);
            self.missing.resize(cpu + 1, 0);
        }
        self.printed.note(cpu, record.at_ns);
        if self.shift_ns != 0 {
            record.at_ns = (i128::from(record.at_ns) + self.shift_ns).clamp(0, u64::MAX.into()) as u64;
        }
        let first_ns = *self.first_ns.get_or_insert(record.at_ns);
        let last_ns = self.last_ns[cpu];
        if record.at_ns < last_ns && last_ns - record.at_ns <= JITTER_NS {
            record.at_ns = last_ns;
        }
        let is_damaged = record.at_ns.saturating_sub(first_ns) > LONGEST_NS;
        if is_damaged || record.at_ns < self.given_ns.max(last_ns) {
            let behind = self.given_ns.max(last_ns).saturating_sub(record.at_ns);
            losses.backwards = losses.backwards.max(Ns(behind));
            self.late_in_a_row += 1;
            if self.late_in_a_row < ANEW_AFTER {
                match is_damaged {
                    true => losses.unreadable(self.count),
                    false => losses.late += 1,
                }
                self.missing[cpu] += 1;
                return;
            }
            self.anew(&mut record, losses, &mut give);
        }
        self.late_in_a_row = 0;
        self.last_ns[cpu] = record.at_ns;
        let missing = std::mem::take(&mut self.missing[cpu]);
        if missing > 0 {
            self.put(SchedRecord { what: RecordKind::Lost { count: missing }, ..record });
        }
        self.put(record);
        while self.held.len() > WINDOW {
            self.give_oldest(&mut give);
        }
    }

    /// The clock has restarted with this record: which task runs where is no longer known.
    fn anew(
        &mut self,
        record: &mut SchedRecord,
        losses: &mut Losses,
        give: &mut impl FnMut(&mut VecDeque<SchedRecord>, SchedRecord),
    ) {
        losses.restarts += 1;
        while !self.held.is_empty() {
            self.give_oldest(give);
        }
        let newest_ns = self.last_ns.iter().copied().max().unwrap_or(0).max(self.given_ns);
        self.shift_ns += i128::from(newest_ns) - i128::from(record.at_ns);
        record.at_ns = newest_ns;
        for cpu in 0..self.last_ns.len() {
            self.last_ns[cpu] = newest_ns;
            self.missing[cpu] += 1;
        }
    }

    #[inline]
    fn put(&mut self, record: SchedRecord) {
        match self.held.back() {
            Some(newest) if newest.at_ns > record.at_ns => {
                let at = self.held.partition_point(|h| h.at_ns <= record.at_ns);
                self.held.insert(at, record);
            }
            _ => self.held.push_back(record),
        }
    }

    #[inline]
    fn give_oldest(&mut self, give: &mut impl FnMut(&mut VecDeque<SchedRecord>, SchedRecord)) {
        if let Some(oldest) = self.held.pop_front() {
            self.given_ns = oldest.at_ns;
            give(&mut self.held, oldest);
        }
    }

    /// Passes on the remaining records.
    pub fn finish(&mut self, mut give: impl FnMut(&mut VecDeque<SchedRecord>, SchedRecord)) {
        while !self.held.is_empty() {
            self.give_oldest(&mut give);
        }
    }
}
