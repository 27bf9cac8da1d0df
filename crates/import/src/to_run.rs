//! Makes the record of a recording, the same as that of a run whose events were watched.

use crate::Imported;
use crate::task_table::Audience;
use schedlab_analyse::{Analyser, TaskName};
use schedlab_base::{Ns, Origin, Result, TaskId, printable};
use schedlab_kernel::Variant;
use schedlab_machine::Machine;
use schedlab_record::{Findings, Observe, RECORD_SCHEMA, Record, version_of};
use schedlab_trace::{Actor, Event, EventKind, Sink};
use std::collections::BTreeMap;

/// The workload's name in records of recordings.
pub const WORKLOAD: &str = "recording";
/// The kind of workload in their descriptions.
pub const KIND: &str = "recording";
pub const LOAD: &str = "recorded";
/// The name of an unknown machine.
pub const MACHINE: &str = "recorded machine";
/// Bits of a recording's seed: as many as any JSON reader keeps exactly.
const SEED_BITS: u32 = 48;

/// Which tasks count as the workload; if nothing is chosen, all except [`ChosenTasks::but`].
#[derive(Clone, Debug, Default)]
pub struct ChosenTasks {
    /// The process that makes the recording, if it must not count.
    pub but: Option<u32>,
    /// Whether children of a chosen task are chosen, too.
    pub descendants: bool,
    /// Names; `*` at the end matches any rest.
    pub names: Vec<String>,
    /// Numbers of threads or processes.
    pub pids: Vec<u32>,
}

impl ChosenTasks {
    /// Whether nothing is chosen.
    pub fn is_all(&self) -> bool {
        self.names.is_empty() && self.pids.is_empty()
    }
    /// Whether a task of that name is chosen by its name.
    pub fn names_task(&self, task: &str) -> bool {
        self.names.iter().any(|name| match name.strip_suffix('*') {
            Some(begin) => task.starts_with(begin),
            None => task == *name,
        })
    }
    pub fn has(&self, actor: &Actor) -> bool {
        let is_but = self.but.is_some_and(|but| actor.tid == but || actor.process == but);
        (self.is_all() && !is_but)
            || self.pids.contains(&actor.tid)
            || (actor.process != 0 && self.pids.contains(&actor.process))
            || self.names_task(&actor.name)
    }
}

/// The audience that makes the record.
pub struct RunBuilder {
    analyser: Analyser,
    chosen: ChosenTasks,
    /// Whether each task is outside of the workload.
    background: Vec<bool>,
    /// Whether each task is chosen because its parent is.
    born: Vec<bool>,
}

impl RunBuilder {
    /// An audience that counts the chosen tasks. If the machine is given, it also reports to which CPUs woken tasks
    /// went.
    pub fn new(chosen: ChosenTasks, machine: Option<&Machine>) -> RunBuilder {
        let nr_cpus = machine.map_or(0, |m| m.topology.nr_cpus());
        let mut analyser = Analyser::new(nr_cpus, Vec::new(), Vec::new(), Ns::ZERO);
        if let Some(machine) = machine {
            analyser = analyser.on(&machine.topology);
        }
        RunBuilder { analyser, chosen, background: Vec::new(), born: Vec::new() }
    }

    fn name(&self, actor: &Actor) -> TaskName {
        TaskName { name: actor.name.clone(), background: !self.chosen.has(actor) }
    }

    /// A task was made: it is chosen if its parent is.
    #[cold]
    fn born(&mut self, task: TaskId, parent: Option<TaskId>) {
        let is_chosen = |task: TaskId| self.background.get(task.index()) == Some(&false);
        if !parent.is_some_and(is_chosen) || is_chosen(task) {
            return;
        }
        let Some(name) = self.analyser.names().get(task.index()).map(|t| t.name.clone()) else { return };
        if task.index() >= self.born.len() {
            self.born.resize(task.index() + 1, false);
        }
        (self.born[task.index()], self.background[task.index()]) = (true, false);
        self.analyser.rename(task, TaskName { name, background: false });
    }

    pub fn finish(self, imported: &mut Imported) -> Findings {
        for (actor, background) in imported.cast.tasks.iter_mut().zip(&self.background) {
            actor.background = *background;
        }
        let end = imported.cast.end;
        let mut found = self.analyser.finish(end);
        found.keep_what_tracepoints_show();
        if !imported.kinds.has_wakeups() {
            found.keep_what_switches_show();
        }
        found.duration = end;
        found.warnings.extend(imported.warnings());
        found
    }
}

impl Sink for RunBuilder {
    #[inline]
    fn event(&mut self, event: &Event) {
        if let EventKind::Forked { task, parent } = event.kind
            && self.chosen.descendants
        {
            self.born(task, parent);
        }
        self.analyser.event(event);
    }
}

impl Audience for RunBuilder {
    fn meet(&mut self, _: TaskId, actor: &Actor) {
        let name = self.name(actor);
        self.background.push(name.background);
        let task = self.analyser.meet(name);
        self.analyser.in_group(task, actor.group.as_deref());
    }
    fn changed(&mut self, task: TaskId, actor: &Actor) {
        let mut name = self.name(actor);
        name.background &= !self.born.get(task.index()).copied().unwrap_or(false);
        self.background[task.index()] = name.background;
        self.analyser.rename(task, name);
    }
}

/// Facts about a recording, given by the user.
#[derive(Clone, Debug)]
pub struct Labels {
    /// The variant's name in tables.
    pub variant: String,
    /// The workload's name, if one is given.
    pub workload: Option<String>,
    /// The kernel's release, if the recording does not report it.
    pub kernel: Option<String>,
    pub machine: Option<Machine>,
    /// The file's name, to be shown.
    pub file: Option<String>,
}

/// The record of a recording. Recordings of one name are runs of one cell; the seed comes from the file's bytes, so
/// that the same file is the same run.
///
/// # Errors
/// An internal error.
pub fn record(
    about: Labels,
    chosen: &ChosenTasks,
    imported: &Imported,
    mut found: Findings,
) -> Result<Record> {
    let told = Some(imported.cast.release.clone()).filter(|r| !r.is_empty());
    let told = told.map(|release| printable::name(&release).into_owned());
    let kernel = told.or(about.kernel).unwrap_or_else(|| "unknown".to_owned());
    let mut environment = BTreeMap::from([
        ("recording.records".to_owned(), imported.records.to_string()),
        ("recording.cpus".to_owned(), imported.cast.cpus.to_string()),
        ("schedlab.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
    ]);
    if let Some(file) = about.file {
        environment.insert("recording.file".to_owned(), file);
    }
    if let Some(form) = imported.form {
        environment.insert("recording.form".to_owned(), form.name().to_owned());
    }
    if kernel != "unknown" {
        environment.insert("kernel.release".to_owned(), kernel.clone());
    }
    found.environment.extend(environment);
    let mut spec = serde_json::json!({ "kind": KIND });
    if !chosen.is_all() {
        spec["params"] = serde_json::json!({ "tasks": chosen.names, "pids": chosen.pids });
    }
    let backend = Origin::from_word(Origin::RECORDING);
    Ok(Record {
        schema: RECORD_SCHEMA.to_owned(),
        model: version_of(&backend),
        backend,
        machine: about.machine.map_or_else(|| Machine::unknown(MACHINE), Ok)?,
        drawn: Vec::new(),
        variant: Variant { name: about.variant, ..Variant::plain(&kernel) },
        kernel,
        resolved: None,
        guest: None,
        code: None,
        observe: Some(Observe::Events),
        workload: about.workload.unwrap_or_else(|| WORKLOAD.to_owned()),
        spec,
        load: LOAD.to_owned(),
        seed: imported.fingerprint & ((1 << SEED_BITS) - 1),
        found,
    })
}
