//! The messages between parent and agent: a framed job, and a reply.
//!
//! A job is framed by its length, because the agent's input stays open after it: its end means stop. The reply is the
//! agent's whole output, as JSON.

use crate::fault::Fault;
use crate::{Job, Outcome};
use schedlab_base::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Read;
use std::os::fd::BorrowedFd;

/// The longest job, bytes; a larger length is not a job's.
const MAX_JOB_BYTES: u64 = 256 << 20;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reply {
    Done(Box<Outcome>),
    Failed(Fault),
}

/// Frames a job: its length in eight bytes, lowest first, then JSON.
///
/// # Errors
/// When the job can't be written as JSON, which is a bug.
pub fn frame(job: &Job) -> Result<Vec<u8>> {
    let text = serde_json::to_vec(job).map_err(|e| Error::internal(format!("the agent's job: {e}")))?;
    let mut framed = (text.len() as u64).to_le_bytes().to_vec();
    framed.extend(text);
    Ok(framed)
}

/// Reads exactly one framed job and no further byte, because the end of the input after it means stop.
///
/// # Errors
/// When the input does not begin with a framed job.
pub fn read_job(from: BorrowedFd<'_>) -> Result<Job> {
    let none = |why: String| {
        Error::input(format!("standard input holds no job: {why}"))
            .help("'schedlab agent' is started by schedlab itself; use 'schedlab bench' or 'schedlab run'")
    };
    let copy = from.try_clone_to_owned().map_err(|e| none(e.to_string()))?;
    let mut file = File::from(copy);
    let mut length = [0u8; 8];
    file.read_exact(&mut length).map_err(|e| none(e.to_string()))?;
    let length = u64::from_le_bytes(length);
    if length > MAX_JOB_BYTES {
        return Err(none("it is not framed".to_owned()));
    }
    let mut text = vec![0u8; length as usize];
    file.read_exact(&mut text).map_err(|e| none(e.to_string()))?;
    serde_json::from_slice(&text).map_err(|e| none(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::cgroups::Places;
    use schedlab_base::ErrorKind;
    use schedlab_record::Observe;
    use schedlab_workload::{Params, Spec};
    use std::io::{self, Write};
    use std::os::fd::AsFd;

    fn job() -> Job {
        Job {
            workload: Spec::bench("schbench", &Params::default()).unwrap(),
            seed: 7,
            attrs: [].into(),
            changes: Vec::new(),
            later: Vec::new(),
            groups: Places::default(),
            session: false,
            observe: Observe::Counters,
            ring_kib: 0,
            keep: None,
            keep_most_bytes: 0,
        }
    }

    #[test]
    fn a_job_is_read_to_its_last_byte_and_no_further() {
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(&frame(&job()).unwrap()).unwrap();
        writer.write_all(b"rest").unwrap();
        drop(writer);
        assert_eq!(read_job(reader.as_fd()).unwrap(), job());
        let mut rest = String::new();
        File::from(std::os::fd::OwnedFd::from(reader)).read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "rest");
    }

    #[test]
    fn invalid_jobs_are_refused() {
        let text = b"{\"workload\": 1}".to_vec();
        let mut framed = (text.len() as u64).to_le_bytes().to_vec();
        framed.extend(text);
        for bytes in [b"".to_vec(), b"hello world, this is no job".to_vec(), framed] {
            let (reader, mut writer) = io::pipe().unwrap();
            writer.write_all(&bytes).unwrap();
            drop(writer);
            let e = read_job(reader.as_fd()).unwrap_err();
            assert!(e.kind() == ErrorKind::Input && e.to_string().contains("holds no job"), "{e}");
        }
    }
}
