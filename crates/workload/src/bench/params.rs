//! Parameter rows that several benchmarks share.

use crate::build::Builder;
use crate::param::{Choice, Param, Params};
use schedlab_base::{Ns, Result};

/// An hour, the longest runtime, ns.
const HOUR: u64 = 3_600_000_000_000;
pub(super) const SECOND: u64 = 1_000_000_000;

pub(super) const fn runtime(short: Option<char>, default: u64) -> Param {
    Param::time("runtime", short, "s", default, (1_000_000, HOUR), "how long to run")
}
/// The parameter row for the longest runtime of a program that ends by itself.
pub(super) const fn at_most(default: u64) -> Param {
    let about = "longest run; one that is not done by then is cut off and has no result";
    Param::time("runtime", None, "s", default, (1_000_000, HOUR), about)
}
pub(super) const fn warmup(short: Option<char>) -> Param {
    Param::time("warmup", short, "s", 0, (0, HOUR), "how long it runs before it is measured")
}
/// The parameter row for the time between the starts of two clients.
pub(super) const fn gap() -> Param {
    let about = "time between the starts of two clients, as a shell starts them one after the other";
    Param::time(GAP, None, "ms", 0, (0, SECOND), about)
}
/// How long after the first one client number `nth` starts.
pub(super) fn starts_after(params: &Params, nth: usize) -> Ns {
    Ns(params.newer(GAP).saturating_mul(nth as u64))
}
const GAP: &str = "gap";
/// The parameter row that chooses between processes and threads for live tasks.
pub(super) const fn mode(words: &'static [Choice]) -> Param {
    Param::choice(MODE, words, "whether live tasks are processes, or threads of one process")
}
/// The parameter row for a side's work per message.
pub(super) const fn work(name: &'static str, about: &'static str) -> Param {
    Param::time(name, None, "us", 0, (0, SECOND), about)
}
/// The name of the parameter that chooses processes or threads.
pub const MODE: &str = "mode";
pub const PROCESSES: u64 = 0;
pub const THREADS: u64 = 1;

/// Makes live tasks processes or threads, according to [`mode`].
pub(super) fn in_mode(params: &Params, b: &mut Builder) -> Result<()> {
    if params.get("mode")? != THREADS {
        b.as_processes();
    }
    Ok(())
}
