//! Types of a kernel that is checked in, small BTF made here, and broken bytes.

use super::*;
use crate::Target;
use proptest::prelude::*;

const KERNEL: &[u8] = include_bytes!("../../tests/objects/kernel.btf");

fn kernel() -> Btf {
    Btf::parse(KERNEL).expect("it is checked in")
}

/// BTF of these words and strings, with a header of that many bytes.
fn made(header: u32, words: &[u32], strings: &str) -> Vec<u8> {
    let mut bytes = vec![0x9f, 0xeb, 1, 0];
    let types = 4 * words.len() as u32;
    let lengths = [header, 0, types, types, strings.len() as u32];
    lengths.iter().for_each(|w| bytes.extend(w.to_le_bytes()));
    bytes.resize(header as usize, 0);
    words.iter().for_each(|w| bytes.extend(w.to_le_bytes()));
    bytes.extend(strings.as_bytes());
    bytes
}

#[test]
fn names_end_before_a_note_of_the_program() {
    assert_eq!(essential("task_struct___old"), "task_struct");
    assert_eq!(essential("insert___v2___compat"), "insert___v2");
    assert_eq!(essential("a___"), "a___");
    assert_eq!(essential("___a"), "___a");
    assert_eq!(essential("a____b"), "a____b", "four underscores are not a note");
}

#[test]
fn prototypes_say_what_a_call_needs() {
    let btf = kernel();
    let of = |name: &str| btf.prototype(btf.func(name).expect("kernel.c has it")).expect("it is a function");
    assert_eq!(
        of("scx_bpf_dsq_insert___v2"),
        Prototype { arguments: 4, aux: true, result: ResultKind::U8 },
        "a bool"
    );
    assert_eq!(of("scx_bpf_dsq_insert"), Prototype { arguments: 4, aux: true, result: ResultKind::Void });
    assert_eq!(of("scx_bpf_create_dsq"), Prototype { arguments: 2, aux: false, result: ResultKind::S32 });
    assert_eq!(of("scx_bpf_nr_cpu_ids").result, ResultKind::U32);
    assert_eq!(of("scx_bpf_now").result, ResultKind::Wide);
    assert_eq!(of("bpf_task_acquire").result, ResultKind::Pointer);
}

#[test]
fn programs_see_no_implicit_argument() {
    let before = kernel();
    let after = Btf::parse(&for_programs(KERNEL).expect("it is BTF")).expect("it still is");
    assert_eq!(before.len() + 2, after.len(), "a tracepoint's type and a pointer");
    for id in before.ids() {
        assert_eq!((before.kind(id), before.name(id)), (after.kind(id), after.name(id)), "ids stay");
    }
    let id = after.func("scx_bpf_dsq_insert___v2").expect("it is still there");
    assert_eq!(after.prototype(id).expect("it is a function").arguments, 4);
    assert!(!after.prototype(id).expect("it is a function").aux);
}

#[test]
fn programs_see_the_types_of_tracepoints() {
    let seen = for_programs(KERNEL).expect("it is BTF");
    let btf = Btf::parse(&seen).expect("it still is");
    let named = btf.find("btf_trace_sched_switch", Kind::Typedef).expect("kernel.c has that tracepoint");
    let pointer = btf.to(named);
    assert_eq!(btf.kind(pointer), Kind::Ptr);
    assert_eq!(Some(btf.to(pointer)), btf.func("__probestub_sched_switch").map(|f| btf.to(f)));
    let arguments = |target: Target| btf.arguments(&target);
    let name = |name: &str| name.to_owned();
    assert_eq!(arguments(Target::Tracepoint(name("sched_switch"))), Some(vec![1, 8]), "a bool and a pointer");
    assert_eq!(arguments(Target::Tracepoint(name("sched_waking"))), None);
    assert_eq!(arguments(Target::Entry(name("scx_bpf_create_dsq"))), Some(vec![8, 4]));
    let again = for_programs(&seen).expect("it is BTF");
    assert_eq!(Btf::parse(&again).expect("it still is").len(), btf.len(), "they are there");
}

#[test]
fn members_are_found_in_structs_without_a_name() {
    let btf = kernel();
    let task = btf.find("task_struct", Kind::Struct).expect("kernel.c has it");
    let (scx, bit) = btf.member(task, "scx").expect("it is two levels down");
    assert_eq!(btf.name(btf.bare(scx.id)), "sched_ext_entity");
    assert_eq!(bit % 64, 0);
    let (flag, _) = btf.member(task, "flag_b").expect("it is a bit field");
    assert_eq!(flag.bits, 7);
    assert!(btf.member(task, "nothing").is_none());
}

#[test]
fn headers_may_be_longer() {
    // An int of 4 bytes.
    let words = [1, 1 << 24, 4, 32];
    for header in [24, 32] {
        let btf = Btf::parse(&made(header, &words, "\0int\0")).expect("it is whole");
        assert_eq!(btf.find("int", Kind::Int).and_then(|id| btf.size(id)), Some(4));
    }
}

#[test]
fn circles_end() {
    // const -> const; an array of itself; a struct of itself by a member without a name.
    let words = [0, 10 << 24, 1, 0, 3 << 24, 0, 2, 2, 9, 1, 4 << 24 | 1, 8, 0, 3, 0];
    let btf = Btf::parse(&made(24, &words, "\0s\0")).expect("each id is there");
    assert_eq!(btf.bare(1), 0);
    assert_eq!(btf.size(2), None);
    assert!(btf.member(3, "x").is_none());
}

#[test]
fn what_is_not_there_is_refused() {
    let refused =
        |words: &[u32]| Btf::parse(&made(24, words, "\0a\0")).expect_err("it is refused").to_string();
    assert!(refused(&[0, 2 << 24, 7]).contains("type 1 names a type"));
    assert!(refused(&[99, 2 << 24, 0]).contains("type 1 names"));
    assert!(refused(&[0, 25 << 24, 0]).contains("unknown kind"));
    assert!(refused(&[0, 4 << 24 | 9, 0]).contains("not whole"));
    assert!(Btf::parse(b"\x7fELF").is_err());
    assert!(Btf::parse(&KERNEL[..KERNEL.len() - 1]).is_err());
}

#[test]
fn values_of_enums_have_their_sign_and_width() {
    let btf = kernel();
    let value = |name: &str| btf.enumerators().find(|(n, _)| *n == name).expect("kernel.c has it").1;
    assert_eq!(value("MOVED_SECOND"), (-20i64).cast_unsigned());
    assert_eq!(value("SCX_ENQ_LAST"), 1 << 41);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn broken_bytes_do_not_panic(at in 0..KERNEL.len(), bytes in prop::collection::vec(any::<u8>(), 1..5)) {
        let mut broken = KERNEL.to_vec();
        let end = (at + bytes.len()).min(KERNEL.len());
        broken[at..end].copy_from_slice(&bytes[..end - at]);
        let _ = for_programs(&broken);
        if let Ok(btf) = Btf::parse(&broken) {
            for id in btf.ids() {
                let _ = (btf.size(id), btf.bare(id), btf.prototype(id), btf.member(id, "scx"), btf.name(id));
            }
        }
    }
}
