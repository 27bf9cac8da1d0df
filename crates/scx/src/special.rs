//! Fields of a map's values that a kernel treats specially: they are found by the names of their types.

use crate::Special;
use crate::btf::{Btf, Kind};

/// Structs within structs.
const DEEPEST: u32 = 16;
/// Elements of arrays and fields together; kernels allow a few.
const MOST: usize = 4096;

/// The special fields of a value of that type, or of a section's variables, by offset in bytes.
pub fn fields(btf: &Btf, id: u32) -> Vec<(u32, Special)> {
    let mut found = Vec::new();
    look(btf, id, 0, DEEPEST, &mut 0, &mut found);
    found.sort_by_key(|f| f.0);
    found
}

fn of_struct(name: &str) -> Option<Special> {
    match name {
        "bpf_timer" => Some(Special::Timer),
        "bpf_spin_lock" | "bpf_res_spin_lock" => Some(Special::SpinLock),
        "bpf_wq" | "bpf_list_head" | "bpf_list_node" | "bpf_rb_root" | "bpf_rb_node" | "bpf_refcount"
        | "bpf_task_work" => Some(Special::Other),
        _ => None,
    }
}

/// A pointer whose target has a tag like `kptr`.
fn is_kptr(btf: &Btf, pointer: u32) -> bool {
    let tags = std::iter::successors(Some(btf.to(pointer)), |id| Some(btf.to(*id)));
    let mut tags = tags.take(DEEPEST as usize).take_while(|id| {
        matches!(btf.kind(*id), Kind::TypeTag | Kind::Const | Kind::Volatile | Kind::Restrict)
    });
    tags.any(|id| {
        let tag = btf.kind(id) == Kind::TypeTag;
        tag && matches!(btf.name(id), "kptr" | "kptr_untrusted" | "percpu_kptr" | "uptr")
    })
}

fn look(btf: &Btf, id: u32, at: u64, depth: u32, seen: &mut usize, found: &mut Vec<(u32, Special)>) {
    let id = btf.bare(id);
    *seen += 1;
    if depth == 0 || *seen > MOST {
        return;
    }
    match btf.kind(id) {
        Kind::Ptr if is_kptr(btf, id) => found.extend(u32::try_from(at).map(|at| (at, Special::Kptr))),
        Kind::Struct | Kind::Union => match of_struct(btf.name(id)) {
            Some(special) => found.extend(u32::try_from(at).map(|at| (at, special))),
            None => {
                for m in btf.items(id) {
                    look(btf, m.id, at.saturating_add(m.value / 8), depth - 1, seen, found);
                }
            }
        },
        Kind::Datasec => {
            for variable in btf.items(id) {
                let at = at.saturating_add(variable.offset.into());
                look(btf, btf.to(variable.id), at, depth - 1, seen, found);
            }
        }
        Kind::Array => array(btf, id, at, depth, seen, found),
        _ => {}
    }
}

/// The first element shows whether there is anything to find.
fn array(btf: &Btf, id: u32, at: u64, depth: u32, seen: &mut usize, found: &mut Vec<(u32, Special)>) {
    let (element, before) = (btf.to(id), found.len());
    let Some(bytes) = btf.size(element) else { return };
    for i in 0..btf.count(id) {
        look(btf, element, at.saturating_add(i.saturating_mul(bytes)), depth - 1, seen, found);
        if found.len() == before || *seen > MOST {
            return;
        }
    }
}
