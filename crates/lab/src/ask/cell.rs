//! A cell: the common part of all runs of one workload, load and variant on a backend.

use crate::ask::code::image::CodeImage;
use crate::ask::code::settings::settings;
use crate::ask::cutoffs;
use schedlab_base::{Backend, Error, Origin, Result, Version};
use schedlab_compare::comparison::Folders;
use schedlab_guest::{Guest, shape};
use schedlab_kernel::{Kernel, Variant, variant::RUNNING};
use schedlab_machine::{Drawn, Machine, Span};
use schedlab_record::{CellKey, Computer, Findings, Observe, RECORD_SCHEMA, Record, environment, version_of};
use schedlab_workload::Spec;
use schedlab_workload::command::only_live;
use std::path::Path;
use std::sync::Arc;

/// The folders of cells in a store, by the cells' names.
pub fn folders(cells: &[Cell], root: &Path) -> Result<Folders> {
    let names: Vec<String> = cells.iter().map(Cell::hash).collect::<Result<_>>()?;
    Ok(Folders::of_cells(names, root))
}

/// The common part of a cell's runs.
#[derive(Clone, PartialEq, Debug)]
pub struct Cell {
    /// The backend that runs it.
    pub backend: Backend,
    /// The machine; without background tasks when the experiment switches them off.
    pub machine: Arc<Machine>,
    /// Figures of the machine that each run draws from their ranges. Empty: all are as stated.
    pub uncertain: Vec<Span>,
    /// The kernel's name: profile or release.
    pub kernel: String,
    /// The simulated kernel; `None` on the live one.
    pub resolved: Option<Kernel>,
    /// The guest in which it runs; `None` on other backends.
    pub guest: Option<Guest>,
    /// The kernel's code that runs; `None` on other backends.
    pub code: Option<CodeImage>,
    pub variant: Variant,
    pub spec: Spec,
    pub load: String,
    /// How closely a live run is watched.
    pub observe: Observe,
}

impl Cell {
    /// A cell of the simulator.
    ///
    /// # Errors
    /// When the kernel's tables do not have a name of the variant, or the machine is not fit for simulation.
    pub fn simulated(machine: &Arc<Machine>, variant: Variant, spec: Spec, load: String) -> Result<Cell> {
        if let Spec::Command(_) = spec {
            return Err(only_live());
        }
        machine.fit()?;
        spec.clone().with_groups(&variant.groups)?;
        let mut kernel = variant.resolve()?;
        let machine = if machine.kernels.is_empty() {
            machine.clone()
        } else {
            Arc::new(machine.under(kernel.version))
        };
        kernel.cutoffs = cutoffs::of_variant(&variant, &machine, kernel.version)?;
        let name = kernel.version.to_string();
        let of = Cell::of(Backend::Sim, machine, name, variant, spec, load);
        Ok(Cell { resolved: Some(kernel), ..of })
    }
    /// What cells of all backends have, watched by accounts.
    fn of(
        backend: Backend,
        machine: Arc<Machine>,
        kernel: String,
        variant: Variant,
        spec: Spec,
        load: String,
    ) -> Cell {
        let (uncertain, observe) = (Vec::new(), Observe::Accounts);
        let (resolved, guest, code) = (None, None, None);
        Cell { backend, machine, uncertain, kernel, resolved, guest, code, variant, spec, load, observe }
    }
    /// A cell of the running kernel as it is, watched by its own accounts, which cost nothing; `machine` is
    /// this host.
    pub fn live(machine: &Arc<Machine>, variant: Variant, spec: Spec, load: String) -> Cell {
        Cell::of(Backend::Host, machine.clone(), release(), variant, spec, load)
    }
    /// A cell of a kernel in a guest with that machine's topology. A command goes into the guest with its
    /// libraries.
    ///
    /// # Errors
    /// When QEMU can't build the machine.
    pub fn in_guest(
        machine: &Arc<Machine>,
        guest: Guest,
        variant: Variant,
        spec: Spec,
        load: String,
    ) -> Result<Cell> {
        let machine = Arc::new(shape::as_built(machine)?);
        spec.clone().with_groups(&variant.groups)?;
        let of = Cell::of(Backend::Vm, machine, guest.image.release.clone(), variant, spec, load);
        // The guest's init is root, so it may record events.
        Ok(Cell { guest: Some(guest), observe: Observe::Events, ..of })
    }
    /// A cell of the kernel's own code on a simulated machine.
    ///
    /// # Errors
    /// A command, which needs a real kernel, and a machine that is not fit for simulation.
    pub fn of_code(
        machine: &Arc<Machine>,
        image: CodeImage,
        variant: Variant,
        spec: Spec,
        load: String,
    ) -> Result<Cell> {
        if let Spec::Command(_) = spec {
            return Err(only_live());
        }
        machine.fit()?;
        spec.clone().with_groups(&variant.groups)?;
        if let Some(hz) = variant.tunables.get("hz").filter(|hz| **hz != image.hz) {
            let text = format!("variant '{}': hz = {hz}, and its image has {}", variant.name, image.hz);
            return Err(Error::input(text).help("leave --kernel out: its image is then built for that"));
        }
        settings(&variant.features, &variant.tunables, 1)
            .map_err(|e| e.context(format!("variant '{}'", variant.name)))?;
        let machine =
            if machine.kernels.is_empty() { machine.clone() } else { Arc::new(machine.under(image.version)) };
        let of = Cell::of(Backend::Code, machine, image.version.to_string(), variant, spec, load);
        Ok(Cell { code: Some(image), ..of })
    }
    /// The same cell with costs drawn from their ranges for each run. Run i of every cell draws the same
    /// costs.
    ///
    /// # Errors
    /// When the cell is of a real kernel, or no figure of the machine has a range.
    pub fn with_uncertainty(self) -> Result<Cell> {
        if !self.is_simulated() {
            return Err(Error::input(
                "--uncertainty draws the costs of the simulator's steps; a real kernel has costs of its own",
            )
            .help("add --backend sim"));
        }
        let uncertain = self.machine.uncertain(self.counted());
        if uncertain.is_empty() {
            return Err(Error::input(format!("{}: no figure has a range to draw from", self.machine.name)));
        }
        Ok(Cell { uncertain, ..self })
    }
    /// The draws of the run with that seed.
    pub fn draw(&self, seed: u64) -> Vec<Drawn> {
        if self.uncertain.is_empty() { Vec::new() } else { self.machine.draw(seed, self.counted()) }
    }
    /// The name of the cell's folder in a store.
    ///
    /// # Errors
    /// When the workload can't be written as JSON (a fault of schedlab).
    pub fn hash(&self) -> Result<String> {
        let (spec, guest) = (self.spec_json()?, self.guest.as_ref().map(|g| g.setup(&self.machine)));
        let key = CellKey {
            backend: self.backend.into(),
            machine: &self.machine,
            uncertain: self.uncertain.iter().collect(),
            kernel: &self.kernel,
            resolved: self.resolved.as_ref(),
            guest: guest.as_ref(),
            code: self.code.as_ref().map(|c| &c.setup),
            variant: &self.variant,
            spec: &spec,
            load: &self.load,
            computer: (self.backend == Backend::Host).then(|| Computer::of(environment::here())).flatten(),
            observe: (!self.is_simulated()).then_some(self.observe),
        };
        Ok(key.hash())
    }
    /// The record of the run with that seed, in which this was found. Of a cell with draws it lacks the drawn figures.
    ///
    /// # Errors
    /// When the workload can't be written as JSON (a fault of schedlab).
    pub(crate) fn record(&self, seed: u64, found: Findings) -> Result<Record> {
        let backend = Origin::from(self.backend);
        Ok(Record {
            schema: RECORD_SCHEMA.to_owned(),
            model: version_of(&backend),
            backend,
            machine: (*self.machine).clone(),
            drawn: Vec::new(),
            kernel: self.kernel.clone(),
            resolved: self.resolved,
            guest: self.guest.as_ref().map(|g| g.setup(&self.machine)),
            code: self.code.as_ref().map(|c| c.setup.clone()),
            variant: self.variant.clone(),
            workload: self.spec.name().to_owned(),
            spec: self.spec_json()?,
            load: self.load.clone(),
            observe: (!self.is_simulated()).then_some(self.observe),
            seed,
            found,
        })
    }
    /// The release whose rules hold on its simulated machine; `None` on other backends.
    pub fn release(&self) -> Option<Version> {
        self.resolved.map(|k| k.version).or_else(|| self.code.as_ref().map(|c| c.version))
    }
    /// The release whose code is charged by its instructions; `None`: none is.
    fn counted(&self) -> Option<Version> {
        self.code.as_ref().filter(|code| code.setup.level.counts()).map(|code| code.version)
    }
    /// Whether its machine is simulated.
    pub fn is_simulated(&self) -> bool {
        self.backend.is_simulated()
    }
    /// Checks that a run of the cell was made on the computer that the cell names.
    ///
    /// # Errors
    /// When the computer has changed since: its kernel may have given up its clock source.
    pub fn check_computer(&self, record: &Record) -> Result<()> {
        let (then, now) = (Computer::of(environment::here()), Computer::of_run(record));
        if self.backend != Backend::Host || now.is_none() || then == now {
            return Ok(());
        }
        let text = format!("{}: this computer changed while runs were made", self.title());
        let clock = |c: Option<Computer>| c.map_or_else(String::new, |c| c.clocksource);
        let help = format!(
            "its clock source was {} and is {}; start again: further runs make another cell",
            clock(then),
            clock(now)
        );
        Err(Error::machine(text).help(help))
    }
    /// The workload with the variant's task groups, as it is built.
    ///
    /// # Errors
    /// When they don't go together.
    pub fn grouped(&self) -> Result<Spec> {
        self.spec.clone().with_groups(&self.variant.groups)
    }
    /// The workload as plain data.
    pub fn spec_json(&self) -> Result<serde_json::Value> {
        self.spec.to_json().map_err(|e| Error::internal(format!("workload as JSON: {e}")))
    }
    /// A few words that name the cell in progress and messages.
    pub fn title(&self) -> String {
        format!("{} {} {} on {}", self.spec.name(), self.load, self.variant.name, self.machine.name)
    }
}

/// The name of the running kernel's release.
fn release() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease")
        .map_or_else(|_| RUNNING.to_owned(), |t| t.trim().to_owned())
}
