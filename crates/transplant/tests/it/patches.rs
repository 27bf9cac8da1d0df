//! Additions of patches to an image: files, options, tunables; and parts for which an image has no place.

use crate::again::{image_with, machine, patch_behind, series_or_default, works};
use crate::engine::{Engine, Program};
use schedlab_kernels::diff::{Patch, parse};
use schedlab_transplant::load::Image;

/// A file of the patch, with a sysctl and with a tunable in a folder of debugfs.
const FILE: &str = "\
#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/sysctl.h>
static unsigned int sysctl_sched_mine = 3;
static u32 mine_deep = 5;
static u32 mine_deeper = 7;
static unsigned int mine_tasks;
static int count_tasks(MINE_TABLE *table, int write, void *buffer, size_t *size, loff_t *at)
{
\tstruct task_struct *process, *thread;

\tread_lock(&tasklist_lock);
\tmine_tasks = 0;
\tfor_each_process_thread(process, thread)
\t\tmine_tasks += thread->real_parent == &init_task;
\tread_unlock(&tasklist_lock);
\treturn proc_douintvec(table, write, buffer, size, at);
}
static struct ctl_table mine_table[] = {
\t{
\t\t.procname = \"sched_mine_tasks\",
\t\t.data = &mine_tasks,
\t\t.maxlen = sizeof(unsigned int),
\t\t.mode = 0644,
\t\t.proc_handler = count_tasks,
\t},
\t{
\t\t.procname = \"sched_mine\",
\t\t.data = &sysctl_sched_mine,
\t\t.maxlen = sizeof(unsigned int),
\t\t.mode = 0644,
\t\t.proc_handler = proc_douintvec_minmax,
\t\t.extra1 = SYSCTL_ONE,
\t},
\tMINE_END
};
static int __init mine_init(void)
{
\tstruct dentry *top = debugfs_create_dir(\"sched\", NULL), *folder = debugfs_create_dir(\"mine\", top);

\tdebugfs_create_u32(\"deep\", 0644, folder, &mine_deep);
\tdebugfs_create_u32(\"deeper\", 0644, debugfs_create_dir(\"cpu0\", folder), &mine_deeper);
\tMINE_REGISTER(\"kernel\", mine_table);
\treturn 0;
}
late_initcall(mine_init);
";

fn new_file(path: &str, text: &str) -> Vec<Patch> {
    let lines: String = text.lines().map(|l| format!("+{l}\n")).collect();
    let head = format!("--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{} @@\n", text.lines().count());
    parse("mine.patch", (head + &lines).as_bytes()).unwrap()
}

/// A patch with a file, an option, a sysctl in the kernel's own table, and changes where the image has no place.
fn mine() -> Vec<Patch> {
    // Tables of old trees end with an empty entry.
    let (table, end, kind) = match series_or_default().as_str() {
        "5.10" | "6.1" => ("static struct ctl_table kern_table[] = {\n", "{ }", "struct ctl_table"),
        "6.12" => ("static struct ctl_table kern_table[] = {\n", "", "const struct ctl_table"),
        _ => ("static const struct ctl_table sysctl_subsys_table[] = {\n", "", "const struct ctl_table"),
    };
    let register = if series_or_default() == "5.10" { "register_sysctl" } else { "register_sysctl_init" };
    let file = FILE.replace("MINE_END", end).replace("MINE_TABLE", kind).replace("MINE_REGISTER", register);
    let option =
        "\nconfig SCHED_MINE\n\tbool \"mine\"\n\tdefault y\n\nconfig SCHED_MINE_TOO\n\tbool \"too\"\n";
    let entry = "\t{\n\t\t.procname = \"sched_mine_base\",\n\t\t.data = &sched_mine_base,\n\
                 \t\t.maxlen = sizeof(int),\n\t\t.mode = 0644,\n\t\t.proc_handler = proc_dointvec,\n\t},\n";
    let parts = [
        new_file("kernel/sched/mine.c", &file),
        new_file("include/linux/nobodys.h", "#define NOBODYS 1\n"),
        patch_behind(&["kernel/sched/Makefile"], "obj-y += core.o", "obj-$(CONFIG_SCHED_MINE) += mine.o\n"),
        patch_behind(&["init/Kconfig"], "source \"kernel/Kconfig.preempt\"\n", option),
        patch_behind(&["kernel/sysctl.c"], table, entry),
        patch_behind(
            &["kernel/sysctl.c"],
            "#include <linux/sysctl.h>\n",
            "static int sched_mine_base = 9;\n",
        ),
        patch_behind(&["kernel/fork.c"], "#include <linux/slab.h>\n", "#define IN_FORK 1\n"),
    ];
    parts.concat()
}

fn value(image: &Image, name: &str) -> Option<String> {
    image.tunables().into_iter().find(|(n, _)| n == name).map(|(_, v)| v)
}

#[test]
fn a_build_reports_files_without_a_place_and_the_options_it_set() {
    let Some(made) = image_with(mine(), None) else { return };
    let note = &made.image.note;
    let outside: Vec<&str> = note.outside.iter().map(|o| o.path.as_str()).collect();
    assert_eq!(outside, ["include/linux/nobodys.h", "kernel/fork.c"]);
    assert_eq!(note.outside[1].shim.as_deref(), Some("arch/sim/image/tasks.c"), "{:?}", note.outside);
    let options: Vec<String> = note.options.iter().map(|o| o.words()).collect();
    assert_eq!(options[0], "brings CONFIG_SCHED_MINE: y, its default");
    assert!(options[1].starts_with("brings CONFIG_SCHED_MINE_TOO: n, its default; "), "{options:?}");
    assert_eq!(note.warnings().len(), 2);
}

#[test]
fn tunables_of_a_patch_are_set_wherever_it_registers_them() {
    let said =
        works("patches::tunables_of_a_patch_are_set_wherever_it_registers_them", mine(), |mut image| {
            image.boot(machine(1, 2, 1)).unwrap();
            println!(
                "= {:?} {:?}",
                image.set_tunable("sched_mine", "0"),
                image.set_tunable("sched_mine", "4")
            );
            println!("= {:?}", value(&image, "sched_mine"));
            println!("= {:?} {:?}", image.set_tunable("mine/deep", "6"), value(&image, "mine/deep"));
            println!("= {:?} {:?}", value(&image, "mine/cpu0/deeper"), value(&image, "deeper"));
            println!(
                "= {:?} {:?}",
                image.set_tunable("sched_mine_base", "8"),
                value(&image, "sched_mine_base")
            );
        });
    let Some(said) = said else { return };
    let known = [
        "Err(22) Ok(())",
        "Some(\"4\")",
        "Ok(()) Some(\"6\")",
        "None None",
        // Of the kernel's own tables the scheduler's entries are read; the image lacks the data of most others.
        "Ok(()) Some(\"8\")",
    ];
    assert_eq!(said, known);
}

#[test]
fn a_patch_finds_the_tasks_of_the_workload() {
    let said = works("patches::a_patch_finds_the_tasks_of_the_workload", mine(), |image| {
        let mut engine = Engine::new(image, machine(1, 2, 1));
        for _ in 0..3 {
            engine.start(&Engine::fair("one", None), Program { run: 1_000_000, sleep: 0 }, 0);
        }
        println!("= {:?}", value(&engine.image, "sched_mine_tasks"));
    });
    let Some(said) = said else { return };
    assert_eq!(said, ["Some(\"3\")"]);
}
