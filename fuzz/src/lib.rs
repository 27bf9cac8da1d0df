//! What the targets of recordings share: any bytes as a file of a form are read into a record and into a history, or
//! refused by an error; never a panic, an endless loop or tasks that ran for longer than there was time.

use schedlab_import::to_run::{ChosenTasks, RunBuilder};
use schedlab_import::timehist::Timehist;
use schedlab_import::{Form, Recording, read};
use std::cell::RefCell;
use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;

thread_local! {
    /// The file that readers are given: unlinked, and written anew for each input.
    static FILE: RefCell<File> = RefCell::new(tempfile::tempfile().expect("a temporary file"));
}

/// Writes the bytes to a file without a name, and gives its path.
pub fn file_of(bytes: &[u8]) -> PathBuf {
    FILE.with_borrow_mut(|file| {
        file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(bytes)).expect("room for a file");
        PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
    })
}

/// Reads the bytes as a recording of that form.
pub fn survive(form: Form, bytes: &[u8]) {
    let recording = Recording { path: file_of(bytes), form: Some(form), hashed: false };
    let mut watch = RunBuilder::new(ChosenTasks::default(), None);
    if let Ok(mut imported) = read(&recording, &mut watch) {
        let found = watch.finish(&mut imported);
        let cpu_ns: u128 = found.tasks.iter().map(|t| u128::from(t.cpu_time.0)).sum();
        let most = imported.cast.cpus as u128 * u128::from(imported.cast.end.0);
        assert!(cpu_ns <= most, "tasks ran for {cpu_ns} ns of {most}");
    }
    let mut rows = 0_u64;
    let _ = read(&recording, &mut Timehist::new(|_| rows += 1));
}
