//! Sorts records that come in rounds: a recorder empties the buffers of the CPUs one after the other, again and again.
//! At the end of a round, no record older than the newest one of the round before can follow. So two rounds are held.

use crate::sched_record::{RecordKind, SchedRecord, UNKNOWN_PROCESS};
use crate::{Audience, Importer};

/// The most records that are held if no round is ever finished.
const MOST_HELD: usize = 1 << 20;

/// The records of the rounds that have not been passed on yet.
pub struct Rounds<'a> {
    /// Receives the sorted records.
    pub importer: Importer<'a>,
    held: Vec<SchedRecord>,
    /// The time of each CPU's last record among the held ones.
    last_ns: Vec<Option<u64>>,
    newest_ns: u64,
    /// The newest time at the end of the round before.
    until_ns: u64,
}

impl<'a> Rounds<'a> {
    pub fn new(audience: &'a mut dyn Audience) -> Rounds<'a> {
        Rounds {
            importer: Importer::new(audience),
            held: Vec::new(),
            last_ns: Vec::new(),
            newest_ns: 0,
            until_ns: 0,
        }
    }
    #[inline]
    pub fn take(&mut self, record: SchedRecord) {
        self.newest_ns = self.newest_ns.max(record.at_ns);
        let cpu = record.cpu as usize;
        if cpu >= self.last_ns.len() {
            self.last_ns.resize(cpu + 1, None);
        }
        self.last_ns[cpu] = Some(record.at_ns);
        self.hold(record);
    }
    #[inline]
    fn hold(&mut self, record: SchedRecord) {
        self.held.push(record);
        if self.held.len() >= MOST_HELD {
            self.sort();
            let middle = self.held[self.held.len() / 2].at_ns;
            self.flush(middle);
        }
    }
    /// Records of the CPU were lost after its last one.
    pub fn take_lost(&mut self, cpu: u32, count: u64) {
        match self.last_ns.get(cpu as usize).copied().flatten() {
            Some(at_ns) => {
                self.hold(SchedRecord {
                    at_ns,
                    cpu,
                    current: 0,
                    process: UNKNOWN_PROCESS,
                    what: RecordKind::Lost { count },
                });
            }
            None => self.importer.lost(cpu, count),
        }
    }
    pub fn finished(&mut self) {
        self.flush(self.until_ns);
        self.until_ns = self.newest_ns;
    }
    /// Passes on all held records.
    pub fn finish(mut self) -> Importer<'a> {
        self.flush(u64::MAX);
        self.importer
    }
    fn sort(&mut self) {
        self.held.sort_by_key(|t| t.at_ns);
    }
    /// Passes on records up to this time.
    fn flush(&mut self, until_ns: u64) {
        self.sort();
        let ready = self.held.partition_point(|t| t.at_ns <= until_ns);
        for record in self.held.drain(..ready) {
            self.importer.record(record);
        }
        self.last_ns.iter_mut().for_each(|last| *last = last.filter(|at_ns| *at_ns > until_ns));
    }
}
