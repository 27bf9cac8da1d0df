//! The command line of QEMU, and the kernel's, for a guest.
//!
//! A PC without devices but two serial ports: the kernel's log on the first, schedlab's reply on the second. Time is read
//! from the TSC, which an emulated CPU has at no cost; without being told so the kernel would take the HPET, each of
//! whose reads is a trap. The vendor is Intel's because kernels before 6.9 see no SMT on the AMD CPU that QEMU's `max`
//! otherwise is. What was tried: QEMU 7.2 and 10.0 with Linux 6.1 and 7.3.

use crate::shape::{self, Counts};
use crate::{Accelerator, Guest, Mode};
use schedlab_base::{Error, Result, Version};
use schedlab_machine::{Machine, Topology};
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// The first QEMU whose translator may have a thread for each CPU: 7.2 runs code that the kernel patches stale, and
/// 5 of 20 boots of Linux 7.3 die of it.
const THREADS_SINCE: Version = Version::new(10, 0);
/// The kernel takes no longer command line on x86 (COMMAND_LINE_SIZE), its final NUL included.
const MAX_COMMAND_LINE: usize = 2048;
/// Less holds no kernel with its initramfs.
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

/// QEMU, ready to be started for a machine that is numbered as QEMU does it.
///
/// # Errors
/// What this QEMU, mode or accelerator can't do, and boot options that are none.
pub fn command(guest: &Guest, machine: &Machine, seed: u64, files: Files<'_>) -> Result<Command> {
    let mut command = guest.qemu.command();
    let threads = threads(guest, machine.topology.nr_cpus(), host_cpus());
    command.args(arguments(guest, machine, seed, threads, files)?);
    Ok(command)
}

/// How many threads of the host are the guest's CPUs.
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

/// A thread for each CPU needs a QEMU where that is sound, and a host with a CPU for each of them and one for QEMU
/// itself: where the host takes one of them off its CPU, the others spin for it, and 8 CPUs on 2 took eight times as long
/// as on one thread.
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
        // A comma within a value is written twice.
        let path = path.display().to_string().replace(',', ",,");
        say("-chardev", format!("file,id={name},path={path}"));
        say("-serial", format!("chardev:{name}"));
    }
    say("-display", "none".to_owned());
    say("-monitor", "none".to_owned());
    if guest.mode == Mode::Deterministic {
        say("-icount", "shift=0,sleep=off".to_owned());
        say("-rtc", "clock=vm,base=2026-01-01".to_owned());
        // Seeds what the guest's random numbers come from.
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
        // Without leaf 0x1f: some QEMUs (10.0) fall over it where there are several dies. The kernel reads the caches from
        // leaf 4, and needs no dies for its domains.
        Accelerator::Tcg if counts.dies > 1 => "max,vendor=GenuineIntel,level=0x16".to_owned(),
        Accelerator::Tcg => "max,vendor=GenuineIntel".to_owned(),
    }
}

fn smp(cpus: usize, counts: Counts) -> String {
    let Counts { sockets, dies, cores, threads } = counts;
    format!("{cpus},sockets={sockets},dies={dies},cores={cores},threads={threads}")
}

/// Memory and the nodes that share it; a single node is what a PC has anyway.
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

/// The kernel's command line; what the user adds stands last, so that it prevails.
fn kernel_line(guest: &Guest) -> Result<String> {
    // An oops ends the guest, since what runs on after it measures nothing; -no-reboot makes that the end of QEMU too.
    // Some kernels have fewer ports than there are, unless they are told.
    let mut words = vec!["console=ttyS0", "8250.nr_uarts=4", "panic=-1", "oops=panic", "rdinit=/init"];
    // Addresses decide about cache sets and hashes: the same ones each time. The domains show in debugfs.
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
            "the boot options make a kernel command line of {} bytes: it takes {}",
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
            -append console=ttyS0 8250.nr_uarts=4 panic=-1 oops=panic rdinit=/init nokaslr norandmaps sched_verbose tsc=reliable \
            clocksource=tsc preempt=full \
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
