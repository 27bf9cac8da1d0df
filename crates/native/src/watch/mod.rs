//! Watches the kernel during a run: tracepoints, the stays of tasks on CPUs, performance counters, samples, the counts
//! of /proc/schedstat, and the witness of other load.
//!
//! Only [`tracepoints`] needs the crate `import`, which has the layouts of the kernel's records.

pub mod counters;
pub mod findings;
pub mod kernel_counters;
pub mod on_cpu_spans;
pub mod profile;
pub mod tracepoints;
pub mod witness;
