//! sched_ext schedulers, as a kernel gets them.
//!
//! # Problem
//!
//! A scheduler comes in one of two forms: an object file of a BPF compiler (`mine.bpf.o`), or a program that has such
//! an object inside and loads it by bpf(2). A kernel sees the same in both cases: maps, relocated programs, and a
//! struct of operations. This crate makes that of either form, so that whoever runs schedulers ([`Scheduler`]) has one
//! kind of input.
//!
//! ```text
//! object/   mine.bpf.o: sections, maps, calls, CO-RE relocations against the kernel's BTF  --+
//!                                                                                            +-->  Scheduler
//! broker/   PROGRAM ARGS: started under seccomp notification; its bpf(2) is answered here  --+
//! ```
//!
//! The kernel is known by its BTF alone ([`btf`]): layouts, enums, and prototypes of kfuncs.
//!
//! # Invariants
//!
//! A [`Scheduler`] is checked: indices of maps and programs are in range, instructions come whole, and ids of BTF are
//! of the kernel's BTF that it was made against. What a program does when it runs is not checked: there is no verifier
//! here.

pub mod broker;
pub mod btf;
pub mod object;
mod scheduler;
mod special;

pub use scheduler::{Field, Insn, Map, Ops, OpsKind, Program, RINGBUF, Scheduler, Setup, Special, Target};
