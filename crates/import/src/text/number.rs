//! Numbers in bytes, and a place in a line that moves on.

/// A decimal number at the beginning, and its length; `None` if there is none or it is too large.
#[inline]
pub fn number(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut n = 0_u64;
    let mut at = 0;
    while let Some(digit) = bytes.get(at).map(|b| b.wrapping_sub(b'0')).filter(|d| *d < 10) {
        n = n.checked_mul(10)?.checked_add(u64::from(digit))?;
        at += 1;
    }
    (at > 0).then_some((n, at))
}

/// The rest of a line.
#[derive(Clone, Copy)]
pub struct Cursor<'a>(pub &'a [u8]);

impl<'a> Cursor<'a> {
    /// Goes past a text, if it is next.
    #[inline]
    pub fn past(&mut self, text: &[u8]) -> bool {
        match self.0.strip_prefix(text) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }
    /// Takes a decimal number.
    #[inline]
    pub fn number(&mut self) -> Option<u64> {
        let (n, taken) = number(self.0)?;
        self.0 = &self.0[taken..];
        Some(n)
    }
    /// As [`Cursor::number`], with a sign.
    #[inline]
    pub fn signed(&mut self) -> Option<i64> {
        let negative = self.past(b"-");
        let n = i64::try_from(self.number()?).ok()?;
        Some(if negative { -n } else { n })
    }
    /// A text and the number behind it.
    #[inline]
    pub fn field(&mut self, text: &[u8]) -> Option<u64> {
        if self.past(text) { self.number() } else { None }
    }
    /// Takes `n` bytes, fewer at the end.
    #[inline]
    pub fn take(&mut self, n: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        taken
    }
}
