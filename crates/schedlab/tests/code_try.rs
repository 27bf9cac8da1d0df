//! `schedlab try` on the kernel's own code: loads that stop, lines that never run, patches that fit nowhere.

use crate::code::lab_of;
use crate::common::texts;

const LOSE: &str = include_str!("cases/first-hour/lose5-612.patch");

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A patch that drops wakeups of one task in eight: pipe never ends, and its other figures look better.
#[test]
fn a_kernel_that_loses_wakeups_is_a_loss_in_page_mail_and_exit_code() {
    let Some(lab) = lab_of("6.12") else { return };
    lab.write("lose.patch", LOSE);
    let words = ["try", "lose.patch", "--backend", "code", "--level", "free", "--machine", "smp-8"];
    let more = ["--load", "pipe", "--runs", "6", "-q"];
    let output = lab.command(&[&words[..], &more].concat()).output().unwrap();
    let (out, err) = texts(&output);
    assert_ne!(output.status.code(), Some(0), "{out}{err}");
    if out.is_empty() {
        // The engine noticed the lost task before the load's end.
        assert!(err.contains("pipe") && err.contains("patched"), "it names load and variant: {err}");
        return;
    }
    let (page, mail) = out.split_once("For a mail:").unwrap();
    assert!(one_line(page).contains("Losses: 1 ! pipe pairs on smp-8: cut off under patched"), "{page}");
    assert!(one_line(mail).starts_with("STOPPED: pipe pairs on smp-8: cut off under patched"), "{mail}");
    assert!(one_line(mail).contains("1 load stopped, 0 of"), "{mail}");
    assert!(err.contains("1 load stopped") && !out.contains("give it a longer runtime"), "{err}{out}");
}
