//! The description of a CTF trace (TSDL): types, streams, events. Field names are those of LTTng's kernel tracer.

use crate::Cast;
use std::fmt::Write;

/// The events, with their numbers in event headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Id {
    Switch,
    Waking,
    Wakeup,
    WakeupNew,
    Migrate,
    Fork,
    Exit,
    Idle,
    Placed,
    GaveWay,
    Balance,
    Skip,
    Kick,
}

/// An event: its number, its name, and its fields by kind and name.
type Described = (Id, &'static str, &'static [(char, &'static str)]);

/// In the order of [`Id`]. `s` is a text; signed numbers are i (32 bits) and l (64 bits), unsigned ones u (32) and h
/// (16).
const EVENTS: [Described; 13] = [
    (
        Id::Switch,
        "sched_switch",
        &[
            ('s', "prev_comm"),
            ('i', "prev_tid"),
            ('i', "prev_prio"),
            ('l', "prev_state"),
            ('s', "next_comm"),
            ('i', "next_tid"),
            ('i', "next_prio"),
        ],
    ),
    (Id::Waking, "sched_waking", &WOKEN),
    (Id::Wakeup, "sched_wakeup", &WOKEN),
    (Id::WakeupNew, "sched_wakeup_new", &WOKEN),
    (
        Id::Migrate,
        "sched_migrate_task",
        &[('s', "comm"), ('i', "tid"), ('i', "prio"), ('i', "orig_cpu"), ('i', "dest_cpu")],
    ),
    (
        Id::Fork,
        "sched_process_fork",
        &[
            ('s', "parent_comm"),
            ('i', "parent_tid"),
            ('i', "parent_pid"),
            ('s', "child_comm"),
            ('i', "child_tid"),
            ('i', "child_pid"),
        ],
    ),
    (Id::Exit, "sched_process_exit", &[('s', "comm"), ('i', "tid"), ('i', "prio")]),
    (Id::Idle, "power_cpu_idle", &[('u', "state"), ('u', "cpu_id")]),
    (
        Id::Placed,
        "schedlab_placed",
        &[('s', "comm"), ('i', "tid"), ('i', "target_cpu"), ('s', "reason"), ('h', "probes")],
    ),
    (Id::GaveWay, "schedlab_gave_way", &[('s', "comm"), ('i', "tid"), ('s', "reason")]),
    (
        Id::Balance,
        "schedlab_balance",
        &[
            ('s', "trigger"),
            ('s', "reason"),
            ('h', "level"),
            ('h', "moved"),
            ('h', "visited"),
            ('u', "took_ns"),
            ('i', "busiest_cpu"),
        ],
    ),
    (Id::Skip, "schedlab_no_pass", &[('s', "reason"), ('h', "level")]),
    (Id::Kick, "schedlab_kick", &[('s', "reason"), ('i', "to_cpu")]),
];
const WOKEN: [(char, &str); 4] = [('s', "comm"), ('i', "tid"), ('i', "prio"), ('i', "target_cpu")];

/// Types, packets and event headers. Everything is aligned to bytes.
const TYPES: &str = include_str!("types.tsdl");
const STREAM: &str = include_str!("stream.tsdl");

/// The whole description.
pub(super) fn text(cast: &Cast) -> String {
    let quoted = |text: &str| text.replace(['"', '\\', '\n'], "_");
    let mut out = TYPES.to_owned();
    // These words, including the tracer's name, let viewers recognise a trace of a kernel's scheduler.
    let _ = write!(
        out,
        "\nenv {{\n\tdomain = \"kernel\";\n\tsysname = \"Linux\";\n\tkernel_release = \"{}\";\n\
         \ttracer_name = \"lttng-modules\";\n\ttracer_major = 2;\n\ttracer_minor = 13;\n\
         \tproducer = \"schedlab\";\n}};\n",
        quoted(&cast.release)
    );
    out += STREAM;
    for (id, name, fields) in EVENTS {
        let _ = write!(
            out,
            "\nevent {{\n\tname = \"{name}\";\n\tid = {};\n\tstream_id = 0;\n\tfields := struct {{\n",
            id as u16
        );
        for (kind, field) in fields {
            let kind = match kind {
                's' => "string",
                'i' => "int32_t",
                'l' => "int64_t",
                'h' => "uint16_t",
                _ => "uint32_t",
            };
            let _ = writeln!(out, "\t\t{kind} _{field};");
        }
        out += "\t};\n};\n";
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_stand_by_their_numbers() {
        assert!(EVENTS.iter().enumerate().all(|(n, (id, ..))| *id as usize == n));
        let cast = Cast { release: "6.1 \"x\"".to_owned(), ..Cast::default() };
        let text = text(&cast);
        assert!(text.starts_with("/* CTF 1.8 */\n") && text.contains("kernel_release = \"6.1 _x_\";"));
        assert!(text.contains("\tname = \"power_cpu_idle\";\n\tid = 7;\n"));
    }
}
