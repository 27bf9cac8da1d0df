//! The slice of an entity: its weight's share of the period (kernels 2.6.27 to 6.5).

use crate::fair::granularity::Granularity;
use schedlab_kernel::{Feature, Kernel};

/// The share of `whole_ns` that an entity of `weight` gets on a queue of `load`.
#[inline]
pub fn share(whole_ns: u64, weight: u64, load: u64) -> u64 {
    if load == 0 { whole_ns } else { (u128::from(whole_ns) * u128::from(weight) / u128::from(load)) as u64 }
}

/// BASE_SLICE (5.13 to 6.5): no slice below min_granularity.
#[inline]
pub fn floor(slice_ns: u64, g: &Granularity, kernel: &Kernel) -> u64 {
    if kernel.features.has(Feature::BaseSlice) { slice_ns.max(g.min_ns) } else { slice_ns }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::Version;

    #[test]
    fn base_slice_keeps_small_shares_at_min_granularity() {
        let (old, new) = (Kernel::of(Version::new(4, 5)), Kernel::of(Version::new(6, 5)));
        let g = Granularity::of(&new, 8);
        assert_eq!(floor(100_000, &g, &new), 3_000_000);
        assert_eq!(floor(100_000, &g, &old), 100_000);
    }
}
