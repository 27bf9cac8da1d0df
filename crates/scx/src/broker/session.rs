//! A program's run: calls are answered one at a time, and simulated time passes when all of its threads wait.

use super::bpf::Bpf;
use super::call_table::{self, Then};
use super::calls::Calls;
use super::errno::Errno;
use super::files::{self, Files};
use super::identity::Identity;
use super::kernel::Kernel;
use super::memory::Memory;
use super::notify::{Call, Listener, Reply, poll};
use super::output::Stream;
use super::paths::{Paths, Refused};
use super::process::{Process, Threads};
use super::sockets::Sockets;
use super::spawn::{self, Started};
use super::time::{self, Clock, Sleeper, Timed, Waits};
use super::timers::{Expired, Timers};
use super::waits;
use super::{Refusal, Request, Tree};
use crate::Scheduler;
use crate::btf::Btf;
use schedlab_base::{Error, Result};
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout, ExitStatus};
use std::time::{Duration, Instant};

/// Between two looks at a program of which some threads run and others sleep.
const LOOK: Duration = Duration::from_millis(1);
const LOOK_IDLE: Duration = Duration::from_millis(20);
/// What a program has for its last words when it has taken its scheduler off before the run was over.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// So many looks in turn must find all threads waiting, if some wait for something else than the broker.
const SETTLED_LOOKS: u32 = 2;

/// What became of a program.
#[derive(Debug, Default)]
pub struct Outcome {
    pub status: ExitStatus,
    /// The scheduler that it attached.
    pub scheduler: Option<Scheduler>,
    pub output: Vec<u8>,
    pub errors: Vec<u8>,
    /// Bytes of both that were too many to keep.
    pub dropped: u64,
    /// Paths that it named and was refused, with how often.
    pub refused: BTreeMap<(PathBuf, Refusal), u64>,
    /// Refusals of paths that are not listed.
    pub refused_more: u64,
    /// What of bpf(2) it was refused.
    pub refused_bpf: BTreeMap<String, u64>,
    /// System calls that it was refused, with the arguments that decide.
    pub refused_calls: BTreeMap<String, u64>,
    /// Its clocks showed simulated time. Else only its sleeps did.
    pub clock_is_simulated: bool,
    /// It did not end by itself.
    pub was_killed: bool,
}

/// Where the simulated kernel's BTF lies in the tree.
pub const BTF: &str = "/sys/kernel/btf/vmlinux";
/// More different system calls than this are not named.
const MOST_CALLS: usize = 1_000;

/// Starts the program and serves it to its end.
///
/// # Errors
/// When the machine can't do it, the program can't be executed, or the simulated kernel's BTF can't be read.
pub fn run(request: &Request, kernel: &mut dyn Kernel) -> Result<Outcome> {
    let types = request.tree.file(BTF).unwrap_or_default();
    let kernel_types = Btf::parse(types).map_err(|e| e.context(BTF))?;
    let started = spawn::start(request)?;
    let mut session = Session::new(request, started, kernel_types)?;
    session.serve(kernel);
    session.end(kernel)
}

struct Session<'a> {
    request: &'a Request,
    /// The machine's files at `seen_ns`, the latest time at which the program has named one.
    tree: Tree,
    seen_ns: u64,
    child: Child,
    process: Process,
    listener: Listener,
    clock_is_seen: bool,
    output: Stream<ChildStdout>,
    errors: Stream<ChildStderr>,
    paths: Paths,
    refused: Refused,
    refused_calls: BTreeMap<String, u64>,
    bpf: Bpf,
    calls: Calls,
    identity: Identity,
    sockets: Sockets,
    clock: Clock,
    timers: Timers,
    sleepers: Vec<Sleeper>,
    /// The run is over: the program has had its signal.
    ended: bool,
    was_killed: bool,
}

impl<'a> Session<'a> {
    fn new(request: &'a Request, started: Started, types: Btf) -> Result<Session<'a>> {
        let mut child = started.child;
        let pid = child.id() as i32;
        let process = Process::new(pid)?;
        let program = std::fs::canonicalize(&request.program).unwrap_or_else(|_| request.program.clone());
        let mut readable = vec![request.program.clone(), program.clone()];
        readable.extend(request.readable.iter().cloned());
        Ok(Session {
            request,
            tree: request.tree.clone(),
            seen_ns: 0,
            process,
            listener: started.listener,
            clock_is_seen: started.clock_is_seen,
            output: Stream::new(child.stdout.take()),
            errors: Stream::new(child.stderr.take()),
            child,
            paths: Paths { program, readable, pid },
            refused: Refused::default(),
            refused_calls: BTreeMap::new(),
            bpf: Bpf::new(request.cpus, types),
            calls: Calls::new(),
            identity: Identity::new(pid),
            sockets: Sockets::default(),
            clock: Clock::at(request.start_ns),
            timers: Timers::default(),
            sleepers: Vec::new(),
            ended: false,
            was_killed: false,
        })
    }
    /// Serves until the program is gone, or has got nowhere for too long.
    fn serve(&mut self, kernel: &mut dyn Kernel) {
        let mut settled = 0;
        // Without a scheduler nothing gets anywhere, whatever the program does meanwhile; with one, only what lets
        // simulated time pass does.
        let (mut last, mut patience) = (Instant::now(), self.request.patience);
        while !self.was_killed {
            let mut ready = self.wait(Duration::ZERO);
            let mut threads = Threads::Run;
            if ready == [false, false] {
                // Looking at the threads costs more than most calls: only when none is there.
                threads = self.process.threads(self.sleepers.len());
                let waits = !self.sleepers.is_empty() || self.timers.next_ns().is_some();
                let look = if waits { LOOK } else { LOOK_IDLE };
                ready = self.wait(if threads == Threads::Sleep { Duration::ZERO } else { look });
            }
            let [calls, gone] = ready;
            let printed = self.output.take() | self.errors.take();
            let was_attached = self.bpf.is_attached();
            // The listener of a program that is gone is ready for ever, without a call.
            let answered = calls && self.one(kernel);
            if gone && !answered {
                return;
            }
            if self.bpf.is_attached() != was_attached {
                last = Instant::now();
                // It has taken its scheduler off: its last words, and no more.
                let stays = was_attached && !self.ended;
                patience = if stays { patience.min(LAST_WORDS) } else { self.request.patience };
            } else if last.elapsed() > patience {
                self.kill();
            }
            if answered || printed {
                settled = 0;
                continue;
            }
            if self.wake_early() {
                continue;
            }
            settled = match threads {
                Threads::Run => 0,
                Threads::SeemToWait => settled + 1,
                Threads::Sleep => SETTLED_LOOKS,
            };
            let was_ended = self.ended;
            if settled >= SETTLED_LOOKS && self.pass(kernel) {
                settled = 0;
                // When the run is over, time passes without getting anywhere.
                if self.bpf.is_attached() && !was_ended {
                    last = Instant::now();
                }
            }
        }
    }
    /// Waits for a call or for the program's end.
    fn wait(&self, most: Duration) -> [bool; 2] {
        let mut files = vec![(self.listener.0.as_fd(), libc::POLLIN), (self.process.ended(), libc::POLLIN)];
        files.extend(
            [self.output.file(), self.errors.file()].into_iter().flatten().map(|f| (f, libc::POLLIN)),
        );
        let ready = poll(&files, most.as_millis() as i32);
        [ready[0], ready[1]]
    }
    /// Answers a call. False: there was none.
    fn one(&mut self, kernel: &mut dyn Kernel) -> bool {
        let Ok(call) = self.listener.receive() else { return false };
        // A call that was given up before it was received names a thread that may be another one by now.
        if self.listener.is_valid(&call) {
            let reply = self.reply(&call, kernel);
            self.listener.answer(&call, reply);
        }
        true
    }
    fn reply(&mut self, call: &Call, kernel: &mut dyn Kernel) -> std::result::Result<Reply, Errno> {
        if let Then::Refuse(errno) = call_table::then(call) {
            return Err(self.refuse(call_table::name(call), errno));
        }
        match call.number {
            libc::SYS_bpf => return self.bpf.answer(call, self.calls.cpu(call.thread), kernel),
            libc::SYS_perf_event_open => return self.bpf.event_open(call),
            libc::SYS_epoll_ctl => return self.bpf.epoll_control(call, &self.process),
            libc::SYS_close => {
                self.bpf.closes(call, kernel);
                return Ok(Reply::Continue);
            }
            libc::SYS_bind | libc::SYS_connect => {
                let socket = self.process.file(call.arguments[0] as i32).ok_or(Errno(libc::EBADF))?;
                return self.sockets.answer(call, &socket, &mut self.refused);
            }
            _ => {}
        }
        if let Some(kind) = files::kind(call.number) {
            self.look_again(kernel);
            let (tree, paths) = (&self.tree, &self.paths);
            return Files { tree, paths, process: &self.process, refused: &mut self.refused }
                .answer(call, kind);
        }
        if let Some(answer) = self.timers.answer(self.clock, call, &self.process) {
            return answer;
        }
        match time::answer(&mut self.clock, call) {
            Some(Ok(Timed::Sleep(sleeper))) => {
                // Entries that it has read since are none any more.
                self.bpf.ring();
                self.sleepers.push(sleeper);
                Ok(Reply::Hold)
            }
            Some(Ok(Timed::Reply(reply))) => Ok(reply),
            Some(Ok(Timed::Look)) => waits::look(call, &self.process),
            Some(Err(errno)) => Err(errno),
            None => match self.identity.answer(call) {
                Err(Errno(errno @ libc::ESRCH)) => {
                    let who = call.arguments[0] as i32;
                    Err(self.refuse(format!("{} {who}", call_table::name(call)), errno))
                }
                Err(Errno(libc::ENOSYS)) => {
                    let about = call.arguments[0] as i32;
                    let thread = if about == 0 { call.thread } else { self.identity.here(about) };
                    self.calls.answer(self.request, call, thread, self.clock.now_ns)
                }
                answer => answer,
            },
        }
    }
    /// What of the machine's files changes as it runs.
    fn look_again(&mut self, kernel: &mut dyn Kernel) {
        if self.clock.now_ns > self.seen_ns {
            self.seen_ns = self.clock.now_ns;
            self.tree.put_times(&kernel.busy_ns(), self.seen_ns);
            self.tree.put_state(self.bpf.attached_name());
        }
    }
    fn refuse(&mut self, name: String, errno: i32) -> Errno {
        if self.refused_calls.len() < MOST_CALLS || self.refused_calls.contains_key(&name) {
            *self.refused_calls.entry(name).or_default() += 1;
        }
        Errno(errno)
    }
    /// Wakes those whose reason to wait is gone. False: there were none.
    fn wake_early(&mut self) -> bool {
        let sleepers = std::mem::take(&mut self.sleepers);
        let before = sleepers.len();
        for sleeper in sleepers {
            if self.is_over(&sleeper) {
                let files = matches!(sleeper.waits, Waits::Files(_));
                let look = || waits::look(&sleeper.call, &self.process);
                let reply = if files { look() } else { Ok(Reply::Value(0)) };
                self.listener.answer(&sleeper.call, reply);
            } else if self.listener.is_valid(&sleeper.call) {
                self.sleepers.push(sleeper);
            }
        }
        self.sleepers.len() < before
    }
    fn is_over(&self, sleeper: &Sleeper) -> bool {
        match &sleeper.waits {
            Waits::Nothing => false,
            Waits::Word(at, was) => Memory { pid: sleeper.call.thread }.u32(*at).is_ok_and(|is| is != *was),
            Waits::Files(asked) => {
                let files: Vec<_> =
                    asked.iter().filter_map(|(n, e)| Some((self.process.file(*n)?, *e))).collect();
                poll(&files.iter().map(|(file, e)| (file.as_fd(), *e)).collect::<Vec<_>>(), 0).contains(&true)
            }
        }
    }
    /// What is due first happens: a timer expires, or a thread's sleep is over. If nothing is due, simulated time
    /// passes until then. One at a time, because threads that run beside one another may come in any order. False:
    /// nothing waits for time.
    fn pass(&mut self, kernel: &mut dyn Kernel) -> bool {
        let first = (0..self.sleepers.len()).min_by_key(|at| self.sleepers[*at].order());
        let over = first.map(|at| self.sleepers[at].until_ns);
        let until = [over, self.timers.next_ns()].into_iter().flatten().min();
        let is_over = until.is_some_and(|until| until <= self.clock.now_ns);
        if self.bpf.is_attached() && !self.ended && !is_over {
            let wake = kernel.sleep(until);
            self.clock.advance(wake.now_ns);
            self.ended = wake.ended;
            if wake.rung {
                self.bpf.ring();
            }
            if wake.ended {
                self.ask_to_end();
                return true;
            }
        } else if let Some(until) = until {
            self.clock.advance(until);
        } else {
            return false;
        }
        match self.timers.expire(self.clock.now_ns, &self.process) {
            Expired::Nothing => {}
            Expired::Files => return true,
            Expired::Alarm => {
                self.alarm();
                return true;
            }
        }
        if let Some(first) = first.filter(|at| self.sleepers[*at].until_ns <= self.clock.now_ns) {
            let sleeper = self.sleepers.swap_remove(first);
            self.listener.answer(&sleeper.call, sleeper.over());
        }
        true
    }
    /// A signal to the process comes to its first thread, and interrupts its sleep.
    fn alarm(&mut self) {
        let interrupts = self.process.handles(libc::SIGALRM);
        self.process.signal(libc::SIGALRM);
        let first = self.sleepers.iter().position(|sleeper| sleeper.call.thread == self.paths.pid);
        if let Some(first) = first.filter(|_| interrupts) {
            let sleeper = self.sleepers.swap_remove(first);
            self.listener.answer(&sleeper.call, sleeper.interrupted(self.clock.now_ns));
        }
    }
    /// ^C, and every sleep is interrupted by it.
    fn ask_to_end(&mut self) {
        self.process.signal(libc::SIGINT);
        for sleeper in self.sleepers.drain(..) {
            self.listener.answer(&sleeper.call, sleeper.interrupted(self.clock.now_ns));
        }
    }
    fn kill(&mut self) {
        self.process.signal(libc::SIGKILL);
        self.was_killed = true;
    }
    fn end(mut self, kernel: &mut dyn Kernel) -> Result<Outcome> {
        self.bpf.detach_all(kernel);
        // It was not waited for, so that its number is still its own.
        self.process.signal(libc::SIGKILL);
        let status =
            self.child.wait().map_err(|e| Error::machine(format!("can't wait for a program: {e}")))?;
        self.output.take();
        self.errors.take();
        Ok(Outcome {
            status,
            scheduler: self.bpf.scheduler.take(),
            output: std::mem::take(&mut self.output.text),
            errors: std::mem::take(&mut self.errors.text),
            dropped: self.output.dropped + self.errors.dropped,
            refused: std::mem::take(&mut self.refused.paths),
            refused_more: self.refused.more,
            refused_bpf: std::mem::take(&mut self.bpf.refused),
            refused_calls: std::mem::take(&mut self.refused_calls),
            clock_is_simulated: self.clock_is_seen,
            was_killed: self.was_killed,
        })
    }
}

impl Drop for Session<'_> {
    /// A program does not outlive its broker.
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            self.process.signal(libc::SIGKILL);
            self.child.wait().ok();
        }
    }
}
