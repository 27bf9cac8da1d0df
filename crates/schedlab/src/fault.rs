//! Messages about faults of schedlab itself: the place, the run, the command that repeats it, and the request to report
//! it.
//!
//! A simulated run is a function of its cell and seed, so one run is enough to see a fault again. The command is the
//! given one with that seed, one run, and the run's load and variant where the command chooses among several.

use crate::experiments::LOAD_VALUE;
use crate::output;
use schedlab_base::{Error, ErrorKind, printable};
use schedlab_lab::make::exec::under_way::{self, UnderWay};
use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Variables that change a run.
const VARIABLES: &[&str] = &["SCHEDLAB_WALK_EVERY", "SCHEDLAB_SYSTEM_ROOT"];

/// The long options of the command that runs.
static OPTIONS: OnceLock<Vec<String>> = OnceLock::new();

/// Remembers which options the command takes.
pub fn remember(command: &clap::Command) {
    // There is one command in a process.
    let _ = OPTIONS.set(options_of(command));
}

/// The long options of a command that can name a run. The `--load` of `bench` can't: it is the value of `{load}` in a
/// command line.
fn options_of(command: &clap::Command) -> Vec<String> {
    let names_a_load = |a: &&clap::Arg| {
        a.get_long() != Some("load") || a.get_value_names().is_some_and(|names| names == [LOAD_VALUE])
    };
    command.get_arguments().filter(names_a_load).filter_map(|a| a.get_long().map(str::to_owned)).collect()
}

/// Reports a panic of any thread with its place, since it is a fault of schedlab. Later panics are consequences of the
/// first, and are not reported.
pub fn report_panics() {
    static REPORTED: AtomicBool = AtomicBool::new(false);
    std::panic::set_hook(Box::new(|panic| {
        if REPORTED.swap(true, Ordering::SeqCst) {
            return;
        }
        let words = panic.payload();
        let words = words.downcast_ref::<&str>().copied().map(str::to_owned);
        let words = words.or_else(|| panic.payload().downcast_ref::<String>().cloned());
        let words = words.unwrap_or_else(|| "no words".to_owned()).replace('\n', " ");
        let words = printable::name(&words);
        let place = panic.location().map_or_else(String::new, |l| format!(" at {}:{}", l.file(), l.line()));
        let _ = writeln!(io::stderr(), "schedlab: error: a fault of schedlab{place}: {words}");
        more(under_way::now());
    }));
}

/// Prints the run and the command of an error that is a fault.
pub fn more_about(e: &Error) {
    if e.kind() == ErrorKind::Internal {
        more(under_way::failed());
    }
}

fn more(run: Option<UnderWay>) {
    let words: Vec<String> = std::env::args_os().map(|w| w.to_string_lossy().into_owned()).collect();
    let empty = Vec::new();
    let text = about(run.as_ref(), &words, OPTIONS.get().unwrap_or(&empty));
    let set = VARIABLES.iter().filter_map(|name| Some((*name, std::env::var(name).ok()?)));
    let set: String = set.map(|(name, value)| format!("{name}={} ", shell(&value))).collect();
    let text = text.replacen("  repeat: ", &format!("  repeat: {set}"), 1);
    let _ = writeln!(io::stderr(), "{}", printable::lines(&text));
}

/// The run, the command, and where to report it.
fn about(run: Option<&UnderWay>, words: &[String], options: &[String]) -> String {
    let mut text = String::new();
    if let Some(run) = run {
        text += &format!("  run: {}, backend {}, seed {}\n", run.title, run.backend, run.seed);
    }
    let command: Vec<String> = repeat(run, words, options).iter().map(|w| shell(w)).collect();
    text += &format!("  repeat: {}\n", command.join(" "));
    text += &format!(
        "  help: please report it, with these lines and the files that the command names, to whom you have schedlab \
         from; this is version {}",
        output::version()
    );
    text
}

/// The words of the command that makes the run again.
fn repeat(run: Option<&UnderWay>, words: &[String], options: &[String]) -> Vec<String> {
    let takes = |name: &str| options.iter().any(|own| own == name);
    let mut all = vec!["schedlab".to_owned()];
    // Seeds of a hunt draw workloads, so only the same hunt finds its run.
    let Some(run) = run.filter(|_| takes("seed") && takes("runs")) else {
        all.extend(words.iter().skip(1).cloned());
        return all;
    };
    let load = format!("{}@{}", run.load, run.machine);
    let given = [("load", load.as_str()), ("variant", &run.variant)];
    let seed = run.seed.to_string();
    let own =
        given.into_iter().chain([("seed", seed.as_str()), ("runs", "1")]).filter(|(name, _)| takes(name));
    let own: Vec<(&str, &str)> = own.collect();
    let replaced = |word: &str| {
        let bare = word.strip_prefix("--")?;
        let (name, has_value) = bare.split_once('=').map_or((bare, false), |(name, _)| (name, true));
        own.iter().any(|(own, _)| *own == name).then_some(has_value)
    };
    let mut rest = words.iter().skip(1);
    while let Some(word) = rest.next() {
        match replaced(word) {
            // A command after "--" comes last, and options come before it.
            _ if word == "--" => {
                all.extend(own.iter().flat_map(|(name, value)| [format!("--{name}"), (*value).to_owned()]));
                all.push(word.clone());
                all.extend(rest.cloned());
                return all;
            }
            None => all.push(word.clone()),
            Some(true) => {}
            Some(false) => drop(rest.next()),
        }
    }
    all.extend(own.iter().flat_map(|(name, value)| [format!("--{name}"), (*value).to_owned()]));
    all
}

/// A word, quoted for a shell if necessary.
pub fn shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> UnderWay {
        UnderWay {
            title: "pipe a b v6.1 on smp-8".into(),
            load: "a b".into(),
            machine: "smp-8".into(),
            variant: "v6.1".into(),
            backend: "sim",
            seed: 3,
        }
    }
    fn repeated(words: &[&str], options: &[&str], run: Option<&UnderWay>) -> String {
        let owned = |all: &[&str]| all.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        let all = repeat(run, &owned(words), &owned(options));
        all.iter().map(|w| shell(w)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_command_repeats_that_run_alone() {
        let options = ["seed", "runs", "load", "variant", "out"];
        assert_eq!(
            repeated(
                &["x", "run", "my file.toml", "--seed", "9", "--runs=6", "--load", "c", "-q"],
                &options,
                Some(&run())
            ),
            "schedlab run 'my file.toml' -q --load 'a b@smp-8' --variant v6.1 --seed 3 --runs 1"
        );
        assert_eq!(
            repeated(
                &["x", "bench", "pipe", "--runs", "6", "--machine", "smp-8"],
                &["seed", "runs", "machine"],
                Some(&run())
            ),
            "schedlab bench pipe --machine smp-8 --seed 3 --runs 1"
        );
        assert_eq!(
            repeated(&["x", "bench", "--", "ls", "--seed", "1"], &["seed", "runs"], Some(&run())),
            "schedlab bench --seed 3 --runs 1 -- ls --seed 1"
        );
        assert_eq!(
            repeated(&["x", "hunt", "--seed", "9"], &["seed"], Some(&run())),
            "schedlab hunt --seed 9"
        );
        assert_eq!(repeated(&["x", "compare", "it's"], &options, None), "schedlab compare 'it'\\''s'");
    }

    #[test]
    fn the_command_line_accepts_the_command_that_repeats_the_run() {
        for words in [
            &["schedlab", "bench", "pipe"][..],
            &["schedlab", "bench", "--command", "sleep {load}", "--load", "1"],
            &["schedlab", "knee", "pipe"],
            &["schedlab", "run", "x.toml", "--load", "a"],
            &["schedlab", "study", "D001"],
            &["schedlab", "suite", "v6.5+SIS_FIRST_IDLE"],
        ] {
            let whole = crate::cli::command();
            let options = options_of(whole.find_subcommand(words[1]).unwrap());
            let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
            let again = repeat(Some(&run()), &words, &options);
            let parsed = whole.try_get_matches_from(&again);
            assert!(parsed.is_ok(), "{again:?}: {}", parsed.unwrap_err());
            assert!(again.ends_with(&["--seed", "3", "--runs", "1"].map(str::to_owned)), "{again:?}");
            let chosen = again.contains(&"a b@smp-8".to_owned());
            assert_eq!(chosen, !["bench", "knee"].contains(&words[1].as_str()), "{again:?}");
        }
    }

    #[test]
    fn the_message_has_seed_cell_command_and_asks_for_a_report() {
        let text = about(Some(&run()), &["x".to_owned(), "doctor".to_owned()], &[]);
        for part in
            ["pipe a b v6.1 on smp-8, backend sim, seed 3", "repeat: schedlab doctor", "please report it"]
        {
            assert!(text.contains(part), "{text}");
        }
    }
}
