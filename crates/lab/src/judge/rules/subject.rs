//! Subjects of questions: a kind of state with its questions.

use schedlab_base::Result;
use schedlab_base::random::Stream;
use schedlab_transplant::Kernel as Code;

/// One function, with everything that its states depend on.
pub trait Subject {
    type State: Clone + PartialEq;
    type Answer: PartialEq;

    /// The state of this stream.
    fn draw(&self, stream: Stream) -> Self::State;
    /// The answer of the kernel's own code.
    ///
    /// # Errors
    /// When the tree can't be asked.
    fn by_code(&self, code: &mut Code, s: &Self::State) -> Result<Self::Answer>;
    /// The answer of our rules and its reason; empty if they give none.
    fn by_rules(&self, s: &Self::State) -> (Self::Answer, String);
    /// States that are simpler by one step, the largest steps first.
    fn simpler(&self, s: &Self::State) -> Vec<Self::State>;
    /// The necessary parts of a smallest state: its cause, as far as parts of a state show it.
    fn needs(&self, s: &Self::State) -> Vec<String>;
    /// A state, a line each.
    fn state_in_words(&self, s: &Self::State) -> Vec<String>;
    fn answer_in_words(&self, a: &Self::Answer) -> String;
}

/// Most states that are tried.
const MOST_TRIES: usize = 2_000;

/// The smallest state that `differs`, found by one simplification after another.
pub fn shrink<S: Subject>(of: &S, state: S::State, differs: &mut dyn FnMut(&S::State) -> bool) -> S::State {
    let (mut best, mut tries) = (state, 0);
    loop {
        let better = of.simpler(&best).into_iter().find(|s| {
            tries += 1;
            tries <= MOST_TRIES && differs(s)
        });
        match better {
            Some(s) => best = s,
            None => return best,
        }
    }
}
