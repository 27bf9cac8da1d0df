//! Settings of the live system: their names and files, and how they are changed and put back.
//!
//! One table ([`SETTINGS`]) states for each setting its file by kernel era, the form of the file and the values it
//! takes. A [`Plan`] turns a variant into writes. [`Plan::apply`] writes the old values to the [`journal`] first, then
//! the new values to the files. The [`Applied`] that it gives puts everything back when it is dropped; the next start
//! puts back the changes of a killed process ([`journal::recover`]). The control groups of a run ([`cgroups`])
//! are made and removed in the same way. Paths are kernel interfaces from 2.6.23 on.

mod apply;
pub mod attrs;
pub mod cgroups;
pub mod exec;
mod expand;
mod files;
mod form;
pub mod journal;
pub mod owner;
mod plan;
mod reach;
mod survey;
mod system;
mod table;
mod trust;

#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod journal_tests;
#[cfg(test)]
mod plan_tests;

pub use apply::{Applied, make, put_back_left, put_back_mine};
pub use expand::INSTEAD;
pub use files::Files;
pub use form::{ABSENT, Form, MADE, Write};
pub use plan::{Later, Plan};
pub use survey::{Access, SettingState, survey};
pub use system::{ROOT_VARIABLE, System};
pub use table::{FILE_PREFIX, Place, Row, SETTINGS, Values, check, row};
