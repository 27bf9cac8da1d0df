//! Reads a recording of any form, from a file or a pipe.

use crate::binary;
use crate::ctf;
use crate::form::{Form, unknown};
use crate::states::States;
use crate::task_table::Audience;
use crate::text::{self, Headings, Line, Lines, babeltrace, tools};
use crate::unpack::Packing;
use crate::{Imported, Importer};
use schedlab_base::{Error, Ns, Result, Spot, input};
use schedlab_trace::{Window, Within};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Bytes that are read to recognise a file's form.
const BEGIN: usize = 1 << 16;
/// A text without a record in this many lines is not a recording.
const FOREIGN_LINES: u64 = 100_000;
/// The deepest nesting of packings.
const MOST_LAYERS: u32 = 3;
/// The longest form that is unpacked to a file.
const MOST_UNPACKED: u64 = 32 << 30;

#[derive(Clone, Debug)]
pub struct Recording {
    /// The file's path; `-` is standard input.
    pub path: PathBuf,
    /// The form; `None`: recognise it.
    pub form: Option<Form>,
    /// The release of the kernel, for recordings that may lack it: before 4.14 the bits of a task's state have other
    /// meanings.
    pub kernel: Option<String>,
    /// Whether to compute a fingerprint of its bytes.
    pub hashed: bool,
}

impl Recording {
    /// The file of a path, whose form is to be recognised.
    pub fn at(path: &Path) -> Recording {
        Recording { path: path.to_owned(), form: None, kernel: None, hashed: false }
    }
    fn is_piped(&self) -> bool {
        self.path.as_os_str() == "-"
    }
    fn io(&self, e: &io::Error) -> Error {
        match e.kind() {
            io::ErrorKind::InvalidData => Error::input(e.to_string()).help("copy or record it anew"),
            _ => Error::io(&self.path, "read", e),
        }
    }
}

/// Reads a recording and gives the audience its events. A compressed file is unpacked, and has the fingerprint of its
/// unpacked bytes.
///
/// # Errors
/// When it can't be read, or holds no records of the scheduler, with the place of the error.
pub fn read(recording: &Recording, audience: &mut dyn Audience) -> Result<Imported> {
    read_unpacked(recording, audience).map_err(|e| e.at(Spot::file(&recording.path)))
}

/// The form of a file or folder that is a recording; `None` if it shows no sign of one. Pipes are not read.
pub fn form_at(path: &Path) -> Option<Form> {
    if path.is_dir() {
        return ctf::is_trace(path).then_some(Form::Ctf);
    }
    let recording = Some(Recording::at(path)).filter(|_| path.is_file())?;
    let Unpacked { begin, .. } = unpacked(&recording).ok()?;
    // Any text might be ftrace's; a record in it shows that it is.
    let is_record = |line: &[u8]| text::is_perf(line).is_some();
    Form::of(&begin).ok().filter(|f| *f != Form::Ftrace || begin.split(|b| *b == b'\n').any(is_record))
}

/// The error for a recording given where a run was wanted.
pub fn not_a_run(path: &Path, form: Form) -> Error {
    let name = path.display();
    Error::input(format!("{name} is a recording ({}) and not a run", form.name()))
        .help(format!("'schedlab import {name}' makes a run of it"))
}

struct Unpacked {
    begin: Vec<u8>,
    from: Box<dyn Read>,
    /// Number of nested packings.
    layers: u32,
    /// Set when a packed stream has ended too early.
    cut: Rc<Cell<bool>>,
}

fn unpacked(recording: &Recording) -> Result<Unpacked> {
    let mut from: Box<dyn Read> =
        if recording.is_piped() { Box::new(io::stdin()) } else { Box::new(input::open(&recording.path)?) };
    let mut begin = peek(&mut from, recording)?;
    let (cut, mut layers) = (Rc::new(Cell::new(false)), 0);
    while let Some(packing) = Packing::of(&begin).filter(|_| layers < MOST_LAYERS) {
        let whole = Box::new(io::Cursor::new(begin).chain(from));
        from = packing.unpacked(whole, Rc::clone(&cut)).map_err(|e| recording.io(&e))?;
        begin = peek(&mut from, recording)?;
        layers += 1;
        if begin.is_empty() {
            return Err(Error::input(format!(
                "the file is compressed by {}, and empty or cut",
                packing.name()
            ))
            .help("copy or record it anew"));
        }
    }
    Ok(Unpacked { begin, from, layers, cut })
}

fn read_unpacked(recording: &Recording, audience: &mut dyn Audience) -> Result<Imported> {
    if recording.path.is_dir() && recording.form.is_none_or(|form| form == Form::Ctf) {
        return read_ctf(&recording.path, recording, audience);
    }
    let Unpacked { begin, from, layers, cut } = unpacked(recording)?;
    let form = recording.form.map_or_else(|| Form::of(&begin), Ok)?;
    let whole = io::Cursor::new(begin).chain(from);
    let mut told = match form {
        Form::Ftrace | Form::PerfScript | Form::Babeltrace | Form::Perfetto => {
            let mut whole = Hashed { from: whole, hash: recording.hashed.then(Fingerprint::default) };
            let told = match form {
                Form::Perfetto => binary::perfetto(&mut whole, audience)?,
                Form::Babeltrace => read_babeltrace(&mut whole, audience, recording)?,
                _ => read_text(&mut whole, audience, recording)?,
            };
            Imported { fingerprint: whole.hash.as_ref().map_or(0, Fingerprint::finish), ..told }
        }
        // A file of a trace means its whole folder.
        Form::Ctf => match recording.path.parent().filter(|_| layers == 0 && !recording.is_piped()) {
            Some(folder) if folder.as_os_str().is_empty() => read_ctf(Path::new("."), recording, audience)?,
            Some(folder) => read_ctf(folder, recording, audience)?,
            None => return Err(Error::input("a trace of the form ctf is a folder").help("name the folder")),
        },
        other if layers > 0 => binary(other, spooled(whole, recording)?, recording, audience)?,
        other => binary(other, file(recording, other)?, recording, audience)?,
    };
    told.losses.cut |= cut.get();
    Ok(Imported { form: Some(form), ..told })
}

/// The first bytes of the input.
fn peek(from: &mut impl Read, recording: &Recording) -> Result<Vec<u8>> {
    let mut begin = vec![0; BEGIN];
    let mut held = 0;
    while held < BEGIN {
        match from.read(&mut begin[held..]) {
            Ok(0) => break,
            Ok(n) => held += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(recording.io(&e)),
        }
        // A pipe that pauses has shown enough after these lines.
        if recording.is_piped() && memchr::memchr_iter(b'\n', &begin[..held]).count() > 16 {
            break;
        }
    }
    begin.truncate(held);
    Ok(begin)
}

/// Reads a recording for its figures, or a part of it. With `moved`, times count from the part's beginning.
///
/// # Errors
/// As [`read`], when it has no switches, and when it ends before the part begins.
pub fn read_part(
    recording: &Recording,
    window: Window,
    moved: bool,
    audience: &mut dyn Audience,
) -> Result<Imported> {
    let checked = |imported: Imported| {
        let checked = imported.kinds.check(imported.records);
        checked.map(|()| imported).map_err(|e| e.at(Spot::file(&recording.path)))
    };
    if window.is_all() {
        return read(recording, audience).and_then(checked);
    }
    let within = Within::new(window, audience);
    let mut within = if moved { within.moved() } else { within };
    let mut imported = read(recording, &mut within).and_then(checked)?;
    let window = window.within(imported.cast.end).map_err(|e| e.at(Spot::file(&recording.path)))?;
    let opened = if moved { window.from } else { Ns::ZERO };
    imported.cast.end = window.until.since(opened);
    imported.opened_ns = imported.opened_ns.saturating_add(opened.0);
    // A part has its own fingerprint.
    if recording.hashed {
        imported.fingerprint = of_part(imported.fingerprint, window);
    }
    Ok(imported)
}

/// The fingerprint of a part of a recording that has the fingerprint `whole`.
fn of_part(whole: u64, part: Window) -> u64 {
    let mut hash = Fingerprint::default();
    [whole, part.from.0, part.until.0].iter().for_each(|n| hash.take(&n.to_le_bytes()));
    hash.finish()
}

/// Reads a trace that is a folder; its fingerprint is computed from its files.
fn read_ctf(folder: &Path, recording: &Recording, audience: &mut dyn Audience) -> Result<Imported> {
    let (told, files) = ctf::read(folder, audience)?;
    let mut fingerprint = Fingerprint::default();
    for path in files.iter().filter(|_| recording.hashed) {
        let mut file = input::open(path)?;
        let of_file = self::fingerprint(&mut file).map_err(|e| Error::io(path, "read", &e))?;
        fingerprint.take(&of_file.to_le_bytes());
    }
    let fingerprint = if recording.hashed { fingerprint.finish() } else { 0 };
    Ok(Imported { form: Some(Form::Ctf), fingerprint, ..told })
}

/// The file of a form that is read at random offsets.
fn file(recording: &Recording, form: Form) -> Result<File> {
    if recording.is_piped() || !recording.path.is_file() {
        return Err(Error::input(format!(
            "a recording of the form {} can't be read from a pipe",
            form.name()
        ))
        .help("save it to a file, or pipe its text: perf script, trace-cmd report"));
    }
    File::open(&recording.path).map_err(|e| recording.io(&e))
}

/// Unpacks to a file without a name, for forms that are read at random offsets.
fn spooled(from: impl Read, recording: &Recording) -> Result<File> {
    let folder = std::env::temp_dir();
    let failed = |e: &io::Error| Error::io(&folder, "unpack the recording in", e);
    let mut file = nameless(&folder).map_err(|e| failed(&e))?;
    let copied = io::copy(&mut from.take(MOST_UNPACKED + 1), &mut file).map_err(|e| match e.kind() {
        io::ErrorKind::InvalidData => recording.io(&e),
        _ => failed(&e),
    })?;
    if copied > MOST_UNPACKED {
        return Err(Error::input(format!(
            "unpacked, the recording is longer than {} GB",
            MOST_UNPACKED >> 30
        ))
        .help("unpack it to a file"));
    }
    Ok(file)
}

/// A new file in a folder, deleted when it is closed.
fn nameless(folder: &Path) -> io::Result<File> {
    let mut n = 0;
    loop {
        let path = folder.join(format!("schedlab-unpacked-{}-{n}", std::process::id()));
        match File::options().read(true).write(true).create_new(true).open(&path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => n += 1,
            Err(e) => return Err(e),
            Ok(file) => return std::fs::remove_file(&path).map(|()| file),
        }
    }
}

fn binary(form: Form, file: File, recording: &Recording, audience: &mut dyn Audience) -> Result<Imported> {
    let again = recording.hashed.then(|| file.try_clone()).transpose().map_err(|e| recording.io(&e))?;
    let told = match form {
        Form::TraceDat => binary::trace_dat(file, &recording.path, audience)?,
        _ => binary::perf_data(file, &recording.path, audience)?,
    };
    let Some(mut file) = again else { return Ok(told) };
    let fingerprint = file.rewind().and_then(|()| fingerprint(&mut file)).map_err(|e| recording.io(&e))?;
    Ok(Imported { fingerprint, ..told })
}

fn read_text(from: impl Read, audience: &mut dyn Audience, recording: &Recording) -> Result<Imported> {
    let mut lines = Lines::new(from);
    let mut importer = Importer::new(audience);
    let mut headings = Headings::default();
    let mut states = States::of_release(recording.kernel.as_deref().unwrap_or_default());
    let (mut others, mut foreign) = (0_u64, 0_u64);
    let mut files = Files::default();
    loop {
        let at = lines.number + 1;
        let Some(line) = lines.next_line().map_err(|e| recording.io(&e))? else { break };
        let mut told = text::line(line, &mut states);
        // The last line ends with a newline, unless writing stopped within it.
        if lines.cut {
            importer.losses.cut = text::is_cut(lines.last(), &told) && importer.records() + others > 0;
            if importer.losses.cut {
                told = Line::Other;
            }
        }
        match told {
            Line::Record(told) => importer.record(told),
            Line::Lost { cpu, count } => {
                importer.lost(cpu, count);
                text::note(&mut importer.losses, count);
            }
            Line::Other => others += 1,
            Line::Unreadable => importer.losses.unreadable(at),
            Line::OfFile => files.note(lines.last())?,
            Line::Foreign => {
                headings.read(lines.last());
                if let Some(release) = headings.news() {
                    states.learn(release);
                }
                foreign += 1;
                if importer.records() + others == 0 {
                    if let Some(tool) = tools::that_printed(lines.last()) {
                        return Err(tool.error());
                    }
                    if foreign >= FOREIGN_LINES {
                        return Err(unknown());
                    }
                }
            }
        }
    }
    files.check()?;
    importer.check_clock()?;
    importer.losses.overwritten = headings.overwritten;
    let (records, unreadable) = (importer.records(), importer.losses.first_unreadable);
    match (records, unreadable, others) {
        (0, 0, n) if headings.tracer.is_some() => Err(of_a_tracer(&headings, n)),
        (0, 0, 0) if headings.is_ftrace => Err(Error::input("no line of this trace is a record that can be read").help(OPTIONS)),
        (0, 0, 0) => Err(unknown()),
        (0, 0, n) => Err(Error::input(format!("the recording has {}, and none of the scheduler", schedlab_base::counted(n, "event")))
            .help("record sched_switch, sched_waking and their like: perf sched record, or trace-cmd record -e sched")),
        (0, line, _) => Err(Error::input(format!("line {line} is an event of the scheduler that can't be read"))
            .help(format!("its form is neither the kernel's nor libtraceevent's; {OPTIONS}"))),
        _ => Ok(Imported { others, ..importer.finish(headings.cpus, headings.release) }),
    }
}

/// The remedy for records that can't be read.
const OPTIONS: &str = "tracefs shows such records with noraw, nohex, nobin and nofields in trace_options, and with a clock of time \
                       in trace_clock: local, global, mono, boot or tai";

/// The error for text of a tracer that records no tracepoints but functions, or the latency of one wakeup.
fn of_a_tracer(headings: &Headings, events: u64) -> Error {
    let tracer = schedlab_base::printable::name(headings.tracer.as_deref().unwrap_or_default()).into_owned();
    let text = format!(
        "the trace is of the tracer '{tracer}' and has {}, none of them a tracepoint of the scheduler",
        schedlab_base::counted(events, "line")
    );
    Error::input(text).help(
        "such a tracer keeps one longest delay, or functions: record events, with its tracer or without \
         (trace-cmd record -e sched, or echo 1 > events/sched/enable); of its figures, \
         'schedlab compare --metric-regex NAME[UNIT]=REGEX' reads one",
    )
}

/// The files or buffers that lines of one text name.
#[derive(Default)]
struct Files {
    names: std::collections::BTreeSet<Vec<u8>>,
    lines: u64,
}

impl Files {
    /// After this many lines all names have probably been seen.
    const ENOUGH: u64 = 10_000;
    const MOST_NAMES: usize = 16;

    fn note(&mut self, line: &[u8]) -> Result<()> {
        self.lines += 1;
        if let Some(name) = text::file_of(line).filter(|_| self.names.len() < Self::MOST_NAMES) {
            self.names.insert(name.to_owned());
        }
        if self.lines < Self::ENOUGH { Ok(()) } else { self.check() }
    }

    /// Refuses a text with lines of several files: CPU 1 of one machine is not CPU 1 of the other.
    fn check(&self) -> Result<()> {
        if self.lines == 0 {
            return Ok(());
        }
        let shown =
            |name: &Vec<u8>| schedlab_base::printable::name(&String::from_utf8_lossy(name)).into_owned();
        let names: Vec<String> = self.names.iter().map(shown).collect();
        let first = names.first().cloned().unwrap_or_default();
        let text = format!(
            "the lines begin with the name of the file or buffer that they are from ({}): CPUs and tasks of several are \
             not the same ones, and one text can't hold them apart",
            names.join(", ")
        );
        Err(Error::input(text).help(format!(
            "read each for itself: schedlab latency {first}, or 'trace-cmd report -i {first}' with one -i; of this text, \
             sed -n 's/^ *{first}: //p' FILE | schedlab latency -"
        )))
    }
}

fn read_babeltrace(from: impl Read, audience: &mut dyn Audience, recording: &Recording) -> Result<Imported> {
    let mut lines = Lines::new(from);
    let mut importer = Importer::new(audience);
    let states = States::of_release(recording.kernel.as_deref().unwrap_or_default());
    let mut reader = babeltrace::Reader::new(states);
    loop {
        let at = lines.number + 1;
        if lines.next_line().map_err(|e| recording.io(&e))?.is_none() {
            break;
        }
        reader.line(lines.last(), at, lines.cut, &mut importer);
    }
    babeltrace::check(&reader, importer.records(), importer.losses.first_unreadable)?;
    Ok(Imported { others: reader.others, ..importer.finish(None, None) })
}

/// A file whose bytes are hashed as they are read.
struct Hashed<R> {
    from: R,
    hash: Option<Fingerprint>,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.from.read(buffer)?;
        if let Some(hash) = &mut self.hash {
            hash.take(&buffer[..n]);
        }
        Ok(n)
    }
}

/// A hash of bytes, independent of how they are split: words of 8 bytes, multiplied and folded.
#[derive(Default)]
pub struct Fingerprint {
    state: u64,
    /// Bytes of an incomplete word.
    rest: [u8; 8],
    held: usize,
    length: u64,
}

impl Fingerprint {
    fn word(&mut self, word: u64) {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let product = u128::from(self.state ^ word ^ ODD) * u128::from(ODD | 1 << 32);
        self.state = (product as u64 ^ (product >> 64) as u64).rotate_left(23) ^ word;
    }
    pub fn take(&mut self, mut bytes: &[u8]) {
        self.length += bytes.len() as u64;
        if self.held > 0 {
            let n = bytes.len().min(8 - self.held);
            self.rest[self.held..self.held + n].copy_from_slice(&bytes[..n]);
            self.held += n;
            bytes = &bytes[n..];
            if self.held < 8 {
                return;
            }
            self.held = 0;
            self.word(u64::from_le_bytes(self.rest));
        }
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|w| self.word(u64::from_le_bytes(*w)));
        self.rest[..rest.len()].copy_from_slice(rest);
        self.held = rest.len();
    }
    /// The hash of all bytes.
    pub fn finish(&self) -> u64 {
        let mut all = Fingerprint { state: self.state, rest: [0; 8], held: 0, length: 0 };
        let mut last = [0; 8];
        last[..self.held].copy_from_slice(&self.rest[..self.held]);
        all.word(u64::from_le_bytes(last));
        all.word(self.length);
        all.state
    }
}

/// The fingerprint of a whole file.
///
/// # Errors
/// When it can't be read.
pub fn fingerprint(file: &mut File) -> io::Result<u64> {
    let mut hash = Fingerprint::default();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hash.finish()),
            n => hash.take(&buffer[..n]),
        }
    }
}
