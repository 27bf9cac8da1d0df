//! Calls of the kernel outside `kernel/sched`, in instructions: one table (docs/code.md shows it).
//!
//! Where the scheduler's code is charged by its instructions, a call on a pipe, a socket or a futex is, too: the
//! price is its row's instructions times the machine's `instruction_ps`. A machine whose file states a call's cost
//! itself keeps that ([`Machine::provenance`] has its name then). Lines that other CPUs have are not in these figures:
//! they are charged apart, object by object.
//!
//! Pairs of calls are measured: instructions of a whole machine over operations, less the entries of the calls. A
//! pair's halves are by counts in guests, or by their shares of a profile. No row is derived from what a patch changed.

use crate::{Costs, Machine};
use schedlab_base::Version;

/// A call, or a part of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallRow {
    /// The cost that it replaces.
    pub cost: &'static str,
    /// The first release with this figure; `None`: all before the next row of the same cost.
    pub since: Option<Version>,
    pub instructions: u64,
    pub range: (u64, u64),
    pub source: &'static str,
}

const fn row(cost: &'static str, instructions: u64, range: (u64, u64), source: &'static str) -> CallRow {
    CallRow { cost, since: None, instructions, range, source }
}
const fn later(cost: &'static str, instructions: u64, range: (u64, u64), source: &'static str) -> CallRow {
    CallRow { cost, since: Some(Version::new(6, 6)), instructions, range, source }
}

/// All calls; of a cost that changed, the older row comes first. "Guest": a guest that counts instructions, with the
/// kernels 6.1.192 and 7.3.4 (`machines/icount.toml`); "robot": the kernel test robot's will-it-scale or netperf, whose
/// `perf stat` has the instructions.
pub const CALLS: &[CallRow] = &[
    row("syscall_ns", 354, (350, 420), "guest: getppid, 6.1.192"),
    later("syscall_ns", 361, (350, 420), "guest: getppid, 7.3.4"),
    row(
        "pipe_io_ns",
        795,
        (628, 850),
        "half of a pair: robot, pipe1 under 6.11-rc1, 9 Sep 2024: 2,299 with two entries; guest: written 734 and 670, read 767 and 628",
    ),
    row(
        "pipe_lock_ns",
        190,
        (180, 295),
        "part of pipe_io_ns; guest, 6.1.192: from mutex_lock to mutex_unlock 293 of a write and 304 of a read of 100 bytes, copy included",
    ),
    later("pipe_lock_ns", 205, (195, 295), "the same, 7.3.4: 306 and 320"),
    row(
        "channel_end_ns",
        280,
        (250, 360),
        "part of pipe_io_ns or unix_send_ns; guest, 6.1.192: from the wakeup to the way out",
    ),
    later("channel_end_ns", 130, (80, 250), "the same, 7.3.4"),
    row(
        "pipe_wait_ns",
        340,
        (330, 380),
        "guest, 6.1.192: a read of 100 bytes that sleeps, less one that does not and the switch",
    ),
    later("pipe_wait_ns", 130, (120, 180), "the same, 7.3.4"),
    row("socket_wait_ns", 170, (160, 190), "as pipe_wait_ns"),
    later("socket_wait_ns", 420, (410, 440), "the same, 7.3.4"),
    row(
        "unix_send_ns",
        1922,
        (1900, 2770),
        "59 % of a pair (guest: 2,734 of 4,663): robot, unix1 under 5.8-rc3, 2020: 3,986 with two entries",
    ),
    row("unix_recv_ns", 1356, (1340, 1960), "the rest of the pair (guest: 1,929 of 4,663)"),
    row(
        "unix_lock_ns",
        100,
        (70, 115),
        "part of both; guest, 6.1.192: a sender holds the state lock for 110, a reader for 45 and the queue's for 30",
    ),
    row(
        "tcp_send_ns",
        7200,
        (6000, 8200),
        "81 % of a pair (robot, 2021, profile of TCP_RR: sendto without its wakeup 57.3 %, recvfrom without its switch 13.6 %): a transaction of TCP_RR over loopback has 28,900, half of it less 4,850 for wakeup, sleep and switch and less two entries",
    ),
    row("tcp_recv_ns", 1690, (1200, 2500), "the rest of the pair"),
    row(
        "udp_send_ns",
        6430,
        (5000, 7400),
        "82 % of a pair (robot, 31 Aug 2022, profile of UDP_RR: sendto without its wakeup and the wait for a line 33 %, recvfrom without its switch 7.5 %): a transaction of UDP_RR over loopback has 25,500 to 28,100, half of it less 4,850 and less two entries",
    ),
    row("udp_recv_ns", 1410, (1000, 2200), "the rest of the pair"),
    row(
        "futex_wait_ns",
        660,
        (600, 720),
        "guest, 6.1.192: a wait that finds another value 335; queueing and return by trace",
    ),
    later("futex_wait_ns", 720, (680, 760), "the same, 7.3.4"),
    row("futex_wake_ns", 500, (450, 560), "guest, 6.1.192: to sched_waking, and back, by trace"),
    row(
        "futex_wake_empty_ns",
        725,
        (169, 800),
        "robot, futex1, 5 Dec 2023: 1,079 with its entry, of a word in shared memory; guest, a word of its own: 169 and 287",
    ),
];

/// The row of a call under a kernel's release; `None`: its cost is not counted.
fn row_of(cost: &str, release: Version) -> Option<&'static CallRow> {
    let applies = |row: &&CallRow| row.cost == cost && row.since.is_none_or(|since| release >= since);
    CALLS.iter().rev().find(applies)
}

impl CallRow {
    /// What so many instructions take.
    pub(crate) fn ns(instructions: u64, costs: &Costs) -> u64 {
        (instructions * costs.instruction_ps + 500) / 1000
    }
}

impl Machine {
    /// The same machine with the costs that remain where the scheduler's code is charged by its instructions, under a
    /// kernel's release ([`Costs::beside_counted_code`]). Calls of [`CALLS`] cost their instructions, unless the
    /// machine's file states what they cost. Data of a channel cost by their lines, not by `remote_send_ns` and
    /// `remote_recv_ns`.
    #[must_use]
    pub fn beside_counted_code(&self, release: Version) -> Machine {
        Machine { costs: self.costs_beside_counted_code(&self.costs, release), ..self.clone() }
    }
    /// Costs of this machine, or others in their place, as [`Machine::beside_counted_code`] has them.
    pub(crate) fn costs_beside_counted_code(&self, costs: &Costs, release: Version) -> Costs {
        let mut beside = Costs { remote_send_ns: 0, remote_recv_ns: 0, ..costs.beside_counted_code() };
        for row in self.counted_calls(release) {
            beside.set(row.cost, CallRow::ns(row.instructions, costs));
        }
        beside
    }
    /// The calls that cost their instructions under a release.
    pub(crate) fn counted_calls(&self, release: Version) -> impl Iterator<Item = &'static CallRow> {
        let is_stated = |cost: &str| self.provenance.iter().any(|note| note.name == cost);
        let rows = CALLS.iter().filter(move |row| row_of(row.cost, release) == Some(*row));
        rows.filter(move |row| !is_stated(row.cost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CostNote;
    use schedlab_base::testing::page_has;

    const NEW: Version = Version::new(6, 12);

    /// The table of docs/code.md.
    fn page() -> String {
        let mut text =
            String::from("| call | since | instructions | range | source |\n|---|---|---|---|---|\n");
        for CallRow { cost, since, instructions, range: (low, high), source } in CALLS {
            let name = cost.trim_end_matches("_ns");
            let since = since.map_or_else(String::new, |since| since.to_string());
            text += &format!("| {name} | {since} | {instructions} | {low} to {high} | {source} |\n");
        }
        text
    }

    #[test]
    fn the_page_has_the_table_of_calls() {
        let begin = "<!-- begin: calls, made from crates/machine/src/calls.rs -->\n";
        page_has("docs/code.md", [begin, "<!-- end: calls -->"], &page());
    }

    #[test]
    fn rows_are_costs_in_their_ranges_and_the_older_ones_come_first() {
        for (i, row) in CALLS.iter().enumerate() {
            let CallRow { cost, instructions, range: (low, high), .. } = *row;
            assert!(Costs::TABLE.iter().any(|c| c.name == cost), "{cost}");
            assert!(low <= instructions && instructions <= high, "{cost}");
            let before = CALLS[..i].iter().rfind(|other| other.cost == cost);
            assert_eq!(before.is_some(), row.since.is_some(), "{cost}");
            assert!(before.is_none_or(|other| other.since < row.since), "{cost}");
        }
        let of = |cost: &str, release| row_of(cost, release).map(|row| row.instructions);
        assert_eq!(of("syscall_ns", Version::new(6, 1)), Some(354));
        assert_eq!(of("syscall_ns", NEW), Some(361));
        assert_eq!(of("copy_ns_per_kb", NEW), None);
    }

    /// What was measured: instructions of operations with two calls, user mode included.
    #[test]
    fn pairs_have_the_instructions_that_were_measured() {
        let of = |cost: &str| row_of(cost, NEW).unwrap().instructions;
        let pair = |a: &str, b: &str| of(a) + of(b) + 2 * of("syscall_ns");
        for (a, b, measured) in [
            ("pipe_io_ns", "pipe_io_ns", 2299),
            ("unix_send_ns", "unix_recv_ns", 3986),
            ("tcp_send_ns", "tcp_recv_ns", 9600),
            ("udp_send_ns", "udp_recv_ns", 8550),
        ] {
            let ours = pair(a, b);
            assert!(ours.abs_diff(measured) <= measured / 50, "{a} and {b}: {ours}");
        }
        assert!((of("futex_wake_empty_ns") + of("syscall_ns")).abs_diff(1079) < 20);
    }

    #[test]
    fn a_call_costs_its_instructions_unless_the_machine_states_its_cost() {
        let mut machine = Machine::load("smp-4").unwrap();
        machine.set_cost("instruction_ps", 200).unwrap();
        machine.set_cost("remote_send_ns", 700).unwrap();
        let beside = machine.beside_counted_code(NEW).costs;
        assert_eq!((beside.pipe_io_ns, beside.tcp_send_ns, beside.syscall_ns), (159, 1440, 72));
        assert_eq!((beside.remote_send_ns, beside.enqueue_ns), (0, 0));
        assert_eq!(beside.fork_ns, machine.costs.fork_ns);
        let own = CostNote { name: "tcp_send_ns".to_owned(), range: None, source: "measured".to_owned() };
        machine.provenance.push(own);
        assert_eq!(machine.beside_counted_code(NEW).costs.tcp_send_ns, machine.costs.tcp_send_ns);
    }

    #[test]
    fn a_guest_that_counts_instructions_keeps_its_counts() {
        let machine = Machine::load("icount-8").unwrap().under(Version::new(6, 1));
        let beside = machine.beside_counted_code(Version::new(6, 1)).costs;
        for row in CALLS {
            assert_eq!(beside.get(row.cost), machine.costs.get(row.cost), "{}", row.cost);
        }
    }
}
