//! The part of a run that neither its seed nor its workload changes: the image boots for a machine, the machine's own
//! tasks are made, and all comes to rest. Runs begin here. A process that holds such a machine may be copied for each
//! of them (`lab/src/make/exec/code/process.rs`).
//!
//! What a seed draws enters afterwards: the kernel's own random draws begin anew, and the machine's own tasks, which
//! sleep since they were made, get the times of their first arrivals.

use crate::blocks::Blocks;
use crate::cpu::Next;
use crate::engine::{Accounts, Engine, booted_at_ns, first_due_ns, rest_ns};
use crate::kernel::{Debug, Kernel};
use crate::run::{Clock, Outside, Rise, TIMER_SLACK_NS, drive};
use crate::setting::{Setting, set};
use crate::task::Task;
use crate::watchdog;
use schedlab_base::{Error, Result, Stream, TaskId};
use schedlab_board::arrivals::of_machine;
use schedlab_board::board::Counts;
use schedlab_kernel::preempt::Preempt;
use schedlab_kernel::{History, Level};
use schedlab_machine::Machine;
use schedlab_trace::Discard;
use std::path::Path;

/// The seed of a machine until a run begins on it: of the order of its CPUs at one instant, and its own tasks' homes.
const SEED: u64 = 1;

/// What a machine at rest depends on.
pub struct Ground<'a> {
    pub machine: &'a Machine,
    /// The same machine with the costs that counted code does not have.
    pub beside: &'a Machine,
    /// The image's shared object.
    pub object: &'a Path,
    /// The image of the same tree that does not count, if the code is charged by its instructions.
    pub plain: Option<&'a Path>,
    pub level: Level,
    /// The release of the tree, whose rules channels and policies have.
    pub history: History,
    /// The preemption model that the image was built with.
    pub preempt: Preempt,
    /// Settings from the start.
    pub settings: Vec<Setting>,
    /// Whether the machine's background tasks run.
    pub background: bool,
}

/// A machine that has booted and come to rest. A process makes one, and one run on it, unless it is copied.
pub struct Rested<'m> {
    pub(crate) engine: Engine<'m>,
    pub(crate) settings: Vec<Setting>,
    /// The image's shared object.
    pub(crate) object: &'m Path,
    /// Where runs begin to count, if they do.
    pub(crate) rise: Option<Rise<'m>>,
}

impl<'m> Rested<'m> {
    /// Boots the image for a machine and lets it come to rest. `debug`: how that helps to find a fault.
    ///
    /// # Errors
    /// A machine or settings that this kernel can't have, and whatever its code does that no kernel may.
    pub fn of(ground: Ground<'m>, debug: &mut Debug<'_>) -> Result<Rested<'m>> {
        if ground.machine.turns.is_some() && ground.level.weaves() {
            let text =
                format!("{} has CPUs that take turns: none acts while another one does", ground.machine.name);
            return Err(Error::input(text).help("take level counted, or a machine without [turns]"));
        }
        let (kernel, preempt) = ground.boot(debug)?;
        let nobody = Box::leak(Box::new(Discard));
        let mut engine = Engine::new(ground.machine, kernel, (ground.history, preempt), nobody);
        if ground.background {
            make_own(&mut engine);
        }
        rest(&mut engine)?;
        set(&mut engine.kernel, ground.settings.iter().filter(|setting| setting.is_of_server()))?;
        let blocks = ground.plain.map(|plain| Blocks::of(ground.object, plain)).transpose()?;
        let rise = blocks.map(|blocks| Rise { at: 0, level: ground.level, machine: ground.beside, blocks });
        Ok(Rested { engine, settings: ground.settings, object: ground.object, rise })
    }

    /// This process is a copy of the one in which the machine came to rest.
    ///
    /// # Errors
    /// When the system refuses to watch it.
    pub fn copied(&self) -> Result<()> {
        watchdog::watch()
    }
}

impl Ground<'_> {
    /// The image boots for a machine. Returns its kernel, with its settings from the start, and their preemption model.
    fn boot(&self, debug: &mut Debug<'_>) -> Result<(Kernel, Preempt)> {
        let at = booted_at_ns(self.machine.topology.nr_cpus());
        let mut kernel = Kernel::boot(self.object, self.machine, SEED, at, debug)?;
        set(&mut kernel, self.settings.iter().filter(|setting| !setting.is_of_server()))?;
        let preempt = self.settings.iter().filter_map(Setting::preempt).next_back().unwrap_or(self.preempt);
        Ok((kernel, preempt))
    }
}

/// The machine comes to rest: each CPU runs its kernel threads once, as at a boot, goes idle, and stops its tick.
/// Without that no CPU would have an `idle_stamp`, by which the slow path chooses among idle CPUs. Once its domains are
/// due, each CPU balances them with nothing to move, as on a machine that was up for long: then intervals are long,
/// SIS_UTIL scans all of a cache, and no runqueue counts as overloaded. Each balances once more half-way. By then the
/// boot's remains in the averages of its queues, by which new tasks are judged, have decayed. Nobody watches, and time
/// begins anew afterwards.
fn rest(engine: &mut Engine<'_>) -> Result<()> {
    for cpu in engine.cpus.ids() {
        engine.enter(cpu);
        for pid in engine.kernel.kthreads(cpu) {
            engine.kernel.image().wake(pid, false);
        }
        engine.take_notes(cpu);
        engine.begin(cpu, Next::Settle, 0);
    }
    let alive = engine.alive;
    engine.alive = 1;
    let nothing = &mut Outside::nothing();
    let (due, end) = (first_due_ns(engine.nr_cpus()), rest_ns(engine.nr_cpus()));
    for at in [due, end / 2] {
        drive(engine, SEED, &Clock::up_to(at), nothing)?;
        engine.now = at;
        for cpu in engine.cpus.ids() {
            engine.enter(cpu);
            engine.kernel.image().irq_idle_tick();
            engine.settle_after(cpu);
        }
    }
    drive(engine, SEED, &Clock::up_to(end), nothing)?;
    engine.cpus.ids().for_each(|cpu| engine.cpus[cpu].shift(end));
    (engine.now, engine.epoch, engine.alive, engine.steps) = (0, engine.epoch + end, alive, 0);
    engine.findings.begin();
    engine.accounts = Accounts::default();
    engine.board.counts = Counts::default();
    engine.watched = true;
    Ok(())
}

/// The machine's own tasks, which sleep through the rest. A timer ends their sleep in the run, as on a machine that was
/// up; when, [`draw_arrivals`] says.
fn make_own(engine: &mut Engine<'_>) {
    let rest_ns = rest_ns(engine.nr_cpus());
    for mut own in of_machine(engine.board.machine, Stream::new(SEED)) {
        own.program = own.program.asleep(rest_ns);
        let id = engine.tasks.push(Task { allowed: own.allowed.take(), ..Task::new(own.attr) });
        engine.board.threads.push(own.into_thread(TIMER_SLACK_NS));
        engine.start_task(id);
    }
}

/// The arrivals of the machine's own tasks, whose ids begin at `own`, are those of a seed.
pub fn draw_arrivals(engine: &mut Engine<'_>, seed: u64, own: usize) {
    let drawn = of_machine(engine.board.machine, Stream::new(seed));
    for (task, own) in (own..engine.tasks.len()).map(TaskId::from).zip(drawn) {
        let (pid, until) = (engine.tasks[task].pid, engine.kernel_time(own.program.first()));
        let cpu = engine.tasks[task].placed.unwrap_or(own.home);
        engine.enter(cpu);
        engine.kernel.image().set_timer(pid, until, TIMER_SLACK_NS);
        engine.take_notes(cpu);
        engine.board.threads[task].program = Box::new(own.program);
    }
}
