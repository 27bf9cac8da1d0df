//! A column: one series of a run, by the number under which tasks record its values.

use schedlab_record::{Better, Series};
use schedlab_workload::SeriesDecl;

/// A series as the workload declares it, with its direction parsed.
#[derive(Clone, Debug)]
pub struct Column {
    /// Dotted name.
    pub name: String,
    unit: String,
    better: Better,
}

impl Column {
    /// Reads a declaration.
    ///
    /// # Errors
    /// When its direction is not one of the three words.
    pub fn of(decl: &SeriesDecl) -> schedlab_base::Result<Column> {
        let better = Better::parse(&decl.better).map_err(|e| e.context(&decl.name))?;
        Ok(Column { name: decl.name.clone(), unit: decl.unit.clone(), better })
    }
    /// The series without values.
    pub fn empty(&self) -> Series {
        Series::new(&self.unit, self.better)
    }
}
