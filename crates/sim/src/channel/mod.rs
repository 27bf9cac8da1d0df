//! Pipes and sockets through time: `drive` takes a task's calls, `poll` a task that waits on several ends.

mod drive;
mod poll;
