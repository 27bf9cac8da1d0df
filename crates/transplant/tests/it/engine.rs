//! A small engine: programs that compute and sleep, and no costs but 600 ns for an interrupt between CPUs.

use schedlab_transplant::abi::{RawNote, view};
use schedlab_transplant::load::{Image, NewTask};
use schedlab_transplant::note::Note;
use std::collections::{BTreeMap, BTreeSet};

/// Computes for `run`, then sleeps for `sleep`; 0: never.
#[derive(Clone, Copy)]
pub struct Program {
    pub run: u64,
    pub sleep: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Timer,
    Resched,
    Call,
    /// Polling ends, or its flag is set.
    Poll,
    User,
    Start(i32),
}

pub struct Engine {
    pub image: Image,
    pub notes: Vec<RawNote>,
    pub now: u64,
    events: BTreeSet<(u64, u64, usize, Event)>,
    order: u64,
    programs: BTreeMap<i32, (Program, u64)>,
    /// Since when the current task of a CPU computes.
    since: Vec<Option<(i32, u64)>>,
}

impl Engine {
    pub fn new(mut image: Image, machine: schedlab_transplant::load::Machine) -> Engine {
        let cpus = machine.node.len();
        image.set_now(1_000_000_000);
        image.boot(machine).unwrap();
        let mut engine = Engine {
            image,
            notes: Vec::new(),
            now: 1_000_000_000,
            events: BTreeSet::new(),
            order: 0,
            programs: BTreeMap::new(),
            since: vec![None; cpus],
        };
        engine.take_notes();
        for cpu in 0..cpus {
            engine.image.enter(cpu);
            engine.settle(cpu);
        }
        engine
    }
    pub fn start(&mut self, task: &NewTask<'_>, program: Program, cpu: usize) -> i32 {
        self.image.enter(cpu);
        let pid = self.image.task_new(task).unwrap();
        self.programs.insert(pid, (program, program.run));
        self.push(self.now, cpu, Event::Start(pid));
        pid
    }
    fn push(&mut self, at: u64, cpu: usize, event: Event) {
        self.order += 1;
        self.events.insert((at, self.order, cpu, event));
    }
    fn forget(&mut self, cpu: usize, event: Event) {
        self.events.retain(|(_, _, c, e)| (*c, *e) != (cpu, event));
    }
    fn take_notes(&mut self) {
        let new = self.image.notes().to_vec();
        self.image.clear();
        for raw in &new {
            match Note::decode(raw, self.since.len()).unwrap() {
                Note::Timer { on, at } => {
                    self.forget(on.index(), Event::Timer);
                    if let Some(at) = at.filter(|at| *at < 1 << 62) {
                        self.push(at.max(self.now), on.index(), Event::Timer);
                    }
                }
                Note::Resched { on } => self.push(self.now + 600, on.index(), Event::Resched),
                Note::Call { on } => self.push(self.now + 600, on.index(), Event::Call),
                Note::NoIpi { on } => self.push(self.now, on.index(), Event::Poll),
                Note::Idle { on, polls_until: Some(at), .. } => self.push(at, on.index(), Event::Poll),
                Note::Printk(message) => println!("{}", self.image.text(message.text)),
                _ => {}
            }
        }
        self.notes.extend(new);
    }
    /// Until user mode or a halt.
    pub fn settle(&mut self, cpu: usize) {
        let mut halted = false;
        loop {
            self.take_notes();
            let (flags, pid) = (self.image.flags(), self.image.current());
            let has = |flag: u32| flags & flag != 0;
            if has(view::IDLE) {
                if halted && !has(view::RESCHED) {
                    return;
                }
                self.image.idle_enter();
                halted = true;
            } else if has(view::PARKED) {
                self.image.resume();
            } else if has(view::STOPPER) || has(view::KSOFTIRQD) {
                self.image.kthread();
            } else if has(view::RESCHED) || has(view::LAZY) {
                self.image.schedule();
            } else if has(view::USER_WORK) {
                self.image.user_work();
            } else {
                let (program, left) = self.programs[&pid];
                if left > 0 {
                    self.since[cpu] = Some((pid, self.now));
                    self.push(self.now + left, cpu, Event::User);
                    return;
                }
                self.programs.insert(pid, (program, program.run));
                match program.sleep {
                    0 => {}
                    ns => {
                        self.image.prepare_sleep(false);
                        self.image.start_timer(self.now + ns, 50_000);
                        self.image.schedule();
                    }
                }
            }
        }
    }
    /// Enters a CPU; returns whether it was in user mode.
    fn interrupt(&mut self, cpu: usize) -> bool {
        self.image.enter(cpu);
        self.forget(cpu, Event::Poll);
        let user = self.since[cpu].take();
        if let Some((pid, since)) = user {
            let (_, left) = self.programs.get_mut(&pid).unwrap();
            *left = left.saturating_sub(self.now - since);
            self.forget(cpu, Event::User);
        }
        user.is_some()
    }
    /// The current task of a CPU changes a task's CPUs.
    pub fn affinity(&mut self, cpu: usize, pid: i32, allowed: &[u64]) {
        self.interrupt(cpu);
        self.image.set_affinity(pid, allowed).unwrap();
        self.settle(cpu);
    }
    /// The current task of a CPU does something.
    pub fn verb<T>(&mut self, cpu: usize, does: impl FnOnce(&mut Image) -> T) -> T {
        self.interrupt(cpu);
        let result = does(&mut self.image);
        self.settle(cpu);
        result
    }
    fn step(&mut self, cpu: usize, event: Event) {
        let user = self.interrupt(cpu);
        match event {
            Event::Timer => self.image.irq_timer(user),
            Event::Resched => self.image.irq_resched(),
            Event::Call => self.image.irq_call(),
            Event::Start(pid) => self.image.task_start(pid),
            Event::User | Event::Poll => {}
        }
        self.settle(cpu);
    }
    pub fn run(&mut self, ns: u64) {
        let end = self.now + ns;
        while let Some(first) = self.events.first().copied().filter(|e| e.0 <= end) {
            self.events.remove(&first);
            self.now = first.0;
            self.image.set_now(self.now);
            self.step(first.2, first.3);
        }
        self.now = end;
        self.image.set_now(end);
    }
    /// A task of the fair class, on one CPU or on all.
    pub fn fair<'a>(name: &'a str, allowed: Option<&'a [u64]>) -> NewTask<'a> {
        NewTask { name, allowed, mm: 1, slack_ns: 50_000, ..NewTask::default() }
    }
}
