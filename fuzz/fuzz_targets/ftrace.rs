//! Any bytes as text of ftrace: see the library of this folder.

#![no_main]

use libfuzzer_sys::fuzz_target;
use schedlab_fuzz::survive;
use schedlab_import::Form;

fuzz_target!(|bytes: &[u8]| survive(Form::Ftrace, bytes));
