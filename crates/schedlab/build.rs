//! Gives the executable the name of its profile, and whether the build used a profile of its runs.

use std::env;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CARGO_ENCODED_RUSTFLAGS");
    // TARGET/PROFILE/build/schedlab-HASH/out: the variable PROFILE is "release" for all profiles that inherit it.
    let out = env::var("OUT_DIR").unwrap_or_default();
    let folder = Path::new(&out).ancestors().nth(3).and_then(Path::file_name).and_then(|name| name.to_str());
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let guided = if flags.contains("profile-use") { ", profile-guided" } else { "" };
    println!("cargo::rustc-env=SCHEDLAB_BUILD={}{guided}", folder.unwrap_or("unknown"));
}
