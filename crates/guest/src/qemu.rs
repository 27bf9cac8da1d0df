//! The command lines of QEMU and of the kernel for a guest.
//!
//! The guest is a PC without devices except two serial ports: the kernel's log on the first, schedlab's reply on the
//! second. The kernel is told to read time from the TSC, which an emulated CPU has at no cost; by default it would take
//! the HPET, where each read is a trap. The CPU's vendor is Intel, because QEMU's `max` is an AMD CPU by default, on
//! which kernels before 6.9 see no SMT. Tried with QEMU 7.2 and 10.0 and Linux 6.1 and 7.3.

use crate::shape::{self, Counts};
use crate::{Accelerator, Guest, Mode};
use schedlab_base::{Error, Result, Version};
use schedlab_machine::{Machine, Topology};
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// The first QEMU whose translator may have a thread for each CPU. QEMU 7.2 runs stale copies of code that the kernel
/// has patched, and 5 of 20 boots of Linux 7.3 die of it.
const THREADS_SINCE: Version = Version::new(10, 0);
/// The kernel's longest command line on x86 (COMMAND_LINE_SIZE), its final NUL included.
const MAX_COMMAND_LINE: usize = 2048;
/// Less memory can't hold a kernel with its initramfs.
const MIN_MEMORY_MB: u32 = 256;

/// The files of one start.
#[derive(Clone, Copy, Debug)]
pub struct Files<'a> {
    /// Kernel image.
    pub kernel: &'a Path,
    /// Initramfs.
    pub initrd: &'a Path,
    /// Where the kernel's log goes.
    pub log: &'a Path,
    /// Where the reply goes.
    pub reply: &'a Path,
}

/// QEMU, ready to be started, for a machine whose CPUs are numbered as QEMU numbers them.
///
/// # Errors
/// When this QEMU, mode or accelerator can't run the guest, or a boot option is not one word.
pub fn command(guest: &Guest, machine: &Machine, seed: u64, files: Files<'_>) -> Result<Command> {
    let mut command = guest.qemu.command();
    let threads = threads(guest, machine.topology.nr_cpus(), host_cpus());
    command.args(arguments(guest, machine, seed, threads, files)?);
    Ok(command)
}

/// How many threads of the host run the guest's CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Threads {
    /// One, on which they take turns.
    One,
    /// One each.
    Each,
}

impl Threads {
    /// Its name in records.
    pub fn name(self) -> &'static str {
        match self {
            Threads::One => "one for all CPUs",
            Threads::Each => "one for each CPU",
        }
    }
}

/// CPUs of this host.
pub fn host_cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Chooses the threads. A thread for each CPU needs a QEMU where that is sound, and a host with a CPU for each thread
/// and one for QEMU itself. If the host takes one of the threads off its CPU, the others spin for it: 8 CPUs on 2 took
/// eight times as long as on one thread.
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
    seed: u64,
    threads: Threads,
    files: Files<'_>,
) -> Result<Vec<OsString>> {
    check(guest)?;
    let counts = shape::counts(&machine.topology)?;
    let mut words: Vec<OsString> = Vec::new();
    let mut say = |option: &str, value: String| words.extend([option.into(), value.into()]);
    say("-machine", "q35".to_owned());
    say("-accel", accelerator(guest, threads));
    say("-cpu", cpu(guest, counts));
    say("-smp", smp(machine.topology.nr_cpus(), counts));
    memory(guest.memory_mb, &machine.topology).into_iter().for_each(|(option, value)| say(option, value));
    say("-append", kernel_line(guest)?);
    for (name, path) in [("log", files.log), ("reply", files.reply)] {
        // QEMU reads a doubled comma as a comma within the value.
        let path = path.display().to_string().replace(',', ",,");
        say("-chardev", format!("file,id={name},path={path}"));
        say("-serial", format!("chardev:{name}"));
    }
    say("-display", "none".to_owned());
    say("-monitor", "none".to_owned());
    if guest.mode == Mode::Deterministic {
        say("-icount", "shift=0,sleep=off".to_owned());
        say("-rtc", "clock=vm,base=2026-01-01".to_owned());
        // Seeds the guest's random numbers.
        say("-seed", seed.to_string());
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
        // Leaf 0x1f is switched off, because some QEMUs (10.0) fail on it where there are several dies. The kernel
        // reads the caches from leaf 4, and needs no dies for its domains.
        Accelerator::Tcg if counts.dies > 1 => "max,vendor=GenuineIntel,level=0x16".to_owned(),
        Accelerator::Tcg => "max,vendor=GenuineIntel".to_owned(),
    }
}

fn smp(cpus: usize, counts: Counts) -> String {
    let Counts { sockets, dies, cores, threads } = counts;
    format!("{cpus},sockets={sockets},dies={dies},cores={cores},threads={threads}")
}

/// Options for the memory and the nodes that share it; a PC has a single node by default.
fn memory(megabytes: u32, topology: &Topology) -> Vec<(&'static str, String)> {
    let nodes = topology.node_distance.len();
    if nodes < 2 {
        return vec![("-m", megabytes.to_string())];
    }
    let each = megabytes as usize / nodes;
    let mut options = vec![("-m", (each * nodes).to_string())];
    for node in 0..nodes {
        options.push(("-object", format!("memory-backend-ram,id=m{node},size={each}M")));
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

/// The kernel's command line. The user's words stand last, so that they prevail.
fn kernel_line(guest: &Guest) -> Result<String> {
    // An oops panics, since a run after an oops measures nothing; -no-reboot then ends QEMU, too.
    // Some kernels use fewer serial ports than the machine has, unless nr_uarts is given.
    let mut words = vec!["console=ttyS0", "8250.nr_uarts=4", "panic=-1", "oops=panic", "rdinit=/init"];
    // Fixed addresses, since cache sets and hashes depend on them. sched_verbose shows the domains in debugfs.
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
        Guest {
            image,
            qemu,
            mode,
            accelerator: Accelerator::Tcg,
            memory_mb: 1024,
            boot_options,
            sitting: None,
        }
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
        let path = |p| Path::new(p);
        let files = Files {
            kernel: path("/k"),
            initrd: path("/t/initrd"),
            log: path("/t,1/log"),
            reply: path("/t/reply"),
        };
        let words = arguments(guest, machine, 7, threads(guest, 8, 9), files)?;
        Ok(words.iter().map(|w| w.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn a_deterministic_guest_in_full() {
        let told = line(&guest(Mode::Deterministic, Version::new(8, 1))).unwrap();
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
    fn what_a_mode_can_not_do_is_refused_with_what_can() {
        let told = line(&guest(Mode::Deterministic, Version::new(7, 2))).unwrap_err().to_string();
        assert!(told.contains("QEMU 7.2") && told.contains("8.1") && told.contains("real-time"), "{told}");
        let kvm = Guest { accelerator: Accelerator::Kvm, ..guest(Mode::Deterministic, Version::new(9, 0)) };
        assert!(line(&kvm).unwrap_err().to_string().contains("--accelerator tcg"));
        let small = Guest { memory_mb: 64, ..guest(Mode::RealTime, Version::new(9, 0)) };
        assert!(line(&small).unwrap_err().to_string().contains("256"));
    }

    #[test]
    fn dies_are_told_by_their_caches_alone() {
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
