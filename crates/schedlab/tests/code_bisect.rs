//! A bisection on backend 'code': four commits of 6.1's scheduler, of which one moves a metric.

use crate::code::has_source;
use crate::common::{Lab, texts};
use schedlab_base::testing::skipped;
use schedlab_kernels::cache;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The tree of 6.1 in the cache.
fn source() -> Option<PathBuf> {
    let folders = std::fs::read_dir(cache::folder(None).ok()?.join("sources")).ok()?;
    let is_61 = |path: &PathBuf| path.to_string_lossy().contains("/linux-source-6.1_");
    Some(folders.flatten().map(|e| e.path()).find(is_61)?.join("tree"))
}

fn git(lab: &Lab, words: &[&str]) -> String {
    let mut command = Command::new("git");
    command
        .current_dir(lab.path().join("linux"))
        .args(["-c", "user.name=a", "-c", "user.email=a@b"])
        .args(words);
    let said = command.output().unwrap();
    assert!(said.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&said.stderr));
    String::from_utf8_lossy(&said.stdout).trim().to_owned()
}

/// Whether an image's build may read a file of the tree. A whole tree would take minutes.
fn is_of_build(file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or(file);
    let folders = "kernel lib include scripts tools/include drivers/cpuidle init io_uring mm";
    ["Kconfig", "Makefile", "Kbuild"].iter().any(|kind| name.starts_with(kind))
        || folders.split(' ').any(|folder| file.starts_with(&format!("{folder}/")))
        || file == "fs/seq_file.c"
}

fn files_below(tree: &Path, folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        let file = path.strip_prefix(tree).unwrap().to_string_lossy().into_owned();
        if kind.is_dir() && file != "arch/sim" {
            files_below(tree, &path, found);
        } else if kind.is_file() && is_of_build(&file) {
            found.push(file);
        }
    }
}

/// Commits what the build needs in the lab's folder `linux`.
fn repository(lab: &Lab, tree: &Path) {
    let linux = lab.path().join("linux");
    let mut files = Vec::new();
    files_below(tree, tree, &mut files);
    for file in files {
        let to = linux.join(&file);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        // Another test's build may take its patch's file out of the tree meanwhile; the tree of 6.1 has no need of it.
        let _ = std::fs::copy(tree.join(&file), to);
    }
    git(lab, &["init", "-q"]);
    // Thousands of files: packing them would take longer than the builds of the later commits.
    for (key, value) in [("gc.auto", "0"), ("core.compression", "0"), ("core.fsync", "none")] {
        git(lab, &["config", key, value]);
    }
    commit(lab, "6.1");
}

fn commit(lab: &Lab, subject: &str) -> String {
    git(lab, &["add", "-f", "."]);
    git(lab, &["commit", "-qm", subject]);
    git(lab, &["rev-parse", "HEAD"])
}

/// Replaces a text in the scheduler's file and commits that.
fn change(lab: &Lab, from: &str, to: &str, subject: &str) -> String {
    let path = lab.path().join("linux/kernel/sched/fair.c");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{from}");
    std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
    commit(lab, subject)
}

#[test]
fn the_commit_that_moved_a_metric_is_found_by_its_own_code() {
    if !has_source() {
        return;
    }
    let Some(tree) = source().filter(|tree| tree.is_dir()) else {
        return skipped("an image of 6.1 in the cache");
    };
    let lab = Lab::new();
    repository(&lab, &tree);
    let comment = "// a comment\n#include <linux/energy_model.h>";
    change(&lab, "#include <linux/energy_model.h>", comment, "a comment");
    let granularity = "normalized_sysctl_sched_min_granularity\t= ";
    let first =
        change(&lab, &format!("{granularity}750000ULL"), &format!("{granularity}20000000ULL"), "long slices");
    change(&lab, "// a comment", "// another comment", "another comment");
    let words = ["bisect", "--linux", "linux", "--good", "HEAD~3", "--backend", "code", "--json", "-q"];
    let of = ["--metric", "switches.involuntary", "--load", "hogs", "--machine", "smp-2"];
    let mut command = lab.command(&[&words[..], &of].concat());
    let output = command.env("SCHEDLAB_CACHE_DIR", lab.path().join("cache")).output().unwrap();
    let (out, said) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let found: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(found["first"][0]["hash"], first.as_str(), "{found}");
    assert!(found["good"].as_f64() > found["bad"].as_f64(), "{found}");
    assert!(found["steps"].as_array().unwrap().iter().all(|s| s["settled"] == true), "{found}");
}
