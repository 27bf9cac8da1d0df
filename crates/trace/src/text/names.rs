//! Fields that name a task in a text's lines. A task's name, number and priority do not change during a run, so its
//! fields are made once, at their first use.

use crate::Cast;
use schedlab_base::printable::name;
use schedlab_base::{CpuId, TaskId};
use std::fmt::{self, Write};

pub(super) struct Names<'a> {
    cast: &'a Cast,
    tasks: Vec<Option<Fields>>,
    idle: Vec<Option<Fields>>,
}

impl<'a> Names<'a> {
    pub(super) fn new(cast: &'a Cast) -> Names<'a> {
        Names { cast, tasks: Vec::new(), idle: Vec::new() }
    }
    /// A task's fields; for `None`, those of the CPU's idle task.
    #[inline]
    pub(super) fn of(&mut self, task: Option<TaskId>, cpu: CpuId) -> &Fields {
        let (known, at) = match task {
            Some(task) => (&mut self.tasks, task.index()),
            None => (&mut self.idle, cpu.index()),
        };
        if at >= known.len() {
            known.resize_with(at + 1, || None);
        }
        known[at].get_or_insert_with(|| Fields::of(self.cast, task, cpu))
    }
    /// Frees the fields of an ended task; a run may have millions. If a line needs them again, they are made again.
    pub(super) fn forget(&mut self, task: TaskId) {
        if let Some(known) = self.tasks.get_mut(task.index()) {
            *known = None;
        }
    }
    pub(super) fn tid(&self, task: TaskId) -> u32 {
        self.cast.tid(task)
    }
}

/// One task's fields, concatenated.
pub(super) struct Fields {
    text: Box<[u8]>,
    /// Ends of the first three fields, and position of the name in the last one.
    begin: u32,
    prev: u32,
    next: u32,
    name: u32,
}

/// The text before the name in the last field.
const COMM: &str = "comm=";

impl Fields {
    #[cold]
    fn of(cast: &Cast, task: Option<TaskId>, cpu: CpuId) -> Fields {
        let label = task.map(|task| cast.label(task));
        let label = label.as_deref().map(name);
        let current = label.as_deref().unwrap_or("<idle>");
        let comm = label.as_deref().map_or_else(|| format!("swapper/{}", cpu.0), str::to_owned);
        let (tid, prio) = (task.map_or(0, |task| cast.tid(task)), cast.prio(task));

        let mut text = String::with_capacity(4 * comm.len() + 128);
        // Appends a field and returns its end. Writing to a string can't fail.
        let mut put = |field: fmt::Arguments<'_>| {
            let _ = text.write_fmt(field);
            text.len() as u32
        };
        let begin = put(format_args!("{current:>16}-{tid:<7} "));
        let prev = put(format_args!("prev_comm={comm} prev_pid={tid} prev_prio={prio} prev_state="));
        let next = put(format_args!("next_comm={comm} next_pid={tid} next_prio={prio}\n"));
        let name = put(format_args!("{COMM}{comm}"));
        put(format_args!(" pid={tid} prio={prio}"));
        Fields { text: text.into_bytes().into_boxed_slice(), begin, prev, next, name }
    }
    /// The current task at the start of a line, with a trailing space.
    #[inline]
    pub(super) fn current(&self) -> &[u8] {
        &self.text[..self.begin as usize]
    }
    /// `prev_comm=... prev_pid=... prev_prio=... prev_state=`
    #[inline]
    pub(super) fn prev(&self) -> &[u8] {
        &self.text[self.begin as usize..self.prev as usize]
    }
    /// `next_comm=... next_pid=... next_prio=...` and a newline.
    #[inline]
    pub(super) fn next(&self) -> &[u8] {
        &self.text[self.prev as usize..self.next as usize]
    }
    /// `comm=... pid=... prio=...`
    #[inline]
    pub(super) fn who(&self) -> &[u8] {
        &self.text[self.next as usize..]
    }
    #[inline]
    pub(super) fn name(&self) -> &[u8] {
        &self.text[self.next as usize + COMM.len()..self.name as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Actor;

    fn fields(cast: &Cast, task: Option<u32>, cpu: u32) -> [String; 5] {
        let mut names = Names::new(cast);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let made = |names: &mut Names<'_>| {
            let fields = names.of(task.map(TaskId), CpuId(cpu));
            [fields.current(), fields.prev(), fields.next(), fields.who(), fields.name()].map(text)
        };
        let first = made(&mut names);
        assert_eq!(made(&mut names), first, "they are the same when they are known");
        task.inspect(|&task| names.forget(TaskId(task)));
        assert_eq!(made(&mut names), first, "and when they are made anew");
        first
    }
    fn expected(current: &str, comm: &str, pid: u32, prio: i32) -> [String; 5] {
        [
            format!("{current:>16}-{pid:<7} "),
            format!("prev_comm={comm} prev_pid={pid} prev_prio={prio} prev_state="),
            format!("next_comm={comm} next_pid={pid} next_prio={prio}\n"),
            format!("comm={comm} pid={pid} prio={prio}"),
            comm.to_owned(),
        ]
    }

    #[test]
    fn fields_are_those_of_formats_whatever_the_name() {
        // Harmless; escaped; more bytes than columns; longer than its column; empty.
        let names = [
            ("a", "a"),
            ("a\nb\u{1b}[m", "a\\u000ab\\u001b[m"),
            ("J\u{f6}rg \u{65e5}", "J\u{f6}rg \u{65e5}"),
            ("a name that is long for a comm", "a name that is long for a comm"),
            ("", ""),
        ];
        for ((told, shown), (tid, prio)) in
            names.into_iter().zip([(1, -1), (2, 0), (7_654_321, 120)].into_iter().cycle())
        {
            let group = None;
            let actor = Actor { name: told.to_owned(), tid, process: tid, background: false, prio, group };
            let cast = Cast { tasks: vec![actor], cpus: 1, ..Cast::default() };
            assert_eq!(fields(&cast, Some(0), 0), expected(shown, shown, tid, prio));
        }
    }

    #[test]
    fn strangers_and_idle_tasks_have_names() {
        let cast = Cast::default();
        assert_eq!(fields(&cast, Some(5), 0), expected("task 5", "task 5", (1 << 23) + 5, 120));
        assert_eq!(fields(&cast, None, 31), expected("<idle>", "swapper/31", 0, 120));
    }
}
