//! Files that hold the kernel's records unchanged: perf.data and trace.dat.
//!
//! Both also hold the layouts of the tracepoints ([`header`]), so nothing is assumed about the kernel that wrote them.
//! They are read on a machine of the same byte order.

pub mod fields;
pub mod format;
mod header;
mod options;
mod packed;
pub mod page;
mod perf_data;
mod perfetto;
mod proto;
mod rounds;
mod sections;
mod trace_dat;

pub use perf_data::read as perf_data;
pub use perfetto::read as perfetto;
pub use trace_dat::read as trace_dat;

use schedlab_base::{Error, Result};
use std::fs::File;
use std::os::unix::fs::FileExt;

fn part(file: &File, at: u64, length: usize) -> Result<Vec<u8>> {
    let size = file.metadata().map_err(|_| cut())?.len();
    if at.checked_add(length as u64).is_none_or(|end| end > size) {
        return Err(cut());
    }
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, at).map_err(|_| cut())?;
    Ok(bytes)
}

/// The file is shorter than it says.
fn cut() -> Error {
    Error::input("the file is cut, or is not what it says").help("copy or record it anew")
}

fn byte_order() -> Error {
    Error::input("the file was made on a machine of another byte order")
        .help("let the tool that made it print text there: 'perf script' or 'trace-cmd report'")
}

/// Bytes from which one field after the other is taken.
#[derive(Clone, Copy)]
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    #[inline]
    fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }
    #[inline]
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }
    #[inline]
    fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[b]| b)
    }
    #[inline]
    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_ne_bytes)
    }
    #[inline]
    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_ne_bytes)
    }
    #[inline]
    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_ne_bytes)
    }
    /// A text that ends with a zero.
    #[inline]
    fn text(&mut self) -> Option<&'a [u8]> {
        let end = memchr::memchr(0, self.0)?;
        let text = self.bytes(end)?;
        self.bytes(1)?;
        Some(text)
    }
    /// Bytes preceded by their length of 64 bits.
    #[inline]
    fn long(&mut self) -> Option<&'a [u8]> {
        let n = usize::try_from(self.u64()?).ok()?;
        self.bytes(n)
    }
}
