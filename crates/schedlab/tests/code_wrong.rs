//! Kernels that do what no kernel may do, on backend 'code': each fault is noticed, with the place or the task. We
//! wrote the patches of 6.1 and their faults.

use crate::code::has_source;
use crate::common::{Lab, texts};

const HACKBENCH: &str = "name = \"hackbench\"\ngroups = 4\nruntime = \"20s\"";
/// More real-time tasks than CPUs, and fair tasks that compute.
const FIFO: &str = "rtapp_text = '{ \"global\": { \"duration\": 1 }, \"tasks\": { \"fifo\": { \"instance\": 6, \
     \"policy\": \"SCHED_FIFO\", \"priority\": 5, \"loop\": -1, \"run\": 900, \"sleep\": 2100 }, \
     \"hog\": { \"instance\": 4, \"loop\": -1, \"run\": 50000, \"sleep\": 100 } } }'";

/// Runs a workload on a kernel with a patch; exit code, standard output and standard error.
fn run_patched(lab: &Lab, patch: &str, load: &str) -> (i32, String, String) {
    lab.write("it.patch", patch);
    let text = format!(
        "name = \"wrong\"\nmachine = \"smp-4\"\nruns = 1\n[workload]\n{load}\n[[variant]]\nkernel = \"6.1\"\n\
         patch = [\"it.patch\"]\n"
    );
    lab.write("it.toml", &text);
    let output = lab.command(&["run", "it.toml", "--backend", "code", "--json", "--quiet"]).output().unwrap();
    let (out, said) = texts(&output);
    (output.status.code().unwrap_or(-1), out, said)
}

/// Checks the message about a patch whose run ends.
fn ends(patch: &str, words: &[&str]) {
    if !has_source() {
        return;
    }
    let (code, _, said) = run_patched(&Lab::new(), patch, HACKBENCH);
    assert_eq!(code, 2, "{said}");
    words.iter().for_each(|words| assert!(said.contains(words), "{words}: {said}"));
}

/// Checks the warnings of a patch's run.
fn warns(patch: &str, words: &[&str]) {
    warns_under(HACKBENCH, patch, words);
}
fn warns_under(load: &str, patch: &str, words: &[&str]) {
    if !has_source() {
        return;
    }
    let (code, out, said) = run_patched(&Lab::new(), patch, load);
    assert_eq!(code, 0, "{said}");
    let made: serde_json::Value = serde_json::from_str(&out).unwrap();
    let warnings = made["warnings"].to_string();
    words.iter().for_each(|words| assert!(warnings.contains(words), "{words}: {warnings}"));
}

#[test]
fn a_task_that_is_not_enqueued_is_lost_with_its_name_time_and_last_event() {
    let words =
        ["has lost task 'receiver-", "at ", "no queue has it", "ttwu_do_wakeup", "sched_wakeup on CPU "];
    ends(include_str!("cases/files/hostile-lose.patch"), &words);
}

#[test]
fn a_cpu_that_goes_idle_with_queued_tasks_is_a_warning() {
    let words = ["goes idle with", "on its queue (rq->nr_running)", "times; this is the first"];
    warns(include_str!("cases/files/hostile-picknull.patch"), &words);
}

#[test]
fn a_task_of_a_higher_class_that_nothing_reschedules_for_is_a_warning() {
    let words = ["'fifo-", "waits behind 'hog-", "need_resched is not set", "times; this is the first"];
    warns_under(FIFO, include_str!("cases/files/hostile-no-resched.patch"), &words);
}

#[test]
fn a_waiting_real_time_task_that_no_cpu_can_pull_is_a_warning() {
    warns_under(
        FIFO,
        include_str!("cases/files/hostile-not-pushable.patch"),
        &["'fifo-", "not one of its pushable tasks"],
    );
}

#[test]
fn a_running_task_that_is_not_on_a_cpu_is_a_warning() {
    warns(include_str!("cases/files/hostile-not-on-cpu.patch"), &["and its on_cpu is 0"]);
}

#[test]
fn an_extra_unlock_is_reported_where_the_lock_is_taken_next() {
    let words = ["released more often than it was taken (from scheduler_tick at kernel/sched/core.c:"];
    ends(include_str!("cases/files/hostile-unlock2.patch"), &words);
}

#[test]
fn a_call_of_nothing_names_its_caller() {
    let words = [
        "calls 0x0, where no function is (from update_curr at kernel/sched/fair.c:",
        "\n    update_curr at kernel/sched/fair.c:",
    ];
    ends(include_str!("cases/files/hostile-nullcall.patch"), &words);
}

#[test]
fn an_exit_of_the_process_is_blamed_on_the_kernels_code() {
    ends(include_str!("cases/files/hostile-exit0.patch"), &["ended the process (exit status 0)"]);
}

#[test]
fn a_silent_tracepoint_is_a_warning_and_the_image_is_of_no_processor() {
    let words = ["which slept, runs on CPU", "no sched_wakeup has said that it was woken"];
    warns(include_str!("cases/files/hostile-silent-wakeup.patch"), &words);
}

#[test]
fn changes_and_files_of_the_part_for_code_are_checked_at_their_places() {
    let lab = Lab::new();
    let head =
        "name = \"k\"\nmachine = \"smp-2\"\nruns = 1\n[workload]\nname = \"pipe\"\nloops = 10\n[[variant]]\n";
    let refused = |text: &str, words: &[&str]| {
        lab.write("k.toml", &format!("{head}{text}"));
        let (_, said) = lab.run(&["run", "k.toml", "--backend", "code"], 2);
        words.iter().for_each(|words| assert!(said.contains(words), "{words}: {said}"));
    };
    let change = "kernel = \"v6.1\"\n[[code.at]]\n";
    refused(&format!("{change}at = \"1ms\"\n"), &["k.toml:10:1", "'at'"]);
    refused(
        &format!("{change}time = \"1ms\"\nfeatures = [\"NO_TTWU_QUEUE\", \"X\"]\n"),
        &["k.toml:11:30", "unknown feature 'X'"],
    );
    refused(
        "kernel = \"v6.1\"\n[[code.variant]]\nname = \"p\"\nkernel = \"6.1\"\npatch = [\"gone.patch\"]\n",
        &["k.toml:12:10", "can't read gone.patch"],
    );
}
