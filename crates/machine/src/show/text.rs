//! Lines of at most 78 columns.

use schedlab_base::wrap::{WIDTH, pieces, wrapped};
use schedlab_base::{CpuId, CpuSet};

/// Text under construction.
#[derive(Default)]
pub(super) struct Page {
    pub text: String,
}

impl Page {
    pub fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }
    /// A heading after an empty line.
    pub fn heading(&mut self, title: &str) {
        self.line("");
        self.line(title);
    }
    /// Words wrapped at the width. Each line starts with `indent`; the second and later lines are two columns further
    /// in.
    pub fn wrapped(&mut self, indent: &str, words: &str) {
        self.flow(indent, &format!("{indent}  "), words);
    }
    /// Words after a head; later lines are indented to the first word.
    pub fn hanging(&mut self, head: &str, words: &str) {
        self.flow(head, &" ".repeat(head.chars().count().min(WIDTH * 2 / 3)), words);
    }
    fn flow(&mut self, first: &str, rest: &str, words: &str) {
        let words = words.split_whitespace().flat_map(|w| pieces(w, WIDTH - rest.chars().count()));
        for line in wrapped(first, rest, words) {
            self.line(&line);
        }
    }

    /// Units of one kind with their CPUs. A regular pattern is shown as a pattern; a long list is cut.
    pub fn units(&mut self, name: &str, units: &[CpuSet]) {
        if let Some(pattern) = (units.len() > 4).then(|| regular(units)).flatten() {
            return self.wrapped("  ", &format!("{name:<8} 0-{}: {pattern}", units.len() - 1));
        }
        let listed: Vec<String> = units.iter().enumerate().map(|(i, u)| format!("{i}:{u}")).collect();
        if units.len() <= 4 {
            for (i, cpus) in units.iter().enumerate() {
                self.wrapped("  ", &format!("{name:<8} {i}: {cpus}"));
            }
        } else {
            self.wrapped("  ", &format!("{name:<8} {}", abridged(&listed, 64)));
        }
    }
}

/// The items; if there are more than `most`, without the middle.
pub(super) fn abridged(items: &[String], most: usize) -> String {
    if items.len() <= most {
        return items.join(" ");
    }
    let (head, tail) = (&items[..most / 2], &items[items.len() - 4..]);
    format!("{} ... ({} in all) ... {}", head.join(" "), items.len(), tail.join(" "))
}

/// The pattern of units that look alike: the offsets of their CPUs from the lowest, and the lowest CPUs.
fn regular(units: &[CpuSet]) -> Option<String> {
    let offsets = |u: &CpuSet| {
        let low = u.lowest()?;
        Some(u.iter().map(|c| c.0 - low.0).collect::<Vec<u32>>())
    };
    let own = offsets(units.first()?)?;
    if !units.iter().all(|u| offsets(u).as_ref() == Some(&own)) {
        return None;
    }
    let lows: Vec<CpuId> = units.iter().filter_map(CpuSet::lowest).collect();
    let step = lows.get(1)?.0.checked_sub(lows[0].0)?;
    if !lows.iter().enumerate().all(|(i, c)| c.0 == lows[0].0 + step * i as u32) {
        return None;
    }
    let set: CpuSet = own.iter().map(|o| CpuId(lows[0].0 + o)).collect();
    let next: CpuSet = own.iter().map(|o| CpuId(lows[1].0 + o)).collect();
    let last = units.last()?;
    Some(format!("CPUs {set} then {next} and so on, up to {last}"))
}
