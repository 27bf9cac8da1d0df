//! Slurm's programs: sbatch, squeue, sacct, scontrol and scancel, and what they print.
//!
//! squeue knows jobs until some minutes after their end, sacct knows them for ever where the cluster keeps accounts.
//! Both are asked for named fields.

use schedlab_base::{Error, ErrorKind, Result};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Fields of squeue, in the order of [`parse_squeue`].
const SQUEUE: &str = "ArrayJobID:|,ArrayTaskID:|,State:|,exit_code:|,NodeList:|,Reason:|,RestartCnt:|";
/// Fields of sacct, in the order of [`parse_sacct`].
const SACCT: &str = "JobID,State,ExitCode,NodeList";
/// Tasks of an array, where a cluster does not tell its limit.
const USUAL_ARRAY: usize = 1000;

/// What Slurm says of a task.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Row {
    /// The array's job.
    pub job: u64,
    /// The task.
    pub task: u64,
    /// Its state: PENDING, RUNNING, COMPLETED, ...
    pub state: String,
    /// Exit code of the batch script.
    pub code: u8,
    /// The signal that ended it.
    pub signal: u8,
    /// The user that cancelled it, if that is told.
    pub cancelled_by: Option<u32>,
    /// Its node.
    pub node: String,
    /// Why it waits, or ended.
    pub reason: String,
    /// How often Slurm has queued it again.
    pub restarts: u32,
}

/// Reads what squeue prints in the fields that it is asked for. Lines of other forms are left out.
pub fn parse_squeue(text: &str) -> Vec<Row> {
    let row = |line: &str| {
        let mut fields = line.split('|').map(str::trim);
        let mut next = || fields.next();
        let (job, task) = (next()?.parse().ok()?, next()?.parse().ok()?);
        let state = next()?.to_owned();
        let status: u32 = next()?.parse().ok()?;
        let (node, reason) = (next()?.to_owned(), next()?.to_owned());
        let restarts = next()?.parse().unwrap_or(0);
        let (code, signal) = ((status >> 8 & 0xff) as u8, (status & 0x7f) as u8);
        Some(Row { job, task, state, code, signal, cancelled_by: None, node, reason, restarts })
    };
    text.lines().filter_map(row).collect()
}

/// Reads what sacct prints in the fields that it is asked for. Tasks that are not begun stand as ranges there, and are
/// left out.
pub fn parse_sacct(text: &str) -> Vec<Row> {
    let row = |line: &str| {
        let mut fields = line.split('|').map(str::trim);
        let mut next = || fields.next();
        let (job, task) = next()?.split_once('_')?;
        let words = next()?;
        let (state, by) = words.split_once(" by ").map_or((words, None), |(s, by)| (s, by.parse().ok()));
        let (code, signal) = next()?.split_once(':')?;
        Some(Row {
            job: job.parse().ok()?,
            task: task.parse().ok()?,
            state: state.to_owned(),
            code: code.parse().ok()?,
            signal: signal.parse().ok()?,
            cancelled_by: by,
            node: next()?.to_owned(),
            ..Row::default()
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

/// What a program said.
struct Said {
    ok: bool,
    out: String,
    err: String,
}

fn call(program: &str, args: &[String]) -> Result<Said> {
    // Ctrl-C is for the command that waits, not for a submission under way.
    let output = Command::new(program).args(args).stdin(Stdio::null()).process_group(0).output();
    let output = output.map_err(|e| {
        if e.kind() == std::io::ErrorKind::NotFound {
            return Error::machine(format!("{program} is not here, and --engine slurm submits with it")).help(
                "run this where the cluster's jobs are submitted; without --engine slurm the runs are made here, \
                 and 'schedlab pack' carries them to other machines",
            );
        }
        Error::machine(format!("can't start {program}: {e}"))
    })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Said { ok: output.status.success(), out: text(&output.stdout), err: text(&output.stderr) })
}

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

/// Whether Slurm could not be reached at all, which may pass.
fn is_away(err: &str) -> bool {
    ["Unable to contact slurm controller", "Socket timed out", "Connection refused", "Zero Bytes were"]
        .iter()
        .any(|words| err.contains(words))
}

/// Submits a job; its number.
///
/// # Errors
/// When there is no sbatch, or it refuses, with Slurm's words.
pub fn submit(args: &[String]) -> Result<u64> {
    let said = call("sbatch", args)?;
    if !said.ok {
        let kind = if is_away(&said.err) { ErrorKind::Machine } else { ErrorKind::Input };
        let help = "options: --partition, --constraint, --account, --time, or [slurm] in the experiment";
        return Err(
            Error::new(kind, format!("Slurm does not take the job: {}", complaint(&said.err))).help(help)
        );
    }
    let number = said.out.trim().split(';').next().and_then(|n| n.parse().ok());
    number.ok_or_else(|| Error::machine(format!("sbatch printed '{}' and no job's number", said.out.trim())))
}

/// The most tasks of an array here.
///
/// # Errors
/// When there is no Slurm, or it can't be reached.
pub fn max_array() -> Result<usize> {
    let said = call("scontrol", &["show".to_owned(), "config".to_owned()])?;
    if !said.ok {
        return Err(Error::machine(format!("Slurm can't be asked: {}", complaint(&said.err)))
            .help("'scontrol ping' tells whether the cluster's controller answers"));
    }
    Ok(parse_max_array(&said.out))
}

/// The tasks of these jobs that squeue knows; `Err` with its words if Slurm can't be reached.
///
/// # Errors
/// When there is no squeue, or it refuses.
pub fn queued(jobs: &[u64]) -> Result<std::result::Result<Vec<Row>, String>> {
    let numbers: Vec<String> = jobs.iter().map(u64::to_string).collect();
    let args = ["--noheader", "--array", "--states=all"].map(str::to_owned);
    let which = [format!("--jobs={}", numbers.join(",")), format!("--Format={SQUEUE}")];
    let said = call("squeue", &args.into_iter().chain(which).collect::<Vec<_>>())?;
    if said.ok {
        return Ok(Ok(parse_squeue(&said.out)));
    }
    if said.err.contains("Invalid job id") {
        return Ok(Ok(Vec::new()));
    }
    if is_away(&said.err) {
        return Ok(Err(complaint(&said.err)));
    }
    Err(Error::machine(format!("squeue refuses: {}", complaint(&said.err))))
}

/// The tasks of these jobs in the cluster's accounts; `None` if it keeps none.
pub fn accounted(jobs: &[u64]) -> Option<Vec<Row>> {
    let numbers: Vec<String> = jobs.iter().map(u64::to_string).collect();
    let args = ["--noheader", "--parsable2", "--allocations"].map(str::to_owned);
    let which = [format!("--jobs={}", numbers.join(",")), format!("--format={SACCT}")];
    let said = call("sacct", &args.into_iter().chain(which).collect::<Vec<_>>()).ok()?;
    said.ok.then(|| parse_sacct(&said.out))
}

/// The number of a job of that name of this user, if Slurm knows one.
pub fn job_named(name: &str) -> Option<u64> {
    let number = |out: &str| {
        let word = out.lines().map(str::trim).find(|l| !l.is_empty())?;
        word.split(['_', '|']).next()?.parse().ok()
    };
    let args = ["--noheader", "--states=all", "--Format=ArrayJobID:|"].map(str::to_owned);
    let args: Vec<String> = args.into_iter().chain([format!("--name={name}")]).collect();
    let queued = call("squeue", &args).ok().filter(|s| s.ok).and_then(|s| number(&s.out));
    queued.or_else(|| {
        let args = ["--noheader", "--parsable2", "--allocations", "--format=JobID", "--starttime=now-7days"];
        let args: Vec<String> =
            args.map(str::to_owned).into_iter().chain([format!("--name={name}")]).collect();
        call("sacct", &args).ok().filter(|s| s.ok).and_then(|s| number(&s.out))
    })
}

/// Cancels a job. What can't be cancelled has ended.
pub fn cancel(job: u64) {
    let _ = call("scancel", &[job.to_string()]);
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
}
