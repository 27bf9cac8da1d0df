//! The command lines of QEMU and of the kernel for a guest.
//!
//! The guest is a PC without devices except two serial ports: the first for the kernel's log, the second for schedlab's
//! reply. The command line makes the kernel read time from the TSC, which is free on an emulated CPU; the default is
//! the HPET, where each read traps. The CPU's vendor is Intel: QEMU's `max` is an AMD CPU by default, on which kernels
//! before 6.9 see no SMT. Tested with QEMU 7.2 and 10.0 and Linux 6.1 and 7.3.
//!
//! A guest that is stopped at rest ([`crate::rest`]) has a watchdog (ib700), which stops QEMU at an exact instant of
//! the guest's time. Its memory is in files. Guests that continue from there share it until they write to it.

use crate::shape::{self, Counts};
use crate::wake::JOB_ITEM;
use crate::{Accelerator, Guest, Mode, sys};
use schedlab_base::{Error, Result, Version};
use schedlab_machine::{Machine, Topology};
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;

/// The first QEMU whose translator may use a thread per CPU. QEMU 7.2 runs stale copies of code that the kernel has
/// patched; 5 of 20 boots of Linux 7.3 crashed.
const THREADS_SINCE: Version = Version::new(10, 0);
/// The kernel's longest command line on x86 (COMMAND_LINE_SIZE), including the final NUL.
const MAX_COMMAND_LINE: usize = 2048;
/// A kernel with its initramfs does not fit less memory.
const MIN_MEMORY_MB: u32 = 256;

/// The seed for the boot of a guest at rest.
const BOOT_SEED: u64 = 1;

/// The part of a guest's life in one QEMU.
#[derive(Clone, Copy, Debug)]
pub enum Way<'a> {
    /// From the boot to the reply.
    Whole,
    /// From the boot to rest. QEMU waits for the monitor's `cont`. The files are its memory, one per node.
    ToRest(&'a [File]),
    /// From rest to the reply, with the memory saved there. The job is in a file.
    FromRest(&'a [File], &'a Path),
}

#[derive(Clone, Copy, Debug)]
pub struct Files<'a> {
    pub kernel: &'a Path,
    pub initrd: &'a Path,
    pub log: &'a Path,
    pub reply: &'a Path,
}

/// QEMU's command for a machine whose CPUs are numbered in QEMU's order.
///
/// # Errors
/// When this QEMU, mode or accelerator can't run the guest, or a boot option is not one word.
pub fn command(
    guest: &Guest,
    machine: &Machine,
    seed: u64,
    files: Files<'_>,
    way: Way<'_>,
) -> Result<Command> {
    let mut command = guest.qemu.command();
    let threads = threads(guest, machine.topology.nr_cpus(), host_cpus());
    command.args(arguments(guest, machine, (seed, threads), files, way)?);
    if let Way::ToRest(memory) | Way::FromRest(memory, _) = way {
        sys::inherit(&mut command, memory);
    }
    Ok(command)
}

/// Memory of each node, bytes.
pub fn nodes(megabytes: u32, topology: &Topology) -> Vec<u64> {
    let nodes = topology.node_distance.len().max(1);
    vec![(u64::from(megabytes) / nodes as u64) << 20; nodes]
}

/// The path under which a child process can open an inherited file again.
pub fn inherited(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// The host's threads that run the guest's CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Threads {
    /// One thread; the CPUs take turns.
    One,
    Each,
}

impl Threads {
    pub fn name(self) -> &'static str {
        match self {
            Threads::One => "one for all CPUs",
            Threads::Each => "one for each CPU",
        }
    }
}

pub fn host_cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Chooses the threads. A thread per CPU needs a QEMU in which this is sound, and a host with a CPU for each thread and
/// one for QEMU itself. If the host preempts one of the threads, the others spin for it: 8 CPUs on 2 took eight times
/// as long as on one thread.
pub fn threads(guest: &Guest, cpus: usize, host_cpus: usize) -> Threads {
    let translated = guest.accelerator == Accelerator::Tcg;
    let sound = guest.qemu.version >= THREADS_SINCE && host_cpus > cpus;
    match guest.mode {
        Mode::RealTime if !translated || sound => Threads::Each,
        _ => Threads::One,
    }
}

fn arguments(
    guest: &Guest,
    machine: &Machine,
    (seed, threads): (u64, Threads),
    files: Files<'_>,
    way: Way<'_>,
) -> Result<Vec<OsString>> {
    check(guest)?;
    let counts = shape::counts(&machine.topology)?;
    let mut words: Vec<OsString> = Vec::new();
    let mut say = |option: &str, value: String| words.extend([option.into(), value.into()]);
    let single = machine.topology.node_distance.len() < 2;
    let in_file = single && !matches!(way, Way::Whole);
    say("-machine", if in_file { "q35,memory-backend=m0" } else { "q35" }.to_owned());
    say("-accel", accelerator(guest, threads));
    say("-cpu", cpu(guest, counts));
    say("-smp", smp(machine.topology.nr_cpus(), counts));
    memory(guest.memory_mb, &machine.topology, way)
        .into_iter()
        .for_each(|(option, value)| say(option, value));
    say("-append", kernel_line(guest)?);
    for (name, path) in [("log", files.log), ("reply", files.reply)] {
        say("-chardev", format!("file,id={name},path={}", doubled(path)));
        say("-serial", format!("chardev:{name}"));
    }
    say("-display", "none".to_owned());
    say("-monitor", "none".to_owned());
    if guest.mode == Mode::Deterministic {
        say("-icount", "shift=0,sleep=off".to_owned());
        say("-rtc", "clock=vm,base=2026-01-01".to_owned());
        // Seeds the guest's random numbers.
        say("-seed", if matches!(way, Way::ToRest(_)) { BOOT_SEED } else { seed }.to_string());
    }
    rest(way).into_iter().for_each(|(option, value)| say(option, value));
    if matches!(way, Way::ToRest(_)) {
        words.push("-S".into());
    }
    words.extend(["-nodefaults", "-no-user-config", "-no-reboot"].map(OsString::from));
    words.extend(["-kernel".into(), files.kernel.into(), "-initrd".into(), files.initrd.into()]);
    Ok(words)
}

fn check(guest: &Guest) -> Result<()> {
    if guest.memory_mb < MIN_MEMORY_MB {
        return Err(Error::input(format!("{} MiB are too little memory for a guest", guest.memory_mb))
            .help(format!("use {MIN_MEMORY_MB} or more; 1024 is enough for most workloads")));
    }
    if guest.mode == Mode::RealTime {
        return Ok(());
    }
    if guest.accelerator == Accelerator::Kvm {
        return Err(Error::input("deterministic guests count instructions, which KVM does not")
            .help("use the translator: --accelerator tcg"));
    }
    guest.qemu.can(guest.mode)
}

fn accelerator(guest: &Guest, threads: Threads) -> String {
    match (guest.accelerator, threads) {
        (Accelerator::Kvm, _) => "kvm".to_owned(),
        (Accelerator::Tcg, Threads::One) => "tcg,thread=single".to_owned(),
        (Accelerator::Tcg, Threads::Each) => "tcg,thread=multi".to_owned(),
    }
}

fn cpu(guest: &Guest, counts: Counts) -> String {
    match guest.accelerator {
        Accelerator::Kvm => "host".to_owned(),
        // Leaf 0x1f is disabled, because some QEMUs (10.0) fail on it with several dies. The kernel reads caches from
        // leaf 4, and does not need dies for its domains.
        Accelerator::Tcg if counts.dies > 1 => "max,vendor=GenuineIntel,level=0x16".to_owned(),
        Accelerator::Tcg => "max,vendor=GenuineIntel".to_owned(),
    }
}

fn smp(cpus: usize, counts: Counts) -> String {
    let Counts { sockets, dies, cores, threads } = counts;
    format!("{cpus},sockets={sockets},dies={dies},cores={cores},threads={threads}")
}

/// Options for the memory and its nodes; a PC has one node by default.
fn memory(megabytes: u32, topology: &Topology, way: Way<'_>) -> Vec<(&'static str, String)> {
    let sizes = nodes(megabytes, topology);
    let each = sizes[0] >> 20;
    let backend = |node: usize| match way {
        Way::Whole => format!("memory-backend-ram,id=m{node},size={each}M"),
        Way::ToRest(files) | Way::FromRest(files, _) => {
            let share = if matches!(way, Way::ToRest(_)) { "on" } else { "off" };
            let place = files.get(node).map(inherited).unwrap_or_default();
            format!("memory-backend-file,id=m{node},size={each}M,mem-path={place},share={share}")
        }
    };
    let mut options = vec![("-m", (each * sizes.len() as u64).to_string())];
    if sizes.len() < 2 {
        if !matches!(way, Way::Whole) {
            options.push(("-object", backend(0)));
        }
        return options;
    }
    for node in 0..sizes.len() {
        options.push(("-object", backend(node)));
        let mut value = format!("node,nodeid={node},memdev=m{node}");
        for (cpu, _) in topology.cpus.iter().enumerate().filter(|(_, c)| c.node as usize == node) {
            value.push_str(&format!(",cpus={cpu}"));
        }
        options.push(("-numa", value));
    }
    for (a, row) in topology.node_distance.iter().enumerate() {
        for (b, distance) in row.iter().enumerate().filter(|(b, _)| *b != a) {
            options.push(("-numa", format!("dist,src={a},dst={b},val={distance}")));
        }
    }
    options
}

/// Options of a guest that is stopped at rest, and of those that continue from there. Both have the same devices,
/// because QEMU loads a state only into the same machine. The monitor is on standard input and output.
fn rest(way: Way<'_>) -> Vec<(&'static str, String)> {
    let job = match way {
        Way::Whole => return Vec::new(),
        Way::ToRest(_) => "string=none".to_owned(),
        Way::FromRest(_, job) => format!("file={}", doubled(job)),
    };
    let mut options = vec![
        ("-device", "ib700".to_owned()),
        ("-action", "watchdog=pause".to_owned()),
        ("-fw_cfg", format!("name={JOB_ITEM},{job}")),
        ("-chardev", "stdio,id=monitor,signal=off".to_owned()),
        ("-mon", "chardev=monitor,mode=control".to_owned()),
    ];
    if let Way::FromRest(..) = way {
        options.push(("-incoming", "defer".to_owned()));
    }
    options
}

/// A path for QEMU's options: a doubled comma is a comma within the value.
fn doubled(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

/// The kernel's command line. The user's words are last, so they take precedence.
fn kernel_line(guest: &Guest) -> Result<String> {
    // An oops panics, since measurements after it are invalid; -no-reboot then ends QEMU, too.
    // Some kernels use fewer serial ports than the machine has, unless nr_uarts is given.
    let mut words = vec!["console=ttyS0", "8250.nr_uarts=4", "panic=-1", "oops=panic", "rdinit=/init"];
    // Addresses are fixed, since cache sets and hashes depend on them. sched_verbose shows the domains in debugfs.
    words.extend(["nokaslr", "norandmaps", "sched_verbose"]);
    if guest.accelerator == Accelerator::Tcg {
        words.extend(["tsc=reliable", "clocksource=tsc"]);
    }
    for option in &guest.boot_options {
        if option.is_empty() || option.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(Error::input(format!("boot option '{option}' is not one word"))
                .help("give options one by one, each without spaces"));
        }
        words.push(option);
    }
    let line = words.join(" ");
    if line.len() >= MAX_COMMAND_LINE {
        return Err(Error::input(format!(
            "the boot options make a kernel command line of {} bytes; the kernel takes at most {}",
            line.len(),
            MAX_COMMAND_LINE - 1
        )));
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Image, Qemu};
    use schedlab_machine::shape::Shape;

    fn guest(mode: Mode, version: Version) -> Guest {
        let image =
            Image { path: "/k".into(), release: "6.1".into(), version: Version::new(6, 1), hash: "0".into() };
        let qemu = Qemu {
            program: "qemu-system-x86_64".into(),
            version,
            libraries: Vec::new(),
            modules: None,
            data: Vec::new(),
        };
        let boot_options = vec!["preempt=full".to_owned()];
        Guest { image, qemu, mode, accelerator: Accelerator::Tcg, memory_mb: 1024, boot_options }
    }
    fn machine() -> Machine {
        let shape = Shape { packages: 2, nodes: 2, llcs: 2, ..Shape::flat(4, 2) };
        let machine = Machine { topology: shape.topology().unwrap(), ..Machine::load("smp-2").unwrap() };
        shape::as_built(&machine).unwrap()
    }
    fn line(guest: &Guest) -> Result<String> {
        line_of(guest, &machine())
    }
    fn line_of(guest: &Guest, machine: &Machine) -> Result<String> {
        line_on(guest, machine, Way::Whole)
    }
    fn line_on(guest: &Guest, machine: &Machine, way: Way<'_>) -> Result<String> {
        let path = |p| Path::new(p);
        let files = Files {
            kernel: path("/k"),
            initrd: path("/t/initrd"),
            log: path("/t,1/log"),
            reply: path("/t/reply"),
        };
        let words = arguments(guest, machine, (7, threads(guest, 8, 9)), files, way)?;
        Ok(words.iter().map(|w| w.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn a_deterministic_guest_in_full() {
        let told = line(&guest(Mode::Deterministic, Version::new(8, 2))).unwrap();
        let want = "-machine q35 -accel tcg,thread=single -cpu max,vendor=GenuineIntel \
            -smp 8,sockets=2,dies=1,cores=2,threads=2 -m 1024 \
            -object memory-backend-ram,id=m0,size=512M -numa node,nodeid=0,memdev=m0,cpus=0,cpus=1,cpus=2,cpus=3 \
            -object memory-backend-ram,id=m1,size=512M -numa node,nodeid=1,memdev=m1,cpus=4,cpus=5,cpus=6,cpus=7 \
            -numa dist,src=0,dst=1,val=21 -numa dist,src=1,dst=0,val=21 \
            -append console=ttyS0 8250.nr_uarts=4 panic=-1 oops=panic rdinit=/init nokaslr norandmaps sched_verbose \
            tsc=reliable clocksource=tsc preempt=full \
            -chardev file,id=log,path=/t,,1/log -serial chardev:log \
            -chardev file,id=reply,path=/t/reply -serial chardev:reply -display none -monitor none \
            -icount shift=0,sleep=off -rtc clock=vm,base=2026-01-01 -seed 7 \
            -nodefaults -no-user-config -no-reboot -kernel /k -initrd /t/initrd";
        assert_eq!(told, want);
    }

    #[test]
    fn a_guest_at_rest_and_those_that_continue_are_the_same_machine() {
        let guest = guest(Mode::Deterministic, Version::new(10, 0));
        let files = [sys::memory_file().unwrap(), sys::memory_file().unwrap()];
        let to = line_on(&guest, &machine(), Way::ToRest(&files)).unwrap();
        let from = line_on(&guest, &machine(), Way::FromRest(&files, Path::new("/t/a,b"))).unwrap();
        let device = |line: &str| {
            let whole = line.replace("share=on", "share=off").replace("string=none", "file=/t/a,,b");
            let whole = whole.replace(&format!("-seed {BOOT_SEED}"), "-seed 7");
            whole.replace(" -incoming defer", "").replace(" -S", "")
        };
        assert_eq!(device(&to), device(&from));
        assert!(
            to.contains("-S")
                && to.contains("-device ib700 -action watchdog=pause")
                && !to.contains("-incoming")
        );
        assert!(from.contains("-incoming defer") && !from.contains("-S"));
        let place = inherited(&files[1]);
        assert!(from.contains(&format!("id=m1,size=512M,mem-path={place},share=off")), "{from}");
        let single = Machine::load("smp-2").unwrap();
        let alone = line_on(&guest, &single, Way::ToRest(&files[..1])).unwrap();
        assert!(
            alone.contains("q35,memory-backend=m0")
                && alone.contains("-m 1024 -object memory-backend-file,id=m0")
        );
    }

    #[test]
    fn in_real_time_cpus_have_threads_where_that_is_sound() {
        let told = |version| line(&guest(Mode::RealTime, version)).unwrap();
        let (old, new) = (told(Version::new(7, 2)), told(Version::new(10, 0)));
        assert!(old.contains("thread=single") && new.contains("thread=multi"));
        let new_here = guest(Mode::RealTime, Version::new(10, 0));
        assert_eq!(threads(&new_here, 8, 8), Threads::One, "QEMU needs a CPU too");
        assert_eq!(threads(&Guest { mode: Mode::Deterministic, ..new_here }, 2, 64), Threads::One);
        let new = line(&guest(Mode::RealTime, Version::new(10, 0))).unwrap();
        assert!(!new.contains("-icount") && !new.contains("-seed"));
    }

    #[test]
    fn unsupported_modes_are_refused_with_an_alternative() {
        let told = line(&guest(Mode::Deterministic, Version::new(7, 2))).unwrap_err().to_string();
        assert!(told.contains("QEMU 7.2") && told.contains("8.2") && told.contains("real-time"), "{told}");
        let kvm = Guest { accelerator: Accelerator::Kvm, ..guest(Mode::Deterministic, Version::new(9, 0)) };
        assert!(line(&kvm).unwrap_err().to_string().contains("--accelerator tcg"));
        let small = Guest { memory_mb: 64, ..guest(Mode::RealTime, Version::new(9, 0)) };
        assert!(line(&small).unwrap_err().to_string().contains("256"));
    }

    #[test]
    fn dies_are_recognised_by_their_caches_alone() {
        let shape = Shape { llcs: 4, ..Shape::flat(8, 1) };
        let machine = Machine { topology: shape.topology().unwrap(), ..machine() };
        let told = line_of(&guest(Mode::RealTime, Version::new(10, 0)), &machine).unwrap();
        assert!(
            told.contains(
                "GenuineIntel,level=0x16 -smp 8,sockets=1,dies=4,cores=2,threads=1 -m 1024 -append"
            )
        );
    }

    #[test]
    fn a_boot_option_is_one_word() {
        let with = |option: &str| {
            let boot_options = vec![option.to_owned()];
            line(&Guest { boot_options, ..guest(Mode::RealTime, Version::new(9, 0)) })
        };
        assert!(with("a b").unwrap_err().to_string().contains("not one word"));
        assert!(with(&"x".repeat(2000)).unwrap_err().to_string().contains("2047"));
        assert!(with("isolcpus=2-3").unwrap().contains("clocksource=tsc isolcpus=2-3"));
    }
}
