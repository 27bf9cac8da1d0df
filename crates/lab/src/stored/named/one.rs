//! One stored run, by a name and by options that choose among many.

use super::{experiment_of, like_a_run};
use crate::ask::experiment::Experiment;
use crate::ask::studies;
use crate::make::plan::{Options, plan};
use schedlab_base::{Backend, Error, Result};
use schedlab_compare::runs::{self, CellSubject, Filter, ListedCell};
use schedlab_record::store::RECORD_FILE;
use schedlab_record::store_listing::is_cell;
use schedlab_record::{Record, RunDir, store};
use std::path::{Path, PathBuf};

/// The error for a path that is not a run; it says so if the path is a recording.
pub fn unless_recording(path: &Path, e: Error) -> Error {
    schedlab_import::form_at(path).map_or(e, |form| schedlab_import::not_a_run(path, form))
}

/// The choice of a run among many.
#[derive(Clone)]
pub struct RunChoice<'a> {
    /// Where the runs of experiments are stored.
    pub store: &'a Path,
    /// Which of their cells.
    pub filter: Filter,
    /// Which run; `None`: the first.
    pub seed: Option<u64>,
}

impl RunChoice<'_> {
    /// The run that a name means.
    pub fn find(&self, name: &str) -> Result<RunDir> {
        let path = Path::new(name);
        if path.is_dir() {
            return self.in_folder(path);
        }
        if let Some(experiment) = experiment_of(name)? {
            return self.of_experiment(&experiment);
        }
        if path.exists() {
            // A record's file stands for its folder. For another file the record's reader makes the error.
            let folder = path.parent().filter(|_| path.file_name().is_some_and(|n| n == RECORD_FILE));
            return match folder {
                Some(folder) => self.only(RunDir { path: folder.to_owned() }),
                None => {
                    let read = store::load(path).map_err(|e| unless_recording(path, e));
                    read.map(|_| RunDir { path: path.to_owned() })
                }
            };
        }
        let cells = runs::list(self.store).unwrap_or_default();
        match runs::find(&cells, name) {
            Ok(chosen) => {
                if let (Some(named), Some(asked)) = (chosen.seed, self.seed)
                    && named != asked
                {
                    return Err(Error::input(format!("{name} is the run of seed {named}, and --seed is {asked}"))
                        .help("leave one of them out"));
                }
                let wanted = RunChoice { seed: self.seed.or(chosen.seed), ..self.clone() };
                wanted.among(vec![chosen.cell], name)
            }
            // For a name that looks like a cell or a run, the store's error is more useful.
            Err(e) if !cells.is_empty() && like_a_run(name) => Err(e),
            Err(_) => Err(Error::input(format!("can't read {name}: there is no such run, cell or study"))
                .help("name a run's folder, ROOT/<cell>/<seed>, a cell that 'schedlab runs' lists, or an experiment's file")),
        }
    }

    /// The run, unless options choose among several: a single run leaves no choice.
    fn only(&self, run: RunDir) -> Result<RunDir> {
        if self.filter.is_empty() && self.seed.is_none() {
            return Ok(run);
        }
        Err(Error::input(format!("{} is one run already", run.path.display()))
            .help("--load, --variant, --seed and the like choose among the runs of an experiment or a store"))
    }

    fn in_folder(&self, path: &Path) -> Result<RunDir> {
        if path.join(RECORD_FILE).is_file() {
            return self.only(RunDir { path: path.to_owned() });
        }
        let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let name = whole.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let cells = match whole.parent().filter(|_| is_cell(&name)) {
            Some(store) => {
                // Messages name the folder as the user did, except for `.`, which has no name.
                let named = path.parent().filter(|p| !p.as_os_str().is_empty() && path.ends_with(&name));
                runs::list(named.unwrap_or(store))?.into_iter().filter(|c| c.held.name == name).collect()
            }
            None => runs::list(path)?,
        };
        if cells.is_empty() {
            // The reader's error says that this is not a run.
            let read = store::load(path).map_err(|e| unless_recording(path, e));
            return read.map(|_| RunDir { path: path.to_owned() });
        }
        self.among(cells, &path.display().to_string())
    }

    /// The run of an experiment.
    fn of_experiment(&self, e: &Experiment) -> Result<RunDir> {
        self.among(self.cells_of(e)?, &e.name)
    }

    /// The stored cells of an experiment: the simulated ones that it would find, the real ones that it made, and the
    /// simulated ones that it made along with these.
    pub fn cells_of(&self, e: &Experiment) -> Result<Vec<ListedCell>> {
        let planned = plan(e, Backend::Sim, Options::default()).map(|p| p.cells).unwrap_or_default();
        let names = planned.iter().map(|c| c.hash()).collect::<Result<Vec<_>>>()?;
        let belongs = |c: &ListedCell| {
            let made =
                c.experiments.contains(&e.name) && c.of.as_ref().is_some_and(|of| of.backend != Backend::Sim);
            names.contains(&c.held.name) || made
        };
        let none = || {
            let again = if studies::STUDIES.iter().any(|(name, text)| *name == e.name && *text == e.text) {
                format!("schedlab study {}", e.name)
            } else {
                format!("schedlab run {}", e.file.display())
            };
            Error::input(format!("no run of {} is stored in {}", e.name, self.store.display()))
                .help(format!("'{again}' makes them; --out names another store"))
        };
        let all = runs::list(self.store).map_err(|_| none())?;
        let mut cells: Vec<ListedCell> = all.iter().filter(|c| belongs(c)).cloned().collect();
        let is_twin = |c: &&ListedCell| c.experiments.contains(&e.name) && is_beside(c, &cells);
        let twins: Vec<ListedCell> = all.iter().filter(|c| !belongs(c)).filter(is_twin).cloned().collect();
        cells.extend(twins);
        if cells.is_empty() { Err(none()) } else { Ok(cells) }
    }

    /// The run of the only remaining cell.
    fn among(&self, cells: Vec<ListedCell>, of: &str) -> Result<RunDir> {
        let mut left = self.filter.choose(cells)?;
        // Cells that this version would find again come before others.
        if left.iter().any(|c| c.outdated.is_none()) {
            left.retain(|c| c.outdated.is_none());
        }
        match &left[..] {
            [] => Err(Error::input(format!("{of} has no run with all of that"))
                .help("'schedlab runs' lists the stored cells")),
            [cell] => self.run_of(cell),
            several => Err(ambiguous(of, several)),
        }
    }

    fn run_of(&self, cell: &ListedCell) -> Result<RunDir> {
        let run = match self.seed {
            Some(seed) => cell.run(seed),
            None => cell.held.runs.first(),
        };
        let run = run.ok_or_else(|| {
            let what = self.seed.map_or_else(|| "finished run".to_owned(), |s| format!("run of seed {s}"));
            Error::input(format!("{} has no {what}", cell.folder))
                .help(format!("its seeds: {}", runs::seeds(&cell.seeds)))
        })?;
        Ok(run.run.clone())
    }
}

/// Whether a simulated cell has the load and variant of a real one among others. Variants that name real kernels have
/// other names in the simulator's plan than as simulations for guests.
fn is_beside(cell: &ListedCell, others: &[ListedCell]) -> bool {
    let place = |c: &ListedCell| {
        let of = c.of.as_ref()?;
        Some((
            [&of.workload, &of.machine, &of.load, &of.variant].map(Clone::clone),
            of.backend == Backend::Sim,
        ))
    };
    let Some((own, true)) = place(cell) else { return false };
    others.iter().filter_map(place).any(|(other, is_simulated)| other == own && !is_simulated)
}

/// Takes one word of a cell's identity.
type Word = fn(&CellSubject) -> &str;

/// The error for several cells: it lists the options that distinguish them.
fn ambiguous(of: &str, cells: &[ListedCell]) -> Error {
    let all: Vec<&CellSubject> = cells.iter().filter_map(|c| c.of.as_ref()).collect();
    let words: [(&str, Word); 5] = [
        ("workload", |o| &o.workload),
        ("backend", |o| o.backend.name()),
        ("machine", |o| &o.machine),
        ("load", |o| &o.load),
        ("variant", |o| &o.variant),
    ];
    let mut options = Vec::new();
    for (name, get) in words {
        let mut values: Vec<&str> = Vec::new();
        all.iter().map(|o| get(o)).for_each(|v| {
            if !values.contains(&v) {
                values.push(v);
            }
        });
        if values.len() > 1 {
            options.push(format!("--{name} {}", values.join("|")));
        }
    }
    let help = if options.is_empty() {
        "name one by its first digits: 'schedlab runs' lists them".to_owned()
    } else {
        options.join("  ")
    };
    Error::input(format!("{of} has {} cells, and this takes one", cells.len())).help(help)
}

/// The run to compare with: another one by its name, or the same load and seed under another variant. For a run of an
/// experiment the variant is the present experiment's; an edited experiment may also have older cells.
pub fn beside(
    wanted: &RunChoice<'_>,
    source: &str,
    one: &RunDir,
    record: &Record,
    name: &str,
) -> Result<RunDir> {
    let plain = RunChoice { store: wanted.store, filter: Filter::default(), seed: None };
    if Path::new(name).exists() {
        // In a store or an experiment the options choose a run; a single run needs no choice.
        let whole = Path::new(name).join(RECORD_FILE).is_file() || Path::new(name).is_file();
        return if whole { plain.find(name) } else { wanted.find(name) };
    }
    // Inside a cell's folder a run may be named `1`; then only its absolute path leads to the store.
    let whole = one.path.canonicalize().unwrap_or_else(|_| one.path.clone());
    let root = whole.parent().and_then(Path::parent).map(PathBuf::from);
    let root = root.filter(|r| !r.as_os_str().is_empty()).unwrap_or_else(|| ".".into());
    let cells = runs::list(&root)?;
    let alike = |c: &&ListedCell| {
        c.of.as_ref().is_some_and(|o| {
            (&o.workload, &o.load, &o.machine, &o.backend)
                == (&record.workload, &record.load, &record.machine.name, &record.backend)
        })
    };
    let of_experiment = match experiment_of(source)? {
        Some(e) => wanted.cells_of(&e)?,
        None => Vec::new(),
    };
    for cells in [&of_experiment, &cells] {
        let is_named = |c: &&ListedCell| c.of.as_ref().is_some_and(|o| o.variant == name);
        let named: Vec<ListedCell> = cells.iter().filter(alike).filter(is_named).cloned().collect();
        if !named.is_empty() {
            return RunChoice { seed: Some(record.seed), ..plain }.among(named, name);
        }
    }
    let alike: Vec<ListedCell> = cells.iter().filter(alike).cloned().collect();
    plain.find(name).map_err(|e| {
        let variants: Vec<&str> =
            alike.iter().filter_map(|c| Some(c.of.as_ref()?.variant.as_str())).collect();
        match schedlab_base::nearest::nearest(name, variants.iter().copied()) {
            Some(_) => Error::unknown("variant", name, variants),
            None => e,
        }
    })
}
