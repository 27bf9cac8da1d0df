//! Checks that must run in a process with one thread, since the workloads fork: one at a time, without a harness.

use schedlab_workload::{Env, Op, Program};
use std::panic::catch_unwind;
use std::process::ExitCode;

pub type Check = (&'static str, fn());

/// Runs the checks whose names contain every word on the command line, or lists them.
pub fn run_all(checks: &[Check], args: &[String]) -> ExitCode {
    let wanted = |name: &str| args.iter().filter(|a| !a.starts_with('-')).all(|a| name.contains(a.as_str()));
    if args.iter().any(|a| a == "--list") {
        checks.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let mut failed = 0;
    for (name, check) in checks.iter().filter(|(name, _)| wanted(name)) {
        let ok = catch_unwind(check).is_ok();
        println!("test {name} ... {}", if ok { "ok" } else { "FAILED" });
        failed += u8::from(!ok);
    }
    ExitCode::from(failed)
}

struct Steps<F>(F);

impl<F: FnMut(&mut dyn Env) -> Op + Send> Program for Steps<F> {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        (self.0)(env)
    }
}

/// A program that executes the closure's operations.
pub fn steps<F: FnMut(&mut dyn Env) -> Op + Send + 'static>(f: F) -> Box<dyn Program> {
    Box::new(Steps(f))
}
