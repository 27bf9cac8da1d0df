//! JSON Schemas of schedlab's forms (docs/schemas), made from what the commands print.
//!
//! [`FORMS`] names the commands of each form. Their outputs are put together: a key that is in all of them is
//! required, a key with values of several types may have each of these. Keys of [`MAPS`] hold names as keys.
//! `SCHEDLAB_BLESS=1 cargo test -p schedlab --test it schemas` writes the files anew; without it the files
//! must be those that the commands give, so a key that is added, lost or changed shows. Each form that the code names
//! must be in [`FORMS`] or in [`OWN`].

mod values;

use crate::common::{Lab, fake_tree, files, texts};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A form, and the commands that print it. A command of [`MAY_FAIL`] that cannot work on this machine (exit code 3)
/// is left out, and a form without outputs keeps its file. Forms without commands are in `values`. A line that begins
/// with `@` is a file that the commands before it left. `live ` stands before commands that measure this machine for
/// long: `SCHEDLAB_TEST_LIVE` runs them.
const FORMS: &[(&str, &[&str])] = &[
    (
        "comparison",
        &[
            "run small.toml --json --quiet",
            "run small.toml --json --quiet --runs 1 --out single",
            "run small.toml --json --quiet --uncertainty --runs 6 --load 1x6 --metric work --out drawn",
            "compare runs --json",
            "compare A=h1.txt,h2.txt B=h3.txt,h4.txt --json",
            "run published.toml --json --quiet",
        ],
    ),
    (
        "run",
        &[
            "bench --backend sim --machine smp-2 pipe --loops 200 --json",
            "bench --backend sim --machine smp-2 --json slice -r 200ms",
            "bench --backend sim --machine smp-2 --json schbench-modern -r 2s",
        ],
    ),
    ("record", &["@CELL/1/record.json", "@LONE/1/record.json"]),
    ("runs", &["runs --json", "runs --json --out drawn"]),
    ("stored", &["runs show CELL --json", "runs show CELL/1 --json"]),
    ("removal", &["runs rm CELL --json --out rest"]),
    ("tools", &["bench --tools --json"]),
    ("studies", &["study --json"]),
    ("reports", &["study reports --json --quiet --out reports"]),
    ("names", &["new --list --json", "new --list keys --json"]),
    ("new", &["new fresh.toml --json"]),
    ("features", &["kernel features --json", "kernel features v6.5 --json"]),
    ("history", &["kernel history --json", "kernel history v6.5 --json"]),
    ("machines", &["machine --json"]),
    ("machine", &["machine smp-4 --json", "machine fb-2x12-smt --json", "machine juno-4-2 --json"]),
    ("cases", &["validate --list --json"]),
    ("change-cases", &["validate --changes --list --json"]),
    ("explanation", &["explain CELL/1 --json"]),
    ("jobs", &["jobs --json"]),
    ("indexed", &["runs index --json"]),
    ("index-check", &["runs index --check --json"]),
    ("knee", &["knee schbench --backend sim --machine smp-2 --json --quiet -r 300ms"]),
    ("explanations", &["explain CELL/1 --vs first-idle --json"]),
    ("explanation-of-samples", &["explain CELL/1 --metric schbench.latency.p90 --json"]),
    ("idle-while-waiting", &["explain CELL/1 --idle-while-waiting --json"]),
    ("import", &["import recording.txt --json --out imported", "import recording.txt --json --out imported"]),
    ("latency", &["latency recording.txt --json", "latency recording.txt --threads --json"]),
    ("replay", &["replay imported --as-kernel v6.1 --json --quiet"]),
    ("schedstat", &["schedstat counters --json", "schedstat counters --per-cpu --json"]),
    ("stat", &["stat --json -- true", "stat --runs 3 --json -- true", "stat -a --for 100ms --json"]),
    (
        "hunt",
        &[
            "hunt v6.5 --wrong nice-preemption --evals 60 --machine smp-2 --json --quiet",
            "hunt v6.5+SIS_FIRST_IDLE --evals 2 --machine smp-2 --json --quiet",
        ],
    ),
    ("doctor", &["doctor --json"]),
    ("restore", &["restore --json"]),
    ("kernels", &["kernel list image --cache none --json", "kernel list --cache cache --json"]),
    ("validation", &["live validate tiny.toml --runs 2 --json --quiet --out validated"]),
    ("migration-cost-simulated", &["migration-cost --machine celeron-2 --json"]),
    ("built", &["kernel build --source tree --cache cache --json --quiet"]),
    ("profile", &["profile --json -- true", "profile -a --for 100ms --json"]),
    ("recording", &["record --json -- true"]),
    ("background", &["machine background --seconds 1 --json"]),
    ("migration-cost", &["live migration-cost --size 96K --json"]),
    ("noise", &["live doctor --noise pipe --runs 2 --json --quiet"]),
    ("probe", &["live machine probe --even-if-busy --json --quiet"]),
    ("probe-migration", &["live machine probe --migration --even-if-busy --json --quiet"]),
    ("bisection", &[]),
    ("changes", &[]),
    ("decisions", &[]),
    ("fetched", &[]),
    ("first-differences", &[]),
    ("trial", &[]),
];

/// Forms whose commands need more of the machine than a test may count on: counters, tracepoints, a compiler. So do
/// those with `live ` before them.
const MAY_FAIL: &[&str] = &["stat", "profile", "recording", "background", "built"];

/// Files that only schedlab itself reads: they have no schema.
const OWN: &[&str] = &["events", "index", "journal", "parcel", "results", "submission", "task"];

/// Keys whose objects have names as keys.
const MAPS: &[&str] = &[
    "metrics",
    "series",
    "counters",
    "figures",
    "environment",
    "tunables",
    "features",
    "costs",
    "settings",
    "changes",
];
/// Keys with content of a workload or machine, and not of the form.
const ANY: &[&str] = &["params", "spec", "machine", "resolved", "variant", "drawn", "detail", "schedstat"];
/// The key of a comparison within another form.
const COMPARISON: &str = "comparison";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas")
}

/// What a line of [`FORMS`] gives; `None` where it cannot work here, or is not asked for.
fn output(lab: &Lab, (cell, lone): (&str, &str), form: &str, line: &str) -> Option<Value> {
    let line = line.replace("CELL", cell).replace("LONE", lone);
    let text = match (line.strip_prefix('@'), line.strip_prefix("live ")) {
        (Some(file), _) => std::fs::read_to_string(lab.path().join(file)).unwrap(),
        (_, Some(_)) if std::env::var_os("SCHEDLAB_TEST_LIVE").is_none() => return None,
        (_, live) => {
            let words: Vec<&str> = live.unwrap_or(&line).split(' ').collect();
            let mut command = lab.command(&words);
            command.env("HOME", lab.path()).env("SCHEDLAB_STATE_DIR", lab.path().join("state"));
            let output = command.output().unwrap();
            let (out, err) = texts(&output);
            match output.status.code() {
                // 1: the two sides of a case differ.
                Some(0) => out,
                Some(1) if words[0] == "validate" => out,
                Some(3) if MAY_FAIL.contains(&form) || live.is_some() => return None,
                code => panic!("{line}: {code:?}\n{out}\n{err}"),
            }
        }
    };
    Some(serde_json::from_str(&text).unwrap_or_else(|e| panic!("{line}: {e}\n{text}")))
}

/// The schema of one value.
fn of(key: &str, value: &Value) -> Value {
    match value {
        Value::Object(_) if ANY.contains(&key) => json!({}),
        Value::Array(_) if ANY.contains(&key) && key != "machine" => json!({}),
        Value::Object(_) if key == COMPARISON => json!({ "$ref": "../comparison/1.json" }),
        Value::Null => json!({ "type": "null" }),
        Value::Bool(_) => json!({ "type": "boolean" }),
        Value::Number(n) if n.is_f64() => json!({ "type": "number" }),
        Value::Number(_) => json!({ "type": "integer" }),
        Value::String(_) => json!({ "type": "string" }),
        Value::Array(all) => {
            let items = all.iter().map(|v| of("", v)).reduce(both);
            json!({ "type": "array", "items": items.unwrap_or_else(|| json!({ "not": {} })) })
        }
        Value::Object(map) if MAPS.contains(&key) => {
            let values = map.values().map(|v| of("", v)).reduce(both);
            json!({ "type": "object", "additionalProperties": values.unwrap_or_else(|| json!({ "not": {} })) })
        }
        Value::Object(map) => {
            let properties: Map<String, Value> = map.iter().map(|(k, v)| (k.clone(), of(k, v))).collect();
            let required: Vec<&String> = map.keys().collect();
            json!({ "type": "object", "properties": properties, "required": required })
        }
    }
}

/// The schema of what either schema allows.
fn both(a: Value, b: Value) -> Value {
    if a == b || a == json!({}) || b == json!({ "not": {} }) {
        return a;
    }
    if b == json!({}) || a == json!({ "not": {} }) {
        return b;
    }
    let kinds = |v: &Value| v["anyOf"].as_array().cloned().unwrap_or_else(|| vec![v.clone()]);
    let mut all: Vec<Value> = kinds(&a);
    for other in kinds(&b) {
        let same = |v: &Value| is_number(v) && is_number(&other) || v["type"] == other["type"];
        match all.iter_mut().find(|v| same(v)) {
            Some(known) => *known = joined(known, &other),
            None => all.push(other),
        }
    }
    all.sort_by_key(|v| v["type"].to_string());
    if all.len() == 1 { all.remove(0) } else { json!({ "anyOf": all }) }
}

fn is_number(v: &Value) -> bool {
    v["type"] == "number" || v["type"] == "integer"
}

/// Two schemas of one type.
fn joined(a: &Value, b: &Value) -> Value {
    match a["type"].as_str() {
        _ if is_number(a) && a != b => json!({ "type": "number" }),
        Some("array") => json!({ "type": "array", "items": both(a["items"].clone(), b["items"].clone()) }),
        Some("object")
            if a.get("additionalProperties").is_some() && b.get("additionalProperties").is_some() =>
        {
            let values = both(a["additionalProperties"].clone(), b["additionalProperties"].clone());
            json!({ "type": "object", "additionalProperties": values })
        }
        Some("object") => {
            let of = |v: &Value| v["properties"].as_object().cloned().unwrap_or_default();
            let (mut properties, others) = (of(a), of(b));
            for (key, other) in others {
                let known = properties.remove(&key);
                properties.insert(key, known.map_or(other.clone(), |known| both(known, other)));
            }
            let names = |v: &Value| -> BTreeSet<String> {
                let all = v["required"].as_array().into_iter().flatten();
                all.filter_map(|n| n.as_str().map(str::to_owned)).collect()
            };
            let required: Vec<String> = names(a).intersection(&names(b)).cloned().collect();
            json!({ "type": "object", "properties": properties, "required": required })
        }
        _ => a.clone(),
    }
}

/// The schema with all open that no output showed: a list that was always empty may hold anything.
fn opened(schema: Value) -> Value {
    match schema {
        Value::Object(map) if map.len() == 1 && map.get("not") == Some(&json!({})) => json!({}),
        Value::Object(map) => map.into_iter().map(|(key, v)| (key, opened(v))).collect(),
        Value::Array(all) => all.into_iter().map(opened).collect(),
        plain => plain,
    }
}

/// What a value has that the schema does not allow; `None` if nothing.
fn fault(schema: &Value, value: &Value, place: &str) -> Option<String> {
    if let Some(kinds) = schema["anyOf"].as_array() {
        let all: Vec<String> = kinds.iter().filter_map(|kind| fault(kind, value, place)).collect();
        return (all.len() == kinds.len()).then(|| all.join("; or "));
    }
    let fits = match schema["type"].as_str() {
        None => return None,
        Some("null") => value.is_null(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("string") => value.is_string(),
        Some("array") => value.is_array(),
        Some(_) => value.is_object(),
    };
    if !fits {
        return Some(format!("{place}: not {}", schema["type"]));
    }
    if let Some(all) = value.as_array() {
        return all.iter().find_map(|v| fault(&schema["items"], v, &format!("{place}[]")));
    }
    let map = value.as_object()?;
    let lacks =
        schema["required"].as_array().into_iter().flatten().find(|k| !map.contains_key(k.as_str().unwrap()));
    if let Some(key) = lacks {
        return Some(format!("{place}: no {key}"));
    }
    map.iter().find_map(|(key, v)| {
        match (schema["properties"].get(key), schema.get("additionalProperties")) {
            (Some(inner), _) | (None, Some(inner)) => fault(inner, v, &format!("{place}.{key}")),
            (None, None) => Some(format!("{place}: '{key}' is not in the schema")),
        }
    })
}

const PUBLISHED: &str = "\n[[published]]\nvariant = \"v4.5\"\nmetric = \"schbench.latency.p50\"\nvalue = \"70us\"\nsource = \"D000\"\n";

/// A run whose tasks are of one name: records leave out what there is by group.
const LONE: &str = r#"
name = "lone"
runs = 1
machines = ["smp-2"]
[workload]
name = "nanosleep"
runtime = "50ms"
[[variant]]
kernel = "v4.5"
"#;

const TINY: &str = r#"
name = "tiny"
about = "spinning processes, for a moment"
backend = "host"
machine = "host"
runs = 2
[kernel]
simulated = "v6.18"
[workload]
name = "slice"
tasks = "{cpus*2}"
rate = 200
sampler = "off"
runtime = "300ms"
[tolerance]
totals = 2
switches = 25
migrations = 25
slices = 20
delays = 35
placement = 25
balance = 35
spread = 50
distributions = 25
"#;

/// A lab with the files that the commands read.
fn furnished() -> Lab {
    let lab = Lab::new();
    for (name, time) in [("h1", "0.100"), ("h2", "0.101"), ("h3", "0.110"), ("h4", "0.111")] {
        lab.write(&format!("{name}.txt"), &format!("Time: {time}\n"));
    }
    lab.write("published.toml", &(crate::common::SMALL.to_owned() + PUBLISHED));
    lab.write("tiny.toml", TINY);
    lab.write("lone.toml", LONE);
    lab.write("recording.txt", include_str!("../cases/files/ftrace-waking-and-wakeup.txt"));
    lab.write("counters", include_str!("../../../record/tests/data/schedstat.v15-sg-scan"));
    fake_tree(&lab);
    lab
}

#[test]
fn schemas_are_those_of_the_commands() {
    let lab = furnished();
    let first = lab.json(&["run", "small.toml", "--json", "--quiet"]);
    let cell = first["cells"][0]["folders"][0].as_str().unwrap().to_owned();
    let rest = first["cells"][1]["folders"][0].as_str().unwrap().replace("runs/", "rest/");
    lab.ok(&["run", "small.toml", "--quiet", "--out", "rest"]);
    let lone = lab.json(&["run", "lone.toml", "--json", "--quiet", "--out", "lone"]);
    let lone = lone["cells"][0]["folders"][0].as_str().unwrap().to_owned();
    for (name, commands) in FORMS {
        let cell = if commands.iter().any(|c| c.contains("--out rest")) { &rest } else { &cell };
        let made = values::of(name);
        assert_eq!(made.is_some(), commands.is_empty(), "{name}: commands or values");
        let outputs = made.unwrap_or_else(|| {
            commands.iter().filter_map(|line| output(&lab, (cell, &lone), name, line)).collect()
        });
        // Without an output of each command a key may seem to be required that is not.
        check(name, &outputs, commands.is_empty() || outputs.len() == commands.len());
    }
}

/// Holds outputs of a form against its file; `complete` says that there is one of each command.
fn check(name: &str, outputs: &[Value], complete: bool) {
    let form = values::numbered(name);
    assert!(outputs.iter().all(|o| o["schema"] == form.as_str()), "{form}");
    let file = folder().join(format!("{name}.json"));
    let body = outputs.iter().map(|o| of("", o)).reduce(both).map(opened);
    let schema = body.map(|body| {
        let mut schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema", "$id": format!("{form}.json"), "title": form,
        });
        schema.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        schema["properties"]["schema"] = json!({ "const": form });
        schema
    });
    if let Some(schema) = &schema
        && std::env::var_os("SCHEDLAB_BLESS").is_some()
        && (complete || !file.exists())
    {
        std::fs::write(&file, serde_json::to_string_pretty(schema).unwrap() + "\n").unwrap();
    }
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let stored: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(stored["title"], form.as_str());
    for output in outputs {
        assert_eq!(fault(&stored, output, name), None, "SCHEDLAB_BLESS=1 writes docs/schemas anew");
    }
    match schema {
        Some(schema) if complete => assert_eq!(stored["required"], schema["required"], "{form}"),
        _ => println!("{form}: not every command of it works here"),
    }
}

/// The names of the forms that a file of the code has.
fn names_in(text: &str) -> impl Iterator<Item = &str> {
    text.split("\"schedlab/").skip(1).filter_map(|rest| {
        let (name, rest) = rest.split_once('/')?;
        let is_name = name.chars().all(|c| c.is_ascii_lowercase() || c == '-');
        (is_name && rest.starts_with(|c: char| c.is_ascii_digit())).then_some(name)
    })
}

#[test]
fn every_form_of_the_code_has_a_schema() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut named = BTreeSet::new();
    for room in std::fs::read_dir(crates).unwrap().flatten() {
        for (path, bytes) in files(&room.path().join("src")) {
            if path.ends_with(".rs") {
                named.extend(names_in(&String::from_utf8(bytes).unwrap()).map(str::to_owned));
            }
        }
    }
    let known: BTreeSet<String> =
        FORMS.iter().map(|(name, _)| *name).chain(OWN.iter().copied()).map(str::to_owned).collect();
    assert_eq!(named, known);
    let stored = std::fs::read_dir(folder()).unwrap().flatten();
    let stored: BTreeSet<String> =
        stored.filter_map(|e| e.file_name().to_str()?.strip_suffix(".json").map(str::to_owned)).collect();
    assert_eq!(stored, FORMS.iter().map(|(name, _)| (*name).to_owned()).collect());
}

#[test]
fn a_schema_refuses_what_is_not_of_its_form() {
    let schema = both(
        of("", &json!({ "a": 1, "b": [1, 2.5], "metrics": { "x": 1 } })),
        of("", &json!({ "a": null, "b": [], "metrics": {} })),
    );
    let wrong = |value: Value| fault(&schema, &value, "it");
    assert_eq!(wrong(json!({ "a": null, "b": [3], "metrics": { "other": 2 } })), None);
    for value in [
        json!({ "a": "text", "b": [], "metrics": {} }),
        json!({ "a": 1, "b": ["x"], "metrics": {} }),
        json!({ "a": 1, "metrics": {} }),
        json!({ "a": 1, "b": [], "metrics": { "x": "y" } }),
        json!({ "a": 1, "b": [], "metrics": {}, "more": 1 }),
    ] {
        assert!(wrong(value.clone()).is_some(), "{value}");
    }
}
