//! The keys of an experiment file, one row each. The reader, the messages about keys, `schedlab new --list keys` and
//! the table in docs/formats.md are made from them.
//!
//! Parameters of workloads have no rows here: they are keys of `[workload]` and `[[load]]`, and each
//! benchmark has its own table of them.

use schedlab_base::Result;
use schedlab_kernel::Toggle;
use schedlab_kernel::tunable::TUNABLES;
use schedlab_machine::reader::Table;
use schedlab_workload::BENCHMARKS;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub struct Key {
    pub name: &'static str,
    /// A value it may have, as TOML.
    pub example: &'static str,
    /// Its meaning and its default.
    pub about: &'static str,
}

/// A table of the file with its keys.
#[derive(Debug, Serialize)]
pub struct Section {
    /// Its header, "" for the keys above all tables.
    pub header: &'static str,
    pub about: &'static str,
    pub keys: &'static [Key],
}

const fn key(name: &'static str, example: &'static str, about: &'static str) -> Key {
    Key { name, example, about }
}

/// The keys above all tables.
pub const TOP: Section = Section {
    header: "",
    about: "above the first [table]",
    keys: &[
        key("name", r#""idle-sibling""#, "the experiment's name; default the file's"),
        key("about", r#""what the first idle CPU does""#, "what it asks, for people"),
        key("runs", "10", "runs of each cell; default 10"),
        key("seed", "1", "run i has seed + i; default 1"),
        key("machine", r#""smt-8""#, "the machine, or several as in machines"),
        key("machines", r#"["fb-2x12-smt"]"#, "presets, smp-N, smt-N, host, files, or names of [[machine]]"),
        key("baseline", r#""v4.5""#, "the variant that others are compared with; default the first"),
        key("metrics", r#"["work"]"#, "what the tables show; default the workload's own first metrics"),
        key("min_effect_pct", "2.0", "changes below are \"same\"; default 2"),
        key("background", "true", "whether the machine's own tasks run, in the simulator; default true"),
        key("workload", "", "[workload], or several [[workload]]"),
        key("beside", "", "[[beside]]: benchmarks and rt-app texts that run beside the workload"),
        key("group", "", "[[group]]: task groups; control groups on the live kernel"),
        key("nested", "", "[[nested]]: virtual machines that tasks run in, simulated"),
        key("remote", "", "[[remote]]: machines behind a link that tasks run on, simulated"),
        key("load", "", "[[load]]; default one of the workload as it is"),
        key("variant", "", "[[variant]], at least one"),
        key("at", "", "[[at]]: a change in the middle of a run, of all variants"),
        key("host", "", "[host] with [[host.load]]: other loads on the live kernel"),
        key("vm", "", "[vm]: what --backend vm runs instead"),
        key("code", "", "[code]: what --backend code runs instead"),
        key("published", "", "[[published]]: figures shown beside ours"),
        key("series", "", "[series]: a posted series whose figures are published, for 'study published'"),
        key("slurm", "", "[slurm]: what --engine slurm asks of the cluster"),
        key(
            "change",
            "",
            "[change]: what a switch must move, for validate --changes; of no effect elsewhere",
        ),
    ],
};

/// The keys of a workload.
pub const WORKLOAD: Section = Section {
    header: "[workload]",
    about: "what runs; with the parameters that all loads share",
    keys: &[
        key("name", r#""schbench""#, "the benchmark; of a command its name"),
        key("rtapp", r#""tasks.json""#, "an rt-app file instead"),
        key("rtapp_text", "'{ \"tasks\": ... }'", "the text of an rt-app file instead"),
        key(
            "schedule",
            "\"day.sched\"",
            "a recorded schedule instead, as 'schedlab replay --schedule' writes it",
        ),
        key("command", r#"{ run = "make -j{load}" }"#, "a command instead (commands.md)"),
    ],
};

/// The keys of a `[[beside]]`.
pub const BESIDE: Section = Section {
    header: "[[beside]]",
    about: "a benchmark or an rt-app text that runs beside the workload, as long as that; with its parameters",
    keys: &[
        key("name", r#""hogs""#, "the benchmark; one that ends by itself runs once"),
        key("rtapp", r#""ui.json""#, "an rt-app file instead, relative to the experiment"),
        key("rtapp_text", "'{ \"tasks\": {} }'", "the same, in the experiment itself"),
        key(
            "called",
            r#""hoga""#,
            "name of all its tasks, with numbers; default as the benchmark calls them",
        ),
        key("loads", r#"["vm"]"#, "the loads that have it, by name or as \"WORKLOAD NAME\"; default all"),
    ],
};

/// The keys of a task group.
pub const GROUP: Section = Section {
    header: "[[group]]",
    about: "a task group (cgroup)",
    keys: &[
        key("path", r#""/vm/small""#, "its place below the root"),
        key("shares", "1024", "2 to 262144 (cgroup v1); default 1024"),
        key("weight", "100", "1 to 10000 (cgroup v2), instead of shares; 100 are 1024 shares"),
        key(
            "quota",
            r#""20ms""#,
            "CPU time in each period, over all CPUs (cpu.max); default any; 1 ms at least",
        ),
        key("period", r#""100ms""#, "the quota's period, 1 ms to 1 s; default 100 ms"),
        key(
            "burst",
            r#""10ms""#,
            "unused quota that it may save up (5.14 and later); the quota at most; default 0",
        ),
        key(
            "idle",
            "true",
            "instead of shares: gives way to other groups (cpu.idle, 5.15 and later); default false",
        ),
        key("cpus", r#""0-3""#, "CPUs that its tasks and those of groups below it may use; default any"),
        key(
            "tasks",
            r#"["worker"]"#,
            "names of the tasks in it, with or without their numbers; \"*\" for all; the closest name decides",
        ),
        key("loads", r#"["vm"]"#, "the loads that have it, by name or as \"WORKLOAD NAME\"; default all"),
    ],
};

/// The keys of a virtual machine.
pub const NESTED: Section = Section {
    header: "[[nested]]",
    about: "a virtual machine on the simulated machine; its vCPUs are tasks of its name",
    keys: &[
        key("name", r#""vm""#, "the name of its threads, for [[group]]"),
        key("vcpus", "8", "number of vCPUs"),
        key("kernel", r#""v2.6.30""#, "the profile of its kernel"),
        key("features", r#"["NO_LAST_BUDDY"]"#, "of its kernel"),
        key("tunables", "{ hz = 1000 }", "of its kernel"),
        key(
            "tick",
            r#""periodic""#,
            "\"periodic\" or \"nohz\": whether an idle vCPU's tick continues; default nohz. Kernels before 2.6.21 always have a periodic one",
        ),
        key(
            "halt_poll",
            r#""200us""#,
            "how long the host polls before a halted vCPU's thread sleeps; default 0",
        ),
        key("tasks", r#"["*"]"#, "names of the tasks inside, without their numbers; \"*\" for all"),
        key("loads", r#"["vm"]"#, "the loads that have it, by name or as \"WORKLOAD NAME\"; default all"),
    ],
};

/// The keys of a machine behind a link.
pub const REMOTE: Section = Section {
    header: "[[remote]]",
    about: "a machine behind a link, with a CPU for each of its tasks: clients on another host; simulated",
    keys: &[
        key("name", r#""clients""#, "its name"),
        key("kernel", r#""v3.4""#, "the profile of its kernel"),
        key("delay", r#""50us""#, "what a message takes one way; default 50us"),
        key(
            "queues",
            "8",
            "the first CPUs take the network interface's interrupts, connection by connection; default 1",
        ),
        key("tasks", r#"["client"]"#, "names of the tasks there; they meet others at sockets only"),
        key("loads", r#"["vm"]"#, "the loads that have it, by name or as \"WORKLOAD NAME\"; default all"),
    ],
};

/// The keys of a load.
pub const LOAD: Section = Section {
    header: "[[load]]",
    about: "the workload with some parameters; each may be a sweep",
    keys: &[
        key("name", r#""2x24""#, "default its parameters: \"threads=24\""),
        key("machine", r#""fb-2x24-smt""#, "the machine, or a list; default each of the experiment's"),
        key("workload", r#""schbench""#, "needed only where there are several"),
        key("variants", r#"["first-idle"]"#, "default all; the baseline must be among them"),
        key(
            "baseline",
            r#""v4.14""#,
            "of its variants, what the others are compared with; default the experiment's",
        ),
        key("metrics", r#"["migrations"]"#, "default the experiment's"),
        key(
            "own",
            r#"["migrations"]"#,
            "the metrics that are its own result, which are corrected before other rows; default the workload's (statistics.md)",
        ),
    ],
};

/// The keys of a variant.
pub const VARIANT: Section = Section {
    header: "[[variant]]",
    about: "a kernel and what is changed about it; each value may be a sweep",
    keys: &[
        key("name", r#""first-idle""#, "default the kernel's"),
        key(
            "kernel",
            r#""v4.5""#,
            "a profile; for --backend vm a series (\"6.1\") or the path of a bzImage; \"running\" is the live one",
        ),
        key(
            "patch",
            r#"["mine.patch"]"#,
            "patches of the kernel's source, in order: files, or patches that ship; built for --backend vm (changes.md)",
        ),
        key("config", r#""mine.config""#, "a fragment of configuration for the kernel that is built"),
        key(
            "level",
            r#""counted""#,
            "how the kernel's own code is charged on --backend code: free, counted, woven, exact (code.md)",
        ),
        key(
            "scx",
            r#""./scx_mine --slice 5""#,
            "a sched_ext scheduler that has the tasks during the run: a program with its arguments, for guests and backend code; or a compiled object with values, for backend code (sched-ext.md)",
        ),
        key(
            "features",
            r#"["SIS_FIRST_IDLE", "NO_LAST_BUDDY"]"#,
            "switched on, and with NO_ off; those of its patches, too",
        ),
        key(
            "tunables",
            "{ hz = 1000 }",
            "numbers of the kernel; with --backend code and in real kernels those of its own, too (code.md, live.md)",
        ),
        key("policy", r#""batch""#, "of all tasks of the workload"),
        key("nice", "5", "of all tasks of the workload"),
        key("slice", r#""3ms""#, "that all tasks ask for; of use from 6.12 on"),
        key("tasks", "{ worker = { nice = 5 } }", "policy, nice and slice of one group of tasks"),
        key("settings", r#"{ governor = "performance" }"#, "of the live system (live.md)"),
        key(
            "migration_cost",
            r#"[0, 2500, 10000]"#,
            "how long a task stays cache hot, us by distance (0: measure it), or \"auto\": measure all; in guests of patches/6.1/migration-cost.patch its boot option",
        ),
        key("migration_factor", "120", "per cent of measured migration_cost; default the machine's, or 100"),
        key(
            "group",
            "",
            "[[variant.group]]: task groups of this variant only, as [[group]] without loads; one of the same path replaces that",
        ),
        key("at", "", "[[variant.at]]: a change in the middle of a run"),
    ],
};

/// The keys of a change in the middle of a run.
pub const AT: Section = Section {
    header: "[[at]]",
    about: "a change in the middle of a run; [[variant.at]] is of one variant",
    keys: &[
        key("time", r#""10s""#, "from when on, counted from the end of the warm-up"),
        key("features", r#"["LAST_BUDDY"]"#, "as in [[variant]]"),
        key("tunables", "{ nr_migrate = 8 }", "as in [[variant]]"),
        key(
            "group",
            r#""/vm/small""#,
            "the task group that changes; with task, the one that the task moves to",
        ),
        key("shares", "2048", "of the group, from then on"),
        key("weight", "200", "of the group, instead of shares"),
        key("quota", r#""20ms""#, "of the group, from then on; \"max\" for none"),
        key("period", r#""100ms""#, "the quota's period; default 100 ms"),
        key("burst", r#""10ms""#, "unused quota that it may save up; default 0"),
        key(
            "cpus",
            r#""0-3""#,
            "CPUs that the task may use from then on; of a group, the tasks that are in it then",
        ),
        key("task", r#""worker""#, "the task that changes: a name with or without its number, \"*\" for all"),
        key(
            "scx",
            r#""./scx_mine""#,
            "the sched_ext scheduler from then on, in place of the one before; \"none\" for the kernel's own classes",
        ),
    ],
};

/// The keys of a machine.
pub const MACHINE: Section = Section {
    header: "[[machine]]",
    about: "a machine that differs from another in some numbers, each of which may be a sweep",
    keys: &[
        key("name", r#""slow-probes""#, "what machines and loads call it"),
        key("base", r#""fb-2x12-smt""#, "a preset, smp-N, smt-N or a file"),
        key("cpus", "{ sweep = [4, 8] }", "of smp-N and smt-N"),
        key("costs", "{ probe_hit_ns = 40 }", "names as in machine files"),
        key("background", r#""idle-guest-2""#, "what it runs by itself: as in machine files (machines.md)"),
    ],
};

/// The keys of the part for the live kernel.
pub const HOST: Section = Section {
    header: "[host]",
    about: "what --backend host runs instead",
    keys: &[key("load", "", "[[host.load]], as [[load]]")],
};

/// The keys of the part for guests.
pub const VM: Section = Section {
    header: "[vm]",
    about: "what --backend vm runs instead; what it does not say is the experiment's",
    keys: &[
        key("machine", r#""smt-8""#, "as at the top"),
        key("machines", r#"["smt-8"]"#, "as at the top"),
        key("baseline", r#""6.1""#, "as at the top"),
        key("metrics", r#"["work"]"#, "as at the top"),
        key("runs", "3", "as at the top"),
        key("seed", "1", "as at the top"),
        key("load", "", "[[vm.load]], as [[load]]"),
        key("variant", "", "[[vm.variant]]: of real kernels"),
        key("at", "", "[[vm.at]], as [[at]]"),
        key("left_out", r#""first-idle is of no release""#, "what is not run, shown with the result"),
    ],
};

/// The keys of the part for the kernel's own code.
pub const CODE: Section = Section {
    header: "[code]",
    about: "what --backend code runs instead; what it does not say is the experiment's",
    keys: &[
        key("machine", r#""spr-2x56""#, "as at the top"),
        key("machines", r#"["spr-2x56"]"#, "as at the top"),
        key("baseline", r#""6.1""#, "as at the top"),
        key("metrics", r#"["work"]"#, "as at the top"),
        key("runs", "3", "as at the top"),
        key("seed", "1", "as at the top"),
        key("load", "", "[[code.load]], as [[load]]"),
        key("variant", "", "[[code.variant]]: of kernels whose source is at hand"),
        key("at", "", "[[code.at]], as [[at]]"),
        key("level", r#""counted""#, "of all variants that state none"),
        key("left_out", r#""3.4 has no shims""#, "what is not run, shown with the result"),
    ],
};

/// The keys of a cluster's jobs; `--slurm` of the command line has the same.
pub const SLURM: Section = Section {
    header: "[slurm]",
    about: "what --engine slurm asks of the cluster",
    keys: &[
        key("partition", r#""batch""#, "the partition; default the cluster's"),
        key(
            "constraint",
            r#""epyc""#,
            "feature that nodes must have; runs in real time need one that names one kind",
        ),
        key("account", r#""sched""#, "the account that is charged; default the user's"),
        key("qos", r#""normal""#, "quality of service; default the user's"),
        key("time", r#""1:00:00""#, "limit of a task's time, as sbatch takes it; default the partition's"),
        key("mem", r#""2G""#, "memory of a task, as sbatch takes it; default the cluster's"),
        key(
            "exclusive",
            "true",
            "whether a task has its node for itself; runs in real time always have; default false",
        ),
        key("cpus", "4", "CPUs of a task: so many simulations run side by side in it; default 1"),
        key("at_once", "50", "tasks that run at once at most; default any number"),
        key("tasks", "200", "tasks into which a job's runs are cut at most; default 100"),
        key("schedlab", r#""/opt/schedlab""#, "the executable on the nodes; default the one that submits"),
    ],
};

/// The keys of a published figure.
pub const PUBLISHED: Section = Section {
    header: "[[published]]",
    about: "a figure that is shown beside ours",
    keys: &[
        key("variant", r#""v4.5""#, "the variant it was published for"),
        key("metric", r#""schbench.latency.p99""#, "one of the experiment's"),
        key("load", r#""2x24""#, "default any"),
        key("value", r#""4680us""#, "a time, or a number with unit"),
        key("unit", r#""1/s""#, "of a number"),
        key("source", r#""D000""#, "where it was published"),
        key(
            "changes",
            r#"{ "2x24" = [-12.5, 0.4, 0.6] }"#,
            "instead of value, by load: the variant's change against the baseline, %; then, if published, the deviations of baseline and variant, %",
        ),
        key(
            "values",
            r#"{ "2x24" = 13.75 }"#,
            "instead of changes, by load: the variant's value, as in value",
        ),
        key(
            "machine",
            r#""spr-2x56""#,
            "of changes and values: the machine, or a list of its readings, best first",
        ),
        key(
            "not_modelled",
            r#""no file system""#,
            "of changes and values: why these loads are not run; they are no loads then",
        ),
    ],
};

/// The keys of a posted series.
pub const SERIES: Section = Section {
    header: "[series]",
    about: "a posted series of patches whose figures are [[published]], for 'study published'",
    keys: &[
        key("title", r#""Ratelimit update to tg->load_avg""#, "its subject"),
        key("posted", r#""A. Lu, 12 Sep 2023""#, "who posted it, and when"),
        key("mechanisms", r#"["line", "lock"]"#, "what carries its gain, by names of docs/published.md"),
        key("quick", r#"["udp 56"]"#, "the loads that --quick runs"),
    ],
};

/// The keys of a switch that is validated.
pub const CHANGE: Section = Section {
    header: "[change]",
    about: "what a switch must move, in the real kernel as in the simulation; read by validate --changes",
    keys: &[
        key("from", r#""off""#, "the variant before the change"),
        key("to", r#""on""#, "the variant after it"),
        key(
            "moves",
            r#"["migrations"]"#,
            "rows that must move by 5 % or more, in the same direction on both sides",
        ),
    ],
};

pub const SECTIONS: &[&Section] = &[
    &TOP, &WORKLOAD, &BESIDE, &GROUP, &NESTED, &REMOTE, &LOAD, &VARIANT, &AT, &MACHINE, &HOST, &VM, &CODE,
    &PUBLISHED, &SERIES, &SLURM, &CHANGE,
];

impl Section {
    /// The names of its keys.
    pub fn names(&self) -> Vec<&'static str> {
        self.keys.iter().map(|k| k.name).collect()
    }
    /// Checks that a table has only keys of this section and `more`, the parameters of a workload, which messages call
    /// `what`.
    ///
    /// # Errors
    /// When it has another key; the error names the table that has this key, or the nearest key.
    /// When it has another key; the table that has this key is named, or the nearest key.
    pub fn check(&self, table: &Table<'_>, what: &str, more: &[&str]) -> Result<()> {
        let own = self.names();
        // A misspelt key is a parameter more often than one of the few keys that all have.
        let known: Vec<&str> = more.iter().copied().chain(own.iter().copied()).collect();
        table.only(what, &known, |name| Section::elsewhere(name, !more.is_empty()))
    }
    /// The section to which another section's key belongs, in words.
    fn elsewhere(name: &str, of_workload: bool) -> Option<String> {
        if TUNABLES.iter().any(|t| t.name == name) {
            return Some(format!("{name} is a tunable of a [[variant]]: tunables = {{ {name} = ... }}"));
        }
        if Toggle::parse(name).is_ok() {
            return Some(format!("{name} is a feature of a [[variant]]: features = [\"{name}\"]"));
        }
        let has = |s: &&Section| s.keys.iter().any(|k| k.name == name && !k.example.is_empty());
        let Some(other) = [&TOP, &VARIANT, &LOAD, &WORKLOAD].into_iter().find(has) else {
            let is_param = BENCHMARKS.iter().any(|b| b.params.iter().any(|p| p.name == name));
            return (is_param && !of_workload).then(|| {
                format!("{name} is a parameter of a workload: it belongs in [workload] or [[load]]")
            });
        };
        Some(match other.header {
            "" => format!("{name} belongs at the top of the file, above the first [table]"),
            header => format!("{name} belongs in {header}"),
        })
    }
}

/// The table of docs/formats.md.
pub fn markdown() -> String {
    let mut text = String::from("| in | key | for example | meaning |\n|---|---|---|---|\n");
    for section in SECTIONS {
        let of = if section.header.is_empty() { "top" } else { section.header };
        for Key { name, example, about } in section.keys {
            let example = if example.is_empty() { String::new() } else { format!("`{example}`") };
            text += &format!("| `{of}` | `{name}` | {example} | {about} |\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_the_page_is_this_one() {
        let marks = ["<!-- begin: experiment keys -->\n", "<!-- end: experiment keys -->"];
        schedlab_base::testing::page_has("docs/formats.md", marks, &markdown());
    }

    #[test]
    fn every_example_is_toml() {
        for key in SECTIONS.iter().flat_map(|s| s.keys).filter(|k| !k.example.is_empty()) {
            let text = format!("{} = {}", key.name, key.example);
            assert!(toml::de::DeTable::parse(&text).is_ok(), "{text}");
        }
    }
}
