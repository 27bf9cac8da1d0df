//! Warns about cells whose images of the kernel's own code differ in more than the kernel: by compiler, or as two
//! builds of one source. Their code differs, which may cause a change by itself.

use super::computers::all_differ;
use super::group::CellRuns;
use schedlab_base::Warning;
use schedlab_record::cell::{CodeSetup, compiler_in_short};

/// The warning about a group with cells of several compilers or builds. It names only the differences.
pub(super) fn warning(cells: &[CellRuns<'_>]) -> Option<Warning> {
    let all: Vec<(&str, &CodeSetup)> =
        cells.iter().filter_map(|c| Some((c.label.as_str(), c.runs[0].code.as_ref()?))).collect();
    let differs = |is: fn(&CodeSetup, &CodeSetup) -> bool| {
        all.iter().enumerate().any(|(at, (_, a))| all[..at].iter().any(|(_, b)| is(a, b)))
    };
    let words: fn(&CodeSetup) -> String = if differs(|a, b| a.compiler != b.compiler) {
        |code| code.compiler.clone()
    } else if differs(is_built_anew) {
        |code| format!("image {}", code.image_in_short())
    } else {
        return None;
    };
    let named: Vec<String> = all.iter().map(|(label, code)| format!("{label}: {}", words(code))).collect();
    let (r, load) = (cells[0].runs[0], &cells[0].load);
    let text = format!(
        "{} {load}: the kernels' code is of different compilers or builds, and a change may be theirs ({})",
        r.workload,
        named.join("; ")
    );
    Some(Warning::new("compare.compilers", text))
}

/// Whether two images differ although source, patches, configuration and compiler are the same.
fn is_built_anew(a: &CodeSetup, b: &CodeSetup) -> bool {
    a != b && CodeSetup { image: a.image.clone(), plain: a.plain.clone(), ..b.clone() } == *a
}

/// Short names of the cells' compilers, if they differ.
pub(super) fn short_names(cells: &[&CellRuns<'_>]) -> Option<Vec<String>> {
    let one = |c: &&CellRuns<'_>| Some(compiler_in_short(&c.runs[0].code.as_ref()?.compiler));
    cells.iter().map(one).collect::<Option<Vec<String>>>().filter(|names| all_differ(names))
}

#[cfg(test)]
mod tests {
    use super::super::{Question, compare};
    use crate::testing;
    use schedlab_base::Backend;
    use schedlab_record::Record;
    use schedlab_record::cell::{CodeSetup, Level};

    fn run(variant: &str, image: &str, compiler: &str, seed: u64) -> Record {
        let mut record = testing::record(&[("migrations", seed)]);
        record.backend = Backend::Code.into();
        (record.variant.name, record.seed) = (variant.to_owned(), seed);
        record.code = Some(CodeSetup {
            image: image.to_owned(),
            source: "6.12.117".to_owned(),
            patches: Vec::new(),
            config: None,
            compiler: compiler.to_owned(),
            level: Level::Free,
            plain: None,
        });
        record
    }

    /// The labels of the cells of two runs, each given as (variant, image, compiler), and the warning about them.
    fn compared(all: [(&str, &str, &str); 2]) -> (Vec<String>, String) {
        let question = Question { metrics: vec!["migrations".to_owned()], ..Question::default() };
        let records = all.map(|(variant, image, compiler)| {
            [1, 2].map(|seed| run(variant, image, compiler, seed)).to_vec()
        });
        let found = compare(&records.concat(), &question, &[]).unwrap();
        let warnings = found.warnings.iter().map(|w| &w.warning);
        let warning = warnings.filter(|w| w.code == "compare.compilers").map(|w| w.message.clone()).collect();
        (found.cells.iter().map(|c| c.variant.clone()).collect(), warning)
    }

    const OLD: &str = "gcc (Debian 11.3.0-12) 11.3.0";
    const NEW: &str = "gcc (Debian 12.2.0-14+deb12u1) 12.2.0";

    #[test]
    fn runs_of_two_compilers_are_two_cells_with_their_names() {
        let (labels, warning) = compared([("6.12", "aaaaaaaaaa", NEW), ("6.12", "bbbbbbbbbb", OLD)]);
        assert_eq!(labels, ["6.12 by gcc 12.2.0", "6.12 by gcc 11.3.0"]);
        assert!(
            warning.contains(&format!("6.12 by gcc 12.2.0: {NEW}; 6.12 by gcc 11.3.0: {OLD}")),
            "{warning}"
        );
        let (labels, warning) = compared([("6.12", "aaaaaaaaaa", NEW), ("p", "bbbbbbbbbb", OLD)]);
        assert_eq!(labels, ["6.12", "p"]);
        assert!(warning.contains(&format!("6.12: {NEW}; p: {OLD}")), "{warning}");
    }

    #[test]
    fn a_rebuilt_image_has_its_own_cell() {
        let (labels, warning) = compared([("6.12", "aaaaaaaaaa", NEW), ("6.12", "bbbbbbbbbb", NEW)]);
        assert_eq!(labels, ["6.12 #1", "6.12 #2"]);
        assert!(warning.contains("6.12 #1: image aaaaaaaa; 6.12 #2: image bbbbbbbb"), "{warning}");
        let (labels, warning) = compared([("6.12", "aaaaaaaaaa", NEW), ("6.12", "aaaaaaaaaa", NEW)]);
        assert_eq!((labels.len(), warning.as_str()), (1, ""));
    }
}
