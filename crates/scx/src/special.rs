//! Fields of a map's values that a kernel treats specially: they are found by the names of their types.

use crate::btf::{Btf, Kind};
use crate::{Field, Special};

/// Structs within structs.
const DEEPEST: u32 = 16;
/// Elements of arrays and fields together; kernels allow a few.
const MOST: usize = 4096;

/// The special fields of a value of that type, or of a section's variables. Types that the kernel does not have are the
/// program's own.
pub fn fields(own: &Btf, kernel: &Btf, id: u32) -> Vec<Field> {
    let mut search = Search { own, kernel, seen: 0, found: Vec::new() };
    search.look(id, 0, DEEPEST);
    search.found.sort_by_key(|f| f.at);
    search.found
}

fn of_struct(name: &str) -> Option<Special> {
    match name {
        "bpf_timer" => Some(Special::Timer),
        "bpf_spin_lock" | "bpf_res_spin_lock" => Some(Special::SpinLock),
        "bpf_list_head" | "bpf_rb_root" => Some(Special::Head),
        "bpf_wq" | "bpf_list_node" | "bpf_rb_node" | "bpf_refcount" | "bpf_task_work" => Some(Special::Other),
        _ => None,
    }
}

struct Search<'a> {
    own: &'a Btf,
    kernel: &'a Btf,
    seen: usize,
    found: Vec<Field>,
}

impl Search<'_> {
    /// A pointer whose target has a tag like `kptr`.
    fn kptr(&self, pointer: u32) -> Option<Special> {
        let btf = self.own;
        let tags = std::iter::successors(Some(btf.to(pointer)), |id| Some(btf.to(*id)));
        let mut tags = tags.take(DEEPEST as usize).take_while(|id| {
            matches!(btf.kind(*id), Kind::TypeTag | Kind::Const | Kind::Volatile | Kind::Restrict)
        });
        let tag = tags.find_map(|id| Some(btf.name(id)).filter(|_| btf.kind(id) == Kind::TypeTag))?;
        let target = btf.name(btf.bare(btf.to(pointer)));
        match tag {
            "kptr" if target == "bpf_cpumask" => Some(Special::Mask),
            "kptr" if self.kernel.find(target, Kind::Struct).is_none() => Some(Special::Own),
            "kptr" | "kptr_untrusted" | "percpu_kptr" | "uptr" => Some(Special::Kptr),
            _ => None,
        }
    }
    fn put(&mut self, at: u64, bytes: u64, special: Special) {
        let field = u32::try_from(at).ok().zip(u32::try_from(bytes).ok());
        self.found.extend(field.map(|(at, bytes)| Field { at, bytes, special }));
    }
    fn look(&mut self, id: u32, at: u64, depth: u32) {
        let btf = self.own;
        let id = btf.bare(id);
        self.seen += 1;
        if depth == 0 || self.seen > MOST {
            return;
        }
        match btf.kind(id) {
            Kind::Ptr => {
                if let Some(special) = self.kptr(id) {
                    self.put(at, 8, special);
                }
            }
            Kind::Struct | Kind::Union => match of_struct(btf.name(id)) {
                Some(special) => self.put(at, btf.size(id).unwrap_or_default(), special),
                None => {
                    for m in btf.items(id) {
                        self.look(m.id, at.saturating_add(m.value / 8), depth - 1);
                    }
                }
            },
            Kind::Datasec => {
                for variable in btf.items(id) {
                    self.look(btf.to(variable.id), at.saturating_add(variable.offset.into()), depth - 1);
                }
            }
            Kind::Array => self.array(id, at, depth),
            _ => {}
        }
    }
    /// The first element shows whether there is anything to find.
    fn array(&mut self, id: u32, at: u64, depth: u32) {
        let (element, before) = (self.own.to(id), self.found.len());
        let Some(bytes) = self.own.size(element) else { return };
        for i in 0..self.own.count(id) {
            self.look(element, at.saturating_add(i.saturating_mul(bytes)), depth - 1);
            if self.found.len() == before || self.seen > MOST {
                return;
            }
        }
    }
}
