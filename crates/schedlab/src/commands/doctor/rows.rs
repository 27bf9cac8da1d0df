//! The table of `doctor`: each thing that a machine may have is a row with a small function.

use schedlab_base::Version;
use schedlab_compare::noise::Floors;
use schedlab_guest::{Mode, Qemu, kvm};
use schedlab_kernels::images::{self, Listed};
use schedlab_kernels::{cache, find_qemu};
use schedlab_native::cgroups;
use schedlab_native::counters::{Set, Whom, Width};
use schedlab_native::settings::{Files, System};
use schedlab_native::tracepoints;
use serde::Serialize;
use std::io::ErrorKind;
use std::path::Path;

/// Whether the machine has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Presence {
    Yes,
    /// It has a part of it, or this user may not use it.
    Partly,
    No,
}

/// A row with its state on this machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CheckedRow {
    pub name: &'static str,
    pub state: Presence,
    /// The finding, or the reason why it is missing.
    pub said: String,
    pub needed_for: &'static str,
    /// The remedy; `None` where none is needed, or none is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mend: Option<String>,
}

/// The result of a row's function: state, words, remedy.
type RowResult = (Presence, String, Option<String>);

pub struct DoctorRow {
    name: &'static str,
    needed_for: &'static str,
    look: fn(&Here) -> RowResult,
}

/// The machine that is examined.
pub struct Here {
    system: System,
    counters: Set,
    qemu: Result<Qemu, schedlab_base::Error>,
    images: Vec<Listed>,
    floors: Floors,
    /// CPUs where perf does not see all events, or why events can't be recorded.
    blind: Result<Vec<u32>, schedlab_base::Error>,
}

#[rustfmt::skip]
pub const ROWS: &[DoctorRow] = &[
    DoctorRow { name: "software events", needed_for: "switches, migrations and CPU time of live runs", look: software },
    DoctorRow { name: "hardware events", needed_for: "cycles, instructions and cache misses ('stat', 'profile', live runs)", look: hardware },
    DoctorRow { name: "perf limit", needed_for: "events of the kernel, and of other users' tasks", look: paranoid },
    DoctorRow { name: "tracepoints", needed_for: "each wakeup, switch and migration of live runs (sched tracepoints)", look: tracepoints },
    DoctorRow { name: "sched/features", needed_for: "variants with features on the running kernel", look: features },
    DoctorRow { name: "sched defaults", needed_for: "comparing this kernel with profiles and guests ('kernel features' has the tree's and Debian's)", look: defaults },
    DoctorRow { name: "sched domains", needed_for: "comparing this kernel's domains with those that schedlab derives", look: domains },
    DoctorRow { name: "schedstat", needed_for: "balance counters of the running kernel ('schedstat', validation)", look: schedstat },
    DoctorRow { name: "control groups", needed_for: "[[group]] of live runs: weights and limits", look: cgroup },
    DoctorRow { name: "sched_ext", needed_for: "BPF policies on the running kernel", look: sched_ext },
    DoctorRow { name: "QEMU", needed_for: "--backend vm; its deterministic mode needs 8.1 or later", look: qemu },
    DoctorRow { name: "KVM", needed_for: "guests in real time at the CPUs' own speed", look: kvm_row },
    DoctorRow { name: "kernel images", needed_for: "--backend vm", look: kernels },
    DoctorRow { name: "noise floor", needed_for: "knowing which changes this machine can show", look: noise },
];

impl Here {
    /// Examines this machine.
    pub fn look(floors: Floors) -> Here {
        let (system, counters) = (System::live(), Set::open(&Whom::Myself, Width::Caches));
        let images = cache::folder(None).map(|cache| images::list(&[], &cache)).unwrap_or_default();
        let blind = tracepoints::blind_cpus();
        Here { system, counters, qemu: find_qemu(), images, floors, blind }
    }
    pub fn rows(&self) -> Vec<CheckedRow> {
        ROWS.iter().map(|row| self.row(row)).collect()
    }
    fn row(&self, row: &DoctorRow) -> CheckedRow {
        let (state, said, mend) = (row.look)(self);
        CheckedRow { name: row.name, state, said, needed_for: row.needed_for, mend }
    }
    fn read(&self, path: &str) -> std::io::Result<String> {
        self.system.read(&self.system.place(path)).map(|t| t.trim().to_owned())
    }
    fn has(&self, path: &str) -> bool {
        self.system.place(path).exists()
    }
}

fn yes(said: impl Into<String>) -> RowResult {
    (Presence::Yes, said.into(), None)
}
fn not(state: Presence, said: impl Into<String>, mend: &str) -> RowResult {
    (state, said.into(), (!mend.is_empty()).then(|| mend.to_owned()))
}

fn software(here: &Here) -> RowResult {
    match here.counters.why("perf.context_switches").or(here.counters.why("perf.task_clock")) {
        None => yes("the kernel counts them for this user"),
        Some(why) => not(Presence::No, why, "sudo sysctl kernel.perf_event_paranoid=1"),
    }
}

fn hardware(here: &Here) -> RowResult {
    let absent = |name: &&str| here.counters.why(name).is_some();
    let missing: Vec<&str> =
        ["perf.cycles", "perf.instructions", "perf.cache_misses"].into_iter().filter(absent).collect();
    match missing.first().and_then(|name| here.counters.why(name)) {
        None => yes("cycles, instructions and cache misses"),
        Some(why) if missing.len() == 3 => {
            not(Presence::No, why, "use a machine, or a VM setting, that exposes the PMU")
        }
        Some(why) => not(Presence::Partly, format!("{} missing: {why}", missing.join(", ")), ""),
    }
}

fn paranoid(here: &Here) -> RowResult {
    let path = "/proc/sys/kernel/perf_event_paranoid";
    let mend = "sudo sysctl kernel.perf_event_paranoid=0";
    match here.read(path).map(|t| t.parse::<i32>()) {
        Ok(Ok(level)) if level <= 0 => yes(format!("perf_event_paranoid is {level}")),
        Ok(Ok(level)) if level <= 2 => {
            not(Presence::Partly, format!("perf_event_paranoid is {level}: users see their own tasks"), mend)
        }
        Ok(Ok(level)) => {
            not(Presence::No, format!("perf_event_paranoid is {level}: users see nothing"), mend)
        }
        _ => {
            not(Presence::No, "this kernel has no performance events", "use a kernel with CONFIG_PERF_EVENTS")
        }
    }
}

fn tracepoints(here: &Here) -> RowResult {
    match &here.blind {
        Ok(blind) if blind.is_empty() => yes("recorded through perf"),
        Ok(blind) => {
            let cpus: Vec<String> = blind.iter().map(u32::to_string).collect();
            let said = format!("perf does not report the idle task of CPU {}", cpus.join(", "));
            if tracepoints::by_instance() {
                yes(format!("recorded through an instance of tracefs: {said}"))
            } else {
                not(Presence::Partly, said, "run as root, in the first PID namespace")
            }
        }
        Err(e) => not(Presence::No, e.message(), e.remedy().unwrap_or_default()),
    }
}

fn features(here: &Here) -> RowResult {
    let places = ["/sys/kernel/debug/sched/features", "/sys/kernel/debug/sched_features"];
    if let Some(path) = places.into_iter().find(|p| here.has(p)) {
        return match here.system.writable(&here.system.place(path)) {
            Ok(()) => yes(path),
            Err(e) => not(Presence::Partly, format!("{path}: {e}"), "run as root"),
        };
    }
    match here.system.list(&here.system.place("/sys/kernel/debug")).is_empty() {
        _ if here.read("/sys/kernel/debug/").is_err_and(|e| e.kind() == ErrorKind::PermissionDenied) => {
            not(Presence::Partly, "only root may read debugfs", "run as root")
        }
        true => not(
            Presence::No,
            "debugfs is not mounted",
            "sudo mount -t debugfs debugfs /sys/kernel/debug (or --backend vm)",
        ),
        false => not(
            Presence::No,
            "this kernel has no sched/features",
            "use a kernel with CONFIG_SCHED_DEBUG, or --backend vm",
        ),
    }
}

/// Settings whose defaults differ between distributions and releases: name and file. If only some kernels have the
/// file, its presence shows that the option is on.
const DEFAULTS: &[(&str, &str)] = &[
    ("autogroup", "/proc/sys/kernel/sched_autogroup_enabled"),
    ("rt_runtime_us", "/proc/sys/kernel/sched_rt_runtime_us"),
    ("preempt", "/sys/kernel/debug/sched/preempt"),
    ("cgroup_mode", "/sys/kernel/debug/sched/cgroup_mode"),
];
const UCLAMP: &str = "/proc/sys/kernel/sched_util_clamp_min";

fn defaults(here: &Here) -> RowResult {
    let read = |(name, path): &(&str, &str)| Some(format!("{name} {}", here.read(path).ok()?));
    let mut all: Vec<String> = DEFAULTS.iter().filter_map(read).collect();
    if all.is_empty() {
        return not(Presence::No, "none of its settings can be read", "mount /proc; run as root for debugfs");
    }
    all.push(format!("utilisation clamping {}", if here.has(UCLAMP) { "on" } else { "not built in" }));
    yes(all.join(", "))
}

/// 6.12 and later show the domains only while `verbose` is set, 6.1 always.
fn domains(here: &Here) -> RowResult {
    let folder = "/sys/kernel/debug/sched";
    let some = |path: &str| !here.system.list(&here.system.place(path)).is_empty();
    match here.read(&format!("{folder}/verbose")).as_deref() {
        _ if some(&format!("{folder}/domains/cpu0")) => yes("in debugfs"),
        Ok("N") => not(
            Presence::Partly,
            "debugfs has them with 'verbose' only",
            "echo Y > /sys/kernel/debug/sched/verbose",
        ),
        Ok(_) => not(Presence::No, "debugfs has none, as on a machine of one CPU", ""),
        Err(_) => {
            not(Presence::No, "debugfs does not show them to this user", "run as root, with 5.13 or later")
        }
    }
}

fn schedstat(here: &Here) -> RowResult {
    if !here.has("/proc/schedstat") {
        return not(
            Presence::No,
            "this kernel keeps no schedstat",
            "use a kernel with CONFIG_SCHEDSTATS, or --backend vm",
        );
    }
    match here.read("/proc/sys/kernel/sched_schedstats").as_deref() {
        Ok("0") => not(Presence::Partly, "switched off", "sudo sysctl kernel.sched_schedstats=1"),
        _ => yes("/proc/schedstat counts"),
    }
}

fn cgroup(here: &Here) -> RowResult {
    match cgroups::find(&here.system) {
        Ok(found) => {
            let said = format!("{} at {}", found.version.name(), found.base.display());
            match here.system.writable(&found.threads()) {
                Ok(()) => yes(said),
                Err(e) => not(Presence::Partly, format!("{said}: {e}"), cgroups::DELEGATE),
            }
        }
        Err(e) => not(Presence::No, e.message(), e.remedy().unwrap_or_default()),
    }
}

fn sched_ext(here: &Here) -> RowResult {
    match here.read("/sys/kernel/sched_ext/state") {
        Ok(state) => yes(format!("the kernel has it ({state})")),
        Err(_) => not(
            Presence::No,
            "this kernel has no sched_ext",
            "use a kernel from 6.12 on with CONFIG_SCHED_CLASS_EXT: schedlab kernel fetch 7, --backend vm",
        ),
    }
}

fn qemu(here: &Here) -> RowResult {
    match &here.qemu {
        Ok(q) if q.can(Mode::Deterministic).is_ok() => yes(format!("{} {}", q.number(), q.program.display())),
        Ok(q) => not(
            Presence::Partly,
            format!("{} {}: no deterministic mode", q.number(), q.program.display()),
            "schedlab kernel fetch qemu",
        ),
        Err(e) => not(Presence::No, e.message(), "schedlab kernel fetch qemu"),
    }
}

fn kvm_row(here: &Here) -> RowResult {
    if !Path::new(kvm::DEVICE).exists() {
        let said = format!("there is no {}", kvm::DEVICE);
        return not(Presence::No, said, "sudo modprobe kvm_intel or kvm_amd; in a VM: nested virtualisation");
    }
    if let Err(e) = kvm::opens() {
        let said = format!("{} can't be opened: {e}", kvm::DEVICE);
        return not(Presence::No, said, "sudo usermod -aG kvm \"$USER\", then log in again");
    }
    let Ok(qemu) = &here.qemu else {
        let said = format!("{} opens; without QEMU it can't be tried", kvm::DEVICE);
        return not(Presence::Partly, said, "schedlab kernel fetch qemu");
    };
    let refused = |e: &schedlab_base::Error| {
        let said = format!("{} opens, but {}", kvm::DEVICE, e.message());
        not(
            Presence::No,
            said,
            "not needed: guests run under QEMU's translator (--accelerator tcg, the default)",
        )
    };
    if let Err(e) = kvm::starts(qemu) {
        return refused(&e);
    }
    // KVM may run a few instructions and still boot no kernel.
    let Some(image) = here.images.iter().filter_map(|l| l.image.as_ref().ok()).max_by_key(|i| i.version)
    else {
        let said = "it runs a guest's first instructions; no boot was tried, since there is no kernel image";
        return not(Presence::Partly, said, "schedlab kernel fetch");
    };
    match kvm::boots(qemu, image) {
        Ok(()) => yes(format!("{} boots", image.release)),
        Err(e) => refused(&e),
    }
}

fn kernels(here: &Here) -> RowResult {
    let all = &here.images;
    let mut usable: Vec<(Version, &str)> =
        all.iter().filter_map(|l| l.image.as_ref().ok()).map(|i| (i.version, i.release.as_str())).collect();
    usable.sort();
    let names: Vec<&str> = usable.iter().map(|(_, release)| *release).collect();
    match (names.is_empty(), all.is_empty()) {
        (false, _) => yes(names.join(", ")),
        (true, true) => not(Presence::No, "none in /boot or fetched", "schedlab kernel fetch"),
        (true, false) => not(
            Presence::No,
            "the images here can't be used ('schedlab kernel list')",
            "schedlab kernel fetch",
        ),
    }
}

fn noise(here: &Here) -> RowResult {
    let mut measured: Vec<String> = Vec::new();
    let release = here.read("/proc/sys/kernel/osrelease").unwrap_or_default();
    let own = here.floors.floors.iter().filter(|f| f.host.ends_with(&format!(", {release}")));
    for f in own {
        let text = format!("{} ({})", f.workload, f.at);
        if !measured.contains(&text) {
            measured.push(text);
        }
    }
    if measured.is_empty() {
        return not(Presence::No, "not measured with this kernel", "schedlab doctor --noise");
    }
    yes(measured.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(root: &Path) -> Here {
        let qemu = Err(schedlab_base::Error::machine("none"));
        let counters = Set::open(&Whom::Myself, Width::Caches);
        let blind = Err(schedlab_base::Error::machine("this kernel has no tracefs").help("another kernel"));
        Here {
            system: System::at(root),
            counters,
            qemu,
            images: Vec::new(),
            floors: Floors::default(),
            blind,
        }
    }
    fn put(root: &Path, path: &str, text: &str) {
        let file = root.join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    #[test]
    fn the_running_schedulers_defaults_are_read_and_domains_may_be_hidden() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "proc/sys/kernel/sched_autogroup_enabled", "0\n");
        put(root.path(), "sys/kernel/debug/sched/cgroup_mode", "up smp (concur) max tasks \n");
        put(root.path(), "sys/kernel/debug/sched/verbose", "N\n");
        let here = at(root.path());
        let (state, said, _) = defaults(&here);
        assert_eq!(state, Presence::Yes);
        assert_eq!(
            said,
            "autogroup 0, cgroup_mode up smp (concur) max tasks, utilisation clamping not built in"
        );
        assert_eq!(domains(&here).0, Presence::Partly);
        put(root.path(), "sys/kernel/debug/sched/domains/cpu0/domain0/name", "MC\n");
        put(root.path(), "proc/sys/kernel/sched_util_clamp_min", "1024\n");
        let here = at(root.path());
        assert!(domains(&here).0 == Presence::Yes && defaults(&here).1.ends_with("clamping on"));
    }

    #[test]
    fn a_bare_machine_lacks_all_and_names_the_remedies() {
        let dir = tempfile::tempdir().unwrap();
        let here = at(dir.path());
        for look in [paranoid, tracepoints, features, schedstat, cgroup, sched_ext, qemu, noise] {
            let (state, said, mend) = look(&here);
            assert!(state == Presence::No && mend.is_some(), "{said}");
        }
    }

    #[test]
    fn a_rich_machine_has_all() {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("proc/sys/kernel/perf_event_paranoid", "-1\n"),
            ("sys/kernel/debug/sched/features", "A NO_B\n"),
            ("proc/schedstat", "version 15\n"),
            ("proc/sys/kernel/sched_schedstats", "1\n"),
            ("proc/self/mountinfo", "24 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
            ("proc/self/cgroup", "0::/\n"),
            ("sys/fs/cgroup/cgroup.threads", "1\n"),
            ("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io\n"),
            ("sys/kernel/sched_ext/state", "disabled\n"),
        ] {
            put(dir.path(), path, text);
        }
        let here = Here { blind: Ok(Vec::new()), ..at(dir.path()) };
        for look in [paranoid, tracepoints, features, schedstat, cgroup, sched_ext] {
            let (state, said, mend) = look(&here);
            assert!(state == Presence::Yes && mend.is_none(), "{said}");
        }
    }

    #[test]
    fn things_that_are_partly_there_are_marked_so() {
        let dir = tempfile::tempdir().unwrap();
        put(dir.path(), "proc/sys/kernel/perf_event_paranoid", "2\n");
        put(dir.path(), "proc/schedstat", "version 15\n");
        put(dir.path(), "proc/sys/kernel/sched_schedstats", "0\n");
        // A group whose list of threads can't be written: here it is a folder.
        put(dir.path(), "proc/self/mountinfo", "32 31 0:29 / /cpu rw - cgroup cgroup rw,cpu\n");
        put(dir.path(), "proc/self/cgroup", "1:cpu:/\n");
        put(dir.path(), "cpu/tasks/0", "");
        put(dir.path(), "sys/kernel/debug/other", "");
        let here = at(dir.path());
        for look in [paranoid, schedstat, cgroup] {
            assert_eq!(look(&here).0, Presence::Partly);
        }
        assert!(schedstat(&here).2.is_some_and(|m| m == "sudo sysctl kernel.sched_schedstats=1"));
        assert!(features(&here).2.is_some_and(|m| m.contains("CONFIG_SCHED_DEBUG")), "debugfs is mounted");
    }

    #[test]
    fn rows_have_names_of_their_own() {
        let mut names: Vec<&str> = ROWS.iter().map(|r| r.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ROWS.len());
    }
}
