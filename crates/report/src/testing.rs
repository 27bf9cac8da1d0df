//! What the tests of several pages share.

use std::io::{self, Write};

/// What a writer of text writes.
pub fn text(make: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> String {
    let mut out = Vec::new();
    make(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}
