//! `schedlab try` on the kernel's own code: loads that stop, lines that never run, patches that fit nowhere.

use crate::code::{has_source, has_source_of};
use crate::common::{Lab, texts};

const LOSE: &str = include_str!("cases/first-hour/lose5-612.patch");
const HALF: &str = include_str!("cases/first-hour/newidle-half-612.patch");

/// Whether the cache has the source that these patches were made for.
fn has_612() -> bool {
    has_source_of("6.12")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A patch that drops wakeups of one task in eight: pipe never ends, and its other figures look better.
#[test]
fn a_kernel_that_loses_wakeups_is_a_loss_in_page_mail_and_exit_code() {
    if !has_612() {
        return;
    }
    let lab = Lab::new();
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

/// A gate by the cost of newidle passes: level free sees no cost, and the page says so.
#[test]
fn the_page_reports_whether_the_patchs_lines_ran_and_the_limits_of_the_level() {
    if !has_612() {
        return;
    }
    let lab = Lab::new();
    lab.write("half.patch", HALF);
    let words = ["try", "half.patch", "--backend", "code", "--machine", "smp-8", "--load", "hackbench"];
    // The series that the patch fits is found and reported.
    let (out, err) = lab.run(&[&words[..], &["--level", "free", "--runs", "2"]].concat(), 0);
    assert!(err.contains("the patch fits linux-source-6.12"), "{err}");
    let text = one_line(&out);
    assert!(text.contains("Lines that the patch changes, visits in one run of each load:"), "{out}");
    assert!(text.contains("kernel/sched/fair.c:12918 (sched_balance_newidle):"), "{out}");
    assert!(text.contains("in hackbench ") && text.contains("--level woven charges it"), "{out}");
    assert!(!text.contains("the switch did nothing"), "a patch has no switch: {out}");
    // Images in the cache need no compiler.
    let mut again = lab.command(&[&words[..], &["--level", "free", "--runs", "2"]].concat());
    let output = again.env("PATH", lab.path()).output().unwrap();
    let (page, said) = texts(&output);
    assert!(output.status.success() && said.contains("gcc is not here: taking what gcc"), "{said}");
    assert!(page.contains("Nothing moved") || page.contains("For a mail:"), "{page}");
    // Two runs can show nothing; page and mail say so first.
    let mail = text.split_once("For a mail:").unwrap().1;
    assert!(mail.trim_start().starts_with("These runs can show no change"), "{mail}");
}

#[test]
fn a_patch_that_does_not_apply_is_refused_before_a_build() {
    if !has_source() {
        return;
    }
    let lab = Lab::new();
    lab.write("no.patch", &HALF.replace("sd->max_newidle_lb_cost", "no_such_member"));
    for source in [&["--source", "6.1"][..], &[]] {
        let words = [&["try", "no.patch", "--backend", "code", "--machine", "smp-8"][..], source].concat();
        let (out, err) = lab.run(&words, 2);
        assert!(!err.contains("building") && !err.contains("configuring") && out.is_empty(), "{err}");
        let why = if source.is_empty() {
            "fits none of the series at hand"
        } else {
            "does not apply to linux-source-6.1"
        };
        assert!(err.contains(why), "{err}");
    }
}
