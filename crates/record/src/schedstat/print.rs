//! Printer of /proc/schedstat in any of its layouts.

use super::model::VERSIONS;
use super::read::{CPU_ZERO, balance_rows, idle_order};
use super::{CPU_ROWS, CounterRow, DOMAIN_ROWS, DomainStat, Layout, Schedstat};
use schedlab_base::{CpuSet, Error, Result};
use std::fmt::Write;

impl Schedstat {
    /// The file as a kernel with that layout prints it. Counters that are 32 bits wide there are printed modulo 2^32.
    ///
    /// # Errors
    /// When the version is unknown, or the source lacks a column of the layout: imbalances by kind, `lb_sg_scan`.
    pub fn print(&self, layout: Layout) -> Result<String> {
        if !VERSIONS.contains(&layout.version) {
            return Err(Error::input(format!("no layout {} of schedstat is known", layout.version))
                .help("layouts are 15, 16 and 17"));
        }
        if layout.version >= 17 && self.layout.version < 17 {
            return Err(Error::input(format!(
                "layout {} has no names of domains and kinds of imbalance, which 17 prints",
                self.layout.version
            ))
            .help("print it in layout 15 or 16"));
        }
        if layout.sg_scan && !self.layout.sg_scan {
            return Err(Error::input("these counters have no lb_sg_scan")
                .help("simulated kernels count it with the feature LB_SG_SCAN"));
        }
        let mut out = format!("version {}\ntimestamp {}\n", layout.version, self.timestamp);
        let top = self.cpus.iter().flat_map(|c| c.domains.last()).filter_map(|d| d.span.iter().last()).max();
        let bits = top.into_iter().chain(self.cpus.last().map(|c| c.id)).max().map_or(1, |c| c.index() + 1);
        for cpu in &self.cpus {
            let mut numbers: Vec<u64> = CPU_ROWS.iter().map(|r| column(r, &cpu.counters)).collect();
            numbers.insert(CPU_ZERO, 0);
            line(&mut out, &cpu.id.to_string(), &numbers);
            for (level, domain) in cpu.domains.iter().enumerate() {
                let name = if layout.version >= 17 { format!(" {}", domain.name) } else { String::new() };
                let head = format!("domain{level}{name} {}", mask(&domain.span, bits));
                line(&mut out, &head, &domain_numbers(domain, layout));
            }
        }
        Ok(out)
    }
}

fn domain_numbers(domain: &DomainStat, layout: Layout) -> Vec<u64> {
    let types = idle_order(layout.version).into_iter();
    let balances = types.flat_map(|t| balance_rows(layout).map(move |r| column(r, &domain.lb[t as usize])));
    balances.chain(DOMAIN_ROWS.iter().map(|r| column(r, &domain.counters))).collect()
}

fn column<S>(row: &CounterRow<S>, of: &S) -> u64 {
    let value = (row.get)(of);
    if row.bits == 32 { value & u64::from(u32::MAX) } else { value }
}

fn line(out: &mut String, head: &str, numbers: &[u64]) {
    out.push_str(head);
    // Writing to a String can't fail.
    numbers.iter().for_each(|n| write!(out, " {n}").unwrap_or_default());
    out.push('\n');
}

/// The mask of `bits` CPUs: 32-bit words, the highest first. The first word has only the digits that its bits need.
fn mask(span: &CpuSet, bits: usize) -> String {
    let mut words = vec![0u32; bits.div_ceil(32)];
    for cpu in span.iter() {
        words[cpu.index() / 32] |= 1 << (cpu.index() % 32);
    }
    let digits = |i: usize| if (i + 1) * 32 <= bits { 8 } else { (bits % 32).div_ceil(4) };
    let texts: Vec<String> =
        words.iter().enumerate().rev().map(|(i, w)| format!("{w:0width$x}", width = digits(i))).collect();
    texts.join(",")
}
