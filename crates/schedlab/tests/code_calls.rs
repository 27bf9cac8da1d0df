//! Calls outside `kernel/sched` where the kernel's own code is counted: their instructions, and the lines of what they
//! touch.

use crate::code::has_source;
use crate::common::{Lab, texts};
use serde_json::Value;

/// A run of the machine `like`, with these costs of its own.
pub fn bench(level: &str, words: &str, like: &str, costs: &[(&str, u64)]) -> Value {
    let lab = Lab::new();
    let costs = costs.iter().map(|(name, value)| {
        format!("{name} = {{ value = {value}, range = [{value}, {value}], source = 'this test' }}\n")
    });
    let costs: String = costs.collect();
    lab.write("m.toml", &format!("name = 'm'\nabout = 'a test'\nlike = '{like}'\n[costs]\n{costs}"));
    let line =
        format!("bench {words} --backend code --kernel 6.1 --json --quiet --level {level} --machine m.toml");
    let output = lab.command(line.as_str()).output().unwrap();
    let (out, said) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{line}: {said}");
    serde_json::from_str(&out).unwrap()
}

pub fn figure(run: &Value, name: &str) -> f64 {
    run["metrics"][name]["value"].as_f64().unwrap_or_else(|| panic!("{name} in {run:.300}"))
}

/// A transaction on one CPU, in instructions of 200 ps, against what `perf stat` has counted on real machines: TCP_RR
/// and UDP_RR of netperf over loopback, and will-it-scale's context_switch1, of which a round trip has two. Another
/// address space costs time and few instructions.
#[test]
fn a_transaction_on_one_cpu_has_the_instructions_that_were_counted() {
    if !has_source() {
        return;
    }
    let costs = [("instruction_ps", 200), ("mm_switch_ns", 0)];
    for (words, metric, counted) in [
        ("rr -l 20ms", "rr.latency.mean", 28_900.0),
        ("rr --protocol udp -l 20ms", "rr.latency.mean", 26_800.0),
        ("pipe --loops 1000", "pipe.round_trip.mean", 2.0 * 7_150.0),
    ] {
        let ours = figure(&bench("woven", words, "smp-1", &costs), metric) / 0.2;
        assert!((counted / 1.5..counted * 1.5).contains(&ours), "{words}: {ours}, {counted} counted");
    }
}

#[test]
fn a_message_to_another_cpu_takes_its_lines_along() {
    if !has_source() {
        return;
    }
    let latency = |words: &str, line_ns| {
        let costs = [("line_near_ns", line_ns), ("line_far_ns", line_ns)];
        figure(&bench("woven", words, "spr-2x4", &costs), "rr.latency.mean")
    };
    let lines = |words: &str| (latency(words, 100) - latency(words, 50)) / 50.0;
    // A transaction has two messages. A sender's socket and a reader's are 21 lines of TCP, and 11 of UDP.
    let (tcp, udp) = (lines("rr -l 10ms"), lines("rr --protocol udp -l 10ms"));
    assert!(tcp > udp + 10.0, "TCP {tcp} lines a transaction, UDP {udp}");
    assert!((40.0..160.0).contains(&udp), "{udp} lines a transaction");
}

#[test]
fn level_free_knows_neither_instructions_nor_lines() {
    if !has_source() {
        return;
    }
    let dear = [("instruction_ps", 400), ("line_near_ns", 500), ("line_far_ns", 900)];
    for words in ["rr -l 5ms", "pipe --loops 200", "hackbench --groups 1 --loops 10"] {
        let cheap = bench("free", words, "spr-2x4", &[("instruction_ps", 200)]);
        assert_eq!(bench("free", words, "spr-2x4", &dear)["metrics"], cheap["metrics"], "{words}");
    }
}

#[test]
fn a_machine_that_states_a_calls_cost_keeps_it() {
    if !has_source() {
        return;
    }
    let latency = |cost| {
        let costs = [("tcp_send_ns", cost), ("tcp_recv_ns", 0)];
        figure(&bench("counted", "rr -l 10ms", "smp-1", &costs), "rr.latency.mean")
    };
    let dearer = latency(10_000) - latency(5_000);
    assert!((9_900.0..10_100.0).contains(&dearer), "two sends of 5 us more: {dearer}");
}
