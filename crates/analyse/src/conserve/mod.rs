//! Work conservation: did a task wait although a CPU that it may use was idle, why, and who could have changed it?
//!
//! Definitions, by the events of a run with details ([`Sink::wants_details`](schedlab_trace::Sink::wants_details));
//! tasks are all tasks, including the machine's own; times are nanoseconds:
//! - A CPU is **free** while the idle task is current on it, nobody is queued there, and no wakeup that chose it is
//!   under way. That is the kernel's `idle_cpu()`. A CPU that searches for work before it idles is not free yet.
//! - A task **waits** while it is queued on a CPU and does not run. A task that its CPU will switch to does not wait
//!   from the instant the CPU enters `schedule()`, nor while the CPU's idle task is current: it is being switched to. A
//!   task that is being woken, or carried to another CPU, does not wait until it is queued.
//! - A **stretch** is the whole time in which one task waits on one CPU while at least one CPU that it may use is free.
//!   It ends when the task is switched to or moved, or when the last such CPU gets work.
//! - The machine is **not work-conserving** while there is at least one stretch.
//!
//! [`World`] follows events; [`Stretches`] finds all stretches of a run; [`Chances`] shows for chosen waits which CPUs
//! were free and what they did.

mod cause;
mod chances;
mod report;
mod stretches;
mod text;
mod union;
mod world;

pub use cause::{Cause, CauseKind};
pub use chances::{BalanceTry, Chance, Chances, DecisionCount, FreeCpu, Window};
pub use report::{CauseShare, IdleWhileWaiting, Listed};
pub use stretches::{IdleWhileWaitingTimes, Stretch, StretchEnd, Stretches};
pub use text::{chance_lines, idle_while_waiting_text};
pub use world::{Change, Freed, Queued, World};
