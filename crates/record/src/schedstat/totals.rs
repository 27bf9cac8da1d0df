//! Sums over CPUs, for each level.

use super::{
    BALANCE_ROWS, Balance, CPU_ROWS, CounterRow, CpuCounters, DOMAIN_ROWS, DomainCounters, Schedstat,
};
use schedlab_base::{CpuSet, Error, Result};

/// Counters summed over CPUs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    pub cpus: CpuSet,
    /// Sums of `cpu` lines.
    pub counters: CpuCounters,
    /// By level, `domain0` first.
    pub domains: Vec<DomainTotal>,
}

/// One level's counters, summed over the CPUs that have it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DomainTotal {
    /// The level's names: several if CPUs differ ("SMT/MC"), empty if the file has none.
    pub name: String,
    /// Number of CPUs that have the level.
    pub cpus: usize,
    /// Counters of balancing, by idle type.
    pub lb: [Balance; 3],
    pub counters: DomainCounters,
}

impl Schedstat {
    /// The counters of these CPUs only.
    ///
    /// # Errors
    /// When a CPU is missing.
    pub fn of_cpus(&self, cpus: &CpuSet) -> Result<Schedstat> {
        let own: CpuSet = self.cpus.iter().map(|c| c.id).collect();
        if let Some(cpu) = cpus.iter().find(|c| !own.contains(*c)) {
            return Err(Error::input(format!("there is no {cpu}")).help(format!("its CPUs are {own}")));
        }
        let chosen = self.cpus.iter().filter(|c| cpus.contains(c.id)).cloned().collect();
        Ok(Schedstat { layout: self.layout, timestamp: self.timestamp, cpus: chosen })
    }

    /// Sums over all its CPUs.
    pub fn totals(&self) -> Totals {
        let mut all = Totals::default();
        for cpu in &self.cpus {
            all.cpus.insert(cpu.id);
            add(&mut all.counters, &cpu.counters, CPU_ROWS);
            for (level, domain) in cpu.domains.iter().enumerate() {
                if level == all.domains.len() {
                    all.domains.push(DomainTotal::default());
                }
                let total = &mut all.domains[level];
                total.cpus += 1;
                add(&mut total.counters, &domain.counters, DOMAIN_ROWS);
                for (sum, own) in total.lb.iter_mut().zip(&domain.lb) {
                    add(sum, own, BALANCE_ROWS);
                }
                if total.name.is_empty() {
                    total.name.clone_from(&domain.name);
                } else if !total.name.split('/').any(|n| n == domain.name) {
                    total.name = format!("{}/{}", total.name, domain.name);
                }
            }
        }
        all
    }

    /// Whether the kernel was counting. With `kernel.sched_schedstats` at 0 it keeps only the three counters of
    /// `sched_info`.
    pub fn is_counting(&self) -> bool {
        let all = self.totals();
        let always = ["rq_cpu_time", "run_delay", "pcount"];
        let any = |rows: &[CounterRow<CpuCounters>]| {
            rows.iter().any(|r| !always.contains(&r.name) && (r.get)(&all.counters) > 0)
        };
        any(CPU_ROWS)
            || all
                .domains
                .iter()
                .any(|d| d.counters != DomainCounters::default() || d.lb != <[Balance; 3]>::default())
    }
}

fn add<S: Copy>(sum: &mut S, own: &S, rows: &[CounterRow<S>]) {
    let mut own = *own;
    for row in rows {
        let more = *(row.field)(&mut own);
        let field = (row.field)(sum);
        *field = field.saturating_add(more);
    }
}
