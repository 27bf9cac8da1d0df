//! Recognises texts of tools that hold no events, so that the error can say what to read instead.

use memchr::memmem;
use schedlab_base::Error;

/// A tool whose text is recognised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tool {
    name: &'static str,
    /// The content of its text.
    holds: &'static str,
    remedy: &'static str,
}

/// Words that together stand only in a line of the tool's heading.
type Heading = &'static [&'static [u8]];

const REPORT: &str = "read the file that it was made from: schedlab latency perf.data, or import it";

const TOOLS: [(Heading, Tool); 4] = [
    (
        &[b"task name", b"wait time", b"sch delay", b"run time"],
        Tool {
            name: "perf sched timehist",
            holds: "the ends of stays, and not what ran between them",
            remedy: "read the file that it was made from: schedlab timehist perf.data, or import it",
        },
    ),
    (
        &[b"Task", b"Runtime ms", b"Switches"],
        Tool { name: "perf sched latency", holds: "sums of each task", remedy: REPORT },
    ),
    (
        &[b"cpu:", b"wakeups", b"migrations", b"idle time"],
        Tool { name: "perf sched", holds: "sums", remedy: REPORT },
    ),
    (
        &[b"runtime", b"sum-exec", b"tree-key"],
        Tool {
            name: "/proc/sched_debug",
            holds: "one moment's queues",
            remedy: "record events: schedlab record, or perf sched record",
        },
    ),
];

/// The tool that prints such a line.
pub fn that_printed(line: &[u8]) -> Option<Tool> {
    if line.len() > 200 {
        return None;
    }
    let has = |heading: Heading| heading.iter().all(|word| memmem::find(line, word).is_some());
    TOOLS.iter().find(|(heading, _)| has(heading)).map(|(_, tool)| *tool)
}

impl Tool {
    pub fn error(self) -> Error {
        Error::input(format!("the text is of '{}': it holds {}", self.name, self.holds)).help(self.remedy)
    }
}
