//! `schedlab jobs`: what has become of the jobs that `--engine slurm` submitted.

use crate::cli::Entry;
use crate::output;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, Result, utc};
use schedlab_cluster::slurm::journal::Journal;
use schedlab_cluster::slurm::{Shown, SubmissionState, TaskState, submission_states};
use schedlab_lab::experiment::load;
use schedlab_record::Store;
use schedlab_report::text::wrap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

pub const ENTRY: Entry = Entry { command, run };

#[derive(Args)]
struct JobsArgs {
    /// Only the jobs of this experiment: its name or its file
    #[arg(value_name = "EXPERIMENT")]
    experiment: Option<String>,
    /// The store whose jobs are shown
    #[arg(long, value_name = "DIR", default_value = "runs")]
    out: PathBuf,
    /// The result as JSON
    #[arg(long)]
    json: bool,
}

fn command() -> Command {
    JobsArgs::augment_args(Command::new("jobs")).about("Show the jobs that --engine slurm submitted")
}

fn run(matches: &ArgMatches) -> Result<()> {
    let args = JobsArgs::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    let store = Store::open(&args.out)?;
    let shown = Journal::find(&args.out)
        .map_or(Ok(Shown::default()), |journal| submission_states(&journal, &store))?;
    let mut all = shown.submissions;
    for error in &shown.damaged {
        output::note(&format!("warning: an entry is left out: {error}"));
    }
    if let Some(word) = &args.experiment {
        let name = if Path::new(word).is_file() { load(Path::new(word))?.name } else { word.clone() };
        if !all.iter().any(|t| t.experiment == name) && !all.is_empty() {
            let known = all.iter().map(|t| t.experiment.as_str());
            return Err(Error::unknown("experiment of these jobs", &name, known));
        }
        all.retain(|t| t.experiment == name);
    }
    if let Some(words) = &shown.silent {
        output::note(&format!("warning: Slurm was not asked: {words}"));
    }
    if args.json {
        return output::json_as("schedlab/jobs/1", &serde_json::json!({ "submissions": all }));
    }
    output::result(|out| {
        if all.is_empty() {
            return writeln!(out, "no jobs were submitted from {}", args.out.display());
        }
        all.iter().try_for_each(|one| show(one, out))
    })
}

fn show(one: &SubmissionState, out: &mut dyn Write) -> io::Result<()> {
    let jobs: Vec<String> = one.jobs.iter().map(u64::to_string).collect();
    let (done, left) = (one.runs_done, one.runs_left);
    let when = utc::minute(one.submitted_s);
    let text = format!(
        "job {}, {when} UTC: {} done, {left} left",
        jobs.join(" and "),
        schedlab_base::counted(done, "run")
    );
    write!(out, "{}", wrap(&format!("{}: ", one.experiment), &text))?;
    let tasks: Vec<String> = one.tasks.iter().map(|(state, n)| format!("{n} {}", word(*state))).collect();
    write!(out, "{}", wrap("  tasks: ", &tasks.join(", ")))?;
    for (task, tries) in &one.again {
        writeln!(out, "  task {task}: submitted {}", schedlab_base::counted(*tries, "time"))?;
    }
    for (task, why) in &one.failed {
        write!(out, "{}", wrap(&format!("  task {task} failed: "), why))?;
    }
    writeln!(out, "  output: {}", one.logs.display())
}

fn word(state: TaskState) -> &'static str {
    match state {
        TaskState::Done => "done",
        TaskState::Running => "running",
        TaskState::Waiting => "waiting",
        TaskState::Ended => "ended without all runs",
        TaskState::Failed => "failed",
        TaskState::Unknown => "not known to Slurm",
    }
}
