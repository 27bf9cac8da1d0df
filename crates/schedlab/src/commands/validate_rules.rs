//! `schedlab validate --rules`: whether our rules decide as a kernel's own code does, one decision at a time.

use super::validate::ValidateArgs;
use crate::listener::Shown;
use crate::{interrupt, output};
use schedlab_base::{Error, ErrorKind, Result, each_once};
use schedlab_compare::agreement::decisions::{DECISIONS_SCHEMA, Decisions};
use schedlab_lab::ask::code;
use schedlab_lab::judge::rules;

/// The default kernels.
const KERNELS: [&str; 3] = ["6.1", "6.12", "7.3"];

/// Asks, and prints the result in a form of `validate`.
///
/// # Errors
/// When a source can't be had, when the kernel's code does what no kernel may do, and when rows agree too seldom.
pub fn run(args: &ValidateArgs, form: &str) -> Result<()> {
    rules::functions(&args.function)?;
    let named: Vec<String> = match args.kernel.as_slice() {
        [] => KERNELS.map(str::to_owned).to_vec(),
        named => each_once(named),
    };
    let (mut rows, stop) = (Vec::new(), interrupt::stop_flag()?);
    for kernel in &named {
        let image = code::asked_image_of(kernel, &Shown::new(args.quiet))?;
        let found = rules::decide(&image, &args.function, (args.draws, args.seed()), stop)?;
        rows.extend(
            found.ok_or_else(|| Error::new(ErrorKind::CheckFailed, "interrupted: nothing is judged"))?,
        );
    }
    let found = Decisions::of(rows);
    match form {
        "json" => output::json_as(DECISIONS_SCHEMA, &found)?,
        "markdown" => {
            return Err(Error::input("--rules has no Markdown").help("take --format table, or --json"));
        }
        _ => output::result(|out| schedlab_report::decisions::text(&found, out))?,
    }
    if found.passed {
        return Ok(());
    }
    let text = "our rules do not decide as the kernel's own code often enough: 99.9 % is asked of each row";
    Err(Error::new(ErrorKind::CheckFailed, text))
}
