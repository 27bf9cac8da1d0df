//! The kernel of a drawn case: a profile with the image of its series, and up to two features switched.

use super::dice::Dice;

/// A kernel with an image for guests, whose costs in guests were counted.
#[derive(Debug)]
pub struct CountedKernel {
    pub simulated: &'static str,
    pub image: &'static str,
    /// Whether tasks may ask for a slice (6.12 and later).
    pub slices: bool,
    /// Features against their default. Both sides have them, and each affects fair tasks. The list is fixed, so that a
    /// new row in the table of features does not change the cases of a seed.
    pub toggles: &'static [&'static str],
}

pub const KERNELS: &[CountedKernel] = &[
    CountedKernel {
        simulated: "v6.1",
        image: "6.1",
        slices: false,
        toggles: &[
            "NO_GENTLE_FAIR_SLEEPERS",
            "NO_START_DEBIT",
            "NO_WAKEUP_PREEMPTION",
            "NEXT_BUDDY",
            "NO_LAST_BUDDY",
            "NO_CACHE_HOT_BUDDY",
            "NO_TTWU_QUEUE",
            "NO_ALT_PERIOD",
            "NO_BASE_SLICE",
            "NO_WA_IDLE",
            "NO_WA_WEIGHT",
            "NO_WA_BIAS",
            "NO_SIS_UTIL",
            "NO_UTIL_EST",
            "NO_NI_RANDOM",
        ],
    },
    CountedKernel {
        simulated: "v7.3",
        image: "7.3",
        slices: true,
        toggles: &[
            "NO_WAKEUP_PREEMPTION",
            "NEXT_BUDDY",
            "NO_PICK_BUDDY",
            "NO_CACHE_HOT_BUDDY",
            "NO_TTWU_QUEUE",
            "NO_WA_IDLE",
            "NO_WA_WEIGHT",
            "NO_WA_BIAS",
            "NO_SIS_UTIL",
            "NO_UTIL_EST",
            "NO_PLACE_LAG",
            "NO_PLACE_REL_DEADLINE",
            "NO_RUN_TO_PARITY",
            "NO_PREEMPT_SHORT",
            "NO_DELAY_DEQUEUE",
            "NO_DELAY_ZERO",
            "NO_HRTICK",
            "NO_NI_RANDOM",
        ],
    },
];

/// The kernel of a drawn case.
#[derive(Clone, Debug)]
pub struct Chosen {
    pub simulated: &'static str,
    pub image: &'static str,
    /// Whether tasks may ask for a slice.
    pub slices: bool,
    pub features: Vec<&'static str>,
}

impl Chosen {
    /// The newest kernel as it is, for sched_ext schedulers: features, and slices that tasks ask for, are of the fair
    /// class.
    pub fn newest() -> Chosen {
        let row = &KERNELS[KERNELS.len() - 1];
        Chosen { simulated: row.simulated, image: row.image, slices: false, features: Vec::new() }
    }
    /// A kernel; half of the cases leave it unchanged, a third switch one feature, a sixth two.
    pub fn draw(dice: Dice) -> Chosen {
        let row = &KERNELS[dice.within("kernel", 0, KERNELS.len() as u32 - 1) as usize];
        let many = dice.pick("features", &[0, 0, 0, 1, 1, 2]);
        let mut features: Vec<&str> =
            ["first", "second"].iter().take(many).map(|nth| dice.pick(nth, row.toggles)).collect();
        features.dedup();
        Chosen { simulated: row.simulated, image: row.image, slices: row.slices, features }
    }
    /// For people.
    pub fn words(&self) -> String {
        match self.features.as_slice() {
            [] => self.image.to_owned(),
            some => format!("{} with {}", self.image, some.join(" and ")),
        }
    }
}
