//! Slurm's programs sbatch and squeue.
//!
//! squeue lists the tasks of a job until some minutes after their end. A program may be slow because the controller is
//! busy or down. One that has not ended after [`LIMIT`], or after [`LIMIT_STOPPED`] once the stop flag is set, is left
//! running and counts as no answer from Slurm.

use schedlab_base::{Error, Result};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
const LIMIT_STOPPED: Duration = Duration::from_secs(3);
/// Interval of the checks of the stop flag.
const NAP: Duration = Duration::from_millis(50);
/// Fields of squeue, in the order of [`parse_squeue`].
const FIELDS: &str = "Name:64|,ArrayTaskID:|,State:|,exit_code:|,NodeList:64|,Reason:64|";
/// States in which a task has ended. A task in any other state may continue, by itself or after Slurm has queued it
/// again.
const ENDED: &str =
    "BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED REVOKED TIMEOUT";

/// A task as Slurm reports it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SlurmTask {
    /// The name of its job.
    pub job: String,
    pub task: usize,
    /// Its state: PENDING, RUNNING, COMPLETED, ...
    pub state: String,
    /// Exit code of the batch script.
    pub code: u8,
    pub node: String,
    /// Why it waits, or ended.
    pub reason: String,
}

impl SlurmTask {
    /// Whether it has ended. A task that a node could not begin is held, and Slurm would never start it again.
    pub fn ended(&self) -> bool {
        let held = self.state == "PENDING" && self.reason.contains("launch failed");
        held || ENDED.split(' ').any(|state| state == self.state)
    }
    /// How it ended, in Slurm's words.
    pub fn end(&self) -> String {
        let why = match (self.code, self.reason.as_str()) {
            (0, "" | "None") => String::new(),
            (0, reason) => format!(" ({reason})"),
            (code, _) => format!(", exit code {code}"),
        };
        let on = if self.node.is_empty() { String::new() } else { format!(" on {}", self.node) };
        format!("{}{why}{on}", self.state)
    }
    /// The remedy for such an end, as the beginning of a sentence.
    pub fn remedy(&self) -> &'static str {
        match (self.state.as_str(), self.code) {
            ("TIMEOUT" | "DEADLINE", _) => {
                "--slurm time=TIME gives more time, --slurm tasks=N makes shorter tasks; "
            }
            ("OUT_OF_MEMORY", _) => "--slurm mem=SIZE gives more; ",
            ("FAILED", 126 | 127) => "--slurm schedlab=PATH names the executable on the nodes; ",
            (_, code) if code == super::job::NO_FOLDER || self.reason.to_lowercase().contains("launch") => {
                "the nodes need the store under that path; without a shared folder 'schedlab pack' carries runs; "
            }
            _ => "",
        }
    }
}

/// Parses squeue's output. Lines of another form are skipped.
fn parse_squeue(text: &str) -> Vec<SlurmTask> {
    let row = |line: &str| {
        let mut fields = line.split('|').map(|field| field.trim().to_owned());
        let mut next = || fields.next();
        let (job, task, state) = (next()?, next()?.parse().ok()?, next()?);
        let code = (next()?.parse::<u32>().ok()? >> 8 & 0xff) as u8;
        Some(SlurmTask { job, task, state, code, node: next()?, reason: next()? })
    };
    text.lines().filter_map(row).collect()
}

/// Checks that both programs ask the same cluster.
///
/// # Errors
/// When sbatch would submit to another cluster than squeue asks.
pub fn check_environment() -> Result<()> {
    let Some(named) = std::env::var_os("SBATCH_CLUSTERS") else { return Ok(()) };
    let text = format!(
        "SBATCH_CLUSTERS is '{}', and squeue asks the cluster of this machine",
        named.to_string_lossy()
    );
    Err(Error::input(text).help("unset SBATCH_CLUSTERS, and start the command on a machine of that cluster"))
}

/// Slurm, as its programs give access to it.
#[derive(Clone, Copy)]
pub struct Slurm<'a> {
    /// Shortens the waiting for a program when it becomes true.
    stop: &'a AtomicBool,
}

impl Slurm<'_> {
    pub fn new(stop: &AtomicBool) -> Slurm<'_> {
        Slurm { stop }
    }

    fn call(&self, program: &str, args: &[String]) -> Result<Output> {
        let mut command = Command::new(program);
        // sbatch would wait for the job's end, with the lock held.
        command.env_remove("SBATCH_WAIT").args(args);
        // Ctrl-C should stop the waiting command, but not a submission under way.
        let started = command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let child = started.map_err(|e| {
            Error::machine(format!("can't start {program}, and --engine slurm needs it: {e}")).help(
                "run this where the cluster's jobs are submitted; without --engine slurm the runs are made here, and \
                 'schedlab pack' carries them to other machines",
            )
        })?;
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || sender.send(child.wait_with_output()));
        let (began, mut stopped) = (Instant::now(), None::<Instant>);
        loop {
            match receiver.recv_timeout(NAP) {
                Ok(output) => {
                    return output.map_err(|e| Error::machine(format!("can't wait for {program}: {e}")));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::internal("the thread that waits has ended"));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.stop.load(Ordering::Relaxed) {
                stopped.get_or_insert_with(Instant::now);
            }
            if began.elapsed() > LIMIT || stopped.is_some_and(|at| at.elapsed() > LIMIT_STOPPED) {
                let text = format!("{program} gives no answer within {}s", began.elapsed().as_secs());
                return Err(Error::machine(text));
            }
        }
    }

    /// Submits a job.
    ///
    /// # Errors
    /// When sbatch is missing, does not answer, or refuses, with Slurm's words.
    pub fn submit(&self, args: &[String]) -> Result<()> {
        let said = self.call("sbatch", args)?;
        if said.status.success() {
            return Ok(());
        }
        let text = format!("Slurm does not take the job: {}", complaint(&said));
        Err(Error::input(text).help(
            "--slurm KEY=VALUE with partition, constraint, account, time or tasks, or [slurm] in the experiment",
        ))
    }

    /// The tasks that squeue knows of jobs of these names.
    ///
    /// # Errors
    /// When squeue is missing, does not answer, or can't reach Slurm.
    pub fn tasks(&self, jobs: &[&str]) -> Result<Vec<SlurmTask>> {
        let args = ["--noheader", "--array", "--states=all"].map(str::to_owned);
        let which = [format!("--name={}", jobs.join(",")), format!("--Format={FIELDS}")];
        let said = self.call("squeue", &args.into_iter().chain(which).collect::<Vec<_>>())?;
        if said.status.success() {
            let rows = parse_squeue(&String::from_utf8_lossy(&said.stdout)).into_iter();
            return Ok(rows.filter(|row| jobs.contains(&row.job.as_str())).collect());
        }
        Err(Error::machine(format!("Slurm can't be asked for its jobs: {}", complaint(&said)))
            .help("'scontrol ping' shows whether the cluster's controller answers"))
    }
}

/// A program's error output, in one line.
fn complaint(said: &Output) -> String {
    let text = String::from_utf8_lossy(&said.stderr);
    let lines: Vec<&str> = text.lines().map(|l| l.trim_start_matches("sbatch: error: ").trim()).collect();
    let words = lines.into_iter().filter(|l| !l.is_empty()).collect::<Vec<_>>().join("; ");
    if words.is_empty() { said.status.to_string() } else { words }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_squeue_are_read_and_judged_by_slurms_own_states() {
        let text = "schedlab-a|0|RUNNING|0|n1|None|\nschedlab-a|1|PENDING|0||Priority|\nnot a row\n\
                    schedlab-b|7|FAILED|512|n2|NonZeroExitCode|\nschedlab-b|8|TIMEOUT|0|n2|TimeLimit|\n";
        let rows = parse_squeue(text);
        assert_eq!(rows.iter().map(SlurmTask::ended).collect::<Vec<_>>(), [false, false, true, true]);
        assert_eq!(
            (rows[1].job.as_str(), rows[1].task, rows[1].reason.as_str()),
            ("schedlab-a", 1, "Priority")
        );
        assert_eq!(rows[2].end(), "FAILED, exit code 2 on n2");
        assert!(rows[3].remedy().contains("time=TIME") && rows[2].remedy().is_empty());
        let requeued = SlurmTask { state: "REQUEUED".to_owned(), ..rows[3].clone() };
        assert!(!requeued.ended(), "Slurm starts it again");
        let reason = "launch failed requeued held".to_owned();
        let held = SlurmTask { state: "PENDING".to_owned(), reason, ..SlurmTask::default() };
        assert!(held.ended() && held.remedy().contains("shared folder"), "{}", held.end());
    }

    #[test]
    fn a_program_that_does_not_end_is_left_once_the_command_is_stopped() {
        let stop = AtomicBool::new(true);
        let began = Instant::now();
        let error = Slurm::new(&stop).call("sleep", &["30".to_owned()]).unwrap_err();
        assert!(error.message().contains("sleep gives no answer within 3s"), "{error}");
        assert!(began.elapsed() < Duration::from_secs(20));
        let missing = Slurm::new(&AtomicBool::new(false)).call("no-such-program", &[]).unwrap_err();
        assert!(missing.message().contains("can't start no-such-program"));
    }
}
