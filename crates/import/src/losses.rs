//! Counts losses of a recording. A reader must know them, and no figure may depend on lost records.

use schedlab_base::{Ns, Warning};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Losses {
    /// Number of lost events, as far as the recorder counts them.
    pub events: u64,
    /// Number of places where events were lost.
    pub places: u64,
    /// Events that newer ones overwrote before the recording was saved.
    pub overwritten: u64,
    /// Records that came too late to be sorted; they are left out like lost ones.
    pub late: u64,
    /// The largest step of time backwards.
    pub backwards: Ns,
    /// How often the clock restarted; later times are shifted to follow the earlier ones.
    pub restarts: u64,
    /// Records of known events that can't be read.
    pub unreadable: u64,
    /// The line or number of the first of them; 0: none.
    pub first_unreadable: u64,
    /// Whether the file ends in the middle of a record.
    pub cut: bool,
}

impl Losses {
    /// Notes a record that can't be read, with its line or number.
    pub fn unreadable(&mut self, at: u64) {
        self.unreadable += 1;
        if self.first_unreadable == 0 {
            self.first_unreadable = at;
        }
    }

    /// Warnings about losses for the reader of the results.
    pub fn warnings(&self) -> Vec<Warning> {
        let mut all = Vec::new();
        let mut say = |is: bool, code: &str, words: String| {
            if is {
                all.push(Warning::new(code, words));
            }
        };
        let (events, places) = (self.events, self.places);
        say(
            places > 0,
            "recording.lost",
            format!(
                "the recorder lost events in {} ({events} as far as it counts them): stays and waits across them are \
                 left out, and counts are too small; a larger buffer loses fewer",
                schedlab_base::counted(places, "place")
            ),
        );
        say(
            self.overwritten > 0,
            "recording.overwritten",
            format!(
                "{} {} overwritten before the recording was saved: it holds the last part only",
                schedlab_base::counted(self.overwritten, "event"),
                schedlab_base::one_or(self.overwritten, "was", "were")
            ),
        );
        say(
            self.late > 0,
            "recording.late",
            format!(
                "time goes backwards by up to {}: {} could not be put in order and {} left out, as lost ones",
                self.backwards,
                schedlab_base::counted(self.late, "record"),
                schedlab_base::one_or(self.late, "is", "are")
            ),
        );
        say(
            self.restarts > 0,
            "recording.restarts",
            format!(
                "the clock began anew {}, as in files that were put together: what follows is counted as if it came \
                 after what was before",
                schedlab_base::counted(self.restarts, "time")
            ),
        );
        say(
            self.unreadable > 0,
            "recording.unreadable",
            format!(
                "{} scheduler events can't be read, the first in line or record {}: they are left out",
                self.unreadable, self.first_unreadable
            ),
        );
        say(self.cut, "recording.cut", "the file ends in the middle of a record: it is not whole".to_owned());
        all
    }
}
