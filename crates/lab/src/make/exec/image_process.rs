//! Processes that hold an image of the kernel's own code. An image has global state, so a process holds one, and it is
//! this executable, started again with a command. It gets jobs on its input, one at a time, and gives an answer to each
//! on its output.
//!
//! A process that holds a machine at rest has a copy of itself make each run. What the copy writes is its own (copy on
//! write), so whatever ends it leaves the process as it was. The process ends when nobody can ask it any more, and its
//! copy with it.
//!
//! ```text
//! a job      length (8 bytes), JSON
//! an answer  the status of the process that made it (4 bytes, as wait(2) gives it), length (8 bytes), what it said
//! ```

use schedlab_base::{Error, Result, SchedulerFailure};
use schedlab_native::{fork_alone, signal_name, take, wait_readable};
use schedlab_transplant::fault;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Display;
use std::io::{self, PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// Interval of the looks at the stop flag, ns.
const LOOK_NS: u64 = 20_000_000;
/// No process waits as long, ns.
const FOR_EVER_NS: u64 = 1 << 60;
/// Bytes of an answer before what was said.
const HEAD: usize = 12;
/// Bytes that are read at once.
const AT_ONCE: usize = 1 << 16;

/// A process that takes jobs. It ends with this.
#[derive(Debug)]
pub(crate) struct ImageProcess(Child);

impl Drop for ImageProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn failed(what: &str, e: &dyn Display) -> Error {
    Error::machine(format!("a run's process {what}: {e}"))
}

impl ImageProcess {
    /// Starts this executable with a command.
    ///
    /// # Errors
    /// When the process can't be had.
    pub(crate) fn start(command: &str) -> Result<ImageProcess> {
        let own = std::env::current_exe().map_err(|e| failed("can't be found", &e))?;
        let mut process = Command::new(own);
        process
            .arg(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A terminal's Ctrl-C is only for this process, which ends the other one.
            .process_group(0);
        schedlab_native::fix_addresses(&mut process);
        process.spawn().map(ImageProcess).map_err(|e| failed("can't be started", &e))
    }
    /// Whether it has ended by itself.
    pub(crate) fn is_gone(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
    }
    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// The answer to a job; `None` if `stop` came first, and the process is of no use any more.
    ///
    /// # Errors
    /// When the process can't be asked, and when the kernel's code does what no kernel may.
    pub(crate) fn answer(&mut self, job: &impl Serialize, stop: &AtomicBool) -> Result<Option<Vec<u8>>> {
        let text = serde_json::to_vec(job).map_err(|e| Error::internal(e.to_string()))?;
        if let Some(stdin) = &mut self.0.stdin {
            // A process that ended before it read reports its reason.
            let _ = stdin.write_all(&[&(text.len() as u64).to_le_bytes(), text.as_slice()].concat());
        }
        let mut words = Vec::new();
        let said = self.said(&mut words, stop).map_err(|e| failed("can't be waited for", &e))?;
        let Some((status, said)) = said else { return Ok(None) };
        if !status.success() || said.is_empty() {
            return Err(ended(status, String::from_utf8_lossy(&words).trim()));
        }
        Ok(Some(said))
    }

    /// The next answer, with the status of whoever made it; `None` if `stop` came first. `words` gets what is said
    /// besides.
    fn said(&mut self, words: &mut Vec<u8>, stop: &AtomicBool) -> io::Result<Option<(ExitStatus, Vec<u8>)>> {
        let lost = || io::Error::other("it has no pipes");
        let mut stdout = self.0.stdout.take().ok_or_else(lost)?;
        let mut stderr = self.0.stderr.take().ok_or_else(lost)?;
        let (mut all, mut speaks) = (Vec::new(), true);
        let said = loop {
            let fds = [Some(stdout.as_fd()), speaks.then(|| stderr.as_fd())];
            let [answers, speaks_now] = wait_readable(fds, LOOK_NS);
            if speaks_now {
                speaks = read_some(&mut stderr, words)?;
            }
            if answers && !read_some(&mut stdout, &mut all)? {
                break (self.0.wait()?, Vec::new());
            }
            if let Some(said) = whole(&mut all) {
                break said;
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
        };
        while speaks && wait_readable([Some(stderr.as_fd())], 0) == [true] {
            speaks = read_some(&mut stderr, words)?;
        }
        (self.0.stdout, self.0.stderr) = (Some(stdout), Some(stderr));
        Ok(Some(said))
    }
}

/// Appends what there is to read; `false` at the end.
fn read_some(from: &mut impl Read, to: &mut Vec<u8>) -> io::Result<bool> {
    let mut some = vec![0; AT_ONCE];
    let read = from.read(&mut some)?;
    to.extend_from_slice(&some[..read]);
    Ok(read > 0)
}

/// The answer in `bytes`, if all of it is there.
fn whole(bytes: &mut Vec<u8>) -> Option<(ExitStatus, Vec<u8>)> {
    let (status, rest) = bytes.split_first_chunk()?;
    let (length, said) = rest.split_first_chunk()?;
    let status = ExitStatus::from_raw(i32::from_le_bytes(*status));
    if (said.len() as u64) < u64::from_le_bytes(*length) {
        return None;
    }
    bytes.drain(..HEAD);
    Some((status, std::mem::take(bytes)))
}

/// Reads the next job of this process; `None`: there is none.
///
/// # Errors
/// When the input is not a job.
pub(crate) fn next_job<T: DeserializeOwned>() -> Result<Option<T>> {
    let mut stdin = io::stdin().lock();
    let mut length = [0; 8];
    if stdin.read_exact(&mut length).is_err() {
        return Ok(None);
    }
    let mut text = vec![0; u64::from_le_bytes(length) as usize];
    stdin.read_exact(&mut text).map_err(|e| Error::io(Path::new("-"), "read", &e))?;
    serde_json::from_slice(&text).map(Some).map_err(|e| Error::internal(format!("not a job: {e}")))
}

/// Gives an answer of this process.
///
/// # Errors
/// When nobody takes the output.
pub(crate) fn reply(said: &[u8]) -> Result<()> {
    pass_on(ExitStatus::from_raw(0), said)
}

fn pass_on(status: ExitStatus, said: &[u8]) -> Result<()> {
    let (status, length) = (status.into_raw().to_le_bytes(), (said.len() as u64).to_le_bytes());
    let whole = [status.as_slice(), length.as_slice(), said].concat();
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(&whole).and_then(|()| stdout.flush());
    written.map_err(|e| Error::io(Path::new("-"), "write", &e))
}

/// Copies this process. `Some` in the copy, which writes its answer there and ends; the process itself has then passed
/// the answer on.
///
/// # Errors
/// When the system gives no process, and when nobody takes the answer.
pub(crate) fn copied() -> Result<Option<PipeWriter>> {
    let refused = |e: io::Error| failed("can't be copied", &e);
    let (from, to) = pipe().map_err(refused)?;
    let Some(copy) = fork_alone().map_err(refused)? else { return Ok(Some(to)) };
    drop(to);
    let said = heard(from).map_err(refused)?;
    let (status, _) = take(copy).map_err(refused)?;
    pass_on(status, &said).map(|()| None)
}

/// Reads what a copy of this process says to its end. If nobody waits for it any more, both end.
fn heard(mut from: PipeReader) -> io::Result<Vec<u8>> {
    let (stdin, mut said) = (io::stdin(), Vec::new());
    loop {
        let [speaks, alone] = wait_readable([Some(from.as_fd()), Some(stdin.as_fd())], FOR_EVER_NS);
        if speaks && !read_some(&mut from, &mut said)? {
            return Ok(said);
        }
        if alone {
            // No job comes before the last one is answered: it is the end of the input.
            std::process::exit(0);
        }
    }
}

/// The error of a process that ended without an answer: the fault of the kernel's code is the user's patch's, or a
/// missing shim's.
fn ended(status: ExitStatus, words: &str) -> Error {
    match (words.strip_prefix("image: "), status.code()) {
        (Some(text), Some(fault::EXIT_CODE)) => {
            return Error::input(format!("the kernel's code failed: {text}"));
        }
        (Some(text), Some(fault::EXIT_CODE_OF_PROGRAM)) => {
            return Error::input(format!("the scheduler failed: {text}"))
                .of_scheduler(SchedulerFailure::Fault)
                .help("a kernel's verifier may refuse it: load it once in a guest (backend 'vm')");
        }
        _ => {}
    }
    let said = if words.is_empty() { String::new() } else { format!("\n  it said: {words}") };
    match status.signal().map(|signal| (signal, signal_name(signal))) {
        Some((signal, name @ "SIGKILL")) => Error::machine(format!(
            "a run's process was killed by signal {signal} ({name}){said}"
        ))
        .help(
            "the kernel does so when memory runs out: see dmesg, and make fewer runs side by side (--jobs)",
        ),
        Some((signal, name)) => {
            Error::internal(format!("a run's process died of signal {signal} ({name}){said}"))
        }
        // Nothing of ours ends it silently.
        None if words.is_empty() => {
            let code = status.code().unwrap_or(-1);
            Error::input(format!("the kernel's code ended the process (exit status {code})"))
                .help("an image makes no system calls: look for one in what the patches add")
        }
        None => {
            let code = status.code().unwrap_or(-1);
            Error::internal(format!(
                "a run's process ended with exit code {code} and without an answer{said}"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_once_all_of_it_is_there() {
        let said = [9i32.to_le_bytes().as_slice(), &3u64.to_le_bytes(), b"abc"].concat();
        for part in 0..said.len() {
            assert!(whole(&mut said[..part].to_vec()).is_none(), "{part} bytes");
        }
        let (status, words) = whole(&mut said.clone()).unwrap();
        assert_eq!((status.signal(), words.as_slice()), (Some(9), b"abc".as_slice()));
    }
    use schedlab_base::ErrorKind;

    #[test]
    fn a_signal_that_ended_a_run_is_named_with_the_last_message() {
        let of = |raw, words| ended(ExitStatus::from_raw(raw), words);
        let (killed, crashed) = (of(9, "").to_string(), of(11, "stack overflow").to_string());
        assert!(killed.contains("signal 9 (SIGKILL)") && killed.contains("memory"), "{killed}");
        assert!(
            crashed.contains("signal 11 (SIGSEGV)") && crashed.contains("it said: stack overflow"),
            "{crashed}"
        );
        assert!(of(101 << 8, "panicked").to_string().contains("exit code 101"));
        let left = of(0, "");
        assert_eq!(left.message(), "the kernel's code ended the process (exit status 0)");
        assert_eq!((left.kind(), of(3 << 8, "").kind()), (ErrorKind::Input, ErrorKind::Input));
        let fault = of(fault::EXIT_CODE << 8, "image: BUG at fair.c:1");
        assert_eq!(
            (fault.kind(), fault.message()),
            (ErrorKind::Input, "the kernel's code failed: BUG at fair.c:1")
        );
        let program = of(fault::EXIT_CODE_OF_PROGRAM << 8, "image: BPF program a, instruction 1: it divides");
        assert_eq!(program.scheduler(), Some(SchedulerFailure::Fault));
        assert_eq!(fault.scheduler(), None, "the kernel's code is not the scheduler's");
    }
}
