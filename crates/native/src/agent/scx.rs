//! A sched_ext scheduler around a run: its program is started before the workload and stopped after it, in any case.
//!
//! The kernel shows in `/sys/kernel/sched_ext/state` whether a BPF scheduler is in charge ("enabled"), and in
//! `root/ops` its name (6.12). A scheduler that ends by itself, or that the kernel ejects, fails the run, since its
//! tasks then ran under the kernel's own scheduler. If this process dies, the kernel kills the program, and tasks
//! return to the kernel's scheduler.

use crate::agent::scx_counts;
use crate::sys::{self, offspring};
use schedlab_base::{Error, Result};
use schedlab_kernel::Scx;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The kernel's folder for sched_ext, with the state and the loaded scheduler.
const FOLDER: &str = "/sys/kernel/sched_ext";
const STATE: &str = "state";
const OPS: &str = "root/ops";
/// Time for a scheduler to load its programs.
const STARTS_WITHIN: Duration = Duration::from_secs(30);
/// Time for a scheduler to end after a request.
const ENDS_WITHIN: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Bytes kept from the end of its messages.
const KEPT: usize = 4096;

pub struct Running {
    child: Child,
    name: String,
    said: Arc<Mutex<Vec<u8>>>,
    readers: Vec<std::thread::JoinHandle<()>>,
}

pub struct Ended {
    /// Its name in the kernel.
    pub ops: String,
    /// Exit status of its program.
    pub exit: String,
    /// The end of its messages.
    pub said: String,
    /// What the kernel counted of it.
    pub counters: Vec<(String, u64)>,
}

/// Starts a scheduler and waits until the kernel uses it.
///
/// # Errors
/// When this kernel lacks sched_ext or this user may not use it, another scheduler is loaded, or the program ends.
pub fn start(scx: &Scx) -> Result<Running> {
    check()?;
    let (program, args) = scx.words().ok_or_else(|| Error::input("scx names no program"))?;
    let name = program.rsplit('/').next().unwrap_or(program).to_owned();
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Ctrl-C is for schedlab, which then stops the scheduler; the kernel ends it if schedlab dies.
    offspring::lead_group(&mut command);
    let mut child = command
        .spawn()
        .map_err(|e| Error::input(format!("the scheduler {program} can't be started: {e}")))?;
    let said = Arc::new(Mutex::new(Vec::new()));
    let mut readers = Vec::new();
    readers.extend(child.stdout.take().map(|from| keep(from, &said)));
    readers.extend(child.stderr.take().map(|from| keep(from, &said)));
    let mut running = Running { child, name, said, readers };
    let began = Instant::now();
    while state() != "enabled" {
        if let Ok(Some(status)) = running.child.try_wait() {
            return Err(running.died("before it had the tasks", status));
        }
        if began.elapsed() > STARTS_WITHIN {
            let text =
                format!("the scheduler {} has no tasks after {} s", running.name, STARTS_WITHIN.as_secs());
            return Err(Error::machine(text).help(running.words()));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(running)
}

fn check() -> Result<()> {
    if !is_there() {
        return Err(Error::machine("this kernel has no sched_ext").help(
            "use a kernel from 6.12 on with CONFIG_SCHED_CLASS_EXT: schedlab kernel fetch 7, --backend vm",
        ));
    }
    if !sys::is_root() {
        return Err(Error::machine("a sched_ext scheduler needs root").help("use sudo, or --backend vm"));
    }
    if state() != "disabled" {
        let ops = read(OPS);
        return Err(Error::machine(format!("a sched_ext scheduler is loaded already: {ops}"))
            .help("stop it; schedlab does not take its place"));
    }
    Ok(())
}

fn is_there() -> bool {
    Path::new(FOLDER).join(STATE).exists()
}

fn read(file: &str) -> String {
    fs::read_to_string(Path::new(FOLDER).join(file)).unwrap_or_default().trim().to_owned()
}

fn state() -> String {
    read(STATE)
}

/// Keeps the last bytes from a pipe.
fn keep(mut from: impl Read + Send + 'static, said: &Arc<Mutex<Vec<u8>>>) -> std::thread::JoinHandle<()> {
    let said = said.clone();
    std::thread::spawn(move || {
        let mut some = [0; 1024];
        while let Ok(n @ 1..) = from.read(&mut some) {
            let mut all = said.lock().unwrap_or_else(PoisonError::into_inner);
            all.extend_from_slice(&some[..n]);
            let extra = all.len().saturating_sub(KEPT);
            all.drain(..extra);
        }
    })
}

impl Running {
    /// # Errors
    /// When it had ended by itself, or the kernel had ejected it.
    pub fn end(mut self) -> Result<Ended> {
        if let Ok(Some(status)) = self.child.try_wait() {
            return Err(self.died("during the run", status));
        }
        let (state, ops) = (state(), read(OPS));
        if state != "enabled" {
            let text =
                format!("the kernel threw the scheduler {} out during the run (state {state})", self.name);
            return Err(Error::machine(text).help(self.words()));
        }
        let counters = scx_counts::counters();
        let exit = self.stop();
        self.readers.drain(..).for_each(|r| drop(r.join()));
        Ok(Ended { ops, exit, said: self.words(), counters })
    }

    /// Requests the program's end, and kills it if necessary; waits until the kernel's own scheduler is in charge
    /// again.
    fn stop(&mut self) -> String {
        offspring::signal_group(self.child.id(), libc::SIGINT);
        let began = Instant::now();
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break Some(status),
                Ok(None) if began.elapsed() < ENDS_WITHIN => std::thread::sleep(LOOK_EVERY),
                _ => {
                    let _ = self.child.kill();
                    break self.child.wait().ok();
                }
            }
        };
        while state() != "disabled" && began.elapsed() < 2 * ENDS_WITHIN {
            std::thread::sleep(LOOK_EVERY);
        }
        status.map_or_else(|| "unknown".to_owned(), |s| s.to_string())
    }

    fn died(&mut self, when: &str, status: ExitStatus) -> Error {
        self.readers.drain(..).for_each(|r| drop(r.join()));
        Error::machine(format!("the scheduler {} ended {when}: {status}", self.name)).help(self.words())
    }

    fn words(&self) -> String {
        let all = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&all).trim().to_owned();
        if text.is_empty() { "it said nothing".to_owned() } else { format!("it said: {text}") }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            self.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::testing::skipped;

    #[test]
    fn the_end_of_messages_is_kept() {
        let said = Arc::new(Mutex::new(Vec::new()));
        let long: Vec<u8> = (0..3 * KEPT).map(|i| if i < 2 * KEPT { b'a' } else { b'b' }).collect();
        keep(std::io::Cursor::new(long), &said).join().unwrap();
        let kept = said.lock().unwrap();
        assert!(kept.len() == KEPT && kept.iter().all(|b| *b == b'b'));
    }

    #[test]
    fn without_sched_ext_the_error_has_a_remedy() {
        if is_there() {
            return skipped("a kernel without sched_ext");
        }
        let scx = Scx { command: "/bin/true".into(), hash: None };
        let e = start(&scx).err().unwrap().to_string();
        assert!(e.contains("no sched_ext") && e.contains("--backend vm"), "{e}");
    }
}
