//! An image's functions: those that may be left in the middle by number, the others by name.

use crate::abi::{
    Attr, RawAnswer, RawCosts, RawFleet, RawFleetAnswer, RawMachine, RawNewTask, RawQuestion, RawSample,
    RawStubs, RawTree, RawTreeAnswer, RawView, Usage,
};
use crate::load::Image;
use crate::loader::Handle;
use schedlab_base::Result;
use schedlab_board::objects::Touched;
use std::ffi::{c_char, c_int, c_uint, c_ulong, c_ulonglong, c_void};

/// Verbs of plain numbers that may be left in the middle where CPUs are woven: the rows of `IMG_WOVEN` in `abi.h`, with
/// the words for what each of them stands for. The image checks numbers, and ends the process where one names nothing.
macro_rules! woven {
    ($(
        $(#[$doc:meta])*
        $verb:ident = $name:ident($($argument:ident: $type:ty),*) $(-> $result:ident)?, $words:literal;
    )*) => {
        /// `enum img_verb`.
        #[repr(i32)]
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Verb { $($verb,)* }
        impl Verb {
            /// All of them in order: name, number of arguments, and what it stands for.
            const ROWS: &[(Verb, &str, usize, &str)] =
                &[$((Verb::$verb, stringify!($name), <[&str]>::len(&[$(stringify!($argument)),*]), $words),)*];
        }
        impl Image {
            $($(#[$doc])*
            pub fn $name(&mut self, $($argument: $type),*) $(-> $result)? {
                let said = self.act(Verb::$verb, &[$($argument as u64),*]);
                woven!(@of said $($result)?)
            })*
        }
    };
    (@of $said:ident) => { _ = $said };
    (@of $said:ident bool) => { $said != 0 };
}

woven! {
    /// The clock event device fires; `user`: it interrupted user mode.
    IrqTimer = irq_timer(user: bool), "the timer's interrupt";
    IrqResched = irq_resched(), "a reschedule interrupt";
    IrqCall = irq_call(), "a call interrupt";
    /// Before the CPU halts.
    IdleEnter = idle_enter(), "the way to a halt";
    /// After an interrupt, or where it polls and its flag is set.
    IdleLeave = idle_leave(), "the way out of a halt";
    /// Preemption.
    Schedule = schedule(), "schedule()";
    /// A timer is to wake the current task.
    StartTimer = start_timer(until: u64, slack_ns: u64), "hrtimer_start()";
    YieldNow = yield_now(), "yield()";
    Exit = exit(), "exit()";
    Exec = exec(), "sched_exec()";
    /// Work on the way to user mode.
    UserWork = user_work(), "task work";
    /// The stopper or ksoftirqd does its work, or sleeps.
    Kthread = kthread(), "a kernel thread's work";
    /// A call that was left in the middle continues.
    Resume = resume(), "the rest of a call";
    /// Wakes a task; whether it was asleep.
    Wake = wake(pid: i32, sync: bool) -> bool, "a wakeup";
    TaskStart = task_start(pid: i32), "wake_up_new_task()";
}

impl Verb {
    /// The verb of that number.
    pub fn numbered(number: usize) -> Option<Verb> {
        Verb::ROWS.get(number).map(|row| row.0)
    }
    /// What it stands for.
    pub fn words(self) -> &'static str {
        Verb::ROWS[self as usize].3
    }
}

/// The image's other functions, with the types of `abi.h`.
macro_rules! verbs {
    ($($name:ident($($type:ty),*) $(-> $result:ty)?;)*) => {
        /// Their names, and how many arguments they have.
        #[cfg(test)]
        const DECLARED: &[(&str, usize)] = &[$((stringify!($name), <[&str]>::len(&[$(stringify!($type)),*])),)*];
        pub(crate) struct Verbs {
            $(pub(crate) $name: unsafe extern "C" fn($($type),*) $(-> $result)?,)*
        }
        impl Verbs {
            pub(crate) fn of(handle: Handle) -> Result<Verbs> {
                // SAFETY: a symbol of that name is a function of that type, which abi.h declares and img_abi() checks.
                $(let $name = unsafe { std::mem::transmute::<
                    *mut c_void, unsafe extern "C" fn($($type),*) $(-> $result)?,
                >(handle.symbol(stringify!($name))?) };)*
                Ok(Verbs { $($name,)* })
            }
        }
    };
}

verbs! {
    img_abi() -> c_int;
    img_sizes(*mut c_uint, c_int) -> c_int;
    img_stubs(*mut RawStubs);
    img_last_words() -> *const c_char;
    img_memory_at(*const c_void, *mut *mut c_void) -> *const c_char;
    img_boot(*const RawMachine) -> c_int;
    img_seed(c_ulonglong);
    img_count(*const RawCosts) -> c_int;
    img_instruction(c_uint);
    img_apart(c_int);
    img_take_charge_ns() -> u64;
    img_samples(*mut c_ulonglong) -> *const RawSample;
    img_forget_samples();
    img_weave(c_int);
    img_do(c_int, c_ulonglong, c_ulonglong, c_int) -> c_int;
    img_continue();
    img_finish();
    img_object(c_uint) -> *const c_void;
    img_touch(*const Touched, c_uint);
    img_audit();
    img_explain();
    img_enter(c_int) -> *const RawView;
    img_turn_to(c_int);
    img_clear();
    img_irq_idle_tick();
    img_irq_device(*const c_int, c_uint);
    img_prepare_sleep(c_int);
    img_timed_out(c_int) -> c_int;
    img_set_timer(c_int, c_ulonglong, c_ulonglong);
    img_single_task() -> c_int;
    img_kthread_pid(c_int, c_int) -> c_int;
    img_task_new(*const RawNewTask) -> c_int;
    img_set_attr(c_int, *const Attr) -> c_int;
    img_set_affinity(c_int, *const c_ulong) -> c_int;
    img_confine(c_int, *const c_ulong) -> c_int;
    img_usage(c_int, *mut Usage);
    img_ask(*const RawQuestion, *mut RawAnswer) -> c_int;
    img_ask_fleet(*const RawFleet, *mut RawFleetAnswer) -> c_int;
    img_ask_tree(*const RawTree, *mut RawTreeAnswer) -> c_int;
    img_group_new(c_int) -> c_int;
    img_group_write(c_int, *const c_char, *const c_char) -> c_int;
    img_group_read(c_int, *const c_char, *mut c_char, c_int) -> c_int;
    img_group_throttled(c_int) -> u64;
    img_group_move(c_int, c_int) -> c_int;
    img_session_new(c_int) -> c_int;
    img_task_slept(c_int);
    img_feature(*const c_char, c_int) -> c_int;
    img_feature_name(c_int, *mut c_int) -> *const c_char;
    img_tunable(*const c_char, *const c_char) -> c_int;
    img_tunable_name(c_int, *mut c_char, c_int) -> *const c_char;
    img_schedstat(*mut c_char, c_int) -> c_int;
    img_domains(c_int, *mut c_char, c_int) -> c_int;
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABI_H: &str = include_str!("../shim/abi.h");

    /// How many parameters a list has that begins behind its parenthesis.
    fn parameters(list: &str) -> usize {
        let list = list.split(')').next().unwrap().trim();
        if list.is_empty() || list == "void" { 0 } else { list.split(',').count() }
    }

    #[test]
    fn woven_verbs_are_the_rows_of_abi_h_in_their_order() {
        let rows = ABI_H.lines().filter_map(|line| line.trim_start().strip_prefix("VERB("));
        let row = |row: &'static str| {
            let (name, rest) = row.split_once(',').unwrap();
            (name, parameters(rest.split_once('(').unwrap().1))
        };
        let rows: Vec<(&str, usize)> = rows.map(row).collect();
        let ours: Vec<(&str, usize)> = Verb::ROWS.iter().map(|(_, name, n, _)| (*name, *n)).collect();
        assert_eq!(ours, rows);
        assert!(Verb::ROWS.iter().enumerate().all(|(i, row)| row.0 as usize == i));
    }

    #[test]
    fn the_other_verbs_are_declared_in_abi_h() {
        let code = |line: &'static str| (!line.starts_with(" *")).then(|| line.split("/*").next()).flatten();
        let lines: Vec<&str> = ABI_H.lines().filter_map(code).collect();
        for (name, n) in DECLARED {
            let begins = format!("{name}(");
            let list = lines.iter().find_map(|line| line.split_once(&begins));
            assert_eq!(list.map(|(_, list)| parameters(list)), Some(*n), "{name}");
        }
    }

    #[test]
    fn a_verb_is_named_by_its_number() {
        let words = |number| Verb::numbered(number).map(Verb::words);
        assert_eq!((words(0), words(14)), (Some("the timer's interrupt"), Some("wake_up_new_task()")));
        assert_eq!(words(15), None);
    }
}
