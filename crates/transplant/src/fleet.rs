//! Single questions to the fair class of an image about a whole machine (`shim/image/fleet.c`): CPUs with their queues
//! in a given state, one function.

use crate::abi::RawFleet;
pub use crate::abi::{AskedCpu, AskedFleet, AskedLevel, AskedTask, Averages, FleetAnswer, fleet_task};
use crate::kernel::Kernel;
use crate::oracle::NOW;
use schedlab_base::{CpuId, Error, Result};

/// Tasks for which an image has room.
pub const MAX_TASKS: usize = crate::abi::FLEET_TASKS;

/// A question; the values are those of `struct img_fleet`.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    pub function: AskedFleet,
    /// All of the machine's.
    pub cpus: &'a [AskedCpu],
    /// In the order in which they were queued.
    pub tasks: &'a [AskedTask],
    /// Domains of `cpu`, the lowest first.
    pub levels: &'a [AskedLevel],
    pub cpu: CpuId,
    pub src: CpuId,
    pub level: usize,
    pub about: usize,
    /// 0 idle, 1 busy, 2 newly idle.
    pub idle: u32,
    pub sync: bool,
    pub overload: bool,
    pub migration: u32,
    pub imbalance: i64,
    pub shares: u64,
    pub group_load: u64,
    pub group_runnable: u64,
    pub load_weight: u64,
    pub load_avg: u64,
    pub contribution: u64,
}

impl Kernel {
    /// The answer of the kernel's own code. The machine of its boot is at rest: no task was ever woken.
    ///
    /// # Errors
    /// When the image can't be asked.
    pub fn ask_fleet(&mut self, q: &Question<'_>) -> Result<FleetAnswer> {
        self.enter(CpuId(0), NOW);
        let raw = RawFleet {
            function: q.function as u32,
            nr_cpus: q.cpus.len() as u32,
            nr_tasks: q.tasks.len() as u32,
            nr_levels: q.levels.len() as u32,
            cpus: q.cpus.as_ptr(),
            tasks: q.tasks.as_ptr(),
            levels: q.levels.as_ptr(),
            cpu: q.cpu.0,
            src: q.src.0,
            level: q.level as u32,
            about: q.about as u32,
            idle: q.idle,
            sync: q.sync.into(),
            overload: q.overload.into(),
            migration: q.migration,
            imbalance: q.imbalance,
            shares: q.shares,
            group_load: q.group_load,
            group_runnable: q.group_runnable,
            load_weight: q.load_weight,
            load_avg: q.load_avg,
            contribution: q.contribution,
        };
        self.image().ask_fleet(&raw).map_err(|errno| match errno {
            libc::ENOSYS => Error::internal("this image can't be asked about machines"),
            _ => Error::internal(format!("the image refuses a state (error {errno})")),
        })
    }
}
