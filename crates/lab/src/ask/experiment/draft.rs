//! The draft of a new experiment: whole, commented, and short enough to be run at once.
//!
//! Keys, parameters with their defaults and metrics come from the tables that the reader uses; a test reads
//! the draft of every benchmark.

use crate::ask::guests;
use schedlab_base::{Backend, Result};
use schedlab_kernel::variant::RUNNING;
use schedlab_kernel::{Kernel, PROFILES};
use schedlab_workload::rtapp::RUNTIME;
use schedlab_workload::{Benchmark, Param, ParamKind};

/// The column where comments begin.
const COLUMN: usize = 34;
/// The longest line.
const WIDTH: usize = 100;

/// The parts of a draft.
#[derive(Clone)]
pub struct Draft {
    pub name: String,
    /// The file as it is named on command lines.
    pub file: String,
    pub subject: Subject,
    /// The machines, one at least.
    pub machines: Vec<String>,
    /// The kernels, one at least: profiles, images, or the running one.
    pub kernels: Vec<String>,
    /// CPUs of the largest machine.
    pub cpus: usize,
}

/// Larger guests share one CPU's time for hours, and our rules were not compared with them.
const MOST_CPUS_OF_GUESTS: usize = 16;

/// The workload of a draft.
#[derive(Clone)]
pub enum Subject {
    /// A benchmark.
    Bench(&'static Benchmark),
    /// An rt-app file, as the experiment names it.
    RtApp(String),
}

/// Whether a word can be a variant's kernel.
///
/// # Errors
/// When it is neither a profile nor an image; the error names the profiles.
pub fn check_kernel(word: &str) -> Result<()> {
    if word == RUNNING || guests::is_real(word) {
        return Ok(());
    }
    Kernel::profile(word).map(|_| ()).map_err(|e| {
        let there: Vec<String> = PROFILES.iter().map(|p| p.version.to_string()).collect();
        let real = "for a real kernel give a series without v (6.1) or the path of a bzImage";
        e.help(format!("there are: {}; {real}", there.join(", ")))
    })
}

impl Draft {
    /// The backend that can run it.
    pub fn backend(&self) -> Backend {
        let is = |so: &dyn Fn(&str) -> bool| self.kernels.iter().any(|k| so(k));
        let is_series = |k: &String| k.starts_with(|c: char| c.is_ascii_digit()) && !k.contains('/');
        if self.cpus > MOST_CPUS_OF_GUESTS && self.kernels.iter().all(is_series) {
            Backend::Code
        } else if is(&|k| guests::is_real(k) || guests::has_profile(k)) {
            Backend::Vm
        } else if is(&|k| k == RUNNING) {
            Backend::Host
        } else {
            Backend::Sim
        }
    }
    /// The command that runs it.
    pub fn command(&self) -> String {
        match self.backend() {
            Backend::Sim => format!("schedlab run {}", self.file),
            other => format!("schedlab run {} --backend {}", self.file, other.name()),
        }
    }
    /// The command that fetches the kernels it boots; `None` if it boots none, or names no series.
    pub fn fetch(&self) -> Option<String> {
        if self.backend() == Backend::Code {
            // Sources are fetched where an image is built from them.
            return None;
        }
        let series = |k: &&String| k.chars().all(|c| c.is_ascii_digit() || c == '.');
        let all: Vec<&str> = self.kernels.iter().filter(series).map(String::as_str).collect();
        (!all.is_empty()).then(|| format!("schedlab kernel fetch {}", all.join(" ")))
    }
    pub fn text(&self) -> String {
        let mut text = Lines::default();
        self.top(&mut text);
        self.workload(&mut text);
        self.loads(&mut text);
        self.variants(&mut text);
        text.0
    }

    fn top(&self, text: &mut Lines) {
        text.comment(
            "An experiment: a workload under several loads, on a machine, under variants of a kernel.",
        );
        text.comment(&format!("  {:<42} runs it and compares the variants", self.command()));
        if self.backend() == Backend::Sim {
            let host = format!("schedlab run {} --backend host", self.file);
            text.comment(&format!("  {host:<42} the same loads on the running kernel"));
        }
        text.comment(&format!(
            "  {:<42} keys of this file, and all names that fit in it",
            "schedlab new --list"
        ));
        text.line(&format!("name = {}", quoted(&self.name)), "");
        text.line("# about = \"...\"", "what it asks, for people");
        text.line("runs = 10", "of each load under each variant");
        let list = "schedlab new --list machines";
        match self.machines.as_slice() {
            [one] => {
                text.line(&format!("machine = {}", quoted(one)), &format!("or machines = [\"...\"]: {list}"))
            }
            many => text.line(&format!("machines = {}", listed(many)), list),
        }
        text.line("metrics = [", "schedlab new --list metrics");
        for metric in self.metrics() {
            text.line(&format!("    \"{metric}\","), "");
        }
        text.line("]", "");
    }

    fn metrics(&self) -> Vec<&'static str> {
        let own: &[&str] = match &self.subject {
            Subject::Bench(bench) => bench.headline,
            Subject::RtApp(_) => schedlab_compare::metrics::HEADLINE,
        };
        // A few samples do not give the farthest tail.
        let own = own.iter().copied().filter(|m| !m.ends_with("p99.9"));
        own.chain(["switches.involuntary", "migrations"]).collect()
    }

    fn workload(&self, text: &mut Lines) {
        text.gap();
        text.line("[workload]", "schedlab new --list workloads");
        match &self.subject {
            Subject::RtApp(file) => {
                text.line(&format!("rtapp = {}", quoted(file)), "");
                text.line(&format!("# {} = \"5s\"", RUNTIME.name), RUNTIME.about);
            }
            Subject::Bench(bench) => {
                text.line(&format!("name = \"{}\"", bench.name), bench.about);
                for param in bench.params.iter().filter(|p| p.name != bench.load_param) {
                    let set = bench.brief.iter().find(|(name, _)| *name == param.name);
                    match set {
                        Some((_, value)) => text.line(&assigned(param, value), &meaning(param, true)),
                        None => {
                            text.line(
                                &format!("# {}", assigned(param, &usual(param))),
                                &meaning(param, false),
                            );
                        }
                    }
                }
            }
        }
    }

    fn loads(&self, text: &mut Lines) {
        let Subject::Bench(bench) = &self.subject else { return };
        let Ok(param) = bench.param(bench.load_param) else { return };
        text.gap();
        text.comment("Each load is run under each variant. It may set any parameter of the workload.");
        for (i, value) in bench.brief_loads.iter().enumerate() {
            text.line(
                "[[load]]",
                if i == 0 { "name = \"...\", else it is called after what it sets" } else { "" },
            );
            let about = if i == 0 {
                format!("{}; {{cpus}}: the machine's CPUs", meaning(param, true))
            } else {
                String::new()
            };
            text.line(&assigned(param, value), &about);
        }
        text.gap();
        text.comment("A sweep is a load for each value:");
        text.line("# [[load]]", "");
        text.line(&format!("# {} = {{ sweep = [1, 2, 4] }}", param.name), "or { range = [1, 8], step = 1 }");
    }

    fn variants(&self, text: &mut Lines) {
        text.gap();
        text.comment("The first variant is the one that the others are compared with.");
        for kernel in &self.kernels {
            text.line("[[variant]]", "");
            text.line(&format!("kernel = {}", quoted(kernel)), "schedlab new --list kernels");
        }
        let kernel = &self.kernels[0];
        // Several kernels already give a comparison.
        let off = if self.kernels.len() > 1 { "# " } else { "" };
        let live = kernel == RUNNING;
        text.gap();
        text.line(&format!("{off}[[variant]]"), "");
        text.line(&format!("{off}name = \"{}\"", if live { "batch" } else { "no-preempt" }), "");
        text.line(&format!("{off}kernel = {}", quoted(kernel)), "");
        if !live {
            text.line(&format!("{off}features = [\"NO_WAKEUP_PREEMPTION\"]"), "schedlab new --list features");
            text.line("# tunables = { hz = { sweep = [250, 1000] } }", "schedlab new --list tunables");
        }
        text.line(
            &format!("{}policy = \"batch\"", if live { off } else { "# " }),
            "of all tasks; also nice and slice",
        );
    }
}

/// A text in the making.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn gap(&mut self) {
        self.0.push('\n');
    }
    fn comment(&mut self, text: &str) {
        self.0 += &format!("# {text}\n");
    }
    /// A line followed by a comment; the comment is above it if both are long.
    fn line(&mut self, code: &str, comment: &str) {
        let one = format!("{code:<COLUMN$}# {comment}\n");
        if comment.is_empty() {
            self.0 += &format!("{code}\n");
        } else if one.chars().count() <= WIDTH && code.chars().count() < COLUMN {
            self.0 += &one;
        } else if code.chars().count() + comment.chars().count() + 4 <= WIDTH {
            self.0 += &format!("{code}  # {comment}\n");
        } else {
            self.0 += &format!("# {comment}:\n{code}\n");
        }
    }
}

/// A parameter set to a value, as TOML.
fn assigned(param: &Param, value: &str) -> String {
    let plain = match param.kind {
        ParamKind::Count | ParamKind::Nice => value.parse::<i64>().is_ok(),
        ParamKind::Flag => true,
        ParamKind::Time(_) | ParamKind::Choice(_) => false,
    };
    format!("{} = {}", param.name, if plain { value.to_owned() } else { quoted(value) })
}

/// The default of a parameter; the lowest possible value if the default is computed.
fn usual(param: &Param) -> String {
    let value = param.default.unwrap_or(param.range.0);
    match param.kind {
        ParamKind::Flag => (value != 0).to_string(),
        kind => kind.show(value),
    }
}

/// The meaning of a parameter, with its words; also its default if the draft has another value.
fn meaning(param: &Param, changed: bool) -> String {
    let words = match param.kind {
        ParamKind::Choice(words) => {
            let names: Vec<&str> = words.iter().map(|w| w.name).collect();
            format!("; {}", names.join(" or "))
        }
        _ => String::new(),
    };
    let default = match param.default {
        Some(_) if changed => format!(" [default: {}]", usual(param)),
        _ => String::new(),
    };
    format!("{}{words}{default}", param.about)
}

/// A string as TOML.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn listed(all: &[String]) -> String {
    let all: Vec<String> = all.iter().map(|text| quoted(text)).collect();
    format!("[{}]", all.join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;
    use schedlab_workload::BENCHMARKS;
    use std::path::Path;

    fn draft(bench: &'static Benchmark, kernels: &[&str]) -> Draft {
        Draft {
            name: "mine".into(),
            file: "mine.toml".into(),
            subject: Subject::Bench(bench),
            machines: vec!["smt-8".into()],
            kernels: kernels.iter().map(|k| (*k).to_owned()).collect(),
            cpus: 8,
        }
    }

    #[test]
    fn real_kernels_on_large_machines_run_on_their_own_code() {
        let of = |cpus, kernels: &[&str]| Draft { cpus, ..draft(BENCHMARKS[0], kernels) };
        assert_eq!(of(16, &["6.1"]).backend(), Backend::Vm);
        let large = of(64, &["6.1", "7"]);
        assert_eq!((large.backend(), large.fetch()), (Backend::Code, None));
        assert!(large.command().ends_with("--backend code"));
        assert_eq!(of(64, &["v6.5"]).backend(), Backend::Sim);
        assert_eq!(of(64, &["6.1", "boot/bzImage"]).backend(), Backend::Vm, "an image is not a source");
    }

    #[test]
    fn the_draft_of_every_benchmark_can_be_read_and_has_all_its_parameters() {
        for bench in BENCHMARKS {
            for (profile, machine) in PROFILES.iter().flat_map(|p| ["smp-1", "smt-8"].map(|m| (p, m))) {
                let kernel = profile.version.to_string();
                let text = Draft { machines: vec![machine.to_owned()], ..draft(bench, &[&kernel]) }.text();
                let e = parse(Path::new("mine.toml"), &text, 4).unwrap_or_else(|e| panic!("{e}\n{text}"));
                assert_eq!((e.loads.len(), e.variants.len()), (2, 2), "{text}");
                for param in bench.params {
                    let said = text.lines().any(|l| l.trim_start_matches("# ").starts_with(param.name));
                    assert!(said, "{}: {}", bench.name, param.name);
                }
                assert!(text.lines().all(|l| l.chars().count() <= WIDTH + 20), "{text}");
            }
        }
    }

    #[test]
    fn commented_lines_of_a_draft_can_be_read_too() {
        for bench in BENCHMARKS {
            let text = draft(bench, &["v6.12"]).text();
            // Comments that hold a key or a table header.
            let switched_on = |l: &str| {
                let rest = l.strip_prefix("# ").unwrap_or(l);
                let is_code =
                    rest.starts_with("[[") || rest.split_once(" = ").is_some_and(|(k, _)| !k.contains(' '));
                if is_code { rest.to_owned() } else { l.to_owned() }
            };
            let all: Vec<String> = text.lines().map(switched_on).collect();
            assert!(
                all.len() > 10 && all.iter().any(|l| l.contains("sweep") && !l.starts_with('#')),
                "{text}"
            );
            let all = all.join("\n");
            // One parameter of the slice test may not be combined with others; its keys are still correct.
            match parse(Path::new("mine.toml"), &all, 4) {
                Ok(_) => {}
                Err(e) => assert!(!e.message().contains("unknown"), "{e}\n{all}"),
            }
        }
    }

    #[test]
    fn the_kernels_decide_the_backend() {
        let of = |kernels: &[&str]| draft(BENCHMARKS[0], kernels).command();
        assert_eq!(of(&["v6.5"]), "schedlab run mine.toml");
        assert_eq!(of(&["6.1", "7.3"]), "schedlab run mine.toml --backend vm");
        assert_eq!(of(&["running"]), "schedlab run mine.toml --backend host");
        assert!(check_kernel("v6.4").unwrap_err().to_string().contains("bzImage"));
        for kernels in [&["6.1", "/boot/vmlinuz-7.3"][..], &["running"], &["6.8"]] {
            let text = draft(BENCHMARKS[0], kernels).text();
            parse(Path::new("mine.toml"), &text, 4).unwrap_or_else(|e| panic!("{e}\n{text}"));
        }
    }
}
