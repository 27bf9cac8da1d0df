//! Programs, channels, locks of user space, caches and turns under both kernels: one body, run by our rules and by the
//! kernel's own code.
//!
//! A body asks for figures of runs and says what they must be. A process holds one image, which makes one run. So under
//! the code this executable starts itself again for each run, with the figures of the body's runs before: the second
//! process passes over these, makes the next run, and ends with its figures. Without a source package the code's part
//! is skipped.

mod caches;
mod channels;
mod locks;
mod times;
mod turns;

#[allow(dead_code, reason = "sim's tests use all of it")]
#[path = "../../../../sim/tests/it/support/mod.rs"]
mod support;

use crate::again::{AGAIN, image_with};
use schedlab_kernel::preempt::Preempt;
use schedlab_kernel::{History, Level};
use schedlab_kernels::code;
use schedlab_machine::Machine;
use schedlab_transplant::{Debug, Ground, Rested, Setup, simulate};
use schedlab_workload::{Built, Op};
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{Load, Run};

/// The variable with the figures of the runs before: a run a line.
const MADE: &str = "SCHEDLAB_TEST_FIGURES";

/// What runs a body.
enum Under {
    /// Our rules, as this profile.
    Rules(&'static str),
    /// The code of this image.
    Code(PathBuf),
}

/// A kernel on which a body makes runs.
pub struct On {
    test: &'static str,
    under: Under,
    made: Vec<Vec<u64>>,
    at: usize,
}

/// Runs a body by our rules, as each of the profiles, and by the kernel's own code. `test` is the calling test's path.
pub fn on_both(test: &'static str, profiles: &[&'static str], body: impl Fn(&mut On)) {
    let on = |under, made| body(&mut On { test, under, made, at: 0 });
    if let Some(object) = std::env::var_os(AGAIN) {
        let made = std::env::var(MADE).unwrap();
        return on(Under::Code(object.into()), made.lines().map(figures).collect());
    }
    profiles.iter().for_each(|profile| on(Under::Rules(profile), Vec::new()));
    if let Some(made) = image_with(Vec::new(), None) {
        on(Under::Code(made.image.object), Vec::new());
    }
}

fn figures(line: &str) -> Vec<u64> {
    line.split_whitespace().map(|word| word.parse().unwrap()).collect()
}

fn words(figures: &[u64]) -> String {
    figures.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
}

impl On {
    /// Figures of a run of the workload. Nothing else of the run comes back.
    pub fn figures(&mut self, machine: &Machine, load: Load, of: impl FnOnce(&Run) -> Vec<u64>) -> Vec<u64> {
        let object = match &self.under {
            Under::Rules(profile) => return of(&support::run(machine, profile, load)),
            Under::Code(object) => object,
        };
        self.at += 1;
        if let Some(made) = self.made.get(self.at - 1) {
            return made.clone();
        }
        if std::env::var_os(AGAIN).is_some() {
            println!("\n= {}", words(&of(&by_code(object, machine, load.built()))));
            std::process::exit(0);
        }
        let before: Vec<String> = self.made.iter().map(|made| words(made)).collect();
        let said = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", self.test, "--nocapture", "--test-threads=1"])
            .envs([(AGAIN, object.as_os_str()), (MADE, before.join("\n").as_ref())])
            .output()
            .unwrap();
        let (out, err) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
        let line = out.lines().find_map(|line| line.strip_prefix("= "));
        let made = figures(line.unwrap_or_else(|| panic!("{out}\n{err}")));
        self.made.push(made.clone());
        made
    }
}

/// A run by the image's code, with its board walked after every step.
fn by_code(object: &Path, machine: &Machine, workload: Built) -> Run {
    let image = code::open(object.parent().unwrap()).unwrap();
    let models = ["PREEMPT_NONE", "PREEMPT_VOLUNTARY", "PREEMPT", "PREEMPT_LAZY"];
    let preempt = models.iter().rposition(|model| image.has_option(model)).unwrap_or_default();
    support::checked(machine, workload, |workload, sink| {
        let ground = Ground {
            machine,
            beside: machine,
            object,
            plain: None,
            level: Level::Free,
            history: History::of(image.version()?),
            preempt: Preempt::numbered(preempt as u8),
            settings: Vec::new(),
            background: false,
        };
        let setup = Setup {
            ext: None,
            later_ext: Vec::new(),
            changes: Vec::new(),
            workload,
            guests: Vec::new(),
            peers: Vec::new(),
            seed: 1,
            rules: None,
            walk_every: Some(1),
            until: None,
            stop: None,
            clock: None,
        };
        let mut debug = Debug { guard: false, loaded: &mut || {} };
        simulate(Rested::of(ground, &mut debug)?, setup, sink)
    })
}

/// A machine whose idle CPUs poll, or halt at no price: no exit latency blurs the arithmetic.
fn polling(name: &str) -> Machine {
    Machine { idle_states: Vec::new(), ..support::machine(name) }
}

/// Goes over `kb` KB of the task's memory, `rounds` times.
fn touch(kb: u32, rounds: u32) -> Op {
    Op::Touch { kb, rounds }
}

/// Adds a task with that much memory.
fn with_memory(load: &mut Load, on: &str, kb: u32, ops: Vec<Op>) -> schedlab_base::TaskId {
    let task = load.task("task", Some(on), support::once(ops));
    load.builder.edit(task).footprint_kb = kb;
    task
}
