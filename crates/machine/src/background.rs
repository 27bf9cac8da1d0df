//! The machine's own tasks (kworkers, RCU, daemons): rows of `[[background]]`, in a machine's file or in a separate
//! file that any machine can name.
//!
//! `schedlab machine background` writes such a separate file: rows measured on an idle machine, and its number of CPUs.
//! The simulator models each row as random arrivals with exponential gaps and run times.

use crate::Machine;
use crate::reader::{Source, Table};
use schedlab_base::{Error, Ns, Result, input};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::path::Path;

pub const NONE: &str = "none";

/// Name and text of every background that ships.
const SHIPPED: &[(&str, &str)] =
    &[("idle-guest-2", include_str!("../../../machines/background/idle-guest-2.toml"))];

const FILE: &[&str] = &["name", "about", "cpus", "background"];
const ROW: &[&str] = &["name", "per_cpu", "every", "run", "nice", "source"];
const FROM: &[&str] = &["from", "scaled"];

/// A task source of the machine itself: random arrivals, exponential gaps, exponential run times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Background {
    pub name: String,
    /// Whether each CPU has one, bound to it; otherwise one task runs wherever the scheduler puts it.
    pub per_cpu: bool,
    /// Mean time between arrivals.
    pub every: Ns,
    /// Mean run time of an arrival.
    pub run: Ns,
    #[serde(default)]
    pub nice: i8,
    pub source: String,
}

/// The origin of a machine's background, if it is not the machine's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackgroundFrom {
    /// The word that named it: a shipped background, a file, or [`NONE`].
    pub named: String,
    /// The file's description, one line.
    pub about: String,
    /// Whether rows that are not per CPU come more often if the machine has more CPUs than were measured.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub scaled: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackgroundFile {
    pub name: String,
    /// Description, one line.
    pub about: String,
    /// Number of CPUs of the measured machine.
    pub cpus: u32,
    pub rows: Vec<Background>,
}

impl BackgroundFile {
    /// A background by its name: [`NONE`], a shipped one, or the path of a file that ends in `.toml`. Relative paths
    /// begin at `folder`.
    ///
    /// # Errors
    /// When there is none (the error offers the nearest name), or its file is wrong.
    pub fn load(word: &str, folder: &Path) -> Result<BackgroundFile> {
        if word == NONE {
            let about = "nothing else runs".to_owned();
            return Ok(BackgroundFile { name: NONE.to_owned(), about, cpus: 1, rows: Vec::new() });
        }
        if let Some((name, text)) = SHIPPED.iter().find(|(name, _)| *name == word) {
            return BackgroundFile::parse(Path::new(&format!("machines/background/{name}.toml")), text);
        }
        if !word.contains('/') && !word.ends_with(".toml") {
            let known = SHIPPED.iter().map(|(name, _)| *name).chain([NONE]);
            return Err(Error::unknown("background", word, known));
        }
        let path = folder.join(word);
        BackgroundFile::parse(&path, &input::text(&path)?)
    }

    /// Reads a file's text; errors name `file`.
    ///
    /// # Errors
    /// When it does not have the form. The error has the place.
    pub fn parse(file: &Path, text: &str) -> Result<BackgroundFile> {
        let source = Source { file, text };
        let document = source.parse()?;
        let top = Table::new(source, "a background file", document.span(), document.get_ref(), FILE)?;
        let cpus = top.required("cpus", top.number("cpus")?)?;
        if cpus == 0 {
            return Err(top.error_at("cpus", "cpus is the number of CPUs it was measured on, at least 1"));
        }
        Ok(BackgroundFile {
            name: top.required("name", top.label("name")?)?.into(),
            about: top.required("about", top.label("about")?)?.into(),
            cpus,
            rows: rows(&top)?,
        })
    }

    /// The file's text, below the lines of `comment`.
    pub fn text(&self, comment: &str) -> String {
        let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let mut text: String = comment.lines().map(|line| format!("# {line}\n")).collect();
        let (name, about) = (quoted(&self.name), quoted(&self.about));
        let _ = writeln!(text, "name = {name}\nabout = {about}\ncpus = {}", self.cpus);
        self.rows.iter().for_each(|row| text.push_str(&row_text(row)));
        text
    }

    /// The rows on a machine of that many CPUs. If `scaled`, rows that are not per CPU come in proportion to its CPUs.
    ///
    /// # Errors
    /// When such a row would run longer than the gap between its arrivals.
    fn on(&self, cpus: usize, scaled: bool) -> Result<Vec<Background>> {
        let one = |row: &Background| {
            let mut row = row.clone();
            if scaled && !row.per_cpu {
                row.every =
                    Ns((u128::from(row.every.0) * u128::from(self.cpus) / cpus.max(1) as u128) as u64);
                row.source = format!(
                    "{}; scaled from {} to {cpus}",
                    row.source,
                    schedlab_base::counted(self.cpus, "CPU")
                );
            }
            if row.run >= row.every {
                let what = format!(
                    "{}: scaled to {}, '{}' would run all the time",
                    self.name,
                    schedlab_base::counted(cpus, "CPU"),
                    row.name
                );
                return Err(Error::input(what).help("name it without scaled, or split the row"));
            }
            Ok(row)
        };
        self.rows.iter().map(one).collect()
    }
}

/// A row in the form of a file.
pub(crate) fn row_text(row: &Background) -> String {
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let (name, source) = (quoted(&row.name), quoted(&row.source));
    let nice = if row.nice == 0 { String::new() } else { format!("nice = {}\n", row.nice) };
    format!(
        "\n[[background]]\nname = {name}\nper_cpu = {}\nevery = \"{}\"\nrun = \"{}\"\n{nice}source = {source}\n",
        row.per_cpu,
        exact(row.every),
        exact(row.run),
    )
}

/// The value of a key that names a background: `"FILE"`, or `{ from = "FILE", scaled = true }`.
pub struct Named {
    word: String,
    scaled: bool,
}

impl Named {
    /// The background that `key` names; `None` when the key is absent or has another type.
    ///
    /// # Errors
    /// For a table with other keys, or without `from`.
    pub fn read(table: &Table<'_>, key: &str) -> Result<Option<Named>> {
        let Some(value) = table.get(key) else { return Ok(None) };
        if let Some(word) = value.get_ref().as_str() {
            return Ok(Some(Named { word: word.to_owned(), scaled: false }));
        }
        if value.get_ref().as_table().is_none() {
            return Ok(None);
        }
        let Some(inner) = table.table(key, FROM)? else { return Ok(None) };
        let word = inner.required("from", inner.string("from")?)?.to_owned();
        Ok(Some(Named { word, scaled: inner.boolean("scaled")?.unwrap_or(false) }))
    }
    /// As [`Machine::set_background`], errors included.
    pub fn apply(&self, machine: &mut Machine, folder: &Path) -> Result<()> {
        machine.set_background(&self.word, folder, self.scaled)
    }
}

impl Machine {
    /// Replaces the machine's background by the named one.
    ///
    /// # Errors
    /// As [`BackgroundFile::load`]; also when a scaled row would run all the time.
    pub fn set_background(&mut self, word: &str, folder: &Path, scaled: bool) -> Result<()> {
        let file = BackgroundFile::load(word, folder)?;
        self.background = file.on(self.topology.nr_cpus(), scaled)?;
        let about = file.about;
        self.background_from = Some(BackgroundFrom { named: word.to_owned(), about, scaled });
        Ok(())
    }
}

/// The tables `[[background]]` of a file.
///
/// # Errors
/// For an unknown key or an impossible value.
pub(crate) fn rows(top: &Table<'_>) -> Result<Vec<Background>> {
    top.tables("background", ROW)?.iter().map(row).collect()
}

fn row(table: &Table<'_>) -> Result<Background> {
    let nice: i8 = table.number("nice")?.unwrap_or(0);
    if !(-20..=19).contains(&nice) {
        return Err(table.error_at("nice", format!("nice {nice} is not -20 to 19")));
    }
    let every = table.required("every", table.time("every")?)?;
    let run = table.required("run", table.time("run")?)?;
    if every == Ns::ZERO || run >= every {
        return Err(
            table.error_at("run", "a background task must run shorter than the gap between its arrivals")
        );
    }
    Ok(Background {
        name: table.required("name", table.label("name")?)?.into(),
        per_cpu: table.required("per_cpu", table.boolean("per_cpu")?)?,
        every,
        run,
        nice,
        source: table.required("source", table.string("source")?)?.into(),
    })
}

/// A time without rounding, in the largest unit that gives a whole number.
pub(crate) fn exact(time: Ns) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let unit = units.iter().find(|(ns, _)| time.0 > 0 && time.0.is_multiple_of(*ns));
    unit.map_or_else(|| format!("{}ns", time.0), |(ns, name)| format!("{}{name}", time.0 / ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> BackgroundFile {
        let row = |name: &str, per_cpu, every, run, nice| Background {
            name: name.into(),
            per_cpu,
            every: Ns(every),
            run: Ns(run),
            nice,
            source: "60 \"wakeups\"".into(),
        };
        let rows = vec![
            row("kworker", true, 1_000_000_000, 15_001, 0),
            row("kworker-high", false, 30_000_000, 9_000, -20),
        ];
        BackgroundFile { name: "mine".into(), about: "a test".into(), cpus: 2, rows }
    }

    fn error(text: &str) -> String {
        BackgroundFile::parse(Path::new("b.toml"), text).unwrap_err().to_string()
    }

    #[test]
    fn a_file_reads_as_it_was_written() {
        let text = sample().text("one\ntwo");
        assert!(text.starts_with("# one\n# two\nname = \"mine\"\n"), "{text}");
        assert_eq!(BackgroundFile::parse(Path::new("b.toml"), &text).unwrap(), sample(), "{text}");
    }

    #[test]
    fn shipped_ones_load_under_their_own_names() {
        for (name, _) in SHIPPED {
            let file = BackgroundFile::load(name, Path::new(".")).unwrap();
            assert_eq!(file.name, *name);
            assert!(!file.rows.is_empty() && file.rows.iter().all(|row| !row.source.is_empty()));
        }
        let e = BackgroundFile::load("idle-gest-2", Path::new(".")).unwrap_err().to_string();
        assert!(
            e.contains("unknown background 'idle-gest-2'") && e.contains("did you mean 'idle-guest-2'"),
            "{e}"
        );
    }

    #[test]
    fn errors_have_their_place() {
        insta::assert_snapshot!(error("name = 'b'\nabout = 'a'\ncpu = 2"), @r"
        b.toml:3:1: unknown key in a background file 'cpu'
          help: did you mean 'cpus'?
        ");
        insta::assert_snapshot!(error("name = 'b'\nabout = 'a'\ncpus = 0"), @"b.toml:3:8: cpus is the number of CPUs it was measured on, at least 1");
        insta::assert_snapshot!(error("name = 'b'\nabout = 'a'\ncpus = 1\n[[background]]\nname = 'k'\nevry = '1ms'"), @r"
        b.toml:6:1: unknown key in [[background]] 'evry'
          help: did you mean 'every'?
        ");
    }

    #[test]
    fn a_machine_names_a_file_in_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("b.toml"), sample().text("")).unwrap();
        let named = |value: &str| {
            let text = format!("name = 'm'\nabout = 'a'\nlike = 'smp-8'\nbackground = {value}");
            crate::file::parse(&folder.path().join("m.toml"), &text)
        };
        let plain = named("'b.toml'").unwrap();
        assert_eq!(plain.background, sample().rows);
        let from = BackgroundFrom { named: "b.toml".into(), about: "a test".into(), scaled: false };
        assert_eq!(plain.background_from, Some(from));
        let scaled = named("{ from = 'b.toml', scaled = true }").unwrap();
        let every: Vec<Ns> = scaled.background.iter().map(|row| row.every).collect();
        assert_eq!(every, [Ns::secs(1), Ns(7_500_000)]);
        assert_eq!(named("'none'").unwrap().background, []);
        let e = named("'c.toml'").unwrap_err().to_string();
        assert!(e.contains("m.toml:4:14: can't read") && e.contains("c.toml"), "{e}");
        let e = named("{ form = 'b.toml' }").unwrap_err().to_string();
        assert!(e.contains("m.toml:4:16: ") && e.contains("did you mean 'from'?"), "{e}");
        assert!(named("true").unwrap_err().to_string().contains("m.toml:4:14: background"));
    }

    #[test]
    fn rows_that_would_run_all_the_time_are_not_scaled() {
        let mut machine = Machine::load("smp-2").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut file = sample();
        file.cpus = 1;
        file.rows[1].run = Ns::ms(20);
        std::fs::write(folder.path().join("b.toml"), file.text("")).unwrap();
        let e = machine.set_background("b.toml", folder.path(), true).unwrap_err().to_string();
        assert!(e.contains("mine: scaled to 2 CPUs, 'kworker-high' would run all the time"), "{e}");
    }
}
