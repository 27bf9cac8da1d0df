//! Parameters and specs: bounds, defaults, files.

use crate::spec::{MAX_FILE_MB, find};
use crate::{BENCHMARKS, Params, Spec};
use proptest::prelude::*;
use schedlab_base::{ErrorKind, Ns};
use std::io::Write;
use std::path::{Path, PathBuf};

fn given(values: &[(&str, u64)]) -> Params {
    Params(values.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect())
}
fn refused(values: &[(&str, u64)]) -> String {
    let error = Spec::bench("schbench", &given(values)).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Input);
    error.to_string()
}

#[test]
fn unknown_names_offer_the_nearest() {
    assert_eq!(
        Spec::bench("shbench", &Params::default()).unwrap_err().to_string(),
        "unknown workload 'shbench'\n  help: did you mean 'schbench'?"
    );
    assert_eq!(
        refused(&[("thread", 2)]),
        "unknown schbench parameter 'thread'\n  help: did you mean 'threads'?"
    );
}

#[test]
fn absurd_sizes_are_refused_with_the_range() {
    assert_eq!(
        refused(&[("threads", 1_000_000_000)]),
        "threads = 1000000000 is out of range\n  help: it takes 1 to 10000"
    );
    assert_eq!(refused(&[("threads", 0)]), "threads = 0 is out of range\n  help: it takes 1 to 10000");
    assert_eq!(
        refused(&[("sleeptime", 3_000)]),
        "sleeptime = 3us is out of range\n  help: it takes 4us to 60s"
    );
    assert_eq!(
        refused(&[("runtime", u64::MAX)]),
        "runtime = 18446744074s is out of range\n  help: it takes 1ms to 3600s"
    );
}

#[test]
fn too_many_tasks_in_all_name_both_parameters() {
    assert_eq!(
        refused(&[("message_threads", 400), ("threads", 250)]),
        "message_threads = 400 with threads = 250 each makes 100400 tasks, more than 100000\n  \
         help: lower message_threads (-m) or threads (-t)"
    );
    let most = Spec::bench("schbench", &given(&[("message_threads", 10), ("threads", 9_999)])).unwrap();
    assert_eq!(most.build(0).unwrap().tasks.len(), 100_000);
}

#[test]
fn defaults_are_the_original_tools() {
    let Spec::Bench { name, params } = Spec::bench("schbench", &given(&[("threads", 3)])).unwrap() else {
        panic!("a benchmark")
    };
    assert_eq!((name.as_str(), params.count("threads").unwrap()), ("schbench", 3));
    assert_eq!(params.count("message_threads").unwrap(), 2);
    assert_eq!(params.time("sleeptime").unwrap(), Ns::ms(30));
    assert_eq!(
        (params.time("cputime").unwrap(), params.time("runtime").unwrap()),
        (Ns::ms(30), Ns::secs(30))
    );
    assert_eq!(params.get("colour").unwrap_err().kind(), ErrorKind::Internal);
}

#[test]
fn values_are_read_with_the_tools_units() {
    let bench = find("schbench").unwrap();
    let read = |name: &str, text: &str| bench.param(name).unwrap().parse(text);
    assert_eq!(read("sleeptime", "30000").unwrap(), 30_000_000);
    assert_eq!(read("runtime", "5").unwrap(), 5_000_000_000);
    assert_eq!(read("message-threads", "1_000").unwrap(), 1_000);
    assert_eq!(read("threads", "-1").unwrap_err().message(), "threads takes a whole number, not '-1'");
    assert!(read("threads", "99999999999999999999").is_err());
    assert!(read("cputime", "5parsecs").unwrap_err().message().contains("parsecs"));
}

#[test]
fn every_row_of_every_table_is_sound() {
    for bench in BENCHMARKS {
        for (i, p) in bench.params.iter().enumerate() {
            assert!(p.range.0 <= p.range.1, "{}", p.name);
            assert!(p.default.is_none_or(|d| (p.range.0..=p.range.1).contains(&d)), "{}", p.name);
            let clash = |q: &crate::Param| q.name == p.name || (q.short.is_some() && q.short == p.short);
            assert!(!bench.params[..i].iter().any(clash), "{} is there twice", p.name);
        }
        assert!(bench.param(bench.load_param).is_ok());
        assert!(bench.param(bench.load_param).unwrap().default.is_some(), "a load has a name in records");
        assert!(bench.form_of.is_none_or(|(of, _)| find(of).is_ok()));
        // Statistics of its series, or rates that are under its name in the table of metrics.
        Spec::bench(bench.name, &Params::default()).unwrap().build(0).unwrap();
        assert!((1..=2).contains(&bench.own.len()), "{}", bench.name);
        for metric in bench.headline.iter().chain(bench.own) {
            // A program whose name is also a family of metrics records its series under `NAME-test`.
            let own = [".", "-test."].map(|end| format!("{}{end}", bench.name));
            assert!(own.iter().any(|name| metric.starts_with(name)), "{metric}");
        }
    }
}

#[test]
fn a_spec_survives_serialisation() {
    for spec in [
        Spec::bench("schbench", &given(&[("threads", 3)])).unwrap(),
        Spec::RtApp { file: "dir/x.json".into(), text: "{}".into(), runtime: None },
    ] {
        let text = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<Spec>(&text).unwrap(), spec);
    }
}

fn file(content: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("load.json");
    std::fs::File::create(&path).unwrap().write_all(content).unwrap();
    (folder, path)
}

#[test]
fn an_rtapp_file_is_read_and_named_after_itself() {
    let (_folder, path) = file(br#"{"tasks": {"a": {"loop": 1, "run": 5}}}"#);
    let spec = Spec::rtapp_file(&path, None).unwrap();
    assert_eq!(spec.name(), "load.json");
    assert_eq!(spec.build(9).unwrap().tasks[0].name, "a-0");
}

#[test]
fn errors_of_bad_files_have_their_path() {
    let (_folder, path) = file(b"{\"tasks\": {\n  \"a\": {\"rum\": 5}}}");
    let told = Spec::rtapp_file(&path, None).unwrap_err().to_string();
    assert!(told.starts_with(&format!("{}:2:9: unknown key", path.display())), "{told}");
    let missing = Spec::rtapp_file(Path::new("/nowhere/x.json"), None).unwrap_err();
    assert!(missing.kind() == ErrorKind::Input && missing.message().contains("/nowhere/x.json"));
    let (_folder, binary) = file(b"{\"tasks\": \xff}");
    assert!(Spec::rtapp_file(&binary, None).unwrap_err().message().contains("not UTF-8 text (byte 10)"));
    let (_folder, folder) = (0, _folder.path().to_owned());
    assert_eq!(Spec::rtapp_file(&folder, None).unwrap_err().kind(), ErrorKind::Input);
}

#[test]
fn a_file_beyond_the_limit_is_not_read_whole() {
    let (_folder, path) = file(b"");
    std::fs::File::options().write(true).open(&path).unwrap().set_len((MAX_FILE_MB << 20) + 1).unwrap();
    assert!(Spec::rtapp_file(&path, None).unwrap_err().message().contains("longer than 16 MB"));
    std::fs::File::options().write(true).open(&path).unwrap().set_len(MAX_FILE_MB << 20).unwrap();
    assert!(Spec::rtapp_file(&path, None).unwrap_err().message().contains("expected a value"));
}

proptest! {
    #[test]
    fn only_values_in_range_are_accepted(which in 0usize..6, value in any::<u64>(), shift in 0u32..64) {
        let param = &find("schbench").unwrap().params[which];
        let value = value >> shift;
        let accepted = param.check(value).is_ok();
        prop_assert_eq!(accepted, (param.range.0..=param.range.1).contains(&value));
    }

    #[test]
    fn text_from_the_command_line_never_panics(which in 0usize..6, text in "\\PC*|[0-9._]{0,30}[a-z]{0,3}") {
        let param = &find("schbench").unwrap().params[which];
        if let Ok(value) = param.parse(&text) {
            prop_assert!((param.range.0..=param.range.1).contains(&value));
        }
    }
}

#[test]
fn a_command_is_data_that_reads_back_and_has_no_programs() {
    let mut command =
        crate::CommandSpec::new("hackbench", vec!["hackbench".into(), "-g".into(), "a b".into()]);
    command.metrics.push(crate::command::Extract {
        name: "hackbench.time".into(),
        place: crate::command::Place::Regex("Time: (.*)".into()),
        source: crate::command::Source::Stdout,
        take: crate::command::Take::Only,
        unit: "s".into(),
        better: "lower".into(),
    });
    let spec = Spec::Command(Box::new(command));
    let json = serde_json::to_value(&spec).unwrap();
    assert_eq!((&json["kind"], &json["params"]["run"]), (&"command".into(), &"hackbench -g 'a b'".into()));
    assert_eq!(serde_json::from_value::<Spec>(json).unwrap(), spec);
    let e = spec.build(1).err().unwrap();
    assert_eq!((e.kind().exit_code(), e.message()), (3, "a command can only be run live"));
}
