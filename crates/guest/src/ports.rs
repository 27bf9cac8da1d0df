//! I/O ports, which only x86 has. Elsewhere there are no guests (`find_qemu` says so), and nothing gets this far.
//!
//! Mirrors ioperm(2).

pub use of_machine::{read_port, use_ports, write_port, write_port_wide};

#[cfg(target_arch = "x86_64")]
mod of_machine {
    use std::io;

    /// Allows or forbids this process to use a range of I/O ports.
    ///
    /// # Errors
    /// ENOSYS from a kernel without CONFIG_X86_IOPL_IOPERM.
    pub fn use_ports(first: u16, many: u16, on: bool) -> io::Result<()> {
        // SAFETY: takes integers only.
        let result = unsafe {
            libc::syscall(
                libc::SYS_ioperm,
                libc::c_ulong::from(first),
                libc::c_ulong::from(many),
                libc::c_int::from(on),
            )
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Writes a byte to a port that [`use_ports`] has allowed; on other ports the process gets SIGSEGV.
    pub fn write_port(port: u16, value: u8) {
        // SAFETY: the instruction touches neither memory nor stack; only the device acts.
        unsafe { std::arch::asm!("out dx, al", in("dx") port, in("al") value, options(nomem, nostack)) };
    }

    /// As [`write_port`], with two bytes.
    pub fn write_port_wide(port: u16, value: u16) {
        // SAFETY: as in `write_port`.
        unsafe { std::arch::asm!("out dx, ax", in("dx") port, in("ax") value, options(nomem, nostack)) };
    }

    /// Reads a byte from a port that [`use_ports`] has allowed.
    pub fn read_port(port: u16) -> u8 {
        let value: u8;
        // SAFETY: as in `write_port`.
        unsafe { std::arch::asm!("in al, dx", in("dx") port, out("al") value, options(nomem, nostack)) };
        value
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod of_machine {
    use std::io;

    pub fn use_ports(_: u16, _: u16, _: bool) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    pub fn write_port(_: u16, _: u8) {}
    pub fn write_port_wide(_: u16, _: u16) {}
    pub fn read_port(_: u16) -> u8 {
        0
    }
}
