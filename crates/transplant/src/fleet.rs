//! Single questions to the fair class of an image about a whole machine (`shim/image/fleet.c`): CPUs with their queues
//! in a given state, one function.

use crate::abi::{
    RawAverages, RawFleet, RawFleetAnswer, RawFleetCpu, RawFleetLevel, RawFleetTask, fleet_task,
};
use crate::kernel::{Kernel, policy_number};
use crate::oracle::{flags, refuses};
use schedlab_base::{CpuId, Error, Result};
use schedlab_board::decision::{
    AskedAverages, AskedCpu, AskedFleet, AskedLevel, AskedPlace, AskedTask, FleetAnswer, FleetQuestion, NOW,
};
use schedlab_trace::{BalanceTrigger, MigrationType};

impl Kernel {
    /// The answer of the kernel's own code. The machine of its boot is at rest: no task was ever woken.
    ///
    /// # Errors
    /// When the image can't be asked.
    pub fn ask_fleet(&mut self, s: &AskedFleet, question: FleetQuestion) -> Result<FleetAnswer> {
        self.enter(CpuId(0), NOW);
        let cpus: Vec<RawFleetCpu> = s.cpus.iter().map(cpu).collect();
        let tasks: Vec<RawFleetTask> = s.tasks.iter().map(task).collect();
        let levels: Vec<RawFleetLevel> = s.levels.iter().map(level).collect();
        let asked = RawFleet {
            function: function(question),
            nr_cpus: cpus.len() as u32,
            nr_tasks: tasks.len() as u32,
            nr_levels: levels.len() as u32,
            cpus: cpus.as_ptr(),
            tasks: tasks.as_ptr(),
            levels: levels.as_ptr(),
            cpu: s.cpu.0,
            src: s.src.0,
            level: s.level as u32,
            about: s.about as u32,
            idle: idle_type(s.trigger),
            sync: s.sync.into(),
            overload: s.overload.into(),
            migration: s.migration as u32,
            imbalance: s.imbalance as i64,
            shares: s.group.shares,
            group_load: s.group.load,
            group_runnable: s.group.runnable,
            load_weight: s.group.queue_weight,
            load_avg: s.group.queue_load,
            contribution: s.group.contribution,
        };
        let said = self.image().ask_fleet(&asked).map_err(|errno| match errno {
            libc::ENOSYS => Error::internal("this image can't be asked about machines"),
            _ => refuses(errno),
        })?;
        answer(&said, s.levels.len(), question)
    }
}

/// The answer of an image about a CPU with `levels` domains.
fn answer(said: &RawFleetAnswer, levels: usize, question: FleetQuestion) -> Result<FleetAnswer> {
    let moved = || said.moved[..said.nr_moved as usize].iter().map(|t| usize::from(*t)).collect();
    let known = |cpu: i32| u32::try_from(cpu).map(CpuId);
    Ok(match question {
        FleetQuestion::Select | FleetQuestion::Fork | FleetQuestion::Exec => {
            let cpu = known(said.cpu).map_err(|_| Error::internal("the image chose no CPU"))?;
            FleetAnswer::At(cpu)
        }
        FleetQuestion::Busiest => {
            let migration = MigrationType::ALL.get(said.migration as usize).copied();
            let migration = migration.ok_or_else(|| Error::internal("an unknown type of migration"))?;
            FleetAnswer::Group(known(said.group).ok().map(|cpu| (cpu, migration, said.imbalance as u64)))
        }
        FleetQuestion::Detach => FleetAnswer::Moved(moved()),
        FleetQuestion::Newidle => {
            let levels = (0..levels).filter(|l| said.levels >> l & 1 == 1).collect();
            FleetAnswer::Searched { levels, came: moved() }
        }
        FleetQuestion::Shares => FleetAnswer::Weight(said.weight),
    })
}

/// `enum img_fleet_function`.
fn function(question: FleetQuestion) -> u32 {
    match question {
        FleetQuestion::Select => 0,
        FleetQuestion::Busiest => 1,
        FleetQuestion::Detach => 2,
        FleetQuestion::Newidle => 3,
        FleetQuestion::Shares => 4,
        FleetQuestion::Fork => 5,
        FleetQuestion::Exec => 6,
    }
}

/// A pass's kind, as in `struct img_fleet`.
fn idle_type(trigger: BalanceTrigger) -> u32 {
    match trigger {
        BalanceTrigger::Idle | BalanceTrigger::Nohz => 0,
        BalanceTrigger::Busy => 1,
        BalanceTrigger::Newidle => 2,
    }
}

fn averages(of: &AskedAverages) -> RawAverages {
    RawAverages { load: of.load, runnable: of.runnable, util: of.util, util_est: of.util_est }
}

fn cpu(c: &AskedCpu) -> RawFleetCpu {
    RawFleetCpu {
        avg: averages(&c.avg),
        avg_idle_ns: c.avg_idle_ns,
        nr_idle_scan: c.nr_idle_scan,
        has_idle_cores: c.has_idle_cores.into(),
        wakeup_pending: c.wakeup_pending.into(),
        idle_exit_us: c.idle_exit_us.unwrap_or(u32::MAX),
        idle_stamp: c.idle_since_ns,
        misfit: c.misfit,
        rt_util: c.rt_util,
        nr_rt: c.nr_rt,
    }
}

fn task(t: &AskedTask) -> RawFleetTask {
    RawFleetTask {
        avg: averages(&t.avg),
        ran_ago_ns: t.ran_ago_ns,
        allowed: t.allowed,
        vruntime: t.vruntime,
        cpu: t.cpu.0,
        flags: flags(&[
            (matches!(t.place, AskedPlace::Runs | AskedPlace::Leaves), fleet_task::RUNS),
            (matches!(t.place, AskedPlace::Absent | AskedPlace::Leaves), fleet_task::ABSENT),
            (t.next, fleet_task::NEXT),
        ]),
        policy: policy_number(t.policy),
        nice: t.nice.into(),
        flips: t.flips,
        recent_cpu: t.recent.0,
    }
}

fn level(l: &AskedLevel) -> RawFleetLevel {
    RawFleetLevel { newidle_cost_ns: l.newidle_cost_ns, failed: l.failed, imbalanced: l.imbalanced.into() }
}
