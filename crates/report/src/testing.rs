//! Helpers for tests.

use std::io::{self, Write};

pub fn text(make: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> String {
    let mut out = Vec::new();
    make(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}
