//! Events of one CPU, collected to be written as one bundle.
//!
//! Most of a run are switches and wakeups. They are stored as arrays of numbers, with times as differences
//! (`compact_sched`), in a fifth of the size of messages. Readers take the leaving task, and the waker, from the
//! previous switch on the same CPU. So a CPU's first switch, and events before it, are messages.

use super::wire::Wire;
use schedlab_base::TaskId;

/// A bundle with this many events is written.
const MOST: u32 = 2048;
/// Number of tasks whose names are remembered. Others' names are written again, which is allowed.
const SLOTS: usize = 64;

/// Each array has encoded numbers.
#[derive(Default)]
pub(super) struct Bundle {
    /// Encoded messages (`event`).
    pub(super) events: Vec<u8>,
    switches: Arrays<5>,
    wakings: Arrays<6>,
    names: Names,
    /// Number of all events.
    count: u32,
    /// Whether the CPU has had a switch.
    pub(super) switched: bool,
    /// Whether events were lost before this bundle.
    lost: bool,
}

/// A switch in the arrays.
pub(super) struct Switched {
    pub(super) at: u64,
    pub(super) prev_state: i64,
    pub(super) next_pid: i32,
    pub(super) next_prio: i32,
}

/// A wakeup in the arrays.
pub(super) struct Waked {
    pub(super) at: u64,
    pub(super) pid: i32,
    pub(super) target_cpu: u32,
    pub(super) prio: i32,
    pub(super) flags: u32,
}

impl Bundle {
    /// Whether the arrays of switches accept that time: times in them must not decrease.
    pub(super) fn takes_switch(&self, at: u64) -> bool {
        self.switched && at >= self.switches.last
    }
    /// Whether the arrays of wakeups accept that time.
    pub(super) fn takes_waking(&self, at: u64) -> bool {
        self.switched && at >= self.wakings.last
    }
    pub(super) fn counts(&mut self) {
        self.count += 1;
    }
    /// Adds a switch to a task with that name; `None`: the idle task.
    pub(super) fn switch(&mut self, s: &Switched, next: Option<TaskId>, name: &str) {
        let name = self.names.number(next, name);
        let numbers = [s.prev_state as u64, s.next_pid as u64, s.next_prio as u64, name];
        self.switches.add(s.at, numbers);
        self.count += 1;
    }
    pub(super) fn waking(&mut self, w: &Waked, task: TaskId, name: &str) {
        let name = self.names.number(Some(task), name);
        let numbers = [w.pid as u64, w.target_cpu.into(), w.prio as u64, name, w.flags.into()];
        self.wakings.add(w.at, numbers);
        self.count += 1;
    }
    /// Whether the bundle must be written.
    pub(super) fn is_full(&self) -> bool {
        self.count >= MOST
    }
    /// Notes lost events: the next event does not follow the previous one.
    pub(super) fn loses(&mut self) {
        (self.switched, self.lost) = (false, true);
    }
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Writes the bundle as fields of a `FtraceEventBundle`, and empties it.
    pub(super) fn write(&mut self, cpu: u32, out: &mut Vec<u8>) {
        out.uint(1, cpu.into());
        if std::mem::take(&mut self.lost) {
            out.uint(3, 1);
        }
        out.extend_from_slice(&self.events);
        if !self.names.table.is_empty() {
            let compact = out.open(4);
            self.switches.write(out, [1, 2, 3, 4, 6]);
            out.extend_from_slice(&self.names.table);
            self.wakings.write(out, [7, 8, 9, 10, 11, 12]);
            out.close(compact);
        }
        self.events.clear();
        self.switches.clear();
        self.wakings.clear();
        self.names.clear();
        self.count = 0;
    }
}

/// `N` arrays of encoded numbers. The first has times.
struct Arrays<const N: usize> {
    arrays: [Vec<u8>; N],
    last: u64,
}

impl<const N: usize> Default for Arrays<N> {
    fn default() -> Self {
        Arrays { arrays: std::array::from_fn(|_| Vec::new()), last: 0 }
    }
}

impl<const N: usize> Arrays<N> {
    /// `M` is `N - 1`.
    #[inline]
    fn add<const M: usize>(&mut self, at: u64, numbers: [u64; M]) {
        const { assert!(M + 1 == N) };
        let (times, rest) = self.arrays.split_at_mut(1);
        times[0].varint(at - self.last);
        self.last = at;
        rest.iter_mut().zip(numbers).for_each(|(array, number)| array.varint(number));
    }
    fn write(&self, out: &mut Vec<u8>, tags: [u32; N]) {
        self.arrays.iter().zip(tags).filter(|(a, _)| !a.is_empty()).for_each(|(a, tag)| out.bytes(tag, a));
    }
    /// Empties the arrays; times count from 0 again.
    fn clear(&mut self) {
        self.arrays.iter_mut().for_each(Vec::clear);
        self.last = 0;
    }
}

/// The bundle's table of names.
struct Names {
    /// The encoded table (`intern_table`).
    table: Vec<u8>,
    count: u64,
    /// Cache of interned names, indexed by the low bits of task id + 1: (task + 1, table index + 1); 0 is empty.
    slots: [(u32, u32); SLOTS],
}

impl Default for Names {
    fn default() -> Self {
        Names { table: Vec::new(), count: 0, slots: [(0, 0); SLOTS] }
    }
}

impl Names {
    #[inline]
    fn number(&mut self, task: Option<TaskId>, name: &str) -> u64 {
        let key = task.map_or(0, |t| t.0 + 1);
        let slot = &mut self.slots[key as usize % SLOTS];
        if slot.0 == key && slot.1 != 0 {
            return u64::from(slot.1) - 1;
        }
        *slot = (key, self.count as u32 + 1);
        self.table.bytes(5, name.as_bytes());
        self.count += 1;
        self.count - 1
    }
    fn clear(&mut self) {
        self.table.clear();
        self.count = 0;
        self.slots = [(0, 0); SLOTS];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perfetto::message::Message;
    use crate::perfetto::messages::FtraceEventBundle;

    fn switch(bundle: &mut Bundle, at: u64, task: u32) {
        let s = Switched { at, prev_state: 0x100, next_pid: task as i32 + 1000, next_prio: 120 };
        bundle.switch(&s, Some(TaskId(task)), &format!("task-{task}"));
    }
    fn written(bundle: &mut Bundle) -> FtraceEventBundle {
        let mut out = Vec::new();
        bundle.write(3, &mut out);
        FtraceEventBundle::read(&out).unwrap()
    }

    #[test]
    fn names_are_written_once_unless_their_slots_collide_and_times_are_differences() {
        let mut bundle = Bundle { switched: true, ..Bundle::default() };
        let tasks = [1, 2, 1, 1 + SLOTS as u32, 1];
        tasks.iter().zip([10, 10, 15, 400, 90_000]).for_each(|(task, at)| switch(&mut bundle, at, *task));
        let told = written(&mut bundle);
        let compact = told.compact_sched.as_ref().unwrap();
        assert_eq!(compact.switch_timestamp, [10, 0, 5, 385, 89_600]);
        let names: Vec<&str> = compact
            .switch_next_comm_index
            .iter()
            .map(|i| compact.intern_table[*i as usize].as_str())
            .collect();
        assert_eq!(names, ["task-1", "task-2", "task-1", &format!("task-{}", 1 + SLOTS), "task-1"]);
        assert_eq!(compact.intern_table.len(), 4);
        assert_eq!((told.cpu, told.switches().len()), (Some(3), 5));
        // The next bundle starts from scratch.
        switch(&mut bundle, 90_001, 2);
        let next = written(&mut bundle);
        assert_eq!(next.switches()[0].at, 90_001);
        assert_eq!(next.switches()[0].next_comm, "task-2");
    }

    #[test]
    fn times_do_not_go_back_in_an_array() {
        let mut bundle = Bundle::default();
        assert!(!bundle.takes_switch(5), "the first switch of a CPU is a message");
        bundle.switched = true;
        switch(&mut bundle, 10, 1);
        assert!(bundle.takes_switch(10) && !bundle.takes_switch(9) && bundle.takes_waking(0));
    }
}
