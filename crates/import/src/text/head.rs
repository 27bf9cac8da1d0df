//! The head of a line: `bash-1234 (1200) [003] d..2. 12.345678: ` of ftrace, `bash 1200/1234 [003] 12.345678: ` of
//! perf; `bash-1234 3d..2. 12345us+: ` of ftrace's option latency-format and of `trace-cmd report -l`.
//!
//! A task's name may hold spaces, dashes and brackets. So the head is found from its middle: a number in brackets,
//! perhaps letters (flags), a time and a colon. Name and numbers stand before the bracket. The latency format has no
//! bracket: its head is in [`latency`](super::latency).

use super::number::{Cursor, number};
use crate::sched_record::{MAX_THREADS, UNKNOWN_PROCESS};

/// The longest thread name, bytes ("<...>" stands for an unknown one).
const LONGEST_COMM: usize = 15;
/// The longest thread name in the latency format, bytes.
const SHORT_COMM: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The thread that ran; 0 for the idle task, or if unknown.
    pub tid: u32,
    /// Its process, or [`UNKNOWN_PROCESS`].
    pub process: u32,
    /// The CPU, also one beyond [`MAX_CPUS`](crate::sched_record::MAX_CPUS).
    pub cpu: u32,
    /// Whether the record was made in an interrupt; only ftrace reports it.
    pub in_interrupt: bool,
    pub at_ns: u64,
    /// Where the thread's name ends.
    pub(super) comm_end: usize,
    /// Whether the name may be cut: the latency format prints 8 bytes of it.
    pub(super) is_cut: bool,
    /// Where the event's name begins.
    pub rest: usize,
}

impl Head {
    #[inline]
    pub fn of(line: &[u8]) -> Option<Head> {
        memchr::memchr_iter(b'[', line).find_map(|bracket| Head::around(line, bracket))
    }

    /// The name of the thread that ran.
    pub fn comm<'a>(&self, line: &'a [u8]) -> &'a [u8] {
        let comm = line[..self.comm_end].trim_ascii();
        if self.is_cut && comm.len() >= SHORT_COMM { b"" } else { comm }
    }

    /// The name of the file or buffer, which `trace-cmd report` writes with a colon before the thread's name if it
    /// reads several. A thread's name alone is never that long.
    #[inline]
    pub fn file<'a>(&self, line: &'a [u8]) -> Option<&'a [u8]> {
        let before = line[..self.comm_end].trim_ascii();
        if before.len() <= LONGEST_COMM {
            return None;
        }
        memchr::memmem::find(before, b": ").map(|colon| &before[..colon])
    }

    /// Whether a blank and not a dash separates the thread's name from its number.
    pub fn is_apart(&self, line: &[u8]) -> bool {
        line.get(self.comm_end) != Some(&b'-')
    }

    /// The head whose CPU is in the bracket at this offset.
    #[inline]
    fn around(line: &[u8], bracket: usize) -> Option<Head> {
        let mut at = Cursor(&line[bracket + 1..]);
        let cpu = u32::try_from(at.number()?).ok()?;
        if !at.past(b"]") {
            return None;
        }
        // `trace-cmd report -R` of 3.3 writes flags as a number, "[003]-0x2d": 8 is a hard interrupt, 16 a soft one.
        let mut in_interrupt = false;
        if at.past(b"-0x") {
            let digits = at.take(at.0.iter().position(|b| !b.is_ascii_hexdigit())?);
            in_interrupt = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()? & 0x18 != 0;
        }
        if !at.0.first().is_some_and(u8::is_ascii_whitespace) {
            return None;
        }
        at.0 = at.0.trim_ascii_start();
        if at.0.first().is_some_and(|b| !b.is_ascii_digit()) {
            in_interrupt = serves_interrupt(at.take(at.0.iter().position(|b| *b == b' ')?));
            at.0 = at.0.trim_ascii_start();
        }
        let at_ns = time(&mut at)?;
        let (comm_end, tid, process) = before(&line[..bracket])?;
        // `trace-cmd report --ts-diff` prints the time since the record before: "(+236)".
        if let Some(behind) = at.0.trim_ascii_start().strip_prefix(b"(+") {
            let end = behind.iter().position(|b| !b.is_ascii_digit())?;
            at.0 = behind[end..].strip_prefix(b")")?;
        }
        // perf may print a period.
        let behind = at.0.trim_ascii_start();
        if let Some((_, taken)) = number(behind)
            && behind.get(taken) == Some(&b' ')
        {
            at.0 = &behind[taken..];
        }
        let rest = line.len() - at.0.len();
        Some(Head { tid, process, cpu, in_interrupt, at_ns, comm_end, rest, is_cut: false })
    }
}

/// Whether flags say that an interrupt is served. They are: interrupts off, reschedule needed, hard or soft interrupt,
/// depth of preemption.
pub(super) fn serves_interrupt(flags: &[u8]) -> bool {
    flags.get(2).is_some_and(|b| b"hHsZz".contains(b))
}

/// Reads `12.345678:` or with more digits as ns; digits beyond the ninth are dropped.
#[inline]
pub(super) fn time(at: &mut Cursor<'_>) -> Option<u64> {
    let seconds = at.number()?;
    if !at.past(b".") {
        return None;
    }
    let digits = at.0;
    let (fraction, n) = number(digits.get(..digits.len().min(18))?)?;
    at.take(n);
    if !at.past(b":") {
        return None;
    }
    const TENS: [u64; 10] =
        [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];
    let fraction = if n <= 9 { fraction * TENS[9 - n] } else { fraction / TENS[n - 9] };
    seconds.checked_mul(1_000_000_000)?.checked_add(fraction)
}

/// Reads the text before the CPU: the end of the name, the thread, its process.
#[inline]
fn before(text: &[u8]) -> Option<(usize, u32, u32)> {
    let mut text = text.trim_ascii_end();
    let mut process = UNKNOWN_PROCESS;
    if let Some(inner) = text.strip_suffix(b")") {
        let open = memchr::memrchr(b'(', inner)?;
        // "-----" if the process is unknown.
        process = number(inner[open + 1..].trim_ascii()).map_or(UNKNOWN_PROCESS, |(n, _)| thread(n));
        text = inner[..open].trim_ascii_end();
    }
    let digits = text.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let start = text.len() - digits;
    let (tid, _) = number(&text[start..])?;
    let tid = thread(tid);
    let before = &text[..start];
    match before.last()? {
        // perf prints "-1" for an unknown thread.
        b'-' if matches!(before.len(), 1) || before.ends_with(b" -") => Some((start - 1, 0, UNKNOWN_PROCESS)),
        b'-' => Some((start - 1, tid, process)),
        b'/' => {
            let before = &before[..start - 1];
            let digits = before.iter().rev().take_while(|b| b.is_ascii_digit()).count();
            let start = before.len() - digits;
            let process = number(&before[start..]).map_or(UNKNOWN_PROCESS, |(n, _)| thread(n));
            Some((start, tid, process))
        }
        b' ' | b'\t' => Some((start, tid, process)),
        _ => None,
    }
}

/// A thread's number; 0 for one beyond the kernel's limit.
pub(super) fn thread(n: u64) -> u32 {
    u32::try_from(n).ok().filter(|n| *n < MAX_THREADS).unwrap_or(0)
}
