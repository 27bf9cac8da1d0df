//! Normal and Student t distributions: probabilities and quantiles.
//!
//! All transcendental functions come from `libm`, so that the same data gives the same verdict on every machine. The
//! regularised incomplete beta function is a continued fraction (modified Lentz). Quantiles are found by bisection of
//! the monotone distribution function: slower than a rational fit, but exact to the last digits and a few lines long.

use libm::{erfc, exp, fabs, lgamma, log, sqrt};

/// Steps of a bisection over a double's range: enough to reach neighbouring doubles from any start used here.
const HALVINGS: usize = 200;

/// P(Z <= z) of the standard normal distribution.
pub fn normal_cdf(z: f64) -> f64 {
    0.5 * erfc(-z / core::f64::consts::SQRT_2)
}

/// The z with P(Z <= z) = p, for p in (0, 1).
pub fn normal_quantile(p: f64) -> f64 {
    bisect(p, -40.0, 40.0, normal_cdf)
}

/// P(T <= t) of Student's t distribution with `df` degrees of freedom (not necessarily whole, above 0).
pub fn t_cdf(t: f64, df: f64) -> f64 {
    if t.is_infinite() {
        return if t > 0.0 { 1.0 } else { 0.0 };
    }
    let tail = 0.5 * incomplete_beta(df / 2.0, 0.5, df / (df + t * t));
    if t >= 0.0 { 1.0 - tail } else { tail }
}

/// Two-sided p-value of a t statistic; computed from the tail itself, so that small values keep their digits.
pub fn t_two_sided(t: f64, df: f64) -> f64 {
    if t.is_infinite() { 0.0 } else { incomplete_beta(df / 2.0, 0.5, df / (df + t * t)).clamp(0.0, 1.0) }
}

/// The t with P(T <= t) = p, for p in (0, 1).
pub fn t_quantile(p: f64, df: f64) -> f64 {
    let mut reach = 8.0;
    while t_cdf(reach, df) < p.max(1.0 - p) && reach < 1e12 {
        reach *= 4.0;
    }
    bisect(p, -reach, reach, |t| t_cdf(t, df))
}

fn bisect(p: f64, mut lo: f64, mut hi: f64, cdf: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..HALVINGS {
        let mid = 0.5 * (lo + hi);
        if mid <= lo || mid >= hi {
            break;
        }
        if cdf(mid) < p {
            lo = mid;
        } else {
            hi = mid;
        }
    }
    0.5 * (lo + hi)
}

/// The regularised incomplete beta function I_x(a, b).
pub fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front = exp(a * log(x) + b * log(1.0 - x) + lgamma(a + b) - lgamma(a) - lgamma(b));
    // The fraction converges fast on one side of the mean only; the other side follows by symmetry.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * beta_fraction(a, b, x) / a
    } else {
        1.0 - front * beta_fraction(b, a, 1.0 - x) / b
    }
}

fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let keep = |v: f64| if fabs(v) < TINY { TINY } else { v };
    let mut c = 1.0;
    let mut d = 1.0 / keep(1.0 - (a + b) * x / (a + 1.0));
    let mut h = d;
    for m in 1..=10_000 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / keep(1.0 + even * d);
        c = keep(1.0 + even / c);
        h *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / keep(1.0 + odd * d);
        c = keep(1.0 + odd / c);
        h *= d * c;
        if fabs(d * c - 1.0) < 1e-15 {
            break;
        }
    }
    h
}

/// The square root, here so that statistics use one library only.
pub fn root(x: f64) -> f64 {
    sqrt(x.max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(got: f64, want: f64, tolerance: f64) {
        assert!(fabs(got - want) <= tolerance, "{got} is not {want}");
    }

    #[test]
    fn normal_matches_the_printed_tables() {
        // Abramowitz & Stegun, Handbook of Mathematical Functions (1964), tables 26.1 and 26.5.
        near(normal_cdf(1.0), 0.841_344_746_068_543, 1e-14);
        near(normal_cdf(-1.96), 0.024_997_895_148_220, 1e-14);
        near(normal_quantile(0.975), 1.959_963_984_540_054, 1e-12);
        near(normal_quantile(0.8), 0.841_621_233_572_914, 1e-12);
        near(normal_quantile(0.5), 0.0, 1e-12);
    }

    #[test]
    fn t_matches_the_printed_tables() {
        // Student's t, upper 2.5 % points: Fisher & Yates, Statistical Tables, table III.
        for (df, want) in
            [(1.0, 12.706), (2.0, 4.303), (4.0, 2.776), (9.0, 2.262), (30.0, 2.042), (120.0, 1.980)]
        {
            near(t_quantile(0.975, df), want, 5e-4);
        }
        // Closed forms: df = 1 is Cauchy, df = 2 is 1/2 + t / (2 sqrt(2 + t^2)).
        near(t_cdf(1.0, 1.0), 0.75, 1e-14);
        near(t_cdf(2.0, 2.0), 0.5 + 2.0 / (2.0 * sqrt(6.0)), 1e-14);
        near(t_two_sided(2.262_157_162_740_992, 9.0), 0.05, 1e-10);
    }

    #[test]
    fn quantile_undoes_the_distribution_function() {
        for df in [1.0, 2.5, 7.0, 41.3] {
            for p in [0.001, 0.1, 0.5, 0.8, 0.999] {
                near(t_cdf(t_quantile(p, df), df), p, 1e-10);
            }
        }
    }

    #[test]
    fn incomplete_beta_matches_closed_forms() {
        near(incomplete_beta(1.0, 1.0, 0.3), 0.3, 1e-14);
        near(incomplete_beta(2.0, 3.0, 0.4), 0.5248, 1e-12); // sum of binomial terms: 1 - 0.6^4 - 4*0.4*0.6^3
        assert!(incomplete_beta(3.0, 2.0, 0.0) == 0.0 && incomplete_beta(3.0, 2.0, 1.0) == 1.0);
    }
}
