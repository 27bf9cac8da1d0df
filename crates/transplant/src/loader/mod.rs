//! Where an image's shared object comes into memory: by the C library's loader, or by ours in an executable that is
//! static, since musl's library then has none.

#[cfg(target_env = "musl")]
mod alone;
#[cfg(any(test, target_env = "musl"))]
mod elf;
#[cfg(not(target_env = "musl"))]
mod library;

#[cfg(target_env = "musl")]
pub(crate) use alone::{Handle, base_of, followed};
#[cfg(not(target_env = "musl"))]
pub(crate) use library::{Handle, base_of, followed};

/// Calls that are followed.
const DEPTH: usize = 48;

/// The error about an image that can't be loaded.
fn refused(path: &std::path::Path, why: &str) -> schedlab_base::Error {
    let text = format!("the image {} can't be loaded: {why}", path.display());
    schedlab_base::Error::input(text).help("remove its folder; it is built again")
}
