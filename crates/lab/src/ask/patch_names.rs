//! Features and tunables of a kernel's own, which the tables do not have. They are known when the kernel is built, or
//! runs.

use crate::ask::guests;
use schedlab_base::{Error, Result};
use schedlab_kernel::variant::RUNNING;
use schedlab_kernel::{Variant, tunable};

/// Whether the table has a tunable.
pub fn is_known(name: &str) -> bool {
    tunable::names().contains(&name)
}

/// Whether the tables have all features and tunables of a variant, from the start or later.
pub fn knows(variant: &Variant) -> bool {
    variant.knows_its_features() && knows_tunables(variant)
}

/// Whether the table has all tunables of a variant, from the start or later.
pub fn knows_tunables(variant: &Variant) -> bool {
    let later = variant.at.iter().flat_map(|c| c.tunables.keys());
    variant.tunables.keys().chain(later).all(|name| is_known(name))
}

/// Whether a kernel's tunable is in a folder of debugfs; no tunable of the table is.
pub fn is_in_folder(name: &str) -> bool {
    name.contains('/')
}

/// Whether a variant's kernel may have names outside the tables: it has patches, is a tree, or is the running one.
fn is_open(variant: &Variant) -> bool {
    !variant.patch.is_empty() || variant.kernel.contains('/') || variant.kernel == RUNNING
}

/// Whether a variant has names that only its kernel knows. The kernel of a series may have tunables in folders; any
/// other name outside the tables is taken for a mistake.
pub fn has_own(variant: &Variant) -> bool {
    let folders = !knows_tunables(variant) && check_tunables(variant).is_ok();
    (is_open(variant) && !knows(variant)) || folders
}

/// A tunable's value as a user writes it. If `open`, a name outside the table is a file of the kernel's own, below
/// `/proc/sys/kernel` or `sched` in debugfs, in its own unit.
///
/// # Errors
/// As [`tunable::read`].
pub fn read_tunable(name: &str, text: &str, open: bool) -> Result<u64> {
    let is_name = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || b"_/".contains(&c);
    if !open || is_known(name) || name.is_empty() || !name.bytes().all(is_name) {
        return tunable::read(name, text);
    }
    let number = text.replace('_', "").parse::<u64>().ok();
    number.ok_or_else(|| Error::input(format!("{name} is a whole number, not '{text}'")))
}

/// Refuses tunables that neither the table nor the variant's kernel can have.
///
/// # Errors
/// For the first of them.
pub fn check_tunables(variant: &Variant) -> Result<()> {
    let later = variant.at.iter().flat_map(|c| c.tunables.keys());
    let mut names = variant.tunables.keys().chain(later);
    let folders = guests::means_image(&variant.kernel);
    let may_have = |name: &str| is_open(variant) || (folders && is_in_folder(name));
    let odd = names.find(|name| !is_known(name) && !may_have(name));
    odd.map_or(Ok(()), |name| tunable::read(name, "0").map(drop))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_the_table_lacks_is_read_if_a_kernel_may_have_it() {
        assert_eq!(read_tunable("sched_burst_penalty_scale", "1_280", true).unwrap(), 1280);
        assert_eq!(read_tunable("llc_balancing/enabled", "0", true).unwrap(), 0);
        let refused = |name, text, open| read_tunable(name, text, open).unwrap_err().to_string();
        assert!(refused("sched_burst_penalty_scale", "1", false).contains("unknown tunable"));
        assert!(refused("Sched Burst", "1", true).contains("unknown tunable"));
        assert!(refused("sched_burst", "on", true).contains("sched_burst is a whole number, not 'on'"));
        assert!(refused("hz", "0", true).contains("out of range"), "the table's ranges stay");
    }

    #[test]
    fn only_a_patched_kernel_a_tree_and_the_running_one_may_have_others() {
        let mut variant = Variant::plain("v6.1");
        variant.tunables.insert("sched_bore".to_owned(), 0);
        assert!(check_tunables(&variant).unwrap_err().to_string().contains("sched_bore"));
        assert!(!knows(&variant));
        variant.patch.push("bore.patch".to_owned());
        check_tunables(&variant).unwrap();
        let of = |kernel: &str| Variant { kernel: kernel.to_owned(), patch: Vec::new(), ..variant.clone() };
        for kernel in ["./linux", RUNNING] {
            check_tunables(&of(kernel)).unwrap();
            assert!(has_own(&of(kernel)));
        }
    }

    #[test]
    fn the_kernel_of_a_series_may_have_tunables_in_folders() {
        let mut variant = Variant::plain("7.3");
        variant.tunables.insert("llc_balancing/enabled".to_owned(), 0);
        check_tunables(&variant).unwrap();
        assert!(has_own(&variant) && guests::is_real_variant(&variant), "our rules do not have it");
        let simulated = Variant { kernel: "v7.3".to_owned(), ..variant.clone() };
        assert!(check_tunables(&simulated).unwrap_err().to_string().contains("llc_balancing/enabled"));
        variant.tunables.insert("nr_migrat".to_owned(), 0);
        assert!(check_tunables(&variant).unwrap_err().to_string().contains("nr_migrat"), "a slip of the pen");
    }
}
