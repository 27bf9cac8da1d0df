//! The input of commands that list tasks: a recording of another tool, or a stored run, whose kept events are read or
//! made again.

use super::import::Source;
use super::runs::Choice;
use crate::progress::Bar;
use crate::{common, interrupt};
use clap::Args;
use schedlab_base::{Error, ErrorKind, Ns, Result, TaskId, Warning};
use schedlab_import::{Audience, read_part};
use schedlab_lab::stored::events::Events;
use schedlab_lab::stored::named::has_runs;
use schedlab_lab::stored::named::{RunChoice, experiment_of};
use schedlab_trace::{Event, Sink};
use std::path::Path;

/// A recording or a stored run.
#[derive(Args)]
pub struct Heard {
    #[command(flatten)]
    pub source: Source,
    #[command(flatten)]
    choice: Choice,
    /// The stored run of this seed [default: the first that is stored]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
}

impl Heard {
    /// Feeds all events to an audience, and returns the warnings about them.
    ///
    /// # Errors
    /// When the recording or run is missing or damaged, and on an interruption.
    pub fn feed(&self, audience: &mut impl Audience) -> Result<Vec<Warning>> {
        let window = self.source.window()?;
        let Some(name) = stored_name(&self.source.file)? else {
            let imported = read_part(&self.source.recording()?, window, false, audience)?;
            return Ok(imported.warnings());
        };
        let wanted = RunChoice { store: &self.choice.out, filter: self.choice.filter(), seed: self.seed };
        let run = wanted.find(name)?;
        let record = run.record()?;
        let mut events = Events::of(&run, &record)?.clocked(&common::SIMULATED).within(window)?;
        let bar = events.are_simulated().then(|| {
            let bar = Bar::simulated(false, events.cast().end, &common::SIMULATED);
            bar.say("the run is made again".to_owned());
            bar
        });
        audience.opens(0);
        let actors = events.cast().tasks.clone();
        actors.iter().enumerate().for_each(|(at, actor)| audience.meet(TaskId(at as u32), actor));
        let whole = events.feed(&mut Only(audience), interrupt::stop_flag()?)?;
        drop(bar);
        if whole { Ok(Vec::new()) } else { Err(Error::new(ErrorKind::CheckFailed, "interrupted")) }
    }
}

/// The name of a stored run; `None` for a recording. A run's name is UTF-8, a file's may be anything.
fn stored_name(path: &Path) -> Result<Option<&str>> {
    let Some(name) = path.to_str() else { return Ok(None) };
    let is_missing = name != "-" && !path.exists();
    Ok((is_missing || has_runs(path) || experiment_of(name)?.is_some()).then_some(name))
}

/// Passes on events without their details.
struct Only<'a, A>(&'a mut A);

impl<A: Sink> Sink for Only<'_, A> {
    fn event(&mut self, event: &Event) {
        self.0.event(event);
    }
    fn sample(&mut self, at: Ns, task: TaskId, series: u16, value: u64) {
        self.0.sample(at, task, series, value);
    }
}
