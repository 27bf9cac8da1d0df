//! The interface of engine and image for sched_ext: the layouts of `shim/abi.h`, field by field.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// `struct img_bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawInsn {
    pub op: u16,
    pub dst: u8,
    pub src: u8,
    pub off: c_int,
    pub imm: i64,
}

/// `enum img_bpf_op`.
pub mod op {
    pub const LOCAL: u16 = 256;
    pub const HELPER: u16 = 257;
    pub const KFUNC: u16 = 258;
    pub const MISSING: u16 = 259;
}

/// `struct img_bpf_map`.
#[repr(C)]
#[derive(Debug)]
pub struct RawMap {
    pub name: *const c_char,
    pub kind: c_uint,
    pub key_bytes: c_uint,
    pub value_bytes: c_uint,
    pub max_entries: c_uint,
    pub flags: c_uint,
    pub memory: *mut c_void,
    pub fields: *const RawField,
    pub nr_fields: c_uint,
}

/// `struct img_bpf_field`.
#[repr(C)]
#[derive(Debug)]
pub struct RawField {
    pub at: c_uint,
    pub bytes: c_uint,
    pub special: c_int,
}

/// `enum img_bpf_special`.
pub mod special {
    use std::ffi::c_int;

    pub const KEPT: c_int = 0;
    pub const TIMER: c_int = 1;
    pub const KPTR: c_int = 2;
    pub const KPTR_MASK: c_int = 3;
    pub const KPTR_OWN: c_int = 4;
    pub const HEAD: c_int = 5;
}

/// `struct img_bpf_trace`.
#[repr(C)]
#[derive(Debug)]
pub struct RawTrace {
    pub program: c_int,
    pub tracepoint: *const c_void,
    pub function: *const c_char,
    pub after: c_int,
    pub registers: c_int,
    pub nr: c_uint,
    pub bytes: [u8; 12],
}

/// `struct img_bpf_type`.
#[repr(C)]
#[derive(Debug)]
pub struct RawType {
    pub bytes: c_uint,
    pub refcount_at: c_int,
}

/// `struct img_bpf_program`.
#[repr(C)]
#[derive(Debug)]
pub struct RawProgram {
    pub name: *const c_char,
    pub insns: *const RawInsn,
    pub nr: c_uint,
    pub calls: u64,
    pub executed: u64,
}

/// `enum img_bpf_result`.
pub mod result {
    use std::ffi::c_int;

    pub const VOID: c_int = 0;
    pub const S8: c_int = 2;
    pub const U8: c_int = 3;
    pub const S16: c_int = 4;
    pub const U16: c_int = 5;
    pub const S32: c_int = 6;
    pub const U32: c_int = 7;
    pub const WIDE: c_int = 8;
}

/// `struct img_bpf_called`.
#[repr(C)]
#[derive(Debug)]
pub struct RawCalled {
    pub name: *const c_char,
    pub at: *const c_void,
    pub arguments: c_int,
    pub has_aux: c_int,
    pub result: c_int,
    /// The image's own.
    pub step: c_int,
    pub calls: u64,
}

/// `struct img_ext_member`.
#[repr(C)]
#[derive(Debug)]
pub struct RawMember {
    pub name: *const c_char,
    pub offset: c_uint,
    pub bytes: c_uint,
    pub program: c_int,
}

/// `struct img_ext_ops`.
#[repr(C)]
#[derive(Debug)]
pub struct RawOps {
    pub values: *const c_void,
    pub bytes: c_uint,
    pub by_cid: c_int,
    pub members: *const RawMember,
    pub nr_members: c_uint,
    pub arena: c_int,
    pub exit_at: c_uint,
    pub info_kind: c_uint,
    pub info_code: c_uint,
    pub info_reason: c_uint,
    pub info_message: c_uint,
}

/// `struct img_ext_state`.
#[repr(C)]
#[derive(Debug)]
pub struct RawState {
    pub exit_kind: c_int,
    pub exit_code: i64,
    pub reason: *const c_char,
    pub message: *const c_char,
}

/// A text of the image; empty: it gives none.
pub fn words(at: *const c_char) -> String {
    match at.is_null() {
        true => String::new(),
        // SAFETY: the image gives a text that ends with a zero and is never freed.
        false => unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned(),
    }
}
