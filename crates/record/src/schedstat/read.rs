//! Reader of /proc/schedstat, layouts 15, 16 and 17, each with or without D001's `lb_sg_scan`.
//!
//! The number of a domain's columns shows whether `lb_sg_scan` is there. A file must be complete and consistent: a part
//! that is missing, repeated, too large or foreign is an error with its line. The text's length bounds the memory.

use super::check::{self, MAX_DOMAINS};
use super::counters::{BALANCE_ROWS, Balance, CPU_ROWS, CounterRow, CpuCounters, DOMAIN_ROWS};
use super::model::{CpuStat, DomainStat, IdleType, Layout, Schedstat, VERSIONS};
use schedlab_base::cpuset::MAX_CPUS;
use schedlab_base::{CpuId, CpuSet, Error, Result, Spot};
use std::path::Path;

/// Columns of a `cpu` line, including one that is always 0 and has no counter.
const CPU_COLUMNS: usize = CPU_ROWS.len() + 1;
/// Room for the words of a line of any layout.
const WORDS: usize = 64;
/// The index of that column.
pub(super) const CPU_ZERO: usize = 1;

/// The idle types in a layout's order: since 16 the busy one comes first.
pub(super) fn idle_order(version: u32) -> [IdleType; 3] {
    match version {
        15 => [IdleType::Idle, IdleType::Busy, IdleType::Newidle],
        _ => [IdleType::Busy, IdleType::Idle, IdleType::Newidle],
    }
}

/// The columns of one idle type.
pub(super) fn balance_rows(layout: Layout) -> impl Iterator<Item = &'static CounterRow<Balance>> {
    BALANCE_ROWS.iter().filter(move |r| layout.has(r.since))
}

/// Numbers of a domain line.
fn domain_columns(layout: Layout) -> usize {
    3 * balance_rows(layout).count() + DOMAIN_ROWS.len()
}

/// Reads a file's bytes. `file` is only for messages.
///
/// # Errors
/// When no kernel of these layouts prints such a file; the error names the line.
pub fn parse(file: &Path, bytes: &[u8]) -> Result<Schedstat> {
    let text = std::str::from_utf8(bytes).map_err(|_| foreign("it is not text").at(Spot::file(file)))?;
    let mut reader = Reader { file, lines: Vec::new(), next: 0 };
    if let Some(at) = text.find('\r') {
        return Err(Error::input("lines end in CR LF, as no kernel writes them")
            .help("take the carriage returns away: tr -d '\\r'")
            .at(Spot::at_offset(file, text, at)));
    }
    reader.lines = text.lines().collect();
    let stat = reader.file(text.ends_with('\n'))?;
    check::check(&stat).map_err(|e| e.at(Spot::file(file)))?;
    Ok(stat)
}

fn foreign(why: &str) -> Error {
    Error::input(format!("not a /proc/schedstat: {why}")).help("save one with: cat /proc/schedstat > FILE")
}

struct Reader<'a> {
    file: &'a Path,
    lines: Vec<&'a str>,
    /// The next line to read, from 0.
    next: usize,
}

impl<'a> Reader<'a> {
    fn file(&mut self, ends: bool) -> Result<Schedstat> {
        let first = Spot { file: self.file.to_owned(), line_column: Some((1, 9)) };
        let version = self.header("version").map_err(|e| e.at(self.spot(1)))?;
        let layout = Layout { version: known(version).map_err(|e| e.at(first))?, sg_scan: false };
        let timestamp = self.header("timestamp")?;
        let mut stat = Schedstat { layout, timestamp, cpus: Vec::new() };
        let mut sg_scan = None;
        while let Some(line) = self.lines.get(self.next) {
            self.line(line, &mut stat, &mut sg_scan).map_err(|e| e.at(self.spot(1)))?;
            self.next += 1;
        }
        let last = Spot { file: self.file.to_owned(), line_column: Some((self.lines.len().max(1), 1)) };
        if !ends {
            return Err(cut("the last line has no end").at(last));
        }
        if stat.cpus.is_empty() {
            return Err(cut("there is no CPU").at(last));
        }
        stat.layout.sg_scan = sg_scan.unwrap_or(false);
        Ok(stat)
    }

    fn spot(&self, column: usize) -> Spot {
        Spot { file: self.file.to_owned(), line_column: Some((self.next + 1, column)) }
    }

    /// Reads a line with a word and a number.
    fn header(&mut self, word: &str) -> Result<u64> {
        let line = self.lines.get(self.next).copied().unwrap_or_default();
        let rest = line.strip_prefix(word).and_then(|r| r.strip_prefix(' '));
        let number = rest.ok_or_else(|| foreign(&format!("line {} is not '{word} N'", self.next + 1)));
        let number = number.and_then(|r| number_of(r, 64)).map_err(|e| e.at(self.spot(1)))?;
        self.next += 1;
        Ok(number)
    }

    fn line(&self, line: &'a str, stat: &mut Schedstat, sg_scan: &mut Option<bool>) -> Result<()> {
        let mut words = Vec::with_capacity(WORDS);
        words.extend(line.split(' ').filter(|w| !w.is_empty()));
        let (name, words) = words.split_first().map_or(("", [].as_slice()), |(name, rest)| (*name, rest));
        if let Some(number) = numbered(name, "cpu") {
            let id = CpuId(index(number, MAX_CPUS as usize, name)?);
            match stat.cpus.last() {
                Some(before) if before.id == id => return Err(Error::input(format!("{id} is there twice"))),
                Some(before) if before.id > id => {
                    return Err(Error::input(format!("{id} comes after {}", before.id)));
                }
                _ => {}
            }
            let counters = cpu_counters(words)?;
            stat.cpus.push(CpuStat { id, counters, domains: Vec::new() });
            return Ok(());
        }
        let Some(number) = numbered(name, "domain") else {
            return Err(foreign(&format!("line {} is of no CPU and no domain", self.next + 1)));
        };
        let cpu =
            stat.cpus.last_mut().ok_or_else(|| Error::input(format!("{name} stands before any CPU")))?;
        let level = index(number, MAX_DOMAINS, name)? as usize;
        if level != cpu.domains.len() {
            let wanted = cpu.domains.len();
            return Err(Error::input(format!("{} has {name} where domain{wanted} is due", cpu.id)));
        }
        let domain = domain(words, stat.layout.version, sg_scan)
            .map_err(|e| e.context(format!("{name} of {}", cpu.id)))?;
        cpu.domains.push(domain);
        Ok(())
    }
}

fn cut(what: &str) -> Error {
    Error::input(format!("{what}: the file was cut short")).help("take it again")
}

fn known(version: u64) -> Result<u32> {
    VERSIONS.into_iter().find(|v| u64::from(*v) == version).ok_or_else(|| {
        let what = if version < 15 { "older" } else { "newer" };
        Error::input(format!("schedstat version {version} is {what} than what is known"))
            .help("versions 15, 16 and 17 are read")
    })
}

/// The digits after a word.
fn numbered<'a>(name: &'a str, word: &str) -> Option<&'a str> {
    name.strip_prefix(word).filter(|r| !r.is_empty() && r.bytes().all(|b| b.is_ascii_digit()))
}

fn index(digits: &str, below: usize, name: &str) -> Result<u32> {
    let number = digits.parse::<u32>().ok().filter(|n| (*n as usize) < below);
    number.ok_or_else(|| Error::input(format!("{name}: at most {} is read", below - 1)))
}

/// A decimal number that fits `bits` bits.
fn number_of(word: &str, bits: u32) -> Result<u64> {
    // The usual word: a file has 100,000 of them.
    if let 1..=9 = word.len()
        && let Some(number) =
            word.bytes().try_fold(0, |n: u64, b| b.is_ascii_digit().then(|| 10 * n + u64::from(b - b'0')))
        && number >> bits.min(63) == 0
    {
        return Ok(number);
    }
    if word.is_empty() || !word.bytes().all(|b| b.is_ascii_digit()) {
        let shown: String = word.chars().take(20).collect();
        return Err(Error::input(format!("'{shown}' is not a number")));
    }
    let number = word.parse::<u64>().ok().filter(|n| bits == 64 || *n >> bits == 0);
    number.ok_or_else(|| {
        let shown: String = word.chars().take(24).collect();
        Error::input(format!("{shown} does not fit the kernel's {bits} bits"))
    })
}

fn counted(words: &[&str], wanted: usize) -> Result<()> {
    match words.len() {
        n if n == wanted => Ok(()),
        n if n < wanted => {
            Err(cut(&format!("{} where {wanted} are due", schedlab_base::counted(n, "number"))))
        }
        n => Err(Error::input(format!("{} where {wanted} are due", schedlab_base::counted(n, "number")))),
    }
}

fn cpu_counters(words: &[&str]) -> Result<CpuCounters> {
    counted(words, CPU_COLUMNS)?;
    let mut counters = CpuCounters::default();
    let columns = words.iter().enumerate().filter(|(i, _)| *i != CPU_ZERO).map(|(_, w)| w);
    for (row, word) in CPU_ROWS.iter().zip(columns) {
        *(row.field)(&mut counters) = number_of(word, row.bits).map_err(|e| e.context(row.name))?;
    }
    number_of(words[CPU_ZERO], 64)?;
    Ok(counters)
}

fn domain(words: &[&str], version: u32, sg_scan: &mut Option<bool>) -> Result<DomainStat> {
    let (name, words) = match words.split_first() {
        Some((name, rest)) if version >= 17 => (*name, rest),
        _ => ("", words),
    };
    if version >= 17 && !check::is_name(name) {
        return Err(Error::input("its second word is not a name, which layout 17 gives"));
    }
    let (mask, numbers) = words.split_first().ok_or_else(|| cut("the CPUs it spans are missing"))?;
    let span = mask_of(mask)?;
    let columns = |sg_scan| domain_columns(Layout { version, sg_scan });
    let has = *sg_scan.get_or_insert(numbers.len() == columns(true));
    counted(numbers, columns(has))?;
    let mut domain = DomainStat { name: name.to_owned(), span, ..DomainStat::default() };
    let mut left = numbers.iter();
    let layout = Layout { version, sg_scan: has };
    for idle in idle_order(version) {
        for (row, word) in balance_rows(layout).zip(left.by_ref()) {
            let value = number_of(word, row.bits).map_err(|e| e.context(row.name))?;
            *(row.field)(&mut domain.lb[idle as usize]) = value;
        }
    }
    for (row, word) in DOMAIN_ROWS.iter().zip(left) {
        *(row.field)(&mut domain.counters) = number_of(word, row.bits).map_err(|e| e.context(row.name))?;
    }
    Ok(domain)
}

/// A mask as the kernel prints it: hexadecimal words of 32 bits, highest first, separated by commas.
fn mask_of(text: &str) -> Result<CpuSet> {
    let bad = || {
        let shown: String = text.chars().take(40).collect();
        Error::input(format!("'{shown}' is not a mask of CPUs"))
    };
    let mut set = CpuSet::new();
    for (i, word) in text.split(',').rev().enumerate() {
        let is_hex = word.bytes().all(|b| b.is_ascii_hexdigit()) && (1..=8).contains(&word.len());
        let bits = u32::from_str_radix(word, 16).ok().filter(|_| is_hex).ok_or_else(bad)?;
        if bits != 0 && (i + 1) * 32 > MAX_CPUS as usize {
            return Err(bad());
        }
        set.insert_all(i, bits);
    }
    if set.is_empty() { Err(bad()) } else { Ok(set) }
}
