//! Warns about variants with different kernels of which one has a switch: says how else they differ. Otherwise the
//! difference between releases would be taken for the switch's effect.

use super::group::CellRuns;
use schedlab_base::{Version, Warning};
use schedlab_kernel::history::HISTORY;
use schedlab_kernel::{Feature, FeatureSet, profile};
use schedlab_record::Record;

/// The warnings about a group with the baseline `base`: one for each variant that has a switch and another kernel, or
/// for each other kernel if the baseline has a switch.
pub(super) fn warnings(cells: &[CellRuns<'_>], base: usize) -> Vec<Warning> {
    let baseline = &cells[base];
    let switched = |c: &CellRuns<'_>| !c.runs[0].variant.is_plain();
    let is_warned = |c: &&CellRuns<'_>| {
        c.runs[0].kernel != baseline.runs[0].kernel && (switched(c) || switched(baseline))
    };
    cells.iter().filter(is_warned).map(|cell| warning(cells, baseline, cell)).collect()
}

fn warning(cells: &[CellRuns<'_>], base: &CellRuns<'_>, cell: &CellRuns<'_>) -> Warning {
    let (b, r) = (base.runs[0], cell.runs[0]);
    let mut text = format!(
        "{} {}: {} is of kernel {} and {} of {}, so that they differ in more than their switches",
        r.workload,
        cell.load,
        cell.label,
        release(r),
        base.label,
        release(b)
    );
    if let (Some(from), Some(to)) = (&b.resolved, &r.resolved) {
        text += &format!(": {}", differences(from.version, to.version));
    }
    let plain = |c: &&CellRuns<'_>| c.runs[0].kernel == r.kernel && c.runs[0].variant.is_plain();
    if let Some(plain) = cells.iter().find(plain).filter(|_| !r.variant.is_plain()) {
        text += &format!("; --baseline {} compares the switch alone", plain.label);
    }
    Warning::new("compare.releases", text)
}

/// "v6.12 (6.12.117)" for a simulated kernel, the release of a real one.
fn release(r: &Record) -> String {
    let stable = r.resolved.as_ref().and_then(|kernel| profile::release(kernel.version));
    stable.map_or_else(|| r.kernel.clone(), |stable| format!("{} ({stable})", r.kernel))
}

/// How two profiles differ.
fn differences(from: Version, to: Version) -> String {
    let mechanisms = HISTORY.iter().filter(|m| m.is_in(from) != m.is_in(to)).count();
    let (old, new) = (FeatureSet::defaults(from), FeatureSet::defaults(to));
    let on = new.iter().filter(|f| !old.has(*f)).map(|f| f.name().to_owned());
    let off = old.iter().filter(|f| !new.has(*f)).map(|f: Feature| format!("NO_{}", f.name()));
    let features: Vec<String> = on.chain(off).collect();
    let features = if features.is_empty() {
        "no feature".to_owned()
    } else {
        format!("features {}", features.join(", "))
    };
    format!("{mechanisms} mechanisms ('schedlab kernel history {to}') and {features}")
}

#[cfg(test)]
mod tests {
    use super::super::group::group;
    use super::*;
    use crate::testing;
    use schedlab_kernel::{Kernel, Variant};

    fn record(name: &str, kernel: &str, features: &[&str]) -> Record {
        let mut record = testing::record(&[]);
        let features = features.iter().map(|f| (*f).to_owned()).collect();
        record.variant = Variant { name: name.to_owned(), features, ..Variant::plain(kernel) };
        record.kernel = kernel.to_owned();
        record.resolved = Some(Kernel::profile(kernel).unwrap());
        record
    }

    #[test]
    fn a_switch_compared_with_another_release_is_reported() {
        let records = [
            record("v6.5", "v6.5", &[]),
            record("v6.12", "v6.12", &[]),
            record("no-parity", "v6.12", &["NO_RUN_TO_PARITY"]),
        ];
        let groups = group(&records);
        let found = warnings(&groups[0], 0);
        assert_eq!(found.len(), 1, "two plain kernels differ as everyone expects: {found:?}");
        for words in
            ["no-parity is of kernel v6.12 (6.12.117)", "NI_RANDOM", "--baseline v6.12", "history v6.12"]
        {
            assert!(found[0].message.contains(words), "{words}: {}", found[0].message);
        }
        assert_eq!(warnings(&groups[0], 1), [], "against its own release it is the switch alone");
    }
}
