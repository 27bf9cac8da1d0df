//! The fate of a task, by pure rules from Slurm's state and the task's own report.
//!
//! A task that the cluster lost is submitted again. A task that failed on bad input or a fault of schedlab would fail
//! again: it is not repeated. A node that lacks the folder or the executable would fail every task.

use super::ask::SlurmTask;

/// Exit code of the job's script where the node does not have the folder.
pub const NO_FOLDER: u8 = 66;

/// How a task ended, or that it has not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TaskFate {
    /// It waits or runs.
    Going,
    /// It ended well.
    Done,
    /// The cluster lost it; to be made again.
    Lost(String),
    /// It failed, or someone wished it to end; not to be repeated.
    Failed(String),
    /// The node could not even begin; nor could others.
    Barred(String),
}

/// States in which a task may still continue, by itself or after Slurm has queued it again.
const GOING: &[&str] = &[
    "PENDING",
    "CONFIGURING",
    "RUNNING",
    "COMPLETING",
    "SUSPENDED",
    "REQUEUED",
    "REQUEUE_FED",
    "REQUEUE_HOLD",
    "RESIZING",
    "SIGNALING",
    "STAGE_OUT",
    "STOPPED",
    "SPECIAL_EXIT",
    "RESV_DEL_HOLD",
];
/// States of tasks that the cluster lost.
const LOST: &[&str] = &["NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "REVOKED", "LAUNCH_FAILED"];
/// Signals that come from outside: the end of a node, of a session, or of a job.
const FROM_OUTSIDE: &[u8] = &[1, 9, 15];

/// Judges a task of this user by Slurm's row.
pub fn of_row(row: &SlurmTask, own_uid: u32) -> TaskFate {
    let on = if row.node.is_empty() { String::new() } else { format!(" on {}", row.node) };
    let state = row.state.as_str();
    match state {
        "PENDING" if row.reason.contains("launch") || row.reason.contains("Launch") => {
            TaskFate::Barred(format!("the node could not start it: {}", row.reason))
        }
        going if GOING.contains(&going) => TaskFate::Going,
        "COMPLETED" => TaskFate::Done,
        lost if LOST.contains(&lost) => TaskFate::Lost(format!("{lost}{on}")),
        "CANCELLED" => match row.cancelled_by {
            Some(other) if other != own_uid => TaskFate::Lost(format!("cancelled by user {other}{on}")),
            _ => TaskFate::Failed("cancelled".to_owned()),
        },
        "TIMEOUT" => TaskFate::Failed(format!(
            "its time was over{on}: --slurm time=TIME gives more, --slurm task_time=TIME makes tasks shorter"
        )),
        "OUT_OF_MEMORY" => TaskFate::Failed(format!("out of memory{on}: --slurm mem=SIZE gives more")),
        "FAILED" if row.reason == "JobLaunchFailure" => {
            TaskFate::Barred(format!("Slurm could not start it{on}; the folder may not be there"))
        }
        "FAILED" => failed(row, &on),
        other => TaskFate::Failed(format!("{other}{on}")),
    }
}

fn failed(row: &SlurmTask, on: &str) -> TaskFate {
    match (row.code, row.signal) {
        (NO_FOLDER, _) => TaskFate::Barred(format!("the folder is not there{on}")),
        (126 | 127, _) => {
            let text =
                format!("schedlab could not be started{on}: --slurm schedlab=PATH names it on the nodes");
            TaskFate::Barred(text)
        }
        (_, signal) if FROM_OUTSIDE.contains(&signal) => {
            TaskFate::Lost(format!("killed by signal {signal}{on}"))
        }
        // A worker that is asked to stop ends with this code, and shells report a killed child with it.
        (1 | 129 | 137 | 143, 0) => TaskFate::Lost(format!("stopped{on}, exit code {}", row.code)),
        (code, 0) => TaskFate::Failed(format!("exit code {code}{on}")),
        (_, signal) => TaskFate::Failed(format!("signal {signal}{on}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(state: &str, code: u8, signal: u8, by: Option<u32>, reason: &str) -> TaskFate {
        let row = SlurmTask {
            state: state.to_owned(),
            code,
            signal,
            cancelled_by: by,
            node: "n1".to_owned(),
            reason: reason.to_owned(),
            ..SlurmTask::default()
        };
        of_row(&row, 1000)
    }

    #[test]
    fn what_the_cluster_lost_is_made_again() {
        let lost = [
            judged("NODE_FAIL", 0, 0, None, ""),
            judged("PREEMPTED", 0, 15, None, ""),
            judged("BOOT_FAIL", 0, 0, None, ""),
            judged("CANCELLED", 0, 15, Some(0), ""),
            judged("FAILED", 0, 9, None, "RaisedSignal:9(Killed)"),
            judged("FAILED", 1, 0, None, "NonZeroExitCode"),
            judged("FAILED", 143, 0, None, "NonZeroExitCode"),
        ];
        for one in lost {
            assert!(matches!(&one, TaskFate::Lost(why) if why.contains("n1")), "{one:?}");
        }
    }

    #[test]
    fn what_failed_or_was_not_wanted_is_not() {
        for one in [
            judged("FAILED", 2, 0, None, "NonZeroExitCode"),
            judged("FAILED", 4, 0, None, "NonZeroExitCode"),
            judged("FAILED", 0, 11, None, "RaisedSignal:11(SegFault)"),
            judged("CANCELLED", 0, 15, Some(1000), ""),
            judged("CANCELLED", 0, 15, None, ""),
            judged("TIMEOUT", 0, 0, None, ""),
            judged("OUT_OF_MEMORY", 0, 125, None, ""),
            judged("DEADLINE", 0, 0, None, ""),
            judged("A_NEW_STATE", 0, 0, None, ""),
        ] {
            assert!(matches!(one, TaskFate::Failed(_)), "{one:?}");
        }
    }

    #[test]
    fn a_node_that_can_not_begin_bars_all() {
        for one in [
            judged("FAILED", NO_FOLDER, 0, None, "NonZeroExitCode"),
            judged("FAILED", 127, 0, None, "NonZeroExitCode"),
            judged("FAILED", 15, 53, None, "JobLaunchFailure"),
            judged("PENDING", 0, 0, None, "launch failed requeued held"),
        ] {
            assert!(matches!(one, TaskFate::Barred(_)), "{one:?}");
        }
        for going in ["PENDING", "RUNNING", "COMPLETING", "REQUEUED", "SUSPENDED"] {
            assert_eq!(judged(going, 0, 0, None, "Priority"), TaskFate::Going);
        }
        assert_eq!(judged("COMPLETED", 0, 0, None, ""), TaskFate::Done);
    }
}
