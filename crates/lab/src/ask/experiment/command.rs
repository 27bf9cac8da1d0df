//! `[workload.command]`: any command, or a known tool with arguments, and the figures taken from its output.

use schedlab_base::{Error, Result};
use schedlab_compare::tools::{self, Template, default_better, one_word_or_line, startable};
use schedlab_machine::reader::Table;
use schedlab_workload::command::{Extract, MAX_TIMEOUT, Place, Source, Take};
use std::collections::BTreeMap;

/// The keys of `[workload.command]`.
pub const KEYS: &[&str] =
    &["run", "tool", "args", "metrics", "timeout", "env", "cwd", "setup", "server", "cleanup", "exit_codes"];
const METRIC_KEYS: &[&str] = &["name", "regex", "json_pointer", "unit", "better", "source", "take"];

/// Reads the table; `label` is the workload's name, if it has one.
///
/// # Errors
/// For any fault in it, with its place.
pub fn read(table: &Table<'_>, label: Option<&str>) -> Result<Template> {
    let arguments = words(table, "args")?;
    let mut template = match (words(table, "run")?, table.string("tool")?) {
        (Some(run), None) if arguments.is_none() => Template::run(run),
        (None, Some(name)) => Template::tool(
            startable(name).map_err(|e| table.place("tool", e))?,
            arguments.unwrap_or_default(),
        ),
        (Some(_), None) => return Err(table.error_at("args", "args are for a tool: put them into run")),
        _ => return Err(table.error("a command has either run (a command line) or tool (a known one)")),
    };
    let spec = &mut template.spec;
    if let Some(label) = label {
        label.clone_into(&mut spec.name);
    }
    spec.setup = words(table, "setup")?.unwrap_or_default();
    spec.cleanup = words(table, "cleanup")?.unwrap_or_default();
    if let Some(server) = words(table, "server")? {
        spec.server = server;
    }
    spec.cwd = table.string("cwd")?.map(str::to_owned);
    spec.env = env(table)?;
    if let Some(timeout) = table.time("timeout")? {
        if timeout.0 == 0 || timeout > MAX_TIMEOUT {
            return Err(table.error_at("timeout", "timeout is more than 0 and at most a week"));
        }
        spec.timeout = timeout;
    }
    if let Some(codes) = table.numbers::<u8>("exit_codes")? {
        if codes.is_empty() {
            return Err(table.error_at("exit_codes", "exit_codes is empty: every run would fail"));
        }
        spec.exit_codes = codes;
    }
    let name = spec.name.clone();
    for inner in table.tables("metrics", METRIC_KEYS)? {
        let wanted = metric(&inner, &name)?;
        if spec.metrics.iter().any(|m| m.name == wanted.name) {
            return Err(inner.error_at("name", format!("two metrics have the name '{}'", wanted.name)));
        }
        spec.metrics.push(wanted);
    }
    Ok(template)
}

/// The words of a list, or of one line, split as a shell does.
fn words(table: &Table<'_>, key: &str) -> Result<Option<Vec<String>>> {
    let Some(value) = table.get(key) else { return Ok(None) };
    if let Some(line) = value.get_ref().as_str() {
        // Arguments may be empty, a command may not.
        if key == "args" && line.trim().is_empty() {
            return Ok(Some(Vec::new()));
        }
        return one_word_or_line(line).map(Some).map_err(|e| table.place(key, e));
    }
    let wrong = || table.error_at(key, format!("{key} is a line, or a list of words"));
    let items = value.get_ref().as_array().filter(|a| key == "args" || !a.is_empty()).ok_or_else(wrong)?;
    let words = items.iter().map(|v| v.get_ref().as_str().map(str::to_owned));
    let words: Vec<String> = words.collect::<Option<_>>().ok_or_else(wrong)?;
    if words.iter().any(|w| w.contains('\0')) || (key != "args" && words[0].is_empty()) {
        return Err(wrong());
    }
    Ok(Some(words))
}

fn env(table: &Table<'_>) -> Result<BTreeMap<String, String>> {
    let Some(value) = table.get("env") else { return Ok(BTreeMap::new()) };
    let wrong = || table.error_at("env", "env is a table of strings: { NAME = \"value\" }");
    let inner = value.get_ref().as_table().ok_or_else(wrong)?;
    let sound = |name: &str| !name.is_empty() && !name.contains(['=', '\0']);
    let one =
        |(key, value): (&toml::Spanned<std::borrow::Cow<'_, str>>, &toml::Spanned<toml::de::DeValue<'_>>)| {
            let text = value.get_ref().as_str().filter(|v| !v.contains('\0') && sound(key.get_ref()));
            text.map(|text| (key.get_ref().to_string(), text.to_owned())).ok_or_else(wrong)
        };
    inner.iter().map(one).collect()
}

fn metric(table: &Table<'_>, workload: &str) -> Result<Extract> {
    let name = table.required("name", table.label("name")?)?;
    let (key, place) = match (table.string("regex")?, table.string("json_pointer")?) {
        (Some(pattern), None) => ("regex", Place::Regex(pattern.to_owned())),
        (None, Some(pointer)) => ("json_pointer", Place::JsonPointer(pointer.to_owned())),
        _ => return Err(table.error("a metric has either regex or json_pointer")),
    };
    let word = |key: &str, known: &[&'static str]| -> Result<&'static str> {
        let Some(given) = table.string(key)? else { return Ok(known[0]) };
        let found = known.iter().copied().find(|k| *k == given);
        found.ok_or_else(|| table.place(key, Error::unknown(key, given, known.iter().copied())))
    };
    let source = match word("source", &["stdout", "stderr"])? {
        "stderr" => Source::Stderr,
        _ => Source::Stdout,
    };
    let take = match word("take", &["only", "first", "last", "all"])? {
        "first" => Take::First,
        "last" => Take::Last,
        "all" => Take::All,
        _ => Take::Only,
    };
    let unit = table.string("unit")?.unwrap_or_default().to_owned();
    let better = match table.get("better") {
        Some(_) => word("better", &["lower", "higher", "neither"])?,
        None => default_better(&unit),
    };
    let name = format!("{workload}.{name}");
    let wanted = Extract { name, place, source, take, unit, better: better.to_owned() };
    let at =
        |e: Error| if e.message().contains("name") { table.place("name", e) } else { table.place(key, e) };
    tools::check(&wanted).map_err(at)?;
    Ok(wanted)
}
