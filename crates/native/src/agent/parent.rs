//! The parent's side: starts the agent, passes the job, waits, and returns the outcome or a clear error.
//!
//! The parent sleeps in poll(2) on the agent's two outputs, and checks the stop flag, if any, twenty times a second. A
//! guest has no stop flag, so that its tasks have the CPUs for themselves. The agent has its own process group or
//! session, so Ctrl-C reaches only the parent. The parent then closes the agent's input; the agent ends the run and
//! replies with its measurements so far. An agent that does not reply is killed.

use crate::agent::protocol::{Reply, frame};
use crate::sys::offspring::lead_session;
use crate::watch::tracepoints::instance;
use crate::{Job, Outcome, sys};
use schedlab_base::{Error, Ns, Result, Warning};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The environment variable for another agent (for tests, and for an agent in a wrapper).
pub const AGENT_VARIABLE: &str = "SCHEDLAB_AGENT";
const SUBCOMMAND: &str = "agent";
/// Interval of checks of the stop flag.
const LOOK_EVERY: Ns = Ns::ms(50);
/// Longer than any run.
const FOREVER: Ns = Ns::secs(365 * 86_400);
/// Time for a stopped agent to reply, before it is killed.
const STOP_WITHIN: Ns = Ns::secs(2);
/// Bytes kept from the end of the agent's standard error.
const TAIL_BYTES: usize = 4096;

/// Runs a job in a re-executed agent and waits for it. When `stop` becomes true the run ends early, and its outcome so
/// far is returned, marked as stopped. With `None` it can't be stopped, and the parent never wakes up to check.
///
/// # Errors
/// When the agent can't start or dies, or the workload needs something that this kernel or user can't have.
pub fn run(job: &Job, stop: Option<&AtomicBool>) -> Result<Outcome> {
    run_with(&agent_path(), job, stop)
}

/// As [`run`], with another executable as the agent.
pub fn run_with(agent: &Path, job: &Job, stop: Option<&AtomicBool>) -> Result<Outcome> {
    let mut command = Command::new(agent);
    command.arg(SUBCOMMAND).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if job.session {
        lead_session(&mut command);
    } else {
        command.process_group(0);
    }
    let mut child = command.spawn().map_err(|e| {
        Error::machine(format!("can't start the agent {}: {e}", agent.display()))
            .help(format!("{AGENT_VARIABLE} names another one"))
    })?;
    let taken = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(mut input), Some(output), Some(errors)) = taken else {
        return Err(Error::internal("the agent was started without pipes"));
    };
    // If the agent died before it read its job, its exit status is a better reason than the broken pipe.
    let _ = input.write_all(&frame(job)?);
    let mut talk = Talk { child, input: Some(input), output, errors, reply: Vec::new(), said: Vec::new() };
    let heard = talk.listen(stop);
    if heard.is_err() {
        // The run is ending; if the kill fails, nothing more can be done.
        let _ = talk.child.kill();
    }
    let status = talk.child.wait().map_err(|e| Error::machine(format!("can't wait for the agent: {e}")))?;
    if !status.success() {
        // A killed agent could not remove its tracing instance.
        instance::clear_left();
    }
    heard?;
    conclude(&talk.reply, &tail(&talk.said), status)
}

/// This executable, even if its file was replaced or removed.
fn agent_path() -> PathBuf {
    let named = std::env::var_os(AGENT_VARIABLE).map(PathBuf::from);
    let own = || std::env::current_exe().ok().filter(|path| path.exists());
    named.or_else(own).unwrap_or_else(|| PathBuf::from("/proc/self/exe"))
}

struct Talk {
    child: Child,
    /// The agent's input; closing it makes the agent stop.
    input: Option<ChildStdin>,
    output: ChildStdout,
    errors: ChildStderr,
    reply: Vec<u8>,
    said: Vec<u8>,
}

impl Talk {
    /// Reads both outputs to their end; forwards a stop.
    fn listen(&mut self, stop: Option<&AtomicBool>) -> Result<()> {
        let fault = |e: std::io::Error| Error::machine(format!("can't read from the agent: {e}"));
        sys::set_nonblocking(self.output.as_fd()).map_err(fault)?;
        sys::set_nonblocking(self.errors.as_fd()).map_err(fault)?;
        let (mut replying, mut saying, mut kill_at) = (true, true, None);
        let look_every = if stop.is_some() { LOOK_EVERY } else { FOREVER };
        while replying || saying {
            let fds = [replying.then(|| self.output.as_fd()), saying.then(|| self.errors.as_fd())];
            let [reply, said] = sys::wait_readable(fds, look_every.0);
            if reply {
                replying = drain(&mut self.output, &mut self.reply).map_err(fault)?;
            }
            if said {
                saying = drain(&mut self.errors, &mut self.said).map_err(fault)?;
                let surplus = self.said.len().saturating_sub(TAIL_BYTES);
                self.said.drain(..surplus);
            }
            if kill_at.is_none() && stop.is_some_and(|s| s.load(Relaxed)) {
                self.input = None;
                kill_at = Some(sys::monotonic_ns() + STOP_WITHIN.0);
            }
            if kill_at.is_some_and(|at| sys::monotonic_ns() > at) {
                return Err(Error::machine(format!(
                    "the agent did not stop within {STOP_WITHIN} and was killed: nothing of this run is kept"
                )));
            }
        }
        Ok(())
    }
}

/// Appends all bytes that can be read now; returns whether more may come.
pub fn drain(from: &mut impl Read, to: &mut Vec<u8>) -> std::io::Result<bool> {
    match from.read_to_end(to) {
        Ok(_) => Ok(false),
        Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(true),
        Err(e) => Err(e),
    }
}

pub fn tail(said: &[u8]) -> String {
    schedlab_base::wrap::last_lines(&String::from_utf8_lossy(said))
}

/// The agent's reply, or an error about its death.
fn conclude(reply: &[u8], said: &str, status: ExitStatus) -> Result<Outcome> {
    if let Ok(reply) = serde_json::from_slice::<Reply>(reply) {
        let mut outcome = match reply {
            Reply::Done(outcome) => *outcome,
            Reply::Failed(fault) => return Err(fault.into()),
        };
        if !said.is_empty() {
            outcome.found.warnings.push(Warning::new("agent.stderr", format!("the agent said: {said}")));
        }
        return Ok(outcome);
    }
    let quoted = if said.is_empty() { String::new() } else { format!("\n  it said: {said}") };
    Err(match status.signal() {
        Some(libc::SIGKILL) => Error::machine(format!("the agent was killed by signal 9 (SIGKILL){quoted}"))
            .help("the kernel does so when memory runs out: see dmesg, and use fewer threads"),
        Some(signal) => {
            Error::internal(format!("the agent died of signal {signal} ({}){quoted}", signal_name(signal)))
        }
        None => {
            let code = status.code().unwrap_or(-1);
            Error::internal(format!("the agent ended with exit code {code} and without a reply{quoted}"))
        }
    })
}

pub fn signal_name(signal: i32) -> &'static str {
    match signal {
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGHUP => "SIGHUP",
        libc::SIGILL => "SIGILL",
        libc::SIGINT => "SIGINT",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGSYS => "SIGSYS",
        libc::SIGTERM => "SIGTERM",
        _ => "see signal(7)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_death_is_reported_with_its_signal_and_last_words() {
        let died = |raw| conclude(b"{\"done\":", "stack overflow", ExitStatus::from_raw(raw)).unwrap_err();
        let killed = died(9).to_string();
        assert!(killed.contains("SIGKILL") && killed.contains("memory"), "{killed}");
        let crashed = died(11).to_string();
        assert!(crashed.contains("SIGSEGV") && crashed.contains("it said: stack overflow"), "{crashed}");
        assert!(died(3 << 8).to_string().contains("exit code 3"));
    }

    #[test]
    fn only_the_last_words_are_kept() {
        let text: String = (0..20).map(|i| format!("line {i}\n\n")).collect();
        assert!(tail(text.as_bytes()).starts_with("line 12\n") && tail(text.as_bytes()).ends_with("line 19"));
        assert_eq!(tail(b""), "");
    }
}
