//! README.md and docs/fidelity.md hold figures and tables of the results in cases/results, which `schedlab validate
//! --format stored` printed. To write them anew: `SCHEDLAB_BLESS=1 cargo test -p schedlab-report --test it fidelity`.

use schedlab_base::testing::page_has;
use schedlab_compare::agreement::limits::Limits;
use schedlab_compare::agreement::{AgreementShare, CaseResult, Validation, stored};
use schedlab_report::limits::side_by_side;
use schedlab_report::validation::{judged, overview, sentence};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn result(name: &str) -> Validation {
    let file = root().join(format!("cases/results/{name}.json"));
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    stored::read(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

fn pct(share: AgreementShare) -> String {
    share.pct().map_or_else(String::new, |p| format!("{p:.0} %"))
}

fn whole(name: &str) -> String {
    let (stored, mut tables) = (result(name), Vec::new());
    overview(&stored, &mut tables).unwrap();
    format!("{}\n\n{}", sentence(&stored), String::from_utf8(tables).unwrap())
}

/// The kernel's own code beside our rules, class by class and case by case.
fn code() -> String {
    let (code, rules) = (result("code"), result("guests"));
    let of = |s: AgreementShare| format!("{} of {} | {}", s.agree, s.measured, pct(s));
    let mut text = format!(
        "{}\n\n| | code, {} | | rules, {} | |\n| --- | --- | --- | --- | --- |\n",
        sentence(&code),
        judged(&code),
        judged(&rules)
    );
    let mut row = |name: &str, code, rules| text += &format!("| {name} | {} | {} |\n", of(code), of(rules));
    for (a, b) in code.classes.iter().zip(&rules.classes).filter(|(a, _)| a.share.measured > 0) {
        row(&a.class, a.share, b.share);
    }
    row("all", code.share, rules.share);
    let distinguished = |v: &Validation| v.discriminating.map(|d| d.by_some).unwrap_or_default();
    row("distinguished", distinguished(&code), distinguished(&rules));
    for case in &code.cases {
        let same = rules.cases.iter().find(|c| c.name == case.name).map(|c| c.share).unwrap_or_default();
        row(&case.name, case.share, same);
    }
    text
}

/// The kernel's own code under sched_ext schedulers, by scheduler and by class.
fn scx() -> String {
    let all = result("scx");
    let of = |s: AgreementShare| format!("{} of {} | {}", s.agree, s.measured, pct(s));
    let mut text =
        format!("{}\n\n| scheduler | cases | agree | |\n| --- | --- | --- | --- |\n", sentence(&all));
    let name =
        |c: &CaseResult| c.simulated.as_ref().and_then(|side| side.variant.clone()).unwrap_or_default();
    for one in all.cases.iter().map(name).collect::<BTreeSet<String>>() {
        let mine: Vec<&CaseResult> = all.cases.iter().filter(|c| name(c) == one).collect();
        let share = AgreementShare::of(mine.iter().flat_map(|c| &c.metrics));
        text += &format!("| {one} | {} | {} |\n", mine.len(), of(share));
    }
    text += "\n| metrics | agree | |\n| --- | --- | --- |\n";
    let mut row = |name: &str, share| text += &format!("| {name} | {} |\n", of(share));
    all.classes.iter().filter(|c| c.share.measured > 0).for_each(|c| row(&c.class, c.share));
    row("all", all.share);
    row("distinguished", all.discriminating.map(|d| d.by_some).unwrap_or_default());
    text
}

/// The results of `validate --limits`: our rules and the kernel's own code beside guests, and our rules beside a host.
const LIMITS: [&str; 3] = ["limits", "limits-code", "limits-host"];

fn limits_text(name: &str) -> String {
    let file = root().join(format!("cases/results/{name}.json"));
    std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

/// What limits do to a p99, by guests, rules, code and a host.
fn limits() -> String {
    let all = LIMITS.map(|name| Limits::read(&limits_text(name)).unwrap_or_else(|e| panic!("{name}: {e}")));
    side_by_side(&all.each_ref())
}

/// README's headline.
fn trust() -> String {
    let (guests, host, code) = (result("guests"), result("host"), result("code"));
    let distinguished = guests.discriminating.map(|d| d.by_some).unwrap_or_default();
    format!(
        "- **{}** of {} metrics agree with real kernels (6.1 and 7.3) in guests of up to 16 CPUs, by {}; of those that a wrong\n  \
         scheduler would change, {}. On backend `code` {} of {} agree, by {}.\n\
         - On one host of 2 CPUs {} of {} metrics agree, by {}.\n",
        pct(guests.share),
        guests.share.measured,
        judged(&guests),
        pct(distinguished),
        pct(code.share),
        code.share.measured,
        judged(&code),
        pct(host.share),
        host.share.measured,
        judged(&host),
    )
}

/// A part of a page between `<!-- NAME: made from cases/results -->` and `<!-- end of NAME -->`.
struct Part {
    page: &'static str,
    name: &'static str,
    made: fn() -> String,
}

const PARTS: &[Part] = &[
    Part { page: "README.md", name: "trust", made: trust },
    Part { page: "docs/fidelity.md", name: "guests", made: || whole("guests") },
    Part { page: "docs/fidelity.md", name: "code", made: code },
    Part { page: "docs/fidelity.md", name: "host", made: || whole("host") },
    Part { page: "docs/fidelity.md", name: "scx", made: scx },
    Part { page: "docs/limits.md", name: "limits", made: limits },
];

#[test]
fn pages_hold_the_figures_of_the_stored_results() {
    for Part { page, name, made } in PARTS {
        let marks =
            [format!("<!-- {name}: made from cases/results -->\n"), format!("<!-- end of {name} -->\n")];
        page_has(page, marks.each_ref().map(String::as_str), &format!("\n{}\n", made()));
    }
}

#[test]
fn stored_results_of_limits_are_read_as_they_were_written_and_have_six_loads() {
    for name in LIMITS {
        let (text, all) = (limits_text(name), Limits::read(&limits_text(name)).unwrap());
        assert_eq!(all.write().unwrap(), text, "{name}");
        let cases: BTreeSet<&str> = all.cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(cases.len(), 6, "{name}: {cases:?}");
        assert!(all.cases.iter().all(|case| case.limits.len() >= 6), "{name}");
    }
}

#[test]
fn a_stored_result_is_read_as_it_was_written() {
    for name in ["guests", "code", "drawn", "host", "scx"] {
        let all = result(name);
        let text = stored::write(&all).unwrap();
        assert_eq!(text, std::fs::read_to_string(root().join(format!("cases/results/{name}.json"))).unwrap());
        assert_eq!(stored::read(&text).unwrap(), all, "{name}");
        assert!(text.lines().filter(|l| l.starts_with("{\"metric\"")).count() > 60, "a line for each metric");
    }
    assert!(stored::read("{}").is_err());
    let other = stored::write(&result("host")).unwrap().replace("\"cpu_time\"", "\"cpu_tiem\"");
    assert!(stored::read(&other).unwrap_err().contains("unknown metric 'cpu_tiem'"));
}
