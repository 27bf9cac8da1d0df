//! Links between machines, through time: `drive` takes messages, `remote` is a machine behind a link, `set_up` boots
//! it.

mod drive;
pub mod remote;
pub mod set_up;
