//! Experiments made from a shipped text of loads and from variants and machines as values.

use super::machines::Machines;
use super::model::Experiment;
use super::read::{Draft, read};
use super::variants::Family;
use super::write;
use schedlab_base::Result;
use schedlab_kernel::Variant;
use schedlab_machine::reader::Source;
use std::path::Path;

/// The parts that are combined with a text of loads.
#[derive(Clone, Debug)]
pub struct Template<'a> {
    /// Workloads, loads and metrics.
    pub loads: &'a str,
    /// Runs of each cell; `None`: as in the text.
    pub runs: Option<u64>,
    pub name: &'a str,
    pub about: &'a str,
    /// Machines by name or file, from the current folder.
    pub machines: &'a [String],
    /// The first is the baseline.
    pub variants: &'a [&'a Variant],
}

/// A text of loads whose lines may have an alternative text after a `mark`: the lines themselves, or the alternatives.
pub fn in_turn(text: &str, mark: &str, other: bool) -> String {
    let line = |line: &str| match line.split_once(mark) {
        Some((_, other_text)) if other => format!("{other_text}\n"),
        Some((usual, _)) => format!("{usual}\n"),
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

impl Template<'_> {
    /// The experiment. `host_cpus` is the value of `{cpus}` in its loads on the live kernel.
    ///
    /// # Errors
    /// For an unknown machine, two variants of one name, and a variant that does not fit its kernel or a load.
    pub fn experiment(&self, host_cpus: u64) -> Result<Experiment> {
        let file = format!("{}.toml", self.name);
        let source = Source { file: Path::new(&file), text: self.loads };
        read(source, |draft| self.over(draft), host_cpus)
    }
    fn over(&self, draft: &mut Draft<'_>) {
        draft.name = Ok(self.name.to_owned());
        draft.about = Ok(self.about.to_owned());
        if let Some(runs) = self.runs {
            draft.runs = Ok(runs);
        }
        draft.machines = Machines::of(self.machines, draft.folder);
        draft.families = Family::given(self.variants);
        draft.baseline = Some(self.baseline().to_owned());
        draft.text = self.text();
    }
    fn baseline(&self) -> &str {
        self.variants.first().map_or("", |v| v.name.as_str())
    }
    /// The experiment as text, which is kept with its runs: `schedlab run` makes the same runs from it.
    fn text(&self) -> String {
        let machines: Vec<String> = self.machines.iter().map(|m| write::quoted(m)).collect();
        let mut text = format!(
            "name = {}\nabout = {}\nbaseline = {}\nmachines = [{}]\n",
            write::quoted(self.name),
            write::quoted(self.about),
            write::quoted(self.baseline()),
            machines.join(", ")
        );
        text += &self.runs.map_or_else(String::new, |runs| format!("runs = {runs}\n"));
        text += self.loads;
        for variant in self.variants {
            text += "\n";
            text += &write::variant(variant);
        }
        text
    }
}
