//! Makes a channel: two connected descriptors, with the kernel's default buffer sizes.
//!
//! Mirrors pipe(7), unix(7), tcp(7) and udp(7). Addresses are 127.0.0.1, and the kernel chooses the ports.

use crate::sys::limits;
use schedlab_base::Error;
use schedlab_workload::ChannelKind;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

/// Two connected descriptors; the first end of a pipe is read.
pub fn pair(kind: ChannelKind, listener: &mut Option<TcpListener>) -> io::Result<[OwnedFd; 2]> {
    const HERE: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);
    Ok(match kind {
        ChannelKind::Pipe => {
            let (reader, writer) = io::pipe()?;
            [reader.into(), writer.into()]
        }
        ChannelKind::Unix => {
            let (a, b) = UnixStream::pair()?;
            [a.into(), b.into()]
        }
        ChannelKind::Tcp => {
            let listening = match listener {
                Some(listening) => listening,
                None => listener.insert(TcpListener::bind(HERE)?),
            };
            let (a, b) = connect(listening)?;
            a.set_nodelay(true)?;
            b.set_nodelay(true)?;
            [a.into(), b.into()]
        }
        ChannelKind::Udp => {
            let (a, b) = (UdpSocket::bind(HERE)?, UdpSocket::bind(HERE)?);
            a.connect(b.local_addr()?)?;
            b.connect(a.local_addr()?)?;
            [a.into(), b.into()]
        }
    })
}

/// A connection to our own listener. Foreign connections are dropped.
fn connect(listening: &TcpListener) -> io::Result<(TcpStream, TcpStream)> {
    let ours = TcpStream::connect(listening.local_addr()?)?;
    let address = ours.local_addr()?;
    loop {
        let (other, from) = listening.accept()?;
        if from == address {
            return Ok((ours, other));
        }
    }
}

/// The error about a channel that can't be made, with help.
pub fn not_made(number: usize, kind: ChannelKind, e: &io::Error) -> Error {
    let error = Error::machine(format!("can't make channel {number}, a {}: {e}", word(kind)));
    match (e.raw_os_error(), kind) {
        (Some(libc::EMFILE | libc::ENFILE), _) => error.help(limits::of_files()),
        (_, ChannelKind::Tcp | ChannelKind::Udp) => error
            .help("it needs 127.0.0.1 (ip link set lo up) and a free port (net.ipv4.ip_local_port_range)"),
        _ => error.help("use fewer channels"),
    }
}

/// The kind's name in messages.
pub fn word(kind: ChannelKind) -> &'static str {
    match kind {
        ChannelKind::Pipe => "pipe",
        ChannelKind::Unix => "UNIX socket pair",
        ChannelKind::Tcp => "TCP connection",
        ChannelKind::Udp => "UDP socket pair",
    }
}
