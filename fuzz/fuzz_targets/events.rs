//! Any bytes as a file of kept events (`events.slt`), and as the content of a block with its right checksum: an error
//! with its place or events, never a panic. Read twice, it says the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use schedlab_trace::Cast;
use schedlab_trace::kept::{Reader, Writer};
use std::io::Cursor;
use std::path::Path;

/// Bytes of a section's head, and of the file's end.
const SECTION_HEAD: usize = 9;
const FOOT: usize = 16;

fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    read(&with_block(bytes));
});

fn read(bytes: &[u8]) {
    let Ok(mut reader) = Reader::of(Cursor::new(bytes), Path::new("fuzz")) else { return };
    let all = |reader: &mut Reader<Cursor<&[u8]>>| {
        let mut ends = (0_u64, 0_u64);
        for item in reader.items() {
            match item {
                Ok(item) => ends = (ends.0 + 1, ends.1 ^ item.at().0),
                Err(_) => break,
            }
        }
        ends
    };
    let once = all(&mut reader);
    assert_eq!(all(&mut reader), once);
}

/// A whole file with these bytes as its only block.
fn with_block(content: &[u8]) -> Vec<u8> {
    let empty = Writer::new(Vec::new()).and_then(|w| w.finish(Cast::default())).expect("memory");
    let close_at = |file: &[u8]| u64::from_le_bytes(file[file.len() - FOOT..][..8].try_into().expect("8 bytes"));
    let at = close_at(&empty) as usize;
    let mut block = vec![b'B'];
    block.extend((content.len() as u32).to_le_bytes());
    block.extend(crc32fast::hash(content).to_le_bytes());
    block.extend(content);
    assert_eq!(block.len(), SECTION_HEAD + content.len());
    let mut file = [&empty[..at], &block, &empty[at..]].concat();
    let foot = file.len() - FOOT;
    file[foot..foot + 8].copy_from_slice(&((at + block.len()) as u64).to_le_bytes());
    file
}
