//! `avg_idle`: how long a CPU's idle periods are, which decides whether newidle balancing and scans are worth it.

use schedlab_base::Version;

/// The average after an idle period of `sample_ns`: an eighth of the way to it, at most `cap_ns`.
///
/// Before 3.13 a sample beyond the cap sets the average to the cap at once, so that one long sleep opens the newidle
/// gate; since then the average moves towards it and is capped after (3.x core.c, 6.1 core.c). The cap is twice
/// migration_cost, and twice max_idle_balance_cost since 3.13.
pub fn update_avg(avg_ns: u64, sample_ns: u64, cap_ns: u64, version: Version) -> u64 {
    if version < Version::new(3, 13) && sample_ns > cap_ns {
        return cap_ns;
    }
    let moved = if sample_ns >= avg_ns {
        avg_ns + (sample_ns - avg_ns) / 8
    } else {
        avg_ns - (avg_ns - sample_ns) / 8
    };
    moved.min(cap_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_an_eighth_and_is_capped() {
        let v = Version::new(6, 5);
        assert_eq!(update_avg(1_000_000, 50_000, 1_000_000, v), 881_250);
        assert_eq!(update_avg(50_000, 450_000, 1_000_000, v), 100_000);
        assert_eq!(update_avg(900_000, 30_000_000, 1_000_000, v), 1_000_000);
    }

    #[test]
    fn before_3_13_one_long_sleep_reaches_the_cap() {
        let after = |v| update_avg(50_000, 1_000_001, 1_000_000, v);
        assert_eq!((after(Version::new(3, 4)), after(Version::new(4, 5))), (1_000_000, 168_750));
        assert_eq!(update_avg(0, 800, 1_000_000, Version::new(3, 4)), 100, "below the cap as ever");
    }

    #[test]
    fn idle_periods_of_50_us_settle_below_the_old_newidle_gate() {
        let v = Version::new(4, 5);
        let settled = (0..100).fold(1_000_000, |avg, _| update_avg(avg, 53_000, 1_000_000, v));
        assert!((53_000..53_010).contains(&settled), "{settled}");
    }
}
