//! The benchmarks: one file each, one row each.

use crate::build::Builder;
use crate::param::{Benchmark, Choice, Param, Params};
use schedlab_base::Result;

mod batch;
mod draws;
mod embedded_db;
mod exchange;
mod gate;
mod hackbench;
mod mutex;
mod nanosleep;
mod pipe;
mod rr;
mod sample;
mod schbench;
mod schbench_modern;
mod slice;
mod stream_rr;
mod wake_list;

/// Every benchmark.
pub const BENCHMARKS: &[&Benchmark] = &[
    &schbench::SCHBENCH,
    &schbench_modern::SCHBENCH_MODERN,
    &nanosleep::NANOSLEEP,
    &hackbench::HACKBENCH,
    &pipe::PIPE,
    &rr::RR,
    &stream_rr::STREAM_RR,
    &embedded_db::EMBEDDED_DB,
    &slice::SLICE,
    &batch::BATCH,
];

/// The longest a run may be asked to last: an hour.
const HOUR: u64 = 3_600_000_000_000;
/// A second.
const SECOND: u64 = 1_000_000_000;

/// The row for how long to run.
const fn runtime(short: Option<char>, default: u64) -> Param {
    Param::time("runtime", short, "s", default, (1_000_000, HOUR), "how long to run")
}
/// The row for the time a program that ends by itself may take.
const fn at_most(default: u64) -> Param {
    let about = "a run that is not done by then is cut off, without a result";
    Param::time("runtime", None, "s", default, (1_000_000, HOUR), about)
}
/// The row for what is left out at the beginning.
const fn warmup(short: Option<char>) -> Param {
    Param::time("warmup", short, "s", 0, (0, HOUR), "how long it runs before it is measured")
}
/// The row for what the tasks are when run live.
const fn mode(words: &'static [Choice]) -> Param {
    Param::choice("mode", words, "what the tasks are, live: processes, or threads of one")
}
/// The place of "thread" in the words of [`mode`].
const THREADS: u64 = 1;

/// Makes the tasks what [`mode`] says.
fn in_mode(params: &Params, b: &mut Builder) -> Result<()> {
    if params.get("mode")? != THREADS {
        b.as_processes();
    }
    Ok(())
}
