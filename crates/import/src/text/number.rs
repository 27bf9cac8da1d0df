//! Numbers in bytes, and a cursor in a line.

/// The decimal number at the beginning, and its length; `None` if there is none or it is too large.
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

/// The unread rest of a line.
#[derive(Clone, Copy)]
pub struct Cursor<'a>(pub &'a [u8]);

impl<'a> Cursor<'a> {
    /// Skips a text, if it is next.
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
    /// Takes a decimal number; or, in fields that a tool prints unchanged, blanks and a hexadecimal number (0x..).
    #[inline]
    pub fn number(&mut self) -> Option<u64> {
        match number(self.0) {
            Some((n, taken)) if n > 0 || self.0.get(taken) != Some(&b'x') => {
                self.0 = &self.0[taken..];
                Some(n)
            }
            _ => self.raw(),
        }
    }
    #[cold]
    fn raw(&mut self) -> Option<u64> {
        let text = self.0.trim_ascii_start();
        let Some(digits) = text.strip_prefix(b"0x") else {
            let (n, taken) = number(text)?;
            self.0 = &text[taken..];
            return Some(n);
        };
        let length = digits.iter().take_while(|b| b.is_ascii_hexdigit()).count();
        let n = u64::from_str_radix(std::str::from_utf8(&digits[..length]).ok()?, 16).ok()?;
        self.0 = &digits[length..];
        Some(n)
    }
    /// As [`Cursor::number`], but signed. A hexadecimal number is taken as the bits of a signed one.
    #[inline]
    pub fn signed(&mut self) -> Option<i64> {
        if self.0.starts_with(b" ") {
            self.0 = self.0.trim_ascii_start();
        }
        let is_raw = self.0.starts_with(b"0x");
        let negative = self.past(b"-");
        match self.number()? {
            bits if is_raw => Some(if bits >> 31 == 1 { i64::from(bits as u32 as i32) } else { bits as i64 }),
            n => i64::try_from(n).ok().map(|n| if negative { -n } else { n }),
        }
    }
    /// Skips a text and takes the number after it.
    #[inline]
    pub fn field(&mut self, text: &[u8]) -> Option<u64> {
        if self.past(text) { self.number() } else { None }
    }
    /// Takes `n` bytes, or fewer at the end.
    #[inline]
    pub fn take(&mut self, n: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        taken
    }
}
