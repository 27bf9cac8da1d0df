//! The context for writing a run's packets: the file, and the run's names and numbers in it.

use super::side::Side;
use super::write::Perfetto;
use crate::Cast;
use schedlab_base::{CpuId, TaskId};
use std::borrow::Cow;

pub(super) struct Pen<'a, W> {
    pub(super) file: &'a mut Perfetto<W>,
    pub(super) cast: &'a Cast,
    pub(super) side: Side,
    idle: Vec<String>,
}

impl<'a, W> Pen<'a, W> {
    pub(super) fn new(file: &'a mut Perfetto<W>, cast: &'a Cast, side: Side) -> Pen<'a, W> {
        let idle = (0..cast.cpus as u32).map(|cpu| format!("swapper/{}", side.first_cpu + cpu)).collect();
        Pen { file, cast, side, idle }
    }
    #[inline]
    pub(super) fn cpu(&self, cpu: CpuId) -> u32 {
        self.side.first_cpu + cpu.0
    }
    #[inline]
    pub(super) fn tid(&self, task: TaskId) -> i32 {
        (self.side.first_tid + self.cast.tid(task)) as i32
    }
    pub(super) fn process(&self, task: TaskId) -> Option<i32> {
        let process = self.cast.of(task).map_or(0, |a| a.process);
        (process != 0).then(|| (self.side.first_tid + process) as i32)
    }
    /// Number, priority and name of a task; for `None`, of the CPU's idle task.
    #[inline]
    pub(super) fn who(&self, task: Option<TaskId>, cpu: CpuId) -> (i32, i32, Cow<'_, str>) {
        match task {
            Some(told) => (self.tid(told), self.cast.prio(task), self.cast.label(told)),
            None => (0, self.cast.prio(None), self.idle_name(cpu)),
        }
    }
    #[inline]
    fn idle_name(&self, cpu: CpuId) -> Cow<'_, str> {
        match self.idle.get(cpu.index()) {
            Some(name) => Cow::Borrowed(name),
            None => Cow::Owned(format!("swapper/{}", self.cpu(cpu))),
        }
    }
}
