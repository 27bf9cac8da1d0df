//! Our rules held against a kernel's own code, one decision at a time (`schedlab validate --rules`).
//!
//! A state is drawn, written into an image and into a system of our rules, and one function of the fair class is asked
//! on both sides. Neither side continues from its answer, so a difference is of this decision alone. A difference is
//! made as small as it can be ([`shrink`]) and counted by what its smallest state has ([`words`]).
//!
//! Each function is a row of [`FUNCTIONS`]. States are drawn in [`draw`]. A process holds one image, so that each tree
//! has a process of its own ([`child`]).

pub mod child;
mod code;
mod draw;
mod judge;
mod shrink;
mod words;

pub use child::{COMMAND, decide};

use schedlab_base::{Error, Result};
use schedlab_sim::fair::oracle::Question;

/// A function of the fair class that can be asked.
#[derive(Debug)]
pub struct Function {
    pub name: &'static str,
    /// The kernel's functions that answer.
    pub kernel: &'static str,
    pub question: Question,
}

/// All of them.
pub const FUNCTIONS: &[Function] = &[
    Function { name: "pick", kernel: "pick_next_entity(), pick_eevdf()", question: Question::Pick },
    Function { name: "placement", kernel: "place_entity()", question: Question::Place },
    Function {
        name: "preemption",
        kernel: "check_preempt_wakeup(), wakeup_preempt_fair()",
        question: Question::Preempt,
    },
];

/// The functions of these names; all without a name.
///
/// # Errors
/// For an unknown name.
pub fn functions(names: &[String]) -> Result<Vec<&'static Function>> {
    if names.is_empty() {
        return Ok(FUNCTIONS.iter().collect());
    }
    let find = |name: &String| {
        let found = FUNCTIONS.iter().find(|f| f.name == *name);
        found.ok_or_else(|| Error::unknown("function", name, FUNCTIONS.iter().map(|f| f.name)))
    };
    names.iter().map(find).collect()
}
