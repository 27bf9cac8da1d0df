//! trace.dat of version 7: sections and options.

use super::{PAGE, formats, long, page};

/// A packed part: two lengths and the bytes.
fn part(by: &[u8], bytes: &[u8]) -> Vec<u8> {
    let packed = match by {
        b"zlib" => miniz_oxide::deflate::compress_to_vec_zlib(bytes, 6),
        b"zstd" => ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest),
        _ => return bytes.to_vec(),
    };
    [&(packed.len() as u32).to_ne_bytes()[..], &(bytes.len() as u32).to_ne_bytes(), &packed].concat()
}

fn section(id: u16, is_packed: bool, content: &[u8]) -> Vec<u8> {
    let mut all = [id.to_ne_bytes(), u16::from(is_packed).to_ne_bytes()].concat();
    all.extend(0_u32.to_ne_bytes());
    all.extend(long(content));
    all
}

fn option(id: u16, data: &[u8]) -> Vec<u8> {
    [&id.to_ne_bytes()[..], &(data.len() as u32).to_ne_bytes(), data].concat()
}

/// The story, compressed by an algorithm, with a second, empty instance.
pub fn trace_dat(by: &[u8]) -> Vec<u8> {
    let is_packed = by != b"none";
    let mut all = b"\x17\x08\x44tracing7\0".to_vec();
    all.extend([u8::from(cfg!(target_endian = "big")), 8]);
    all.extend(4096_u32.to_ne_bytes());
    all.extend([by, b"\x001.0\0"].concat());
    let options_at = all.len();
    all.extend(0_u64.to_ne_bytes());
    let header = [&b"header_page\0"[..], &long(PAGE.as_bytes()), b"header_event\0", &long(b"x")].concat();
    let mut events = [&1_u32.to_ne_bytes()[..], b"sched\0", &3_u32.to_ne_bytes()].concat();
    formats().iter().for_each(|f| events.extend(long(f.as_bytes())));
    let (header_at, header) = (all.len() as u64, section(16, is_packed, &part(by, &header)));
    all.extend(header);
    let (events_at, events) = (all.len() as u64, section(18, is_packed, &part(by, &events)));
    all.extend(events);
    // A CPU's pages are in chunks: their number, then each chunk.
    let (buffer_at, mut pages) = (all.len() as u64, Vec::new());
    let mut cpus = Vec::new();
    for cpu in 0..2_u32 {
        let of_cpu = match is_packed {
            true => [&1_u32.to_ne_bytes()[..], &part(by, &page(cpu))].concat(),
            false => page(cpu),
        };
        cpus.push((cpu, buffer_at + 16 + pages.len() as u64, of_cpu.len() as u64));
        pages.extend(of_cpu);
    }
    all.extend(section(3, is_packed, &pages));
    let buffer = |name: &[u8], cpus: &[(u32, u64, u64)]| {
        let mut data = [&buffer_at.to_ne_bytes()[..], name, b"\0mono\0", &4096_u32.to_ne_bytes()].concat();
        data.extend((cpus.len() as u32).to_ne_bytes());
        for (cpu, at, size) in cpus {
            data.extend([&cpu.to_ne_bytes()[..], &at.to_ne_bytes(), &size.to_ne_bytes()].concat());
        }
        option(3, &data)
    };
    let begin = all.len() as u64;
    let more = [buffer(b"empty", &[(0, 0, 0)]), buffer(b"", &cpus), option(0, &0_u64.to_ne_bytes())].concat();
    all.extend(section(0, false, &more));
    let last = all.len() as u64;
    let first = [
        option(16, &header_at.to_ne_bytes()),
        option(18, &events_at.to_ne_bytes()),
        option(9, b"3.1.6\0"),
        option(0, &begin.to_ne_bytes()),
    ];
    all.extend(section(0, is_packed, &part(by, &first.concat())));
    all[options_at..options_at + 8].copy_from_slice(&last.to_ne_bytes());
    all
}
