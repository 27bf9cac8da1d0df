//! What `tests/objects/own.bpf.o` becomes on the kernel of `tests/objects/kernel.btf`; its source says what it asks.

use super::*;
use crate::{Insn, Program, Setup, Special, Target};
use proptest::prelude::*;

const OWN: &[u8] = include_bytes!("../../tests/objects/own.bpf.o");
const KERNEL: &[u8] = include_bytes!("../../tests/objects/kernel.btf");

fn kernel_btf() -> Btf {
    Btf::parse(KERNEL).expect("it is checked in")
}

fn load(values: &[(&str, &str)]) -> Result<Scheduler> {
    let btf = kernel_btf();
    let config = |name: &str| (name == "CONFIG_HZ").then(|| "250".to_owned());
    let supplies = |name: &str| name == "bpf_of_the_runtime";
    let kernel = Kernel { btf: &btf, version: 0x70304, config: &config, supplies: &supplies };
    let values = values.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    read(OWN, "own.bpf.o", &kernel, &values, 8)
}

fn own() -> Scheduler {
    load(&[]).expect("it is checked in")
}

/// The values that `questions` stores, by the offset in `answers`: an immediate, or what else is stored.
fn answers(program: &Program) -> Vec<(i16, Option<i64>)> {
    let mut found = Vec::new();
    let mut registers = [None; 11];
    let mut skip = false;
    for (at, insn) in program.instructions.iter().enumerate() {
        if std::mem::take(&mut skip) {
            continue;
        }
        let destination = usize::from(insn.registers & 0xf);
        match insn.code {
            0x18 => {
                let high = i64::from(program.instructions[at + 1].imm) << 32;
                registers[destination] = Some(high | i64::from(insn.imm.cast_unsigned()));
                skip = true;
            }
            0xb7 => registers[destination] = Some(i64::from(insn.imm)),
            0x7b => found.push((insn.off / 8, registers[usize::from(insn.source())])),
            0x85 => {}
            _ => registers[destination] = None,
        }
    }
    found
}

fn program<'a>(scheduler: &'a Scheduler, name: &str) -> &'a Program {
    scheduler.programs.iter().find(|p| p.name == name).expect("it is in own.bpf.c")
}

fn value<T: AsRef<str>>(scheduler: &Scheduler, map: T, at: usize, bytes: usize) -> u64 {
    let map = scheduler.maps.iter().find(|m| m.name == map.as_ref()).expect("it has that section");
    let mut word = [0; 8];
    word[..bytes].copy_from_slice(&map.initial[at..at + bytes]);
    u64::from_le_bytes(word)
}

#[test]
fn each_question_has_the_kernels_answer() {
    let s = own();
    let (questions, btf) = (program(&s, "questions"), kernel_btf());
    let answers = answers(questions);
    let task = btf.find("task_struct", crate::btf::Kind::Struct).expect("kernel.c has it");
    let offset = |name: &str| (btf.member(task, name).expect("kernel.c has it").1 / 8) as i64;
    let expected = |n: i16| match n {
        10 => offset("flag_b") / 4 * 4,
        11 => 8,
        12 => 0,
        13 => 1,
        // Bits 3 to 9 of their word.
        14 => 64 - 10,
        15 => 64 - 7,
        17 => i64::from(task),
        18 => 0,
        19 => btf.size(task).expect("it is a struct") as i64,
        20 => 0,
        21 => -20,
        22 => 0,
        23 => 1,
        24 => offset("counts") + 6,
        _ => unreachable!("it is not compared"),
    };
    for n in (10..=24).filter(|n| *n != 16) {
        let found = answers.iter().find(|(at, _)| *at == n).expect("each is stored").1;
        assert_eq!(found, Some(expected(n)), "answer {n}");
    }
    let same = answers.iter().find(|(at, _)| *at == 16).expect("it is stored").1.expect("it is an id");
    let own = Btf::parse(&s.btf).expect("it was read before");
    assert_eq!(own.name(same as u32), "same", "an id of the program's own types");
}

#[test]
fn what_the_kernel_lacks_is_marked_by_name() {
    let s = own();
    let names = |program: &str| -> Vec<String> {
        self::program(&s, program).missing.iter().map(|m| m.1.clone()).collect()
    };
    let questions = names("questions");
    assert_eq!(questions[..2], ["enum moved MOVED_THIRD", "enum moved MOVED_THIRD"], "both halves of a load");
    assert_eq!(questions[2], "task_struct.gone");
    assert!(questions[3].contains("another size"), "a signed field of another size: {questions:?}");
    assert_eq!(questions.len(), 4);
    assert_eq!(names("own_enqueue"), ["scx_bpf_not_there", "scx_bpf_nr_cpu_ids"]);
    assert_eq!(names("own_init"), ["bpf_of_the_runtime"]);
    for p in &s.programs {
        let marked = p.missing.iter().all(|m| p.instructions[m.0 as usize] == patch::MISSING);
        assert!(marked, "each is an instruction that nothing executes");
    }
}

#[test]
fn programs_have_their_targets_and_the_lines_of_their_source() {
    let s = own();
    let targets: Vec<(&str, Option<Target>)> =
        s.programs.iter().map(|p| (p.name.as_str(), p.target.clone())).filter(|p| p.1.is_some()).collect();
    let switch = ("own_switch", Some(Target::Tracepoint("sched_switch".to_owned())));
    let ticked = ("own_ticked", Some(Target::Exit("scx_tick".to_owned())));
    assert!(targets.len() == 2 && targets.contains(&switch) && targets.contains(&ticked), "{targets:?}");
    let source = include_str!("../../tests/objects/own.bpf.c");
    for p in &s.programs {
        let inside = p.lines.iter().all(|(at, _)| (*at as usize) < p.instructions.len());
        assert!(inside && p.lines.windows(2).all(|w| w[0].0 < w[1].0), "{}", p.name);
        // The first line is that of the function, or one in it.
        let at =
            source.lines().position(|l| l.starts_with(&format!("int {}(", p.name))).expect("it is there");
        let line: usize = p.lines[0].1.strip_prefix("own.bpf.c:").expect("a file").parse().expect("a number");
        assert!(p.lines[0].0 == 0 && (at + 1..at + 10).contains(&line), "{} at {at}: {line}", p.name);
    }
}

#[test]
fn loads_get_the_kernels_places_and_sizes() {
    let s = own();
    let loads: Vec<Insn> =
        program(&s, "own_select_cpu").instructions.iter().filter(|i| i.code & 7 == 1).copied().collect();
    let find = |off: i16, code: u8| loads.iter().any(|i| i.off == off && i.code == code);
    assert!(find(8, 0x79), "pid: 8 bytes at 8, which were 4 at 0: {loads:?}");
    let btf = kernel_btf();
    let task = btf.find("task_struct", crate::btf::Kind::Struct).expect("kernel.c has it");
    let scx = btf.member(task, "scx").expect("it is in a struct without a name").1 / 8;
    assert!(find(scx as i16 + 24, 0x61), "scx.weight");
    let counts = btf.member(task, "counts").expect("it has it").1 / 8;
    assert!(find(counts as i16 + 4, 0x69), "counts[2]");
}

#[test]
fn functions_of_the_kernel_are_found_by_name_and_prototype() {
    let (s, btf) = (own(), kernel_btf());
    let calls = |program: &str| -> Vec<String> {
        let insns = self::program(&s, program).instructions.iter();
        let kfuncs = insns.filter(|i| i.code == 0x85 && i.source() == 2);
        kfuncs.map(|i| btf.name(i.imm.cast_unsigned()).to_owned()).collect()
    };
    assert_eq!(
        calls("own_enqueue"),
        ["scx_bpf_dsq_insert___v2", "scx_bpf_dsq_insert"],
        "without the last ___note"
    );
    assert_eq!(calls("own_init"), ["scx_bpf_create_dsq"]);
    let addresses: Vec<&str> = program(&s, "own_enqueue")
        .instructions
        .iter()
        .filter(|i| i.code == 0x18 && i.source() == 3)
        .map(|i| btf.name(i.imm.cast_unsigned()))
        .collect();
    assert_eq!(addresses, ["scx_bpf_dsq_insert___v2", "runqueues"]);
}

#[test]
fn callees_stand_behind_their_program_once() {
    let s = own();
    let init = program(&s, "own_init");
    let calls: Vec<(usize, &Insn)> =
        init.instructions.iter().enumerate().filter(|(_, i)| i.code == 0x85 && i.source() == 1).collect();
    let callback = init.instructions.iter().position(|i| i.code == 0x18 && i.source() == 4).expect("beat");
    let target = |at: usize| (at as i64 + 1 + i64::from(init.instructions[at].imm)) as usize;
    let is_start = |at: usize| at > 0 && init.instructions[at - 1].code == 0x95;
    assert!(is_start(target(callback)), "a function begins behind another's exit");
    assert_eq!(calls.len(), 3, "twice of own_init, scaled of beat, twice of scaled");
    assert!(calls.iter().all(|(at, _)| is_start(target(*at))));
    assert_eq!(target(calls[0].0), target(calls[2].0), "twice stands there once");
    assert_eq!(init.instructions.iter().filter(|i| i.code == 0x95).count(), 4);
}

#[test]
fn maps_have_the_sizes_of_their_definitions() {
    let s = own();
    let map = |name: &str| s.maps.iter().find(|m| m.name == name).expect("own.bpf.c has it");
    let sizes = |name: &str| {
        let m = map(name);
        (m.kind, m.key_bytes, m.value_bytes, m.max_entries)
    };
    let fields = |name: &str| -> Vec<(u32, u32, Special)> {
        map(name).special.iter().map(|f| (f.at, f.bytes, f.special)).collect()
    };
    assert_eq!(sizes("tasks"), (1, 4, 24, 512));
    assert_eq!(fields("tasks"), [(8, 4, Special::SpinLock), (16, 8, Special::Kptr)]);
    assert_eq!(sizes("stats"), (6, 4, 8, 4));
    assert_eq!(sizes("beats"), (2, 4, 24, 1));
    assert_eq!(fields("beats"), [(8, 16, Special::Timer)]);
    assert_eq!(sizes("queues"), (12, 4, 4, 8));
    let inner = map("queues").inner.expect("it has a description");
    assert_eq!((s.maps[inner].kind, s.maps[inner].value_bytes, s.maps[inner].max_entries), (22, 4, 64));
    let initial: Vec<(u32, &str)> =
        map("queues").inner_initial.iter().map(|(slot, m)| (*slot, s.maps[*m].name.as_str())).collect();
    assert_eq!(initial, [(1, "queue_a"), (3, "queue_b")]);
    assert_eq!(fields(".data.kept"), [(0, 8, Special::Kptr)]);
    assert_eq!(value(&s, ".kconfig", 0, 4), 250);
    assert_eq!(map(".bss").initial, [], "zeros have no bytes");
    assert_eq!(map(".bss").value_bytes as u64, 32 * 8 + 8);
}

#[test]
fn enumerators_of_the_kernel_fill_their_variables() {
    let s = own();
    let rodata = s.maps.iter().find(|m| m.name == ".rodata").expect("it has constants");
    let words: Vec<u64> =
        rodata.initial.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().expect("8 bytes"))).collect();
    assert!(words.contains(&20_000_000), "SCX_SLICE_DFL: {words:?}");
    assert!(words.contains(&(1 << 41)), "SCX_ENQ_LAST, of 64 bits");
}

#[test]
fn operations_are_in_the_kernels_layout() {
    let (s, btf) = (own(), kernel_btf());
    let ops = btf.find("sched_ext_ops", crate::btf::Kind::Struct).expect("kernel.c has it");
    let offset = |name: &str| (btf.member(ops, name).expect("it has it").1 / 8) as usize;
    assert_eq!(s.name, "own");
    assert_eq!(s.ops.bytes.len() as u64, btf.size(ops).expect("it is a struct"));
    assert_eq!(s.ops.bytes[offset("timeout_ms")..][..4], 5000u32.to_le_bytes());
    assert_eq!(s.ops.bytes[offset("flags")], 2);
    let members: Vec<(&str, usize, &str)> = s
        .ops
        .members
        .iter()
        .map(|(at, program, name)| (name.as_str(), *at as usize, s.programs[*program].name.as_str()))
        .collect();
    let expected = ["select_cpu", "enqueue", "init"];
    assert_eq!(members.len(), expected.len());
    for (name, at, program) in members {
        assert_eq!((at, program), (offset(name), format!("own_{name}").as_str()));
    }
}

#[test]
fn values_are_set_by_name() {
    let s = load(&[
        ("nr_nodes", "4"),
        ("slices", "7, 0x8"),
        ("ticks", "SCX_ENQ_LAST|SCX_ENQ_WAKEUP"),
        ("ops.flags", "3"),
        ("ops.name", "other"),
        ("ops.enqueue", "0"),
        ("map:tasks.max_entries", "9"),
    ])
    .expect("all of these are there");
    let map = |name: &str| s.maps.iter().find(|m| m.name == name).expect("own.bpf.c has it");
    assert_eq!(map("tasks").max_entries, 9);
    assert_eq!(s.name, "other");
    assert!(s.ops.members.iter().all(|m| m.2 != "enqueue"));
    let bss = &map(".bss").initial;
    assert!(bss.chunks_exact(8).any(|b| b == ((1u64 << 41) + 1).to_le_bytes()));
    let rodata = &map(".rodata").initial;
    let expected: Vec<u8> = [7u64, 8, 0].iter().flat_map(|n| n.to_le_bytes()).collect();
    assert!(rodata.windows(24).any(|w| w == expected), "an array's rest is zero");
}

#[test]
fn a_part_of_a_variable_can_be_set() {
    let s = load(&[("slices", "7, 8, 9"), ("slices[1]", "5")]).expect("it has three");
    let rodata = &s.maps.iter().find(|m| m.name == ".rodata").expect("slices are there").initial;
    let expected: Vec<u8> = [7u64, 5, 9].iter().flat_map(|n| n.to_le_bytes()).collect();
    assert!(rodata.windows(24).any(|w| w == expected), "the others keep their values");
}

#[test]
fn a_program_runs_for_each_cpu() {
    let s = load(&[("run:questions", "cpu")]).expect("it is of kind syscall");
    let first = |step: &Setup| match step {
        Setup::Run { program, context } => (s.programs[*program].name.clone(), context[0]),
        Setup::ArenaLibrary { .. } => panic!("nobody asked for it"),
    };
    let expected: Vec<_> = (0..8).map(|cpu| ("questions".to_owned(), cpu)).collect();
    assert_eq!(s.setup.iter().map(first).collect::<Vec<_>>(), expected);
}

#[test]
fn errors_name_what_is_wrong_and_what_helps() {
    let message = |values: &[(&str, &str)]| load(values).expect_err("it is refused").to_string();
    assert!(message(&[("nr_node", "1")]).contains("nr_nodes"), "the near name");
    assert!(message(&[("map:task.max_entries", "1")]).contains("tasks"));
    assert!(message(&[("slices[9]", "1")]).contains("no such part"));
    assert!(message(&[("slices[1].ns", "1")]).contains("no such part"));
    assert!(message(&[("run:nothing", "1")]).contains("nothing"), "there is no such program");
    assert!(message(&[("map:tasks.inner", "2")]).contains("not a map of maps"));
    assert!(message(&[("ops.flag", "1")]).contains("flags"));
    assert!(message(&[("nr_nodes", "0x100000000")]).contains("32 bits"));
    assert!(message(&[("map:tasks.max_entries", "0")]).contains("map:tasks.max_entries"));
    assert!(message(&[("nr_nodes", "many")]).contains("many"));
}

#[test]
fn an_operation_that_the_kernel_lacks_is_refused_if_it_is_used() {
    let btf = kernel_btf();
    let renamed = replaced(KERNEL, b"enqueue\0", b"enqueus\0");
    let without = Btf::parse(&renamed).expect("only a name is another");
    let kernel = |btf| Kernel { config: &|_| Some("250".into()), ..Kernel::new(btf) };
    assert!(read(OWN, "own", &kernel(&btf), &Vec::new(), 8).is_ok(), "not_in_this_kernel is zero");
    let error =
        read(OWN, "own", &kernel(&without), &Vec::new(), 8).expect_err("a program is there").to_string();
    assert!(error.contains("no member enqueue") && error.contains("ops.enqueue"), "{error}");
    let leave_out = vec![("ops.enqueue".to_owned(), "0".to_owned())];
    assert!(read(OWN, "own", &kernel(&without), &leave_out, 8).is_ok(), "as a loader leaves it out");
}

fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let at = bytes.windows(from.len()).position(|w| w == from).expect("it is there");
    let mut made = bytes.to_vec();
    made[at..at + to.len()].copy_from_slice(to);
    made
}

#[test]
fn a_kernel_that_hides_the_implicit_argument_gives_the_same_programs() {
    let hidden = crate::btf::for_programs(KERNEL).expect("it is BTF");
    let (shown, hidden) = (kernel_btf(), Btf::parse(&hidden).expect("it still is"));
    let programs = |btf| {
        let kernel = Kernel { config: &|_| Some("250".into()), ..Kernel::new(btf) };
        read(OWN, "own", &kernel, &Vec::new(), 8).expect("it has all that is needed").programs
    };
    assert_eq!(programs(&shown), programs(&hidden));
}

#[test]
fn a_missing_setting_is_refused_unless_it_is_weak() {
    let btf = kernel_btf();
    let error =
        read(OWN, "own", &Kernel::new(&btf), &Vec::new(), 8).expect_err("CONFIG_HZ is strong").to_string();
    assert!(error.contains("CONFIG_HZ"), "{error}");
}

/// The instruction that begins with `code` and `registers`, in the object's bytes.
fn insn_at(scheduler: &Scheduler, program: &str, index: usize) -> usize {
    let code = &self::program(scheduler, program).instructions[index..];
    let bytes: Vec<u8> = code.iter().take(2).flat_map(|i| [i.code, i.registers]).collect();
    let fits = |w: &[u8]| w[..2] == bytes[..2] && w[8..10] == bytes[2..];
    OWN.windows(16).position(fits).expect("it is in the object")
}

#[test]
fn instructions_of_no_known_form_are_refused() {
    let s = own();
    let end = program(&s, "own_select_cpu").instructions.len() - 2;
    let at = insn_at(&s, "own_select_cpu", end);
    let btf = kernel_btf();
    let kernel = Kernel { config: &|_| Some("250".into()), ..Kernel::new(&btf) };
    let refused = |bytes: [u8; 8]| {
        let mut object = OWN.to_vec();
        object[at..at + 8].copy_from_slice(&bytes);
        read(&object, "own", &kernel, &Vec::new(), 8).expect_err("it is refused").to_string()
    };
    assert!(refused([0xff, 0, 0, 0, 0, 0, 0, 0]).contains("0xff"));
    assert!(refused([0xbf, 0xb0, 0, 0, 0, 0, 0, 0]).contains("register 11"));
    assert!(refused([0x05, 0, 9, 0, 0, 0, 0, 0]).contains("jumps"));
    assert!(refused([0x18, 0, 0, 0, 0, 0, 0, 0]).contains("second half"));
    assert!(refused([0x85, 0x20, 0, 0, 1, 0, 0, 0]).contains("no relocation"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_broken_object_does_not_panic(
        at in 0..OWN.len(),
        bytes in prop::collection::vec(any::<u8>(), 1..9),
        cut in any::<bool>(),
    ) {
        let btf = kernel_btf();
        let mut object = OWN.to_vec();
        let end = (at + bytes.len()).min(OWN.len());
        object[at..end].copy_from_slice(&bytes[..end - at]);
        if cut {
            object.truncate(at);
        }
        let kernel = Kernel { config: &|_| Some("250".into()), ..Kernel::new(&btf) };
        if let Ok(s) = read(&object, "own", &kernel, &Vec::new(), 8) {
            for (_, program, _) in &s.ops.members {
                prop_assert!(*program < s.programs.len());
            }
        }
    }

    #[test]
    fn a_broken_kernel_does_not_panic(at in 0..KERNEL.len(), bytes in prop::collection::vec(any::<u8>(), 1..5)) {
        let mut kernel = KERNEL.to_vec();
        let end = (at + bytes.len()).min(KERNEL.len());
        kernel[at..end].copy_from_slice(&bytes[..end - at]);
        if let Ok(btf) = Btf::parse(&kernel) {
            let kernel = Kernel { config: &|_| Some("250".into()), ..Kernel::new(&btf) };
            let _ = read(OWN, "own", &kernel, &Vec::new(), 8);
        }
    }
}

#[test]
fn words_are_those_of_the_page() {
    let page = include_str!("../../../../docs/sched-ext.md");
    let part =
        page.split("## Words behind an object").nth(1).and_then(|rest| rest.split("\n## ").next()).unwrap();
    let rows: Vec<&str> = part.lines().filter(|line| line.starts_with("| `")).collect();
    assert_eq!(rows, super::WORDS.map(|(word, meaning)| format!("| {word} | {meaning} |")));
}
