//! The recording of a run: nothing, the stays of its own tasks (without privileges), or every event of the scheduler.

use crate::sys;
use crate::tasks::shared::Shared;
use crate::watch::findings::ObserverFindings;
use crate::watch::on_cpu_spans::OnCpuRecorder;
use crate::watch::tracepoints::Events;
use schedlab_base::TaskId;
use schedlab_record::Observe;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::SeqCst;

pub struct Recording {
    by: By,
    /// Why requested events are not recorded.
    no_events: Option<String>,
}

enum By {
    Nothing,
    Stays(Box<OnCpuRecorder>),
    Events(Box<Events>),
}

impl Recording {
    /// Opens the recorder; it records tasks made from now on. If events can't be recorded, it records stays.
    pub fn open(observe: Observe, shared: &Shared) -> Recording {
        let stays = || By::Stays(Box::new(OnCpuRecorder::open(&shared.cpus, &shared.names)));
        match observe {
            Observe::Accounts => return Recording { by: By::Nothing, no_events: None },
            Observe::Stays | Observe::Counters | Observe::Caches => {
                return Recording { by: stays(), no_events: None };
            }
            Observe::Events => {}
        }
        match Events::open(&shared.names, sys::thread_id()) {
            Ok(events) => {
                Recording { by: By::Events(Box::new(events.in_groups(&shared.task_groups))), no_events: None }
            }
            Err(e) => Recording { by: stays(), no_events: Some(e.message().to_owned()) },
        }
    }
    pub fn has_events(&self) -> bool {
        matches!(self.by, By::Events(_))
    }
    /// Readable when [`Recording::read`] should be called.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.by {
            By::Nothing => None,
            By::Stays(stays) => stays.fd(),
            By::Events(events) => events.fd(),
        }
    }
    /// Starts the measured time.
    pub fn measure(&mut self, shared: &Shared) {
        match &mut self.by {
            By::Nothing => {}
            By::Stays(stays) => stays.measure(threads(shared)),
            By::Events(events) => events.measure(),
        }
    }
    /// Reads the available records.
    pub fn read(&mut self, shared: &Shared) {
        match &mut self.by {
            By::Nothing => {}
            By::Stays(stays) => stays.read(threads(shared)),
            By::Events(events) => events.read(|| last_threads(shared)),
        }
    }
    /// Ends the measured time at `end_ns`.
    pub fn close(&mut self, end_ns: u64, shared: &Shared) {
        match &mut self.by {
            By::Nothing => {}
            By::Stays(stays) => stays.close(end_ns, threads(shared)),
            By::Events(events) => events.close(end_ns),
        }
    }
    pub fn found(self, shared: &Shared) -> ObserverFindings {
        let mut found = match self.by {
            By::Nothing => ObserverFindings::default(),
            By::Stays(stays) => stays.found(),
            By::Events(events) => events.found(last_threads(shared)),
        };
        found.unmeasured.extend(self.no_events.map(|why| ("events", why)));
        found
    }
}

/// Thread ids of existing tasks.
fn threads(shared: &Shared) -> impl Iterator<Item = (u32, TaskId)> + '_ {
    let thread = |id: usize| (shared.arena.thread(id).load(SeqCst), TaskId::from(id));
    (0..shared.len()).map(thread).filter(|(thread, _)| *thread != 0)
}

/// Thread ids of existing and former tasks.
fn last_threads(shared: &Shared) -> Vec<(u32, TaskId)> {
    let thread = |id: usize| (shared.arena.last_thread(id).load(SeqCst) as u32, TaskId::from(id));
    (0..shared.len()).map(thread).filter(|(thread, _)| *thread != 0).collect()
}
