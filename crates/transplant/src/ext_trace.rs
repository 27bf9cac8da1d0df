//! Programs at tracepoints and functions of the image's kernel.
//!
//! The image takes all of its tracepoints. A function that does not lead to programs by itself is made to
//! ([`ext_hook`](crate::ext_hook)). What an image does not have at all
//! is of a part of the kernel that is not compiled there, and that nobody calls: an object's program for it never runs,
//! which the record says.

use crate::ext::Loaded;
use crate::ext_abi::RawTrace;
use crate::ext_hook::{self, Calls, Function};
use crate::load::checked;
use schedlab_base::{Error, Result};
use schedlab_scx::btf::Btf;
use schedlab_scx::{Scheduler, Target};
use std::ffi::{CString, c_char, c_void};

impl Loaded {
    /// Attaches a program. An error is one of errno: ENOENT for what the image does not have.
    pub(crate) fn trace(
        &mut self,
        program: usize,
        target: &Target,
        btf: &Btf,
    ) -> std::result::Result<(), i32> {
        let arguments = btf.arguments(target).ok_or(libc::ENOENT)?;
        let number = self.program(program).ok_or(libc::EBADF)?;
        let (name, tracepoint) = match target {
            Target::Tracepoint(name) => {
                let at = self.symbols.get(&format!("__tracepoint_{name}"));
                (name, *at.ok_or(libc::ENOENT)? as *const c_void)
            }
            Target::Entry(name) | Target::Exit(name) | Target::Probe(name) | Target::ReturnProbe(name) => {
                (name, std::ptr::null())
            }
        };
        let mut bytes = [8; 12];
        if arguments.len() > bytes.len() || arguments.iter().any(|n| *n > 8) {
            return Err(libc::EOPNOTSUPP);
        }
        bytes.iter_mut().zip(&arguments).for_each(|(to, bytes)| *to = *bytes as u8);
        let function = CString::new(name.as_str()).map_err(|_| libc::EINVAL)?;
        let raw = RawTrace {
            program: number,
            tracepoint,
            // The image keeps the pointer.
            function: function.into_raw(),
            after: matches!(target, Target::Exit(_) | Target::ReturnProbe(_)).into(),
            registers: matches!(target, Target::Probe(_) | Target::ReturnProbe(_)).into(),
            nr: arguments.len() as u32,
            bytes,
        };
        // SAFETY: the structure lives through the call, its name for good; the tracepoint is the image's.
        let ask = || checked(unsafe { (self.functions.img_bpf_trace)(&raw const raw) });
        let made = match ask() {
            Err(libc::EOPNOTSUPP) if raw.tracepoint.is_null() => {
                self.lead(name, raw.function, arguments.len())?;
                ask()?
            }
            made => made?,
        };
        self.traces.push((program, target.clone(), made));
        Ok(())
    }
    /// Makes a function lead to programs.
    fn lead(&self, name: &str, kept: *const c_char, arguments: usize) -> std::result::Result<(), i32> {
        let at = *self.symbols.get(name).ok_or(libc::ENOENT)?;
        let bytes = *self.sizes.get(&at).ok_or(libc::ENOENT)?;
        // SAFETY: the code of a function of the image, as long as the image's table of symbols says.
        let code = unsafe { std::slice::from_raw_parts(at as *const u8, bytes) };
        let address = |name: &str| self.symbols.get(name).copied().ok_or(libc::ENOENT);
        let (enters, leaves) = (address("img_bpf_enters")?, address("img_bpf_leaves")?);
        let function = Function { at, code, arguments };
        ext_hook::check(&function)?;
        // SAFETY: the image keeps the name, which is never freed.
        let hook = checked(unsafe { (self.functions.img_bpf_hook)(kept) })?;
        ext_hook::lead(&function, Calls { hook: hook as u32, enters, leaves })
    }
    pub(crate) fn untrace(&mut self, program: usize, target: &Target) {
        if let Some(at) = self.traces.iter().position(|(p, t, _)| *p == program && t == target) {
            // SAFETY: the number is of `img_bpf_trace()`.
            unsafe { (self.functions.img_bpf_untrace)(self.traces.swap_remove(at).2) };
        }
    }
    /// Attaches the programs of an object that name a target.
    ///
    /// # Errors
    /// If nothing leads to one that the image has.
    pub(crate) fn trace_all(&mut self, scheduler: &Scheduler, btf: &Btf) -> Result<()> {
        for (at, program) in scheduler.programs.iter().enumerate() {
            let Some(target) = &program.target else { continue };
            match self.trace(at, target, btf) {
                Ok(()) => {}
                Err(libc::ENOENT) => self.untraced.push(format!("{} ({target})", program.name)),
                Err(_) => {
                    let what = format!("program {} can't be attached to {target}", program.name);
                    return Err(Error::input(format!("scheduler {}: {what}", scheduler.name))
                        .help("tracepoints can have programs, and functions of up to 12 arguments that are longer than a jump"));
                }
            }
        }
        Ok(())
    }
}
