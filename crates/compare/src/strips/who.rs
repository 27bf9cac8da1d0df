//! The values of a track of tasks: which task ran, and why the stay ended.
//!
//! A value is 16 times the task's id plus 16, or 0 for the idle task, plus the reason for the end: 0 if unknown, else
//! the row of [`SwitchReason`] plus 1.

use schedlab_base::TaskId;
use schedlab_trace::SwitchReason;

const BITS: u32 = 4;
const REASON: u32 = (1 << BITS) - 1;
const _: () = assert!(SwitchReason::ALL.len() < REASON as usize);

/// The value while a task runs; `None` is the idle task.
pub fn runs(task: Option<TaskId>) -> u32 {
    task.map_or(0, |t| (t.index() as u32 + 1) << BITS)
}
/// The value of the same stay with a reason for its end.
pub fn ended(value: u32, why: SwitchReason) -> u32 {
    (value & !REASON) | (why as u32 + 1)
}
/// The value without the reason.
pub fn task_alone(value: u32) -> u32 {
    value & !REASON
}
/// The task of a value; `None` is the idle task.
pub fn task(value: u32) -> Option<TaskId> {
    (value >> BITS).checked_sub(1).map(TaskId)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_task_and_reason() {
        let value = ended(runs(Some(TaskId(7))), SwitchReason::TickSlice);
        assert_eq!((task(value), value & REASON), (Some(TaskId(7)), SwitchReason::TickSlice as u32 + 1));
        assert_eq!(task_alone(value), runs(Some(TaskId(7))));
        assert_eq!((task(runs(None)), runs(Some(TaskId(0)))), (None, 16));
    }
}
