//! One estimate of several machines: a mean whose interval knows that machines differ.
//!
//! Each machine has an effect of its own, drawn around the mean. The variance between machines is that of DerSimonian
//! and Laird (1986); the interval is that of Hartung and Knapp (2001) and Sidik and Jonkman (2002) with Student's t,
//! never narrower than without their correction (Knapp and Hartung 2003). It holds for two machines, too, and is wide
//! then.

use super::intervals::TEstimate;
use super::special::root;

/// The mean of several machines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pooled {
    pub mean: TEstimate,
    /// Standard deviation between machines.
    pub between: f64,
}

/// The pooled estimate; `None` for fewer than two machines, or if one has no error.
pub fn pooled(machines: &[TEstimate]) -> Option<Pooled> {
    let k = machines.len() as f64;
    if machines.len() < 2 || machines.iter().any(|m| m.error.is_nan() || m.error <= 0.0) {
        return None;
    }
    let squared = |m: &TEstimate| m.error * m.error;
    let (fixed, mean) = weigh(machines, |m| 1.0 / squared(m));
    let sum: f64 = fixed.iter().sum();
    let squares: f64 = fixed.iter().map(|w| w * w).sum();
    let off = spread(machines, &fixed, mean);
    let between2 = ((off - (k - 1.0)) / (sum - squares / sum)).max(0.0);
    let (weights, mean) = weigh(machines, |m| 1.0 / (squared(m) + between2));
    let correction = (spread(machines, &weights, mean) / (k - 1.0)).max(1.0);
    let error = root(correction / weights.iter().sum::<f64>());
    Some(Pooled { mean: TEstimate { estimate: mean, error, df: k - 1.0 }, between: root(between2) })
}

fn weigh(machines: &[TEstimate], weight: impl Fn(&TEstimate) -> f64) -> (Vec<f64>, f64) {
    let weights: Vec<f64> = machines.iter().map(weight).collect();
    let sum: f64 = weights.iter().sum();
    let mean = machines.iter().zip(&weights).map(|(m, w)| m.estimate * w).sum::<f64>() / sum;
    (weights, mean)
}

/// The weighted squares around the mean.
fn spread(machines: &[TEstimate], weights: &[f64], mean: f64) -> f64 {
    machines.iter().zip(weights).map(|(m, w)| w * (m.estimate - mean) * (m.estimate - mean)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::special::normal_quantile;
    use schedlab_base::Stream;

    fn of(estimates: &[(f64, f64)]) -> Vec<TEstimate> {
        estimates
            .iter()
            .map(|(estimate, error)| TEstimate { estimate: *estimate, error: *error, df: 20.0 })
            .collect()
    }

    #[test]
    fn equal_machines_give_their_value_and_one_machine_gives_none() {
        assert_eq!(pooled(&of(&[(3.0, 1.0)])), None);
        assert_eq!(pooled(&of(&[(3.0, 1.0), (3.0, 0.0)])), None);
        let p = pooled(&of(&[(3.0, 1.0), (3.0, 1.0), (3.0, 1.0), (3.0, 1.0)])).unwrap();
        assert_eq!((p.mean.estimate, p.between, p.mean.df), (3.0, 0.0, 3.0));
        assert!((p.mean.error - 0.5).abs() < 1e-12, "not narrower than the machines' own errors allow");
    }

    #[test]
    fn the_interval_holds_the_mean_of_machines_that_differ() {
        let s = Stream::new(5);
        let normal = |i: u64| normal_quantile((s.below(i, 1 << 32) as f64 + 0.5) / (1u64 << 32) as f64);
        for (between, machines) in [(0.0, 3), (1.0, 3), (3.0, 5)] {
            let holds = |trial: u64| {
                let one = |m: u64| {
                    let at = 100 * trial + 2 * m;
                    (2.0 + between * normal(at) + normal(at + 1), 1.0)
                };
                let all: Vec<(f64, f64)> = (0..machines).map(one).collect();
                let [low, high] = pooled(&of(&all)).unwrap().mean.shift(0.05).interval;
                low <= 2.0 && 2.0 <= high
            };
            let held = (0..400).filter(|trial| holds(*trial)).count();
            assert!(held >= 370, "{held} of 400 with {machines} machines, {between} between them");
        }
    }
}
