//! The bits of `prev_state` in sched_switch, whose meaning differs between kernels.
//!
//! Since 4.14 a record has a translated state: 0x10 and 0x20 are tasks that end, 0x40 is a parked thread, and 0x100
//! alone says that the task was preempted. Before, it has the kernel's internal state: 0x40 is a task that ends, and a
//! preempted one has only TASK_STATE_MAX. That is the bit above all states, which moved up with each new one: 0x200
//! (before 3.9), 0x400 (3.9), 0x800 (4.2), 0x1000 (4.8). The three higher ones are never the only bit of a sleeping
//! task, so they show the kernel's age by themselves; otherwise the release decides, or the table of flags in the
//! tracepoint's format. The numbers are those of include/linux/sched.h in these releases (from memory).

use schedlab_trace::SwitchReason;

/// Since this kernel records have translated states.
const REPORTS: (u32, u32) = (4, 14);
/// Since this kernel 0x200 is a parked thread; before, it is TASK_STATE_MAX.
const PARKS: (u32, u32) = (3, 9);

/// The meaning of the bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum States {
    /// Translated, since 4.14.
    #[default]
    Reported,
    /// Internal states from 3.9 on.
    Plain,
    /// Internal states before 3.9.
    First,
}

impl States {
    /// The states of a release; today's if the text is not a release.
    pub fn of_release(release: &str) -> States {
        let mut numbers = release.trim_start_matches('v').split(|c: char| !c.is_ascii_digit());
        let mut next = || -> Option<u32> { numbers.next()?.parse().ok() };
        match next().zip(next()) {
            Some(version) if version < PARKS => States::First,
            Some(version) if version < REPORTS => States::Plain,
            _ => States::Reported,
        }
    }

    /// The states by the format of sched_switch, which prints each with its letter: 64 was `x`, and `P` came with 3.9.
    pub fn of_format(text: &str) -> States {
        let has = |letter: &str| text.contains(&format!("\"{letter}\" }}"));
        match (has("x"), has("P")) {
            (true, true) => States::Plain,
            (true, false) => States::First,
            (false, _) => States::Reported,
        }
    }

    /// Learns from a release, if it is older than assumed.
    pub fn learn(&mut self, release: &str) {
        if *self == States::Reported {
            *self = States::of_release(release);
        }
    }

    /// Why a stay ended, by the state of the task that left. Bits that only older kernels have also show how to read
    /// later records.
    #[inline]
    pub fn ended_by(&mut self, bits: u64) -> SwitchReason {
        const REPORTED: u64 = 0x1ff;
        if bits & 0xffff_ffff & !REPORTED != 0 && *self == States::Reported {
            *self = States::Plain;
        }
        self.reason(bits)
    }

    /// Why a stay ended, without learning from the bits.
    #[inline]
    pub fn reason(self, bits: u64) -> SwitchReason {
        const DEAD: u64 = 0x10 | 0x20;
        match (bits, self) {
            (0 | 0x400 | 0x800 | 0x1000, _) | (0x200, States::First) => SwitchReason::Preempted,
            (bits, States::Reported) if bits & 0x100 != 0 => SwitchReason::Preempted,
            (bits, States::Plain | States::First) if bits & 0x40 != 0 => SwitchReason::Exited,
            (bits, _) if bits & DEAD != 0 => SwitchReason::Exited,
            _ => SwitchReason::Blocked,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use SwitchReason::{Blocked, Exited, Preempted};

    #[test]
    fn bits_are_read_by_the_release() {
        for (release, bits, why) in [
            ("6.1.0", 0, Preempted),
            ("6.1.0", 0x100, Preempted),
            ("6.1.0", 0x20, Exited),
            ("6.1.0", 0x40, Blocked),
            ("6.1.0", 0x2, Blocked),
            ("4.14.3", 0x100, Preempted),
            ("4.9.0-13-amd64", 0x1000, Preempted),
            ("4.9.0", 0x40, Exited),
            ("4.9.0", 0x200, Blocked),
            ("4.9.0", 0x402, Blocked),
            ("4.4.1", 0x800, Preempted),
            ("3.10", 0x400, Preempted),
            ("2.6.35", 0x200, Preempted),
            ("v2.6.35", 0x82, Blocked),
            ("", 0x100, Preempted),
        ] {
            assert_eq!(States::of_release(release).reason(bits), why, "{bits:#x} of '{release}'");
        }
    }

    #[test]
    fn without_a_release_a_bit_of_older_kernels_shows_their_age() {
        let mut states = States::default();
        assert_eq!(states.ended_by(0x40), Blocked);
        assert_eq!(states.ended_by(0x800), Preempted);
        assert_eq!((states.ended_by(0x40), states), (Exited, States::Plain));
    }

    #[test]
    fn formats_are_read_by_their_letters() {
        let old =
            r#"print fmt: "...", { 16, "Z" }, { 32, "X" }, { 64, "x" }, { 128, "K" }, { 256, "W" }) : "R""#;
        let parks = old.replace("{ 256, \"W\" }", "{ 256, \"W\" }, { 512, \"P\" }");
        let new = r#"print fmt: "...", { 0x00000010, "X" }, { 0x00000020, "Z" }, { 0x00000040, "P" }) : "R""#;
        assert_eq!(
            [old, parks.as_str(), new].map(States::of_format),
            [States::First, States::Plain, States::Reported]
        );
    }
}
