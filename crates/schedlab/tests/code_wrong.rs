//! Kernels that do what none may, on backend `code`. Their faults are reported with the calls that led to them. The
//! patches are ours, of 6.1, and so are their faults; more of them are in `texts/code_wrong.txt`.

use crate::code::lab_of;

/// What is said of a patch whose run ends.
fn ends(patch: &str, words: &[&str]) {
    let Some(lab) = lab_of("6.1") else { return };
    lab.write("it.patch", patch);
    lab.write("it.toml", include_str!("texts/hackbench.toml"));
    lab.says("run it.toml --backend code --json --quiet", 2, words);
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
