//! BTF of an object that the host's compiler makes of two sources, against what clang says of the same kernel.

use super::*;
use crate::Insn;
use crate::btf::{Btf, essential};
use crate::object::{Kernel, Values, read};
use std::path::Path;
use std::process::Command;

const KERNEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/objects/kernel.c");
const BY_CLANG: &[u8] = include_bytes!("../../../tests/objects/kernel.btf");
const OWN: &[u8] = include_bytes!("../../../tests/objects/own.bpf.o");
/// Describes two types of the kernel's source, one of them as a whole only here, and has variables of each CPU.
const SECOND: &str = r#"
enum moved { MOVED_FIRST = 10, MOVED_SECOND = -20 };
struct same { unsigned int a; const char *text; enum moved e; };
struct cgroup { signed char level; };
struct nowhere;
#define PERCPU __attribute__((section("percpu"), used, aligned(16)))
PERCPU struct same shared;
static PERCPU union { char rows[3][5]; struct nowhere *to; } own;
extern PERCPU unsigned long long declared;
unsigned long long declared;
__attribute__((used)) static int level(struct cgroup *cgroup, ...) { return cgroup->level; }
"#;

/// The BTF of both sources together. The compiler is the one that links Rust's programs.
fn made(folder: &Path, options: &[&str], percpu: &str) -> Vec<u8> {
    let (second, object) = (folder.join("second.c"), folder.join("kernel.so"));
    std::fs::write(&second, SECOND).unwrap();
    let mut command = Command::new("cc");
    command.args(["-g", "-O1", "-w", "-fPIC", "-shared", "-nostdlib", "-o"]).arg(&object).args(options);
    let output = command.arg(KERNEL).arg(&second).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    of_image(&std::fs::read(object).unwrap(), percpu).unwrap()
}

fn named(btf: &Btf, kind: Kind) -> Vec<u32> {
    btf.ids().filter(|id| btf.kind(*id) == kind && !btf.name(*id).is_empty()).collect()
}

#[test]
fn types_and_functions_are_those_that_clang_describes() {
    let folder = tempfile::tempdir().unwrap();
    let theirs = Btf::parse(BY_CLANG).unwrap();
    for options in [&["-gdwarf-4"], &["-gdwarf-5"]] {
        let ours = Btf::parse(&made(folder.path(), options, "percpu")).unwrap();
        for id in named(&theirs, Kind::Struct) {
            let name = theirs.name(id);
            let own = ours.find(name, Kind::Struct).unwrap_or_else(|| panic!("{name}"));
            let members = |btf: &Btf, id| -> Vec<(String, u64, u32, Option<u64>)> {
                let one =
                    |m: &super::super::Item| (btf.item_name(m).to_owned(), m.value, m.bits, btf.size(m.id));
                btf.items(id).iter().map(one).collect()
            };
            assert_eq!(members(&ours, own), members(&theirs, id), "{name}");
            assert_eq!(ours.size(own), theirs.size(id), "{name}");
        }
        for id in named(&theirs, Kind::Func) {
            let own = ours.func(theirs.name(id)).unwrap_or_else(|| panic!("{}", theirs.name(id)));
            assert_eq!(ours.prototype(own).unwrap(), theirs.prototype(id).unwrap(), "{}", theirs.name(id));
        }
        let value = |btf: &Btf, name: &str| btf.enumerators().find(|(n, _)| *n == name).map(|(_, v)| v);
        for name in ["SCX_ENQ_LAST", "SCX_ENQ_HEAD", "MOVED_SECOND", "SCX_SLICE_DFL"] {
            assert_eq!(value(&ours, name), value(&theirs, name), "{name}");
        }
    }
}

#[test]
fn a_scheduler_is_relocated_the_same() {
    let folder = tempfile::tempdir().unwrap();
    // The kernel's variable is in no section of its own.
    let [ours, theirs] =
        [&made(folder.path(), &[], ".bss")[..], BY_CLANG].map(|bytes| Btf::parse(bytes).unwrap());
    let code = |btf: &Btf| -> Vec<Insn> {
        let kernel = Kernel { config: &|_| Some("250".to_owned()), ..Kernel::new(btf) };
        let scheduler = read(OWN, "own", &kernel, &Values::default(), 4).unwrap();
        scheduler.programs.iter().flat_map(|p| p.instructions.clone()).collect()
    };
    let (one, other) = (code(&ours), code(&theirs));
    assert!(one.len() > 100 && one.len() == other.len());
    for (at, (one, other)) in one.iter().zip(&other).enumerate().filter(|(_, (one, other))| one != other) {
        // Ids of types are the BTF's own.
        assert_eq!(Insn { imm: 0, ..*one }, Insn { imm: 0, ..*other }, "{at}");
        let [one, other] = [(&ours, one.imm), (&theirs, other.imm)].map(|(btf, id)| btf.name(id as u32));
        assert!(!one.is_empty() && one == other, "{at}: {one} {other}");
    }
}

#[test]
fn descriptions_of_two_sources_are_one() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = made(folder.path(), &[], "percpu");
    assert_eq!(bytes, made(folder.path(), &[], "percpu"));
    let btf = Btf::parse(&bytes).unwrap();
    for kind in [Kind::Struct, Kind::Union, Kind::Enum, Kind::Func] {
        let mut names: Vec<&str> = named(&btf, kind).into_iter().map(|id| essential(btf.name(id))).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(
            names.len() + usize::from(kind == Kind::Func),
            all,
            "both forms of one function: {names:?}"
        );
    }
    let task = btf.find("task_struct", Kind::Struct).unwrap();
    let (cgroup, _) = btf.member(task, "cgroup").unwrap();
    assert_eq!(btf.size(btf.to(cgroup.id)), Some(1), "what one source declares, the other describes");
    assert!(btf.find("nowhere", Kind::Fwd).is_some());
    assert_eq!(btf.find("cgroup", Kind::Fwd), None);
    let level = btf.to(btf.func("level").unwrap());
    let parameters: Vec<(&str, u32)> = btf.items(level).iter().map(|p| (btf.item_name(p), p.id)).collect();
    assert!(matches!(parameters[..], [("cgroup", _), ("", 0)]), "{parameters:?}");
}

#[test]
fn variables_of_each_cpu_stand_in_their_section() {
    let folder = tempfile::tempdir().unwrap();
    let btf = Btf::parse(&made(folder.path(), &[], "percpu")).unwrap();
    let section = btf.find(PERCPU, Kind::Datasec).unwrap();
    let mut found: Vec<(&str, u64)> = btf.items(section).iter().map(|v| (btf.name(v.id), v.value)).collect();
    assert!(btf.items(section).is_sorted_by_key(|v| v.offset));
    found.sort_unstable();
    assert_eq!(found, [("declared", 8), ("own", 16), ("shared", 24)]);
    assert_eq!(btf.find("runqueues", Kind::Var), None, "it is in another section");
    let own = btf.find("own", Kind::Var).unwrap();
    let (rows, _) = btf.member(btf.to(own), "rows").unwrap();
    assert_eq!((btf.count(rows.id), btf.count(btf.to(rows.id))), (3, 5));
}

#[test]
fn what_has_no_debug_data_is_refused() {
    let bare = |bytes: &[u8]| of_image(bytes, "percpu").map_err(|e| e.to_string());
    assert!(bare(b"\x7fELF").is_err());
    assert!(bare(OWN).is_err_and(|e| e.contains("there is none")));
}
