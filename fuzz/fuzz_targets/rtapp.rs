//! Any text as an rt-app file: an error or a workload that can be built, never a panic or an endless loop.

#![no_main]

use libfuzzer_sys::fuzz_target;
use schedlab_workload::{Builder, rtapp};

fuzz_target!(|text: &str| {
    let mut builder = Builder::new(1);
    if rtapp::build("fuzz.json", text, None, &mut builder).is_ok() {
        // Rules of the whole, such as its number of tasks, are judged here: either answer is one.
        let _ = builder.finish();
    }
});
