//! Reads Perfetto's traces: packets with ftrace's events, and packets that name threads.
//!
//! The file is read packet by packet. A packet has a bundle of one CPU's events, in order: as messages, or as columns
//! (`compact_sched`). Columns leave out the task before a switch, because it is the one that the last switch brought.
//! CPUs are written one after the other in rounds ([`Rounds`]). The numbers of fields are those of Perfetto's
//! `protos/perfetto/trace`.

use super::proto::{Fields, Value, varint};
use super::rounds::Rounds;
use crate::sched_record::{
    CLONE_THREAD, Comm, IN_INTERRUPT, MAX_CPUS, MAX_THREADS, RecordKind, SchedRecord, Thread, UNKNOWN_PROCESS,
};
use crate::states::States;
use crate::text::note;
use crate::{Audience, Imported, KnownThread};
use schedlab_base::{Error, Result};
use schedlab_trace::SwitchReason;
use std::io::{ErrorKind, Read};

/// Tag of a file's packets: field 1, bytes.
const PACKET: u8 = 0x0a;
/// The longest packet, packed or unpacked.
const MOST: u64 = 64 << 20;
/// The most events of a kind in a bundle. Perfetto's recorder empties a few pages of a CPU into one.
const MOST_ROWS: usize = 100_000;
/// Numbers of fields in packets.
const FTRACE: u64 = 1;
const PROCESS_TREE: u64 = 2;
const SYSTEM_INFO: u64 = 45;
const COMPRESSED: u64 = 50;
/// The task before a switch, where it is not reported.
const NOT_TOLD: u32 = u32::MAX;

/// Reads a trace.
///
/// # Errors
/// When it can't be read, is not a trace, or has no events of the scheduler.
pub fn read(from: impl Read, audience: &mut dyn Audience) -> Result<Imported> {
    let mut reader = Reader {
        rounds: Rounds::new(audience),
        running: Vec::new(),
        last_cpu: 0,
        bundle: Vec::new(),
        others: 0,
        bundles: 0,
        release: None,
        states: States::default(),
    };
    let whole = reader.packets(from)?;
    let Reader { rounds, others, release, bundles, .. } = reader;
    let mut importer = rounds.finish();
    importer.losses.cut = !whole;
    match (importer.records(), bundles) {
        (0, 0) => Err(Error::input("the trace has no events of ftrace")
            .help("record with the data source linux.ftrace and the events sched/*")),
        (0, _) => Err(Error::input("the trace has no events of the scheduler")
            .help("record with ftrace_events: \"sched/sched_switch\", \"sched/sched_waking\"")),
        _ => Ok(Imported { others, ..importer.finish(None, release) }),
    }
}

struct Reader<'a> {
    rounds: Rounds<'a>,
    /// The task that runs on each CPU, plus one; 0 if unknown.
    running: Vec<u32>,
    last_cpu: u32,
    bundle: Vec<SchedRecord>,
    others: u64,
    bundles: u64,
    release: Option<String>,
    /// The meaning of the bits of `prev_state`.
    states: States,
}

impl Reader<'_> {
    /// Takes all packets; false if the file ends within one.
    fn packets(&mut self, mut from: impl Read) -> Result<bool> {
        let mut from = std::io::BufReader::with_capacity(1 << 18, &mut from);
        let mut packet = Vec::new();
        loop {
            let mut tag = [0];
            if fill(&mut from, &mut tag)? == 0 {
                return Ok(true);
            }
            let Some(length) = length(&mut from)? else { return Ok(false) };
            if tag != [PACKET] || length > MOST {
                return Err(Error::input("the file is not a trace of Perfetto, or is damaged")
                    .help("record it anew, or open it in ui.perfetto.dev"));
            }
            packet.resize(length as usize, 0);
            if fill(&mut from, &mut packet)? < packet.len() {
                return Ok(false);
            }
            self.packet(&packet, true);
        }
    }

    fn packet(&mut self, packet: &[u8], outer: bool) {
        let mut fields = Fields::of(packet);
        for (field, value) in fields.by_ref() {
            match field {
                FTRACE => self.bundle(value.bytes()),
                PROCESS_TREE => self.process_tree(value.bytes()),
                SYSTEM_INFO => self.system_info(value.bytes()),
                COMPRESSED if outer => {
                    let most = MOST as usize;
                    match miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(value.bytes(), most) {
                        Ok(inner) => {
                            let packets = Fields::of(&inner).filter(|(field, _)| *field == 1);
                            packets.for_each(|(_, packet)| self.packet(packet.bytes(), false));
                        }
                        Err(_) => self.unreadable(),
                    }
                }
                _ => {}
            }
        }
        if fields.broken {
            self.unreadable();
        }
    }

    fn unreadable(&mut self) {
        let at = self.rounds.importer.records() + 1;
        self.rounds.importer.losses.unreadable(at);
    }

    fn system_info(&mut self, message: &[u8]) {
        for (_, utsname) in Fields::of(message).filter(|(field, _)| *field == 1) {
            let release = Fields::of(utsname.bytes()).find(|(field, _)| *field == 3);
            let Some((_, text)) = release else { continue };
            let text = String::from_utf8_lossy(text.bytes());
            self.states.learn(&text);
            // A trace by schedlab names two kernels: that of the layout, "-for-", and the one that ran.
            let ran = text.split_once("-for-").map_or(&*text, |(_, ran)| ran);
            self.release = Some(ran.to_owned()).filter(|ran| ran != "unknown");
        }
    }

    /// Reads threads and their processes. A process is also its own first thread.
    fn process_tree(&mut self, message: &[u8]) {
        for (field, value) in Fields::of(message) {
            let (mut tid, mut comm, mut process) = (0, Comm::default(), None);
            for (inner, value) in Fields::of(value.bytes()) {
                match (field, inner) {
                    (1 | 2, 1) => tid = value.number() as u32,
                    (2, 2) => comm = Comm::of(value.bytes()),
                    (2, 3) => process = Some(value.number() as u32),
                    _ => {}
                }
            }
            let process = process.unwrap_or(if field == 1 { tid } else { UNKNOWN_PROCESS });
            if matches!(field, 1 | 2) && (1..MAX_THREADS).contains(&tid) && process < MAX_THREADS {
                self.rounds.importer.introduce(tid, KnownThread { comm, process, ..KnownThread::default() });
            }
        }
    }

    /// Reads one CPU's events.
    fn bundle(&mut self, message: &[u8]) {
        self.bundles += 1;
        let number = |field| Fields::of(message).find(|(f, _)| *f == field).map_or(0, |(_, v)| v.number());
        let (cpu, lost) = (number(1), number(3));
        let Some(cpu) = u32::try_from(cpu).ok().filter(|cpu| *cpu < MAX_CPUS) else {
            return self.unreadable();
        };
        if cpu < self.last_cpu {
            self.rounds.finished();
        }
        self.last_cpu = cpu;
        if lost != 0 {
            note(&mut self.rounds.importer.losses, 1);
            self.rounds.take_lost(cpu, 1);
            if let Some(running) = self.running.get_mut(cpu as usize) {
                *running = 0;
            }
        }
        let mut bundle = std::mem::take(&mut self.bundle);
        bundle.clear();
        let mut fields = Fields::of(message);
        for (field, value) in fields.by_ref() {
            match field {
                2 | 4 if bundle.len() >= MOST_ROWS => {
                    self.unreadable();
                    break;
                }
                2 => match event(value.bytes(), cpu, &mut self.states) {
                    Taken::Record(record) => bundle.push(record),
                    Taken::Other => self.others += 1,
                    Taken::Unreadable => self.unreadable(),
                },
                4 if compact(value.bytes(), cpu, &mut bundle, &mut self.states).is_none() => {
                    self.unreadable()
                }
                _ => {}
            }
        }
        if fields.broken {
            self.unreadable();
        }
        // Messages are in order already; columns are separate from them.
        bundle.sort_by_key(|t| t.at_ns);
        for record in bundle.drain(..) {
            let record = self.with_prev(record);
            self.rounds.take(record);
        }
        self.bundle = bundle;
    }

    /// Fills in the running task as the first task of a switch and as the waker, where these are not reported.
    fn with_prev(&mut self, mut record: SchedRecord) -> SchedRecord {
        let at = record.cpu as usize;
        if at >= self.running.len() {
            self.running.resize(at + 1, 0);
        }
        if let RecordKind::Waking { waker, .. } = &mut record.what
            && waker.tid == NOT_TOLD
        {
            waker.tid = self.running[at].saturating_sub(1);
            record.current = waker.tid;
        }
        let RecordKind::Switch { prev, next, why } = &mut record.what else { return record };
        let last = std::mem::replace(&mut self.running[at], next.tid + 1);
        if prev.tid == NOT_TOLD {
            prev.tid = last.saturating_sub(1);
            if last == 0 {
                // The running task is not known yet.
                self.rounds.take(SchedRecord { what: RecordKind::Lost { count: 0 }, ..record });
            }
            if prev.tid == 0 {
                *why = SwitchReason::FromIdle;
            }
            record.current = prev.tid;
        }
        record
    }
}

enum Taken {
    Record(SchedRecord),
    Other,
    Unreadable,
}

/// The fields of an event's message by number, 1 to 7.
#[derive(Default)]
struct Row<'a>([Option<Value<'a>>; 8]);

impl<'a> Row<'a> {
    fn of(message: &'a [u8]) -> Option<Row<'a>> {
        let mut row = Row::default();
        let mut fields = Fields::of(message);
        for (field, value) in fields.by_ref() {
            if let Some(place) = row.0.get_mut(field as usize) {
                *place = Some(value);
            }
        }
        (!fields.broken).then_some(row)
    }
    fn number(&self, at: usize) -> u64 {
        self.0[at].map_or(0, Value::number)
    }
    fn cpu(&self, at: usize) -> Option<u32> {
        u32::try_from(self.number(at)).ok().filter(|cpu| *cpu < MAX_CPUS)
    }
    /// A thread, by the numbers of the fields with its name, number and priority; 0 for one that is not reported.
    fn thread(&self, comm: usize, tid: usize, prio: usize) -> Option<Thread> {
        let number = u32::try_from(self.number(tid)).ok().filter(|tid| *tid < MAX_THREADS)?;
        let comm = self.0[comm].map_or(Comm::default(), |name| Comm::of(name.bytes()));
        let prio = self.0[prio].filter(|_| prio > 0).map(|n| n.number() as i32);
        Some(Thread { tid: number, comm, prio })
    }
}

fn nameless(tid: u32) -> Thread {
    Thread { tid, comm: Comm::default(), prio: None }
}

fn event(message: &[u8], cpu: u32, states: &mut States) -> Taken {
    let (mut at_ns, mut current, mut flags, mut kind) = (0, 0, 0, None);
    let mut fields = Fields::of(message);
    for (field, value) in fields.by_ref() {
        match field {
            1 => at_ns = value.number(),
            2 => current = value.number(),
            5 => flags = value.number(),
            3 => {}
            _ => kind = Some((field, value.bytes())),
        }
    }
    if fields.broken {
        return Taken::Unreadable;
    }
    let current = u32::try_from(current).ok().filter(|tid| *tid < MAX_THREADS).unwrap_or(0);
    let Some((kind, message)) = kind else { return Taken::Other };
    if !matches!(kind, 4 | 17 | 20 | 114 | 235 | 236 | 238 | 239 | 491) {
        return Taken::Other;
    }
    match Row::of(message).and_then(|row| content(kind, &row, (current, flags), states)) {
        Some(what) => Taken::Record(SchedRecord { at_ns, cpu, current, process: UNKNOWN_PROCESS, what }),
        None => Taken::Unreadable,
    }
}

fn content(
    kind: u64,
    row: &Row<'_>,
    (current, flags): (u32, u64),
    states: &mut States,
) -> Option<RecordKind> {
    let waker = nameless(if flags & IN_INTERRUPT != 0 { 0 } else { current });
    Some(match kind {
        4 => {
            let prev = row.thread(1, 2, 3)?;
            let why = if prev.tid == 0 { SwitchReason::FromIdle } else { states.ended_by(row.number(4)) };
            RecordKind::Switch { prev, next: row.thread(5, 6, 7)?, why }
        }
        20 => RecordKind::Waking { thread: row.thread(1, 2, 3)?, waker, cpu: row.cpu(5)? },
        17 | 114 => {
            RecordKind::Queued { thread: row.thread(1, 2, 3)?, waker, cpu: row.cpu(5)?, new: kind == 114 }
        }
        491 => RecordKind::Migrate { thread: row.thread(1, 2, 3)?, from: row.cpu(4)?, to: row.cpu(5)? },
        235 => RecordKind::Fork {
            parent: nameless(current),
            child: row.thread(2, 1, 0)?,
            own_process: Some(row.number(3) & CLONE_THREAD == 0),
        },
        239 => {
            RecordKind::Fork { parent: row.thread(1, 2, 0)?, child: row.thread(3, 4, 0)?, own_process: None }
        }
        238 => RecordKind::Exit { thread: row.thread(1, 2, 4)? },
        _ => RecordKind::Rename { thread: row.thread(3, 1, 0)? },
    })
}

/// Reads the columns of a bundle: switches without the task before, and wakeups. `None` if their lengths differ, if
/// they are too long, or refer to a missing name.
fn compact(message: &[u8], cpu: u32, bundle: &mut Vec<SchedRecord>, states: &mut States) -> Option<()> {
    let mut names = Vec::new();
    let mut columns: [Vec<u64>; 13] = Default::default();
    for (field, value) in Fields::of(message) {
        match field {
            5 => names.push(Comm::of(value.bytes())),
            1..=12 => {
                let column = &mut columns[field as usize];
                column.extend(value.numbers().take(MOST_ROWS + 1 - column.len()));
            }
            _ => {}
        }
        if names.len() > MOST_ROWS || columns.iter().any(|column| column.len() > MOST_ROWS) {
            return None;
        }
    }
    let even = |of: &[usize]| of.iter().all(|at| columns[*at].len() == columns[of[0]].len());
    let flags_told = !columns[12].is_empty();
    if !even(&[1, 2, 3, 4, 6]) || !even(&[7, 8, 9, 10, 11]) || (flags_told && !even(&[7, 12])) {
        return None;
    }
    let thread = |tid: u64, name: u64, prio: u64| {
        let tid = u32::try_from(tid).ok().filter(|tid| *tid < MAX_THREADS)?;
        let comm = *names.get(usize::try_from(name).ok()?)?;
        Some(Thread { tid, comm, prio: Some(prio as i32) })
    };
    let mut at_ns = 0_u64;
    #[allow(clippy::needless_range_loop)] // A row is the values of all columns at its index.
    for nth in 0..columns[1].len() {
        let of = |column: usize| columns[column][nth];
        at_ns = at_ns.wrapping_add(of(1));
        let next = thread(of(3), of(6), of(4))?;
        let what = RecordKind::Switch { prev: nameless(NOT_TOLD), next, why: states.ended_by(of(2)) };
        bundle.push(SchedRecord { at_ns, cpu, current: 0, process: UNKNOWN_PROCESS, what });
    }
    let mut at_ns = 0_u64;
    #[allow(clippy::needless_range_loop)] // A row is the values of all columns at its index.
    for nth in 0..columns[7].len() {
        let of = |column: usize| columns[column][nth];
        at_ns = at_ns.wrapping_add(of(7));
        let woken = thread(of(8), of(11), of(10))?;
        let target = u32::try_from(of(9)).ok().filter(|cpu| *cpu < MAX_CPUS)?;
        // Columns don't report the waker: it is the running thread, known from the switches before.
        let irq = flags_told && of(12) & IN_INTERRUPT != 0;
        let waker = nameless(if irq { 0 } else { NOT_TOLD });
        let what = RecordKind::Waking { thread: woken, waker, cpu: target };
        bundle.push(SchedRecord { at_ns, cpu, current: 0, process: UNKNOWN_PROCESS, what });
    }
    Some(())
}

/// The length of the next packet; `None` if the file ends before.
fn length(from: &mut impl Read) -> Result<Option<u64>> {
    let mut bytes = Vec::with_capacity(10);
    loop {
        let mut byte = [0];
        if fill(from, &mut byte)? == 0 {
            return Ok(None);
        }
        bytes.push(byte[0]);
        if byte[0] & 0x80 == 0 || bytes.len() == 10 {
            return Ok(Some(varint(&mut bytes.as_slice()).unwrap_or(u64::MAX)));
        }
    }
}

/// Fills the buffer until it is full or the input ends.
fn fill(from: &mut impl Read, buffer: &mut [u8]) -> Result<usize> {
    let mut held = 0;
    while held < buffer.len() {
        match from.read(&mut buffer[held..]) {
            Ok(0) => break,
            Ok(n) => held += n,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::machine(format!("the trace can't be read: {e}"))),
        }
    }
    Ok(held)
}
