//! Runs QEMU and watches it: reads the growing kernel log and reply. It ends QEMU when the reply is complete, the
//! kernel dies, time is up, or the user stops. QEMU never outlives the watching thread. A guest that is stopped at
//! rest, or continues from there, is controlled through its monitor ([`crate::monitor`]).

use crate::limits::{LIMIT_VARIABLE, Limits};
use crate::monitor::Monitor;
use crate::reply::{self, Received};
use crate::symptoms::{self, INIT_UP, Symptom};
use crate::{Accelerator, sys};
use schedlab_base::{Error, ErrorKind, Result};
use schedlab_kernels::parent::die_with_parent;
use std::fs::File;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How often files, the child and the stop flag are checked.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The same while QEMU does something short.
const LOOK_AT_ONCE: Duration = Duration::from_millis(2);
/// Limit for saving or loading a guest at rest.
const CARRIED_WITHIN: Duration = Duration::from_secs(120);
/// How long a dying kernel may still write its log.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// How long a guest that has replied may take to power off.
const OFF_WITHIN: Duration = Duration::from_secs(2);

/// QEMU's words when KVM fails for a guest.
const GIVEN_UP: &str = "KVM internal error";
/// The help if KVM does not work.
const WITHOUT_KVM: &str = "KVM can't be used here: use --accelerator tcg, which needs no KVM";

/// The outputs of a guest that has replied.
#[derive(Debug)]
pub struct Left {
    pub reply: Vec<u8>,
    pub log: String,
}

#[derive(Clone, Copy, Debug)]
pub struct Outputs<'a> {
    pub log: &'a Path,
    pub reply: &'a Path,
    /// QEMU's own messages.
    pub said: &'a Path,
    /// The output of its monitor; `None`: no monitor.
    pub monitor: Option<&'a Path>,
}

/// The end of a boot to rest.
#[derive(Debug)]
pub enum Rested {
    /// The guest is at rest and saved. Value: the kernel's log so far.
    Saved(String),
    /// Init replied instead, because it can't reach rest.
    Replied(Left),
}

/// Starts QEMU and waits for the guest's reply; `None` when `stop` became true before.
///
/// # Errors
/// When QEMU can't start, the kernel dies or hangs, or the guest ends without a complete reply. Errors quote the last
/// lines of the log or of QEMU.
pub fn watch(
    qemu: Command,
    outputs: Outputs<'_>,
    accelerator: Accelerator,
    limits: Limits,
    stop: &AtomicBool,
) -> Result<Option<Left>> {
    let mut running = Running::start(qemu, outputs, accelerator)?;
    running.until_replied(limits, stop)
}

/// Starts QEMU, waits until the guest is at rest, and saves its state to a path; `None` when `stop` became true before.
///
/// # Errors
/// As [`watch`], and when QEMU can't save the state.
pub fn watch_to_rest(
    qemu: Command,
    outputs: Outputs<'_>,
    state: &str,
    limits: Limits,
    stop: &AtomicBool,
) -> Result<Option<Rested>> {
    let mut running = Running::start(qemu, outputs, Accelerator::Tcg)?;
    running.monitor()?.begin();
    running.monitor()?.go_on();
    let at_rest = |running: &mut Running<'_>| {
        if let Some(left) = running.replied(OFF_WITHIN)? {
            return Ok(Some(Some(left)));
        }
        Ok(running.monitor()?.is_stopped()?.then_some(None))
    };
    match running.until(limits, stop, LOOK_EVERY, at_rest)? {
        None => return Ok(None),
        Some(Some(left)) => return Ok(Some(Rested::Replied(left))),
        Some(None) => {}
    }
    running.monitor()?.save(state);
    let carried = running.until_carried(stop)?;
    running.log.grow();
    Ok(carried.then(|| Rested::Saved(running.log.text())))
}

/// Starts QEMU, loads a state from a path, and waits for the reply of the guest that continues. `None` when `stop`
/// became true before.
///
/// # Errors
/// As [`watch`], and when QEMU can't load the state.
pub fn watch_from_rest(
    qemu: Command,
    outputs: Outputs<'_>,
    state: &str,
    limits: Limits,
    stop: &AtomicBool,
) -> Result<Option<Left>> {
    let mut running = Running::start(qemu, outputs, Accelerator::Tcg)?;
    running.monitor()?.begin();
    running.monitor()?.load(state);
    if !running.until_carried(stop)? {
        return Ok(None);
    }
    running.monitor()?.go_on();
    running.booted = Some(running.started.elapsed());
    // Only the reply is needed from such a guest, so its power-off is not awaited.
    running.until(limits, stop, LOOK_EVERY, |running| running.replied(Duration::ZERO))
}

/// A child process that is killed on drop.
pub struct Guard(pub Child);

impl Guard {
    /// Kills the child and all its processes, unless it has ended.
    pub fn end(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            sys::kill_group(self.0.id());
            // If the wait fails, nothing more can be done.
            let _ = self.0.wait();
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.end();
    }
}

/// A growing file.
#[derive(Debug)]
pub struct Tail {
    file: File,
    pub bytes: Vec<u8>,
}

impl Tail {
    /// # Errors
    /// When the file can't be read.
    pub fn open(path: &Path) -> Result<Tail> {
        let file = File::open(path).map_err(|e| Error::io(path, "read", &e))?;
        Ok(Tail { file, bytes: Vec::new() })
    }
    /// Reads new bytes; returns whether there were any.
    pub fn grow(&mut self) -> bool {
        self.file.read_to_end(&mut self.bytes).is_ok_and(|n| n > 0)
    }
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

struct Running<'a> {
    child: Guard,
    monitor: Option<Monitor>,
    log: Tail,
    reply: Tail,
    said: &'a Path,
    accelerator: Accelerator,
    started: Instant,
    booted: Option<Duration>,
}

impl<'a> Running<'a> {
    fn start(mut qemu: Command, outputs: Outputs<'a>, accelerator: Accelerator) -> Result<Running<'a>> {
        let create = |path: &Path| File::create(path).map_err(|e| Error::io(path, "write", &e));
        let said = create(outputs.said)?;
        // QEMU truncates these files. They are created here so that they can be opened before QEMU writes.
        let (log, reply) = (create(outputs.log), create(outputs.reply));
        log.and(reply)?;
        match outputs.monitor {
            Some(monitor) => qemu.stdin(Stdio::piped()).stdout(create(monitor)?),
            None => qemu.stdin(Stdio::null()).stdout(create(outputs.said)?),
        };
        qemu.stderr(said);
        // QEMU gets its own process group. So Ctrl-C reaches only schedlab, which ends the guest, and a wrapper around
        // QEMU is killed with its children.
        qemu.process_group(0);
        die_with_parent(&mut qemu);
        let program = qemu.get_program().to_string_lossy().into_owned();
        let mut child = qemu.spawn().map(Guard).map_err(|e| {
            Error::machine(format!("can't start {program}: {e}"))
                .help("install QEMU (on Debian: apt-get install qemu-system-x86)")
        })?;
        let monitor = match (child.0.stdin.take(), outputs.monitor) {
            (Some(input), Some(path)) => Some(Monitor::new(input, Tail::open(path)?)),
            _ => None,
        };
        Ok(Running {
            child,
            monitor,
            log: Tail::open(outputs.log)?,
            reply: Tail::open(outputs.reply)?,
            said: outputs.said,
            accelerator,
            started: Instant::now(),
            booted: None,
        })
    }

    fn monitor(&mut self) -> Result<&mut Monitor> {
        self.monitor.as_mut().ok_or_else(|| Error::internal("a guest without a monitor"))
    }

    fn until_replied(&mut self, limits: Limits, stop: &AtomicBool) -> Result<Option<Left>> {
        self.until(limits, stop, LOOK_EVERY, |running| running.replied(OFF_WITHIN))
    }

    /// Waits until `done` returns an answer; `None` when `stop` became true before.
    fn until<T>(
        &mut self,
        limits: Limits,
        stop: &AtomicBool,
        look_every: Duration,
        mut done: impl FnMut(&mut Self) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        loop {
            if stop.load(Relaxed) {
                return Ok(None);
            }
            let ended =
                self.child.0.try_wait().map_err(|e| Error::machine(format!("can't wait for QEMU: {e}")))?;
            self.look()?;
            match done(self) {
                Ok(None) => {}
                // The end of QEMU is a better reason than a monitor that does not answer.
                Err(_) if ended.is_some_and(|status| !status.success()) => {}
                all => return all,
            }
            if let Some(status) = ended {
                return Err(self.without_reply(status));
            }
            self.check_kvm()?;
            self.check_time(limits)?;
            std::thread::sleep(look_every);
        }
    }

    /// Waits until a state is saved or loaded; false when `stop` became true before.
    fn until_carried(&mut self, stop: &AtomicBool) -> Result<bool> {
        let within = self.started.elapsed() + CARRIED_WITHIN;
        let limits = Limits { boot: within, run: within };
        let carried = |running: &mut Running<'_>| Ok(running.monitor()?.is_carried()?.then_some(()));
        Ok(self.until(limits, stop, LOOK_AT_ONCE, carried)?.is_some())
    }

    /// The reply, if complete; QEMU then gets some time to end by itself.
    fn replied(&mut self, off_within: Duration) -> Result<Option<Left>> {
        let Received::Whole(payload) = reply::find(&self.reply.bytes)? else { return Ok(None) };
        let reply = payload.to_vec();
        self.wait_for_end(off_within);
        self.log.grow();
        Ok(Some(Left { reply, log: self.log.text() }))
    }

    /// Reads new output, and checks for fatal symptoms.
    fn look(&mut self) -> Result<()> {
        self.reply.grow();
        if !self.log.grow() {
            return Ok(());
        }
        let text = self.log.text();
        if self.booted.is_none() && text.contains(INIT_UP) {
            self.booted = Some(self.started.elapsed());
        }
        if symptoms::fatal(&text).is_some() {
            std::thread::sleep(LAST_WORDS);
            self.log.grow();
            self.reply.grow();
            // After the reply, a kernel may die while it powers off.
            if !matches!(reply::find(&self.reply.bytes), Ok(Received::Whole(_))) {
                return Err(self.died());
            }
        }
        Ok(())
    }

    fn died(&self) -> Error {
        let text = self.log.text();
        match symptoms::fatal(&text) {
            Some(symptom) => dead(&symptom),
            None => quoting(of_guest("the guest died"), &symptoms::last_lines(&text)),
        }
    }

    /// The error for a QEMU that ended without a reply.
    fn without_reply(&mut self, status: ExitStatus) -> Error {
        let text = self.log.text();
        if let Some(symptom) = symptoms::fatal(&text) {
            return dead(&symptom);
        }
        if (text.trim().is_empty() && self.booted.is_none()) || !status.success() {
            return qemu_failed(&self.said(), status);
        }
        let what = match reply::find(&self.reply.bytes) {
            Ok(Received::Part(have, of)) if of > 0 => {
                format!("the guest ended in the middle of its reply ({have} of {of} bytes)")
            }
            _ => "the guest ended without a reply".to_owned(),
        };
        quoting(of_guest(what), &symptoms::last_lines(&text))
    }

    /// QEMU's own messages so far.
    fn said(&self) -> String {
        let said = std::fs::read(self.said).unwrap_or_default();
        String::from_utf8_lossy(&said).trim().to_owned()
    }

    /// Checks whether KVM has failed for the guest: QEMU stops such a guest, but does not end.
    fn check_kvm(&self) -> Result<()> {
        if self.accelerator != Accelerator::Kvm || !self.said().contains(GIVEN_UP) {
            return Ok(());
        }
        // The registers and code that follow help only KVM's developers.
        let said = self.said();
        let first: Vec<&str> = said.lines().skip_while(|l| !l.contains(GIVEN_UP)).take(2).collect();
        Err(Error::machine(format!("KVM gave the guest up; QEMU said {}", first.join("; ")))
            .help(WITHOUT_KVM))
    }

    /// The error for a guest that wrote nothing until its limit.
    fn silent(&self, seconds: u64) -> Error {
        let name = self.accelerator.name();
        let mut what = format!("the guest said nothing on its serial port within {seconds} s under {name}");
        let said = self.said();
        if !said.is_empty() {
            what.push_str(&format!("; QEMU said {said}"));
        }
        let patience = format!("a slow host needs {LIMIT_VARIABLE}=SECONDS");
        // Under KVM the host is equally likely to be the cause.
        let kind = match self.accelerator {
            Accelerator::Kvm => ErrorKind::Machine,
            Accelerator::Tcg => ErrorKind::Guest,
        };
        Error::new(kind, what).help(match self.accelerator {
            Accelerator::Kvm => format!(
                "'schedlab doctor' shows whether KVM boots a kernel here; --accelerator tcg needs no KVM; {patience}"
            ),
            Accelerator::Tcg => {
                format!("the image must be a kernel with CONFIG_SERIAL_8250_CONSOLE; {patience}")
            }
        })
    }

    fn check_time(&self, limits: Limits) -> Result<()> {
        let now = self.started.elapsed();
        let (over, doing, limit) = match self.booted {
            None => (now > limits.boot, "did not boot", limits.boot),
            Some(booted) => (now > booted + limits.run, "did not end its run", limits.run),
        };
        if !over {
            return Ok(());
        }
        let text = self.log.text();
        let seconds = limit.as_secs();
        // A guest that continues from rest has booted, and its log of the run may be empty.
        if text.trim().is_empty() && self.booted.is_none() {
            return Err(self.silent(seconds));
        }
        let hangs: String =
            symptoms::doubtful(&text).iter().map(|s| format!("; {}: {}", s.what, s.lines)).collect();
        let error = of_guest(format!("the guest {doing} within {seconds} s{hangs}"));
        Err(quoting(error, &symptoms::last_lines(&text))
            .help(format!("if the host is only slow, {LIMIT_VARIABLE}=SECONDS gives it more time")))
    }

    fn wait_for_end(&mut self, off_within: Duration) {
        let until = Instant::now() + off_within;
        while Instant::now() < until && matches!(self.child.0.try_wait(), Ok(None)) {
            std::thread::sleep(LOOK_EVERY);
        }
        self.child.end();
    }
}

fn dead(symptom: &Symptom) -> Error {
    quoting(of_guest(format!("the guest died: {}", symptom.what)), &symptom.lines).help(symptom.help)
}

fn of_guest(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Guest, what)
}

/// Appends lines of the log to an error.
fn quoting(error: Error, lines: &str) -> Error {
    if lines.is_empty() {
        return error;
    }
    let lines: String = lines.lines().map(|l| format!("\n  | {l}")).collect();
    Error::new(error.kind(), format!("{}\n  the kernel said:{lines}", error.message()))
}

fn qemu_failed(said: &str, status: ExitStatus) -> Error {
    let said = if said.is_empty() { "nothing" } else { said };
    let error = Error::machine(format!("QEMU could not run the guest ({status}): it said {said}"));
    if said.contains("KVM") || said.contains("kvm") {
        return error.help(WITHOUT_KVM);
    }
    if said.contains("memory") {
        return error.help("the host has too little memory for the guest: give the guest less");
    }
    error.help("try QEMU by hand, or another version of it")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Limits = Limits { boot: Duration::from_secs(2), run: Duration::from_secs(1) };

    /// Watches a shell script instead of QEMU; `$log` and `$reply` name its files.
    fn watched(script: &str, limits: Limits, stop: &AtomicBool) -> Result<Option<Left>> {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let (log, reply, said, framed) = (path("log"), path("reply"), path("said"), path("framed"));
        std::fs::write(&framed, reply::framed(b"{}")).unwrap();
        let mut qemu = Command::new("sh");
        qemu.args(["-c", script]).env("log", &log).env("reply", &reply).env("framed", &framed);
        let accelerator = if script.contains("KVM") { Accelerator::Kvm } else { Accelerator::Tcg };
        let outputs = Outputs { log: &log, reply: &reply, said: &said, monitor: None };
        watch(qemu, outputs, accelerator, limits, stop)
    }
    fn failed(script: &str) -> String {
        watched(script, SHORT, &AtomicBool::new(false)).unwrap_err().to_string()
    }

    #[test]
    fn a_reply_is_taken_and_the_guest_is_not_waited_for_long() {
        let started = Instant::now();
        let script =
            "echo '[ 1.0] schedlab: init is up' >$log; sleep 0.1; cat $framed >$reply; exec sleep 60";
        let left = watched(script, SHORT, &AtomicBool::new(false)).unwrap().unwrap();
        assert_eq!(left.reply, b"{}");
        assert!(left.log.contains("is up"));
        assert!(started.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn a_guest_that_hangs_is_ended_and_reported() {
        let silent = failed("exec sleep 60");
        assert!(silent.contains("within 2 s under tcg") && silent.contains("SERIAL_8250"), "{silent}");
        let under_kvm = failed("echo 'qemu: warning: no TSC' >&2; exec sleep 60 # KVM");
        assert!(under_kvm.contains("within 2 s under kvm; QEMU said qemu: warning: no TSC"), "{under_kvm}");
        assert!(under_kvm.contains("doctor") && under_kvm.contains("--accelerator tcg"), "{under_kvm}");
        let slow = failed("echo '[ 0.0] Linux version 6.1' >$log; exec sleep 60");
        assert!(
            slow.contains("did not boot within 2 s") && slow.contains("| [ 0.0] Linux version 6.1"),
            "{slow}"
        );
        let hung = failed(
            "echo '[ 1.0] schedlab: init is up' >$log; \
             echo '[ 30.0] watchdog: BUG: soft lockup - CPU#3 stuck for 22s!' >>$log; exec sleep 60",
        );
        assert!(hung.contains("did not end its run within 1 s") && hung.contains("CPU#3"), "{hung}");
        assert!(hung.contains(LIMIT_VARIABLE));
    }

    #[test]
    fn an_oops_ends_it_at_once() {
        let started = Instant::now();
        let far = Limits { boot: Duration::from_secs(60), ..SHORT };
        let script = "echo '[ 1.0] Oops: int3: 0000 [#1] SMP' >$log; echo '[ 1.0] RIP: 0010:sched_tick' >>$log; exec sleep 60";
        let told = watched(script, far, &AtomicBool::new(false)).unwrap_err().to_string();
        assert!(
            told.contains("the kernel oopsed") && told.contains("| [ 1.0] RIP: 0010:sched_tick"),
            "{told}"
        );
        assert!(started.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn qemu_is_quoted_when_it_can_not_start() {
        let kvm = failed("echo 'Could not access KVM kernel module' >&2; exit 1");
        assert!(kvm.contains("Could not access KVM") && kvm.contains("--accelerator tcg"), "{kvm}");
        let none = watch(
            Command::new("/no/such/qemu"),
            Outputs {
                log: Path::new("/dev/null"),
                reply: Path::new("/dev/null"),
                said: Path::new("/dev/null"),
                monitor: None,
            },
            Accelerator::Tcg,
            SHORT,
            &AtomicBool::new(false),
        );
        assert!(none.unwrap_err().to_string().contains("can't start /no/such/qemu"));
    }

    #[test]
    fn a_guest_that_kvm_gave_up_is_not_waited_for() {
        let started = Instant::now();
        let far = Limits { boot: Duration::from_secs(60), ..SHORT };
        let script =
            "echo 'KVM internal error. Suberror: 1' >&2; echo 'emulation failure' >&2; exec sleep 60";
        let told = watched(script, far, &AtomicBool::new(false)).unwrap_err().to_string();
        assert!(
            told.contains("gave the guest up; QEMU said KVM internal error. Suberror: 1; emulation"),
            "{told}"
        );
        assert!(told.contains("--accelerator tcg") && started.elapsed() < Duration::from_secs(20), "{told}");
    }

    #[test]
    fn a_guest_that_ends_early_left_no_result() {
        let told = failed("echo '[ 1.0] schedlab: init is up' >$log; head -c 40 $framed >$reply");
        assert!(told.contains("middle of its reply") || told.contains("without a reply"), "{told}");
    }

    #[test]
    fn the_stop_ends_it_at_once_and_nothing_is_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        // Like a wrapper around QEMU that stays.
        let script = format!("sleep 60 & echo $! >{}; wait", pid.display());
        let stop = AtomicBool::new(false);
        let left = std::thread::scope(|scope| {
            scope.spawn(|| {
                while std::fs::read_to_string(&pid).map_or(true, |t| t.trim().is_empty()) {
                    std::thread::sleep(LOOK_EVERY);
                }
                stop.store(true, Relaxed);
            });
            let far = Limits { boot: Duration::from_secs(60), ..SHORT };
            watched(&script, far, &stop).unwrap()
        });
        assert!(left.is_none());
        let stat = format!("/proc/{}/stat", std::fs::read_to_string(&pid).unwrap().trim());
        let until = Instant::now() + Duration::from_secs(5);
        // The process that reaps orphans here may leave it a zombie for a while.
        let runs = || std::fs::read_to_string(&stat).is_ok_and(|s| !s.contains(") Z "));
        while runs() {
            assert!(Instant::now() < until, "{stat} still runs");
            std::thread::sleep(LOOK_EVERY);
        }
    }
}
