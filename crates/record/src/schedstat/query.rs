//! Counters as metrics: names like `domain1.newidle.lb_count`, `cpu8.domain1.ttwu_wake_remote`, `sched.ttwu_count`.

use super::{
    BALANCE_ROWS, Balance, CPU_ROWS, CounterRow, CpuCounters, CpuStat, DERIVED, DOMAIN_ROWS, Derived,
    DomainCounters, DomainStat, IdleType, Layout, Schedstat, Since,
};
use schedlab_base::{CpuId, Error, Result};

/// A counter or derived figure, asked for by name.
#[derive(Clone, Copy)]
pub struct Query {
    /// One CPU, or the sum over all if `None`.
    cpu: Option<CpuId>,
    at: At,
}

#[derive(Clone, Copy)]
enum At {
    Cpu(&'static CounterRow<CpuCounters>),
    Domain(usize, &'static CounterRow<DomainCounters>),
    Balance(usize, IdleType, &'static CounterRow<Balance>),
    Derived(usize, IdleType, &'static Derived),
}

impl std::fmt::Debug for Query {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.pattern(), self.unit_and_about().1)
    }
}

impl Query {
    /// Parses a metric's name; `None` if it does not belong to this family.
    ///
    /// # Errors
    /// When it begins like such a name but has an unknown counter or idle type; the nearest is offered.
    pub fn parse(name: &str) -> Option<Result<Query>> {
        let (first, rest) = name.split_once('.')?;
        if first == "sched" {
            return Some(find(CPU_ROWS, rest).map(|row| Query { cpu: None, at: At::Cpu(row) }));
        }
        if let Some(level) = numbered(first, "domain") {
            return Some(domain(level, rest).map(|at| Query { cpu: None, at }));
        }
        let cpu = numbered(first, "cpu")?;
        let place = rest.split_once('.').and_then(|(f, r)| Some((numbered(f, "domain")?, r)));
        let at = match place {
            Some((level, rest)) => domain(level, rest),
            None => find(CPU_ROWS, rest).map(At::Cpu),
        };
        Some(at.map(|at| Query { cpu: Some(CpuId::from(cpu)), at }))
    }

    /// The name of the row that it matches in the table of metrics.
    pub fn pattern(&self) -> &'static str {
        match (self.cpu, self.at) {
            (None, At::Cpu(_)) => "sched.<counter>",
            (Some(_), At::Cpu(_)) => "cpu<k>.<counter>",
            (None, At::Domain(..)) => "domain<n>.<counter>",
            (Some(_), At::Domain(..)) => "cpu<k>.domain<n>.<counter>",
            (None, At::Balance(..) | At::Derived(..)) => "domain<n>.<type>.<counter>",
            (Some(_), At::Balance(..) | At::Derived(..)) => "cpu<k>.domain<n>.<type>.<counter>",
        }
    }
    /// Its unit, "" for counts, and a line about it.
    pub fn unit_and_about(&self) -> (&'static str, &'static str) {
        match self.at {
            At::Cpu(row) => (row.unit, row.about),
            At::Domain(_, row) => (row.unit, row.about),
            At::Balance(_, _, row) => (row.unit, row.about),
            At::Derived(_, _, figure) => (figure.unit, figure.about),
        }
    }
    /// Whether lower is better; otherwise neither direction is.
    pub fn lower_is_better(&self) -> bool {
        matches!(self.at, At::Derived(_, _, figure) if figure.lower_is_better)
    }

    /// The value in a schedstat.
    ///
    /// # Errors
    /// Says in words what is missing: the CPU, the level, the column, or an attempt to divide by.
    pub fn value(&self, stat: &Schedstat) -> std::result::Result<f64, String> {
        self.has_column(stat.layout)?;
        let cpus: Vec<&CpuStat> = stat.cpus.iter().filter(|c| self.cpu.is_none_or(|id| c.id == id)).collect();
        if cpus.is_empty() {
            return Err(self.cpu.map_or_else(|| "no CPUs".to_owned(), |id| format!("there is no {id}")));
        }
        let number = |n: u64| Ok(n as f64);
        match self.at {
            At::Cpu(row) => number(sum(&cpus, |c| Some((row.get)(&c.counters))).unwrap_or(0)),
            At::Domain(level, row) => number(at_level(&cpus, level, |d| (row.get)(&d.counters))?),
            At::Balance(level, idle, row) => {
                number(at_level(&cpus, level, |d| (row.get)(&d.lb[idle as usize]))?)
            }
            At::Derived(level, idle, figure) => {
                let mut all = Balance::default();
                for row in BALANCE_ROWS {
                    *(row.field)(&mut all) = at_level(&cpus, level, |d| {
                        let mut own = d.lb[idle as usize];
                        *(row.field)(&mut own)
                    })?;
                }
                figure.of(&all).ok_or_else(|| "no attempts".to_owned())
            }
        }
    }

    fn has_column(&self, layout: Layout) -> std::result::Result<(), String> {
        let since = match self.at {
            // The sum over kinds is known in every layout.
            At::Balance(_, _, row) if row.since != Since::Mixed => row.since,
            At::Derived(_, _, figure) => figure.since,
            _ => Since::Always,
        };
        match since {
            Since::SgScan if !layout.has(since) => {
                Err("this kernel does not count lb_sg_scan (feature LB_SG_SCAN)".to_owned())
            }
            Since::Split if !layout.has(since) => {
                Err(format!("schedstat version {} does not tell kinds of imbalance apart", layout.version))
            }
            _ => Ok(()),
        }
    }
}

fn sum(cpus: &[&CpuStat], of: impl Fn(&CpuStat) -> Option<u64>) -> Option<u64> {
    cpus.iter().filter_map(|c| of(c)).reduce(u64::saturating_add)
}

fn at_level(
    cpus: &[&CpuStat],
    level: usize,
    of: impl Fn(&DomainStat) -> u64,
) -> std::result::Result<u64, String> {
    sum(cpus, |c| c.domains.get(level).map(&of)).ok_or_else(|| format!("there is no domain{level}"))
}

/// The number after a word, at most as large as a level or CPU may be.
fn numbered(name: &str, word: &str) -> Option<usize> {
    let digits = name.strip_prefix(word)?;
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok()).flatten().filter(|n| *n < 4096)
}

fn find<S>(rows: &'static [CounterRow<S>], name: &str) -> Result<&'static CounterRow<S>> {
    let known = rows.iter().map(|r| r.name);
    rows.iter().find(|r| r.name == name).ok_or_else(|| Error::unknown("schedstat counter", name, known))
}

fn domain(level: usize, rest: &str) -> Result<At> {
    let Some((idle, counter)) = rest.split_once('.') else {
        return find(DOMAIN_ROWS, rest).map(|row| At::Domain(level, row)).map_err(|e| {
            if is_balance(rest) {
                let types = IdleType::ALL.map(|t| format!("{}.{rest}", t.name())).join(", ");
                return Error::input(format!("{rest} is counted by idle type"))
                    .help(format!("ask for {types}"));
            }
            e
        });
    };
    let idle = IdleType::parse(idle)?;
    if let Some(figure) = DERIVED.iter().find(|d| d.name == counter) {
        return Ok(At::Derived(level, idle, figure));
    }
    let known = BALANCE_ROWS.iter().map(|r| r.name).chain(DERIVED.iter().map(|d| d.name));
    let row = BALANCE_ROWS.iter().find(|r| r.name == counter);
    row.map(|row| At::Balance(level, idle, row))
        .ok_or_else(|| Error::unknown("schedstat counter", counter, known))
}

fn is_balance(name: &str) -> bool {
    BALANCE_ROWS.iter().any(|r| r.name == name) || DERIVED.iter().any(|d| d.name == name)
}
