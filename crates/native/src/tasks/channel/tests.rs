//! Working channels, and the messages when they fail.

use super::*;
use std::net::UdpSocket;

const KINDS: [ChannelKind; 4] = [ChannelKind::Pipe, ChannelKind::Unix, ChannelKind::Tcp, ChannelKind::Udp];

fn one(kind: ChannelKind) -> (Channels, PortId, PortId) {
    (Channels::open(&[kind], &[]).unwrap(), PortId(0), PortId(1))
}

#[test]
fn sent_bytes_arrive_and_no_others() {
    for kind in KINDS {
        let ((c, reader, writer), mut buffer) = (one(kind), Buffer::default());
        for bytes in [0, 1, 100, 4000, 100] {
            assert_eq!(c.send(writer, bytes, &mut buffer, || false).unwrap(), Moved::All, "{kind:?}");
            assert_eq!(c.receive(reader, bytes, &mut buffer, || false).unwrap(), Moved::All, "{kind:?}");
        }
        assert_eq!(sys::wait_readable([Some(c.ends[0].fd.as_fd())], 0), [false], "{kind:?}");
        assert_eq!(c.settle().unwrap(), [], "{kind:?}");
    }
}

#[test]
fn a_long_transfer_goes_in_pieces() {
    let bytes = 3 * PIECE_BYTES as u32 + 5;
    let c = Channels::open(&[ChannelKind::Unix], &[]).unwrap();
    std::thread::scope(|s| {
        s.spawn(|| c.send(PortId(1), bytes, &mut Buffer::default(), || false).unwrap());
        let mut buffer = Buffer::default();
        assert_eq!(c.receive(PortId(0), bytes, &mut buffer, || false).unwrap(), Moved::All);
        assert_eq!(buffer.0.len(), PIECE_BYTES);
    });
}

#[test]
fn a_closed_channel_is_an_error_unless_the_run_is_over() {
    for kind in [ChannelKind::Unix, ChannelKind::Tcp] {
        let (mut c, here, _) = one(kind);
        let (null, mut buffer) = (std::fs::File::open("/dev/null").unwrap(), Buffer::default());
        c.ends[1].fd = null.into();
        sys::ignore_broken_pipes();
        let e = c.receive(here, 1, &mut buffer, || false).unwrap_err().to_string();
        assert!(e.contains("channel 0") && e.contains("closed"), "{e}");
        assert_eq!(c.receive(here, 1, &mut buffer, || true).unwrap(), Moved::Over);
        let until_refused = (0..9).find_map(|_| c.send(here, 1, &mut buffer, || false).err());
        assert!(until_refused.unwrap().to_string().contains("closed"));
        assert_eq!(c.send(here, 1, &mut buffer, || true).unwrap(), Moved::Over);
    }
}

#[test]
fn the_wrong_end_and_an_unknown_channel_are_named() {
    let (c, reader, writer) = one(ChannelKind::Pipe);
    let mut buffer = Buffer::default();
    let wrong = c.send(reader, 1, &mut buffer, || false).unwrap_err().to_string();
    assert!(wrong.contains("write to channel 0, a pipe"), "{wrong}");
    assert!(c.receive(writer, 1, &mut buffer, || false).is_err());
    let none = c.send(PortId(7), 1, &mut buffer, || false).unwrap_err().to_string();
    assert!(none.contains("channel 3 was not declared (1 are)"), "{none}");
}

#[test]
fn a_datagram_of_another_size_is_an_error() {
    let ((c, here, there), mut buffer) = (one(ChannelKind::Udp), Buffer::default());
    for (sent, wanted, said) in [(10, 20, "of 10 bytes"), (30, 20, "at least 21 bytes")] {
        c.send(there, sent, &mut buffer, || false).unwrap();
        let e = c.receive(here, wanted, &mut buffer, || false).unwrap_err().to_string();
        assert!(e.contains(said) && e.contains("not of 20"), "{e}");
    }
    let long = c.send(there, 70_000, &mut buffer, || false).unwrap_err();
    assert!(long.to_string().contains("65507"), "{long}");
}

#[test]
fn lost_datagrams_are_counted_and_those_left_over_are_not_lost() {
    let (c, here, there) = one(ChannelKind::Udp);
    let mut buffer = Buffer::default();
    // Far more than fits a receive buffer of 208 KB.
    for _ in 0..2000 {
        c.send(there, 1000, &mut buffer, || false).unwrap();
    }
    c.receive(here, 1000, &mut buffer, || false).unwrap();
    let warnings = c.settle().unwrap();
    assert_eq!((warnings[0].code.as_str(), warnings.len()), ("channel.lost", 1));
    let (lost, text) = warnings[0].message.split_once(" of 2000 datagrams").unwrap();
    let lost: u64 = lost.parse().unwrap();
    assert!((500..1950).contains(&lost), "those in the buffer are not lost: {lost}{text}");
}

#[test]
fn nothing_that_arrives_is_an_error() {
    let (mut c, here, there) = one(ChannelKind::Udp);
    c.send(there, 10, &mut Buffer::default(), || false).unwrap();
    c.ends[here.index()].fd = UdpSocket::bind("127.0.0.1:0").unwrap().into();
    let e = c.settle().unwrap_err();
    assert!(e.to_string().contains("none of 1 datagrams"), "{e}");
}

#[test]
fn ends_with_something_to_read_take_turns() {
    let kinds = [ChannelKind::Tcp, ChannelKind::Unix, ChannelKind::Unix];
    let here = [PortId(1), PortId(3), PortId(5)];
    let c = Channels::open(&kinds, &[here.to_vec()]).unwrap();
    let (mut buffer, mut found) = (Buffer::default(), VecDeque::new());
    for port in [2, 4, 2] {
        c.send(PortId(port), 10, &mut buffer, || false).unwrap();
    }
    let mut seen = Vec::new();
    for _ in 0..3 {
        let port = c.ready(SetId(0), &mut found, || false).unwrap().expect("the run is not over");
        c.receive(port, 10, &mut buffer, || false).unwrap();
        seen.push(port.0);
    }
    assert_eq!(seen, [3, 5, 3]);
    assert_eq!(c.ready(SetId(0), &mut found, || true).unwrap(), None);
}
