//! Rows of parameters that several benchmarks have.

use crate::build::Builder;
use crate::param::{Choice, Param, Params};
use schedlab_base::Result;

/// The longest runtime that may be asked for: an hour, ns.
const HOUR: u64 = 3_600_000_000_000;
/// A second, ns.
pub(super) const SECOND: u64 = 1_000_000_000;

/// The parameter row of the runtime.
pub(super) const fn runtime(short: Option<char>, default: u64) -> Param {
    Param::time("runtime", short, "s", default, (1_000_000, HOUR), "how long to run")
}
/// The parameter row of the longest runtime of a program that ends by itself.
pub(super) const fn at_most(default: u64) -> Param {
    let about = "longest run; one that is not done by then is cut off and has no result";
    Param::time("runtime", None, "s", default, (1_000_000, HOUR), about)
}
/// The parameter row of the warm-up.
pub(super) const fn warmup(short: Option<char>) -> Param {
    Param::time("warmup", short, "s", 0, (0, HOUR), "how long it runs before it is measured")
}
/// The parameter row that makes live tasks processes or threads.
pub(super) const fn mode(words: &'static [Choice]) -> Param {
    Param::choice(MODE, words, "whether live tasks are processes, or threads of one process")
}
/// The parameter that says how long a side works for each message.
pub(super) const fn work(name: &'static str, about: &'static str) -> Param {
    Param::time(name, None, "us", 0, (0, SECOND), about)
}
/// The name of the parameter that makes live tasks processes or threads.
pub const MODE: &str = "mode";
/// The place of "process" in its words.
pub const PROCESSES: u64 = 0;
/// The place of "thread" in its words.
pub const THREADS: u64 = 1;

/// Makes the tasks processes or threads, as the value of [`mode`] says.
pub(super) fn in_mode(params: &Params, b: &mut Builder) -> Result<()> {
    if params.get("mode")? != THREADS {
        b.as_processes();
    }
    Ok(())
}
