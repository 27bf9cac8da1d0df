//! Settings of the live system: what they are called, where they live, how they are changed and put back.
//!
//! One table ([`SETTINGS`]) says for each setting which file holds it by kernel era, how the file reads and which values
//! it takes. A [`Plan`] turns a variant into writes; [`Plan::apply`] writes down the old values first ([`journal`]), then
//! writes the new ones; the [`Applied`] it gives puts everything back when it is dropped, and what a killed process left
//! is put back by the next start ([`journal::recover`]). Paths are kernel interfaces from 2.6.23 on.

mod apply;
mod expand;
mod files;
mod form;
pub mod journal;
mod plan;
mod survey;
mod table;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod journal_tests;
#[cfg(test)]
mod plan_tests;

pub use apply::{Applied, make, put_back_left, put_back_mine};
pub use expand::INSTEAD;
pub use files::{Files, ROOT_VARIABLE, System};
pub use form::{Form, Write};
pub use plan::{Later, Plan};
pub use survey::{Access, Seen, survey};
pub use table::{FILE_PREFIX, Place, Row, SETTINGS, Values, check, row};
