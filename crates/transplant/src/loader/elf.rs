//! Loads an image in a static executable. An image needs little for that: it has no constructors and no threads'
//! variables, and it asks the C library for a few functions only.
//!
//! Format: System V ABI, chapter "Program Loading", and the relocations of x86-64 and AArch64.

use object::read::elf::ElfFile64;
use object::{
    Object, ObjectSection, ObjectSegment, ObjectSymbol, RelocationFlags, RelocationTarget, SegmentFlags,
};
use std::collections::BTreeMap;
use std::ffi::c_void;

const PAGE: usize = 4096;

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

/// An object in memory, for good.
pub(super) struct Loaded {
    pub base: usize,
    pub bytes: usize,
    /// Offsets of its global symbols.
    pub symbols: BTreeMap<String, usize>,
    /// Offset of `.eh_frame`, if a zero ends it.
    pub frames: Option<usize>,
}

/// The functions that an image may ask the C library for.
fn of_library(name: &str) -> Option<usize> {
    extern "C" fn end() -> ! {
        std::process::abort()
    }
    #[cfg(target_env = "musl")]
    use super::alone::backtrace;
    #[cfg(not(target_env = "musl"))]
    extern "C" fn backtrace(_: *mut *mut c_void, _: std::ffi::c_int) -> std::ffi::c_int {
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

pub(super) fn load(bytes: &[u8]) -> std::result::Result<Loaded, String> {
    let file: ElfFile64<'_> = ElfFile64::parse(bytes).map_err(|e| e.to_string())?;
    let end = file.segments().map(|segment| segment.address() + segment.size()).max().unwrap_or(0);
    let bytes = (end as usize).next_multiple_of(PAGE);
    let base = room(bytes)?;
    for segment in file.segments() {
        let data = segment.data().map_err(|e| e.to_string())?;
        // SAFETY: the room is this function's own, and has as many bytes as the last segment's end says.
        unsafe { std::slice::from_raw_parts_mut((base + segment.address() as usize) as *mut u8, data.len()) }
            .copy_from_slice(data);
    }
    let defined = file.dynamic_symbols().filter(|symbol| symbol.is_definition());
    let symbols = defined.filter_map(|s| Some((s.name().ok()?.to_owned(), s.address() as usize))).collect();
    relocate(&file, base, bytes)?;
    protect(&file, base)?;
    let frames = file.section_by_name(".eh_frame");
    let after = frames.as_ref().map(|frames| (frames.address() + frames.size()) as usize);
    // SAFETY: the byte is within the room, which can be read.
    let ends = after
        .is_some_and(|at| at + 4 <= bytes && unsafe { ((base + at) as *const u32).read_unaligned() } == 0);
    let frames = frames.filter(|_| ends).map(|frames| frames.address() as usize);
    Ok(Loaded { base, bytes, symbols, frames })
}

/// Zeroed memory that can be written.
fn room(bytes: usize) -> std::result::Result<usize, String> {
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: asks for new memory, which belongs to nobody else.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0) };
    if at == libc::MAP_FAILED { Err(std::io::Error::last_os_error().to_string()) } else { Ok(at as usize) }
}

fn relocate(file: &ElfFile64<'_>, base: usize, bytes: usize) -> std::result::Result<(), String> {
    let (relative, by_symbol) = RELATIVE_AND_SYMBOLS;
    for (at, relocation) in file.dynamic_relocations().into_iter().flatten() {
        let RelocationFlags::Elf { r_type } = relocation.flags() else { continue };
        let target = match relocation.target() {
            RelocationTarget::Symbol(index) if by_symbol.contains(&r_type) => {
                let table = file.dynamic_symbol_table().ok_or("it has no symbols")?;
                let symbol =
                    object::ObjectSymbolTable::symbol_by_index(&table, index).map_err(|e| e.to_string())?;
                let name = symbol.name().map_err(|e| e.to_string())?;
                match symbol.is_definition() {
                    true => base + symbol.address() as usize,
                    false => of_library(name)
                        .ok_or_else(|| format!("it asks for {name}, which a static schedlab lacks"))?,
                }
            }
            _ if r_type == relative => base,
            _ => return Err(format!("it has a relocation of type {r_type}")),
        };
        if at as usize + size_of::<usize>() > bytes {
            return Err(format!("it has a relocation at {at:#x}, outside of it"));
        }
        let value = target.wrapping_add(relocation.addend() as usize);
        // SAFETY: the word is within the room, as was checked, and the room is the caller's own.
        unsafe { ((base + at as usize) as *mut usize).write_unaligned(value) };
    }
    Ok(())
}

/// Each segment gets the access that it names.
fn protect(file: &ElfFile64<'_>, base: usize) -> std::result::Result<(), String> {
    for segment in file.segments() {
        let SegmentFlags::Elf { p_flags } = segment.flags() else { continue };
        let access = [(object::elf::PF_R, libc::PROT_READ), (object::elf::PF_W, libc::PROT_WRITE)];
        let access = access.into_iter().chain([(object::elf::PF_X, libc::PROT_EXEC)]);
        let access = access.filter(|(flag, _)| p_flags & flag != 0).fold(0, |all, (_, one)| all | one);
        let first = segment.address() as usize / PAGE * PAGE;
        let bytes = (segment.address() + segment.size()) as usize - first;
        // SAFETY: the pages are those of the room, which nothing else uses yet.
        if unsafe { libc::mprotect((base + first) as *mut c_void, bytes, access) } != 0 {
            return Err(std::io::Error::last_os_error().to_string());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::c_int;

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
}
