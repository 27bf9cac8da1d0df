//! Unpacks recordings that are compressed as a whole: by gzip or zstd, or by `atrace -z` (zlib).
//!
//! They are unpacked while they are read. A stream that ends too early gives what it has and reports that it was cut; a
//! damaged one ends in an error, since anything after the damage would be invented.

use flate2::bufread::{GzDecoder, ZlibDecoder};
use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;

/// Bytes read at once.
const BUFFER: usize = 1 << 16;
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
        if let Packing::Zlib(behind) = self {
            io::copy(&mut from.by_ref().take(behind as u64), &mut io::sink())?;
        }
        let buffered = |from| BufReader::with_capacity(BUFFER, from);
        Ok(match self {
            Packing::Gzip => parts(Some(GzDecoder::new(buffered(from))), next_member, cut),
            Packing::Zlib(_) => parts(Some(ZlibDecoder::new(buffered(from))), |_| Ok(None), cut),
            Packing::Zstd => parts(next_frame(from)?, |frame| next_frame(frame.into_inner()), cut),
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

/// Parts of a stream, one after the other, each with its decoder. Decoders report the end of the input as an error.
struct Parts<D> {
    /// `None` after the last part.
    part: Option<D>,
    next: fn(D) -> io::Result<Option<D>>,
    cut: Rc<Cell<bool>>,
}

fn parts<D: Read + 'static>(
    part: Option<D>,
    next: fn(D) -> io::Result<Option<D>>,
    cut: Rc<Cell<bool>>,
) -> Box<dyn Read> {
    Box::new(Parts { part, next, cut })
}

impl<D: Read> Read for Parts<D> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.cut.get() && !buffer.is_empty() {
            let Some(part) = &mut self.part else { return Ok(0) };
            let read = match part.read(buffer) {
                Ok(0) => self.part.take().map_or(Ok(None), self.next),
                Ok(n) => return Ok(n),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => Err(e),
            };
            match read {
                Ok(next) => self.part = next,
                Err(e) if ends_early(&e) => self.cut.set(true),
                // The file's own errors, and those of a packing inside this one.
                Err(e) if e.raw_os_error().is_some() || e.kind() == io::ErrorKind::InvalidData => {
                    return Err(e);
                }
                Err(e) => return Err(damaged(&e.to_string())),
            }
        }
        Ok(0)
    }
}

/// A member of gzip that is being unpacked.
type Member = GzDecoder<BufReader<Box<dyn Read>>>;

/// The member that follows; `None` at the end. gzip itself ignores other bytes after the last member.
fn next_member(member: Member) -> io::Result<Option<Member>> {
    let mut from = member.into_inner();
    let follows = from.fill_buf()?.first() == Some(&0x1f);
    Ok(follows.then(|| GzDecoder::new(from)))
}

/// A zstd frame that is being unpacked.
type Frame = ruzstd::decoding::StreamingDecoder<Box<dyn Read>, ruzstd::decoding::FrameDecoder>;

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

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, GzBuilder};
    use miniz_oxide::deflate::compress_to_vec_zlib;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        // A head with a name, as gzip writes it.
        let mut all = GzBuilder::new().filename("trace.txt").write(Vec::new(), Compression::default());
        io::Write::write_all(&mut all, bytes).unwrap();
        all.finish().unwrap()
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
        assert_eq!(read(&[&two[..], b"\0\0"].concat()).unwrap(), (b"one two".to_vec(), false));
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
