//! Places: a task runs on the machine itself, in a virtual machine on it, or on another machine behind a link.
//!
//! Futex words and cells are shared by the tasks of one place only. So all tasks of a benchmark are in the same place,
//! unless they meet at channels alone and the benchmark tells which task uses which end
//! ([`Builder::channel_between`](crate::Builder::channel_between)).

use crate::build::{Builder, TaskDecl};
use schedlab_base::{Error, Result};
use schedlab_kernel::policy::{EVERY_TASK, group_of};

/// The place where a task runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Place {
    /// The machine itself.
    #[default]
    Host,
    /// The virtual machine of that number.
    Inside(u32),
    /// The machine of that number behind a link.
    Remote(u32),
}

/// Moves the tasks of that name to a place.
///
/// # Errors
/// For an unknown name, and a task that is in another place already.
pub(crate) fn move_to(name: &str, place: Place, tasks: &mut [TaskDecl]) -> Result<()> {
    let mut found = false;
    let mut known: Vec<String> = Vec::new();
    for task in tasks {
        let own = group_of(&task.name);
        if name == EVERY_TASK || own == name || task.name == name {
            if task.place != Place::Host && task.place != place {
                return Err(Error::input(format!("task '{}' is on another machine already", task.name)));
            }
            task.place = place;
            found = true;
        } else if !known.iter().any(|k| k == own) {
            known.push(own.to_owned());
        }
    }
    if found { Ok(()) } else { Err(Error::unknown("task", name, known.iter().map(String::as_str))) }
}

/// Refuses a benchmark whose tasks are in several places though they share memory, or channels whose users it does not
/// tell.
///
/// # Errors
/// The first two tasks that cannot be apart.
pub(crate) fn check(b: &mut Builder) -> Result<()> {
    let apart = b.tasks_from(0).windows(2).find_map(|pair| {
        let same = pair[0].part == pair[1].part && pair[0].place != pair[1].place;
        same.then(|| (pair[0].part, pair[0].name.clone(), pair[1].name.clone()))
    });
    let Some((number, one, other)) = apart else { return Ok(()) };
    let part = b.part(number);
    if !part.memory && !part.untold_end {
        return Ok(());
    }
    let text = format!("tasks '{one}' and '{other}' must be on the same machine: they share memory or channels");
    Err(Error::input(text).help("name all tasks of a benchmark, or none; rr, stream-rr and http can be taken apart"))
}
