//! Recordings of other tools in: a real kernel's schedule, recorded by ftrace, trace-cmd, perf, Perfetto or LTTng,
//! becomes the events and the record of a run.
//!
//! # Problem
//!
//! Recorders keep the same few tracepoints in many forms: text by three tools with options that change columns, binary
//! files with their own layouts, packed or piped. They lose events, leave tracepoints out, reuse thread numbers, and
//! merge CPUs out of order. A reader of figures must get the same ones from all forms, and must learn of everything
//! that is missing.
//!
//! # The way of a record
//!
//! 1. [`read()`] opens a file, a folder or a pipe; `unpack` handles gzip, zstd and zlib; [`form`] recognises the
//!    [`Form`].
//! 2. A form's reader makes a [`SchedRecord`] of each record: [`text`], [`binary`] (perf.data, trace.dat, Perfetto),
//!    [`ctf`].
//! 3. [`order`] puts records in the order of time, within a bounded window.
//! 4. [`translate`] gives an [`Audience`] the analyser's events. [`task_table`] makes ids that are not reused of the
//!    kernel's numbers; [`states`] knows what `prev_state` meant in which release.
//! 5. [`losses`] counts lost records, [`lacks`] says which tracepoints there are none of and what follows from that.
//!    Both come back in [`Imported`]. [`to_run`] makes the record of a run, [`hears`] also the file of its events;
//!    [`latency`] and [`timehist`] print the tables of `perf sched`.
//!
//! Start with [`sched_record`] and [`translate`]; the smallest reader is `text/babeltrace.rs`.
//!
//! # Invariants
//!
//! Times are nanoseconds since the recording's first record. Everything streams: memory grows with tasks and CPUs, not
//! with the length of a recording. Nothing is guessed: a figure that depends on a missing tracepoint is missing, and no
//! stay or wait crosses a loss. Input is hostile until it is checked, so lengths are bounded and every error names the
//! place in the file.

pub mod binary;
pub mod ctf;
pub mod form;
pub mod hears;
pub mod lacks;
pub mod latency;
pub mod losses;
pub mod order;
pub mod read;
pub mod sched_record;
pub mod states;
pub mod task_table;
pub mod text;
pub mod timehist;
pub mod to_run;
pub mod translate;
mod unpack;

pub use form::Form;
pub use lacks::Kinds;
pub use losses::Losses;
pub use read::{Recording, form_at, not_a_run, read, read_part};
pub use sched_record::{RecordKind, SchedRecord};
pub use task_table::{Audience, KnownThread};

use order::Order;
use schedlab_base::{Error, Ns, Result, Warning, printable};
use schedlab_trace::Cast;
use translate::Translator;

/// The result of an import, apart from the events.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    pub cast: Cast,
    pub losses: Losses,
    /// The tracepoints that were recorded.
    pub kinds: Kinds,
    /// The first record's time by the recording's own clock, ns.
    pub opened_ns: u64,
    /// Number of records of the scheduler.
    pub records: u64,
    /// Number of records of other events, which are not read.
    pub others: u64,
    /// Files of the trace's folder that were not read, because they do not begin like streams of it.
    pub passed_over: Vec<String>,
    pub form: Option<Form>,
    /// A hash of the file's bytes; 0 if it was not asked for.
    pub fingerprint: u64,
}

impl Imported {
    /// Warnings for the reader of any figure: lost records, and tracepoints that were not recorded.
    pub fn warnings(&self) -> Vec<Warning> {
        let passed_over = passed_over(&self.passed_over);
        self.losses.warnings().into_iter().chain(passed_over).chain(self.kinds.warnings()).collect()
    }
}

/// The warning for files that were not read.
fn passed_over(files: &[String]) -> Option<Warning> {
    let shown: Vec<_> = files.iter().take(5).map(|name| printable::name(name)).collect();
    let more = if files.len() > shown.len() { ", ..." } else { "" };
    let text = format!(
        "{} of the trace's files do not begin as a stream does and are not read ({}{more}): if they are damaged streams, \
         their CPUs' events are missing",
        files.len(),
        shown.join(", ")
    );
    (!files.is_empty()).then(|| Warning::new("recording.passed_over", text))
}

/// Takes records as they are read, and gives an audience their events in order of time.
pub struct Importer<'a> {
    order: Order,
    translator: Translator,
    audience: &'a mut dyn Audience,
    pub losses: Losses,
    /// The tracepoints that were recorded.
    kinds: Kinds,
    /// Losses of each CPU, to be reported before its next record.
    lost: Vec<Option<u64>>,
}

impl<'a> Importer<'a> {
    pub fn new(audience: &'a mut dyn Audience) -> Importer<'a> {
        Importer {
            order: Order::default(),
            translator: Translator::default(),
            audience,
            losses: Losses::default(),
            kinds: Kinds::default(),
            lost: Vec::new(),
        }
    }

    #[inline]
    pub fn record(&mut self, record: SchedRecord) {
        self.kinds.note(&record.what);
        self.translator.tells_queued |= matches!(record.what, RecordKind::Queued { new: false, .. });
        if let Some(lost) = self.lost.get_mut(record.cpu as usize)
            && let Some(count) = lost.take()
        {
            self.put(SchedRecord { what: RecordKind::Lost { count }, ..record });
        }
        self.put(record);
    }

    #[inline]
    fn put(&mut self, record: SchedRecord) {
        let Importer { order, translator, audience, losses, .. } = self;
        order.take(record, losses, |later, record| translator.translate(&record, later, *audience));
    }

    /// Records of the CPU before its next one were lost, or its recording begins there.
    pub fn lost(&mut self, cpu: u32, count: u64) {
        let at = cpu as usize;
        if at >= self.lost.len() {
            self.lost.resize(at + 1, None);
        }
        self.lost[at] = Some(self.lost[at].unwrap_or(0).saturating_add(count));
    }

    /// A thread's name, process and group, known from outside of records.
    pub fn introduce(&mut self, tid: u32, known: KnownThread) {
        self.translator.tasks.belongs(tid, known.process, self.audience);
        self.translator.tasks.introduce(tid, known);
    }

    /// Number of records taken.
    pub fn records(&self) -> u64 {
        self.order.count
    }

    /// Refuses a text whose times are not a clock's: a fifth of them step back on their CPU, and the steps back add up
    /// to more than half of the steps forward.
    ///
    /// # Errors
    /// When the text is refused; the error names the options that print a clock's times.
    pub fn check_clock(&self) -> Result<()> {
        let (printed, all) = (&self.order.printed, self.order.count);
        if printed.back < 100 || printed.back < all / 5 || printed.back_ns * 2 < printed.forth_ns {
            return Ok(());
        }
        let text = format!(
            "{} of {all} records are older than the one before them on their CPU: these times are the differences of \
             records, or of several clocks",
            printed.back
        );
        Err(Error::input(text).help("print times: 'perf script' without --deltatime"))
    }

    /// Passes on the remaining records. `cpus` and `release` of the machine, if the recording has them.
    pub fn finish(mut self, cpus: Option<u32>, release: Option<String>) -> Imported {
        let (translator, audience) = (&mut self.translator, &mut *self.audience);
        self.order.finish(|later, record| translator.translate(&record, later, audience));
        let records = self.order.count;
        let opened_ns = self.translator.opened_ns();
        let cpus = self.translator.cpus.max(cpus.filter(|n| *n <= sched_record::MAX_CPUS).unwrap_or(0));
        let end: Ns = self.translator.end;
        let cast = self.translator.tasks.into_cast(cpus as usize, release.unwrap_or_default(), end);
        Imported { cast, losses: self.losses, kinds: self.kinds, opened_ns, records, ..Imported::default() }
    }
}
