//! Faults that end a run, and additions of a patch.

use crate::again::{Asked, Ended, again_as, image_with, image_with_ext, machine, patch_behind, works};
use crate::engine::{Engine, Program};
use object::elf::SHF_ALLOC;
use object::{Object as _, ObjectSection as _, SectionFlags};
use schedlab_kernels::{code::MadeImage, diff::Patch, shipped};
use schedlab_transplant::abi::Attr;
use schedlab_transplant::load::{Image, NewTask};
use schedlab_transplant::note::Note;
use schedlab_transplant::watchdog::LIMIT_VARIABLE;
use std::collections::BTreeMap;

/// Faults in yield(), selected by the caller's nice value.
const FAULTS: &str = "\
\tstatic DEFINE_RAW_SPINLOCK(img_test_lock);
\textern void no_such_function(void);
\tswitch (task_nice(current)) {
\tcase 1:
\t\tno_such_function();
\t\tbreak;
\tcase 2:
\t\traw_spin_lock(&img_test_lock);
\t\traw_spin_lock(&img_test_lock);
\t\tbreak;
\tcase 3:
\t\tBUG();
\tcase 4:
\t\tWARN(1, \"seven is %d\", 7);
\t\tbreak;
\tcase 5:
\t\t*(volatile int *)8 = 1;
\t\tbreak;
\tcase 6:
\t\tpr_err(\"this is wrong\\n\");
\t\tbreak;
\tcase 7:
\t\twhile (task_nice(current) == 7)
\t\t\tint_sqrt(jiffies);
\t\tbreak;
\tcase 8: {
\t\tint i;
\t\tfor (i = 0; i < 2; i++)
\t\t\tWARN_ON_ONCE(task_nice(current) == 8);
\t\tWARN_ON(task_nice(current) > 7);
\t\tbreak;
\t}
\tcase 9:
\t\tBUG_ON(task_nice(current) == 9);
\t\tbreak;
\tcase 10: {
\t\tchar *freed = kmalloc(100, GFP_KERNEL);
\t\tkfree(freed);
\t\t*(volatile char *)(freed + 7) = 1;
\t\tbreak;
\t}
\tcase 12:
\t\twhile (task_nice(current) == 12)
\t\t\tcpu_relax();
\t\tbreak;
\tcase 13: {
\t\tint i;
\t\tfor (i = 0; i < 50000; i++)
\t\t\tcpu_relax();
\t\tbreak;
\t}
\tcase 11:
\t\tfor (;;)
\t\t\ttrace_sched_waking(current);
\t}
";

fn patch() -> Vec<Patch> {
    patch_behind(&["kernel/sched/core.c", "kernel/sched/syscalls.c"], "void __sched yield(void)\n{\n", FAULTS)
}

/// Lets a task of that nice value yield.
fn yields(test: &str, nice: i32) -> Option<Ended> {
    yields_as(test, nice, Asked::default(), |_| ())
}

fn yields_as(test: &str, nice: i32, asked: Asked, before: fn(&mut Image)) -> Option<Ended> {
    again_as(test, Asked { patches: patch(), ..asked }, |mut image| {
        before(&mut image);
        let mut engine = Engine::new(image, machine(1, 2, 1));
        let attr = Attr { nice, ..Attr::default() };
        let task = NewTask { attr, ..Engine::fair("yields", Some(&[1])) };
        engine.start(&task, Program { run: 1_000_000, sleep: 0 }, 0);
        engine.run(100_000);
        engine.image.enter(0);
        engine.image.yield_now();
        for raw in engine.image.notes() {
            let Note::Printk(message) = Note::decode(raw, 2).unwrap() else { continue };
            println!("= {} {}", i32::from(message.is_warning), engine.image.text(message.text));
            engine.image.calls(message.calls).iter().for_each(|call| println!("=   {call}"));
        }
    })
}

#[test]
fn a_stub_names_its_symbol_and_its_caller() {
    let Some(ended) = yields("faults::a_stub_names_its_symbol_and_its_caller", 1) else { return };
    assert_eq!(ended.code, Some(4), "{}", ended.err);
    let words =
        "image: the kernel code calls `no_such_function`, which the image lacks (from yield at kernel/sched/";
    assert!(ended.err.contains(words), "{}", ended.err);
    assert!(ended.err.contains("\n    img_yield_now at arch/sim/image/verbs.c:"), "{}", ended.err);
}

#[test]
fn a_build_reports_missing_functions_that_a_patch_calls() {
    let Some(made) = image_with(patch(), None) else { return };
    assert_eq!(made.image.note.lacks, ["no_such_function"]);
}

#[test]
fn a_lock_taken_twice_is_an_error() {
    let Some(ended) = yields("faults::a_lock_taken_twice_is_an_error", 2) else { return };
    assert_eq!(ended.code, Some(4), "{}", ended.err);
    assert!(ended.err.contains("image: a lock is taken that is taken already"), "{}", ended.err);
    assert!(ended.err.contains("\n    yield at kernel/sched/"), "{}", ended.err);
}

#[test]
fn a_bug_is_an_error_with_its_place() {
    let Some(ended) = yields("faults::a_bug_is_an_error_with_its_place", 3) else { return };
    assert_eq!(ended.code, Some(4), "{}", ended.err);
    assert!(ended.err.contains("image: BUG in yield at kernel/sched/"), "{}", ended.err);
    assert!(ended.err.contains("\n    yield at kernel/sched/"), "{}", ended.err);
}

#[test]
fn a_bug_names_its_condition() {
    let Some(ended) = yields("faults::a_bug_names_its_condition", 9) else { return };
    let line =
        ended.err.lines().find(|l| l.starts_with("image: ")).unwrap_or_else(|| panic!("{}", ended.err));
    assert!(line.starts_with("image: BUG in yield at kernel/sched/"), "{line}");
    assert!(line.ends_with(": task_nice(current) == 9"), "{line}");
}

#[test]
fn an_endless_loop_is_noticed_and_named() {
    let asked = Asked { variables: &[(LIMIT_VARIABLE, "1")], ..Asked::default() };
    let Some(ended) = yields_as("faults::an_endless_loop_is_noticed_and_named", 7, asked, |_| ()) else {
        return;
    };
    assert_eq!(ended.code, Some(4), "{}", ended.err);
    let words = "image: the kernel code is in an endless loop: a call has taken 1 s of CPU time (from yield at \
                 kernel/sched/";
    assert!(ended.err.contains(words), "what it calls is not named: {}", ended.err);
    assert!(ended.err.contains("\n    img_yield_now at arch/sim/image/verbs.c:"), "{}", ended.err);
}

#[test]
fn an_endless_loop_that_notes_events_ends_before_memory_does() {
    let test = "faults::an_endless_loop_that_notes_events_ends_before_memory_does";
    let Some(ended) = yields(test, 11) else { return };
    assert_eq!(ended.code, Some(4), "{}", ended.err);
    assert!(
        ended.err.contains("it is in an endless loop") && ended.err.contains("\n    yield at "),
        "{}",
        ended.err
    );
}

#[test]
fn a_loop_that_waits_for_nobody_is_an_error() {
    let test = "faults::a_loop_that_waits_for_nobody_is_an_error";
    let Some(ended) = yields(test, 12) else { return };
    assert_eq!(ended.code, Some(4), "{}", ended.err);
    assert!(ended.err.contains("image: a CPU waits for another one in a loop"), "{}", ended.err);
    assert!(ended.err.contains("\n    yield at kernel/sched/"), "{}", ended.err);
}

#[test]
fn a_loop_that_relaxes_and_gets_on_is_not_an_error() {
    let Some(ended) = yields("faults::a_loop_that_relaxes_and_gets_on_is_not_an_error", 13) else { return };
    assert_eq!(ended.code, Some(0), "{}", ended.err);
}

#[test]
fn freed_memory_is_out_of_reach_under_guard() {
    let test = "faults::freed_memory_is_out_of_reach_under_guard";
    let Some(ended) = yields_as(test, 10, Asked::default(), |image| image.guard().unwrap()) else { return };
    assert_eq!(ended.code, Some(4), "{}", ended.err);
    // Old trees ask a cache for a constant size, and the cache has bytes to spare.
    let words = ["100", "128"].map(|n| format!(", in {n} bytes that were freed by yield at kernel/sched/"));
    assert!(words.iter().any(|w| ended.err.contains(w)), "{}", ended.err);
    assert!(ended.err.contains("(from yield at kernel/sched/"), "{}", ended.err);
}

#[test]
fn a_wild_write_is_an_error() {
    let Some(ended) = yields("faults::a_wild_write_is_an_error", 5) else { return };
    assert!(ended.code == Some(4) && ended.err.contains("reads or writes at 0x8"), "{}", ended.err);
    assert!(ended.err.contains("(from yield at kernel/sched/"), "{}", ended.err);
}

#[test]
fn a_warning_is_a_note_with_place_and_calls() {
    let Some(ended) = yields("faults::a_warning_is_a_note_with_place_and_calls", 4) else { return };
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let lines: Vec<&str> = ended.out.lines().filter_map(|l| l.strip_prefix("= ")).collect();
    assert!(lines[0].starts_with("1 WARNING in yield at kernel/sched/"), "{lines:?}");
    assert!(lines[0].ends_with(": seven is 7"), "{lines:?}");
    let by = |name: &str| lines.iter().position(|l| l.starts_with(&format!("  {name} at ")));
    assert!(by("yield").is_some_and(|at| Some(at + 1) == by("img_yield_now")), "{lines:?}");
}

#[test]
fn warnings_name_conditions_and_warn_once_is_once() {
    let Some(ended) = yields("faults::warnings_name_conditions_and_warn_once_is_once", 8) else { return };
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let lines: Vec<&str> = ended.out.lines().filter_map(|l| l.strip_prefix("= 1 ")).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].ends_with(": task_nice(current) == 8"), "{lines:?}");
    assert!(lines[1].ends_with(": task_nice(current) > 7"), "{lines:?}");
}

#[test]
fn a_message_of_an_error_is_a_warning() {
    let Some(ended) = yields("faults::a_message_of_an_error_is_a_warning", 6) else { return };
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.out.contains("\n= 1 this is wrong\n"), "{}", ended.out);
}

#[test]
fn a_patch_brings_its_feature() {
    let Ok(patches) = shipped::find("first-idle", &crate::again::series_or_default()) else { return };
    let said = works("faults::a_patch_brings_its_feature", patches, |mut image| {
        image.boot(machine(1, 4, 2)).unwrap();
        let has = |image: &Image| {
            image.features().into_iter().find(|(name, _)| name == "SIS_FIRST_IDLE").map(|(_, on)| on)
        };
        println!("= {:?}", has(&image));
        println!("= {} {}", image.set_feature("SIS_FIRST_IDLE", true), image.set_feature("NO_SUCH", true));
        println!("= {:?}", has(&image));
    });
    let Some(said) = said else { return };
    assert_eq!(said, ["Some(false)", "true false", "Some(true)"]);
}

#[test]
fn tables_come_from_the_tree() {
    let said = works("faults::tables_come_from_the_tree", Vec::new(), |mut image| {
        image.boot(machine(2, 4, 2)).unwrap();
        // debugfs's NAME was sysctl sched_NAME before 5.13.
        let is = |own: &str, name: &str| own == name || own.strip_prefix("sched_") == Some(name);
        let value = |image: &Image, name: &str| {
            image.tunables().into_iter().find(|(own, _)| is(own, name)).map(|(_, v)| v)
        };
        image.set_tunable("migration_cost_ns", "123000").unwrap();
        println!("= {:?}", value(&image, "migration_cost_ns"));
        image.set_tunable("sched_rt_runtime_us", "900000").unwrap();
        println!("= {:?}", value(&image, "sched_rt_runtime_us"));
        println!("= {:?}", image.set_tunable("sched_rt_runtime_us", "-7"));
        println!("= {:?}", image.set_tunable("tunable_scaling", "0"));
        println!("= {:?}", image.set_tunable("tunable_scaling", "3"));
        println!("= {:?}", value(&image, "tunable_scaling"));
        let text = image.schedstat();
        let count = |word: &str| text.lines().filter(|l| l.starts_with(word)).count();
        println!("= {} {} {}", count("version"), count("cpu"), count("domain"));
    });
    let Some(said) = said else { return };
    let known =
        [r#"Some("123000")"#, r#"Some("900000")"#, "Err(22)", "Ok(())", "Err(22)", r#"Some("0")"#, "1 16 48"];
    assert_eq!(said, known);
}

#[test]
fn a_second_build_has_the_same_bytes() {
    let Some(one) = image_with(Vec::new(), None) else { return };
    // Another folder of objects.
    let again = Some(("again".to_owned(), "# again\n".to_owned()));
    let two = image_with(Vec::new(), again).unwrap();
    same_bytes(&one, &two);
}

#[test]
fn a_second_build_with_sched_ext_has_the_same_bytes_and_types() {
    let (Some(one), Some(two)) = (image_with_ext(""), image_with_ext("# again\n")) else { return };
    same_bytes(&one, &two);
    let [one, two] = [&one, &two].map(|made| std::fs::read(made.image.btf().unwrap()).unwrap());
    assert!(one.len() > 100_000 && one == two);
}

fn same_bytes(one: &MadeImage, two: &MadeImage) {
    assert_ne!(one.image.note.key, two.image.note.key);
    let [one, two] = [one, two].map(|made| loaded(&std::fs::read(&made.image.object).unwrap()));
    assert!(one.len() > 5 && one.values().map(Vec::len).sum::<usize>() > 500_000);
    let other = one.iter().find(|(name, bytes)| two.get(*name) != Some(*bytes));
    assert_eq!((other.map(|(name, _)| name), one.len()), (None, two.len()));
}

/// The sections of an image that are loaded. Names of symbols and what debuggers read also tell whether an object was
/// made with headers that had been read before (`shim/cc`).
fn loaded(object: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let file = object::File::parse(object).unwrap();
    let is_loaded = |section: &object::Section<'_, '_>| {
        let flags = section.flags();
        matches!(flags, SectionFlags::Elf { sh_flags } if sh_flags & u64::from(SHF_ALLOC) > 0)
    };
    let sections = file.sections().filter(is_loaded);
    sections.map(|s| (s.name().unwrap().to_owned(), s.data().unwrap().to_vec())).collect()
}
