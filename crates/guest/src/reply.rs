//! Sends a guest's reply over a serial port. The reply is framed, so that noise around it is harmless, and checked, so
//! that a truncated or changed reply is never accepted.
//!
//! The head is a mark, the length and a checksum (CRC-32 as in IEEE 802.3), as one line of hexadecimal text. The
//! payload follows, then the end mark. The port must be raw: a cooked terminal would change the payload.

use schedlab_base::{Error, Result};

const BEGIN: &[u8] = b"\n\x01schedlab-reply/1 ";
const END: &[u8] = b"\n\x04schedlab-end\n";
/// Length and checksum with a space between, and a newline.
const NUMBERS: usize = 8 + 1 + 8 + 1;

/// The state of receiving a reply.
#[derive(Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// No reply has begun.
    Nothing,
    /// A part of the reply: number of bytes received, and of the whole payload.
    Part(usize, usize),
    Whole(&'a [u8]),
}

pub fn framed(payload: &[u8]) -> Vec<u8> {
    let mut out = BEGIN.to_vec();
    out.extend(format!("{:08x} {:08x}\n", payload.len(), crc32fast::hash(payload)).into_bytes());
    out.extend_from_slice(payload);
    out.extend_from_slice(END);
    out
}

/// Looks for a reply in the received bytes.
///
/// # Errors
/// When a reply has the announced length, but is not the sent one.
pub fn find(bytes: &[u8]) -> Result<Received<'_>> {
    let Some(begun) = bytes.windows(BEGIN.len()).position(|w| w == BEGIN) else {
        return Ok(Received::Nothing);
    };
    let rest = &bytes[begun + BEGIN.len()..];
    let Some(numbers) = rest.get(..NUMBERS) else { return Ok(Received::Part(0, 0)) };
    let (length, sum) = read_numbers(numbers).ok_or_else(|| torn("its head can't be read"))?;
    let rest = &rest[NUMBERS..];
    let Some(payload) = rest.get(..length) else { return Ok(Received::Part(rest.len(), length)) };
    match rest.get(length..length + END.len()) {
        None => Ok(Received::Part(length, length)),
        Some(end) if end != END => Err(torn("it does not end where it should")),
        Some(_) if crc32fast::hash(payload) != sum => Err(torn("its check sum is wrong")),
        Some(_) => Ok(Received::Whole(payload)),
    }
}

fn torn(why: &str) -> Error {
    Error::machine(format!("the guest's reply was changed on its way: {why}"))
        .help("something else writes to the guest's second serial port: leave 'console=ttyS1' out of its boot options")
}

fn read_numbers(line: &[u8]) -> Option<(usize, u32)> {
    let line = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
    let (length, sum) = line.split_once(' ')?;
    Some((usize::from_str_radix(length, 16).ok()?, u32::from_str_radix(sum, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_sum_is_that_of_the_standard() {
        assert_eq!(crc32fast::hash(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn a_changed_reply_is_rejected() {
        let mut sent = framed(b"{\"done\":1}");
        let last = sent.len() - END.len() - 1;
        sent[last] ^= 1;
        assert!(find(&sent).unwrap_err().to_string().contains("check sum"));
        let mut long = framed(b"{}");
        long.insert(BEGIN.len() + NUMBERS, b'\r');
        assert!(find(&long).unwrap_err().to_string().contains("does not end"));
    }

    proptest! {
        #[test]
        fn noise_around_does_no_harm(
            before in proptest::collection::vec(any::<u8>(), 0..50),
            payload in proptest::collection::vec(any::<u8>(), 0..300),
            after in proptest::collection::vec(any::<u8>(), 0..50),
        ) {
            let bytes = [before, framed(&payload), after].concat();
            prop_assert_eq!(find(&bytes).unwrap(), Received::Whole(&payload));
        }

        #[test]
        fn a_part_is_never_taken_for_the_whole(
            payload in proptest::collection::vec(any::<u8>(), 0..300),
            cut in 0usize..1000,
        ) {
            let sent = framed(&payload);
            let cut = cut % sent.len();
            prop_assert!(!matches!(find(&sent[..cut]).unwrap(), Received::Whole(_)));
        }
    }
}
