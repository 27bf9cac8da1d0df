//! Turns saved outputs of known tools into records, so that they can be compared like runs.
//!
//! A source is a file, several files, or a folder of them, with a name. The name is the variant, unless the text itself
//! has variants. Each result in a file is a run. Machine and kernel are unknown, so all saved outputs count as made on
//! the same ones. Their runs are not pairs: seeds of different variants differ.

use super::extract::extract;
use super::schedlab_json::{self, FORMS};
use super::tool::{FigureValues, Reading, Tool};
use super::{OutputReader, TEXT, TOOLS, reader_of};
use schedlab_base::{Error, Origin, Result, Spot, Warning, input, printable};
use schedlab_kernel::Variant;
use schedlab_machine::Machine;
use schedlab_record::{Figure, Findings, RECORD_SCHEMA, Record, RunDir, store, version_of};
use schedlab_workload::CommandOutput;
use std::fs;
use std::path::{Path, PathBuf};

/// The kind of workload in records of saved outputs.
pub const KIND: &str = "saved";
/// The tool in records of schedlab's own output.
pub const OWN: &str = "schedlab";
/// In the environment of a record that has every metric that schedlab knows for a run.
pub const EVERYTHING: &str = "saved.everything";
/// How deep below a folder outputs are searched.
const MAX_DEPTH: usize = 4;
/// In place of names that a saved output lacks.
const UNKNOWN: &str = "unknown";

/// Records of a command line's sources: stored runs and saved outputs, separately. Sources are run folders and folders
/// above them, and outputs as `FILE`, `FOLDER`, `NAME=FILE[,FILE...]`.
///
/// # Errors
/// When a path does not exist, has neither runs nor outputs, or no known tool printed a file.
pub fn records(sources: &[String], from: Option<&OutputReader>) -> Result<(Vec<Record>, Vec<Record>)> {
    let (runs, saved) = self::sources(sources, from)?;
    Ok((runs.iter().map(RunDir::record).collect::<Result<_>>()?, saved))
}

/// As [`records`], but stored runs are not read.
///
/// # Errors
/// When a path does not exist, has neither runs nor outputs, or no known tool printed a file.
pub fn sources(sources: &[String], from: Option<&OutputReader>) -> Result<(Vec<RunDir>, Vec<Record>)> {
    let (mut stored, mut outputs) = (Vec::new(), Vec::new());
    for source in sources {
        match side(source, from)? {
            Side::Runs(path) => stored.extend(store::list(&path)?),
            Side::Outputs(own) => named(&mut outputs, own)?,
        }
    }
    Ok((stored, read(&outputs, from)?))
}

/// The saved outputs of one name.
struct Outputs<'s> {
    name: String,
    /// The source whose path has that name; `None`: the user gave it.
    by_path: Option<&'s str>,
    files: Vec<PathBuf>,
}

/// Adds a source's outputs to those of their name.
///
/// # Errors
/// Two sources that are not named by the user, and whose paths have one name.
fn named<'s>(all: &mut Vec<Outputs<'s>>, own: Outputs<'s>) -> Result<()> {
    let Some(known) = all.iter_mut().find(|o| o.name == own.name) else {
        all.push(own);
        return Ok(());
    };
    if let (Some(one), Some(other)) = (known.by_path, own.by_path) {
        return Err(two_of_one_name(one, other, &own.name));
    }
    known.by_path = known.by_path.or(own.by_path);
    known.files.extend(own.files);
    Ok(())
}

/// The records of all outputs; those that schedlab printed come last.
fn read(outputs: &[Outputs<'_>], from: Option<&OutputReader>) -> Result<Vec<Record>> {
    let (mut saved, mut printed) = (Vec::new(), Vec::new());
    for (i, own) in outputs.iter().enumerate() {
        let mut seed = (i as u64 + 1) << 32;
        let given = Given { name: own.name.clone(), by_user: own.by_path.is_none() };
        for file in &own.files {
            match contents(file, from)? {
                Contents::Tool(tool, readings) => {
                    for reading in readings {
                        saved.extend(runs(&given, file, tool, &reading, &mut seed)?);
                    }
                }
                Contents::Text(found) => {
                    seed += 1;
                    let mut run = record(TEXT, &given.name, file)?;
                    (run.seed, run.spec) = (seed, serde_json::json!({ "kind": KIND, "tool": TEXT }));
                    (run.found.figures, run.found.series) = (found.figures, found.series);
                    saved.push(run);
                }
                Contents::Schedlab(runs) => printed.extend(runs.into_iter().map(|mut run| {
                    seed += 1;
                    run.seed.get_or_insert(seed);
                    (given.clone(), file.clone(), run)
                })),
            }
        }
    }
    saved.extend(own_records(printed)?);
    Ok(saved)
}

/// A source's name, and whether the user gave it.
#[derive(Clone, PartialEq)]
struct Given {
    name: String,
    by_user: bool,
}

enum Contents {
    Tool(&'static Tool, Vec<Reading>),
    Schedlab(Vec<schedlab_json::Run>),
    /// Values found by the user's expressions.
    Text(Box<Findings>),
}

fn contents(path: &Path, from: Option<&OutputReader>) -> Result<Contents> {
    let text = text(path)?;
    let reader = from.cloned().or_else(|| reader_of(&text)).ok_or_else(|| {
        if let Some(form) = schedlab_import::form_at(path) {
            return schedlab_import::not_a_run(path, form);
        }
        let known: Vec<&str> = TOOLS.iter().map(|t| t.name).chain(FORMS.iter().map(|f| f.name)).collect();
        Error::input("not the output of a tool that is known")
            .help(format!(
                "known: {}; --from NAME says which it is. --metric-regex 'NAME[UNIT]=REGEX' reads a figure out of any text, by \
                 the first group of the expression: --metric-regex 'rate[ops/s]=([0-9.]+) ops/s'",
                known.join(", ")
            ))
            .at(Spot::file(path))
    })?;
    match reader {
        OutputReader::Tool(tool) => (tool.read)(&text).map(|all| Contents::Tool(tool, all)),
        OutputReader::Schedlab(form) => (form.read)(&text).map(Contents::Schedlab),
        OutputReader::Text(wanted) => {
            let said = CommandOutput { stdout: text, stderr: String::new() };
            let mut found = Findings::default();
            wanted
                .iter()
                .try_for_each(|w| extract(w, &said, &mut found))
                .and_then(|()| super::tool::check_size(&found.figures))
                .map(|()| Contents::Text(Box::new(found)))
        }
    }
    .map_err(|e| e.at(Spot::file(path)))
}

/// Records of schedlab's own output. Variants keep their names; the source's name is put before them if the user named
/// the source, or if two sources have a variant of the same name.
fn own_records(printed: Vec<(Given, PathBuf, schedlab_json::Run)>) -> Result<Vec<Record>> {
    let cell =
        |r: &schedlab_json::Run| [&r.backend, &r.machine, &r.workload, &r.load, &r.variant].map(Clone::clone);
    let name = |given: &Given, run: &schedlab_json::Run| {
        let variants = printed.iter().filter(|(g, ..)| g == given).map(|(.., r)| &r.variant);
        let alone = variants.collect::<std::collections::BTreeSet<_>>().len() == 1;
        let twice = printed.iter().any(|(g, _, r)| g != given && cell(r) == cell(run));
        match (run.variant.as_str(), given.by_user, alone) {
            ("", ..) | (_, true, true) => given.name.clone(),
            (own, true, false) => format!("{} {own}", given.name),
            (own, false, _) if twice => format!("{} {own}", given.name),
            (own, false, _) => own.to_owned(),
        }
    };
    printed.iter().map(|(given, file, run)| own_record(&name(given, run), file, run)).collect()
}

fn own_record(variant: &str, file: &Path, run: &schedlab_json::Run) -> Result<Record> {
    // Names in a file may contain anything; names in records must be printable.
    let name_or = |text: &str, otherwise: &str| {
        printable::name(if text.is_empty() { otherwise } else { text }).into_owned()
    };
    let figures = run.figures.iter().map(|(name, f)| {
        let unit = printable::name(&f.unit).into_owned();
        (printable::name(name).into_owned(), Figure { unit, ..f.clone() })
    });
    let backend = Origin::from_word(&name_or(&run.backend, Origin::FILE));
    let kernel = name_or(&run.kernel, UNKNOWN);
    let mut warnings = Vec::new();
    if run.mean_of > 1 {
        let text = format!(
            "this CSV has means of {}, each of which counts as one run: its spread is not known here; the JSON form \
             has every run",
            schedlab_base::counted(run.mean_of, "run")
        );
        warnings.push(Warning::new("saved.means", text));
    }
    let variant = name_or(variant, UNKNOWN);
    let mut plain = record(&name_or(&run.workload, UNKNOWN), &variant, file)?;
    (plain.found.figures, plain.found.warnings) = (figures.collect(), warnings);
    super::tool::check_size(&plain.found.figures).map_err(|e| e.at(Spot::file(file)))?;
    if run.everything {
        plain.found.environment.insert(EVERYTHING.to_owned(), "yes".to_owned());
    }
    Ok(Record {
        model: run.model.unwrap_or_else(|| version_of(&backend)),
        machine: Machine { name: name_or(&run.machine, &plain.machine.name), ..plain.machine },
        variant: Variant { name: variant, ..Variant::plain(&kernel) },
        kernel,
        backend,
        spec: serde_json::json!({ "kind": KIND, "tool": OWN, "params": run.params }),
        load: name_or(&run.load, "default"),
        observe: run.watched,
        seed: run.seed.unwrap_or_default(),
        ..plain
    })
}

/// Whether a source is `NAME=FILE` rather than a path with such a name.
fn is_named(source: &str) -> bool {
    !Path::new(source).exists() && source.split_once('=').is_some_and(|(name, _)| !name.trim().is_empty())
}

fn two_of_one_name(one: &str, other: &str, name: &str) -> Error {
    let help = if one == other {
        "a file counts once; several runs of one variant: NAME=FILE,FILE".to_owned()
    } else {
        format!("two variants: old={one} new={other}; two runs of one: {name}={one},{other}")
    };
    Error::input(format!("{one} and {other} are both named '{name}'")).help(help)
}

enum Side<'s> {
    Runs(PathBuf),
    Outputs(Outputs<'s>),
}

/// The runs or the outputs of a source.
fn side<'s>(source: &'s str, from: Option<&OutputReader>) -> Result<Side<'s>> {
    let path = Path::new(source);
    if is_named(source)
        && let Some((name, files)) = source.split_once('=')
    {
        let mut outputs =
            Outputs { name: printable::name(name).into_owned(), by_path: None, files: Vec::new() };
        for file in files.split(',') {
            if file.is_empty() {
                return Err(Error::input(format!("'{source}' names no file")).help("NAME=FILE[,FILE...]"));
            }
            collect(Path::new(file), MAX_DEPTH, &mut outputs.files)?;
        }
        return Ok(Side::Outputs(outputs));
    }
    let of_path = |whole: Option<&std::ffi::OsStr>, files: Vec<PathBuf>| {
        let name = printable::name(&whole.map_or(source.into(), |n| n.to_string_lossy())).into_owned();
        Side::Outputs(Outputs { name, by_path: Some(source), files })
    };
    if path.is_dir() {
        match store::list(path) {
            Ok(_) => return Ok(Side::Runs(path.to_owned())),
            Err(none) => {
                let mut files = Vec::new();
                collect(path, MAX_DEPTH, &mut files)?;
                let first = files.first().map(|f| text(f)).transpose()?;
                let known = |text: String| from.is_some() || reader_of(&text).is_some();
                if let Some(form) = schedlab_import::form_at(path).filter(|_| from.is_none()) {
                    return Err(schedlab_import::not_a_run(path, form));
                }
                return if first.is_some_and(known) {
                    Ok(of_path(path.file_name(), files))
                } else {
                    Err(none.help(
                        "a run is a folder with a record.json; saved outputs of known tools are read, too, and \
                         --metric-regex 'NAME[UNIT]=REGEX' reads a figure out of any text",
                    ))
                };
            }
        }
    }
    if path.file_name().is_some_and(|n| n == store::RECORD_FILE) {
        Ok(Side::Runs(path.to_owned()))
    } else {
        Ok(of_path(path.file_stem(), vec![path.to_owned()]))
    }
}

/// The files of a path: itself, or those below it, sorted by name.
fn collect(path: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let entries = fs::read_dir(path).map_err(|e| Error::io(path, "read", &e))?;
    let mut inner: Vec<fs::DirEntry> = entries.flatten().collect();
    inner.retain(|e| !e.file_name().as_encoded_bytes().starts_with(b"."));
    inner.sort_by_key(fs::DirEntry::file_name);
    for entry in inner {
        let kind = entry.file_type().map_err(|e| Error::io(&entry.path(), "read", &e))?;
        if kind.is_file() || (kind.is_dir() && depth > 0) {
            collect(&entry.path(), depth.saturating_sub(1), files)?;
        }
    }
    Ok(())
}

/// A file's text. Bytes that are not UTF-8 are replaced: a progress line or a host's name may contain any.
fn text(path: &Path) -> Result<String> {
    Ok(String::from_utf8_lossy(&input::bytes(path)?).into_owned())
}

/// The runs of a result: its repeats, or the result itself.
fn runs(variant: &Given, file: &Path, tool: &Tool, reading: &Reading, seed: &mut u64) -> Result<Vec<Record>> {
    let runs: Vec<&FigureValues> =
        if reading.repeats.is_empty() { vec![&reading.values] } else { reading.repeats.iter().collect() };
    let several = runs.len() > 1;
    let mut all = Vec::new();
    for values in runs {
        *seed += 1;
        let mut record = Record {
            spec: serde_json::json!({ "kind": KIND, "tool": tool.name }),
            load: reading.load.clone().unwrap_or_else(|| "default".to_owned()),
            seed: *seed,
            ..record(tool.name, &variant_of(variant, reading), file)?
        };
        record.found.figures = tool.figures(tool.name, values)?;
        super::tool::check_size(&record.found.figures).map_err(|e| e.at(Spot::file(file)))?;
        record.found.warnings.extend(unread(&reading.unread));
        if several {
            let text = format!(
                "{} made these runs one after the other: what drifted meanwhile is not in their spread",
                tool.name
            );
            record.found.warnings.push(Warning::new("saved.in_a_row", text));
        }
        if let Some(what) = &reading.means {
            let text = format!(
                "{}: a figure is a mean of {what}, which counts as one run: its spread is not known here; several outputs of \
                 single runs can be compared with intervals",
                tool.name
            );
            record.found.warnings.push(Warning::new("saved.means", text));
        }
        all.push(record);
    }
    Ok(all)
}

/// The warning for lines of a table that can't be read.
fn unread(lines: &[usize]) -> Option<Warning> {
    let first = lines.first()?;
    let shown: Vec<String> = lines.iter().take(5).map(usize::to_string).collect();
    let more = if lines.len() > shown.len() { ", ..." } else { "" };
    let text = match lines.len() {
        1 => {
            format!("line {first} looks like a row of the table and can't be read: its figures are left out")
        }
        n => format!(
            "{n} lines look like rows of the table and can't be read (lines {}{more}): their figures are left out",
            shown.join(", ")
        ),
    };
    Some(Warning::new("saved.unread", text))
}

/// The variant's name: the source's, or that of the text's variant, with the source's name before it if the user gave
/// one.
fn variant_of(given: &Given, reading: &Reading) -> String {
    match (&reading.variant, given.by_user) {
        (None, _) => given.name.clone(),
        (Some(own), false) => own.clone(),
        (Some(own), true) => format!("{} {own}", given.name),
    }
}

/// A record of which only workload, variant and file are known.
fn record(workload: &str, variant: &str, file: &Path) -> Result<Record> {
    let backend = Origin::from_word(Origin::FILE);
    Ok(Record {
        schema: RECORD_SCHEMA.to_owned(),
        model: version_of(&backend),
        backend,
        machine: Machine::unknown(&format!("{UNKNOWN} machine"))?,
        drawn: Vec::new(),
        kernel: UNKNOWN.to_owned(),
        resolved: None,
        guest: None,
        code: None,
        observe: None,
        variant: Variant { name: variant.to_owned(), ..Variant::plain(UNKNOWN) },
        workload: workload.to_owned(),
        spec: serde_json::Value::Null,
        load: "default".to_owned(),
        seed: 0,
        found: Findings {
            environment: [("saved.file".to_owned(), file.display().to_string())].into(),
            ..Findings::default()
        },
    })
}
