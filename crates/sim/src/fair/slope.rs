//! Converts real time to the virtual time of a weight (`calc_delta_fair`, `__calc_delta`).
//!
//! Virtual time is real time times 1024 / weight. Kernels from 5.10 on (older profiles keep the quotient) multiply by
//! the 32-bit inverse of a whole weight instead, and round down at each step. 7.3 divides by the weight 1024 times as
//! fine.

use super::group::shares::FINE;
use schedlab_kernel::policy::NICE_0_WEIGHT;

/// A weight as a divisor of real time (`struct load_weight`).
#[derive(Clone, Copy, Debug)]
pub struct Slope {
    /// The weight, 1024 times as fine.
    fine: u64,
    /// 2^32 divided by the whole weight; 0 if time is divided by `fine`.
    inverse: u64,
}

/// The owner of a weight: inverses of tasks' weights come from a table, others are computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bearer {
    Task,
    /// A group's entity, or a queue.
    Group,
}

impl Slope {
    /// Divides by a weight that is `fine` / 1024.
    #[inline]
    pub const fn exact(fine: u64) -> Slope {
        Slope { fine, inverse: 0 }
    }
    /// Multiplies by the inverse of the whole weight.
    #[inline]
    pub fn by_inverse(fine: u64, bearer: Bearer) -> Slope {
        Slope { fine, inverse: inverse(whole(fine), bearer) }
    }
    /// Real time, ns, as virtual time.
    #[inline]
    pub fn virtual_ns(self, real_ns: u64) -> u64 {
        self.virtual_ns_in(real_ns, NICE_0_WEIGHT)
    }
    /// The same if a weight of `unit` ages with the clock.
    #[inline]
    pub fn virtual_ns_in(self, real_ns: u64, unit: u64) -> u64 {
        if self.fine == unit * FINE {
            real_ns
        } else if self.inverse == 0 {
            (u128::from(real_ns) * u128::from(unit * FINE) / u128::from(self.fine)) as u64
        } else {
            multiplied(real_ns, unit, self.inverse)
        }
    }
}

/// A fine weight or sum of weights as a whole one (`scale_load_down`).
#[inline]
pub fn whole(fine: u64) -> u64 {
    if fine == 0 { 0 } else { (fine / FINE).max(2) }
}

/// 2^32 divided by a weight. The table of tasks' weights (`sched_prio_to_wmult`) has the nearest number, except for
/// nice 13 and higher, where it has the one below.
fn inverse(weight: u64, bearer: Bearer) -> u64 {
    const LAST_NEAREST: u64 = 70;
    match bearer {
        Bearer::Task if weight >= LAST_NEAREST => ((1 << 32) + weight / 2) / weight,
        Bearer::Task => (1 << 32) / weight.max(1),
        Bearer::Group => u64::from(u32::MAX) / weight.max(1),
    }
}

/// The share of `whole_ns` that a weight gets on a queue of `load`, computed with the inverse of the queue's weight.
#[inline]
pub fn share_by_inverse(whole_ns: u64, weight: u64, load: u64) -> u64 {
    multiplied(whole_ns, weight, inverse(load, Bearer::Group))
}

fn multiplied(ns: u64, weight: u64, inverse: u64) -> u64 {
    let factor = weight * inverse;
    // The factor has 32 bits; excess bits of a larger one are shifted out.
    let excess = 64 - (factor >> 32).leading_zeros();
    ((u128::from(ns) * u128::from(factor >> excess)) >> (32 - excess)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fair::cfs::slice::share;

    #[test]
    fn a_heavier_weight_ages_slower() {
        let exact = |weight: u64| Slope::exact(weight * FINE).virtual_ns(1_000_000);
        assert_eq!([1024, 2048, 15].map(exact), [1_000_000, 500_000, 68_266_666]);
        assert_eq!(
            Slope::exact(1024 * FINE + 512).virtual_ns(1_000_000),
            999_511,
            "of a fraction of a weight"
        );
        assert_eq!(Slope::exact(3072 * FINE).virtual_ns_in(6, 3072), 6);
    }

    #[test]
    fn an_inverse_is_of_a_whole_weight_and_rounds_down() {
        let task = |weight: u64| Slope::by_inverse(weight * FINE, Bearer::Task).virtual_ns(1_000_000);
        assert_eq!([1024, 88_761, 15].map(task), [1_000_000, 11_536, 68_266_666]);
        assert_eq!(Slope::exact(335 * FINE).virtual_ns(10_000_000), 30_567_164);
        assert_eq!(task(335) * 10, 30_567_160);
        let group = Slope::by_inverse(1024 * FINE + 512, Bearer::Group);
        assert_eq!(group.virtual_ns(1_000_000), 999_999, "neither its fraction nor an exact inverse");
    }

    #[test]
    fn inverses_of_nice_values_are_the_kernels() {
        let of = |weight| inverse(weight, Bearer::Task);
        assert_eq!(
            [71_755, 820, 423, 70, 56, 23, 15].map(of),
            [59_856, 5_237_765, 10_153_587, 61_356_676, 76_695_844, 186_737_708, 286_331_153]
        );
        assert_eq!(inverse(820, Bearer::Group), 5_237_764);
    }

    #[test]
    fn a_share_by_inverse_is_just_below_the_quotient() {
        // A tick that comes 4 ms after the pick is beyond this slice, but not beyond the exact one.
        assert_eq!(share_by_inverse(12_000_000, 1024, 3072), 3_999_999);
        assert_eq!(share(12_000_000, 1024, 3072), 4_000_000);
        assert_eq!(share_by_inverse(6_000_000, 88_761, 88_761), 5_999_999);
        assert_eq!(share_by_inverse(6_000_000, 15, 1039), 86_621);
    }
}
