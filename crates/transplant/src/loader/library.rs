//! The C library's loader: dlopen(3), dlsym(3), dladdr(3), backtrace(3).

use super::{DEPTH, refused};
use schedlab_base::{Error, Result};
use std::ffi::{CStr, CString, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

unsafe extern "C" {
    // glibc's, in no header of the libc crate for all targets.
    fn backtrace(buffer: *mut *mut c_void, size: c_int) -> c_int;
}

/// An open shared object.
#[derive(Clone, Copy)]
pub(crate) struct Handle(*mut c_void);

impl Handle {
    pub(crate) fn open(path: &Path) -> Result<Handle> {
        let name = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| Error::input(format!("{} is not a path", path.display())))?;
        // SAFETY: the name ends with a zero. The object has no constructors; its text is what schedlab built.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() { Err(refused(path, &last_error())) } else { Ok(Handle(handle)) }
    }
    pub(crate) fn symbol(self, name: &str) -> Result<*mut c_void> {
        let text = CString::new(name).map_err(|e| Error::internal(e.to_string()))?;
        // SAFETY: the handle is open, for good, and the name ends with a zero.
        let at = unsafe { libc::dlsym(self.0, text.as_ptr()) };
        if at.is_null() {
            return Err(Error::internal(format!("the image has no {name}")));
        }
        Ok(at)
    }
}

fn last_error() -> String {
    // SAFETY: dlerror returns its own text or nothing; this thread asks right after the failed call.
    let said = unsafe { libc::dlerror() };
    if said.is_null() {
        return "no reason was given".to_owned();
    }
    // SAFETY: the text ends with a zero and lives until the next call of dl*.
    unsafe { CStr::from_ptr(said) }.to_string_lossy().into_owned()
}

/// The calls that lead here, innermost first.
pub(crate) fn followed() -> Vec<usize> {
    let mut at = [std::ptr::null_mut(); DEPTH];
    // SAFETY: the buffer has room for `DEPTH` addresses.
    let count = unsafe { backtrace(at.as_mut_ptr(), DEPTH as c_int) };
    at[..count.max(0) as usize].iter().map(|at| *at as usize).collect()
}

/// The first byte of the loaded object that holds an address.
pub(crate) fn base_of(address: *const c_void) -> Option<usize> {
    // SAFETY: zeros are a value of this plain data; dladdr fills it, and takes any address.
    unsafe {
        let mut about: libc::Dl_info = std::mem::zeroed();
        (libc::dladdr(address, &raw mut about) != 0).then_some(about.dli_fbase as usize)
    }
}
