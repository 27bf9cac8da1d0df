//! `schedlab validate --facts`: whether kernels in guests have the defaults and the behaviour that the tables state.

use super::validate::ValidateArgs;
use crate::{common, output};
use schedlab_base::{Backend, Error, ErrorKind, Result};
use schedlab_guest::Mode;
use schedlab_lab::RunRequest;
use schedlab_lab::ask::guests::GuestSetup;
use schedlab_lab::judge::validate::facts::{self, FactSeen};
use schedlab_report::text::wrap;

/// Asks guests and prints each fact.
///
/// # Errors
/// When a guest can't be run, and when a fact does not hold.
pub fn run(args: &ValidateArgs) -> Result<()> {
    let request = RunRequest {
        jobs: args.jobs,
        guest: GuestSetup { mode: Some(Mode::RealTime), ..GuestSetup::default() },
        out: args.out.clone(),
        backend: Backend::Vm,
        ..RunRequest::default()
    };
    let made = common::compared(&request, facts::experiment(common::cpus())?, args.quiet)?;
    let rows = facts::judge(&made.comparison);
    output::result(|out| {
        let mut last = "";
        rows.iter().try_for_each(|row| {
            if std::mem::replace(&mut last, row.name) != row.name {
                write!(out, "{}", wrap(&format!("{}: ", row.name), row.about))?;
            }
            writeln!(out, "  {}", words(row))
        })
    })?;
    let missed = rows.iter().filter(|row| !row.holds).count();
    if missed == 0 {
        return Ok(());
    }
    let text = format!("{missed} of {} facts do not hold", rows.len());
    Err(Error::new(ErrorKind::CheckFailed, text).help("a kernel of another build may have other defaults"))
}

fn words(row: &FactSeen) -> String {
    let [from, to] = row.expected;
    let expected = if from == to { from.to_string() } else { format!("{from} to {to}") };
    let seen = row.seen.map_or("not said".to_owned(), |v| format!("{}", (v * 100.0).round() / 100.0));
    format!(
        "{:<6} {seen:<12} expected {expected}{}",
        row.kernel,
        if row.holds { "" } else { ": does not hold" }
    )
}
