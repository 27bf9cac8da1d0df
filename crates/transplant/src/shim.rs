//! The overlay: the files of `shim/`, which `kernels::code` lays into a tree as `arch/sim`.

use schedlab_kernels::code::Overlay;

macro_rules! overlay {
    ($($path:literal)*) => {
        /// Every file of the folder, with its path there.
        pub const OVERLAY: Overlay<'static> = Overlay(&[$(($path, include_str!(concat!("../shim/", $path)))),*]);
    };
}

overlay! {
    "Kbuild"
    "Kconfig"
    "Kconfig.debug"
    "Makefile"
    "abi.h"
    "abi_ext.h"
    "cc"
    "config"
    "image.lds"
    "image/Makefile"
    "image/arena.c"
    "image/audit.c" "image/audit_order.c"
    "image/balance.c"
    "image/boot.c"
    "image/bpf.h" "image/bpf_engine.c" "image/bpf_arena.c" "image/bpf_atomic.c" "image/bpf_helpers.c"
    "image/bpf_dynptr.c" "image/bpf_fields.c" "image/bpf_iters.c" "image/bpf_kfuncs.c" "image/bpf_locks.c"
    "image/bpf_maps.c" "image/bpf_objects.c" "image/bpf_ops.c" "image/bpf_rings.c" "image/bpf_run.c"
    "image/bpf_trace.c" "image/bpf_writes.c"
    "image/choices.c"
    "image/cost.c"
    "image/debugfs.c"
    "image/draws.c"
    "image/ext.c" "image/ext_groups.c" "image/ext_steps.c"
    "image/fleet.c"
    "image/fleet.h"
    "image/fleet_state.c"
    "image/groups.c"
    "image/headers.c"
    "image/headers.h"
    "image/headers_counted.c"
    "image/host.h"
    "image/hotplug.c"
    "image/idle.c"
    "image/image.h"
    "image/irq.c"
    "image/judged.c"
    "image/kthreads.c"
    "image/labels.c"
    "image/lib.c"
    "image/lines.c" "image/locks.c"
    "image/memory.c" "image/missing.c"
    "image/most.c"
    "image/notes.c"
    "image/objects.c"
    "image/oracle.c"
    "image/others.c"
    "image/percpu.c"
    "image/picked.c"
    "image/probes.c"
    "image/processes.c"
    "image/reports.c"
    "image/samples.c"
    "image/shims.c"
    "image/stacks.c"
    "image/tables.c"
    "image/tasks.c"
    "image/time.c"
    "image/topology.c"
    "image/traced.c"
    "image/tree.c"
    "image/tree_state.c"
    "image/tunables.c"
    "image/tunables.h"
    "image/verbs.c"
    "image/weave.c"
    "include/asm/Kbuild"
    "include/asm/atomic.h"
    "include/asm/bitops.h"
    "include/asm/bug.h"
    "include/asm/cache.h"
    "include/asm/cmpxchg.h"
    "include/asm/count.h"
    "include/asm/counted.h"
    "include/asm/current.h"
    "include/asm/elf.h"
    "include/asm/fixmap.h"
    "include/asm/hidden.h"
    "include/asm/hugetlb.h"
    "include/asm/hw_breakpoint.h"
    "include/asm/idle.h"
    "include/asm/jump_label.h"
    "include/asm/irq_work.h"
    "include/asm/irqflags.h"
    "include/asm/kvm_para.h"
    "include/asm/mmu.h"
    "include/asm/mmu_context.h"
    "include/asm/mmzone.h"
    "include/asm/page.h"
    "include/asm/percpu.h"
    "include/asm/pgalloc.h"
    "include/asm/pgtable.h"
    "include/asm/preempt.h"
    "include/asm/processor.h"
    "include/asm/ptrace.h"
    "include/asm/smp.h"
    "include/asm/sparsemem.h"
    "include/asm/spinlock.h"
    "include/asm/spinlock_types.h"
    "include/asm/string.h"
    "include/asm/switch_to.h"
    "include/asm/syscall.h"
    "include/asm/thread_info.h"
    "include/asm/timex.h"
    "include/asm/tlb.h"
    "include/asm/tlbflush.h"
    "include/asm/topology.h"
    "include/asm/uaccess.h"
    "include/asm/vmalloc.h"
    "include/uapi/asm/Kbuild"
    "include/uapi/asm/bitsperlong.h"
    "include/uapi/asm/byteorder.h"
    "include/uapi/asm/ptrace.h"
    "include/uapi/asm/sigcontext.h"
    "include/uapi/asm/unistd.h"
    "kernel/asm-offsets.c"
    "objects"
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn below(folder: &Path, prefix: &str, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            match entry.path().is_dir() {
                true => below(&entry.path(), &format!("{name}/"), found),
                false => found.push(name),
            }
        }
    }

    #[test]
    fn every_file_of_the_folder_is_compiled_in() {
        let mut found = Vec::new();
        below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("shim"), "", &mut found);
        found.sort();
        let mut listed: Vec<String> = OVERLAY.0.iter().map(|(path, _)| (*path).to_owned()).collect();
        listed.sort();
        assert_eq!(listed, found);
    }

    /// The names of the static variables of a C file, from its lines that declare some.
    fn statics(text: &'static str) -> Vec<&'static str> {
        // An attribute behind a name may have parentheses; a function has them before.
        let bare = |line: &'static str| line.trim_end_matches(';').split(" __").next().unwrap_or_default();
        let declares = |line: &&'static str| {
            line.starts_with("static ") && line.ends_with(';') && !bare(line).contains('(')
        };
        let mut names = Vec::new();
        for line in text.lines().filter(declares).map(bare) {
            for one in line.split(',') {
                let one = one.split(['=', '[']).next().unwrap_or_default().trim_end();
                // A macro in capitals is an attribute.
                names.extend(one.rsplit([' ', '*']).find(|word| word.contains(|c: char| c.is_lowercase())));
            }
        }
        names
    }

    #[test]
    fn files_that_are_one_object_share_no_static_name() {
        let text = |path: &str| OVERLAY.0.iter().find(|(of, _)| *of == path).unwrap().1;
        assert_eq!(
            statics("static u64 *a, b[4];\nstatic int f(int x);\nstatic char c = 1;"),
            ["a", "b", "c"]
        );
        // C merges two such variables without a word.
        for object in ["image/most.c", "image/others.c"] {
            let files =
                text(object).lines().filter_map(|line| line.strip_prefix("#include \"")?.strip_suffix('"'));
            let mut names: Vec<(&str, &str)> = Vec::new();
            for file in files {
                names.extend(statics(text(&format!("image/{file}"))).into_iter().map(|name| (name, file)));
            }
            names.sort_unstable();
            let same = names.windows(2).find(|two| two[0].0 == two[1].0);
            assert_eq!(same, None, "{object}");
            assert!(names.len() > 5, "{object}: {names:?}");
        }
    }

    #[test]
    fn shims_are_short_and_name_the_files_that_they_stand_for() {
        for (path, text) in OVERLAY.0.iter().filter(|(path, _)| path.ends_with(".c")) {
            assert!(text.lines().count() < 300, "{path}");
            assert!(text.starts_with("// SPDX-License-Identifier: GPL-2.0-only\n/*"), "{path}");
        }
        let columns =
            |line: &str| line.chars().fold(0, |at, c| if c == '\t' { at / 8 * 8 + 8 } else { at + 1 });
        for (path, text) in OVERLAY.0.iter().filter(|(path, _)| path.ends_with(".c") || path.ends_with(".h"))
        {
            assert!(text.lines().all(|line| columns(line) <= 120), "{path}");
        }
    }
}
