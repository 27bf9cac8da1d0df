//! Any bytes as /proc/schedstat: an error or counters, never a panic; what was read prints and reads back as itself.

#![no_main]

use libfuzzer_sys::fuzz_target;
use schedlab_record::schedstat::{delta, identities, parse};
use std::path::Path;

fuzz_target!(|bytes: &[u8]| {
    let file = Path::new("fuzz");
    let Ok(stat) = parse(file, bytes) else { return };
    let text = stat.print(stat.layout).expect("its own layout prints");
    assert!(parse(file, text.as_bytes()).expect("what was printed is read") == stat);
    let (zero, warnings) = delta(&stat, &stat).expect("a snapshot minus itself");
    assert!(warnings.is_empty() && identities(&zero).is_empty());
    identities(&stat);
});
