//! How the days of a machine differ without any change: the kinds of noise, and the likelihood of days under each.
//!
//! A day's value is a level, plus a part that remembers the days before, plus a part of its own. The part that
//! remembers is either a random walk (a drift) or fades away. Each kind is a linear filter that turns its days into
//! independent ones; level, step and slope go through the same filter. The level and the size of the noise are unknown:
//! they are integrated out over the priors of a location and scale family, so that neither unit nor spread matters.

use super::{Day, SIZES};
use crate::intervals::TEstimate;
use crate::special::root;
use libm::{exp, log, log1p};
use std::collections::VecDeque;
use std::ops::Range;

/// Shares of the squares are put together in bins: eight for each power of two, from this share on.
const SMALL: f64 = 1.0 / (1 << 20) as f64;
const BINS: usize = 20 * 8;
/// The bits of a number that do not tell its bin.
const WITHIN: u32 = f64::MANTISSA_DIGITS - 1 - 3;

/// A kind of noise; its own part has variance 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Noise {
    /// The share of the remembered part that is left a day later; 1 for a random walk.
    pub keeps: f64,
    /// Variance of what a day adds to the remembered part.
    pub adds: f64,
}

/// Kinds of noise that stay where they are.
pub(super) const STABLE: [Noise; 5] = [
    Noise { keeps: 0.0, adds: 0.0 },
    Noise { keeps: 0.5, adds: 0.3 },
    Noise { keeps: 0.5, adds: 3.0 },
    Noise { keeps: 0.8, adds: 0.1 },
    Noise { keeps: 0.8, adds: 1.0 },
];
/// Kinds of noise that wander; a slope is one more.
pub(super) const DRIFTING: [Noise; 6] = [
    Noise { keeps: 1.0, adds: 0.001 },
    Noise { keeps: 1.0, adds: 0.004 },
    Noise { keeps: 1.0, adds: 0.016 },
    Noise { keeps: 1.0, adds: 0.064 },
    Noise { keeps: 1.0, adds: 0.25 },
    Noise { keeps: 1.0, adds: 1.0 },
];

/// A sequence on its way through a filter, with its products with the constant, the days and itself.
#[derive(Clone, Copy, Debug, Default)]
struct Track {
    state: f64,
    one: f64,
    day: f64,
    own: f64,
}

impl Track {
    /// The next value, made independent of those before.
    fn next(&mut self, value: f64, gain: Gain) -> f64 {
        let off = value - self.state;
        self.state = gain.keeps * (self.state + gain.weight * off);
        off * gain.scale
    }
    fn add(&mut self, value: f64, one: f64, day: f64) {
        self.one += value * one;
        self.day += value * day;
        self.own += value * value;
    }
}

#[derive(Clone, Copy)]
struct Gain {
    keeps: f64,
    weight: f64,
    scale: f64,
}

/// Days under one kind of noise.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    noise: Noise,
    /// Variance of the remembered part, as the days before tell.
    unsure: f64,
    /// Sum of the logarithms of the variances.
    log_variance: f64,
    days: usize,
    one: Track,
    day: Track,
    slope: Track,
    /// The days at which a change is thought of; the first of those that are still.
    thought_of: Range<usize>,
    first: usize,
    /// A step for each of these days.
    steps: VecDeque<Track>,
}

impl Filter {
    /// A filter that thinks of a change at these days. At the first day of all there is none.
    pub fn new(noise: Noise, thought_of: Range<usize>) -> Filter {
        let keeps2 = noise.keeps * noise.keeps;
        let unsure = if keeps2 < 1.0 { noise.adds / (1.0 - keeps2) } else { 0.0 };
        let empty = Track::default();
        Filter {
            noise,
            unsure,
            log_variance: 0.0,
            days: 0,
            one: empty,
            day: empty,
            slope: empty,
            first: thought_of.start.max(1),
            thought_of,
            steps: VecDeque::new(),
        }
    }

    /// The days at which a change is thought of.
    pub fn steps(&self) -> Range<usize> {
        self.first..self.first + self.steps.len()
    }

    /// Thinks no more of changes before a day.
    pub fn forget_before(&mut self, day: usize) {
        while self.first < day && self.steps.pop_front().is_some() {
            self.first += 1;
        }
    }

    /// Takes the next day.
    pub fn push(&mut self, value: f64) {
        let variance = self.unsure + 1.0;
        let weight = self.unsure / variance;
        let gain = Gain { keeps: self.noise.keeps, weight, scale: 1.0 / libm::sqrt(variance) };
        self.unsure = self.noise.keeps * self.noise.keeps * self.unsure * (1.0 - weight) + self.noise.adds;
        self.log_variance += log(variance);
        if self.days > 0 && self.thought_of.contains(&self.days) {
            self.steps.push_back(Track::default());
        }
        let one = self.one.next(1.0, gain);
        let day = self.day.next(value, gain);
        let slope = self.slope.next(self.days as f64, gain);
        self.one.add(one, one, day);
        self.day.add(day, one, day);
        self.slope.add(slope, one, day);
        for step in &mut self.steps {
            let v = step.next(1.0, gain);
            step.add(v, one, day);
        }
        self.days += 1;
    }

    /// What is left of the days' squares once the level is taken out, with `floor` as the least.
    fn squares(&self, floor: f64) -> f64 {
        self.day.own - self.day.one * self.day.one / self.one.own + floor
    }

    /// Logarithm of the likelihood of the days, but for a constant that all kinds of noise share.
    pub fn still(&self, floor: f64) -> f64 {
        let rest = (self.days as f64 - 1.0) / 2.0;
        -0.5 * (self.log_variance + log(self.one.own)) - rest * log(self.squares(floor))
    }

    /// By how much a step at day `at` raises that, if its size in multiples of the noise has variance `g`.
    pub fn step(&self, at: usize, g: f64, floor: f64) -> f64 {
        self.raised(&self.steps[at - self.first], g, floor)
    }

    /// More than the steps at all days but the last raise it by together, with their days' weights. It takes a fraction
    /// of the time of [`Filter::step`].
    pub fn most(&self, days: &[Day], floor: f64) -> f64 {
        let [smallest, .., largest] = SIZES;
        let rest = self.squares(floor);
        let lowest = SMALL.to_bits() >> WITHIN;
        let mut bins = [0.0; BINS];
        for (step, day) in self.steps.iter().zip(&days[self.first..days.len() - 1]) {
            let (own, with) = self.beside_the_level(step);
            let share = largest * with * with / ((1.0 + largest * own) * rest);
            let bin = (share.to_bits() >> WITHIN).saturating_sub(lowest);
            bins[BINS.min(bin as usize + 1) - 1] += day.year / (1.0 + smallest * own).sqrt();
        }
        let half = (self.days as f64 - 1.0) / 2.0;
        let end = |bin: usize| f64::from_bits((lowest + bin as u64 + 1) << WITHIN).min(1.0 - 1e-15);
        let filled = bins.iter().enumerate().filter(|(_, weight)| **weight > 0.0);
        log(filled.map(|(bin, weight)| weight * exp(-half * log1p(-end(bin)))).sum())
    }

    /// By how much a slope raises it: its size in a day has variance `g`.
    pub fn slope(&self, g: f64, floor: f64) -> f64 {
        self.raised(&self.slope, g, floor)
    }

    /// The products of a sequence with itself and with the days, once the level is taken out.
    fn beside_the_level(&self, x: &Track) -> (f64, f64) {
        (x.own - x.one * x.one / self.one.own, x.day - x.one * self.day.one / self.one.own)
    }

    fn raised(&self, x: &Track, g: f64, floor: f64) -> f64 {
        let (own, with) = self.beside_the_level(x);
        let spread = 1.0 + g * own;
        let explained = g * with * with / (spread * self.squares(floor));
        -0.5 * log(spread) - (self.days as f64 - 1.0) / 2.0 * log1p(-explained)
    }

    /// The size of the step at a day.
    pub fn size(&self, at: usize, floor: f64) -> TEstimate {
        let (own, with) = self.beside_the_level(&self.steps[at - self.first]);
        let df = (self.days as f64 - 2.0).max(1.0);
        let left = (self.squares(floor) - with * with / own).max(0.0);
        TEstimate { estimate: with / own, error: root(left / df / own), df }
    }
}
