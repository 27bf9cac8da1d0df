//! The replay in which the settings of `schedlab tune --prune` race before they run under the workload.

use super::tune::DEFAULT;
use crate::{common, interrupt};
use schedlab_base::temp::write_whole;
use schedlab_base::{Backend, Error, ErrorKind, Result, content_hash};
use schedlab_compare::runs::Filter;
use schedlab_lab::ask::experiment::{self, Experiment, write::quoted};
use schedlab_lab::ask::{here, variant_words};
use schedlab_lab::stored::events::Events;
use schedlab_lab::stored::named::RunChoice;
use schedlab_lab::stored::replay::fit;
use schedlab_machine::Machine;
use schedlab_machine::sysfs::HOST;
use std::path::Path;

/// What a replay can be better in: its sleeps are as long as recorded, so its tasks' waits decide.
const METRIC: &str = "run_delay.total";

/// The backend and the run of `[code:]RUN`.
pub fn parts(text: &str) -> (Backend, &str) {
    match text.split_once(':') {
        Some(("code", run)) => (Backend::Code, run),
        Some(("sim", run)) => (Backend::Sim, run),
        _ => (Backend::Sim, text),
    }
}

/// The replay of a recorded run on this machine, under the kernel that stands for the running one. Its schedule is
/// kept beside the runs.
///
/// # Errors
/// When there is no such run or its events are missing, and for backend code without a kernel.
pub fn of(run: &str, backend: Backend, kernel: Option<&String>, out: &Path) -> Result<Experiment> {
    let found = RunChoice { store: out, filter: Filter::default(), seed: None }.find(run)?;
    let record = found.record()?;
    let mut events = Events::of(&found, &record)?.clocked(&common::SIMULATED);
    let machine = Machine::load(HOST)?;
    let recording = fit::read(&mut events, &machine, interrupt::stop_flag()?)?;
    let recording = recording
        .ok_or_else(|| Error::new(ErrorKind::CheckFailed, "the recording was not read to its end"))?;
    std::fs::create_dir_all(out).map_err(|e| Error::io(out, "make", &e))?;
    // Stored experiments name it, so another recording's has another name.
    let text = recording.schedule.text();
    let mark: String = content_hash(text.as_bytes()).chars().take(8).collect();
    let schedule = std::path::absolute(out.join(format!("tune-{mark}.sched")));
    let schedule = schedule.map_err(|e| Error::io(out, "find", &e))?;
    write_whole(&schedule, text.as_bytes())?;
    let kernel = match (kernel, backend) {
        (Some(kernel), _) => kernel.clone(),
        (None, Backend::Code) => {
            return Err(Error::input("--prune code: no kernel is named")
                .help("--kernel 6.12, or the folder of the running kernel's tree"));
        }
        (None, _) => variant_words::default_kernel(Backend::Sim, HOST)?,
    };
    let text = format!(
        "name = \"tune-replay\"\nmachine = {}\nbaseline = {default}\nmetrics = [{}]\n[workload]\nschedule = {}\n\
         [[variant]]\nname = {default}\nkernel = {}\n",
        quoted(HOST),
        quoted(METRIC),
        quoted(&schedule.display().to_string()),
        quoted(&kernel),
        default = quoted(DEFAULT),
    );
    experiment::parse(Path::new("tune-replay.toml"), &text, here::cpus())
}
