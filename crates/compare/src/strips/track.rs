//! A track: the states of one CPU over time, as a list of pieces packed into bytes.
//!
//! A piece begins where the one before ends, and has a value. It is stored as two LEB128 numbers: the length of the
//! piece before it (nanoseconds; 0 for the first), and its value. So a second of a busy CPU takes tens of kilobytes,
//! and a page can read it with a few lines of code.

/// A stretch of time with one value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Its begin, ns since the run began.
    pub from: u64,
    /// Its end, ns.
    pub until: u64,
    pub value: u32,
}

/// The pieces of a CPU, from time 0 on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Track {
    bytes: Vec<u8>,
    count: u64,
    /// Begin of the last packed piece.
    packed: u64,
    /// The open piece: begin and value.
    open: (u64, u32),
}

impl Track {
    /// Sets the value from `at` on. A piece of no length is dropped, and equal neighbours are joined.
    pub fn set(&mut self, at: u64, value: u32) {
        let (from, old) = self.open;
        if old == value {
            return;
        }
        if at > from {
            self.pack(from, old);
            self.open = (at, value);
        } else {
            self.open.1 = value;
        }
    }
    /// Changes the value of the whole open piece.
    pub fn amend(&mut self, change: impl Fn(u32) -> u32) {
        self.open.1 = change(self.open.1);
    }
    pub fn count(&self) -> u64 {
        self.count
    }
    /// Number of packed bytes.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }
    /// Packs the open piece. The run ended at `end`.
    pub fn close(&mut self, end: u64) {
        let (from, value) = self.open;
        if end > from {
            self.pack(from, value);
            self.open = (end, value);
        }
    }
    /// The bytes; call [`Track::close`] first.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
    /// The pieces up to `end`.
    pub fn pieces(&self, end: u64) -> impl Iterator<Item = Piece> + '_ {
        let mut starts = Starts { bytes: &self.bytes, at: 0 }.peekable();
        std::iter::from_fn(move || {
            let (from, value) = starts.next()?;
            let until = starts.peek().map_or(end, |(next, _)| *next);
            Some(Piece { from, until, value })
        })
    }

    fn pack(&mut self, from: u64, value: u32) {
        put(&mut self.bytes, from - self.packed);
        put(&mut self.bytes, u64::from(value));
        (self.packed, self.count) = (from, self.count + 1);
    }
}

/// Begins and values of pieces, unpacked.
struct Starts<'a> {
    bytes: &'a [u8],
    at: u64,
}

impl Iterator for Starts<'_> {
    type Item = (u64, u32);
    fn next(&mut self) -> Option<(u64, u32)> {
        self.at += take(&mut self.bytes)?;
        let value = take(&mut self.bytes)?;
        Some((self.at, value as u32))
    }
}

/// Appends a number: seven bits in each byte, lowest first; the high bit says that another byte follows.
pub fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Takes a number from the front; `None` at the end.
fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            break;
        }
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn empty_pieces_are_dropped_and_equal_neighbours_joined() {
        let mut t = Track::default();
        t.set(5, 1);
        t.set(5, 2);
        t.set(9, 2);
        t.set(12, 7);
        t.amend(|v| v + 1);
        t.close(300);
        let piece = |from, until, value| Piece { from, until, value };
        let all: Vec<Piece> = t.pieces(300).collect();
        assert_eq!(all, [piece(0, 5, 0), piece(5, 12, 2), piece(12, 300, 8)]);
        assert_eq!((t.count(), t.size()), (3, 6));
    }

    proptest! {
        #[test]
        fn pieces_cover_the_run_without_gaps(
            steps in prop::collection::vec((0u64..1 << 40, 0u32..1 << 20), 0..60),
        ) {
            let (mut t, mut at) = (Track::default(), 0);
            for (step, value) in &steps {
                at += step;
                t.set(at, *value);
            }
            let end = at + 10;
            t.close(end);
            let all: Vec<Piece> = t.pieces(end).collect();
            prop_assert_eq!(all.iter().map(|p| p.until - p.from).sum::<u64>(), end);
            prop_assert!(all.windows(2).all(|w| w[0].until == w[1].from && w[0].value != w[1].value));
            let now = |t: u64| all.iter().find(|p| (p.from..p.until).contains(&t)).map(|p| p.value);
            prop_assert_eq!(now(at), Some(steps.last().map_or(0, |(_, v)| *v)));
        }
    }
}
