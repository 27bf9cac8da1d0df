//! Warns about cells of the kernel's own code that were charged in different ways: not the whole difference is the
//! kernels'.

use super::group::CellRuns;
use schedlab_base::Warning;
use schedlab_kernel::Level;

/// The warnings about a group with the baseline `base`: one for each cell with another level.
pub(super) fn warnings(cells: &[CellRuns<'_>], base: usize) -> Vec<Warning> {
    let level = |c: &CellRuns<'_>| c.runs[0].code.as_ref().map(|code| code.level);
    let baseline = level(&cells[base]);
    let one = |cell: &CellRuns<'_>| {
        let (from, to) = (baseline?, level(cell)?);
        (from != to)
            .then(|| Warning::new("compare.levels", words((&cells[base].label, from), (&cell.label, to))))
    };
    cells.iter().filter_map(one).collect()
}

fn words((base, from): (&str, Level), (label, to): (&str, Level)) -> String {
    format!(
        "the kernel's code is charged {} in {label} and {} in {base}: their difference is of that, too",
        to.word(),
        from.word()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_levels_are_named() {
        let text = words(("6.1", Level::Free), ("6.1 woven", Level::Woven));
        assert!(text.contains("charged woven in 6.1 woven and free in 6.1"), "{text}");
    }
}
