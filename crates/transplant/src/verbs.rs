//! An image's shared object and its functions, by name.

use crate::abi::{
    Attr, RawAnswer, RawCosts, RawFleet, RawFleetAnswer, RawMachine, RawNewTask, RawQuestion, RawSample,
    RawStubs, RawTree, RawTreeAnswer, RawView, Usage,
};
use schedlab_base::{Error, Result};
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_ulong, c_ulonglong, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The image's functions by name, with the types of `abi.h`.
macro_rules! verbs {
    ($($name:ident($($type:ty),*) $(-> $result:ty)?;)*) => {
        pub(crate) struct Verbs {
            $(pub(crate) $name: unsafe extern "C" fn($($type),*) $(-> $result)?,)*
        }
        impl Verbs {
            pub(crate) fn of(handle: Handle) -> Result<Verbs> {
                // SAFETY: a symbol of that name is a function of that type, which abi.h declares and img_abi() checks.
                $(let $name = unsafe { std::mem::transmute::<
                    *mut c_void, unsafe extern "C" fn($($type),*) $(-> $result)?,
                >(handle.symbol(stringify!($name))?) };)*
                Ok(Verbs { $($name,)* })
            }
        }
    };
}

verbs! {
    img_abi() -> c_int;
    img_sizes(*mut c_uint, c_int) -> c_int;
    img_stubs(*mut RawStubs);
    img_last_words() -> *const c_char;
    img_memory_at(*const c_void, *mut *mut c_void) -> *const c_char;
    img_boot(*const RawMachine) -> c_int;
    img_count(*const RawCosts) -> c_int;
    img_samples(*mut c_ulonglong) -> *const RawSample;
    img_forget_samples();
    img_weave(c_int);
    img_do(c_int, c_ulonglong, c_ulonglong, c_int) -> c_int;
    img_continue();
    img_finish();
    img_audit();
    img_explain();
    img_enter(c_int) -> *const RawView;
    img_clear();
    img_irq_idle_tick();
    img_irq_device(*const c_int, c_uint);
    img_prepare_sleep(c_int);
    img_timed_out(c_int) -> c_int;
    img_single_task() -> c_int;
    img_kthread_pid(c_int, c_int) -> c_int;
    img_task_new(*const RawNewTask) -> c_int;
    img_set_attr(c_int, *const Attr) -> c_int;
    img_set_affinity(c_int, *const c_ulong) -> c_int;
    img_confine(c_int, *const c_ulong) -> c_int;
    img_usage(c_int, *mut Usage);
    img_ask(*const RawQuestion, *mut RawAnswer) -> c_int;
    img_ask_fleet(*const RawFleet, *mut RawFleetAnswer) -> c_int;
    img_ask_tree(*const RawTree, *mut RawTreeAnswer) -> c_int;
    img_group_new(c_int) -> c_int;
    img_group_write(c_int, *const c_char, *const c_char) -> c_int;
    img_group_read(c_int, *const c_char, *mut c_char, c_int) -> c_int;
    img_group_throttled(c_int) -> u64;
    img_group_move(c_int, c_int) -> c_int;
    img_session_new(c_int) -> c_int;
    img_task_slept(c_int);
    img_feature(*const c_char, c_int) -> c_int;
    img_feature_name(c_int, *mut c_int) -> *const c_char;
    img_tunable(*const c_char, *const c_char) -> c_int;
    img_tunable_name(c_int, *mut c_char, c_int) -> *const c_char;
    img_schedstat(*mut c_char, c_int) -> c_int;
    img_domains(c_int, *mut c_char, c_int) -> c_int;
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
        if handle.is_null() {
            return Err(Error::input(format!(
                "the image {} can't be loaded: {}",
                path.display(),
                last_error()
            ))
            .help("remove its folder; it is built again"));
        }
        Ok(Handle(handle))
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
