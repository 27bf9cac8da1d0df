//! Questions about a whole machine.

mod draw;
pub mod facts;
mod shrink;
mod words;

use super::subject::Subject;
use facts::Facts;
use schedlab_base::Result;
use schedlab_base::random::Stream;
use schedlab_board::decision::{AskedFleet, FleetAnswer, FleetQuestion};
use schedlab_kernel::Kernel as Rules;
use schedlab_machine::Machine;
use schedlab_sim::fair::oracle::fleet;
use schedlab_transplant::Kernel as Code;

/// A question about a machine.
pub struct Fleet<'a> {
    /// One of [`fleet::timeless`].
    pub machine: &'a Machine,
    pub rules: Rules,
    pub facts: &'a Facts,
    pub question: FleetQuestion,
}

impl Subject for Fleet<'_> {
    type State = AskedFleet;
    type Answer = FleetAnswer;

    fn draw(&self, stream: Stream) -> AskedFleet {
        draw::state(stream, self.facts, self.question)
    }
    fn by_code(&self, code: &mut Code, s: &AskedFleet) -> Result<FleetAnswer> {
        code.ask_fleet(s, self.question)
    }
    fn by_rules(&self, s: &AskedFleet) -> (FleetAnswer, String) {
        fleet::answer(self.machine, &self.rules, s, self.question)
    }
    fn simpler(&self, s: &AskedFleet) -> Vec<AskedFleet> {
        shrink::simpler(s, self.facts, self.question)
    }
    fn needs(&self, s: &AskedFleet) -> Vec<String> {
        let mut needs = vec![self.machine.name.clone()];
        needs.extend(words::needs(s, self.facts, self.question));
        needs
    }
    fn state_in_words(&self, s: &AskedFleet) -> Vec<String> {
        words::state(s, self.facts, self.question)
    }
    fn answer_in_words(&self, a: &FleetAnswer) -> String {
        words::answer(a)
    }
}
