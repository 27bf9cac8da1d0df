//! Prints the comparison of several runs of one workload, as `bench` and `replay` make them.

use crate::{common, output};
use schedlab_base::{Result, counted};
use schedlab_lab::ComparedCells;
use schedlab_record::Store;
use schedlab_report::ReportForm;

/// Prints the comparison, and says where its runs are kept.
///
/// # Errors
/// When it can't be printed.
pub fn show(made: &ComparedCells, store: &Store, form: &ReportForm, quiet: bool) -> Result<()> {
    common::show(&made.comparison, form)?;
    if !quiet && !made.drawn {
        let kept = store.root().display();
        output::note(&format!("{} made, {} found; kept in {kept}", counted(made.new, "run"), made.found));
    }
    Ok(())
}
