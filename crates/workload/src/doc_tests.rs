//! docs/workloads.md contains tables made from the code's tables; a stale one fails here.

use crate::param::{Benchmark, ParamKind};
use crate::rtapp::{KEYS, Level};
use crate::{BENCHMARKS, Param};
use schedlab_base::testing::{page_is, with_part};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/workloads.md");

fn options(bench: &Benchmark) -> String {
    let mut text =
        String::from("| option | short | unit | default | range | meaning |\n|---|---|---|---|---|---|\n");
    for Param { name, short, kind, default, range, about } in bench.params {
        let show = |v: u64| kind.show(v);
        let unit = match kind {
            ParamKind::Time(unit) => unit,
            _ => "",
        };
        let short = short.map_or_else(|| switches(*kind), |s| format!("`-{s}`"));
        let default = default.map_or("computed".to_owned(), show);
        let range = match kind {
            ParamKind::Choice(words) => words.iter().map(|w| w.name).collect::<Vec<_>>().join(" or "),
            _ => format!("{} to {}", show(range.0), show(range.1)),
        };
        let name = name.replace('_', "-");
        text += &format!("| `--{name}` | {short} | {unit} | {default} | {range} | {about} |\n");
    }
    text
}

/// The original's switches for a choice's words.
fn switches(kind: ParamKind) -> String {
    let ParamKind::Choice(words) = kind else { return String::new() };
    let all = words.iter().filter_map(|w| w.switch.map(|(_, letter)| format!("`-{letter}`: {}", w.name)));
    all.collect::<Vec<_>>().join(", ")
}

fn keys() -> String {
    let mut text = String::from("| in | key | supported | meaning, or why not |\n|---|---|---|---|\n");
    for level in [Level::Root, Level::Global, Level::Task, Level::Phase, Level::Event] {
        for key in KEYS.iter().filter(|k| k.level == level) {
            text +=
                &format!("| {} | `{}` | {} | {} |\n", level.title(), key.name, key.fate.word(), key.about);
        }
    }
    text
}

/// `page` with the text between the markers of `name` replaced.
fn replaced(page: &str, name: &str, table: &str) -> String {
    let marks = [format!("<!-- begin: {name} -->\n"), format!("<!-- end: {name} -->")];
    let found = with_part(page, marks.each_ref().map(String::as_str), table);
    found.unwrap_or_else(|| panic!("docs/workloads.md lacks one of {marks:?}"))
}

#[test]
fn the_tables_of_the_page_are_those_of_the_code() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let mut wanted = replaced(&page, "rtapp", &keys());
    wanted = replaced(&wanted, "rtapp-examples", &crate::rtapp::example_tests::table());
    for bench in BENCHMARKS {
        wanted = replaced(&wanted, bench.name, &options(bench));
    }
    page_is("docs/workloads.md", &wanted);
}

#[test]
fn every_series_is_on_the_page() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let spec = crate::Spec::RtApp {
        file: "t.json".into(),
        text: r#"{"tasks": {"a": {"loop": 1, "run": 1}}}"#.into(),
        runtime: None,
    };
    let mut specs = vec![spec];
    specs.extend(BENCHMARKS.iter().map(|b| crate::Spec::bench(b.name, &crate::Params::default()).unwrap()));
    for spec in specs {
        for series in spec.build(1).unwrap().series {
            let row = format!("`{}`", series.name);
            let said = page.lines().any(|l| l.contains(&row) && l.contains(&series.better));
            assert!(said, "{row} is not documented, or not that {} is better", series.better);
        }
    }
}
