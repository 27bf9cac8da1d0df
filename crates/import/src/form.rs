//! The formats of recordings, and how a file is recognised.

use schedlab_base::{Error, Result};

/// A format of recordings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Text of tracefs or of `trace-cmd report`.
    Ftrace,
    PerfScript,
    Babeltrace,
    /// A file of trace-cmd.
    TraceDat,
    PerfData,
    /// Perfetto's protobuf.
    Perfetto,
    /// A folder of the Common Trace Format, as LTTng's kernel tracer writes it.
    Ctf,
}

impl Form {
    pub const ALL: [Form; 7] = [
        Form::Ftrace,
        Form::PerfScript,
        Form::Babeltrace,
        Form::TraceDat,
        Form::PerfData,
        Form::Perfetto,
        Form::Ctf,
    ];

    /// The word on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Form::Ftrace => "ftrace",
            Form::PerfScript => "perf-script",
            Form::Babeltrace => "babeltrace",
            Form::TraceDat => "trace-dat",
            Form::PerfData => "perf-data",
            Form::Perfetto => "perfetto",
            Form::Ctf => "ctf",
        }
    }

    /// Parses a form's word.
    ///
    /// # Errors
    /// When the word is unknown.
    pub fn parse(word: &str) -> Result<Form> {
        let found = Form::ALL.into_iter().find(|f| f.name() == word);
        found.ok_or_else(|| Error::unknown("form of recordings", word, Form::ALL.map(Form::name)))
    }

    /// The form of an unpacked file, by its first bytes.
    ///
    /// # Errors
    /// When its form is not known.
    pub fn of(begin: &[u8]) -> Result<Form> {
        let compressed = |with: &str, how: &str| {
            Err(Error::input(format!("the file is compressed by {with}")).help(format!(
                "{how} FILE | schedlab import - reads text; other forms must be unpacked to a file"
            )))
        };
        match begin {
            [] => Err(Error::input("the file is empty")),
            [0x17, 0x08, 0x44, b't', b'r', b'a', b'c', b'i', b'n', b'g', ..] => Ok(Form::TraceDat),
            [b'P', b'E', b'R', b'F', b'I', b'L', b'E', b'2', ..]
            | [b'2', b'E', b'L', b'I', b'F', b'R', b'E', b'P', ..] => Ok(Form::PerfData),
            [0x1f, 0x8b, ..] => compressed("gzip", "zcat"),
            [b'B', b'Z', b'h', ..] => compressed("bzip2", "bzcat"),
            [0xfd, b'7', b'z', b'X', b'Z', ..] => compressed("xz", "xzcat"),
            [b'/', b'*', b' ', b'C', b'T', b'F', b' ', ..] | [0x57, 0x1d, 0xd1, 0x75, ..] => Ok(Form::Ctf),
            [0xc1, 0x1f, 0xfc, 0xc1, ..] => Ok(Form::Ctf),
            _ if is_perfetto(begin) => Ok(Form::Perfetto),
            _ if begin.contains(&0) => Err(unknown()),
            _ if by_babeltrace(begin) => Ok(Form::Babeltrace),
            _ if by_perf(begin) => Ok(Form::PerfScript),
            _ => Ok(Form::Ftrace),
        }
    }
}

/// The error for a file of an unknown form.
pub(crate) fn unknown() -> Error {
    Error::input("the file is not a recording that is known")
        .help(
        "known are the text of tracefs' trace, of 'trace-cmd report', of 'perf script' and of babeltrace2, trace.dat, \
         perf.data and Perfetto's traces, and folders of CTF; the printed results of other tools are for \
         'schedlab compare A=FILE B=FILE', where --metric-regex 'NAME[UNIT]=REGEX' reads a figure out of any text",
    )
}

/// Whether the first record's thread number stands after a blank, as perf prints it.
fn by_perf(begin: &[u8]) -> bool {
    let lines = begin.split(|b| *b == b'\n');
    let mut records = lines.filter_map(super::text::is_perf);
    records.next().unwrap_or(false)
}

/// Whether one of the first lines is babeltrace's.
fn by_babeltrace(begin: &[u8]) -> bool {
    begin.split(|b| *b == b'\n').take(100).any(super::text::babeltrace::is_event)
}

/// Whether the bytes begin with a packet of a trace: field 1 and its length, and soon after bytes that no text has.
fn is_perfetto(begin: &[u8]) -> bool {
    let [0x0a, rest @ ..] = begin else { return false };
    let length = rest.iter().position(|b| b & 0x80 == 0);
    // A text that begins with an empty line also decodes as a field with a length.
    length.is_some_and(|n| n < 5) && begin.iter().take(64).any(|b| *b < 9 || *b > 0xf4)
}
