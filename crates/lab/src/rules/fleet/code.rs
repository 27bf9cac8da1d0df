//! A question to an image: a machine's state in the terms of `shim/abi.h`, and the answer in ours.

use schedlab_base::{CpuId, Error, Result};
use schedlab_kernel::Policy;
use schedlab_sim::balance::spare::imbalance::MigrationType;
use schedlab_sim::fair::oracle::fleet::{self, Answer, Place, Question, State};
use schedlab_trace::BalanceTrigger;
use schedlab_transplant::Kernel;
use schedlab_transplant::fleet::{
    self as asked, AskedCpu, AskedFleet, AskedLevel, AskedTask, Averages, fleet_task,
};

/// In the order of the kernel's `enum migration_type`.
const MIGRATIONS: [MigrationType; 4] =
    [MigrationType::Load, MigrationType::Util, MigrationType::Task, MigrationType::Misfit];

/// The answer of the kernel's own code.
///
/// # Errors
/// When the image can't be asked.
pub fn answer(kernel: &mut Kernel, s: &State, question: Question) -> Result<Answer> {
    let cpus: Vec<AskedCpu> = s.cpus.iter().map(cpu).collect();
    let tasks: Vec<AskedTask> = s.tasks.iter().map(task).collect();
    let levels: Vec<AskedLevel> = s.levels.iter().map(level).collect();
    let function = match question {
        Question::Select => AskedFleet::Select,
        Question::Busiest => AskedFleet::Busiest,
        Question::Detach => AskedFleet::Detach,
        Question::Newidle => AskedFleet::Newidle,
        Question::Shares => AskedFleet::Shares,
    };
    let said = kernel.ask_fleet(&asked::Question {
        function,
        cpus: &cpus,
        tasks: &tasks,
        levels: &levels,
        cpu: s.cpu,
        src: s.src,
        level: s.level,
        about: s.about,
        idle: match s.trigger {
            BalanceTrigger::Busy => 1,
            BalanceTrigger::Newidle => 2,
            BalanceTrigger::Idle | BalanceTrigger::Nohz => 0,
        },
        sync: s.sync,
        overload: s.overload,
        migration: MIGRATIONS.iter().position(|m| *m == s.migration).unwrap_or(0) as u32,
        imbalance: s.imbalance as i64,
        shares: s.group.shares,
        group_load: s.group.load,
        group_runnable: s.group.runnable,
        load_weight: s.group.queue_weight,
        load_avg: s.group.queue_load,
        contribution: s.group.contribution,
    })?;
    let moved = || said.moved[..said.nr_moved as usize].iter().map(|t| usize::from(*t)).collect();
    let known = |cpu: i32| u32::try_from(cpu).map(CpuId);
    Ok(match question {
        Question::Select => {
            let cpu = known(said.cpu).map_err(|_| Error::internal("the image chose no CPU"))?;
            Answer::At(cpu)
        }
        Question::Busiest => {
            let migration = MIGRATIONS.get(said.migration as usize).copied();
            let migration = migration.ok_or_else(|| Error::internal("an unknown type of migration"))?;
            Answer::Group(known(said.group).ok().map(|cpu| (cpu, migration, said.imbalance as u64)))
        }
        Question::Detach => Answer::Moved(moved()),
        Question::Newidle => {
            let levels = (0..s.levels.len()).filter(|l| said.levels >> l & 1 == 1).collect();
            Answer::Searched { levels, came: moved() }
        }
        Question::Shares => Answer::Weight(said.weight),
    })
}

fn averages(of: &fleet::Averages) -> Averages {
    Averages { load: of.load, runnable: of.runnable, util: of.util, util_est: of.util_est }
}

fn cpu(c: &fleet::AskedCpu) -> AskedCpu {
    AskedCpu {
        avg: averages(&c.avg),
        avg_idle_ns: c.avg_idle_ns,
        nr_idle_scan: c.nr_idle_scan,
        has_idle_cores: c.has_idle_cores.into(),
        wakeup_pending: c.wakeup_pending.into(),
    }
}

fn task(t: &fleet::AskedTask) -> AskedTask {
    let current = matches!(t.place, Place::Runs | Place::Leaves);
    let absent = matches!(t.place, Place::Absent | Place::Leaves);
    let flags = [(current, fleet_task::RUNS), (absent, fleet_task::ABSENT), (t.next, fleet_task::NEXT)];
    AskedTask {
        avg: averages(&t.avg),
        ran_ago_ns: t.ran_ago_ns,
        allowed: t.allowed,
        vruntime: t.vruntime,
        cpu: t.cpu.0,
        flags: flags.iter().filter(|(has, _)| *has).map(|(_, flag)| flag).sum(),
        policy: match t.policy {
            Policy::Batch => 3,
            Policy::Idle => 5,
            _ => 0,
        },
        nice: t.nice.into(),
        flips: t.flips,
        recent_cpu: t.recent.0,
    }
}

fn level(l: &fleet::AskedLevel) -> AskedLevel {
    AskedLevel { newidle_cost_ns: l.newidle_cost_ns, failed: l.failed, imbalanced: l.imbalanced.into() }
}
