//! The slice of an entity: its weight's share of the period (kernels 2.6.27 to 6.5).

use crate::fair::granularity::Granularity;
use schedlab_kernel::{Feature, Kernel};

/// The share of `whole_ns` that an entity of `weight` gets on a queue of `load`.
#[inline]
pub fn share(whole_ns: u64, weight: u64, load: u64) -> u64 {
    if load == 0 { whole_ns } else { (u128::from(whole_ns) * u128::from(weight) / u128::from(load)) as u64 }
}

/// The same as the kernel counts it: by the inverse of the queue's weight in 32 bits, each step rounded down
/// (`__calc_delta`).
#[inline]
pub fn share_by_inverse(whole_ns: u64, weight: u64, load: u64) -> u64 {
    let inverse = u64::from(u32::MAX) / load.max(1);
    let factor = weight * inverse;
    // The factor has 32 bits; what is left of a larger one is shifted out.
    let excess = 64 - (factor >> 32).leading_zeros();
    ((u128::from(whole_ns) * u128::from(factor >> excess)) >> (32 - excess)) as u64
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
    fn a_share_by_inverse_is_just_below_the_quotient() {
        // A tick that comes 4 ms after the pick is beyond this slice, and not beyond the exact one.
        assert_eq!(share_by_inverse(12_000_000, 1024, 3072), 3_999_999);
        assert_eq!(share(12_000_000, 1024, 3072), 4_000_000);
        assert_eq!(share_by_inverse(6_000_000, 88_761, 88_761), 5_999_999);
        assert_eq!(share_by_inverse(6_000_000, 15, 1039), 86_621);
    }

    #[test]
    fn base_slice_keeps_small_shares_at_min_granularity() {
        let (old, new) = (Kernel::of(Version::new(4, 5)), Kernel::of(Version::new(6, 5)));
        let g = Granularity::of(&new, 8);
        assert_eq!(floor(100_000, &g, &new), 3_000_000);
        assert_eq!(floor(100_000, &g, &old), 100_000);
    }
}
