//! Processes that hold an image of the kernel's own code. An image has global state, so each run, and each set of
//! questions to an image, has a separate process. It is this executable, started again with a command; it gets the job
//! on its input and gives the answer on its output, both as JSON.

use schedlab_base::{Error, Result};
use schedlab_native::signal_name;
use schedlab_transplant::fault;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Display;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Interval of the checks of a process.
const LOOK: Duration = Duration::from_millis(20);

/// The answer of a process to a job; `None` if `stop` ended it. `begun` gets the process's number before the job does.
///
/// # Errors
/// When the process can't be had, and when the kernel's code does what no kernel may.
pub(crate) fn answer<T: DeserializeOwned>(
    command: &str,
    job: &impl Serialize,
    stop: &AtomicBool,
    begun: impl FnOnce(u32),
) -> Result<Option<T>> {
    let failed = |what: &str, e: &dyn Display| Error::machine(format!("a run's process {what}: {e}"));
    let own = std::env::current_exe().map_err(|e| failed("can't be found", &e))?;
    let mut child = Command::new(own)
        .arg(command)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A terminal's Ctrl-C is only for this process, which ends the other one.
        .process_group(0)
        .spawn()
        .map_err(|e| failed("can't be started", &e))?;
    begun(child.id());
    let text = serde_json::to_vec(job).map_err(|e| Error::internal(e.to_string()))?;
    let (stdout, stderr) = (reader(child.stdout.take()), reader(child.stderr.take()));
    if let Some(mut stdin) = child.stdin.take() {
        // A process that ended before it read reports its reason.
        let _ = stdin.write_all(&text);
    }
    let Some(status) = wait(&mut child, stop).map_err(|e| failed("can't be waited for", &e))? else {
        return Ok(None);
    };
    let (said, words) = (stdout.join().unwrap_or_default(), stderr.join().unwrap_or_default());
    if !status.success() || said.is_empty() {
        return Err(ended(status, String::from_utf8_lossy(&words).trim()));
    }
    serde_json::from_slice(&said).map(Some).map_err(|e| failed("gave no answer", &e))
}

/// Reads the job of this process. From then on the process ends with its parent.
///
/// # Errors
/// When the input is not a job.
pub(crate) fn asked<T: DeserializeOwned>() -> Result<T> {
    schedlab_native::die_with_parent();
    let mut text = Vec::new();
    std::io::stdin().read_to_end(&mut text).map_err(|e| Error::io(Path::new("-"), "read", &e))?;
    serde_json::from_slice(&text).map_err(|e| Error::internal(format!("not a job: {e}")))
}

/// Gives this process's answer.
///
/// # Errors
/// When nobody takes the output.
pub(crate) fn reply(answer: &impl Serialize) -> Result<()> {
    let text = serde_json::to_vec(answer).map_err(|e| Error::internal(e.to_string()))?;
    std::io::stdout().write_all(&text).map_err(|e| Error::io(Path::new("-"), "write", &e))
}

/// Reads a stream to its end while the process writes it.
fn reader<R: Read + Send + 'static>(stream: Option<R>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            let _ = stream.read_to_end(&mut bytes);
        }
        bytes
    })
}

/// Waits for a process. `None`: `stop` ended it.
fn wait(child: &mut Child, stop: &AtomicBool) -> std::io::Result<Option<ExitStatus>> {
    let mut pause = Duration::from_micros(200);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if stop.load(Ordering::Relaxed) {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(LOOK);
    }
}

/// The error of a process that ended without an answer: the fault of the kernel's code is the user's patch's, or a
/// missing shim's.
fn ended(status: ExitStatus, words: &str) -> Error {
    if let (Some(text), Some(fault::EXIT_CODE)) = (words.strip_prefix("image: "), status.code()) {
        return Error::input(format!("the kernel's code failed: {text}"));
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
    }
}
