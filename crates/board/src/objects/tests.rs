use super::*;
use schedlab_workload::PortId;

/// Objects of one channel, a word and a task, one behind the other from line 1 on.
fn objects(kind: ChannelKind) -> Objects {
    let mut next = 1;
    let channels = Channels::new(vec![kind], &[], 2);
    Objects::new(&channels, 1, vec![true], |lines| {
        let at = next;
        next += u64::from(lines);
        at * LINE
    })
}

fn transfer(sends: bool, part: u32) -> Transfer {
    let port = PortId(u32::from(sends));
    Transfer {
        port,
        sends,
        left: part,
        part,
        held_ns: 0,
        opens: true,
        returned: false,
        slept: false,
        back: false,
    }
}

/// First line, lines and how, of a call.
fn touched(objects: &Objects, kind: ChannelKind, t: Transfer, when: When) -> Vec<(u64, u16, u16)> {
    let touches = objects.of_transfer(kind, t, InPipe::default(), &[when]);
    touches.all().iter().map(|t| (t.at / LINE, t.lines, t.how)).collect()
}

#[test]
fn both_ends_of_a_pipe_touch_its_lines_under_the_mutex() {
    const WRITE: u16 = Touched::WRITE;
    const STORE: u16 = Touched::STORE;
    const STREAM: u16 = Touched::TOGETHER;
    let kind = ChannelKind::Pipe;
    let pipe = objects(kind);
    let written = touched(&pipe, kind, transfer(true, 100), When::Locked);
    let (data, slots) = (4, 4 + 1024);
    assert_eq!(
        written,
        [(2, 1, 0), (3, 1, 0), (slots, 1, WRITE), (data, 2, STORE | STREAM)],
        "head and tail are only read while a page has room"
    );
    let read = touched(&pipe, kind, transfer(false, 100), When::Locked);
    assert_eq!(read[..3], written[..3]);
    assert_eq!(read[3], (data, 2, STREAM));
    assert_eq!(touched(&pipe, kind, transfer(true, 100), When::Page), [(2, 1, STORE), (3, 1, STORE)]);
    assert_eq!(touched(&pipe, kind, transfer(false, 0), When::Locked).len(), 2, "it finds nothing");
    assert_eq!(touched(&pipe, kind, transfer(false, 0), When::Sleeps), [(1, 1, WRITE)]);
    assert_eq!(touched(&pipe, kind, transfer(true, 0), When::Call), []);
}

#[test]
fn a_mutex_is_read_by_a_spinner_before_it_is_taken_and_released_behind_the_data() {
    let kind = ChannelKind::Pipe;
    let pipe = objects(kind);
    for sends in [true, false] {
        let how = |when: &[When]| {
            let touches = pipe.of_transfer(kind, transfer(sends, 100), InPipe::default(), when);
            touches.all().iter().map(|t| (t.at / LINE, t.how)).collect::<Vec<_>>()
        };
        assert_eq!(how(&[When::Locks, When::Spins]), [(1, 0), (1, Touched::ATOMIC)]);
        let held = how(&[When::Unlocks, When::Page, When::Locked]);
        assert_eq!(held.len(), 4 + 2 + 1);
        assert_eq!(held.last(), Some(&(1, Touched::ATOMIC)), "all stores are done before it");
    }
    let unix = objects(ChannelKind::Unix);
    let spinlock = |when| touched(&unix, ChannelKind::Unix, transfer(true, 100), when);
    assert_eq!([When::Spins, When::Locks, When::Unlocks].map(spinlock), [vec![], vec![], vec![]]);
}

#[test]
fn pages_of_a_pipe_are_used_in_turn() {
    let kind = ChannelKind::Pipe;
    let pipe = objects(kind);
    let at = |page, offset| {
        let touches = pipe.of_transfer(kind, transfer(true, 100), InPipe { page, offset }, &[When::Locked]);
        touches.all()[2..].iter().map(|t| (t.at / LINE, t.lines)).collect::<Vec<_>>()
    };
    let (data, slots) = (4, 4 + 1024);
    assert_eq!(at(0, 0), [(slots, 1), (data, 2)]);
    assert_eq!(at(0, 100), [(slots, 1), (data + 1, 3)], "a page has one slot for all its messages");
    assert_eq!(at(2, 8200), [(slots + 1, 1), (data + 128, 2)], "its slot begins at byte 80 of all");
    assert_eq!(at(16, 65_536), at(0, 0), "page 16 is the first again");
    assert_eq!(at(15, 65_500)[1], (data + 1023, 1), "the last line");
}

#[test]
fn threads_share_the_file_of_an_end_and_processes_do_not() {
    let kind = ChannelKind::Pipe;
    let pipe = objects(kind);
    assert!(pipe.shares_files(TaskId(0)) && !pipe.shares_files(TaskId(1)));
    let write = touched(&pipe, kind, transfer(true, 1), When::Shared);
    let read = touched(&pipe, kind, transfer(false, 1), When::Shared);
    assert_eq!((write[0].2, write.len()), (Touched::ATOMIC, 1));
    assert_ne!(write[0].0, read[0].0, "each end has its own");
}

#[test]
fn a_datagram_touches_the_machines_counter_and_both_sockets_before_it_is_read() {
    let kind = ChannelKind::Udp;
    let udp = objects(kind);
    let sent = touched(&udp, kind, transfer(true, 1), When::Call);
    let read = touched(&udp, kind, transfer(false, 1), When::Call);
    assert_eq!((sent[0].0 * LINE, sent[0].2), (udp.machine, Touched::ATOMIC));
    let shared: Vec<u64> =
        read.iter().map(|(at, ..)| *at).filter(|at| sent.iter().any(|s| s.0 == *at)).collect();
    assert_eq!(shared.len(), read.len(), "all that is read was touched by the sender");
    let tcp = objects(ChannelKind::Tcp);
    let sent = touched(&tcp, ChannelKind::Tcp, transfer(true, 1), When::Call);
    assert!(sent.iter().all(|(at, ..)| at * LINE != tcp.machine), "TCP has counters of its own");
}

#[test]
fn messages_take_places_in_turn() {
    let kind = ChannelKind::Unix;
    let mut unix = objects(kind);
    let place = |unix: &Objects| touched(unix, kind, transfer(true, 1), When::Call)[1].0;
    let first = place(&unix);
    for _ in 1..PLACES {
        unix.carried(transfer(true, 1));
        assert_ne!(place(&unix), first);
    }
    unix.carried(transfer(true, 1));
    assert_eq!(place(&unix), first);
    let reads = touched(&unix, kind, transfer(false, 1), When::Call)[1].0;
    assert_eq!(reads, first, "nothing was read yet");
}

#[test]
fn large_messages_come_in_parts_that_fit() {
    let kind = ChannelKind::Tcp;
    let tcp = objects(kind);
    let touches = tcp.of_transfer(kind, transfer(true, 65_536), InPipe::default(), &[When::Call]);
    let data: Vec<u16> =
        touches.all().iter().filter(|t| t.how & Touched::TOGETHER > 0).map(|t| t.lines).collect();
    assert_eq!(data, [10, 10, 10, 10, 10, 10, 4]);
}

#[test]
fn a_wake_writes_the_word_and_looks_at_the_bucket() {
    let all = objects(ChannelKind::Pipe);
    let how = |wakes, waiter| all.of_word(0, wakes, waiter).all().iter().map(|t| t.how).collect::<Vec<_>>();
    assert_eq!(how(true, false), [Touched::WRITE, 0]);
    assert_eq!(how(true, true), [Touched::WRITE, Touched::ATOMIC]);
    assert_eq!(how(false, true), [0, Touched::ATOMIC]);
    let moved = all.of_task(TaskId(0), When::Moved);
    assert_eq!(moved.all().iter().map(|t| t.lines).sum::<u16>(), 16);
    assert_eq!(all.of_task(TaskId(0), When::Sleeps).all().len(), 1);
    assert_eq!(all.of_task(TaskId(9), When::Sleeps).all(), [], "one of the kernel's own");
}
