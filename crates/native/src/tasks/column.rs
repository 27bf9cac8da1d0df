//! A column: one series of a run, with the number under which tasks record its values.

use schedlab_record::{Better, Series};
use schedlab_workload::SeriesDecl;

/// A declared series with its direction parsed.
#[derive(Clone, Debug)]
pub struct Column {
    /// Dotted metric name.
    pub name: String,
    unit: String,
    better: Better,
}

impl Column {
    /// # Errors
    /// When the direction is not one of the three words.
    pub fn of(decl: &SeriesDecl) -> schedlab_base::Result<Column> {
        let better = Better::parse(&decl.better).map_err(|e| e.context(&decl.name))?;
        Ok(Column { name: decl.name.clone(), unit: decl.unit.clone(), better })
    }
    pub fn empty(&self) -> Series {
        Series::new(&self.unit, self.better)
    }
}
