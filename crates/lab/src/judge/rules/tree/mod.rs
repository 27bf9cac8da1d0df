//! Questions about a CPU whose tasks are in groups.

pub mod draw;
mod shrink;
mod words;

use super::queue::draw::Facts;
use super::subject::Subject;
use schedlab_base::Result;
use schedlab_base::random::Stream;
use schedlab_board::decision::{AskedTree, TreeAnswer, TreeQuestion};
use schedlab_kernel::Kernel as Rules;
use schedlab_machine::Machine;
use schedlab_sim::fair::oracle::tree::{self, Has};
use schedlab_transplant::Kernel as Code;

/// A question about a CPU with groups.
pub struct Tree<'a> {
    pub machine: &'a Machine,
    pub rules: Rules,
    pub facts: Facts,
    pub has: Has,
    pub question: TreeQuestion,
}

impl Tree<'_> {
    /// The part of an answer that counts when answers are compared.
    fn that_counts(&self, s: &AskedTree, mut a: TreeAnswer) -> TreeAnswer {
        let (deadlines, debts) = (self.facts.deadlines, self.has.debts);
        for (i, after) in a.tasks.iter_mut().enumerate() {
            *after = after.that_counts(true, s.current == Some(i), deadlines, debts);
        }
        for (g, after) in a.groups.iter_mut().enumerate() {
            *after = after.that_counts(!self.has.flat, s.runs_below(g), deadlines, debts);
        }
        if self.question != TreeQuestion::Pick {
            a.picked = None;
        }
        a
    }
}

impl Subject for Tree<'_> {
    type State = AskedTree;
    type Answer = TreeAnswer;

    fn draw(&self, stream: Stream) -> AskedTree {
        draw::state(stream, &self.facts, self.has, self.question)
    }
    fn by_code(&self, code: &mut Code, s: &AskedTree) -> Result<TreeAnswer> {
        let answer = code.ask_tree(s, self.question, self.facts.base_slice_ns)?;
        Ok(self.that_counts(s, answer))
    }
    fn by_rules(&self, s: &AskedTree) -> (TreeAnswer, String) {
        let answer = tree::answer(self.machine, &self.rules, s, self.question);
        (self.that_counts(s, answer), String::new())
    }
    fn simpler(&self, s: &AskedTree) -> Vec<AskedTree> {
        let mut all = shrink::simpler(s, self.question);
        for t in all.iter_mut().flat_map(|s| &mut s.tasks).filter(|t| t.group.is_none()) {
            t.line_weight = self.facts.weight(&t.entity) * draw::FINE;
        }
        all.retain(|next| next != s);
        all.retain(|s| draw::is_whole(s, self.has, self.question));
        all
    }
    fn needs(&self, s: &AskedTree) -> Vec<String> {
        words::needs(s)
    }
    fn state_in_words(&self, s: &AskedTree) -> Vec<String> {
        words::state(s, self.facts.deadlines, self.has.flat)
    }
    fn answer_in_words(&self, a: &TreeAnswer) -> String {
        words::answer(a)
    }
}
