//! The heading of a group of cells in every form: the machine, the kernels and the baseline of its runs.

use crate::table::matrix::baseline;
use schedlab_base::{Backend, Version};
use schedlab_compare::Comparison;
use schedlab_compare::comparison::{self, Cell};
use schedlab_kernel::profile;

/// The machine; or the computers, the baseline's first, for live runs on several.
pub fn place(c: &Comparison, group: &[Cell]) -> String {
    comparison::place(group, baseline(c, group))
}

/// The kernels of cells, each once, as [`kernel`] names them.
pub fn kernels<'a>(cells: impl IntoIterator<Item = &'a Cell>) -> String {
    let mut all: Vec<String> = Vec::new();
    for cell in cells {
        let name = kernel(cell);
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all.join(", ")
}

/// The name of a cell's kernel. A simulated kernel is shown with the release that it models, which may be later than
/// the first of its series: "v6.12 (6.12.117)".
pub fn kernel(cell: &Cell) -> String {
    let simulated = cell.backend == Backend::Sim;
    let version = Version::parse(&cell.kernel).ok().filter(|_| simulated);
    match version.and_then(profile::release) {
        Some(release) => format!("{} ({release})", cell.kernel),
        None => cell.kernel.clone(),
    }
}

/// The baseline and the reason for it: "v6.5, the experiment's baseline".
pub fn against(c: &Comparison) -> String {
    let mut names: Vec<&str> = c.comparisons.iter().map(|r| r.baseline.as_str()).collect();
    names.dedup();
    names.sort_unstable();
    names.dedup();
    match names[..] {
        [one] => format!("{one}{}", c.baseline_is.words()),
        [] => "the baseline".to_owned(),
        _ => format!("the first column{}", c.baseline_is.words()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulated_kernel_has_the_release_that_it_models() {
        let cell = |backend: Backend, kernel: &str| -> Cell {
            serde_json::from_value(serde_json::json!({
                "backend": backend, "machine": "m", "kernel": kernel, "workload": "w", "load": "l", "params": {},
                "variant": "v", "runs": 1, "seeds": [1], "metrics": {},
            }))
            .unwrap()
        };
        assert_eq!(kernel(&cell(Backend::Sim, "v6.12")), "v6.12 (6.12.117)");
        assert_eq!(kernel(&cell(Backend::Sim, "v6.5")), "v6.5");
        assert_eq!(kernel(&cell(Backend::Vm, "6.12.7")), "6.12.7");
        let group = [cell(Backend::Sim, "v6.5"), cell(Backend::Sim, "v6.1"), cell(Backend::Sim, "v6.5")];
        assert_eq!(kernels(&group), "v6.5, v6.1 (6.1.192)");
    }
}
