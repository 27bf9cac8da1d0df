//! The stored runs of several names, each a store or a part of one.

use super::one::RunChoice;
use super::{experiment_of, like_a_run};
use crate::ask::experiment::Experiment;
use schedlab_base::{Error, Result};
use schedlab_compare::runs::{self, Filter, ListedCell};
use schedlab_record::store::RECORD_FILE;
use schedlab_record::store_listing::is_cell;
use schedlab_record::{RunDir, store};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The meaning of a name, before any filter.
struct Meant {
    cells: Vec<ListedCell>,
    /// The run of the cell, if one was named.
    seed: Option<u64>,
    /// Runs outside of any store, which filters can't choose among.
    apart: Vec<RunDir>,
}

impl Meant {
    fn cells(cells: Vec<ListedCell>) -> Meant {
        Meant { cells, seed: None, apart: Vec::new() }
    }
}

/// The runs of each name that pass the filters, which choose among the cells of all names together; `None` for a folder
/// or file without runs.
///
/// # Errors
/// When a name means nothing, when no run of it passes the filters, or when filters are given but have nothing to
/// choose from.
pub fn stored(names: &[&str], store: &Path, filter: &Filter) -> Result<Vec<Option<Vec<RunDir>>>> {
    let mut meant = names.iter().map(|name| meant(name, store, filter)).collect::<Result<Vec<_>>>()?;
    let cells =
        meant.iter_mut().map(|one| one.as_mut().map_or_else(Vec::new, |m| std::mem::take(&mut m.cells)));
    let sources = names.iter().map(|name| (*name).to_owned()).zip(cells).collect();
    let chosen = filter.choose_of_each(sources)?;
    let runs = |(one, cells): (Option<Meant>, Vec<ListedCell>)| {
        one.map(|m| dirs(cells, m.seed).into_iter().chain(m.apart).collect())
    };
    Ok(meant.into_iter().zip(chosen).map(runs).collect())
}

/// The meaning of a name; `None`: a folder or file without runs.
fn meant(name: &str, store: &Path, filter: &Filter) -> Result<Option<Meant>> {
    let path = Path::new(name);
    if let Some(experiment) = experiment_of(name)? {
        return cells_of_experiment(&experiment, store).map(Meant::cells).map(Some);
    }
    if !path.exists() {
        let cells = runs::list(store).unwrap_or_default();
        let chosen = runs::find(&cells, name).map_err(|e| match like_a_run(name) {
            true => e,
            false => Error::input(format!("can't read {name}: there is no such file, run, cell or study"))
                .help("name a store, a cell that 'schedlab runs' lists, an experiment's file, or a file"),
        })?;
        return Ok(Some(Meant { seed: chosen.seed, ..Meant::cells(vec![chosen.cell]) }));
    }
    if !has_runs(path) {
        return Ok(None);
    }
    let cells = cells_of(path);
    if !cells.is_empty() {
        return Ok(Some(Meant::cells(cells)));
    }
    let apart = store::list(path)?;
    if filter.is_empty() {
        return Ok(Some(Meant { apart, ..Meant::cells(Vec::new()) }));
    }
    cells_of_runs(name, &apart).map(Meant::cells).map(Some)
}

/// The cells of runs below a folder, which may hold several stores.
fn cells_of_runs(name: &str, all: &[RunDir]) -> Result<Vec<ListedCell>> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let wanted: BTreeSet<PathBuf> = all.iter().map(|run| real(&run.path)).collect();
    let store = |run: &RunDir| {
        let named = run.path.parent().and_then(Path::parent).filter(|p| !p.as_os_str().is_empty());
        named.map(Path::to_owned).or_else(|| Some(real(&run.path).parent()?.parent()?.to_owned()))
    };
    let stores: BTreeSet<PathBuf> = all.iter().filter_map(store).collect();
    let mut cells: Vec<ListedCell> =
        stores.iter().flat_map(|store| runs::list(store).unwrap_or_default()).collect();
    cells.iter_mut().for_each(|c| c.held.runs.retain(|held| wanted.contains(&real(&held.run.path))));
    cells.retain(|c| !c.held.runs.is_empty());
    if cells.iter().map(|c| c.held.runs.len()).sum::<usize>() < wanted.len() {
        return Err(Error::input(format!(
            "{name} has runs that lie in no store: --load, --variant and the like choose among a store's cells"
        ))
        .help("name the store, or leave the filters out"));
    }
    Ok(cells)
}

/// Whether a path is a run's record, or a folder with runs below it.
pub fn has_runs(path: &Path) -> bool {
    let is_record = path.is_file() && path.file_name().is_some_and(|name| name == RECORD_FILE);
    is_record || (path.is_dir() && store::list(path).is_ok())
}

/// The cells of a store, or the cell of that folder; none for another folder.
fn cells_of(path: &Path) -> Vec<ListedCell> {
    if !path.is_dir() {
        return Vec::new();
    }
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = whole.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    if !is_cell(&name) {
        return runs::list(path).unwrap_or_default();
    }
    let named = path.parent().filter(|p| !p.as_os_str().is_empty() && path.ends_with(&name));
    let store = named.or(whole.parent()).unwrap_or(Path::new("."));
    let cells = runs::list(store).unwrap_or_default();
    cells.into_iter().filter(|c| c.held.name == name).collect()
}

/// The stored runs of an experiment that pass the filters.
///
/// # Errors
/// When the store has none, or can't be read.
pub fn of_experiment(experiment: &Experiment, store: &Path, filter: &Filter) -> Result<Vec<RunDir>> {
    Ok(dirs(filter.choose(cells_of_experiment(experiment, store)?)?, None))
}

fn cells_of_experiment(experiment: &Experiment, store: &Path) -> Result<Vec<ListedCell>> {
    RunChoice { store, filter: Filter::default(), seed: None }.cells_of(experiment)
}

/// The folders of the cells' runs, of all seeds or of one.
fn dirs(cells: Vec<ListedCell>, seed: Option<u64>) -> Vec<RunDir> {
    let all = cells.into_iter().flat_map(|c| c.held.runs);
    all.filter(|held| seed.is_none_or(|seed| held.seed == seed)).map(|held| held.run).collect()
}
