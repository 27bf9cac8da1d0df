//! Channels, memory and timer slack on the running kernel, with tasks as threads and as processes.

use crate::single::steps;
use schedlab_base::testing::in_time;
use schedlab_base::{Ns, TaskId};
use schedlab_native::engine::{Measured, run_built};
use schedlab_workload::ChannelKind::{Pipe, Tcp, Udp, Unix};
use schedlab_workload::{Builder, ChannelKind, Env, Op, PortId};
use std::process::Command;
use std::time::{Duration, Instant};

/// The argument that makes this program report on a run with many channels, for checks of limits.
pub const MANY_CHANNELS: &str = "many-channels";

const KINDS: [ChannelKind; 4] = [Pipe, Unix, Tcp, Udp];

fn run(duration: Ns, processes: bool, declare: impl FnOnce(&mut Builder)) -> Measured {
    let mut b = Builder::new(1);
    b.lasts(duration, Ns::ZERO);
    if processes {
        b.as_processes();
    }
    declare(&mut b);
    run_built(b.finish().unwrap(), None).unwrap()
}

/// The warnings of a run, except those about other work on this machine.
fn warning_codes(m: &Measured) -> Vec<&str> {
    let codes = m.own.warnings.iter().map(|w| w.code.as_str());
    codes.filter(|code| !["run.overran", "run.slow_end"].contains(code)).collect()
}

/// Tasks as threads, and as processes.
const MODES: [bool; 2] = [false, true];

/// Two ends per side, (to read, to write): of a pair of pipes, or of one socket pair.
fn duplex(b: &mut Builder, kind: ChannelKind) -> [(PortId, PortId); 2] {
    let (a, z) = b.channel(kind);
    if kind != Pipe {
        return [(a, a), (z, z)];
    }
    let (back, forth) = b.channel(kind);
    [(a, forth), (back, z)]
}

/// A client and a server; each records every completed round.
fn ping_pong(b: &mut Builder, kind: ChannelKind, rounds: u64, request: u32, answer: u32) {
    let [client, server] = duplex(b, kind);
    let done = b.series("rounds", "", "higher");
    for (first, (read, write)) in [(true, client), (false, server)] {
        let send = Op::Send { port: write, bytes: if first { request } else { answer } };
        let recv = Op::Recv { port: read, bytes: if first { answer } else { request } };
        let turn = if first { [send, recv] } else { [recv, send] };
        let mut at = 0;
        let program = move |env: &mut dyn Env| {
            if at > 0 && at % 2 == 0 {
                env.record(done, 1);
            }
            at += 1;
            if at > 2 * rounds { Op::Exit } else { turn[(at as usize - 1) % 2] }
        };
        b.task(if first { "client" } else { "server" }, steps(program)).unwrap();
    }
}

pub fn requests_and_answers_arrive_whole() {
    for processes in MODES {
        for kind in KINDS {
            let m = run(Ns::secs(30), processes, |b| ping_pong(b, kind, 500, 100, 20_000));
            assert_eq!(m.own.series["rounds"].count(), 1000, "{kind:?}");
            assert!(
                m.own.duration < Ns::secs(20) && m.own.warnings.is_empty(),
                "{kind:?}: {:?}",
                m.own.warnings
            );
        }
    }
}

pub fn many_senders_share_one_channel() {
    const SENDERS: u64 = 8;
    const MESSAGES: u64 = 200;
    for processes in MODES {
        for kind in [Pipe, Unix] {
            let m = run(Ns::secs(30), processes, |b| {
                let (read, write) = b.channel(kind);
                let got = b.series("got", "", "higher");
                for i in 0..SENDERS {
                    let mut left = MESSAGES;
                    let program = move |_: &mut dyn Env| {
                        left = left.wrapping_sub(1);
                        if left == u64::MAX { Op::Exit } else { Op::Send { port: write, bytes: 100 } }
                    };
                    b.task(format!("sender-{i}"), steps(program)).unwrap();
                }
                let mut calls = 0;
                let program = move |env: &mut dyn Env| {
                    calls += 1;
                    if calls > 1 {
                        env.record(got, 1);
                    }
                    if calls > SENDERS * MESSAGES { Op::Exit } else { Op::Recv { port: read, bytes: 100 } }
                };
                b.task("receiver", steps(program)).unwrap();
            });
            assert_eq!(m.own.series["got"].count(), SENDERS * MESSAGES, "{kind:?}");
            assert!(m.own.duration < Ns::secs(20));
        }
    }
}

pub fn a_full_channel_blocks_until_it_is_read() {
    MODES.into_iter().for_each(|processes| in_time(|factor| full_channel(processes, factor)));
}

fn full_channel(processes: bool, factor: u64) -> Result<(), String> {
    // A pipe has 16 pages; the 17th write of a page must wait.
    let m = run(Ns::secs(30), processes, |b| {
        let (read, write) = b.channel(Pipe);
        let at = b.series("at", "ns", "neither");
        let mut pages = 0;
        let writer = move |env: &mut dyn Env| {
            if pages == 16 || pages == 17 {
                let now = env.now();
                env.record(at, now.0);
            }
            pages += 1;
            if pages > 17 { Op::Exit } else { Op::Send { port: write, bytes: 4096 } }
        };
        b.task("writer", steps(writer)).unwrap();
        let mut ops = [Op::Sleep { length: Ns::ms(300 * factor) }, Op::Recv { port: read, bytes: 17 * 4096 }]
            .into_iter();
        b.task("reader", steps(move |_| ops.next().unwrap_or(Op::Exit))).unwrap();
    });
    let at = &m.own.series["at"];
    let (sixteen, seventeen) = (at.min().unwrap(), at.max().unwrap());
    assert!(seventeen >= Ns::ms(300 * factor - 10).0, "{sixteen} {seventeen}");
    if sixteen < Ns::ms(250 * factor).0 { Ok(()) } else { Err(format!("{sixteen} {seventeen}")) }
}

pub fn the_end_reaches_tasks_that_wait_for_a_channel() {
    MODES.into_iter().for_each(|processes| in_time(|factor| waiting_end(processes, factor)));
}

fn waiting_end(processes: bool, factor: u64) -> Result<(), String> {
    let begun = Instant::now();
    let m = run(Ns::ms(100), processes, |b| {
        let after = b.series("after", "", "neither");
        let once = |op: Op| {
            let mut calls = 0;
            steps(move |env| {
                calls += 1;
                if calls > 1 {
                    env.record(after, 1);
                }
                op
            })
        };
        for kind in KINDS {
            let (read, _) = b.channel(kind);
            b.task("empty", once(Op::Recv { port: read, bytes: 100 })).unwrap();
            if kind != Udp {
                // The send is larger than any buffer; a receive must not return with half of its bytes.
                let (_, write) = b.channel(kind);
                b.task("full", once(Op::Send { port: write, bytes: 64 << 20 })).unwrap();
                let (read, write) = b.channel(kind);
                b.task("half", once(Op::Recv { port: read, bytes: 100 })).unwrap();
                let mut ops = [Op::Send { port: write, bytes: 50 }].into_iter();
                b.task("stingy", steps(move |_| ops.next().unwrap_or(Op::Exit))).unwrap();
            }
        }
        let touch = b.task("touch", once(Op::Touch { kb: 2048, rounds: u32::MAX })).unwrap();
        b.edit(touch).footprint_kb = 2048;
    });
    let (took, lasted) = (begun.elapsed(), m.own.duration);
    assert!(lasted >= Ns::ms(100), "{lasted}");
    assert_eq!(m.own.series["after"].count(), 0, "no program saw the end");
    assert!(warning_codes(&m).is_empty(), "{:?}", m.own.warnings);
    let soon = took < Duration::from_millis(900 * factor) && lasted < Ns::ms(600 * factor);
    if soon { Ok(()) } else { Err(format!("{took:?} {lasted}")) }
}

pub fn a_lost_datagram_is_reported_and_hangs_nobody() {
    MODES.into_iter().for_each(|processes| in_time(|factor| lost_datagrams(processes, factor)));
}

fn lost_datagrams(processes: bool, factor: u64) -> Result<(), String> {
    let begun = Instant::now();
    let m = run(Ns::ms(200 * factor), processes, |b| {
        let (here, there) = b.channel(Udp);
        // Too many for the receive buffer while nobody receives.
        let mut left = 3000;
        let flood = move |_: &mut dyn Env| {
            left -= 1;
            if left < 0 { Op::Exit } else { Op::Send { port: there, bytes: 1000 } }
        };
        b.task("flood", steps(flood)).unwrap();
        let mut first = true;
        let late = move |_: &mut dyn Env| {
            let op = if first {
                Op::Sleep { length: Ns::ms(120 * factor) }
            } else {
                Op::Recv { port: here, bytes: 1000 }
            };
            first = false;
            op
        };
        b.task("late", steps(late)).unwrap();
    });
    let took = begun.elapsed();
    let codes = warning_codes(&m);
    // On a busy machine the flood may begin after the receiver has slept, and lose nothing; or it may be unfinished.
    assert!(codes.is_empty() || codes == ["channel.lost"], "{:?}", m.own.warnings);
    let whole = m.own.warnings.iter().any(|w| w.message.contains("of 3000 datagrams"));
    let soon = took < Duration::from_secs(2 * factor) && whole;
    if soon { Ok(()) } else { Err(format!("{took:?} {:?}", m.own.warnings)) }
}

/// Makes a run with 200 channels in a separate process, and prints whether that worked.
pub fn many_channels() {
    let mut b = Builder::new(1);
    for _ in 0..200 {
        b.channel(Unix);
    }
    b.task("idle", steps(|_| Op::Exit)).unwrap();
    match run_built(b.finish().unwrap(), None) {
        Ok(_) => println!("made"),
        Err(e) => println!("{e}"),
    }
}

/// The output of that process under a limit set by the shell's ulimit with `flags`.
fn limited(flags: &str) -> String {
    let me = std::env::current_exe().unwrap();
    let text = format!("ulimit {flags}; exec \"$0\" {MANY_CHANNELS}");
    let out = Command::new("sh").arg("-c").arg(text).arg(me).output().unwrap();
    String::from_utf8(out.stdout).unwrap()
}

pub fn the_soft_limit_of_files_is_raised() {
    assert_eq!(limited("-S -n 100"), "made\n");
}

pub fn the_hard_limit_of_files_is_named() {
    let said = limited("-n 100");
    for part in ["200 channels need", "RLIMIT_NOFILE soft 100 hard 100", "ulimit -Hn", "use fewer channels"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

pub fn touching_takes_cpu_time() {
    let cpu = |rounds| {
        run(Ns::secs(30), false, |b| {
            let mut ops = [Op::Touch { kb: 1024, rounds }].into_iter();
            let task = b.task("touch", steps(move |_| ops.next().unwrap_or(Op::Exit))).unwrap();
            b.edit(task).footprint_kb = 1024;
        })
        .own
        .counters["cpu_time"]
    };
    // 16384 lines at 0.3 ns or more each; merged rounds would take no longer than ten.
    let (few, many) = (cpu(10), cpu(2000));
    assert!(many > few + Ns::ms(5).0, "{few} and {many} ns");
}

pub fn timer_slack_is_set_and_not_inherited() {
    const SLACK: Ns = Ns(1_234_567);
    let own = || {
        let me = std::fs::read_link("/proc/thread-self").unwrap();
        let file = format!("/proc/{}/timerslack_ns", me.file_name().unwrap().to_str().unwrap());
        std::fs::read_to_string(file).unwrap().trim().parse::<u64>().unwrap()
    };
    let usual = own();
    for processes in MODES {
        let m = run(Ns::secs(30), processes, |b| {
            let (parents, childs) = (b.series("parent", "ns", "neither"), b.series("child", "ns", "neither"));
            let mut calls = 0;
            let parent = move |env: &mut dyn Env| {
                calls += 1;
                if calls > 1 {
                    return Op::Exit;
                }
                env.record(parents, own());
                Op::Spawn { task: TaskId(1) }
            };
            let parent = b.task("parent", steps(parent)).unwrap();
            b.edit(parent).timer_slack = Some(SLACK);
            let child = move |env: &mut dyn Env| {
                env.record(childs, own());
                Op::Exit
            };
            let child = b.task("child", steps(child)).unwrap();
            b.edit(child).spawned_by = Some(parent);
        });
        let of = |name: &str| (m.own.series[name].min(), m.own.series[name].max());
        assert_eq!((of("parent"), of("child")), ((Some(SLACK.0), Some(SLACK.0)), (Some(usual), Some(usual))));
    }
}
