//! From events to measurements. A run's events become its findings here, and its waits are explained.
//!
//! A run is made by the simulator, by the running kernel, in a guest, or by another tool that recorded events. All of
//! them are compared, so all must mean the same by *slice*, *wakeup delay* and *migration*. Only this crate defines
//! these words: events of any origin go through one [`Analyser`].
//!
//! | question | module |
//! | --- | --- |
//! | How do events become counters, series and the longest waits? | [`analyser`] |
//! | Why were the longest waits long? | [`mod@explain`] |
//! | When did a task wait although a CPU that it may use was idle, and how did the kernel respond? | [`conserve`] |
//! | How much work does a machine have of its own, by a recording of it while idle? | [`background`] |
//!
//! Terms:
//!
//! - A *stay* is the time from the switch to a task until the switch away from it. A *wait* is the time in which a task
//!   could run and did not.
//!
//! Every event of a simulation passes through here, so this crate is optimised fully; the plain data that it fills are
//! in `record`. A change that alters what the analyser counts raises [`WATCHING`](schedlab_record::WATCHING).
//!
//! This crate stands on `record`. It knows no backend and prints nothing but the texts of [`mod@explain`] and
//! [`conserve`].

pub mod analyser;
pub mod background;
pub mod conserve;
pub mod explain;
mod words;

pub use analyser::{Analyser, TaskName};
pub use explain::{Explanation, Versus, explain, explain_text, versus, versus_text};
