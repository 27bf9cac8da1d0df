//! A virtual machine: a kernel of its own whose CPUs are threads of the host.
//!
//! A [`GuestKernel`] owns the guest's [`System`]. Both kernels read one clock, in ns since the run began. A vCPU acts
//! only while its thread is in user mode on a host's CPU: the thread's stretch of user mode ends at the vCPU's next
//! event. While the thread is elsewhere (preempted, in an interrupt, in an exit) the vCPU stands still: steps under way
//! are put off by that time, work is kept as work left, and timers keep their times and are late.
//!
//! A halted vCPU exits to the host. The host polls for a while (`halt_poll_ns`) and then puts the thread to sleep until
//! the vCPU's next timer. A signal to a vCPU whose thread sleeps is a wakeup by the host, in the sender's thread.
//! Modelled after arch/x86/kvm: `vcpu_enter_guest`, `kvm_vcpu_block`, `kvm_vcpu_kick`; all releases are alike here.
//!
//! A vCPU never stands still with a spinlock held: the preemption of lock holders is not modelled.
//!
//! The guest has no steal clock: it charges stolen time to the task that is current. Its CPUs are cores that share one
//! cache. `state`: what a machine is. `machine`: the guest's machine. `drive`: a vCPU that continues and stands still,
//! `guest` what the host sees of it. The host's side is the board's, for both kernels ([`schedlab_board::nested`]).

pub mod accounts;
mod drive;
mod guest;
pub mod machine;
pub mod set_up;
pub mod state;

pub use state::{GuestKernel, Hosted, Relay};
