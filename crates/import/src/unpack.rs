//! Unpacks recordings that are compressed as a whole: by gzip or zstd, or by `atrace -z` (zlib).
//!
//! They are unpacked while they are read. A stream that ends too early gives what it has and reports that it was cut; a
//! damaged one ends in an error, since anything after the damage would be invented.

use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZError, MZFlush, MZStatus};
use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

/// Bytes read at once.
const BUFFER: usize = 1 << 16;
/// The longest name or comment in a gzip file's head.
const MOST_OF_HEAD: usize = 1 << 12;
/// The line before the data of an Android trace.
const ATRACE: &[u8] = b"TRACE:";
/// The line begins within this many bytes of the file.
const ATRACE_WITHIN: usize = 256;

/// A compression of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Packing {
    Gzip,
    /// zlib, after this many other bytes.
    Zlib(usize),
    Zstd,
}

impl Packing {
    /// The packing of a file, by its first bytes; `None` if there is none, or an unknown one.
    pub fn of(begin: &[u8]) -> Option<Packing> {
        match begin {
            [0x1f, 0x8b, 8, ..] => Some(Packing::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Packing::Zstd),
            _ if is_zlib(begin) => Some(Packing::Zlib(0)),
            _ => after_atrace(begin).filter(|at| is_zlib(&begin[*at..])).map(Packing::Zlib),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Packing::Gzip => "gzip",
            Packing::Zlib(_) => "zlib",
            Packing::Zstd => "zstd",
        }
    }

    /// The unpacked bytes of `from`; `cut` is set if it ends too early.
    ///
    /// # Errors
    /// A head that can't be read.
    pub fn unpacked(self, mut from: Box<dyn Read>, cut: Rc<Cell<bool>>) -> io::Result<Box<dyn Read>> {
        Ok(match self {
            Packing::Gzip => Box::new(Inflate::new(from, true, cut)),
            Packing::Zlib(behind) => {
                io::copy(&mut from.by_ref().take(behind as u64), &mut io::sink())?;
                Box::new(Inflate::new(from, false, cut))
            }
            Packing::Zstd => Box::new(Zstd { frame: next_frame(from)?, cut }),
        })
    }
}

/// Whether the first two bytes are zlib's: deflate with a window of 32 KB, and a sum divisible by 31.
fn is_zlib(begin: &[u8]) -> bool {
    matches!(begin, [0x78, flags @ (0x01 | 0x5e | 0x9c | 0xda), _, ..] if (0x7800 + u32::from(*flags)) % 31 == 0)
}

/// The offset after the line `TRACE:` near the beginning, if it is there.
fn after_atrace(begin: &[u8]) -> Option<usize> {
    let head = &begin[..begin.len().min(ATRACE_WITHIN)];
    let at = memchr::memmem::find(head, ATRACE)? + ATRACE.len();
    let ends = head[at..].iter().take_while(|b| matches!(b, b'\r' | b'\n')).count();
    (ends > 0).then_some(at + ends)
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the compressed data is damaged: {what}"))
}

/// A zstd frame that is being unpacked.
type Frame = ruzstd::decoding::StreamingDecoder<Box<dyn Read>, ruzstd::decoding::FrameDecoder>;

/// zstd: frames one after the other, some without content. Its decoder reports the end of the input as an error.
struct Zstd {
    /// `None` after the last frame.
    frame: Option<Frame>,
    cut: Rc<Cell<bool>>,
}

impl Read for Zstd {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.cut.get() && !buffer.is_empty() {
            let Some(frame) = &mut self.frame else { return Ok(0) };
            let read = match frame.read(buffer) {
                Ok(0) => self.frame.take().map_or(Ok(None), |frame| next_frame(frame.into_inner())),
                Ok(n) => return Ok(n),
                Err(e) => Err(e),
            };
            match read {
                Ok(next) => self.frame = next,
                Err(e) if ends_early(&e) => self.cut.set(true),
                Err(e) => return Err(damaged(&e.to_string())),
            }
        }
        Ok(0)
    }
}

/// The next frame that holds content; `None` at the end.
fn next_frame(mut from: Box<dyn Read>) -> io::Result<Option<Frame>> {
    loop {
        let mut magic = Vec::new();
        from.by_ref().take(4).read_to_end(&mut magic)?;
        match magic[..] {
            [] => return Ok(None),
            [0x50..=0x5f, 0x2a, 0x4d, 0x18] => {
                let mut length = [0; 4];
                from.read_exact(&mut length)?;
                let length = u64::from(u32::from_le_bytes(length));
                if io::copy(&mut from.by_ref().take(length), &mut io::sink())? < length {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            _ => {
                let whole: Box<dyn Read> = Box::new(io::Cursor::new(magic).chain(from));
                return Frame::new(whole).map(Some).map_err(|e| damaged(&e.to_string()));
            }
        }
    }
}

/// Whether an error, or its source, says that the input has ended.
fn ends_early(e: &io::Error) -> bool {
    if e.kind() == io::ErrorKind::UnexpectedEof {
        return true;
    }
    let mut behind: Option<&(dyn std::error::Error + 'static)> = e.get_ref().map(|e| e as _);
    while let Some(e) = behind {
        if e.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::UnexpectedEof) {
            return true;
        }
        behind = e.source();
    }
    false
}

/// Deflate in members of gzip (one or several), or in zlib.
struct Inflate {
    from: Box<dyn Read>,
    held: Box<[u8]>,
    start: usize,
    end: usize,
    state: Box<InflateState>,
    is_gzip: bool,
    /// Within the data of a member.
    inside: bool,
    begun: bool,
    over: bool,
    /// CRC-32 and length of this member.
    sum: crc32fast::Hasher,
    length: u32,
    cut: Rc<Cell<bool>>,
}

impl Inflate {
    fn new(from: Box<dyn Read>, is_gzip: bool, cut: Rc<Cell<bool>>) -> Inflate {
        let format = if is_gzip { DataFormat::Raw } else { DataFormat::Zlib };
        Inflate {
            from,
            held: vec![0; BUFFER].into_boxed_slice(),
            start: 0,
            end: 0,
            state: InflateState::new_boxed(format),
            is_gzip,
            inside: !is_gzip,
            begun: false,
            over: false,
            sum: crc32fast::Hasher::new(),
            length: 0,
            cut,
        }
    }

    /// Reads on; false at the end of the input.
    fn fill(&mut self) -> io::Result<bool> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.held.len() {
            self.held.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        loop {
            match self.from.read(&mut self.held[self.end..]) {
                Ok(n) => {
                    self.end += n;
                    return Ok(n > 0);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    fn byte(&mut self) -> io::Result<Option<u8>> {
        if self.start == self.end && !self.fill()? {
            return Ok(None);
        }
        self.start += 1;
        Ok(Some(self.held[self.start - 1]))
    }

    fn array<const N: usize>(&mut self) -> io::Result<Option<[u8; N]>> {
        let mut bytes = [0; N];
        for byte in &mut bytes {
            let Some(read) = self.byte()? else { return Ok(None) };
            *byte = read;
        }
        Ok(Some(bytes))
    }

    /// Reads a member's head. `None`: the input ended within it; false: no member follows.
    fn head(&mut self) -> io::Result<Option<bool>> {
        let Some(first) = self.byte()? else { return Ok(if self.begun { Some(false) } else { None }) };
        if self.begun && first != 0x1f {
            // gzip itself ignores bytes after the last member.
            return Ok(Some(false));
        }
        let Some([second, method, flags, ..]) = self.array::<9>()? else { return Ok(None) };
        if (first, second, method) != (0x1f, 0x8b, 8) || flags & 0xe0 != 0 {
            return Err(damaged("no head of gzip"));
        }
        if flags & 4 != 0 {
            let Some(length) = self.array::<2>()? else { return Ok(None) };
            for _ in 0..u16::from_le_bytes(length) {
                if self.byte()?.is_none() {
                    return Ok(None);
                }
            }
        }
        // A name and a comment end with a zero.
        for _ in 0..u32::from(flags & 8 != 0) + u32::from(flags & 16 != 0) {
            let mut left = MOST_OF_HEAD;
            loop {
                match self.byte()? {
                    None => return Ok(None),
                    Some(0) => break,
                    Some(_) if left == 0 => return Err(damaged("a name without an end")),
                    Some(_) => left -= 1,
                }
            }
        }
        if flags & 2 != 0 && self.array::<2>()?.is_none() {
            return Ok(None);
        }
        (self.begun, self.inside, self.length) = (true, true, 0);
        self.sum.reset();
        self.state.reset(DataFormat::Raw);
        Ok(Some(true))
    }

    /// Checks a member's end. `None`: the input ended within it.
    fn tail(&mut self) -> io::Result<Option<()>> {
        self.inside = false;
        if !self.is_gzip {
            self.over = true;
            return Ok(Some(()));
        }
        let Some(sum) = self.array::<4>()? else { return Ok(None) };
        let Some(length) = self.array::<4>()? else { return Ok(None) };
        if (u32::from_le_bytes(sum), u32::from_le_bytes(length)) != (self.sum.clone().finalize(), self.length)
        {
            return Err(damaged("its sum is another one"));
        }
        Ok(Some(()))
    }

    /// Unpacks into the buffer; returns 0 at the end of the input.
    fn next(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            if self.over {
                return Ok(Some(0));
            }
            if !self.inside {
                match self.head()? {
                    None => return Ok(None),
                    Some(more) => self.over = !more,
                }
                continue;
            }
            let result = inflate(&mut self.state, &self.held[self.start..self.end], buffer, MZFlush::None);
            self.start += result.bytes_consumed;
            let n = result.bytes_written;
            if self.is_gzip {
                self.sum.update(&buffer[..n]);
                self.length = self.length.wrapping_add(n as u32);
            }
            match result.status {
                Ok(MZStatus::StreamEnd) => {
                    if self.tail()?.is_none() {
                        self.cut.set(true);
                        self.over = true;
                    }
                }
                Ok(_) | Err(MZError::Buf) if n == 0 => {
                    if self.start < self.end && self.end - self.start >= BUFFER {
                        return Err(damaged("its content does not continue"));
                    }
                    if !self.fill()? {
                        return Ok(None);
                    }
                }
                Ok(_) | Err(MZError::Buf) => {}
                Err(_) => return Err(damaged("its content is not deflate's")),
            }
            if n > 0 {
                return Ok(Some(n));
            }
        }
    }
}

impl Read for Inflate {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        match self.next(buffer)? {
            Some(n) => Ok(n),
            None => {
                self.cut.set(true);
                self.over = true;
                Ok(0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use miniz_oxide::deflate::{compress_to_vec, compress_to_vec_zlib};

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        // A head with a name, as gzip writes it.
        let mut all = b"\x1f\x8b\x08\x08\0\0\0\0\0\x03trace.txt\0".to_vec();
        all.extend(compress_to_vec(bytes, 6));
        all.extend(crc32fast::hash(bytes).to_le_bytes());
        all.extend((bytes.len() as u32).to_le_bytes());
        all
    }

    /// The content of a packed file, and whether it was cut.
    fn read(packed: &[u8]) -> io::Result<(Vec<u8>, bool)> {
        let packing = Packing::of(packed).expect("it is packed");
        let cut = Rc::new(Cell::new(false));
        let mut all = Vec::new();
        let from = Box::new(io::Cursor::new(packed.to_vec()));
        packing.unpacked(from, Rc::clone(&cut))?.read_to_end(&mut all)?;
        Ok((all, cut.get()))
    }

    #[test]
    fn all_packings_are_unpacked() {
        let text: Vec<u8> =
            (0..300_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        let zlib = compress_to_vec_zlib(&text, 6);
        let atrace = [b"capturing trace... done\nTRACE:\n", &zlib[..]].concat();
        for packed in [gzip(&text), zlib, atrace] {
            assert!(read(&packed).unwrap() == (text.clone(), false));
        }
        let two = [gzip(b"one "), gzip(b"two")].concat();
        assert_eq!(read(&two).unwrap(), (b"one two".to_vec(), false));
        assert_eq!(Packing::of(b"TRACE:\n# tracer: nop\n"), None);
        assert_eq!(Packing::of(b"x"), None);
    }

    #[test]
    fn a_cut_file_gives_what_it_has_and_a_damaged_one_an_error() {
        let text: Vec<u8> = (0..9000).flat_map(|n: u32| format!("line {n}\n").into_bytes()).collect();
        let packed = gzip(&text);
        for length in 12..packed.len() {
            let (got, cut) = read(&packed[..length]).unwrap_or_else(|e| panic!("{length}: {e}"));
            assert!(cut && text.starts_with(&got), "{length}");
        }
        assert!(read(&packed[..packed.len() - 8]).unwrap().0 == text);
        let mut damaged = packed.clone();
        *damaged.last_mut().unwrap() ^= 1;
        assert!(read(&damaged).unwrap_err().to_string().contains("damaged"));
    }

    #[test]
    fn zstd_may_have_several_frames_and_some_without_content() {
        use ruzstd::encoding::{CompressionLevel, compress_to_vec};
        let [one, two] = [b"the first part\n", b"the other part\n"]
            .map(|part: &[u8; 15]| compress_to_vec(&part[..], CompressionLevel::Fastest));
        let skipped = b"\x5a\x2a\x4d\x18\x03\0\0\0abc";
        let all = [&skipped[..], &one, &skipped[..], &two].concat();
        assert_eq!(read(&all).unwrap(), (b"the first part\nthe other part\n".to_vec(), false));
        assert!(read(&all[..all.len() - 3]).unwrap().1, "cut in the second");
        assert!(read(&all[..skipped.len() + one.len() + 9]).unwrap().1, "cut in what is skipped");
        assert!(read(&[&one[..], b"junk"].concat()).is_err());
    }
}
