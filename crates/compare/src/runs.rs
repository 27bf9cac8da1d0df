//! Stored runs by subject: describes the cells of a store in words, and chooses them by name or by load, variant and so
//! on.
//!
//! A cell is named by the first digits of its folder, by the folder, or by the names in its record. One record of each
//! cell is read. A cell whose record can't be read is listed with the reason; no filter chooses it.

mod differs;

pub use differs::alike;

use schedlab_base::{Error, Origin, Result, input, printable, utc};
use schedlab_record::cell_hash;
use schedlab_record::store_listing::{EXPERIMENT_FILE, HeldCell, HeldRun, RunHead, holdings, is_cell};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// The fewest digits that can name a cell.
const FEWEST_DIGITS: usize = 4;
/// Digits shown if they suffice to distinguish all cells.
const SHOWN_DIGITS: usize = 8;

/// A cell of a store, in words.
#[derive(Clone, Debug, Serialize)]
pub struct ListedCell {
    pub folder: String,
    /// Names of experiments that made runs of it. Experiments that only used existing runs are not known.
    pub experiments: Vec<String>,
    /// Its subject; `None` if its record can't be read.
    #[serde(flatten)]
    pub of: Option<CellSubject>,
    /// Seeds of its runs, ascending.
    pub seeds: Vec<u64>,
    /// When the last run was stored, UTC to the minute.
    pub made: String,
    /// Size of all its runs, bytes.
    pub size_bytes: u64,
    /// Number of unfinished runs whose writers are gone.
    #[serde(skip_serializing_if = "schedlab_base::is_zero")]
    pub abandoned: usize,
    /// If a neighbour in the list has the same names: the figures in which they differ, with this cell's values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub differs: BTreeMap<String, String>,
    /// Why this version of schedlab would not use the runs again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outdated: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip)]
    pub held: HeldCell,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CellSubject {
    pub workload: String,
    pub load: String,
    pub variant: String,
    pub machine: String,
    pub backend: Origin,
    pub kernel: String,
}

impl ListedCell {
    fn of(held: HeldCell) -> ListedCell {
        let first = held.runs.first();
        let head = first.map(|r| RunHead::of(&r.run));
        let (of, outdated, error) = match &head {
            Some(Ok(head)) => {
                let outdated = head.outdated().or_else(|| named_otherwise(head, &held));
                (Some(CellSubject::head(head)), outdated, None)
            }
            Some(Err(e)) => (None, None, Some(e.to_string())),
            None => (None, None, None),
        };
        let made = held.runs.iter().map(|r| utc::since_1970_s(r.made)).max();
        ListedCell {
            folder: held.folder.display().to_string(),
            experiments: experiments(&held.runs),
            seeds: held.runs.iter().map(|r| r.seed).collect(),
            made: made.map_or_else(String::new, utc::minute),
            size_bytes: held.bytes(),
            abandoned: held.abandoned.len(),
            differs: BTreeMap::new(),
            of,
            outdated,
            error,
            held,
        }
    }
    pub fn run(&self, seed: u64) -> Option<&HeldRun> {
        self.held.runs.iter().find(|r| r.seed == seed)
    }
}

/// Why a folder of this name would not be found for runs of a real kernel: their record gives another name.
fn named_otherwise(head: &RunHead, held: &HeldCell) -> Option<String> {
    let made = head.backend.made_by().filter(|_| head.is_live())?;
    let record = held.runs.first()?.run.outline().ok()?;
    (!made.is_simulated() && cell_hash(&record) != held.name).then(|| {
        "its folder was named without the computer, as older versions did, or its record is another cell's".to_owned()
    })
}

impl CellSubject {
    fn head(head: &RunHead) -> CellSubject {
        // A record may be foreign, so its names are made printable.
        let name = |text: &str| printable::name(text).into_owned();
        CellSubject {
            workload: name(&head.workload),
            load: name(&head.load),
            variant: name(head.variant()),
            machine: name(head.machine()),
            backend: head.backend.clone(),
            kernel: name(&head.kernel),
        }
    }
    /// Whether a filter's word means this subject.
    fn matches(&self, key: Key, word: &str) -> bool {
        match key {
            Key::Load => means_load(word, &self.workload, &self.load, &self.machine),
            _ => means(word, self.get(key)),
        }
    }
    /// The words that name the cell in progress messages.
    fn title(&self) -> String {
        format!("{} {} {}{ON}{}", self.workload, self.load, self.variant, self.machine)
    }
    /// The word of one kind.
    fn get(&self, key: Key) -> &str {
        match key {
            Key::Load => &self.load,
            Key::Variant => &self.variant,
            Key::Machine => &self.machine,
            Key::Workload => &self.workload,
            Key::Backend => self.backend.name(),
        }
    }
}

/// Names of the experiments in the runs' folders, each once.
fn experiments(runs: &[HeldRun]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut known: Vec<String> = Vec::new();
    for run in runs {
        let Ok(text) = input::text(&run.run.path.join(EXPERIMENT_FILE)) else { continue };
        if known.contains(&text) {
            continue;
        }
        let name = text
            .parse::<toml::Table>()
            .ok()
            .and_then(|t| Some(printable::name(t.get("name")?.as_str()?).into_owned()));
        if let Some(name) = name.filter(|n| !all.contains(n)) {
            all.push(name);
        }
        known.push(text);
    }
    all
}

/// The kinds of words that choose cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Key {
    Load,
    Variant,
    Machine,
    Workload,
    Backend,
}

/// A choice of cells. A cell must match one word of each kind; a kind without words matches all.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub load: Vec<String>,
    pub variant: Vec<String>,
    pub machine: Vec<String>,
    pub workload: Vec<String>,
    pub backend: Vec<String>,
}

impl Filter {
    fn words(&self) -> [(Key, &'static str, &[String]); 5] {
        [
            (Key::Workload, "workload", &self.workload),
            (Key::Backend, "backend", &self.backend),
            (Key::Machine, "machine", &self.machine),
            (Key::Load, "load", &self.load),
            (Key::Variant, "variant", &self.variant),
        ]
    }
    /// Whether it chooses everything.
    pub fn is_empty(&self) -> bool {
        self.words().iter().all(|(.., words)| words.is_empty())
    }
    /// The chosen cells. A swept variant's or load's name without its values means all values. Names also work as lists
    /// and tables print them: shortened, and loads with their workload or machine.
    ///
    /// # Errors
    /// When a word matches none of the cells; the nearest is offered.
    pub fn choose(&self, cells: Vec<ListedCell>) -> Result<Vec<ListedCell>> {
        let left = self.narrow(cells.into_iter().map(|cell| (0, cell)).collect())?;
        Ok(left.into_iter().map(|(_, cell)| cell).collect())
    }

    /// The chosen cells of several named sources. A word may match cells of only one source, but each source that has
    /// cells must keep some.
    ///
    /// # Errors
    /// When a word matches no cell of any source, or a source keeps none.
    pub fn choose_of_each(&self, sources: Vec<(String, Vec<ListedCell>)>) -> Result<Vec<Vec<ListedCell>>> {
        let had: Vec<bool> = sources.iter().map(|(_, cells)| !cells.is_empty()).collect();
        let (names, cells): (Vec<String>, Vec<Vec<ListedCell>>) = sources.into_iter().unzip();
        if !had.contains(&true) {
            return Ok(cells);
        }
        let all = cells.into_iter().enumerate().flat_map(|(at, some)| some.into_iter().map(move |c| (at, c)));
        let mut left: Vec<Vec<ListedCell>> = names.iter().map(|_| Vec::new()).collect();
        self.narrow(all.collect())?.into_iter().for_each(|(at, cell)| left[at].push(cell));
        match (0..names.len()).find(|at| had[*at] && left[*at].is_empty()) {
            Some(at) => Err(Error::input(format!("no run of {} passes {}", names[at], self.options()))
                .help("filters hold for all that is named: leave it out, or compare without them")),
            None => Ok(left),
        }
    }

    /// The filter, as options of the command line.
    fn options(&self) -> String {
        let words = self.words().into_iter();
        let given = words.flat_map(|(_, what, words)| words.iter().map(move |w| format!("--{what} {w}")));
        given.collect::<Vec<_>>().join(" ")
    }

    /// The matching cells, each with the number of its source.
    fn narrow(&self, mut cells: Vec<(usize, ListedCell)>) -> Result<Vec<(usize, ListedCell)>> {
        for (key, what, words) in self.words() {
            if words.is_empty() {
                continue;
            }
            let all = || cells.iter().filter_map(|(_, c)| c.of.as_ref());
            if let Some(strange) = words.iter().find(|w| !all().any(|of| of.matches(key, w))) {
                let mut names: Vec<&str> = all().map(|of| of.get(key)).collect();
                names.sort_unstable();
                names.dedup();
                return Err(Error::unknown(what, strange, names).context("stored runs"));
            }
            cells.retain(|(_, c)| c.of.as_ref().is_some_and(|of| words.iter().any(|w| of.matches(key, w))));
        }
        Ok(cells)
    }
}

/// Marks the omitted part of a name in lists.
pub const CUT: &str = "..";

/// Whether a word means a name: in full, without its swept values, or as a list shortens it.
pub fn means(word: &str, name: &str) -> bool {
    let is_short = || {
        let (begin, end) = word.split_once(CUT)?;
        let left = name.strip_prefix(begin).filter(|_| !begin.is_empty())?;
        Some(left.ends_with(end))
    };
    name.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.starts_with(','))
        || is_short().unwrap_or(false)
}

/// Whether a word means a load of a workload on a machine: a word of [`means_load_anywhere`], or one that ends in
/// `@MACHINE`.
pub fn means_load(word: &str, workload: &str, load: &str, machine: &str) -> bool {
    let anywhere = |word: &str| means_load_anywhere(word, workload, load);
    word.rsplit_once('@').is_some_and(|(word, on)| anywhere(word) && means(on, machine)) || anywhere(word)
}

/// Whether a word means a load of a workload: `LOAD`, `WORKLOAD` for all its loads, or `WORKLOAD LOAD` as tables and
/// progress messages print it.
pub fn means_load_anywhere(word: &str, workload: &str, load: &str) -> bool {
    let in_workload = word.strip_prefix(workload).and_then(|rest| rest.strip_prefix(' '));
    means(word, load) || word == workload || in_workload.is_some_and(|word| means(word, load))
}

/// The cells of a store, sorted by their subjects.
///
/// # Errors
/// When the store does not exist or can't be read.
pub fn list(root: &Path) -> Result<Vec<ListedCell>> {
    let held = holdings(root)
        .map_err(|e| e.help("runs are kept in the folder that --out names; 'runs' unless it is said"))?;
    let mut cells: Vec<ListedCell> = held.into_iter().map(ListedCell::of).collect();
    cells.sort_by(|a, b| key(a).cmp(&key(b)));
    differs::fill_in(&mut cells);
    Ok(cells)
}

fn key(c: &ListedCell) -> impl Ord + '_ {
    let of = c.of.as_ref().map(|o| {
        (&o.workload, &o.backend, &o.machine, &o.load, &o.kernel, o.variant != o.kernel, &o.variant)
    });
    // Cells that can't be read come last.
    (c.of.is_none(), &c.experiments, of, &c.folder)
}

/// The number of digits that distinguishes all cells, at least the usual number.
pub fn digits(cells: &[ListedCell]) -> usize {
    let mut names: Vec<&str> = cells.iter().map(|c| c.held.name.as_str()).collect();
    names.sort_unstable();
    let common = |(a, b): (&str, &str)| a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let longest = names.windows(2).map(|w| common((w[0], w[1]))).max().unwrap_or(0);
    SHOWN_DIGITS.max(longest + 1)
}

/// A cell that was named, with the seed if one of its runs was.
#[derive(Clone, Debug)]
pub struct Chosen {
    pub cell: ListedCell,
    /// The run's seed; all runs if `None`.
    pub seed: Option<u64>,
}

/// Stands before the machine in a cell's title.
const ON: &str = " on ";

/// Whether a name may be a cell's title: `schbench threads=8 v6.5 on smt-8`.
pub fn is_title(name: &str) -> bool {
    name.split_once(ON).is_some_and(|(before, _)| before.split(' ').count() > 2)
}

/// The cell or run of a title, as progress messages and lists print it; `None` for other words.
fn titled(cells: &[ListedCell], name: &str) -> Option<Result<Chosen>> {
    let rest = |c: &'_ ListedCell| {
        let rest = name.strip_prefix(&c.of.as_ref()?.title())?;
        (rest.is_empty() || rest.starts_with(", ")).then(|| rest.to_owned())
    };
    let mut fits: Vec<&ListedCell> = cells.iter().filter(|c| rest(c).is_some()).collect();
    if fits.iter().any(|c| c.outdated.is_none()) {
        fits.retain(|c| c.outdated.is_none());
    }
    let [cell] = fits[..] else {
        let digits = digits(cells);
        let names: Vec<&str> =
            fits.iter().map(|c| c.held.name.get(..digits).unwrap_or(&c.held.name)).collect();
        let several = || {
            Error::input(format!("{} cells are called so", names.len()))
                .help(format!("name one by its digits: {}", names.join(", ")))
        };
        return (!fits.is_empty()).then(|| Err(several()));
    };
    let rest = rest(cell).unwrap_or_default();
    let seed = rest.split(", ").find_map(|part| part.strip_prefix("seed ")?.parse::<u64>().ok());
    Some(with_seed(cell.clone(), seed))
}

/// The cell, or its run with that seed.
fn with_seed(cell: ListedCell, seed: Option<u64>) -> Result<Chosen> {
    match seed {
        Some(missing) if cell.run(missing).is_none() => {
            Err(Error::input(format!("{} has no run of seed {missing}", cell.folder))
                .help(format!("its seeds: {}", seeds(&cell.seeds))))
        }
        seed => Ok(Chosen { cell, seed }),
    }
}

/// The cell or run of a name: `DIGITS`, `DIGITS/SEED`, the folder of either in the listed store, or its title in
/// progress messages.
///
/// # Errors
/// When there is no such cell or run, the folder is in another store, or several cells are meant.
pub fn find(cells: &[ListedCell], name: &str) -> Result<Chosen> {
    if let Some(found) = titled(cells, name) {
        return found;
    }
    let trimmed = name.trim_end_matches('/').trim_end_matches("/record.json");
    let Some((before, last)) = trimmed.rsplit_once('/') else {
        return by_digits(cells, trimmed, name).map(|cell| Chosen { cell: cell.clone(), seed: None });
    };
    let Some(seed) = last.parse::<u64>().ok().filter(|_| !is_cell(last)) else {
        return in_store(cells, trimmed, name).map(|cell| Chosen { cell, seed: None });
    };
    let cell = if before.contains('/') {
        in_store(cells, before, name)?
    } else {
        by_digits(cells, before, name)?.clone()
    };
    with_seed(cell, Some(seed))
}

/// The cell of a folder, if the folder is in the listed store.
fn in_store(cells: &[ListedCell], folder: &str, name: &str) -> Result<ListedCell> {
    let real = |path: Option<&Path>| {
        let path = path.filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        path.canonicalize().unwrap_or_else(|_| path.to_owned())
    };
    let store = real(Path::new(folder).parent());
    let inside: Vec<ListedCell> =
        cells.iter().filter(|c| real(c.held.folder.parent()) == store).cloned().collect();
    let digits = folder.rsplit('/').next().unwrap_or(folder);
    by_digits(&inside, digits, name).cloned()
}

fn by_digits<'c>(cells: &'c [ListedCell], digits: &str, name: &str) -> Result<&'c ListedCell> {
    let none = || {
        Error::input(format!("no cell '{name}' is stored there")).help(
            "'schedlab runs' lists them; the first digits of the folder name one; --out names another store",
        )
    };
    let is_short = digits.len() < FEWEST_DIGITS;
    if is_short && !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(Error::input(format!("no cell '{name}': '{digits}' is too short to name one"))
            .help(format!("give at least {FEWEST_DIGITS} digits; 'schedlab runs' lists the cells")));
    }
    if is_short {
        return Err(none());
    }
    let fits: Vec<&ListedCell> = cells.iter().filter(|c| c.held.name.starts_with(digits)).collect();
    match fits[..] {
        [one] => Ok(one),
        [] => Err(none()),
        _ => Err(Error::input(format!("{} cells begin with '{digits}'", fits.len())).help("add a digit")),
    }
}

/// Seeds, shortened: "1-10", "1-3,7".
pub fn seeds(all: &[u64]) -> String {
    let mut words: Vec<String> = Vec::new();
    for some in all.chunk_by(|a, b| a.checked_add(1) == Some(*b)) {
        words.push(match some {
            [one] => one.to_string(),
            [first, .., last] => format!("{first}-{last}"),
            [] => continue,
        });
    }
    words.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_shown_as_ranges() {
        assert_eq!(seeds(&[1, 2, 3, 7, 9, 10]), "1-3,7,9-10");
        assert_eq!(seeds(&[u64::MAX]), u64::MAX.to_string());
        assert_eq!(seeds(&[]), "");
    }

    #[test]
    fn a_word_means_a_name_with_any_swept_value_or_as_printed() {
        assert!(means("1x8", "1x8,threads=4") && means("1x8", "1x8") && !means("1x8", "1x80"));
        assert!(means("thre..=1ms", "threads=4,cputime=1ms") && means("threads..", "threads=4"));
        assert!(!means("..", "threads=4") && !means("thre..=2ms", "threads=4,cputime=1ms"));
        let load = |word: &str| means_load(word, "hackbench", "groups=4", "smt-8");
        assert!(
            ["groups=4", "hackbench", "hackbench groups=4", "groups=4@smt-8", "hackbench groups=4@smt-8"]
                .into_iter()
                .all(load)
        );
        assert!(
            !["groups=40", "schbench groups=4", "groups=4@smt-80", "hackbench groups"].into_iter().any(load)
        );
    }

    fn listed(name: &str, seeds: &[u64]) -> ListedCell {
        let run = |seed: &u64| HeldRun {
            run: schedlab_record::RunDir { path: format!("runs/{name}/{seed}").into() },
            seed: *seed,
            bytes: 1,
            made: std::time::SystemTime::UNIX_EPOCH,
        };
        let held = HeldCell {
            folder: format!("runs/{name}").into(),
            name: name.to_owned(),
            runs: seeds.iter().map(run).collect(),
            abandoned: Vec::new(),
        };
        ListedCell::of(held)
    }

    #[test]
    fn cells_and_runs_are_named_by_digits_or_folder() {
        let cells = [
            listed("abcd1234000000000000000000000000", &[1, 2]),
            listed("abcd5678000000000000000000000000", &[7]),
        ];
        let found = |name: &str| {
            find(&cells, name).map(|c| (c.cell.held.name[..8].to_owned(), c.seed)).map_err(|e| e.to_string())
        };
        assert_eq!(found("abcd1"), Ok(("abcd1234".to_owned(), None)));
        assert_eq!(found("runs/abcd5678000000000000000000000000/7/"), Ok(("abcd5678".to_owned(), Some(7))));
        assert_eq!(found("abcd1/2"), Ok(("abcd1234".to_owned(), Some(2))));
        assert!(found("abcd1/3").unwrap_err().contains("its seeds: 1-2"));
        assert!(found("abcd").unwrap_err().contains("2 cells begin with"));
        let short = find(&cells, "abc").unwrap_err();
        assert!(short.to_string().contains("no cell 'abc'"), "{short}");
        assert!(short.remedy().is_some_and(|r| r.contains("at least 4 digits")), "{short:?}");
        assert!(found("xyz").unwrap_err().contains("no cell 'xyz' is stored there"));
        assert!(found("ffff").unwrap_err().contains("no cell"));
        // A cell of another store is not found, and a seed is never taken for a cell's digits.
        assert!(found("other/abcd5678000000000000000000000000").unwrap_err().contains("no cell 'other/"));
        assert!(found("other/abcd5678000000000000000000000000/7").unwrap_err().contains("no cell 'other/"));
        let numbers = [listed("27700000000000000000000000000000", &[1])];
        for wrong in ["ffff/2770", "runs/ffff/2770", "other/2770"] {
            assert!(find(&numbers, wrong).unwrap_err().to_string().contains("no cell"), "{wrong}");
        }
        assert!(find(&numbers, "2770").is_ok());
        assert_eq!(digits(&cells), 8);
        let near = [
            listed("abcd1234500000000000000000000000", &[]),
            listed("abcd1234600000000000000000000000", &[]),
        ];
        assert_eq!(digits(&near), 9);
    }
}
