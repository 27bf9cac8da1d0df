//! docs/fidelity.md contains the tables of stored validations, cases/results/*.json, as `schedlab validate --json`
//! printed them. To write the page's tables anew: `SCHEDLAB_BLESS=1 cargo test -p schedlab-report --test it fidelity`.

use schedlab_compare::agreement::Validation;
use schedlab_report::validation::{overview, sentence};
use std::path::Path;

/// The part of a stored validation that the page contains.
fn block(file: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let stored: Validation =
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let mut tables = Vec::new();
    overview(&stored, &mut tables).unwrap();
    format!("{}\n\n{}", sentence(&stored), String::from_utf8(tables).unwrap())
}

#[test]
fn the_page_holds_the_tables_of_the_stored_validations() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = root.join("docs/fidelity.md");
    let stored = std::fs::read_to_string(&page).unwrap();
    let mut made = stored.clone();
    for name in ["guests", "host"] {
        let (from, to) = (
            format!("<!-- {name}: made from cases/results/{name}.json -->\n"),
            format!("<!-- end of {name} -->\n"),
        );
        let (head, rest) = made.split_once(&from).unwrap_or_else(|| panic!("the page has no '{from}'"));
        let (_, tail) = rest.split_once(&to).unwrap_or_else(|| panic!("the page has no '{to}'"));
        made =
            format!("{head}{from}\n{}\n{to}{tail}", block(&root.join(format!("cases/results/{name}.json"))));
    }
    if std::env::var_os("SCHEDLAB_BLESS").is_some() {
        std::fs::write(&page, &made).unwrap();
    }
    assert!(stored == made, "docs/fidelity.md is stale: run this test with SCHEDLAB_BLESS=1");
}
