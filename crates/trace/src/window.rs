//! A part of a run: the events in a window of time, and the state at its beginning.
//!
//! A window's first switch is not a task's first switch. So at the window's beginning each running task comes onto its
//! CPU, and each waiting task is woken and queued without a waker. A sleeping task appears when it wakes. Events lost
//! before the window are left out.

use crate::{Event, EventKind, Sink, SwitchReason};
use schedlab_base::{CpuId, Error, Ns, Result, TaskId};

/// A window of time, since the run began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    pub from: Ns,
    /// The end; events of that instant are not included.
    pub until: Ns,
}

impl Default for Window {
    fn default() -> Window {
        Window { from: Ns::ZERO, until: Ns::MAX }
    }
}

impl Window {
    /// From a time on, with a length or an end.
    ///
    /// # Errors
    /// When it is empty, or both a length and an end are given.
    pub fn of(from: Option<Ns>, length: Option<Ns>, until: Option<Ns>) -> Result<Window> {
        let from = from.unwrap_or(Ns::ZERO);
        let until = match (length, until) {
            (Some(_), Some(_)) => return Err(Error::input("a window has a length or an end, not both")),
            (Some(length), None) => from.plus(length),
            (None, until) => until.unwrap_or(Ns::MAX),
        };
        if until <= from {
            return Err(Error::input(format!("the window from {from} to {until} is empty")));
        }
        Ok(Window { from, until })
    }
    pub fn is_all(&self) -> bool {
        *self == Window::default()
    }
    pub fn has(&self, at: Ns) -> bool {
        self.from <= at && at < self.until
    }
    /// Limits the window to a run that ends at `end`.
    ///
    /// # Errors
    /// When the run ended before the window begins.
    pub fn within(self, end: Ns) -> Result<Window> {
        if self.from >= end && self.from > Ns::ZERO {
            return Err(Error::input(format!(
                "the window begins at {}, and the recording ends at {end}",
                self.from
            ))
            .help("times count from the recording's beginning"));
        }
        Ok(Window { until: self.until.min(end), ..self })
    }
}

/// A task's place at the beginning of the window.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Place {
    /// Asleep, or unknown.
    #[default]
    Away,
    Runs(CpuId),
    Waits(CpuId),
}

/// Passes the events of a window to a sink.
pub struct Within<'a, S: ?Sized> {
    window: Window,
    /// Whether times count from the beginning of the window.
    moved: bool,
    inner: &'a mut S,
    begun: bool,
    places: Vec<Place>,
}

impl<'a, S: Sink + ?Sized> Within<'a, S> {
    /// Keeps the run's times.
    pub fn new(window: Window, inner: &'a mut S) -> Within<'a, S> {
        Within { window, moved: false, inner, begun: window.from == Ns::ZERO, places: Vec::new() }
    }
    /// Makes times count from the beginning of the window.
    #[must_use]
    pub fn moved(self) -> Within<'a, S> {
        Within { moved: true, ..self }
    }
    /// The zero of its times, since the run began.
    pub fn opened(&self) -> Ns {
        if self.moved { self.window.from } else { Ns::ZERO }
    }
    pub fn inner(&mut self) -> &mut S {
        self.inner
    }
    /// Call it after the last event: reports the state for a window without events.
    pub fn ends(&mut self) {
        if !self.begun {
            self.begin();
        }
    }
    fn time(&self, at: Ns) -> Ns {
        if self.moved { at.since(self.window.from) } else { at }
    }
    fn put(&mut self, task: TaskId, place: Place) {
        if self.places.len() <= task.index() {
            self.places.resize(task.index() + 1, Place::Away);
        }
        self.places[task.index()] = place;
    }
    fn at(&self, task: TaskId) -> Place {
        self.places.get(task.index()).copied().unwrap_or_default()
    }
    /// Updates the places of an event's tasks.
    fn follow(&mut self, event: &Event) {
        match event.kind {
            EventKind::Switch { prev, next, why } => {
                let awake = !matches!(why, SwitchReason::Blocked | SwitchReason::Exited);
                if let Some(prev) = prev {
                    self.put(prev, if awake { Place::Waits(event.cpu) } else { Place::Away });
                }
                if let Some(next) = next {
                    self.put(next, Place::Runs(event.cpu));
                }
            }
            EventKind::Enqueued { task, .. } | EventKind::Migrate { task, .. }
                if !matches!(self.at(task), Place::Runs(_)) =>
            {
                let waits = matches!(event.kind, EventKind::Enqueued { .. }) || self.at(task) != Place::Away;
                if waits {
                    self.put(task, Place::Waits(event.cpu));
                }
            }
            EventKind::Exited { task } if !matches!(self.at(task), Place::Runs(_)) => {
                self.put(task, Place::Away);
            }
            EventKind::Lost { .. } => {
                let gone = |p: &mut Place| {
                    if [Place::Runs(event.cpu), Place::Waits(event.cpu)].contains(p) {
                        *p = Place::Away;
                    }
                };
                self.places.iter_mut().for_each(gone);
            }
            _ => {}
        }
    }
    /// Reports the state at the beginning of the window.
    fn begin(&mut self) {
        self.begun = true;
        let at = self.time(self.window.from);
        for (number, place) in std::mem::take(&mut self.places).into_iter().enumerate() {
            let task = TaskId::from(number);
            match place {
                Place::Away => {}
                Place::Runs(cpu) => {
                    let why = SwitchReason::FromIdle;
                    self.inner.event(&Event {
                        at,
                        cpu,
                        kind: EventKind::Switch { prev: None, next: Some(task), why },
                    });
                }
                Place::Waits(cpu) => {
                    self.inner.event(&Event { at, cpu, kind: EventKind::Waking { task, waker: None } });
                    let kind = EventKind::Enqueued { task, nr_running: 0, new: false };
                    self.inner.event(&Event { at, cpu, kind });
                }
            }
        }
    }
}

impl<S: Sink + ?Sized> Sink for Within<'_, S> {
    fn event(&mut self, event: &Event) {
        if event.at < self.window.from {
            return self.follow(event);
        }
        if !self.begun {
            self.begin();
        }
        if self.window.has(event.at) {
            self.inner.event(&Event { at: self.time(event.at), ..*event });
        }
    }
    fn sample(&mut self, at: Ns, task: TaskId, series: u16, value: u64) {
        if self.window.has(at) {
            self.inner.sample(self.time(at), task, series, value);
        }
    }
    fn wants_details(&self) -> bool {
        self.inner.wants_details()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Keep;

    fn switch(at: u64, prev: Option<u32>, next: Option<u32>, why: SwitchReason) -> Event {
        let kind = EventKind::Switch { prev: prev.map(TaskId), next: next.map(TaskId), why };
        Event { at: Ns(at), cpu: CpuId(0), kind }
    }

    #[test]
    fn a_window_begins_with_running_and_waiting_tasks() {
        let mut keep = Keep::default();
        let window = Window { from: Ns(100), until: Ns(200) };
        let mut within = Within::new(window, &mut keep).moved();
        within.event(&switch(10, None, Some(0), SwitchReason::FromIdle));
        within.event(&switch(20, Some(0), Some(1), SwitchReason::Preempted));
        within.event(&switch(30, Some(1), Some(2), SwitchReason::Blocked));
        within.event(&switch(150, Some(2), Some(0), SwitchReason::Blocked));
        within.event(&switch(200, Some(0), None, SwitchReason::Blocked));
        within.sample(Ns(50), TaskId(0), 0, 1);
        within.sample(Ns(150), TaskId(0), 0, 2);
        let cpu = CpuId(0);
        let expected = [
            EventKind::Waking { task: TaskId(0), waker: None },
            EventKind::Enqueued { task: TaskId(0), nr_running: 0, new: false },
            EventKind::Switch { prev: None, next: Some(TaskId(2)), why: SwitchReason::FromIdle },
        ];
        let mut events: Vec<Event> = expected.map(|kind| Event { at: Ns::ZERO, cpu, kind }).to_vec();
        events.push(switch(50, Some(2), Some(0), SwitchReason::Blocked));
        assert_eq!(keep.events, events, "task 1 sleeps then");
        assert_eq!(keep.samples, [(Ns(50), TaskId(0), 0, 2)]);
    }

    #[test]
    fn a_task_woken_before_it_has_left_waits_when_it_has() {
        let mut keep = Keep::default();
        let mut within = Within::new(Window { from: Ns(100), until: Ns::MAX }, &mut keep);
        within.event(&switch(10, None, Some(0), SwitchReason::FromIdle));
        let kind = EventKind::Enqueued { task: TaskId(0), nr_running: 1, new: false };
        within.event(&switch(20, Some(0), None, SwitchReason::Blocked));
        within.event(&Event { at: Ns(21), cpu: CpuId(1), kind });
        within.event(&switch(300, None, None, SwitchReason::FromIdle));
        assert_eq!(keep.events.len(), 3);
        assert_eq!((keep.events[1].at, keep.events[1].cpu), (Ns(100), CpuId(1)), "its own time");
    }

    #[test]
    fn a_window_has_a_length_or_an_end() {
        let ns = |n| Some(Ns(n));
        assert_eq!(Window::of(ns(5), ns(10), None).unwrap(), Window { from: Ns(5), until: Ns(15) });
        assert_eq!(Window::of(None, None, ns(9)).unwrap(), Window { from: Ns(0), until: Ns(9) });
        assert!(Window::of(ns(5), ns(1), ns(9)).is_err());
        assert!(Window::of(ns(9), None, ns(9)).is_err() && Window::of(None, ns(0), None).is_err());
        assert!(Window::of(ns(9), None, None).unwrap().within(Ns(9)).is_err());
        assert!(Window::default().within(Ns::ZERO).is_ok());
    }

    #[test]
    fn a_window_without_events_shows_the_state_but_no_earlier_losses() {
        let mut keep = Keep::default();
        let mut within = Within::new(Window { from: Ns(100), until: Ns(200) }, &mut keep);
        let on = |cpu, e: Event| Event { cpu: CpuId(cpu), ..e };
        within.event(&on(0, switch(10, None, Some(0), SwitchReason::FromIdle)));
        within.event(&on(1, switch(10, None, Some(1), SwitchReason::FromIdle)));
        within.event(&on(1, switch(20, Some(1), Some(2), SwitchReason::Preempted)));
        within.event(&Event { at: Ns(50), cpu: CpuId(1), kind: EventKind::Lost { count: 3 } });
        within.ends();
        within.ends();
        let why = SwitchReason::FromIdle;
        assert_eq!(
            keep.events,
            [switch(100, None, Some(0), why)],
            "once; who ran or waited on CPU 1 is not known"
        );
    }
}
