//! The boot: machines of all sizes, their domains, tables and errors.

use crate::again::{machine, works};
use schedlab_transplant::load::Machine;

/// CPU time of this process, ms: the cost of a boot, however busy the computer is.
fn cpu_time_ms() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock is there on every Linux, and `time` is written during the call.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec * 1000 + time.tv_nsec / 1_000_000
}

/// The milliseconds of a boot, and the domains of CPU 0.
fn booted(test: &str, nodes: u32, cores: u32, threads: u32) -> Option<(i64, Vec<String>)> {
    let mut said = works(test, Vec::new(), |mut image| {
        let began = cpu_time_ms();
        image.boot(machine(nodes, cores, threads)).unwrap();
        println!("= {}", cpu_time_ms() - began);
        image.domains(0).lines().for_each(|l| println!("= {l}"));
    })?;
    Some((said.remove(0).parse().unwrap(), said))
}

#[test]
fn a_small_machine_boots() {
    let Some((_, domains)) = booted("boot::a_small_machine_boots", 1, 4, 2) else { return };
    let words: Vec<Vec<&str>> = domains.iter().map(|l| l.split(' ').collect()).collect();
    // Name, CPUs and groups; the imbalance is 10 % among siblings, 17 % within a cache.
    let known = [["SMT", "2", "2", "110"], ["MC", "8", "4", "117"]];
    let seen: Vec<[&str; 4]> = words.iter().map(|w| [w[0], w[1], w[3], w[4]]).collect();
    assert_eq!(seen, known, "{domains:?}");
}

#[test]
fn two_packages_have_three_domains() {
    let Some((_, domains)) = booted("boot::two_packages_have_three_domains", 2, 56, 2) else { return };
    let spans: Vec<(&str, &str)> = domains.iter().map(|l| l.split_once(' ').unwrap()).collect();
    let spans: Vec<(&str, &str)> = spans.iter().map(|(n, r)| (*n, r.split(' ').next().unwrap())).collect();
    assert_eq!(spans, [("SMT", "2"), ("MC", "112"), ("NUMA", "224")]);
}

/// The flags of the domain over two nodes whose distance is 32.
fn flags_over_nodes(test: &str, reclaim_distance: u32) -> Option<u32> {
    let said = works(test, Vec::new(), |mut image| {
        let mut machine = Machine { reclaim_distance, ..machine(2, 4, 1) };
        machine.distance.iter_mut().filter(|d| **d > 10).for_each(|d| *d = 32);
        image.boot(machine).unwrap();
        image.domains(0).lines().for_each(|l| println!("= {l}"));
    })?;
    let widest: Vec<&str> = said.last().unwrap().split(' ').collect();
    assert_eq!(widest[0], "NUMA", "{said:?}");
    Some(u32::from_str_radix(widest[2], 16).unwrap())
}

/// SD_BALANCE_EXEC, SD_BALANCE_FORK and SD_WAKE_AFFINE (`linux/sched/sd_flags.h`).
const NEAR: u32 = 0b10110;

#[test]
fn far_nodes_are_not_balanced_at_fork_exec_and_wakeup() {
    let test = "boot::far_nodes_are_not_balanced_at_fork_exec_and_wakeup";
    assert!(flags_over_nodes(test, 0).is_none_or(|flags| flags & NEAR == 0));
}

#[test]
fn a_machine_states_which_nodes_are_far() {
    let test = "boot::a_machine_states_which_nodes_are_far";
    assert!(flags_over_nodes(test, 32).is_none_or(|flags| flags & NEAR == NEAR));
}

#[test]
fn a_thousand_cpus_boot_in_under_a_second() {
    let Some((ms, domains)) = booted("boot::a_thousand_cpus_boot_in_under_a_second", 8, 64, 2) else {
        return;
    };
    assert!(ms < 1000, "{ms} ms");
    assert_eq!(domains.len(), 3, "{domains:?}");
}
