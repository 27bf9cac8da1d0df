//! Links between machines, through time: `drive` takes messages, `remote` is a machine behind a link, `peer` what its
//! host sees of it, `set_up` boots it.

mod peer;
pub mod remote;
pub mod set_up;
