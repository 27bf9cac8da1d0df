//! Runs a test in a separate process, since a process holds one image.

use schedlab_base::Result;
use schedlab_base::testing::skipped;
use schedlab_kernels::code::{self, CodeRecipe, MadeImage};
use schedlab_kernels::diff::Patch;
use schedlab_kernels::{Listener, Source, Step, cache};
use schedlab_transplant::load::{Image, Machine};
use schedlab_transplant::shim::OVERLAY;
use std::process::Command;
use std::sync::atomic::AtomicBool;

/// The variable by which a test knows that it is the second process.
pub const AGAIN: &str = "SCHEDLAB_TEST_IMAGE";

struct Quiet;
impl Listener for Quiet {
    fn say(&mut self, _: &str) {}
    fn step(&mut self, _: &Step) {}
}

/// The variable that names another series to test than 6.1.
const SERIES: &str = "SCHEDLAB_TEST_SERIES";
/// The oldest series that is tested.
const OLDEST: &str = "5.10";

/// Whether the cache has a source package of a series.
fn is_at_hand(series: &str) -> bool {
    let Ok(cache) = cache::folder(None) else { return false };
    let name = format!("linux-source-{series}_");
    let names = cache::entries(&cache::sources(&cache));
    names.iter().any(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&name)))
}

/// The series to test, if there is one.
fn series() -> Option<String> {
    std::env::var(SERIES).ok().or_else(|| in_cache("6.1"))
}

/// A series, if the cache has its source package.
fn in_cache(series: &str) -> Option<String> {
    is_at_hand(series).then(|| series.to_owned())
}

pub fn series_or_default() -> String {
    series().unwrap_or_else(|| "6.1".to_owned())
}

/// A patch that puts lines after a text of one of these files; empty without a source.
pub fn patch_behind(files: &[&str], text: &str, lines: &str) -> Vec<Patch> {
    let Some(series) = series() else { return Vec::new() };
    let cache = cache::folder(None).unwrap();
    let site = cache::entries(&cache::sources(&cache)).into_iter().find(|p| {
        let name = p.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.strip_prefix("linux-source-").is_some_and(|rest| {
            rest.split('_').next().is_some_and(|s| s == series || s.starts_with(&format!("{series}.")))
        })
    });
    let Some(site) = site else { return Vec::new() };
    // A build leaves its patches in the tree, with the original files next to it.
    let read = |file: &str| {
        ["originals", "tree"].iter().find_map(|of| std::fs::read_to_string(site.join(of).join(file)).ok())
    };
    let found = files.iter().find_map(|f| Some((*f, read(f)?)).filter(|(_, all)| all.contains(text)));
    let (file, all) = found.unwrap_or_else(|| panic!("no {text} in {files:?}"));
    let line = all[..all.find(text).unwrap() + text.len()].lines().count();
    let before: Vec<&str> = all.lines().skip(line - 3).take(3).collect();
    let after: Vec<&str> = all.lines().skip(line).take(3).collect();
    let count = lines.lines().count();
    let mut diff = format!("--- a/{file}\n+++ b/{file}\n@@ -{},6 +{},{} @@\n", line - 2, line - 2, 6 + count);
    before.iter().for_each(|l| diff += &format!(" {l}\n"));
    lines.lines().for_each(|l| diff += &format!("+{l}\n"));
    after.iter().for_each(|l| diff += &format!(" {l}\n"));
    schedlab_kernels::diff::parse("faults.patch", diff.as_bytes()).unwrap()
}

/// Builds an image or finds it; `None`: no source is in the cache, and the test counts as skipped.
pub fn image_with(patches: Vec<Patch>, fragment: Option<(String, String)>) -> Option<MadeImage> {
    built(patches, fragment).map(|made| made.unwrap())
}

pub fn built(patches: Vec<Patch>, fragment: Option<(String, String)>) -> Option<Result<MadeImage>> {
    built_of("6.1", series(), patches, fragment)
}

/// Builds an image of 7.3 with sched_ext and these lines in its fragment, or finds it.
pub fn image_with_ext(lines: &str) -> Option<MadeImage> {
    // As a run of a scheduler asks for it, so that one image serves both.
    let options = ["BPF_SYSCALL", "BPF_JIT", "BPF_JIT_ALWAYS_ON", "DEBUG_INFO_DWARF4", "SCHED_CLASS_EXT"];
    let options: String = options.iter().map(|option| format!("CONFIG_{option}=y\n")).collect();
    let fragment = ("sched_ext".to_owned(), format!("{options}{lines}"));
    built_of("7.3", in_cache("7.3"), Vec::new(), Some(fragment)).map(|made| made.unwrap())
}

/// Builds an image of a series; `None` if `found` is `None`.
fn built_of(
    wanted: &str,
    found: Option<String>,
    patches: Vec<Patch>,
    fragment: Option<(String, String)>,
) -> Option<Result<MadeImage>> {
    let Some(series) = found else {
        skipped(format!("a kernel's source package in the cache (schedlab kernel build {wanted})"));
        return None;
    };
    let source = Source::parse(&series).unwrap();
    let recipe = CodeRecipe { source, patches, fragment, counts: false };
    let cache = cache::folder(None).unwrap();
    let compiler = schedlab_kernels::compiler().unwrap();
    Some(code::build((&recipe, &compiler), OVERLAY, &cache, &AtomicBool::new(false), &mut Quiet))
}

#[test]
fn the_oldest_series_passes_all_these_tests() {
    if std::env::var_os(SERIES).is_some() || std::env::var_os(AGAIN).is_some() {
        return;
    }
    if !is_at_hand(OLDEST) {
        return skipped(format!(
            "a source package of {OLDEST} in the cache (schedlab kernel build --code {OLDEST})"
        ));
    }
    let said = Command::new(std::env::current_exe().unwrap()).env(SERIES, OLDEST).output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stdout));
}

/// The output of a process, and how it ended.
pub struct Ended {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// A test's image and the environment of its process.
#[derive(Default)]
pub struct Asked {
    pub patches: Vec<Patch>,
    /// Lines of configuration; none: the overlay's alone.
    pub config: &'static str,
    /// The series of the test; none: the series of all tests.
    pub series: Option<&'static str>,
    pub variables: &'static [(&'static str, &'static str)],
}

/// Runs `inside` with the image in a separate process; `test` is the path of the calling test.
pub fn again_as(test: &str, asked: Asked, inside: impl FnOnce(Image)) -> Option<Ended> {
    if let Some(path) = std::env::var_os(AGAIN) {
        // The harness leaves its line open.
        println!();
        inside(Image::load(path.as_ref()).unwrap());
        return None;
    }
    let fragment = (!asked.config.is_empty()).then(|| ("test".to_owned(), asked.config.to_owned()));
    let made = match asked.series {
        None => image_with(asked.patches, fragment)?,
        Some(series) => built_of(series, in_cache(series), asked.patches, fragment)?.unwrap(),
    };
    let said = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(AGAIN, made.image.object)
        .envs(asked.variables.iter().copied())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some(Ended { code: said.status.code(), out: text(&said.stdout), err: text(&said.stderr) })
}

/// As [`again_as`], for a process that must succeed; returns the lines that begin with "= ".
pub fn works(test: &str, patches: Vec<Patch>, inside: impl FnOnce(Image)) -> Option<Vec<String>> {
    works_as(test, Asked { patches, ..Asked::default() }, inside)
}

pub fn works_as(test: &str, asked: Asked, inside: impl FnOnce(Image)) -> Option<Vec<String>> {
    let ended = again_as(test, asked, inside)?;
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.out, ended.err);
    Some(ended.out.lines().filter_map(|l| l.strip_prefix("= ")).map(str::to_owned).collect())
}

/// A machine with this many nodes, cores and threads; siblings are `cores` apart within a node.
pub fn machine(nodes: u32, cores: u32, threads: u32) -> Machine {
    let per_node = cores * threads;
    let cpus: Vec<u32> = (0..nodes * per_node).collect();
    let by = |f: &dyn Fn(u32) -> u32| cpus.iter().map(|c| f(*c)).collect::<Vec<u32>>();
    let distance = (0..nodes * nodes).map(|i| if i / nodes == i % nodes { 10 } else { 21 }).collect();
    Machine {
        nr_nodes: nodes,
        node: by(&|c| c / per_node),
        package: by(&|c| c / per_node),
        core: by(&|c| c % per_node % cores),
        cluster: by(&|c| c % per_node % cores),
        llc: by(&|c| c / per_node),
        capacity: by(&|_| 1024),
        distance,
        llc_bytes: 32 << 20,
        seed: 1,
        ..Machine::default()
    }
}
