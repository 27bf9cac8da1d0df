#!/usr/bin/env python3
"""Is a broken scheduler noticed? Mutants of a kernel's own code, each run on backend code.

A mutant drops or doubles one call of kernel/sched (an enqueue, a dequeue, a wakeup, a lock, a pick, a tracepoint), one
time in N. All mutants of a seed are in one patch, and the sysctl sched_hostile says which one is on, so that one image
serves all. A mutant is *noticed* by an error or a warning of its run, *shown* where wakeups, switches or CPU time differ
from those of the tree itself by more than LIMIT, *slight* where they differ by less, *equal* where nothing differs, and
*unreached* where the loads make no such call. Exit code 1: a run ended otherwise than with a result or an error.

usage: benches/hostile.py TREE FOLDER [-n MUTANTS] [-s SEED] [-k KERNEL] [-f FIRST]
  TREE    an unpatched tree of KERNEL (6.1)      FOLDER  for the patch, the experiments and the result (result.tsv)
  SCHEDLAB names another executable than target/debug/schedlab.
"""
import argparse
import difflib
import json
import os
import random
import re
import subprocess
import sys

FILES = ["core.c", "fair.c", "rt.c", "deadline.c"]
CALLS = """enqueue_entity dequeue_entity __enqueue_entity __dequeue_entity add_nr_running sub_nr_running resched_curr
put_prev_entity set_next_entity update_curr enqueue_task dequeue_task activate_task deactivate_task ttwu_do_wakeup
ttwu_do_activate ttwu_queue rq_lock rq_unlock raw_spin_rq_lock raw_spin_rq_unlock set_task_cpu __set_task_cpu attach_task
detach_task check_preempt_curr wakeup_preempt raw_spin_lock raw_spin_unlock trace_sched_wakeup trace_sched_waking
trace_sched_switch rq_unlock_irqrestore preempt_disable preempt_enable list_add list_move list_del_init list_add_tail
enqueue_rt_entity dequeue_rt_entity __enqueue_rt_entity __dequeue_rt_entity enqueue_top_rt_rq dequeue_top_rt_rq
enqueue_pushable_task dequeue_pushable_task enqueue_dl_entity dequeue_dl_entity __enqueue_dl_entity __dequeue_dl_entity
account_entity_enqueue account_entity_dequeue place_entity update_rq_clock put_prev_task set_next_task
update_load_avg wake_up_q send_call_function_single_ipi __smp_call_single_queue smp_send_reschedule
set_tsk_need_resched clear_tsk_need_resched finish_task prepare_task balance_callbacks nohz_balancer_kick
trigger_load_balance attach_tasks""".split()
TIMES = [2, 7, 50, 300, 1000]
LIMIT = 0.02
# Mutants in the patch for each that is asked for: of many the loads never make the call.
SPARE = 4
# Added to the sysctl: the mutant says that it was reached, and does nothing.
PROBE = 100000
SHOWN = ["wakeups", "switches.voluntary", "switches.involuntary", "cpu_time", "migrations"]

SYSCTL = """#include <linux/init.h>
#include <linux/sysctl.h>
unsigned int sysctl_sched_hostile;
static struct ctl_table hostile_table[] = {
\t{ .procname = "sched_hostile", .data = &sysctl_sched_hostile, .maxlen = sizeof(unsigned int), .mode = 0644,
\t  .proc_handler = proc_dointvec },
\t{ }
};
static int __init hostile_init(void)
{
\tregister_sysctl_init("kernel", hostile_table);
\treturn 0;
}
late_initcall(hostile_init);
"""

LOADS = """name = "mutant"
machine = "smp-4"
runs = 1
metrics = [%s]
[[workload]]
name = "hackbench"
groups = 2
loops = 30
runtime = "3s"
[[workload]]
name = "schbench"
message_threads = 1
threads = 6
runtime = "300ms"
[[workload]]
rtapp = "classes.json"
[[load]]
workload = "hackbench"
[[load]]
workload = "schbench"
[[load]]
workload = "classes.json"
[[variant]]
name = "m"
kernel = "%s"
patch = ["hostile.patch"]
tunables = { sched_hostile = %d }
"""
CLASSES = {"global": {"duration": 1}, "tasks": {
    "fifo": {"instance": 3, "policy": "SCHED_FIFO", "priority": 5, "loop": -1, "run": 900, "sleep": 2100},
    "rr": {"instance": 2, "policy": "SCHED_RR", "priority": 3, "loop": -1, "run": 1500, "sleep": 1000},
    "dead": {"instance": 2, "policy": "SCHED_DEADLINE", "dl-runtime": 2000, "dl-period": 10000, "loop": -1,
             "run": 1200, "timer": {"ref": "unique", "period": 10000}},
    "fair": {"instance": 6, "loop": -1, "run": 400, "sleep": 700}}}


def sites(tree):
    """Calls that are a statement of a line: file, line number, function around it, indentation, call."""
    found = []
    for name in FILES:
        path = f"{tree}/kernel/sched/{name}"
        text = open(path, encoding="utf-8", errors="surrogateescape").read().split("\n")
        around = ""
        for number, line in enumerate(text):
            head = re.match(r"^[A-Za-z_].*?\b(\w+)\(", line)
            if head and not line.rstrip().endswith(";"):
                around = head.group(1)
            call = re.match(r"^(\t+)(\w+)\((.*)\);$", line)
            if call and call.group(2) in CALLS and line.count("(") == line.count(")"):
                found.append((name, number, around, call.group(1), line.strip()))
    return found


def mutant(number, how, times, call):
    gate = f"extern unsigned int sysctl_sched_hostile; static unsigned int hostile_n; " \
           f"int hostile = sysctl_sched_hostile % {PROBE} == {number} && ++hostile_n % {times} == 0; " \
           f"if (hostile && sysctl_sched_hostile >= {PROBE}) {{ hostile = 0; pr_err(\"reached\\n\"); }}"
    if how == "dropped":
        return f"{{ {gate} if (!hostile) {call} }}"
    return f"{{ {gate} {call} if (hostile) {call} }}"


def patch_of(tree, chosen):
    """One patch with all mutants; those of one line are alternatives of each other."""
    diffs = []
    for name in FILES:
        path = f"{tree}/kernel/sched/{name}"
        before = open(path, encoding="utf-8", errors="surrogateescape").read().split("\n")
        after = list(before)
        for number, (file, line, _, indent, call, how, times) in enumerate(chosen, 1):
            if file == name:
                inner = after[line].strip() if after[line] != before[line] else call
                after[line] = indent + mutant(number, how, times, inner)
        if after != before:
            diff = difflib.unified_diff(before, after, f"a/kernel/sched/{name}", f"b/kernel/sched/{name}", lineterm="")
            diffs.append("\n".join(diff))
    makefile = open(f"{tree}/kernel/sched/Makefile").read().split("\n")
    added = [line for row in makefile for line in ([row, "obj-y += hostile.o"] if row == "obj-y += fair.o" else [row])]
    diffs.append("\n".join(difflib.unified_diff(makefile, added, "a/kernel/sched/Makefile", "b/kernel/sched/Makefile",
                                                lineterm="")))
    lines = SYSCTL.rstrip("\n").split("\n")
    diffs.append(f"--- /dev/null\n+++ b/kernel/sched/hostile.c\n@@ -0,0 +1,{len(lines)} @@\n" +
                 "\n".join("+" + line for line in lines))
    return "\n".join(diffs) + "\n"


def run(folder, schedlab, kernel, number):
    """A mutant's runs: exit code, result, what was said."""
    name = f"m{number}.toml"
    metrics = ", ".join(f'"{metric}"' for metric in SHOWN)
    open(f"{folder}/{name}", "w").write(LOADS % (metrics, kernel, number))
    words = [schedlab, "run", name, "--backend", "code", "--level", "free", "--jobs", "1", "--json", "--quiet"]
    try:
        made = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300,
                              env={**os.environ, "SCHEDLAB_CODE_TIMEOUT": "5"})
    except subprocess.TimeoutExpired:
        return None, None, "no end within 300 s"
    return made.returncode, made.stdout, made.stderr


def figures(result):
    """Each metric of the code's cells, by load."""
    cells = [c for c in result["cells"] if c.get("backend") == "code"]
    all_of = {}
    for cell in cells:
        for metric in SHOWN:
            value = cell["metrics"].get(metric) or {}
            all_of[(cell["workload"], metric)] = value.get("mean")
    return all_of


def judge(code, out, said, base):
    """A mutant's class, and the words or figures that say so."""
    if code is None:
        return "BAD", said
    if code != 0:
        first = said.strip().split("\n")[0] if said.strip() else "no word"
        return ("error" if code == 2 else "BAD"), first
    result = json.loads(out)
    wrong = [w for w in result["warnings"] if any(word in json.dumps(w) for word in
                                                 ("the kernel's code is wrong", "the kernel's code warns", "cut off"))]
    if wrong:
        return "warning", json.dumps(wrong[0])[:300]
    now = figures(result)
    apart = {key: (base[key], value) for key, value in now.items() if base.get(key) != value}
    if not apart:
        return "equal", ""
    def size(pair):
        return abs((pair[1] or 0) - (pair[0] or 0)) / max(abs(pair[0] or 0), 1)
    key, pair = max(apart.items(), key=lambda item: size(item[1]))
    return ("shown" if size(pair) > LIMIT else "slight"), f"{key[0]} {key[1]} {pair[0]} -> {pair[1]}"


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("tree")
    parser.add_argument("folder")
    parser.add_argument("-n", type=int, default=200)
    parser.add_argument("-s", type=int, default=1)
    parser.add_argument("-k", default="6.1")
    parser.add_argument("-f", type=int, default=1)
    asked = parser.parse_args()
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    schedlab = os.environ.get("SCHEDLAB", f"{here}/target/debug/schedlab")
    os.makedirs(asked.folder, exist_ok=True)
    draw = random.Random(asked.s)
    found = sites(asked.tree)
    every = [(*site, how, times) for site in found for how in ("dropped", "doubled") for times in TIMES]
    chosen = draw.sample(every, min(SPARE * asked.n, len(every)))
    open(f"{asked.folder}/hostile.patch", "w", errors="surrogateescape").write(patch_of(asked.tree, chosen))
    json.dump(CLASSES, open(f"{asked.folder}/classes.json", "w"))
    code, out, said = run(asked.folder, schedlab, asked.k, 0)
    if code != 0:
        sys.exit(f"the tree itself: {said}")
    base, counts = figures(json.loads(out)), {}
    with open(f"{asked.folder}/result.tsv", "a" if asked.f > 1 else "w") as table:
        idle = set()
        for number, (file, line, around, _, call, how, times) in enumerate(chosen, 1):
            done = sum(count for kind, count in counts.items() if kind != "unreached")
            if number < asked.f or (file, line) in idle or done >= asked.n:
                continue
            kind, words = judge(*run(asked.folder, schedlab, asked.k, number), base)
            if kind == "equal" and "reached" not in (run(asked.folder, schedlab, asked.k, PROBE + number)[1] or ""):
                kind = "unreached"
                # A call that is not made seven times is not made often.
                idle |= {(file, line)} if times <= 7 else set()
            counts[kind] = counts.get(kind, 0) + 1
            row = f"{number}\t{kind}\t{how} 1 in {times}\t{file}:{line + 1} {around}: {call}\t{words}"
            print(row, file=table, flush=True)
            print(row, flush=True)
    print(counts)
    sys.exit(1 if counts.get("BAD") else 0)


if __name__ == "__main__":
    main()
