//! The tables of docs/limits.md.

use super::{FORMULAS, LANGUAGES, LIMITS, REQUESTS, limit};
use std::fmt::Write;

/// Shares that the table of formulas converts.
const SHARES: [u64; 5] = [2, 102, 1024, 4096, 262_144];
/// Limits that the table of languages rounds, and CPUs of its machine.
const ROUNDED: [&str; 3] = ["500m", "2", "2500m"];
const CPUS: u64 = 8;

/// Words, formulas and roundings as Markdown.
pub fn tables() -> String {
    // Writing to a String can't fail.
    let mut text =
        String::from("\n| limit | whose words | what is made of it | read in |\n| --- | --- | --- | --- |\n");
    for f in LIMITS {
        let _ = writeln!(text, "| `{}` | {} | {} | {} |", f.example, f.whose, f.makes, f.read_in);
    }
    text += "\n| request | whose words | what is made of it | read in |\n| --- | --- | --- | --- |\n";
    for f in REQUESTS {
        let _ = writeln!(text, "| `{}` | {} | {} | {} |", f.example, f.whose, f.makes, f.read_in);
    }
    let shares: Vec<String> = SHARES.iter().map(|s| format!("{s} shares")).collect();
    let _ = writeln!(text, "\n| `--formula` | `cpu.weight` | who | {} |", shares.join(" | "));
    let _ = writeln!(text, "| --- | --- | --- |{}", " --- |".repeat(SHARES.len()));
    for f in FORMULAS {
        let weights: Vec<String> =
            SHARES.iter().map(|s| f.weight.map_or_else(|| "-".to_owned(), |w| w(*s).to_string())).collect();
        let _ = writeln!(text, "| `{}` | {} | {} | {} |", f.name, f.text, f.who, weights.join(" | "));
    }
    let rounded = ROUNDED.join(" | ");
    let _ = writeln!(
        text,
        "\n| `--threads-of` | function | a limit is | {rounded} | of nested quotas | read in |"
    );
    let _ = writeln!(text, "| --- | --- | --- |{} --- | --- |", " --- |".repeat(ROUNDED.len()));
    for l in LANGUAGES {
        let threads =
            |text: &&str| limit(text).map_or_else(|e| e.to_string(), |lim| l.threads(&lim, CPUS).to_string());
        let threads: Vec<String> = ROUNDED.iter().map(threads).collect();
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} | {} | {} |",
            l.name,
            l.function,
            l.rule,
            threads.join(" | "),
            l.nested,
            l.read_in
        );
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_has_the_tables() {
        let marks = ["<!-- begin: words -->\n", "<!-- end: words -->"];
        schedlab_base::testing::page_has("docs/limits.md", marks, &super::tables());
    }
}
