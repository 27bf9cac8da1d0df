//! Reads the records that the kernel writes into a ring of samples (include/uapi/linux/perf_event.h, PERF_RECORD_*).
//!
//! The layout follows the requested sample type: address, process and thread, call chain. Numbers have this machine's
//! byte order.

/// The requested parts of a sample: PERF_SAMPLE_IP, PERF_SAMPLE_TID, PERF_SAMPLE_CALLCHAIN.
pub const SAMPLE_TYPE: u64 = 1 | 1 << 1 | 1 << 5;

const MMAP: u32 = 1;
const COMM: u32 = 3;
const LOST: u32 = 2;
const THROTTLE: u32 = 5;
const FORK: u32 = 7;
const SAMPLE: u32 = 9;
const LOST_SAMPLES: u32 = 13;
/// The mode of a sample: bits of `misc`.
const MODE: u16 = 7;
const MODE_KERNEL: u16 = 1;
/// From this value on, numbers in a call chain are not addresses but tell whose addresses follow (PERF_CONTEXT_MAX).
const CONTEXT: u64 = -4095i64 as u64;
const CONTEXT_KERNEL: u64 = -128i64 as u64;
const CONTEXT_USER: u64 = -512i64 as u64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A sample of a CPU's position.
    Sample {
        /// 0: idle.
        process: u32,
        thread: u32,
        at: u64,
        kernel: bool,
        /// The kernel's part of the call chain, innermost first.
        chain: Vec<u64>,
        /// The user mode part; empty unless requested.
        user: Vec<u64>,
    },
    Named {
        thread: u32,
        name: String,
    },
    /// A process mapped code.
    Mapped {
        process: u32,
        start: u64,
        /// Bytes.
        length: u64,
        /// The file, or a word in brackets.
        object: String,
    },
    /// A process was made.
    Forked {
        process: u32,
        parent: u32,
        thread: u32,
        /// The thread that made it.
        by: u32,
    },
    /// This many records did not fit.
    Lost(u64),
    /// The kernel slowed sampling down.
    Throttled,
    /// A record of any other kind.
    Other,
}

/// Reads a record; `None` if it is shorter than its length field.
pub fn parse(kind: u32, misc: u16, bytes: &[u8]) -> Option<Record> {
    let word = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let half = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    Some(match kind {
        SAMPLE => {
            let length = usize::try_from(word(16)?).ok()?;
            let chain = bytes.get(24..)?.chunks_exact(8).take(length);
            let chain: Vec<u64> = chain.filter_map(|c| c.try_into().ok()).map(u64::from_ne_bytes).collect();
            (chain.len() == length).then_some(())?;
            let kernel = misc & MODE == MODE_KERNEL;
            let user = part(&chain, CONTEXT_USER);
            let (process, thread, at) = (half(8)?, half(12)?, word(0)?);
            Record::Sample { process, thread, at, kernel, chain: part(&chain, CONTEXT_KERNEL), user }
        }
        MMAP => {
            let object = text(bytes.get(32..)?);
            Record::Mapped { process: half(0)?, start: word(8)?, length: word(16)?, object }
        }
        COMM => Record::Named { thread: half(4)?, name: text(bytes.get(8..)?) },
        FORK => Record::Forked { process: half(0)?, parent: half(4)?, thread: half(8)?, by: half(12)? },
        LOST => Record::Lost(word(8)?),
        LOST_SAMPLES => Record::Lost(word(0)?),
        THROTTLE => Record::Throttled,
        _ => Record::Other,
    })
}

/// Text that ends with a zero.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// The addresses after a mark.
fn part(chain: &[u64], mark: u64) -> Vec<u64> {
    let from = chain.iter().position(|a| *a == mark).map_or(chain.len(), |at| at + 1);
    chain[from..].iter().copied().take_while(|a| *a < CONTEXT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_ne_bytes()).collect()
    }
    fn halves(low: u32, high: u32) -> Vec<u8> {
        [low.to_ne_bytes(), high.to_ne_bytes()].concat()
    }

    #[test]
    fn a_sample_has_its_chain_in_the_kernel_and_in_user_mode() {
        let user = -512i64 as u64;
        let chain = [CONTEXT_KERNEL, 0xff10, 0xff20, user, 0x10];
        let sample = [bytes(&[0xff10]), halves(42, 43), bytes(&[5]), bytes(&chain)].concat();
        let (process, thread) = (42, 43);
        let (chain, user_part) = (vec![0xff10, 0xff20], vec![0x10]);
        let want = Record::Sample { process, thread, at: 0xff10, kernel: true, chain, user: user_part };
        assert_eq!(parse(SAMPLE, 1, &sample), Some(want));
        let in_user = [bytes(&[0x10]), halves(42, 43), bytes(&[2, user, 0x10])].concat();
        let want =
            Record::Sample { process, thread, at: 0x10, kernel: false, chain: vec![], user: vec![0x10] };
        assert_eq!(parse(SAMPLE, 2, &in_user), Some(want));
        assert_eq!(parse(SAMPLE, 1, &sample[..sample.len() - 1]), None);
    }

    #[test]
    fn mappings_forks_and_losses_are_read() {
        let map = [halves(7, 7), bytes(&[0x1000, 0x2000, 0]), b"/usr/bin/x\0\0\0\0\0\0".to_vec()].concat();
        let want = Record::Mapped { process: 7, start: 0x1000, length: 0x2000, object: "/usr/bin/x".into() };
        assert_eq!(parse(MMAP, 0, &map), Some(want));
        let fork = [halves(8, 7), halves(8, 7), bytes(&[1])].concat();
        assert_eq!(parse(FORK, 0, &fork), Some(Record::Forked { process: 8, parent: 7, thread: 8, by: 7 }));
        let named = [halves(8, 9), b"dd\0\0\0\0\0\0".to_vec()].concat();
        assert_eq!(parse(COMM, 0, &named), Some(Record::Named { thread: 9, name: "dd".into() }));
        assert_eq!(parse(LOST, 0, &bytes(&[1, 99])), Some(Record::Lost(99)));
        assert_eq!(parse(LOST_SAMPLES, 0, &bytes(&[5])), Some(Record::Lost(5)));
        assert_eq!(parse(THROTTLE, 0, &[]), Some(Record::Throttled));
        assert_eq!(parse(4, 0, &[]), Some(Record::Other));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(kind in 0u32..20, misc in any::<u16>(),
                                         bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = parse(kind, misc, &bytes);
        }
    }
}
