//! Stored runs by the names that commands take: a store or a folder in it, a cell's first digits (with a seed behind
//! them: one run), an experiment's file, a study, or the words by which progress and lists name a run.

use super::explain::{Wanted, experiment_of};
use super::runs::Choice;
use schedlab_base::{Error, Result};
use schedlab_lab::Experiment;
use schedlab_lab::runs::{self, Filter, ListedCell};
use schedlab_record::holdings::is_cell;
use schedlab_record::store::RECORD_FILE;
use schedlab_record::{RunDir, store};
use std::path::Path;

/// The runs of a name that pass the filters; `None` if it is a folder or file without runs.
///
/// # Errors
/// When it names nothing, no run passes the filters, or filters are given where they have nothing to choose from.
pub fn stored(name: &str, choice: &Choice) -> Result<Option<Vec<RunDir>>> {
    let (path, filter) = (Path::new(name), choice.filter());
    if let Some(experiment) = experiment_of(name)? {
        return of_experiment(&experiment, choice).map(Some);
    }
    if !path.exists() {
        let cells = runs::list(&choice.out).unwrap_or_default();
        let chosen = runs::find(&cells, name).map_err(|e| match like_a_run(name) {
            true => e,
            false => Error::input(format!("can't read {name}: there is no such file, run, cell or study"))
                .help("name a store, a cell that 'schedlab runs' lists, an experiment's file, or a file"),
        })?;
        let run = chosen.seed.and_then(|seed| chosen.cell.run(seed).map(|r| r.run.clone()));
        let cells = filter.choose(vec![chosen.cell])?;
        return Ok(Some(run.map_or_else(|| dirs(cells), |run| vec![run])));
    }
    if !has_runs(path) {
        return Ok(None);
    }
    let cells = cells_of(path);
    if !cells.is_empty() {
        return Ok(Some(dirs(filter.choose(cells)?)));
    }
    if !filter.is_empty() {
        return Err(Error::input(format!(
            "{name} is not a store: --load, --variant and the like choose among a store's cells"
        ))
        .help("name the store, or leave the filters out"));
    }
    store::list(path).map(Some)
}

/// Whether a name that is not a path may be meant as a cell or run: by digits, by a folder, or by words.
pub fn like_a_run(name: &str) -> bool {
    let digits = name.len() >= 4 && name.bytes().all(|b| b.is_ascii_hexdigit());
    digits || name.contains('/') || runs::is_title(name)
}

/// Whether a path is a run's record, or a folder with runs below it.
pub fn has_runs(path: &Path) -> bool {
    let is_record = path.is_file() && path.file_name().is_some_and(|name| name == RECORD_FILE);
    is_record || (path.is_dir() && store::list(path).is_ok())
}

/// The cells of a store, or the cell whose folder it is; none for another folder.
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
pub fn of_experiment(experiment: &Experiment, choice: &Choice) -> Result<Vec<RunDir>> {
    let wanted = Wanted { store: &choice.out, filter: Filter::default(), seed: None };
    Ok(dirs(choice.filter().choose(wanted.cells_of(experiment)?)?))
}

fn dirs(cells: Vec<ListedCell>) -> Vec<RunDir> {
    cells.into_iter().flat_map(|c| c.held.runs).map(|held| held.run).collect()
}
