//! Questions about one runqueue.

mod code;
pub mod draw;
mod judge;
mod shrink;
mod words;

use super::subject::{Subject, Verdict};
use draw::Facts;
use schedlab_base::Result;
use schedlab_base::random::Stream;
use schedlab_kernel::Kernel as Rules;
use schedlab_machine::Machine;
use schedlab_sim::fair::oracle::{self, Answer, Question, State};
use schedlab_transplant::Kernel as Code;

/// A question about a runqueue.
pub struct Queue<'a> {
    pub machine: &'a Machine,
    pub rules: Rules,
    pub facts: Facts,
    pub question: Question,
}

impl Subject for Queue<'_> {
    type State = State;
    type Answer = Answer;

    fn draw(&self, stream: Stream) -> State {
        draw::state(stream, &self.facts, self.question)
    }
    fn by_code(&self, code: &mut Code, s: &State) -> Result<Answer> {
        code::answer(code, &self.facts, s, self.question)
    }
    fn by_rules(&self, s: &State) -> (Answer, String) {
        (oracle::answer(self.machine, &self.rules, s, self.question), String::new())
    }
    fn judge(&self, s: &State, code: &Answer, rules: &Answer) -> Verdict {
        judge::judge(s, &self.facts, *code, *rules, &mut |s| self.by_rules(s).0)
    }
    fn simpler(&self, s: &State) -> Vec<State> {
        shrink::simpler(s, self.question)
    }
    fn needs(&self, s: &State) -> Vec<String> {
        words::needs(s)
    }
    fn state_in_words(&self, s: &State) -> Vec<String> {
        words::state(s, self.facts.deadlines)
    }
    fn answer_in_words(&self, a: &Answer) -> String {
        words::answer(*a)
    }
}
