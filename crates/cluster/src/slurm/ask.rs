//! Slurm's programs: sbatch, squeue, sacct, scontrol and scancel, and what they print.
//!
//! squeue lists a job until some minutes after its end. sacct lists it for ever where the cluster keeps accounts.
//! Both are asked for named fields.
//!
//! A program may be slow because the controller is busy or down. It gets [`LIMIT`], and [`LIMIT_STOPPED`] once the stop
//! flag is set. What has not ended by then counts as a Slurm that does not answer.

use schedlab_base::{Error, ErrorKind, Result, own_uid};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

/// Fields of squeue, in the order of [`parse_squeue`].
const SQUEUE: &str = "ArrayJobID:|,ArrayTaskID:|,State:|,exit_code:|,NodeList:|,Reason:|,RestartCnt:|";
/// Fields of sacct, in the order of [`parse_sacct`].
const SACCT: &str = "JobID,State,ExitCode,NodeList";
/// Most tasks of an array where the cluster does not report its limit.
const USUAL_ARRAY: usize = 1000;
/// A program that has not ended after this time does not answer.
const LIMIT: Duration = Duration::from_secs(60);
/// The same once the stop flag is set, from then on.
const LIMIT_STOPPED: Duration = Duration::from_secs(3);
/// How long to wait for the output of a program that has ended: a process that it left behind may hold the pipe.
const OUTPUT_WITHIN: Duration = Duration::from_secs(5);
/// The longest output that is read: a million tasks take less. A program that writes more does not answer.
const MOST_BYTES: u64 = 64 << 20;
/// The largest number of a job: Slurm keeps it in 32 bits.
const MOST_JOB: u64 = u32::MAX as u64 - 2;
/// How often a program is checked for its end.
const NAP: Duration = Duration::from_millis(10);
/// Variables of a job around this command, which sbatch would hand to our jobs; and one that would have sbatch wait for
/// the job's end, with the journal's lock held.
const KEPT_FROM_SLURM: [&str; 2] = ["SLURM_RESTART_COUNT", "SBATCH_WAIT"];
/// What to do when Slurm does not answer.
const PING: &str = "'scontrol ping' shows whether the cluster's controller answers";

/// A task as Slurm reports it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SlurmTask {
    /// The array's job.
    pub job: u64,
    pub task: u64,
    /// Its state: PENDING, RUNNING, COMPLETED, ...
    pub state: String,
    /// Exit code of the batch script.
    pub code: u8,
    /// The signal that ended it.
    pub signal: u8,
    /// The user that cancelled it, if Slurm names one.
    pub cancelled_by: Option<u32>,
    pub node: String,
    /// Why it waits, or ended.
    pub reason: String,
    /// How often Slurm has queued it again.
    pub restarts: u32,
}

/// Parses squeue's output. Lines of another form are skipped.
pub fn parse_squeue(text: &str) -> Vec<SlurmTask> {
    let row = |line: &str| {
        let mut fields = line.split('|').map(str::trim);
        let mut next = || fields.next();
        let (job, task) = (job_number(next()?)?, next()?.parse().ok()?);
        let state = next()?.to_owned();
        let status: u32 = next()?.parse().ok()?;
        let (node, reason) = (next()?.to_owned(), next()?.to_owned());
        let restarts = next()?.parse().unwrap_or(0);
        let (code, signal) = ((status >> 8 & 0xff) as u8, (status & 0x7f) as u8);
        Some(SlurmTask { job, task, state, code, signal, cancelled_by: None, node, reason, restarts })
    };
    text.lines().filter_map(row).collect()
}

/// Parses sacct's output. Array tasks that have not begun appear as ranges and are
/// skipped.
pub fn parse_sacct(text: &str) -> Vec<SlurmTask> {
    let row = |line: &str| {
        let mut fields = line.split('|').map(str::trim);
        let mut next = || fields.next();
        let (job, task) = next()?.split_once('_')?;
        let words = next()?;
        let (state, by) = words.split_once(" by ").map_or((words, None), |(s, by)| (s, by.parse().ok()));
        let (code, signal) = next()?.split_once(':')?;
        Some(SlurmTask {
            job: job_number(job)?,
            task: task.parse().ok()?,
            state: state.to_owned(),
            code: code.parse().ok()?,
            signal: signal.parse().ok()?,
            cancelled_by: by,
            node: next()?.to_owned(),
            ..SlurmTask::default()
        })
    };
    text.lines().filter_map(row).collect()
}

/// The most tasks of an array, from the cluster's configuration.
pub fn parse_max_array(config: &str) -> usize {
    let line = config.lines().find_map(|l| l.trim().strip_prefix("MaxArraySize"));
    let size = line.and_then(|l| l.trim_start_matches([' ', '=']).trim().parse::<usize>().ok());
    // Indices are below the size.
    size.unwrap_or(USUAL_ARRAY).max(1)
}

/// A program's exit status and output.
struct ProgramOutput {
    /// How it ended; `None` if it was too slow.
    status: Option<ExitStatus>,
    out: String,
    err: String,
}

impl ProgramOutput {
    fn ok(&self) -> bool {
        self.status.is_some_and(|s| s.success())
    }
    /// Whether it could not reach Slurm, which may pass.
    fn is_away(&self) -> bool {
        const WORDS: [&str; 5] = [
            "Unable to contact slurm controller",
            "Socket timed out",
            "Connection refused",
            "Connection timed out",
            "Zero Bytes were",
        ];
        // A program without an exit code was killed. What it did is unknown, too.
        self.status.is_none_or(|s| s.code().is_none()) || WORDS.iter().any(|words| self.err.contains(words))
    }
    fn complaint(&self) -> String {
        complaint(&self.err)
    }
}

/// How a call of sbatch without a job number ended.
pub struct NotTaken {
    pub error: Error,
    /// Whether it is sure that Slurm has not taken the job.
    pub sure: bool,
}

/// Checks that all of Slurm's programs ask the same cluster.
///
/// # Errors
/// When sbatch would submit to another one than squeue asks.
pub fn check_environment() -> Result<()> {
    match std::env::var_os("SBATCH_CLUSTERS") {
        None => Ok(()),
        Some(named) => {
            let named = named.to_string_lossy();
            Err(Error::input(format!(
                "SBATCH_CLUSTERS is '{named}', and squeue asks the cluster of this machine"
            ))
            .help("unset SBATCH_CLUSTERS, and start the command on a machine of that cluster"))
        }
    }
}

/// This user, as Slurm's programs are given a user; without /proc nobody's number.
pub fn user() -> u32 {
    own_uid().unwrap_or(u32::MAX)
}

/// The output of a program; `None` if it is longer than [`MOST_BYTES`].
type Output = Option<String>;

/// Reads a pipe to its end, beside the process that writes it, or as far as the limit.
fn drained(pipe: Option<impl Read + Send + 'static>) -> Receiver<Output> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error counts.
        let _ = pipe.map(|p| p.take(MOST_BYTES + 1).read_to_end(&mut bytes));
        let whole = bytes.len() as u64 <= MOST_BYTES;
        let _ = sender.send(whole.then(|| String::from_utf8_lossy(&bytes).into_owned()));
    });
    receiver
}

/// The answer of a program that writes without an end.
fn endless(program: &str) -> ProgramOutput {
    let err =
        format!("{program} writes more than {} MB, and no answer of Slurm's is so long", MOST_BYTES >> 20);
    ProgramOutput { status: None, out: String::new(), err }
}

/// Slurm, as its programs give access to it.
#[derive(Clone, Copy)]
pub struct Slurm<'a> {
    /// Shortens the waiting for a program when it becomes true.
    stop: &'a AtomicBool,
    limit: Duration,
}

impl Slurm<'_> {
    /// Slurm, for a command that `stop` ends.
    pub fn new(stop: &AtomicBool) -> Slurm<'_> {
        Slurm { stop, limit: LIMIT }
    }

    fn call(&self, program: &str, args: &[String]) -> Result<ProgramOutput> {
        let mut command = Command::new(program);
        KEPT_FROM_SLURM.iter().for_each(|name| _ = command.env_remove(name));
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C is for the command that waits, not for a submission under way.
        let started = command.process_group(0).spawn();
        let mut child = started.map_err(|e| {
            if e.kind() == std::io::ErrorKind::NotFound {
                return Error::machine(format!("{program} is not here, and --engine slurm submits with it")).help(
                    "run this where the cluster's jobs are submitted; without --engine slurm the runs are made here, \
                     and 'schedlab pack' carries them to other machines",
                );
            }
            Error::machine(format!("can't start {program}: {e}"))
        })?;
        let pipes = [drained(child.stdout.take()), drained(child.stderr.take())];
        let mut texts: [Option<Output>; 2] = [None, None];
        let began = Instant::now();
        let mut stopped: Option<Instant> = None;
        loop {
            let ended = child.try_wait();
            if let Some(status) =
                ended.map_err(|e| Error::machine(format!("can't wait for {program}: {e}")))?
            {
                for (text, pipe) in texts.iter_mut().zip(&pipes) {
                    // A process that it left behind may hold the pipe.
                    text.get_or_insert_with(|| {
                        pipe.recv_timeout(OUTPUT_WITHIN).unwrap_or_else(|_| Some(String::new()))
                    });
                }
                return Ok(match texts.map(Option::flatten) {
                    [Some(out), Some(err)] => ProgramOutput { status: Some(status), out, err },
                    _ => endless(program),
                });
            }
            for (text, pipe) in texts.iter_mut().zip(&pipes).filter(|(text, _)| text.is_none()) {
                *text = pipe.try_recv().ok();
            }
            if texts.contains(&Some(None)) {
                let _ = child.kill();
                let _ = child.wait();
                return Ok(endless(program));
            }
            if self.stop.load(Ordering::Relaxed) {
                stopped.get_or_insert_with(Instant::now);
            }
            if began.elapsed() > self.limit || stopped.is_some_and(|at| at.elapsed() > LIMIT_STOPPED) {
                // It may have ended by itself just now.
                let _ = child.kill();
                let _ = child.wait();
                let err = format!("{program} gives no answer within {}s", began.elapsed().as_secs());
                return Ok(ProgramOutput { status: None, out: String::new(), err });
            }
            std::thread::sleep(NAP);
        }
    }

    /// Submits a job; its number.
    ///
    /// # Errors
    /// When sbatch is missing, when it refuses (with Slurm's words), and when it does not report what Slurm did.
    pub fn submit(&self, args: &[String]) -> std::result::Result<u64, NotTaken> {
        let said = self.call("sbatch", args).map_err(|error| NotTaken { error, sure: true })?;
        if !said.ok() && !said.is_away() {
            let help =
                "--slurm KEY=VALUE with partition, constraint, account or time, or [slurm] in the experiment";
            let error = Error::input(format!("Slurm does not take the job: {}", said.complaint())).help(help);
            return Err(NotTaken { error, sure: true });
        }
        match parse_number(&said.out) {
            Some(number) if said.ok() => Ok(number),
            _ => Err(NotTaken { error: self.unsure(&said), sure: false }),
        }
    }
    /// The error of a sbatch after which a job may be there or not.
    fn unsure(&self, said: &ProgramOutput) -> Error {
        let help = format!("{PING}; the same command looks for the job before it submits another");
        if said.status.is_none() && self.stop.load(Ordering::Relaxed) {
            let text = "interrupted before Slurm said whether it took the job";
            return Error::new(ErrorKind::CheckFailed, text).help(help);
        }
        let words = if said.ok() {
            format!("sbatch printed '{}' and not one job's number", shown(&said.out))
        } else {
            said.complaint()
        };
        Error::machine(format!("Slurm may or may not have taken the job: {words}")).help(help)
    }

    /// The most tasks of an array here.
    ///
    /// # Errors
    /// When Slurm is missing or can't be reached.
    pub fn max_array(&self) -> Result<usize> {
        let said = self.call("scontrol", &["show".to_owned(), "config".to_owned()])?;
        if !said.ok() {
            return Err(Error::machine(format!("Slurm can't be asked: {}", said.complaint())).help(PING));
        }
        Ok(parse_max_array(&said.out))
    }

    /// The tasks of these jobs that squeue knows; `Err` with its words if Slurm can't be reached.
    ///
    /// # Errors
    /// When squeue is missing or refuses.
    pub fn queued(&self, jobs: &[u64]) -> Result<std::result::Result<Vec<SlurmTask>, String>> {
        let numbers: Vec<String> = jobs.iter().map(u64::to_string).collect();
        let args = ["--noheader", "--array", "--states=all"].map(str::to_owned);
        let which = [format!("--jobs={}", numbers.join(",")), format!("--Format={SQUEUE}")];
        let said = self.call("squeue", &args.into_iter().chain(which).collect::<Vec<_>>())?;
        if said.ok() {
            return Ok(Ok(parse_squeue(&said.out)));
        }
        if said.err.contains("Invalid job id") {
            return Ok(Ok(Vec::new()));
        }
        if said.is_away() {
            return Ok(Err(said.complaint()));
        }
        Err(Error::machine(format!("squeue refuses: {}", said.complaint())))
    }

    /// The tasks of these jobs in the cluster's accounts; `None` if it keeps none.
    pub fn accounted(&self, jobs: &[u64]) -> Option<Vec<SlurmTask>> {
        let numbers: Vec<String> = jobs.iter().map(u64::to_string).collect();
        let args = ["--noheader", "--parsable2", "--allocations"].map(str::to_owned);
        let which = [format!("--jobs={}", numbers.join(",")), format!("--format={SACCT}")];
        let said = self.call("sacct", &args.into_iter().chain(which).collect::<Vec<_>>()).ok()?;
        said.ok().then(|| parse_sacct(&said.out))
    }

    /// The number of this user's job of that name; `None` if Slurm knows none. A job that only accounts would know has
    /// ended, so accounts may be missing.
    ///
    /// # Errors
    /// When Slurm can't be asked.
    pub fn job_named(&self, name: &str) -> Result<Option<u64>> {
        let which = [format!("--name={name}"), format!("--user={}", user())];
        let args = ["--noheader", "--states=all", "--Format=ArrayJobID:|"].map(str::to_owned);
        let args: Vec<String> = args.into_iter().chain(which.clone()).collect();
        let said = self.call("squeue", &args)?;
        if !said.ok() {
            let text = format!("Slurm can't be asked whether it has job {name}: {}", said.complaint());
            return Err(Error::machine(text).help(PING));
        }
        if let Some(number) = parse_job(&said.out) {
            return Ok(Some(number));
        }
        let args = ["--noheader", "--parsable2", "--allocations", "--format=JobID", "--starttime=now-7days"];
        let args: Vec<String> = args.map(str::to_owned).into_iter().chain(which).collect();
        let said = self.call("sacct", &args).ok().filter(ProgramOutput::ok);
        Ok(said.and_then(|s| parse_job(&s.out)))
    }

    /// Cancels a job. What can't be cancelled has ended.
    pub fn cancel(&self, job: u64) {
        let _ = self.call("scancel", &[job.to_string()]);
    }
}

/// The number that sbatch --parsable prints, `NUMBER` or `NUMBER;CLUSTER`. A wrapper around sbatch may print lines of
/// its own; if two of them are different numbers, none is known to be the job's.
pub fn parse_number(out: &str) -> Option<u64> {
    let of_line = |line: &str| {
        let (number, cluster) =
            line.trim().split_once(';').map_or((line.trim(), None), |(n, c)| (n, Some(c)));
        let is_name =
            |c: &str| !c.is_empty() && c.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
        cluster.is_none_or(is_name).then(|| job_number(number))?
    };
    let mut all = out.lines().filter_map(of_line);
    let first = all.next()?;
    all.all(|other| other == first).then_some(first)
}

/// A job's number, in digits alone.
fn job_number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let number: u64 = digits.then(|| text.parse().ok()).flatten()?;
    (1..=MOST_JOB).contains(&number).then_some(number)
}

/// The first job's number of a list of jobs or tasks. squeue ends it with `|`, and sacct has a task's number behind
/// `_`.
fn parse_job(out: &str) -> Option<u64> {
    out.lines().find_map(|line| job_number(line.trim().split_once(['_', '|'])?.0))
}

/// The beginning of an output, for a message.
fn shown(out: &str) -> String {
    let text: String = out.trim().chars().take(SHOWN).collect();
    if out.trim().chars().count() > SHOWN { format!("{text}...") } else { text }
}

/// Characters of an output that a message shows.
const SHOWN: usize = 80;

/// A program's complaint in one line. sbatch often says the same twice; the first line is the one that names the thing.
pub fn complaint(err: &str) -> String {
    let line = |l: &str| {
        let l = l.trim();
        let l = l.split_once(": error: ").map_or(l, |(_, rest)| rest);
        (!l.is_empty()).then(|| l.to_owned())
    };
    let lines: Vec<String> = err.lines().filter_map(line).collect();
    let general = |l: &&String| !l.starts_with("Batch job submission failed");
    let first =
        lines.iter().find(general).or(lines.first()).cloned().unwrap_or_else(|| "no words".to_owned());
    first.trim_start_matches("Batch job submission failed: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squeue_tells_state_and_end_of_each_task() {
        let text = "1|4|FAILED|4021|vm|JobLaunchFailure|0|0|\n2|0|FAILED|768|n[1-2]|NonZeroExitCode|2|0|\n\
                    2|1|PENDING|0||Resources|0|1000|\nnonsense\n7|N/A|RUNNING|0|vm|None|0|0|\n";
        let rows = parse_squeue(text);
        let ends: Vec<(u64, u64, &str, u8, u8, u32)> =
            rows.iter().map(|r| (r.job, r.task, r.state.as_str(), r.code, r.signal, r.restarts)).collect();
        let wanted = [(1, 4, "FAILED", 15, 53, 0), (2, 0, "FAILED", 3, 0, 2), (2, 1, "PENDING", 0, 0, 0)];
        assert_eq!(ends, wanted);
        assert_eq!((rows[1].node.as_str(), rows[2].reason.as_str()), ("n[1-2]", "Resources"));
    }

    #[test]
    fn sacct_tells_who_cancelled_and_ranges_are_left_out() {
        let text = "2_0|COMPLETED|0:0|n1\n2_1|CANCELLED by 1000|0:15|n2\n2_[2-6]|PENDING|0:0|None assigned\n\
                    3|COMPLETED|0:0|n1\n2_7|NODE_FAIL|0:0|n3\n";
        let rows = parse_sacct(text);
        let told: Vec<(u64, &str, u8, Option<u32>)> =
            rows.iter().map(|r| (r.task, r.state.as_str(), r.signal, r.cancelled_by)).collect();
        assert_eq!(
            told,
            [(0, "COMPLETED", 0, None), (1, "CANCELLED", 15, Some(1000)), (7, "NODE_FAIL", 0, None)]
        );
    }

    #[test]
    fn the_size_of_arrays_is_the_clusters_or_the_usual_one() {
        assert_eq!(parse_max_array("MailProg = /bin/mail\nMaxArraySize            = 4001\nX = 1\n"), 4001);
        assert_eq!(parse_max_array("nothing"), USUAL_ARRAY);
        assert_eq!(parse_max_array("MaxArraySize = 0"), 1);
    }

    #[test]
    fn a_complaint_is_told_once_without_its_programs_name() {
        let twice = "sbatch: error: invalid partition specified: nope\n\
                     sbatch: error: Batch job submission failed: Invalid partition name specified\n";
        assert_eq!(complaint(twice), "invalid partition specified: nope");
        let once = "sbatch: error: Batch job submission failed: Invalid feature specification\n";
        assert_eq!(complaint(once), "Invalid feature specification");
        assert_eq!(complaint("\n"), "no words");
    }

    #[test]
    fn the_number_of_a_job_is_the_one_that_the_output_holds() {
        assert_eq!(parse_number("sbatch: 20 jobs are yours\n4711;c1\n"), Some(4711));
        assert_eq!(parse_number("6\n6;c1\n"), Some(6));
        for garbage in
            ["5\n6\n", "0", "-7", "+7", "7;", "7;a b", "99999999999", "7 jobs", "\u{0}7", "7\u{1b}[0m"]
        {
            assert_eq!(parse_number(garbage), None, "{garbage:?}");
        }
        assert_eq!((parse_job("7\n"), parse_job("0|\n"), parse_job("x_3\n12|\n")), (None, None, Some(12)));
        assert_eq!((parse_number(""), parse_number("Submitted batch job 7")), (None, None));
        assert_eq!(parse_job("CLUSTER: c1\n12_[0-3]|\n13|\n"), Some(12));
    }

    #[test]
    fn a_program_that_is_slow_counts_as_no_answer_and_ctrl_c_does_not_wait_for_its_limit() {
        let stop = AtomicBool::new(false);
        let slow = ["30".to_owned()];
        let slurm = Slurm { stop: &stop, limit: Duration::from_millis(200) };
        let began = Instant::now();
        let said = slurm.call("sleep", &slow).unwrap();
        assert!(!said.ok() && said.is_away(), "{}", said.err);
        stop.store(true, Ordering::Relaxed);
        let said = Slurm::new(&stop).call("sleep", &slow).unwrap();
        assert!(said.is_away() && said.complaint().starts_with("sleep gives no answer"), "{}", said.err);
        assert!(began.elapsed() < Duration::from_secs(20));
        // What answers is heard, in full, though the flag is set.
        let said = Slurm::new(&stop).call("seq", &["100000".to_owned()]).unwrap();
        assert!(said.ok() && said.out.lines().count() == 100_000);
    }

    #[test]
    fn a_program_that_writes_without_end_counts_as_no_answer() {
        let stop = AtomicBool::new(false);
        let began = Instant::now();
        let said = Slurm::new(&stop).call("yes", &["7".to_owned()]).unwrap();
        assert!(!said.ok() && said.is_away() && said.out.is_empty(), "{}", said.err);
        assert!(said.complaint().contains("writes more than"), "{}", said.err);
        assert!(began.elapsed() < Duration::from_secs(30));
    }
}
