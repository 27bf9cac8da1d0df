//! A command as a workload: starts it, reads its outputs, waits for its end or ends it, and counts its usage.
//!
//! Runs in the agent. The command leads its own process group. On a stop or time-out the group gets SIGTERM, then
//! SIGKILL. Processes that it leaves behind, in any session, become children of the agent (subreaper) and are killed
//! with a warning, since they would disturb the next run. The output is kept as text; the lab reads figures from it.

use crate::agent::parent::{drain, signal_name, tail};
use crate::agent::setting_changes::Changes;
use crate::agent::stage::Stage;
use crate::settings::exec::Attributes;
use crate::sys::offspring::{self, Ended, Used};
use crate::watch::counters::{Set, Whom, Width};
use crate::watch::kernel_counters::KernelCounters;
use crate::watch::witness::Witness;
use crate::{Outcome, sys};
use schedlab_base::{Error, Ns, Result, Warning};
use schedlab_kernel::AttrChange;
use schedlab_record::{Findings, Observe};
use schedlab_workload::command::{SEED_VARIABLE, one_line};
use schedlab_workload::{CommandOutput, CommandSpec};
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{ChildStderr, ChildStdout, Command, ExitStatus, Stdio};

/// Time for a command to end after SIGTERM, before it is killed.
const END_WITHIN: Ns = Ns::ms(500);
/// Time for leftover processes to end by themselves, and to close the outputs.
const LEAVE_WITHIN: Ns = Ns::ms(100);
/// Time for killed processes to disappear.
const GONE_WITHIN: Ns = Ns::secs(2);
/// Interval of checks for the end on kernels without pidfds.
const LOOK_EVERY: Ns = Ns::ms(2);
/// The most output that is kept, bytes. More output is a trace or a loop, not a result.
const MAX_OUTPUT: usize = 16 << 20;
/// Time for a server to get ready; one that ends within this time has failed.
const SERVE_AFTER: Ns = Ns::ms(300);
/// Time for cleaning up after a stop: the parent waits for two seconds.
const CLEAN_UP_WITHIN: Ns = Ns::ms(800);

/// Runs a command, with its setup, server and cleanup commands.
///
/// # Errors
/// When one of these can't be started, times out, writes too much, or ends with an unexpected exit code.
pub fn execute(
    spec: &CommandSpec,
    seed: u64,
    change: AttrChange,
    changes: &Changes,
    observe: Observe,
    stop: Option<BorrowedFd<'_>>,
) -> Result<Outcome> {
    offspring::adopt_orphans();
    let stage = spec.stage.as_ref().map(Stage::set).transpose()?;
    let filled = stage.as_ref().map(|stage| stage.fill(spec));
    let spec = filled.as_ref().unwrap_or(spec);
    let given = Attributes { change, priority: None, cpus: spec.cpus.clone() };
    // Setup and cleanup are not measured; their attributes stay unchanged.
    let call = |argv: &[String], stop, timeout| {
        Call { spec, argv, seed, given: &Attributes::default(), stop, timeout, server: None }
            .made_and_run(&Changes::default())
    };
    if !spec.setup.is_empty() {
        match call(&spec.setup, stop, spec.timeout).and_then(|r| r.map(|r| r.succeeded(&[0])).transpose()) {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(stopped()),
            Err(e) => return Err(e.context("setup")),
        }
    }
    let witness = Witness::before();
    let wanted = Width::of(observe);
    let mut counting = wanted.map_or_else(Set::unwanted, |width| Set::open(&Whom::Programs, width));
    let mut kernel = KernelCounters::live();
    let mut main =
        Call { spec, argv: &spec.argv, seed, given: &given, stop, timeout: spec.timeout, server: None };
    let command = main.command().and_then(|command| {
        main.server = serve(spec, seed, &given, stage.as_ref())?;
        Ok(command)
    });
    kernel.before();
    let ran = command.and_then(|command| main.run(command, changes));
    kernel.after();
    let counts = counting.read();
    // Processes that start later are not counted.
    drop(counting);
    let (environment, mut warnings) = witness.after();
    if !spec.cleanup.is_empty() {
        let was_stopped = matches!(ran, Ok(None));
        let timeout = if was_stopped { CLEAN_UP_WITHIN.min(spec.timeout) } else { spec.timeout };
        let cleaned = call(&spec.cleanup, None, timeout);
        if let Err(e) = cleaned.and_then(|r| r.map(|r| r.succeeded(&[0])).transpose()) {
            warnings.push(Warning::new("command.cleanup", format!("the cleanup failed: {}", e.message())));
        }
    }
    let Some(ran) = ran? else { return Ok(stopped()) };
    let ran = ran.succeeded(&spec.exit_codes)?;
    warnings.extend(ran.warning());
    let mut outcome = ran.outcome(environment, warnings);
    outcome.found.schedstat = kernel.counted(&mut outcome.found.warnings);
    counts.join(&mut outcome.found);
    Ok(outcome)
}

/// Starts the server, if any, and waits until it is ready; on a stage, until it answers on its port. The server ends
/// with the next call.
fn serve(spec: &CommandSpec, seed: u64, given: &Attributes, stage: Option<&Stage>) -> Result<Option<u32>> {
    let Some(program) = spec.server.first() else { return Ok(None) };
    let call =
        Call { spec, argv: &spec.server, seed, given, stop: None, timeout: spec.timeout, server: None };
    let mut command = call.command()?;
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().map_err(|e| call.unstartable(program, &e))?;
    let answers = match stage {
        Some(stage) => stage.answers(|| offspring::has_ended(child.id())),
        None => {
            sys::sleep_for(SERVE_AFTER.0);
            true
        }
    };
    if !answers && !offspring::has_ended(child.id()) {
        offspring::signal_group(child.id(), libc::SIGKILL);
        return Err(Error::machine(format!("the server '{}' does not answer", one_line(&spec.server)))
            .help("start it by hand to see why"));
    }
    if offspring::has_ended(child.id()) {
        let text = format!("the server '{}' ended at once", one_line(&spec.server));
        return Err(Error::input(text).help("start it by hand to see why; another may hold its port"));
    }
    Ok(Some(child.id()))
}

fn stopped() -> Outcome {
    Outcome { found: Findings::default(), stopped: true, said: None }
}

/// One of a workload's commands.
struct Call<'a> {
    spec: &'a CommandSpec,
    argv: &'a [String],
    seed: u64,
    /// Its attributes and CPUs; its children inherit them.
    given: &'a Attributes,
    stop: Option<BorrowedFd<'a>>,
    timeout: Ns,
    /// The server, which must end with this call.
    server: Option<u32>,
}

/// A call that ended by itself.
struct Ran {
    line: String,
    status: ExitStatus,
    elapsed: Ns,
    used: Used,
    said: CommandOutput,
    left_behind: usize,
}

/// Why a command was cut short.
enum Cut {
    Stop,
    TimeOut,
    TooMuch,
}

impl Call<'_> {
    fn made_and_run(&self, changes: &Changes) -> Result<Option<Ran>> {
        self.run(self.command()?, changes)
    }

    /// Runs the command, which was made before since that is not its time; `None` if it was stopped.
    fn run(&self, command: Command, changes: &Changes) -> Result<Option<Ran>> {
        let mut watch = self.start(command)?;
        let start = watch.began;
        changes.begin(start);
        let cut = watch.listen(self.stop, start.saturating_add(self.timeout.0), changes)?;
        let ended_at = watch.ended_at;
        let (status, used, left_behind) = watch.sweep(self.server)?;
        let line = one_line(self.argv);
        let last = tail(if watch.stderr.text.is_empty() { &watch.stdout.text } else { &watch.stderr.text });
        let last = quote(&last);
        match cut {
            Some(Cut::Stop) => Ok(None),
            Some(Cut::TimeOut) => {
                let text = format!("'{line}' did not end within {} and was ended{last}", self.timeout);
                Err(Error::input(text).help("give it more time: timeout = \"20m\", or --timeout 20m"))
            }
            Some(Cut::TooMuch) => {
                let text = format!("'{line}' wrote more than {} MB and was ended{last}", MAX_OUTPUT >> 20);
                Err(Error::input(text).help("have it print results only"))
            }
            None => {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let said =
                    CommandOutput { stdout: text(&watch.stdout.text), stderr: text(&watch.stderr.text) };
                let elapsed = Ns(ended_at.unwrap_or(start) - start);
                Ok(Some(Ran { line, status, elapsed, used, said, left_behind }))
            }
        }
    }

    /// Makes the command, and tries its attributes.
    fn command(&self) -> Result<Command> {
        let no_words = || Error::input("the command is empty");
        let (program, arguments) = self.argv.split_first().ok_or_else(no_words)?;
        let mut command = Command::new(program);
        command.args(arguments).envs(&self.spec.env).env(SEED_VARIABLE, self.seed.to_string());
        if let Some(folder) = &self.spec.cwd {
            command.current_dir(folder);
        }
        command.stdin(Stdio::null());
        offspring::lead_group(&mut command);
        self.given.at_exec(&mut command)?;
        Ok(command)
    }

    fn start(&self, mut command: Command) -> Result<RunningCommand> {
        let program = &self.argv[0];
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let began = sys::monotonic_ns();
        let mut child = command.spawn().map_err(|e| self.unstartable(program, &e))?;
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(Error::internal("a command was started without pipes"));
        };
        let fault = |e| Error::machine(format!("can't read from '{program}': {e}"));
        sys::set_nonblocking(stdout.as_fd()).map_err(fault)?;
        sys::set_nonblocking(stderr.as_fd()).map_err(fault)?;
        Ok(RunningCommand {
            leader: child.id(),
            began,
            end: offspring::end_of(child.id()),
            stdout: Listened::new(stdout),
            stderr: Listened::new(stderr),
            ended_at: None,
        })
    }

    fn unstartable(&self, program: &str, e: &std::io::Error) -> Error {
        let folder = self.spec.cwd.as_deref().filter(|f| !std::path::Path::new(f).is_dir());
        match (e.kind(), folder) {
            (_, Some(folder)) => Error::input(format!("can't start '{program}' in {folder}: no such folder")),
            (ErrorKind::NotFound, _) => Error::machine(format!("can't start '{program}': it is not there"))
                .help("install it, or name it with its folder"),
            _ => Error::machine(format!("can't start '{program}': {e}")),
        }
    }
}

fn quote(last: &str) -> String {
    if last.is_empty() { String::new() } else { format!("\n  its last lines:\n  {last}") }
}

impl Ran {
    /// The call, or an error if it failed.
    fn succeeded(self, codes: &[u8]) -> Result<Ran> {
        let last = quote(&self.said.last_lines());
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) if codes.iter().any(|c| i32::from(*c) == code) => Ok(self),
            (Some(code), _) => {
                Err(Error::input(format!("'{}' ended with exit code {code}{last}", self.line))
                    .help(format!("where that is not a failure: exit_codes = [0, {code}]")))
            }
            (None, Some(signal)) => {
                let name = signal_name(signal);
                Err(Error::input(format!("'{}' was killed by signal {signal} ({name}){last}", self.line)))
            }
            (None, None) => Err(Error::internal(format!("'{}' ended neither way{last}", self.line))),
        }
    }
    fn warning(&self) -> Option<Warning> {
        let n = self.left_behind;
        let text = format!("'{}' left processes behind, which were killed: {n}", self.line);
        (n > 0).then(|| Warning::new("command.children", text))
    }
    fn outcome(self, environment: BTreeMap<String, String>, warnings: Vec<Warning>) -> Outcome {
        let used = self.used;
        let counters = [
            ("command.elapsed", self.elapsed.0),
            ("command.user_time", used.user.0),
            ("command.system_time", used.system.0),
            ("command.max_rss", used.max_rss_kib),
            ("command.exit_status", self.status.code().unwrap_or(0) as u64),
            ("cpu_time", used.user.0 + used.system.0),
            ("switches.voluntary", used.voluntary),
            ("switches.involuntary", used.involuntary),
        ];
        let counters = counters.map(|(name, n)| (name.to_owned(), n)).into();
        let found =
            Findings { duration: self.elapsed, counters, environment, warnings, ..Findings::default() };
        Outcome { found, stopped: false, said: Some(self.said) }
    }
}

/// An output and the text read from it.
struct Listened<T> {
    from: T,
    open: bool,
    text: Vec<u8>,
}

impl<T: std::io::Read + AsFd> Listened<T> {
    fn new(from: T) -> Listened<T> {
        Listened { from, open: true, text: Vec::new() }
    }
    fn hear(&mut self) -> Result<()> {
        let fault = |e| Error::machine(format!("can't read a command's output: {e}"));
        self.open = drain(&mut self.from, &mut self.text).map_err(fault)?;
        Ok(())
    }
}

struct RunningCommand {
    leader: u32,
    began: u64,
    /// Readable after the leader's end; `None` on kernels without pidfds.
    end: Option<OwnedFd>,
    stdout: Listened<ChildStdout>,
    stderr: Listened<ChildStderr>,
    ended_at: Option<u64>,
}

impl RunningCommand {
    /// Waits for the command's end and reads its outputs. A command that is cut short is killed.
    fn listen(
        &mut self,
        stop: Option<BorrowedFd<'_>>,
        deadline: u64,
        changes: &Changes,
    ) -> Result<Option<Cut>> {
        let (mut cut, mut kill_at) = (None, None);
        loop {
            let now = sys::monotonic_ns();
            match self.ended_at {
                Some(at) if now >= at + LEAVE_WITHIN.0 => return Ok(cut),
                Some(_) if !self.stdout.open && !self.stderr.open => return Ok(cut),
                Some(_) => {}
                None if kill_at.is_some_and(|at| now >= at) => {
                    offspring::signal_group(self.leader, libc::SIGKILL);
                    kill_at = Some(now + END_WITHIN.0);
                }
                None if cut.is_none() && now >= deadline => cut = Some(Cut::TimeOut),
                None => {}
            }
            let change = if self.ended_at.is_none() { changes.make_due(now)? } else { None };
            let due = [kill_at, self.ended_at.map(|at| at + LEAVE_WITHIN.0), Some(deadline), change];
            let due = due.into_iter().flatten().filter(|at| *at > now).min().unwrap_or(now);
            let waiting_to_stop = stop.filter(|_| cut.is_none() && self.ended_at.is_none());
            if self.wait(waiting_to_stop, due - now)? {
                cut = Some(Cut::Stop);
            }
            if cut.is_none() && self.stdout.text.len().max(self.stderr.text.len()) > MAX_OUTPUT {
                cut = Some(Cut::TooMuch);
            }
            if cut.is_some() && kill_at.is_none() {
                offspring::signal_group(self.leader, libc::SIGTERM);
                kill_at = Some(sys::monotonic_ns() + END_WITHIN.0);
            }
        }
    }

    /// Sleeps until an event, and reads new output; returns whether a stop was requested.
    fn wait(&mut self, stop: Option<BorrowedFd<'_>>, at_most_ns: u64) -> Result<bool> {
        let end = self.end.as_ref().filter(|_| self.ended_at.is_none()).map(AsFd::as_fd);
        let blind = self.end.is_none() && self.ended_at.is_none();
        let sleep = if blind { at_most_ns.min(LOOK_EVERY.0) } else { at_most_ns };
        let out = self.stdout.open.then(|| self.stdout.from.as_fd());
        let err = self.stderr.open.then(|| self.stderr.from.as_fd());
        let [stop, ended, out, err] = sys::wait_readable([stop, end, out, err], sleep);
        if ended || (blind && offspring::has_ended(self.leader)) {
            self.ended_at = Some(sys::monotonic_ns());
        }
        if out {
            self.stdout.hear()?;
        }
        if err {
            self.stderr.hear()?;
        }
        Ok(stop)
    }

    /// Reaps the command and all processes that it left behind, and kills those that still run. Returns the command's
    /// status, the usage of all, and the number of killed ones, except the server, whose kill is planned.
    fn sweep(&self, server: Option<u32>) -> Result<(ExitStatus, Used, usize)> {
        let from = sys::monotonic_ns();
        if let Some(server) = server {
            offspring::signal_group(server, libc::SIGKILL);
        }
        let (mut status, mut used) = (ExitStatus::default(), Used::default());
        let mut killed = BTreeSet::new();
        loop {
            let waited = Ns(sys::monotonic_ns() - from);
            match offspring::take_ended() {
                Ended::Child(child, how, its) => {
                    used = used.plus(its);
                    if child == self.leader {
                        status = how;
                    }
                }
                Ended::NoChildren => return Ok((status, used, killed.len())),
                Ended::None if waited > GONE_WITHIN => {
                    return Err(Error::machine("processes that a command left behind can't be killed"));
                }
                Ended::None => {
                    if waited > LEAVE_WITHIN {
                        killed.extend(offspring::kill_children());
                    }
                    sys::sleep_for(LOOK_EVERY.0);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::CpuSet;

    fn spec() -> CommandSpec {
        CommandSpec {
            name: "true".to_owned(),
            tool: None,
            params: BTreeMap::new(),
            argv: vec!["true".to_owned()],
            env: BTreeMap::new(),
            cwd: None,
            setup: Vec::new(),
            server: Vec::new(),
            cleanup: Vec::new(),
            stage: None,
            cpus: None,
            timeout: Ns::secs(20),
            exit_codes: vec![0],
            metrics: Vec::new(),
        }
    }

    #[test]
    fn attributes_are_tried_before_the_commands_time_begins() {
        let spec = spec();
        let call = |given| Call {
            spec: &spec,
            argv: &spec.argv,
            seed: 1,
            given,
            stop: None,
            timeout: spec.timeout,
            server: None,
        };
        let nowhere = Attributes { cpus: CpuSet::parse("4000").ok(), ..Attributes::default() };
        let refused = call(&nowhere).command().unwrap_err().to_string();
        assert!(refused.contains("this process may use"), "{refused}");
        let given = Attributes { cpus: sys::affinity().ok(), ..Attributes::default() };
        let call = call(&given);
        let command = call.command().unwrap();
        sys::sleep_for(Ns::ms(20).0);
        let before = sys::monotonic_ns();
        assert!(call.start(command).unwrap().began >= before);
    }
}
