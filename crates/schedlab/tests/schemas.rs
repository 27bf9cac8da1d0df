//! The JSON Schemas of docs/schemas hold for real output, and every form of the code is described in docs/formats.md.

use crate::common::{Lab, SMALL, files};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn docs(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

fn is_of_type(word: &str, value: &Value) -> bool {
    match word {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("schemas here have no type {other}"),
    }
}

/// The first part of a value that the schema does not describe. A key that it does not name is a fault, too: a new key
/// gets its place in the schema.
fn fault(schema: &Value, value: &Value, place: &str) -> Option<String> {
    if let Some(kinds) = schema["anyOf"].as_array() {
        let all: Vec<String> = kinds.iter().filter_map(|kind| fault(kind, value, place)).collect();
        return (all.len() == kinds.len()).then(|| all.join("; or "));
    }
    if let Some(constant) = schema.get("const") {
        return (constant != value).then(|| format!("{place}: not {constant}"));
    }
    let word = schema["type"].as_str()?;
    if !is_of_type(word, value) {
        return Some(format!("{place}: not of type {word}"));
    }
    if let Some(all) = value.as_array() {
        return all.iter().find_map(|v| fault(&schema["items"], v, &format!("{place}[]")));
    }
    let map = value.as_object()?;
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if let Some(key) = required.into_iter().find(|key| !map.contains_key(*key)) {
        return Some(format!("{place}: no {key}"));
    }
    map.iter().find_map(|(key, v)| {
        match schema["properties"].get(key).or_else(|| schema.get("additionalProperties")) {
            Some(inner) => fault(inner, v, &format!("{place}.{key}")),
            None => Some(format!("{place}: '{key}' is not in the schema")),
        }
    })
}

fn holds(name: &str, value: &Value) {
    let file = docs(&format!("schemas/{name}.json"));
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(fault(&schema, value, name), None);
}

#[test]
fn the_schemas_hold_for_output() {
    let lab = Lab::new();
    let published = "\n[[published]]\nvariant = \"v4.5\"\nmetric = \"schbench.latency.p50\"\nvalue = \"70us\"\nsource = \"D000\"\n";
    lab.write("published.toml", &(SMALL.to_owned() + published));
    for (name, time) in [("h1", "0.100"), ("h2", "0.101"), ("h3", "0.110"), ("h4", "0.111")] {
        lab.write(&format!("{name}.txt"), &format!("Time: {time}\n"));
    }
    for line in [
        "run small.toml --json --quiet",
        "run small.toml --json --quiet --runs 1 --out single",
        "run small.toml --json --quiet --uncertainty --runs 6 --load 1x6 --metric work --out drawn",
        "compare runs --json",
        "compare A=h1.txt,h2.txt B=h3.txt,h4.txt --json",
        "run published.toml --json --quiet",
    ] {
        holds("comparison", &lab.json(line));
    }
    for line in [
        "bench --backend sim --machine smp-2 pipe --loops 200 --json",
        "bench --backend sim --machine smp-2 --json slice -r 200ms",
        "bench --backend sim --machine smp-2 --json schbench-modern -r 2s",
        // All tasks have one name: the record leaves out what there is by group.
        "bench --backend sim --machine smp-2 --json nanosleep -r 50ms",
    ] {
        holds("run", &lab.json(line));
    }
    let records = lab.records("runs");
    assert!(records.len() >= 16, "{} records", records.len());
    records.iter().for_each(|record| holds("record", record));
}

#[test]
fn a_schema_refuses_other_values() {
    let number = json!({ "type": "number" });
    let schema = json!({
        "type": "object", "required": ["a", "b"],
        "properties": {
            "a": { "anyOf": [{ "type": "null" }, { "type": "integer" }] },
            "b": { "type": "array", "items": number },
            "metrics": { "type": "object", "additionalProperties": number },
        },
    });
    let wrong = |value: Value| fault(&schema, &value, "it").is_some();
    assert!(!wrong(json!({ "a": null, "b": [3, 2.5], "metrics": { "any": 2 } })));
    for value in [
        json!({ "a": "text", "b": [] }),
        json!({ "a": 1, "b": ["x"] }),
        json!({ "a": 1 }),
        json!({ "a": 1, "b": [], "metrics": { "x": "y" } }),
        json!({ "a": 1, "b": [], "more": 1 }),
    ] {
        assert!(wrong(value.clone()), "{value}");
    }
}

/// The names of forms in a file of the code, with their numbers.
fn forms_in(text: &str) -> impl Iterator<Item = &str> {
    text.split("\"schedlab/").skip(1).filter_map(|rest| rest.split_once('"').map(|(form, _)| form)).filter(
        |form| {
            form.split_once('/').is_some_and(|(name, number)| {
                let plain = name.chars().all(|c| c.is_ascii_lowercase() || c == '-');
                plain && number.chars().all(|c| c.is_ascii_digit()) && !["0", "9", ""].contains(&number)
            })
        },
    )
}

#[test]
fn every_form_of_the_code_is_described() {
    // Files that only schedlab itself reads.
    let own = ["events/1", "index/1", "journal/1"];
    let page = std::fs::read_to_string(docs("formats.md")).unwrap();
    let mut named = BTreeSet::new();
    for room in std::fs::read_dir(docs("../crates")).unwrap().flatten() {
        for (path, bytes) in files(&room.path().join("src")) {
            if path.ends_with(".rs") {
                named.extend(forms_in(&String::from_utf8(bytes).unwrap()).map(str::to_owned));
            }
        }
    }
    assert!(named.len() > 40, "{named:?}");
    let missing: Vec<_> = named
        .iter()
        .filter(|f| !own.contains(&f.as_str()) && !page.contains(&format!("schedlab/{f}")))
        .collect();
    assert_eq!(missing, Vec::<&String>::new(), "docs/formats.md does not describe these");
}
