//! Settings of the live system: their names and files, how they are changed, and how they are restored.
//!
//! One table ([`SETTINGS`]) has for each setting its file by kernel era, the form of the file and the accepted values.
//! A [`Plan`] turns a variant into writes. [`Plan::apply`] first writes the old values to the [`journal`], then the new
//! values to the files. The resulting [`Applied`] restores everything when dropped; the next start restores the changes
//! of a killed process ([`journal::recover`]). The control groups of a run ([`cgroups`]) are made and removed in the
//! same way. Paths are kernel interfaces since 2.6.23.

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
