//! A parcel: a file of runs that another process makes, on this machine or elsewhere.
//!
//! A run is a pure function of its cell and its seed. A parcel holds cells as plain data, resolved to the last figure,
//! and the runs of each of its tasks. So the worker ([`worker`]) needs no experiment, no machine file and no table of
//! variants: it makes the cells from the parcel. A cell's hash covers all that its runs depend on, the version of the
//! model included. The worker computes it again and refuses a cell with another hash.
//!
//! A task's runs are in blocks. The runs of a block are made in order. In a live task (`together`) a block is an
//! interleaved round trip of the variants (A B B A). Its runs are stored when all of them are made, so that all come
//! from one node. A worker that is killed while it stores them leaves a part of the block. The next task makes the
//! rest, maybe on another node.

pub mod place;
pub mod results;
pub mod worker;

use schedlab_base::content_hash;
use schedlab_base::{Error, Result, Spot, input};
use schedlab_lab::make::packed_cell::PackedCell;
use schedlab_lab::make::plan::{Plan, Run};
use schedlab_record::store::words;
use schedlab_record::store_listing::is_cell;
use schedlab_record::{MODEL, WATCHING};
use serde::{Deserialize, Serialize};
use std::path::Path;

pub const SCHEMA: &str = "schedlab/parcel/1";
/// The longest parcel that is read unless `SCHEDLAB_MAX_INPUT_MB` says otherwise, MiB.
const MAX_MB: u64 = 1024;

/// Cells, and their runs that are to be made.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parcel {
    /// [`SCHEMA`].
    pub schema: String,
    /// The schedlab that wrote it: its version, its model's, and that of how it watches real kernels.
    pub version: Maker,
    /// The experiment's name, for people.
    pub experiment: String,
    /// How runs are made.
    pub how: Protocol,
    /// Files kept next to every record.
    pub attach: Vec<Attached>,
    pub cells: Vec<PackedCell>,
    pub tasks: Vec<Task>,
}

/// The versions on which results depend.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Maker {
    /// Version of schedlab.
    pub schedlab: String,
    /// Version of the simulator's model.
    pub model: u32,
    /// Version of how runs of real kernels are made and watched.
    pub watching: u32,
}

impl Maker {
    /// This schedlab.
    pub fn here() -> Maker {
        Maker { schedlab: env!("CARGO_PKG_VERSION").to_owned(), model: MODEL, watching: WATCHING }
    }
    /// Checks that this schedlab makes the runs that the other one would.
    ///
    /// # Errors
    /// When a version differs.
    pub fn check(&self, what: &str) -> Result<()> {
        let here = Maker::here();
        if *self == here {
            return Ok(());
        }
        let words =
            |m: &Maker| format!("schedlab {}, model {}, watching {}", m.schedlab, m.model, m.watching);
        let text = format!("{what} is of {}, and this is {}", words(self), words(&here));
        Err(Error::input(text).help("use the same schedlab on both sides"))
    }
}

/// How runs are made, in addition to their cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Protocol {
    /// Whether their events are kept.
    pub events: bool,
    /// Whether they are runs of a validation, which probes costs next to live runs and repeats disturbed runs.
    pub validation: bool,
}

/// A file kept next to every record.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attached {
    pub name: String,
    pub text: String,
}

/// The runs that one task of a job array makes.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// Whether a block is stored at its end, and its runs are made one at a time.
    pub together: bool,
    /// Blocks of runs, each a cell's index and a seed.
    pub blocks: Vec<Vec<(usize, u64)>>,
}

impl Task {
    pub fn runs(&self) -> impl Iterator<Item = (usize, u64)> {
        self.blocks.iter().flatten().copied()
    }
}

/// The contents of a parcel other than the plan's cells.
pub struct Contents<'a> {
    pub experiment: &'a str,
    /// How runs are made.
    pub how: Protocol,
    /// Files kept next to every record.
    pub attach: &'a [(&'a str, &'a [u8])],
}

impl Parcel {
    /// The parcel of a plan's runs, cut into tasks of indices into the plan's cells.
    pub fn of(plan: &Plan, tasks: Vec<Task>, contents: &Contents<'_>) -> Result<Parcel> {
        let mut at: Vec<Option<usize>> = vec![None; plan.cells.len()];
        let mut cells = Vec::new();
        let mut tasks = tasks;
        for (cell, _) in tasks.iter_mut().flat_map(|t| &mut t.blocks).flatten() {
            let new = match at[*cell] {
                Some(new) => new,
                None => {
                    cells.push(PackedCell::of(&plan.cells[*cell])?);
                    cells.len() - 1
                }
            };
            at[*cell] = Some(new);
            *cell = new;
        }
        let text = |(name, bytes): &(&str, &[u8])| Attached {
            name: (*name).to_owned(),
            text: String::from_utf8_lossy(bytes).into_owned(),
        };
        Ok(Parcel {
            schema: SCHEMA.to_owned(),
            version: Maker::here(),
            experiment: contents.experiment.to_owned(),
            how: contents.how,
            attach: contents.attach.iter().map(text).collect(),
            cells,
            tasks,
        })
    }
    /// The parcel's text.
    ///
    /// # Errors
    /// When it can't be written as JSON (a fault of schedlab).
    pub fn text(&self) -> Result<String> {
        let text = serde_json::to_string(self);
        text.map(|t| t + "\n").map_err(|e| Error::internal(format!("a parcel can't be written as JSON: {e}")))
    }
    /// The name of that text: 32 digits.
    pub fn name(text: &str) -> String {
        content_hash(text.as_bytes())
    }
    /// Reads a parcel.
    ///
    /// # Errors
    /// When it can't be read, is damaged, is not a parcel, or is of another version.
    pub fn read(file: &Path) -> Result<Parcel> {
        let parcel = Parcel::read_any(file)?;
        parcel.version.check("the parcel").map_err(|e| e.at(Spot::file(file)))?;
        Ok(parcel)
    }
    /// Reads a parcel of any version of the model, to look at its tasks.
    ///
    /// # Errors
    /// When it can't be read, is damaged, or is not a parcel.
    pub fn read_any(file: &Path) -> Result<Parcel> {
        let text = input::text_up_to(file, MAX_MB)?;
        let wrong = |e: serde_json::Error| {
            let spot = Spot { file: file.to_owned(), line_column: Some((e.line(), e.column())) };
            Error::input(format!("not a whole parcel: {}", words(&e)))
                .help("'schedlab pack' of this version writes one")
                .at(spot)
        };
        #[derive(Deserialize)]
        struct ParcelHead {
            schema: String,
        }
        let head: ParcelHead = serde_json::from_str(&text).map_err(wrong)?;
        if head.schema != SCHEMA {
            let text = format!("schema is '{}', and '{SCHEMA}' was expected", head.schema);
            return Err(Error::input(text).help("'schedlab pack' writes parcels").at(Spot::file(file)));
        }
        let parcel: Parcel = serde_json::from_str(&text).map_err(wrong)?;
        let cells = parcel.cells.len();
        if parcel.tasks.iter().flat_map(Task::runs).any(|(cell, _)| cell >= cells) {
            return Err(Error::input("the parcel has a run of a cell that it does not have")
                .help("it is damaged: make it again")
                .at(Spot::file(file)));
        }
        // These names become paths below the store.
        for (at, Attached { name, .. }) in parcel.attach.iter().enumerate() {
            if !results::is_beside(name) || parcel.attach[..at].iter().any(|a| a.name == *name) {
                return Err(Error::input(format!("the parcel has a file '{name}', which no run has"))
                    .help("'schedlab pack' of this version writes none such: make it again")
                    .at(Spot::file(file)));
            }
        }
        if let Some(cell) = parcel.cells.iter().find(|cell| !is_cell(&cell.hash)) {
            return Err(Error::input(format!(
                "the parcel has a cell '{}', which is not a cell's name",
                cell.hash
            ))
            .help("it is damaged: make it again")
            .at(Spot::file(file)));
        }
        Ok(parcel)
    }
    pub fn runs(&self) -> usize {
        self.tasks.iter().map(|t| t.runs().count()).sum()
    }
    /// A plan of some of its runs. Cells without such a run are not built: this machine may be unable to run them.
    pub fn plan(&self, runs: &[(usize, u64)]) -> Result<Plan> {
        let mut at: Vec<Option<usize>> = vec![None; self.cells.len()];
        let mut plan = Plan { cells: Vec::new(), runs: Vec::new(), warnings: Vec::new() };
        for (cell, seed) in runs {
            let new = match at[*cell] {
                Some(new) => new,
                None => {
                    plan.cells.push(self.cells[*cell].cell()?);
                    plan.cells.len() - 1
                }
            };
            at[*cell] = Some(new);
            plan.runs.push(Run { cell: new, seed: *seed });
        }
        Ok(plan)
    }
}

#[cfg(test)]
mod tests;
