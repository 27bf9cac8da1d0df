//! The lines of the kernel's objects outside `kernel/sched`, and who touches them: one table (docs/code.md shows it).
//!
//! Read in the sources of 6.12.117. A figure such as "3 lines" is a structure's size, or its parts that the call goes
//! through, over 64 bytes. Lines that are only read (a socket's operations, routes, credentials) are not here: all CPUs
//! keep copies of them.

use schedlab_workload::ChannelKind;

/// What a row belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Object {
    Channel(ChannelKind),
    Futex,
    Task,
}

/// Where an object's lines are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// One direction of a channel.
    Buffer,
    /// The socket at the end that reads.
    Reader,
    /// The socket at the end that writes.
    Writer,
    /// The message. Messages of a direction use as many places in turn as a slab has objects.
    Message,
    /// The message's bytes.
    Data,
    /// The page of a pipe that is written to, or read from.
    Slot,
    /// The open file of the caller's end.
    File,
    /// One for the whole machine.
    Machine,
    /// The futex's word, or the task.
    Own,
}

/// How a line is touched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// It is not.
    No,
    Read,
    /// It is written, and nothing of it is read: nobody waits for it.
    Store,
    /// It is read, then written.
    Write,
    /// By an atomic operation, which waits for all lines before it.
    Atomic,
}

/// When a call touches it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// In each call.
    Call,
    /// In each call of a task that shares its files with other threads.
    Shared,
    /// While it holds its channel's lock; for a futex: if somebody waits.
    Locked,
    /// Under the lock, if a page of the pipe is begun or used up.
    Page,
    /// While it is the first that spins for the lock.
    Spins,
    /// Before it knows whether the lock is free.
    Locks,
    /// When it releases the lock, behind all that it has stored.
    Unlocks,
    /// If it finds nothing, and is about to sleep.
    Sleeps,
    /// If it looks for sleepers: a call on a pipe that was empty or full, or on a socket with one; for a futex: if
    /// nobody waits.
    Other,
    /// When the task is on another CPU than before.
    Moved,
}

/// A row: so many lines from `first` on, touched alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    pub of: Object,
    pub name: &'static str,
    pub place: Place,
    pub first: u16,
    /// 0: as many as the message's bytes take.
    pub lines: u16,
    pub when: When,
    /// By the call that writes, or wakes.
    pub writes: Access,
    /// By the call that reads, or waits.
    pub reads: Access,
    pub source: &'static str,
}

impl Row {
    /// Whether its lines come next to each other: bytes in a row, which the CPU prefetches. Lines of a structure are
    /// found one by one, behind locks and pointers.
    pub fn is_stream(&self) -> bool {
        self.place == Place::Data || self.of == Object::Task
    }
}

macro_rules! rows {
    ($($of:expr => { $(
        $name:literal $place:ident $first:literal + $lines:literal, $when:ident: $writes:ident, $reads:ident,
        $source:literal;
    )* })*) => {
        /// All rows.
        pub const ROWS: &[Row] = &[$($(Row {
            of: $of, name: $name, place: Place::$place, first: $first, lines: $lines, when: When::$when,
            writes: Access::$writes, reads: Access::$reads, source: $source,
        },)*)*];
    };
}

rows! {
    Object::Channel(ChannelKind::Pipe) => {
        "file" File 0 + 1, Shared: Atomic, Atomic, "f_count: __fget_light(), fput(); all writers of a pipe have one file";
        "mutex" Buffer 0 + 1, Spins: Read, Read, "mutex_spin_on_owner() of the first in the queue";
        "mutex" Buffer 0 + 1, Locks: Atomic, Atomic, "pipe_inode_info, bytes 0 to 63: mutex, rd_wait, the lock of wr_wait; fs/pipe.c; mutex_lock(), osq_lock() if it is held";
        "head, tail" Buffer 1 + 1, Locked: Read, Read, "bytes 64 to 127: sleepers of wr_wait, head, tail";
        "bufs" Buffer 2 + 1, Locked: Read, Read, "bytes 128 to 191: tmp_page, fasync_readers, bufs";
        "slot" Slot 0 + 1, Locked: Write, Write, "one of 16 pipe_buffer, 40 bytes each: len of the last one, offset of the first";
        "data" Data 0 + 0, Locked: Store, Read, "a page of the pipe; 40 messages of 100 bytes share one";
        "head, tail" Buffer 1 + 1, Page: Store, Store, "pipe_write(): head; pipe_read(): tail";
        "tmp_page" Buffer 2 + 1, Page: Store, Store, "pipe_write() takes it, anon_pipe_buf_release() gives it back";
        "mutex" Buffer 0 + 1, Unlocks: Atomic, Atomic, "mutex_unlock(): behind the stores before it";
        "rd_wait" Buffer 0 + 1, Sleeps: No, Write, "prepare_to_wait_event()";
        "wr_wait" Buffer 1 + 1, Sleeps: Write, No, "prepare_to_wait_event()";
        "rd_wait, wr_wait" Buffer 0 + 1, Other: Atomic, Atomic, "their locks: __wake_up_sync_key(), behind mutex_unlock()";
    }
    Object::Channel(ChannelKind::Unix) => {
        "file" File 0 + 1, Shared: Atomic, Atomic, "f_count, as of a pipe";
        "sk_wmem_alloc of the sender" Writer 0 + 1, Call: Atomic, Atomic, "skb_set_owner_w(); the reader's sock_wfree()";
        "sk_buff" Message 0 + 4, Call: Store, Write, "232 bytes, allocated by the sender, freed by the reader";
        "skb_shared_info" Message 4 + 1, Call: Store, Write, "its first 32 bytes: __alloc_skb(), skb_release_data()";
        "data" Data 0 + 0, Call: Store, Read, "skb->head";
        "state lock of the reader" Reader 1 + 1, Locked: Atomic, Atomic, "unix_sock.lock: unix_stream_sendmsg(), unix_stream_read_generic()";
        "sk_receive_queue" Reader 2 + 1, Locked: Atomic, Atomic, "its lock and list: skb_queue_tail(), skb_unlink()";
        "sk_wq" Reader 3 + 1, Sleeps: No, Write, "socket_wq: unix_stream_data_wait()";
        "sk_wq" Writer 3 + 1, Sleeps: Write, No, "socket_wq: sock_wait_for_wmem()";
        "sk_wq" Reader 3 + 1, Other: Atomic, No, "socket_wq: sock_def_readable()";
        "sk_wq" Writer 3 + 1, Other: No, Atomic, "socket_wq: unix_write_space()";
    }
    Object::Channel(ChannelKind::Tcp) => {
        "file" File 0 + 1, Shared: Atomic, Atomic, "f_count, as of a pipe";
        "tcp_sock of the sender" Writer 0 + 10, Call: Write, No, "sk_lock, sk_write_queue, sk_wmem, timers of inet_connection_sock, tcp_sock_write_tx, _txrx: tcp_sendmsg(), tcp_write_xmit()";
        "sk_buff, its clone, shared info" Message 0 + 6, Call: Store, Write, "sk_buff_fclones, skb->head";
        "data" Data 0 + 0, Call: Store, Read, "skb->head or its page";
        "tcp_sock of the reader, queues and locks" Reader 0 + 6, Call: Write, Write, "by the sender's CPU in its softirq: tcp_v4_rcv(), tcp_rcv_established(); then tcp_recvmsg(): sk_lock, sk_receive_queue, rcvq_space, copied_seq";
        "tcp_sock of the reader, its acks and timers" Reader 6 + 4, Call: Write, No, "the softirq alone: tcp_ack(), tcp_sock_write_txrx, _rx";
        "sk_wq" Reader 10 + 1, Sleeps: No, Write, "socket_wq: sk_wait_data()";
        "sk_wq" Writer 10 + 1, Sleeps: Write, No, "socket_wq: sk_stream_wait_memory()";
        "sk_wq" Reader 10 + 1, Other: Atomic, No, "socket_wq: sock_def_readable()";
        "sk_wq" Writer 10 + 1, Other: No, Atomic, "socket_wq: sk_stream_write_space()";
    }
    Object::Channel(ChannelKind::Udp) => {
        "file" File 0 + 1, Shared: Atomic, Atomic, "f_count, as of a pipe";
        "IP's counter of identifications" Machine 0 + 1, Call: Atomic, No, "ip_idents: one of the addresses and the protocol, thus of all datagrams over loopback from sockets without a peer's address, as netperf's are; net/ipv4/route.c";
        "udp_sock of the sender" Writer 0 + 5, Call: Write, No, "sk_wmem_alloc, sk_write_queue, sk_dst_cache: udp_sendmsg(), sock_wfree() by loopback_xmit()";
        "sk_buff, shared info, headers" Message 0 + 6, Call: Store, Write, "alloc_skb_with_frags(); freed by the reader";
        "data" Data 0 + 0, Call: Store, Read, "skb->head";
        "udp_sock of the reader" Reader 0 + 5, Call: Write, Write, "by the sender's CPU in its softirq: sk_rmem_alloc, sk_receive_queue; then udp_recvmsg(): reader_queue, forward_deficit";
        "sk_wq" Reader 5 + 1, Sleeps: No, Write, "socket_wq: __skb_wait_for_more_packets()";
        "sk_wq" Reader 5 + 1, Other: Atomic, No, "socket_wq: sock_def_readable()";
    }
    Object::Futex => {
        "word" Own 0 + 1, Call: Write, Read, "user memory: whoever wakes has changed it";
        "hash bucket" Own 1 + 1, Locked: Atomic, Atomic, "futex_hash_bucket: waiters and lock; each word has one of its own here";
        "hash bucket" Own 1 + 1, Other: Read, No, "futex_hb_waiters_pending()";
    }
    Object::Task => {
        "wait entry" Own 0 + 1, Sleeps: Write, Write, "futex_q or wait_queue_entry, on the waiter's stack: queued by the waiter, unlinked by the waker";
        "stack of the kernel" Own 1 + 6, Moved: No, Write, "estimate: the frames between a system call and schedule(), 400 bytes";
        "registers of the FPU" Own 7 + 10, Moved: No, Write, "fpstate: 512 bytes of SSE and its header; those of AVX are left out while unused; switch_fpu_return()";
    }
}

/// How many lines an object's place has; data are apart.
pub fn lines_at(of: Object, place: Place) -> u16 {
    let here = ROWS.iter().filter(|row| row.of == of && row.place == place);
    here.map(|row| row.first + row.lines).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::testing::page_has;

    /// The table of docs/code.md.
    fn page() -> String {
        let mut text = String::from(
            "| of | lines | | when | writes, wakes | reads, waits | where |\n|---|---|---|---|---|---|---|\n",
        );
        for row in ROWS {
            let of = match row.of {
                Object::Channel(kind) => format!("{kind:?}"),
                other => format!("{other:?}"),
            };
            let lines = if row.lines == 0 { "bytes / 64".to_owned() } else { row.lines.to_string() };
            let when = match (row.of, row.when) {
                (_, When::Call) => "in each call",
                (_, When::Shared) => "of a thread among others",
                (_, When::Page) => "begins or ends a page",
                (_, When::Unlocks) => "it releases the lock",
                (_, When::Locks) => "it takes the lock",
                (_, When::Spins) => "it spins",
                (Object::Futex, When::Locked) => "somebody waits",
                (Object::Futex, When::Other) => "nobody waits",
                (_, When::Locked) => "under its lock",
                (_, When::Sleeps) => "it sleeps",
                (_, When::Other) => "it looks for sleepers",
                (_, When::Moved) => "on another CPU",
            };
            let word = |access: Access| match access {
                Access::No => String::new(),
                other => format!("{other:?}").to_lowercase(),
            };
            text += &format!(
                "| {} | {} | {lines} | {when} | {} | {} | {} |\n",
                of.to_lowercase(),
                row.name,
                word(row.writes),
                word(row.reads),
                row.source
            );
        }
        text
    }

    #[test]
    fn the_page_has_the_table_of_objects() {
        let begin = "<!-- begin: objects, made from crates/board/src/objects/table.rs -->\n";
        page_has("docs/code.md", [begin, "<!-- end: objects -->"], &page());
    }

    #[test]
    fn only_bytes_have_no_number_of_lines() {
        assert!(ROWS.iter().all(|row| (row.lines == 0) == (row.place == Place::Data)));
        assert_eq!(lines_at(Object::Channel(ChannelKind::Pipe), Place::Buffer), 3);
        assert_eq!(lines_at(Object::Channel(ChannelKind::Tcp), Place::Reader), 11);
        assert_eq!(lines_at(Object::Channel(ChannelKind::Tcp), Place::Machine), 0);
    }
}
