//! The JSON of a schedstat in a record. Numbers are in the order of the tables of counters, without zeros at the end.
//!
//! 224 CPUs with three domains each take about 100 kB. Tables of counters may grow only at their ends: an older record
//! lacks the new number, which is then 0.

use super::check::check;
use super::counters::{BALANCE_ROWS, CPU_ROWS, CounterRow, DOMAIN_ROWS};
use super::model::{CpuStat, DomainStat, Layout, Schedstat, VERSIONS};
use schedlab_base::{CpuId, CpuSet, Error, Result};
use serde::{Deserialize, Serialize};

/// The JSON form.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stored {
    version: u32,
    sg_scan: bool,
    timestamp: u64,
    cpus: Vec<StoredCpu>,
}

/// CPU, counters, domains.
type StoredCpu = (u32, Vec<u64>, Vec<StoredDomain>);
/// Name, span, balancing by idle type, other counters.
type StoredDomain = (String, CpuSet, [Vec<u64>; 3], Vec<u64>);

impl From<Schedstat> for Stored {
    fn from(stat: Schedstat) -> Stored {
        let domain = |d: DomainStat| {
            let lb = d.lb.map(|b| numbers(&b, BALANCE_ROWS));
            (d.name, d.span, lb, numbers(&d.counters, DOMAIN_ROWS))
        };
        let cpu = |c: CpuStat| {
            (c.id.0, numbers(&c.counters, CPU_ROWS), c.domains.into_iter().map(domain).collect())
        };
        Stored {
            version: stat.layout.version,
            sg_scan: stat.layout.sg_scan,
            timestamp: stat.timestamp,
            cpus: stat.cpus.into_iter().map(cpu).collect(),
        }
    }
}

impl TryFrom<Stored> for Schedstat {
    type Error = Error;

    fn try_from(stored: Stored) -> Result<Schedstat> {
        if !VERSIONS.contains(&stored.version) {
            return Err(Error::input(format!("no schedstat of version {} is known", stored.version)));
        }
        let stat = Schedstat {
            layout: Layout { version: stored.version, sg_scan: stored.sg_scan },
            timestamp: stored.timestamp,
            cpus: stored.cpus.into_iter().map(cpu).collect::<Result<_>>()?,
        };
        check(&stat)?;
        Ok(stat)
    }
}

fn cpu((id, own, domains): StoredCpu) -> Result<CpuStat> {
    let domains = domains.into_iter().map(domain).collect::<Result<_>>()?;
    Ok(CpuStat { id: CpuId(id), counters: counters(&own, CPU_ROWS)?, domains })
}

fn domain((name, span, [a, b, c], rest): StoredDomain) -> Result<DomainStat> {
    let lb = [counters(&a, BALANCE_ROWS)?, counters(&b, BALANCE_ROWS)?, counters(&c, BALANCE_ROWS)?];
    Ok(DomainStat { lb, counters: counters(&rest, DOMAIN_ROWS)?, name, span })
}

/// The values of fields. For `lb_imbalance` that is the mixed part only, not the sum that its column prints.
fn numbers<S: Copy>(of: &S, rows: &[CounterRow<S>]) -> Vec<u64> {
    let mut copy = *of;
    let mut all: Vec<u64> = rows.iter().map(|row| *(row.field)(&mut copy)).collect();
    while all.last() == Some(&0) {
        all.pop();
    }
    all
}

fn counters<S: Default>(numbers: &[u64], rows: &[CounterRow<S>]) -> Result<S> {
    if numbers.len() > rows.len() {
        return Err(Error::input(format!("{} counters where {} are known", numbers.len(), rows.len())));
    }
    let mut all = S::default();
    rows.iter().zip(numbers).for_each(|(row, n)| *(row.field)(&mut all) = *n);
    Ok(all)
}
