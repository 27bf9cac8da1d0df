//! The comparison's own JSON (schedlab/comparison/1), indented, with a newline at the end.

use crate::Exporter;
use schedlab_compare::Comparison;
use std::io::{self, Write};

pub struct Json;

impl Exporter for Json {
    fn export(&self, c: &Comparison, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, c)?;
        writeln!(out)
    }
}
