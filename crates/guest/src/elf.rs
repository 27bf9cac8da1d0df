//! Reads the facts of an executable that a guest needs: its interpreter, its libraries, where it looks for them, and
//! how many of its bytes are mapped.
//!
//! Only the program headers of 64-bit little-endian ELF are read. Sections are for linkers and debuggers, and are not
//! carried into the guest. Format: System V ABI, chapters "Object Files" and "Program Loading".

use schedlab_base::{Error, Result};

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;

/// An executable or a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elf {
    /// The program that loads it (the dynamic loader); `None` for libraries and static executables.
    pub interpreter: Option<String>,
    /// File names of the required libraries.
    pub needed: Vec<String>,
    /// Folders that are searched first for those libraries.
    pub run_path: Vec<String>,
    /// Bytes of the file up to the end of the last mapped segment.
    pub mapped: usize,
}

struct Segment {
    kind: u32,
    offset: u64,
    address: u64,
    size: u64,
}

impl Elf {
    /// Reads the headers of a complete file.
    ///
    /// # Errors
    /// When it is not a 64-bit ELF with this byte order, or is truncated.
    pub fn parse(bytes: &[u8]) -> Result<Elf> {
        read(bytes).ok_or_else(|| Error::input("not a complete 64-bit ELF file"))
    }
}

/// The part of the file for a guest: up to the end of the last mapped segment, without the section table.
pub fn stripped(bytes: &[u8], elf: &Elf) -> Vec<u8> {
    let mut kept = bytes[..elf.mapped.min(bytes.len())].to_vec();
    // Clear the table's offset, its entry count and the index of its names.
    for range in [0x28..0x30, 0x3c..0x40] {
        if let Some(field) = kept.get_mut(range) {
            field.fill(0);
        }
    }
    kept
}

fn number<const N: usize>(bytes: &[u8], at: u64) -> Option<u64> {
    let at = usize::try_from(at).ok()?;
    let field = bytes.get(at..at.checked_add(N)?)?;
    Some(field.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b)))
}

fn text(bytes: &[u8], at: u64) -> Option<String> {
    let rest = bytes.get(usize::try_from(at).ok()?..)?;
    let end = rest.iter().position(|b| *b == 0)?;
    String::from_utf8(rest[..end].to_vec()).ok()
}

fn read(bytes: &[u8]) -> Option<Elf> {
    if bytes.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let segments = segments(bytes)?;
    let interpreter = match segments.iter().find(|s| s.kind == PT_INTERP) {
        Some(segment) => Some(text(bytes, segment.offset)?),
        None => None,
    };
    let loaded = segments.iter().filter(|s| s.kind == PT_LOAD);
    let end = loaded.map(|s| s.offset.saturating_add(s.size)).max()?;
    let table = 0x40u64.max(number::<8>(bytes, 0x20)? + 56 * segments.len() as u64);
    let mapped = usize::try_from(end.max(table)).ok().filter(|n| *n <= bytes.len())?;
    let mut elf = Elf { interpreter, needed: Vec::new(), run_path: Vec::new(), mapped };
    if let Some(dynamic) = segments.iter().find(|s| s.kind == PT_DYNAMIC) {
        read_dynamic(bytes, &segments, dynamic, &mut elf)?;
    }
    Some(elf)
}

fn segments(bytes: &[u8]) -> Option<Vec<Segment>> {
    let (table, size, count) =
        (number::<8>(bytes, 0x20)?, number::<2>(bytes, 0x36)?, number::<2>(bytes, 0x38)?);
    (size == 56).then_some(())?;
    let one = |i: u64| {
        let at = table.checked_add(i * 56)?;
        Some(Segment {
            kind: number::<4>(bytes, at)? as u32,
            offset: number::<8>(bytes, at + 8)?,
            address: number::<8>(bytes, at + 16)?,
            size: number::<8>(bytes, at + 32)?,
        })
    };
    (0..count).map(one).collect()
}

fn read_dynamic(bytes: &[u8], segments: &[Segment], dynamic: &Segment, elf: &mut Elf) -> Option<()> {
    let entries: Vec<(u64, u64)> = (0..dynamic.size / 16)
        .map(|i| {
            let at = dynamic.offset.checked_add(i * 16)?;
            Some((number::<8>(bytes, at)?, number::<8>(bytes, at + 8)?))
        })
        .collect::<Option<_>>()?;
    let strings = entries.iter().find(|(tag, _)| *tag == DT_STRTAB)?.1;
    // Headers give the string table's address; its file offset is needed.
    let home = segments
        .iter()
        .find(|s| s.kind == PT_LOAD && (s.address..s.address.saturating_add(s.size)).contains(&strings))?;
    let strings = strings - home.address + home.offset;
    for (tag, value) in entries {
        match tag {
            DT_NEEDED => elf.needed.push(text(bytes, strings.checked_add(value)?)?),
            DT_RPATH | DT_RUNPATH => {
                let paths = text(bytes, strings.checked_add(value)?)?;
                elf.run_path.extend(paths.split(':').filter(|p| !p.is_empty()).map(str::to_owned));
            }
            _ => {}
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// This test's own executable.
    fn own() -> (std::path::PathBuf, Vec<u8>) {
        let path = std::env::current_exe().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        (path, bytes)
    }

    #[test]
    fn an_executable_names_its_loader_and_libraries() {
        let (_, bytes) = own();
        let elf = Elf::parse(&bytes).unwrap();
        let dynamic = cfg!(not(target_feature = "crt-static"));
        assert_eq!(elf.interpreter.is_some(), dynamic);
        assert_eq!(elf.needed.iter().any(|n| n.starts_with("libc.so")), dynamic, "{elf:?}");
        assert!(elf.mapped > 4096 && elf.mapped <= bytes.len());
    }

    #[test]
    fn unmapped_bytes_are_not_needed_to_run() {
        let (_, bytes) = own();
        let elf = Elf::parse(&bytes).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("copy");
        let kept = stripped(&bytes, &elf);
        assert!(kept.len() < bytes.len(), "tests have symbols, which lie behind");
        std::fs::write(&copy, kept).unwrap();
        std::fs::set_permissions(&copy, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let said = Command::new(&copy).args(["--list", "--exact", "no such test"]).output().unwrap();
        assert!(said.status.success(), "{said:?}");
    }

    #[test]
    fn torn_files_are_refused() {
        let (_, bytes) = own();
        for end in [0, 5, 63, 100, 5000] {
            assert!(Elf::parse(&bytes[..end]).is_err(), "{end} bytes");
        }
        assert!(Elf::parse(b"#!/bin/sh\nexit 0\n").is_err());
    }
}
