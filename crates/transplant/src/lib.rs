//! The kernel's own scheduler code on simulated machines.
//!
//! `shim` has the overlay of which `kernels::code` makes an image of any tree; `abi` is what engine and image agree on,
//! as `shim/abi.h` says it; `load` opens an image.

pub mod abi;
pub mod fault;
pub mod load;
pub mod shim;
