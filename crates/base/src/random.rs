//! Keyed random draws: common random numbers without a shared generator.
//!
//! A [`Stream`] is a key made of a seed and a path of words. Draw number `i` is a pure function of the key and `i`, so
//! a new draw in one place never shifts draws elsewhere. Variants therefore stay paired: run i of every variant draws
//! the same. The mixer is the 64-bit finaliser of the SplitMix family; a test pins its output, because records depend
//! on it.

/// A keyed source of random numbers; draws are addressed by purpose and index, not taken in turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stream {
    key: u64,
}

#[inline]
const fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Stream {
    pub const fn new(seed: u64) -> Stream {
        Stream { key: mix(seed) }
    }
    #[must_use]
    pub const fn number(self, n: u64) -> Stream {
        Stream { key: mix(self.key ^ mix(n)) }
    }
    #[must_use]
    pub const fn purpose(self, name: &str) -> Stream {
        let (bytes, mut hash, mut i) = (name.as_bytes(), 0xcbf2_9ce4_8422_2325_u64, 0);
        while i < bytes.len() {
            hash = (hash ^ bytes[i] as u64).wrapping_mul(0x0000_0100_0000_01b3);
            i += 1;
        }
        Stream { key: mix(self.key ^ hash) }
    }
    /// Draw `i`: 64 uniform bits.
    #[inline]
    pub const fn bits(self, i: u64) -> u64 {
        mix(self.key ^ mix(i))
    }
    /// Draw `i`, uniform in `0..n`; 0 when `n` is 0.
    #[inline]
    pub const fn below(self, i: u64, n: u64) -> u64 {
        ((self.bits(i) as u128 * n as u128) >> 64) as u64
    }
    /// Draw `i` of an exponential distribution with that mean, by an integer table, since no float may decide.
    pub fn exponential(self, i: u64, mean: u64) -> u64 {
        // -ln(u) in 1/2^16 steps: u = 2^-k * m with m in [1/2, 1); ln m by a 64-entry table, linear between entries.
        let u = self.bits(i) | 1;
        let (k, m) = (u.leading_zeros() as u64, u << u.leading_zeros());
        let (slot, rest) = ((m >> 57) as usize & 63, (m >> 41) & 0xffff);
        let (a, b) = (NEG_LN_Q16[slot] as u64, NEG_LN_Q16[slot + 1] as u64);
        let neg_ln_q16 = k * 45_426 + a - (((a - b) * rest) >> 16);
        ((mean as u128 * neg_ln_q16 as u128) >> 16) as u64
    }
}

/// `-ln(0.5 + i/128)` in units of 2^-16, for i in 0..=64.
#[rustfmt::skip]
const NEG_LN_Q16: [u32; 65] = [
    45426, 44410, 43409, 42424, 41453, 40496, 39553, 38624, 37707, 36803, 35911,
    35032, 34164, 33307, 32461, 31627, 30802, 29988, 29184, 28390, 27605, 26829,
    26063, 25305, 24556, 23815, 23083, 22359, 21643, 20934, 20233, 19540, 18854,
    18174, 17502, 16837, 16178, 15526, 14880, 14241, 13608, 12981, 12360, 11744,
    11135, 10530, 9932, 9339, 8751, 8169, 7591, 7019, 6451, 5889, 5331,
    4778, 4230, 3686, 3146, 2611, 2081, 1554, 1032, 514, 0,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_pinned() {
        let s = Stream::new(1).purpose("jitter").number(7);
        assert_eq!(
            [s.bits(0), s.bits(1), s.below(2, 1000)],
            [5511451073379514478, 16178852530543048584, 355]
        );
    }

    #[test]
    fn purposes_and_indices_are_independent() {
        let s = Stream::new(1);
        assert_ne!(s.purpose("a").bits(0), s.purpose("b").bits(0));
        assert_ne!(s.number(0).bits(1), s.number(1).bits(0));
    }

    #[test]
    fn exponential_has_its_mean_and_its_tail() {
        let s = Stream::new(3).purpose("exp");
        let draws: Vec<u64> = (0..100_000).map(|i| s.exponential(i, 1_000_000)).collect();
        let mean = draws.iter().sum::<u64>() / 100_000;
        assert!((990_000..1_010_000).contains(&mean), "mean {mean}");
        let beyond_3 = draws.iter().filter(|d| **d > 3_000_000).count();
        assert!((4_700..5_260).contains(&beyond_3), "e^-3 is 4.98 %: {beyond_3} of 100000");
    }
}
