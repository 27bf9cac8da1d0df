//! CPU limits and requests in the words of container tools, and what each tool makes of them.
//!
//! `--limit 500m`, `--cpus 1.5`, `CPUQuota=150%` and `50000 100000` are limits, `250m`, `--cpu-shares 512` and
//! `CPUWeight=50` are requests. [`LIMITS`] and [`REQUESTS`] have a row for each way to write one, with its reader: the
//! parser, the help and docs/limits.md are made from them. [`FORMULAS`] are the ways in which container runtimes make a
//! `cpu.weight` of shares, [`LANGUAGES`] those in which runtimes of languages make a number of threads of a limit.
//!
//! Each row says in which version of whose source it was read.

pub mod docs;
mod formula;
mod language;
mod words;

pub use formula::{FORMULAS, Formula};
pub use language::{LANGUAGES, LanguageRuntime};
pub use words::{LIMITS, LimitForm, REQUESTS, Request, RequestForm, cpus_in_words, limit, limit_of, request};
