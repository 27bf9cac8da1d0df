//! Bisections of a repository of anything: a small program, built and run on the running kernel.

use crate::common::{Lab, texts};
use serde_json::Value;

/// Six commits, of which the third does not build and the fifth makes the program slower. Returns the fifth.
///
/// From the first to the fifth git begins with the third, which alone halves them. Of two that halve them as well it
/// would take the one with the lower hash, which depends on the second of the commit.
fn repository(lab: &Lab) -> String {
    let repo = lab.path().join("repo");
    std::fs::create_dir(&repo).unwrap();
    let git = |words: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.current_dir(&repo).args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(words);
        let said = command.output().unwrap();
        assert!(said.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&said.stderr));
        String::from_utf8_lossy(&said.stdout).trim().to_owned()
    };
    git(&["init", "-q"]);
    let fast = "sleep 0.02\necho \"score: $((100 + SCHEDLAB_SEED % 3))\"\n";
    let slow = "sleep 0.2\necho \"score: $((200 + SCHEDLAB_SEED % 3))\"\n";
    let commit = |program: &str, build: &str, subject: &str| {
        lab.write("repo/program.in", &format!("#!/bin/sh\n[ -n \"$1\" ] || exit 7\n{program}"));
        lab.write("repo/build.sh", &format!("{build}# {subject}\n"));
        git(&["add", "-f", "."]);
        git(&["commit", "-qm", subject]);
        git(&["rev-parse", "HEAD"])
    };
    let good = "cp program.in program && chmod +x program\n";
    commit(fast, good, "first");
    commit(fast, good, "comment");
    commit(fast, "echo 'program.c:7: error: no' >&2; exit 1\n", "does not build");
    commit(fast, good, "more");
    let first = commit(slow, good, "slower");
    commit(slow, good, "last");
    first
}

fn bisected(lab: &Lab, line: &str) -> (Value, String) {
    let mut command = lab.command(line);
    let output = command.env("SCHEDLAB_CACHE_DIR", lab.path().join("cache")).output().unwrap();
    let (out, said) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    (serde_json::from_str(&out).unwrap(), said)
}

#[test]
fn the_commit_that_made_a_program_slower_is_found_and_the_users_tree_stays() {
    let lab = Lab::new();
    let first = repository(&lab);
    lab.write("repo/program.in", "not committed");
    let score = "--metric-regex 'score=score: ([0-9]+)'";
    let cache = lab.path().join("cache/sources");
    let folder = || std::fs::read_dir(&cache).ok()?.flatten().next().map(|e| e.path());
    for figure in ["", score, &format!("{score} --metric score")] {
        if let Some(folder) = folder() {
            // As an interrupted bisection with another line leaves it.
            std::fs::create_dir_all(folder.join("built-000000000000-00000000/made")).unwrap();
        }
        let line = format!(
            "bisect --repository repo --good HEAD~5 --build 'sh build.sh' {figure} --json -- ./program x"
        );
        let (found, said) = bisected(&lab, &line);
        let firsts = found["first"].as_array().unwrap();
        assert_eq!((firsts.len(), &firsts[0]["hash"]), (1, &Value::from(first.as_str())), "{found}");
        assert!(found["bad"].as_f64() > found["good"].as_f64().map(|v| 1.5 * v), "{found}");
        assert!(
            found["steps"].as_array().unwrap().iter().all(|s| s["side"].is_null() || s["settled"] == true)
        );
        assert!(said.contains("old: ") && said.contains("new: "), "{said}");
    }
    assert_eq!(lab.text("repo/program.in"), "not committed");
    assert!(!lab.path().join("repo/program").exists() && !lab.path().join("repo/.git/worktrees").exists());
    let left = |e: &std::fs::DirEntry| e.file_name().to_string_lossy().starts_with("built-");
    assert_eq!(
        std::fs::read_dir(folder().unwrap()).unwrap().flatten().filter(left).count(),
        0,
        "folders of commits"
    );
}

#[test]
fn a_commit_that_does_not_build_or_fails_is_passed_over_and_ends_must_differ() {
    let lab = Lab::new();
    repository(&lab);
    let line =
        "bisect --repository repo --good HEAD~5 --bad HEAD~1 --build 'sh build.sh' --json -- ./program x";
    let (found, said) = bisected(&lab, line);
    assert_eq!(found["first"].as_array().unwrap().len(), 1, "{found}");
    assert!(said.contains("passed over: ") && said.contains("program.c:7: error: no"), "{said}");
    let says = |line: &str, code: i32, part: &str| {
        let mut command = lab.command(line);
        let output = command.env("SCHEDLAB_CACHE_DIR", lab.path().join("cache")).output().unwrap();
        let said = texts(&output).1;
        assert!(output.status.code() == Some(code) && said.contains(part), "{line}: {said}");
    };
    let of = "bisect --repository repo --good HEAD~5 --build 'sh build.sh'";
    says(&format!("{of} --bad HEAD~4 -- ./program x"), 2, "does not differ between");
    says(
        &format!("{of} --bad HEAD~3 -- ./program x"),
        2,
        "does not build: the build failed (exit status: 1):\n  program.c:7",
    );
    says(&format!("{of} --bad HEAD~5 -- ./program x"), 2, "are one commit");
    says(&format!("{of} -- ./program"), 2, "ended with exit code 7");
    says(&format!("{of} -- ./other"), 2, "the build made no program './other'");
    says(&format!("{of} --metric odd -- ./program x"), 2, "--metric");
    let two = "--metric-regex 'a=(1)' --metric-regex 'b=(1)'";
    says(&format!("{of} {two} -- ./program x"), 2, "program.a, program.b, command.elapsed");
    let all = "--metric-regex 'a[s,all]=(1)'";
    says(&format!("{of} {all} -- ./program x"), 2, "name one of program.a, command.elapsed");
    says(&format!("{of} {all} --metric a.mean --bad HEAD~5 -- ./program x"), 2, "are one commit");
    says(&format!("{of} --load hogs"), 2, "--build builds something that is not measured");
}
