//! The growth of a scheduler's operations with CPUs as plain text: instructions a call and calls, a column for each
//! size.

use crate::number::{count, three};
use crate::text::wrap;
use schedlab_compare::growth::{Growth, Operation, Point};
use std::io::{self, Write};

const LABEL: usize = 18;
const COLUMN: usize = 7;

/// Writes both tables, and the operations that grow.
pub fn text(g: &Growth, kernel: &str, out: &mut dyn Write) -> io::Result<()> {
    let each =
        |point: &Point| point.each().map(|each| if each < 1e4 { format!("{each:.0}") } else { count(each) });
    let calls = |point: &Point| Some(count(point.calls as f64));
    table(g, &format!("{} on {kernel}: instructions a call, by CPUs", g.scheduler), &each, out)?;
    table(g, "Calls", &calls, out)?;
    let grown: Vec<&Operation> = g.operations.iter().filter(|operation| operation.grows).collect();
    for operation in &grown {
        let (Some(growth), Some([few, many])) = (operation.growth, ends(operation)) else { continue };
        let text = format!(
            "{} grows with CPUs: {} times the instructions a call on {} times the CPUs ({few} to {many})",
            operation.name,
            three(growth),
            three(many as f64 / few as f64)
        );
        write!(out, "{}", wrap("", &text))?;
    }
    if grown.is_empty() { writeln!(out, "No operation grows with CPUs.") } else { Ok(()) }
}

/// CPUs of the smallest and the largest machine with calls.
fn ends(operation: &Operation) -> Option<[u64; 2]> {
    let mut called = operation.points.iter().filter(|point| point.calls > 0).map(|point| point.cpus);
    let few = called.next()?;
    Some([few, called.next_back()?])
}

fn table(
    g: &Growth,
    title: &str,
    cell: &dyn Fn(&Point) -> Option<String>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut cpus: Vec<u64> = g.operations.iter().flat_map(|o| o.points.iter().map(|p| p.cpus)).collect();
    cpus.sort_unstable();
    cpus.dedup();
    writeln!(out, "{title}\n")?;
    let mut row = |label: &str, cells: &mut dyn Iterator<Item = String>| {
        let cells: String = cells.map(|cell| format!("{cell:>COLUMN$}")).collect();
        writeln!(out, "  {label:<LABEL$}{cells}")
    };
    row("CPUs", &mut cpus.iter().map(u64::to_string))?;
    for operation in &g.operations {
        let of = |cpus: &u64| operation.points.iter().find(|point| point.cpus == *cpus).and_then(cell);
        row(&operation.name, &mut cpus.iter().map(|cpus| of(cpus).unwrap_or_else(|| "-".to_owned())))?;
    }
    writeln!(out)
}
