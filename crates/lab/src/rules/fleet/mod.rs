//! Questions about a whole machine.

mod code;
pub mod draw;
mod shrink;
mod words;

use super::subject::{Subject, Verdict};
use draw::Facts;
use schedlab_base::Result;
use schedlab_base::random::Stream;
use schedlab_kernel::Kernel as Rules;
use schedlab_machine::Machine;
use schedlab_sim::fair::oracle::fleet::{self, Answer, Question, State};
use schedlab_transplant::Kernel as Code;

/// A question about a machine.
pub struct Fleet<'a> {
    /// One of [`fleet::timeless`].
    pub machine: &'a Machine,
    pub rules: Rules,
    pub facts: &'a Facts,
    pub question: Question,
}

impl Subject for Fleet<'_> {
    type State = State;
    type Answer = Answer;

    fn draw(&self, stream: Stream) -> State {
        draw::state(stream, self.facts, self.question)
    }
    fn by_code(&self, code: &mut Code, s: &State) -> Result<Answer> {
        code::answer(code, s, self.question)
    }
    fn by_rules(&self, s: &State) -> (Answer, String) {
        fleet::answer(self.machine, &self.rules, s, self.question)
    }
    fn judge(&self, _: &State, code: &Answer, rules: &Answer) -> Verdict {
        if code == rules { Verdict::Same } else { Verdict::Differs }
    }
    fn simpler(&self, s: &State) -> Vec<State> {
        shrink::simpler(s, self.facts, self.question)
    }
    fn needs(&self, s: &State) -> Vec<String> {
        words::needs(s, self.facts, self.question)
    }
    fn state_in_words(&self, s: &State) -> Vec<String> {
        words::state(s, self.facts, self.question)
    }
    fn answer_in_words(&self, a: &Answer) -> String {
        words::answer(a)
    }
}
