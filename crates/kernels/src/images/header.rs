//! Reads the boot header of an x86 kernel image.
//!
//! Mirrors the kernel's documented boot protocol, 2.00 (1.3.73) to 2.15 (6.x). The setup code's first sector ends with
//! a header, which has the signature "HdrS" at 0x202, the protocol's version at 0x206, and at 0x20e the place of the
//! version string, counted from 0x200. Numbers are little-endian. The setup code is real-mode code, so the string lies
//! within the first 64 KiB or not at all.

use schedlab_base::Error;
use std::path::Path;

/// Header and version string lie within this many bytes from the file's start.
pub const ENOUGH: usize = 0x200 + 0x1_0000 + 0x400;
/// A version string is a line; the kernel's own have 100 to 200 bytes.
const LONGEST_BANNER: usize = 1024;

/// The boot header of an image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// The boot protocol, 0x020f for 2.15.
    pub protocol: u16,
    /// The version string: release, builder, number and date of the build.
    pub banner: String,
    /// Whether it has a 64-bit entry (`XLF_KERNEL_64`, protocol 2.12, 3.8).
    pub has_64_bit_entry: bool,
    /// Whether it may be loaded at any place (protocol 2.05).
    pub relocatable: bool,
}

impl Header {
    /// The release, as uname(2) will give it: "6.1.0-56-cloud-amd64".
    pub fn release(&self) -> &str {
        self.banner.split_whitespace().next().unwrap_or_default()
    }
    /// The upstream version where the banner has it, else the numbers of the release. Distributions keep the release of
    /// a series ("6.1.0-56") while the kernel moves on, and put the real version ("6.1.192-2") after the build's
    /// number.
    pub fn version(&self) -> &str {
        let own = numbers(self.release());
        let series: Vec<&str> = own.split('.').take(2).collect();
        let told = self.banner.split_whitespace().skip(1).map(numbers).find(|n| {
            let parts: Vec<&str> = n.split('.').collect();
            parts.len() == 3 && parts[..2] == series[..]
        });
        told.unwrap_or(own)
    }
}

/// The dotted numbers a word starts with: "6.1.192" of "6.1.192-2".
fn numbers(word: &str) -> &str {
    let end = word.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(word.len());
    word[..end].trim_end_matches('.')
}

/// Why a file can't be booted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// An ELF file: vmlinux as the linker wrote it.
    Elf,
    /// Compressed by the named tool: a kernel for another machine, or an initramfs.
    Packed(&'static str),
    /// A kernel of the named architecture.
    Foreign(&'static str),
    /// An x86 boot sector without the header, or with one from before protocol 2.00.
    Ancient,
    /// The header points to no readable version string.
    NoBanner,
    /// A zImage: protected-mode code below 1 MiB, as before 1.3.73 and in small kernels since.
    Low,
    /// No 64-bit entry: a kernel for 32-bit CPUs.
    ThirtyTwoBit,
    /// No known format.
    Unknown,
}

impl Refused {
    /// The error for the user: names the file and says what to do.
    pub fn error(self, path: &Path) -> Error {
        let bz = "give the bzImage of the same build (arch/x86/boot/bzImage, or /boot/vmlinuz-VERSION)";
        let (what, help): (String, &str) = match self {
            Refused::Elf => ("is an ELF file (vmlinux), not a bootable image".into(), bz),
            Refused::Packed(tool) => (
                format!("is packed by {tool}: an initramfs, or a kernel image packed once more"),
                "unpack it first, or give the bzImage (/boot/vmlinuz-VERSION)",
            ),
            Refused::Foreign(arch) => {
                (format!("is a kernel for {arch}"), "guests are x86-64 machines: give an x86-64 bzImage")
            }
            Refused::Ancient => ("has a boot sector but no boot header (protocol 2.00, \"HdrS\")".into(), bz),
            Refused::NoBanner => ("has a boot header that names no kernel version".into(), bz),
            Refused::Low => ("is a zImage, which has to fit below 1 MiB".into(), bz),
            Refused::ThirtyTwoBit => (
                "is a kernel for 32-bit CPUs".into(),
                "schedlab is itself the guest's first process and needs an x86-64 kernel",
            ),
            Refused::Unknown => ("is not a kernel image".into(), bz),
        };
        Error::input(format!("{} {what}", path.display())).help(help)
    }
}

/// Reads the header from the file's first [`ENOUGH`] bytes.
///
/// # Errors
/// When it is not a bootable image: what the file is instead.
pub fn parse(bytes: &[u8]) -> Result<Header, Refused> {
    if let Some(other) = other_kind(bytes) {
        return Err(other);
    }
    let byte = |at: usize| bytes.get(at).copied();
    let word = |at: usize| Some(u16::from_le_bytes([byte(at)?, byte(at + 1)?]));
    if word(0x1fe) != Some(0xaa55) {
        return Err(Refused::Unknown);
    }
    let signed = bytes.get(0x202..0x206) == Some(b"HdrS");
    let protocol = word(0x206).filter(|p| signed && *p >= 0x0200).ok_or(Refused::Ancient)?;
    if byte(0x211).is_some_and(|flags| flags & 1 == 0) {
        return Err(Refused::Low);
    }
    let since = |from: u16, at: usize, mask: u8| protocol >= from && byte(at).is_some_and(|b| b & mask != 0);
    let has_64_bit_entry = since(0x020c, 0x236, 1);
    if protocol >= 0x020c && !has_64_bit_entry {
        return Err(Refused::ThirtyTwoBit);
    }
    let banner = word(0x20e).filter(|at| *at != 0).and_then(|at| banner(bytes, 0x200 + usize::from(at)));
    let banner = banner.ok_or(Refused::NoBanner)?;
    Ok(Header { protocol, banner, has_64_bit_entry, relocatable: since(0x0205, 0x234, 1) })
}

/// The version string at an offset, if it ends with a zero, is text, and begins with a version.
fn banner(bytes: &[u8], at: usize) -> Option<String> {
    let rest = bytes.get(at..)?;
    let rest = &rest[..rest.len().min(LONGEST_BANNER)];
    let end = rest.iter().position(|b| *b == 0)?;
    let text = std::str::from_utf8(&rest[..end]).ok()?.trim().to_owned();
    (numbers(&text).contains('.') && !text.contains(|c: char| c.is_control())).then_some(text)
}

/// Recognises files that people mistake for an x86 image, by their first bytes.
fn other_kind(bytes: &[u8]) -> Option<Refused> {
    let at = |place: usize, magic: &[u8]| bytes.get(place..place + magic.len()) == Some(magic);
    let kinds = [
        (0, &b"\x7fELF"[..], Refused::Elf),
        (0, &b"\x1f\x8b"[..], Refused::Packed("gzip")),
        (0, &b"\x28\xb5\x2f\xfd"[..], Refused::Packed("zstd")),
        (0, &b"\xfd7zXZ"[..], Refused::Packed("xz")),
        (0, &b"\x02\x21\x4c\x18"[..], Refused::Packed("lz4")),
        (0, &b"\x04\x22\x4d\x18"[..], Refused::Packed("lz4")),
        (0, &b"BZh"[..], Refused::Packed("bzip2")),
        (0x38, &b"ARM\x64"[..], Refused::Foreign("arm64")),
        (0x38, &b"RSC\x05"[..], Refused::Foreign("RISC-V")),
        (0x24, &b"\x18\x28\x6f\x01"[..], Refused::Foreign("32-bit arm")),
        (0x04, &b"zimg"[..], Refused::Foreign("another architecture (EFI zboot)")),
    ];
    kinds.into_iter().find(|(place, magic, _)| at(*place, magic)).map(|(.., kind)| kind)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A small image with this banner, by protocol 2.15.
    pub fn image(banner: &str) -> Vec<u8> {
        let mut b = vec![0u8; 0x2000];
        b[0x1f1] = 0x0f;
        b[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
        b[0x202..0x206].copy_from_slice(b"HdrS");
        b[0x206..0x208].copy_from_slice(&[0x0f, 0x02]);
        b[0x20e..0x210].copy_from_slice(&0x1000u16.to_le_bytes());
        b[0x211] = 1;
        b[0x234] = 1;
        b[0x236] = 0x7f;
        b[0x1200..0x1200 + banner.len()].copy_from_slice(banner.as_bytes());
        b
    }
    const OLD: &str =
        "6.1.0-56-cloud-amd64 (k@example.org) #1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-11-16)";

    #[test]
    fn release_and_version_are_distinguished() {
        let h = parse(&image(OLD)).unwrap();
        assert_eq!((h.release(), h.version()), ("6.1.0-56-cloud-amd64", "6.1.192"));
        assert_eq!((h.protocol, h.has_64_bit_entry, h.relocatable), (0x020f, true, true));
        let built = [
            ("7.3.4+deb13-cloud-amd64 (k@x) #1 SMP Debian 7.3.4-1~bpo13+1 (2026-11-15)", "7.3.4"),
            ("6.12.0-rc3 (me@here) #7 SMP PREEMPT_DYNAMIC Mon Oct 14 10:00:00 UTC 2024", "6.12.0"),
            ("6.8.0-91-generic (b@h) #91-Ubuntu SMP PREEMPT_DYNAMIC Tue Jan 1", "6.8.0"),
            ("6.18.7 (gcc 14.2.0) #1", "6.18.7"),
        ];
        for (banner, version) in built {
            assert_eq!(parse(&image(banner)).unwrap().version(), version, "{banner}");
        }
    }

    #[test]
    fn protocols_before_a_field_do_not_have_it() {
        let mut old = image(OLD);
        old[0x206] = 0x04;
        let h = parse(&old).unwrap();
        assert!(!h.relocatable && !h.has_64_bit_entry);
        let mut small = image(OLD);
        small[0x236] = 0;
        assert_eq!(parse(&small), Err(Refused::ThirtyTwoBit));
    }

    #[test]
    fn files_that_are_not_images_are_named() {
        let changed = |change: fn(&mut Vec<u8>)| {
            let mut b = image(OLD);
            change(&mut b);
            parse(&b).unwrap_err()
        };
        assert_eq!(changed(|b| b[..4].copy_from_slice(b"\x7fELF")), Refused::Elf);
        assert_eq!(changed(|b| b[..2].copy_from_slice(b"\x1f\x8b")), Refused::Packed("gzip"));
        assert_eq!(changed(|b| b[0x38..0x3c].copy_from_slice(b"ARM\x64")), Refused::Foreign("arm64"));
        assert_eq!(changed(|b| b[0x202] = b'X'), Refused::Ancient);
        assert_eq!(changed(|b| b[0x207] = 1), Refused::Ancient);
        assert_eq!(changed(|b| b[0x1fe] = 0), Refused::Unknown);
        assert_eq!(changed(|b| b[0x211] = 0), Refused::Low);
        assert_eq!(changed(|b| b[0x1200] = b'x'), Refused::NoBanner);
        assert_eq!(changed(|b| b.truncate(0x1210)), Refused::NoBanner, "the string does not end");
        assert_eq!(parse(b""), Err(Refused::Unknown));
        let said = Refused::Elf.error(Path::new("/x/vmlinux")).to_string();
        assert!(said.contains("/x/vmlinux") && said.contains("bzImage"), "{said}");
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..0x400),
            at in 0usize..0x400,
        ) {
            let _ = parse(&bytes);
            let mut torn = image(OLD);
            torn[at..].iter_mut().zip(&bytes).for_each(|(t, b)| *t = *b);
            let _ = parse(&torn);
        }
    }
}
