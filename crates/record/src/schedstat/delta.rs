//! Differences between two snapshots of one machine.
//!
//! The kernel's counters only rise, and wrap at their width. A counter that went back counts as wrapped if that means
//! growth by less than half its range. Otherwise it was reset, by a rebuild of domains or a boot. Sums of imbalances
//! grow in large steps and always count as wrapped.

use super::{BALANCE_ROWS, CPU_ROWS, CounterRow, CpuStat, DOMAIN_ROWS, Schedstat};
use schedlab_base::{Error, Result, Warning};

/// The counts between two snapshots. A counter that wrapped is corrected, with a warning.
///
/// # Errors
/// Snapshots of different layouts, CPUs or domains, and counters that went back: another boot, rebuilt domains, or the
/// wrong order.
pub fn delta(before: &Schedstat, after: &Schedstat) -> Result<(Schedstat, Vec<Warning>)> {
    if before.layout != after.layout {
        return Err(Error::input("the two snapshots have different layouts: they are of two kernels"));
    }
    let timestamp = after.timestamp.checked_sub(before.timestamp).ok_or_else(|| {
        Error::input(format!(
            "the second snapshot is older than the first (timestamp {} after {})",
            after.timestamp, before.timestamp
        ))
        .help("name the earlier one first; snapshots of two boots can't be compared")
    })?;
    let ids = |s: &Schedstat| s.cpus.iter().map(|c| c.id).collect::<Vec<_>>();
    if ids(before) != ids(after) {
        return Err(Error::input("the two snapshots have different CPUs: some came or went in between"));
    }
    let mut wrapped = Vec::new();
    let mut stat = Schedstat { timestamp, ..after.clone() };
    for (cpu, old) in stat.cpus.iter_mut().zip(&before.cpus) {
        cpu_delta(cpu, old, &mut wrapped)?;
    }
    let warn = |what: &String| {
        Warning::new(
            "schedstat.wrapped",
            format!("{what} went past its 32 bits; its difference was corrected"),
        )
    };
    Ok((stat, wrapped.iter().map(warn).collect()))
}

fn cpu_delta(cpu: &mut CpuStat, old: &CpuStat, wrapped: &mut Vec<String>) -> Result<()> {
    let id = cpu.id;
    let shape = |c: &CpuStat| c.domains.iter().map(|d| (d.name.clone(), d.span.clone())).collect::<Vec<_>>();
    if shape(cpu) != shape(old) {
        return Err(Error::input(format!("the domains of {id} differ: they were rebuilt in between"))
            .help("take both snapshots while no CPU, cpuset or partition changes"));
    }
    let mut place = CounterPlace { prefix: id.to_string(), wrapped };
    place.subtract(&mut cpu.counters, &old.counters, CPU_ROWS)?;
    for (level, (domain, old)) in cpu.domains.iter_mut().zip(&old.domains).enumerate() {
        place.prefix = format!("{id}.domain{level}");
        place.subtract(&mut domain.counters, &old.counters, DOMAIN_ROWS)?;
        for idle in super::IdleType::ALL {
            place.prefix = format!("{id}.domain{level}.{}", idle.kernel_name());
            place.subtract(&mut domain.lb[idle as usize], &old.lb[idle as usize], BALANCE_ROWS)?;
        }
    }
    Ok(())
}

/// The place of counters, for messages.
struct CounterPlace<'a> {
    prefix: String,
    wrapped: &'a mut Vec<String>,
}

impl CounterPlace<'_> {
    fn subtract<S: Copy>(&mut self, new: &mut S, old: &S, rows: &[CounterRow<S>]) -> Result<()> {
        let mut old = *old;
        for row in rows {
            let (field, old) = ((row.field)(new), *(row.field)(&mut old));
            if *field >= old {
                *field -= old;
                continue;
            }
            let corrected = field.wrapping_sub(old) & u64::from(u32::MAX);
            let is_sum = row.name.starts_with("lb_imbalance");
            // Only if both values fit 32 bits can the counter have wrapped there: a simulator's counters are wider.
            let fits = row.bits == 32 && old <= u64::from(u32::MAX);
            if !fits || !(is_sum || corrected < 1 << 31) {
                return Err(Error::input(format!(
                    "{}.{} went from {old} back to {field}",
                    self.prefix, row.name
                ))
                .help("domains were rebuilt in between, or the snapshots are of two boots"));
            }
            *field = corrected;
            self.wrapped.push(format!("{}.{}", self.prefix, row.name));
        }
        Ok(())
    }
}
