//! Questions about one runqueue.

pub mod draw;
mod shrink;
mod words;

use super::subject::Subject;
use draw::Facts;
use schedlab_base::Result;
use schedlab_base::random::Stream;
use schedlab_board::decision::{AskedQueue, QueueAnswer, QueueQuestion};
use schedlab_kernel::Kernel as Rules;
use schedlab_machine::Machine;
use schedlab_sim::fair::oracle::queue;
use schedlab_transplant::Kernel as Code;

/// A question about a runqueue.
pub struct Queue<'a> {
    pub machine: &'a Machine,
    pub rules: Rules,
    pub facts: Facts,
    pub question: QueueQuestion,
}

impl Subject for Queue<'_> {
    type State = AskedQueue;
    type Answer = QueueAnswer;

    fn draw(&self, stream: Stream) -> AskedQueue {
        draw::state(stream, &self.facts, self.question)
    }
    fn by_code(&self, code: &mut Code, s: &AskedQueue) -> Result<QueueAnswer> {
        code.ask(s, self.question, self.facts.base_slice_ns)
    }
    fn by_rules(&self, s: &AskedQueue) -> (QueueAnswer, String) {
        (queue::answer(self.machine, &self.rules, s, self.question), String::new())
    }
    fn simpler(&self, s: &AskedQueue) -> Vec<AskedQueue> {
        shrink::simpler(s, self.question)
    }
    fn needs(&self, s: &AskedQueue) -> Vec<String> {
        words::needs(s)
    }
    fn state_in_words(&self, s: &AskedQueue) -> Vec<String> {
        words::state(s, self.facts.deadlines)
    }
    fn answer_in_words(&self, a: &QueueAnswer) -> String {
        words::answer(*a)
    }
}
