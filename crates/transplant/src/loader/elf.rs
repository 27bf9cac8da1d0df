//! Loads an image in a static executable. An image needs little for that: it has no constructors and no threads'
//! variables, and it asks the C library for a few functions only.
//!
//! Format: System V ABI, chapter "Program Loading", and the relocations of x86-64 and AArch64.

use object::read::elf::ElfFile64;
use object::{
    Object, ObjectSection, ObjectSegment, ObjectSymbol, RelocationFlags, RelocationTarget, SegmentFlags,
};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::ops::Range;

/// Relocations: the object's own address and an addend; a symbol's address.
#[cfg(target_arch = "x86_64")]
const RELATIVE_AND_SYMBOLS: (u32, [u32; 3]) = {
    use object::elf::{R_X86_64_64, R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT, R_X86_64_RELATIVE};
    (R_X86_64_RELATIVE, [R_X86_64_64, R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT])
};
#[cfg(not(target_arch = "x86_64"))]
const RELATIVE_AND_SYMBOLS: (u32, [u32; 3]) = {
    use object::elf::{R_AARCH64_ABS64, R_AARCH64_GLOB_DAT, R_AARCH64_JUMP_SLOT, R_AARCH64_RELATIVE};
    (R_AARCH64_RELATIVE, [R_AARCH64_ABS64, R_AARCH64_GLOB_DAT, R_AARCH64_JUMP_SLOT])
};

/// An object in memory. It stays there until this is dropped.
pub(super) struct Loaded {
    pub base: usize,
    /// Whole pages.
    pub bytes: usize,
    /// Offsets of its global symbols; each is within it.
    pub symbols: BTreeMap<String, usize>,
    /// Offset of `.eh_frame`, if a zero ends it.
    pub frames: Option<usize>,
}

type Done<T> = std::result::Result<T, String>;

/// The functions that an image may ask the C library for.
fn of_library(name: &str) -> Option<usize> {
    extern "C" fn end() -> ! {
        std::process::abort()
    }
    #[cfg(target_env = "musl")]
    use super::alone::backtrace;
    #[cfg(not(target_env = "musl"))]
    extern "C" fn backtrace(_: *mut *mut c_void, _: c_int) -> c_int {
        0
    }
    Some(match name {
        "abort" => end as *const () as usize,
        "backtrace" => backtrace as *const () as usize,
        "mmap" => libc::mmap as *const () as usize,
        "mprotect" => libc::mprotect as *const () as usize,
        _ => return None,
    })
}

pub(super) fn load(bytes: &[u8]) -> Done<Loaded> {
    let file: ElfFile64<'_> = ElfFile64::parse(bytes).map_err(|e| e.to_string())?;
    let mut end = 0;
    for segment in file.segments() {
        let after =
            segment.address().checked_add(segment.size()).ok_or("a segment ends after all addresses")?;
        end = after.max(end);
    }
    let mut loaded = Loaded::zeroed(end, page())?;
    let memory = loaded.memory();
    for segment in file.segments() {
        let data = segment.data().map_err(|e| e.to_string())?;
        if data.len() as u64 > segment.size() {
            return Err("a segment has more bytes in the file than in memory".to_owned());
        }
        part(memory, segment.address(), data.len() as u64)?.copy_from_slice(data);
    }
    relocate(&file, memory)?;
    let frames = file.section_by_name(".eh_frame").filter(|frames| {
        let after = frames.address().checked_add(frames.size());
        let word = after.and_then(|at| part(memory, at, 4).ok());
        word.is_some_and(|word| word.iter().all(|byte| *byte == 0))
    });
    loaded.frames = frames.map(|frames| frames.address() as usize);
    let defined = file.dynamic_symbols().filter(|symbol| symbol.is_definition());
    let within = defined.filter(|symbol| symbol.address() < loaded.bytes as u64);
    loaded.symbols = within.filter_map(|s| Some((s.name().ok()?.to_owned(), s.address() as usize))).collect();
    loaded.protect(&file, page())?;
    Ok(loaded)
}

/// Bytes of a page of this kernel.
fn page() -> usize {
    // SAFETY: takes and returns integers.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).ok().filter(|bytes| bytes.is_power_of_two()).unwrap_or(4096)
}

/// A part of an object's memory.
fn part(memory: &mut [u8], at: u64, bytes: u64) -> Done<&mut [u8]> {
    let outside = || format!("it needs {bytes} bytes at {at:#x}, outside of it");
    let end = at.checked_add(bytes).ok_or_else(outside)?;
    // Offsets of a room fit into a usize of 64 bits.
    memory.get_mut(at as usize..end as usize).ok_or_else(outside)
}

fn relocate(file: &ElfFile64<'_>, memory: &mut [u8]) -> Done<()> {
    let (base, (relative, by_symbol)) = (memory.as_ptr() as usize, RELATIVE_AND_SYMBOLS);
    for (at, relocation) in file.dynamic_relocations().into_iter().flatten() {
        let RelocationFlags::Elf { r_type } = relocation.flags() else { continue };
        let target = match relocation.target() {
            RelocationTarget::Symbol(index) if by_symbol.contains(&r_type) => {
                let table = file.dynamic_symbol_table().ok_or("it has no symbols")?;
                let symbol =
                    object::ObjectSymbolTable::symbol_by_index(&table, index).map_err(|e| e.to_string())?;
                let name = symbol.name().map_err(|e| e.to_string())?;
                match symbol.is_definition() {
                    true => base + part(memory, 0, symbol.address())?.len(),
                    false => of_library(name)
                        .ok_or_else(|| format!("it asks for {name}, which a static schedlab lacks"))?,
                }
            }
            _ if r_type == relative => base,
            _ => return Err(format!("it has a relocation of type {r_type}")),
        };
        let value = target.wrapping_add(relocation.addend() as usize).to_ne_bytes();
        part(memory, at, value.len() as u64)?.copy_from_slice(&value);
    }
    Ok(())
}

impl Loaded {
    /// Zeroed memory of at least `end` bytes that can be written.
    fn zeroed(end: u64, page: usize) -> Done<Loaded> {
        let bytes = usize::try_from(end).ok().and_then(|end| end.checked_next_multiple_of(page));
        let bytes = bytes.filter(|bytes| *bytes > 0).ok_or("it has no memory, or more than there is")?;
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: asks for new memory, which belongs to nobody else.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0) };
        if at == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error().to_string());
        }
        Ok(Loaded { base: at as usize, bytes, symbols: BTreeMap::new(), frames: None })
    }

    /// Its memory, which can be read and written until [`Loaded::protect`].
    fn memory(&mut self) -> &mut [u8] {
        // SAFETY: `zeroed` mapped these bytes for this object alone. Only `load` calls this, before `protect`.
        unsafe { std::slice::from_raw_parts_mut(self.base as *mut u8, self.bytes) }
    }

    /// Each segment's pages get the access that it names.
    fn protect(&self, file: &ElfFile64<'_>, page: usize) -> Done<()> {
        let mut given: Vec<(Range<usize>, c_int)> = Vec::new();
        for segment in file.segments() {
            let SegmentFlags::Elf { p_flags } = segment.flags() else { continue };
            let access = [(object::elf::PF_R, libc::PROT_READ), (object::elf::PF_W, libc::PROT_WRITE)];
            let access = access.into_iter().chain([(object::elf::PF_X, libc::PROT_EXEC)]);
            let access = access.filter(|(flag, _)| p_flags & flag != 0).fold(0, |all, (_, one)| all | one);
            let pages = pages(segment.address(), segment.size(), page, self.bytes)?;
            let differs = |(other, its): &(Range<usize>, c_int)| {
                *its != access && other.start < pages.end && pages.start < other.end
            };
            if given.iter().any(differs) {
                return Err(format!("segments of different access share a page of {page} bytes"));
            }
            given.push((pages, access));
        }
        for (pages, access) in given {
            // SAFETY: `pages` are within the memory that `zeroed` mapped, and no slice of it lives any more.
            if unsafe { libc::mprotect((self.base + pages.start) as *mut c_void, pages.len(), access) } != 0 {
                return Err(std::io::Error::last_os_error().to_string());
            }
        }
        Ok(())
    }
}

/// The pages that hold a segment, as offsets, if `bytes` hold them.
fn pages(address: u64, size: u64, page: usize, bytes: usize) -> Done<Range<usize>> {
    let end = address.checked_add(size).and_then(|end| usize::try_from(end).ok());
    let end = end.and_then(|end| end.checked_next_multiple_of(page)).filter(|end| *end <= bytes);
    let end = end.ok_or_else(|| format!("a segment of {size} bytes at {address:#x} is outside of it"))?;
    Ok(address as usize / page * page..end)
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: `zeroed` mapped these bytes for this object, and whoever has addresses in it keeps it.
        unsafe { libc::munmap(self.base as *mut c_void, self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::Stream;

    fn compiled(source: &str) -> Option<(tempfile::TempDir, Vec<u8>)> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.c"), source).unwrap();
        let mut command = std::process::Command::new("cc");
        command
            .args(["-shared", "-fPIC", "-nostdlib", "-Wl,-z,now", "-o", "a.so", "a.c"])
            .current_dir(folder.path());
        if !command.status().is_ok_and(|status| status.success()) {
            schedlab_base::testing::skipped("a C compiler");
            return None;
        }
        let bytes = std::fs::read(folder.path().join("a.so")).unwrap();
        Some((folder, bytes))
    }

    #[test]
    fn an_object_is_loaded_with_its_pointers_and_asks_for_the_librarys_functions() {
        let source = "extern void *mmap(void *, unsigned long, int, int, int, long);\n\
                      static int seven = 7; int *to_seven = &seven; int zero[5000];\n\
                      int sum(void) { return *to_seven + zero[4999]; }\n\
                      void *page(void) { return mmap(0, 4096, 3, 0x22, -1, 0); }";
        let Some((_folder, bytes)) = compiled(source) else { return };
        let loaded = load(&bytes).unwrap();
        let at = |name: &str| (loaded.base + loaded.symbols[name]) as *const ();
        // SAFETY: the source above has both functions, of these types.
        let (sum, page) = unsafe {
            let sum = std::mem::transmute::<*const (), extern "C" fn() -> c_int>(at("sum"));
            (sum, std::mem::transmute::<*const (), extern "C" fn() -> *mut c_int>(at("page")))
        };
        assert_eq!(sum(), 7);
        // SAFETY: the pages are new, and can be written, as is the object's data.
        unsafe {
            *page() = 1;
            **(at("to_seven").cast::<*mut c_int>()) = 8;
        }
        assert_eq!(sum(), 8);
        assert!(loaded.frames.is_some(), "its calls can be followed");
        assert!(loaded.bytes >= 5000 * size_of::<c_int>(), "zeros that the file lacks are a part of it");
    }

    #[test]
    fn what_the_executable_lacks_is_named() {
        let Some((_folder, bytes)) = compiled("extern int puts(char *); int f(void) { return puts(\"\"); }")
        else {
            return;
        };
        let why = load(&bytes).err().unwrap();
        assert_eq!(why, "it asks for puts, which a static schedlab lacks");
        assert!(load(&bytes[..100]).is_err());
    }

    /// The file with up to five of its bytes changed, most of them in its header and its segments' headers.
    fn damaged(whole: &[u8], draws: Stream) -> Vec<u8> {
        let headers = 64 + 56 * usize::from(u16::from_le_bytes([whole[56], whole[57]]));
        let mut bytes = whole.to_vec();
        let draw = |i, below: usize| draws.below(i, below as u64) as usize;
        for i in 0..=draw(0, 5) as u64 {
            let within = if draw(4 * i + 1, 4) == 0 { whole.len() } else { headers };
            let values = [0, 1, 0x7f, 0x80, 0xff, draw(4 * i + 2, 256) as u8];
            bytes[draw(4 * i + 3, within)] = values[draw(4 * i + 4, values.len())];
        }
        bytes
    }

    #[test]
    fn a_damaged_image_is_loaded_within_its_memory_or_refused() {
        let source = "static int seven = 7; int *to_seven = &seven; int zero[5000];\n\
                      int sum(void) { return *to_seven + zero[4999]; }";
        let Some((_folder, whole)) = compiled(source) else { return };
        let mut refused = 0;
        for round in 0..4000 {
            match load(&damaged(&whole, Stream::new(1).number(round))) {
                Ok(loaded) => assert!(loaded.symbols.values().all(|at| *at < loaded.bytes)),
                Err(_) => refused += 1,
            }
        }
        assert!((400..4000).contains(&refused), "{refused}");
    }

    /// The image with the field at `at` of its first or a later loaded segment set.
    fn with_field(whole: &[u8], at: usize, value: u64) -> Vec<u8> {
        let mut bytes = whole.to_vec();
        bytes[64 + at..64 + at + 8].copy_from_slice(&value.to_le_bytes());
        bytes
    }

    #[test]
    fn a_segment_that_its_memory_cannot_hold_is_refused() {
        let Some((_folder, whole)) = compiled("int zero[5000]; int f(void) { return zero[1]; }") else {
            return;
        };
        let why = |at, value| load(&with_field(&whole, at, value)).err().unwrap();
        // Of the first segment: p_vaddr, p_memsz.
        assert_eq!(why(16, u64::MAX - 8), "a segment ends after all addresses");
        assert_eq!(why(40, 1), "a segment has more bytes in the file than in memory");
        assert_eq!(why(40, u64::MAX - 8), "it has no memory, or more than there is");
        let mut memory = [0; 64];
        assert!(part(&mut memory, 60, 8).is_err() && part(&mut memory, u64::MAX, 8).is_err());
        assert_eq!(pages(5000, 3500, 4096, 12288), Ok(4096..12288));
        assert!(pages(5000, 3500, 4096, 8192).is_err() && pages(u64::MAX, 1, 4096, 8192).is_err());
    }
}
