//! Reads the heads of the latency format: `bash-1234 3d..2. 12345us+: `, with a time in seconds from `trace-cmd report
//! -l`, and its long form (options latency-format and verbose): `bash 1234 3 9 00000001 00000000 [0596bacc] 115.446ms
//! (+0.034ms): `, with flags as numbers.
//!
//! Times are us since the trace began, so all events within a us have the same time. Mirrors `trace_print_lat_context`
//! of kernel/trace/trace_output.c, 2.6.27 to 7.3.

use super::head::{Head, serves_interrupt, thread, time};
use super::number::{Cursor, number};
use crate::sched_record::{IN_INTERRUPT, UNKNOWN_PROCESS};

/// Marks of long delays, which follow a time (`trace_find_mark`).
const MARKS: &[u8] = b"!#+*@$ ";

/// The head of a line in this format.
pub fn head(line: &[u8]) -> Option<Head> {
    short(line).or_else(|| long(line))
}

/// The number at the end of the text before `end`, and where it begins.
fn number_before(line: &[u8], end: usize) -> Option<(u64, usize)> {
    let digits = line[..end].iter().rev().take_while(|b| b.is_ascii_digit()).count();
    Some((number(&line[end - digits..end])?.0, end - digits))
}

/// The form with letters, read from its colon backwards: the time, the CPU with the flags, the thread.
fn short(line: &[u8]) -> Option<Head> {
    memchr::memmem::find_iter(line, b": ").take(4).find_map(|colon| {
        let text = line[..colon].trim_ascii_end();
        let start = memchr::memrchr(b' ', text)? + 1;
        let at_ns = short_time(&line[start..=colon])?;
        let text = line[..start].trim_ascii_end();
        let word = memchr::memrchr(b' ', text)? + 1;
        let mut at = Cursor(&text[word..]);
        let cpu = u32::try_from(at.number()?).ok()?;
        let flags = at.0;
        let is_flag = |b: &u8| b.is_ascii_alphanumeric() || *b == b'.' || *b == b'#';
        if !(4..=8).contains(&flags.len()) || !flags.iter().all(is_flag) {
            return None;
        }
        let (tid, dash) = number_before(line, text[..word].trim_ascii_end().len())?;
        let comm_end = dash.checked_sub(1).filter(|at| line[*at] == b'-')?;
        Some(Head {
            tid: thread(tid),
            process: UNKNOWN_PROCESS,
            cpu,
            in_interrupt: serves_interrupt(flags),
            at_ns,
            comm_end,
            is_cut: true,
            rest: colon + 1,
        })
    })
}

/// `12345us+:`, `12345us :` or `12.345678:`.
fn short_time(text: &[u8]) -> Option<u64> {
    let mut at = Cursor(text);
    if let Some(at_ns) = time(&mut at) {
        return at.0.is_empty().then_some(at_ns);
    }
    let mut at = Cursor(text);
    let us = number(at.0).and_then(|_| at.number())?;
    if !at.past(b"us") {
        return None;
    }
    let rest = at.0.strip_suffix(b":")?;
    (rest.len() <= 1 && rest.iter().all(|b| MARKS.contains(b))).then_some(())?;
    us.checked_mul(1000)
}

/// The form with numbers: the thread, the CPU, flags and depth, the record's number, two times.
fn long(line: &[u8]) -> Option<Head> {
    let open = memchr::memchr(b'[', line)?;
    let mut at = Cursor(&line[open + 1..]);
    at.take(at.0.iter().position(|b| !b.is_ascii_hexdigit())?);
    if !at.past(b"] ") {
        return None;
    }
    let (ms, _) = number(at.0)?;
    at.number();
    if !at.past(b".") || number(at.0)?.1 != 3 {
        return None;
    }
    let us = at.number()?;
    if !at.past(b"ms (+") {
        return None;
    }
    at.take(memchr::memchr(b')', at.0)?);
    if !at.past(b"):") {
        return None;
    }
    let rest = line.len() - at.0.len();
    let before = line[..open].trim_ascii_end();
    // Read from the right: the record's number and the depth of preemption, both hexadecimal; flags, CPU, thread.
    let mut words = before.rsplit(|b| *b == b' ').filter(|w| !w.is_empty());
    let decimal = |w: Option<&[u8]>| w.and_then(|w| number(w).filter(|(_, n)| *n == w.len())).map(|(n, _)| n);
    let is_hex = |w: Option<&[u8]>| w.is_some_and(|w| w.iter().all(u8::is_ascii_hexdigit));
    if !is_hex(words.next()) || !is_hex(words.next()) {
        return None;
    }
    let (flags, cpu) = (decimal(words.next())?, decimal(words.next())?);
    let tid_word = words.next()?;
    let (tid, taken) = number(tid_word)?;
    let comm_end = tid_word.as_ptr() as usize - line.as_ptr() as usize;
    (taken == tid_word.len()).then_some(())?;
    Some(Head {
        tid: thread(tid),
        process: UNKNOWN_PROCESS,
        cpu: u32::try_from(cpu).ok()?,
        in_interrupt: flags & IN_INTERRUPT != 0,
        at_ns: ms.checked_mul(1_000_000)?.checked_add(us * 1000)?,
        comm_end,
        is_cut: false,
        rest,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(line: &str) -> Option<(u32, u32, bool, u64, String, String)> {
        let line = line.as_bytes();
        head(line).map(|h| {
            let text = |b: &[u8]| String::from_utf8_lossy(b.trim_ascii()).into_owned();
            (h.tid, h.cpu, h.in_interrupt, h.at_ns, text(h.comm(line)), text(&line[h.rest..]))
        })
    }

    #[test]
    fn both_forms_are_read() {
        let of = |tid, cpu, interrupt, at_ns, comm: &str| {
            Some((tid, cpu, interrupt, at_ns, comm.into(), "x: y".into()))
        };
        for (line, want) in [
            ("  <idle>-0         0d.s3. 116116us+: x: y", of(0, 0, true, 116_116_000, "<idle>")),
            ("  a-b c-12        13dNh3. 9000us : x: y", of(12, 13, true, 9_000_000, "a-b c")),
            ("hackbenc-350     2d.s2.    69.753124: x: y", of(350, 2, true, 69_753_124_000, "")),
            ("bash-7 0.....  4us: x: y", of(7, 0, false, 4_000, "bash")),
            (
                "          a 1 b      15   3 9 00000003 00000025 [05970aba] 135.908ms (+0.070ms): x: y",
                of(15, 3, true, 135_908_000, "a 1 b"),
            ),
        ] {
            assert_eq!(told(line), want, "{line}");
        }
    }

    #[test]
    fn heads_of_other_forms_are_not_taken_for_it() {
        for line in [
            "",
            "# tracer: nop",
            "a-1 0d.h. 12: x",
            "a-1 d.h1. 12us: x",
            "a 1 0d.h1. 12us: x",
            "a-1 0d.h1. 12us?: x",
            "a-1 0d.h1. 99999999999999999999us: x",
            "[05970aba] 135.908ms (+0.070ms): x",
            "a 1 0 9 0000000g 00000025 [05970aba] 135.908ms (+0.070ms): x",
            "CPU: 3 -1us: ",
        ] {
            assert_eq!(told(line), None, "{line}");
        }
    }
}
