//! The jobs of a store: a folder `OUT/slurm/NAME` for each, with its parcel, its script and the output of its tasks.
//!
//! Slurm knows a job by the same name. The name has the hash of the parcel and of the store's place: a copied store
//! does not share the jobs of the original.

use crate::parcel::Parcel;
use schedlab_base::temp::write_whole;
use schedlab_base::{Error, Result, content_hash};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Exit code of a job's script on a node without the folder.
pub const NO_FOLDER: u8 = 66;
const PLAN: &str = "plan.json";
const SCRIPT: &str = "job.sh";

/// The folder of a store's jobs.
pub struct Folder(PathBuf);

/// The right to submit; dropping it gives it back.
pub struct Lock(#[allow(dead_code, reason = "the lock lives as long as the file is open")] File);

/// A job that was submitted, or is to be.
#[derive(Clone, Debug)]
pub struct Job {
    pub name: String,
    folder: PathBuf,
}

impl Folder {
    /// The folder of the store in `out`, which is made if it does not exist.
    ///
    /// # Errors
    /// When it can't be made, or Slurm can't take its path.
    pub fn create(out: &Path) -> Result<Folder> {
        // Nodes know it by this path, whatever folder they are in.
        let folder = std::path::absolute(out.join("slurm")).map_err(|e| Error::io(out, "find", &e))?;
        check_path(&folder).map_err(|e| e.help("--out names a store with another path"))?;
        fs::create_dir_all(&folder).map_err(|e| Error::io(&folder, "create the folder", &e))?;
        Ok(Folder(folder))
    }
    /// Waits for the right to submit.
    ///
    /// # Errors
    /// When the file system has no locks, or the folder is another user's.
    pub fn lock(&self) -> Result<Lock> {
        let path = self.0.join("lock");
        let failed = |e: std::io::Error| {
            Error::io(&path, "lock", &e)
                .help("submitting needs a folder that is yours, on a file system with locks")
        };
        let file = File::options().create(true).append(true).open(&path).map_err(failed)?;
        file.lock().map_err(failed)?;
        Ok(Lock(file))
    }
    /// Its jobs, by name. A copied store may hold jobs of another place, which are left out.
    ///
    /// # Errors
    /// When the folder can't be read.
    pub fn jobs(&self) -> Result<Vec<Job>> {
        let entries = fs::read_dir(&self.0).map_err(|e| Error::io(&self.0, "read", &e))?;
        let prefix = self.prefix();
        let job = |entry: fs::DirEntry| {
            let name = entry.file_name().into_string().ok()?;
            (name.starts_with(&prefix) && entry.path().join(PLAN).is_file())
                .then(|| Job { name, folder: entry.path() })
        };
        let mut all: Vec<Job> = entries.flatten().filter_map(job).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }
    /// The beginning of its jobs' names.
    fn prefix(&self) -> String {
        let real = fs::canonicalize(&self.0).unwrap_or_else(|_| self.0.clone());
        format!("schedlab-{}-", &content_hash(real.as_os_str().as_bytes())[..8])
    }
    /// Makes the folder of a new job with its parcel and script.
    pub fn begin(&self, parcel: &Parcel, schedlab: &Path) -> Result<Job> {
        let text = parcel.text()?;
        let stem = format!("{}{}", self.prefix(), &Parcel::name(&text)[..12]);
        let free = |n: &u32| !self.0.join(format!("{stem}-{n}")).exists();
        let name = format!("{stem}-{}", (1..).find(free).unwrap_or(1));
        let job = Job { folder: self.0.join(&name), name };
        let logs = job.logs();
        fs::create_dir_all(&logs).map_err(|e| Error::io(&logs, "create the folder", &e))?;
        write_whole(&job.folder.join(PLAN), text.as_bytes())?;
        write_whole(
            &job.folder.join(SCRIPT),
            job.script(self.0.parent().unwrap_or(&self.0), schedlab).as_bytes(),
        )?;
        Ok(job)
    }
}

impl Job {
    /// The folder of its tasks' output.
    pub fn logs(&self) -> PathBuf {
        self.folder.join("logs")
    }
    /// The output of a task.
    pub fn log(&self, task: usize) -> PathBuf {
        self.logs().join(format!("{task}.log"))
    }
    /// The last error that a task printed, or its last line.
    pub fn last_words(&self, task: usize) -> Option<String> {
        const ERROR: &str = "schedlab: error: ";
        let bytes = fs::read(self.log(task)).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let lines = || text.lines().rev().map(str::trim).filter(|line| !line.is_empty());
        lines().find_map(|line| line.strip_prefix(ERROR)).or_else(|| lines().next()).map(str::to_owned)
    }
    /// Its parcel, of any version.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn parcel(&self) -> Result<Parcel> {
        Parcel::read_any(&self.folder.join(PLAN))
    }
    /// Removes the folder of a job that was not submitted.
    pub fn remove(&self) {
        // A folder that stays is a job that Slurm does not know.
        let _ = fs::remove_dir_all(&self.folder);
    }
    /// The arguments of sbatch. A per cent sign begins a field in its patterns.
    pub fn sbatch(&self, array: String, options: Vec<String>) -> Vec<String> {
        let logs = self.logs().display().to_string().replace('%', "%%");
        let own = [
            format!("--job-name={}", self.name),
            array,
            format!("--output={logs}/%a.log"),
            "--open-mode=append".to_owned(),
            "--requeue".to_owned(),
            "--nodes=1".to_owned(),
            "--ntasks=1".to_owned(),
        ];
        let script = self.folder.join(SCRIPT).display().to_string();
        own.into_iter().chain(options).chain([script]).collect()
    }
    /// Its script. Slurm copies it to the node, so it can report a missing folder. The store is named by its own path:
    /// the jobs' folder may be a link to elsewhere.
    fn script(&self, store: &Path, schedlab: &Path) -> String {
        let [folder, schedlab, store] = [&self.folder, schedlab, store].map(quoted);
        format!(
            "#!/bin/sh\n\
             # A task of schedlab: docs/cluster.md\n\
             cd {folder} && [ -r {PLAN} ] || {{ echo \"$(uname -n) does not have\" {folder} >&2; exit {NO_FOLDER}; }}\n\
             exec {schedlab} work {PLAN} --task \"$SLURM_ARRAY_TASK_ID\" --out {store} --quiet\n"
        )
    }
}

/// Checks that Slurm takes a path literally, in its options and in a job's script. A backslash turns off the fields of
/// `--output`.
///
/// # Errors
/// When it has something else.
pub fn check_path(path: &Path) -> Result<()> {
    let plain = path.to_str().is_some_and(|text| !text.chars().any(|c| c == '\\' || c.is_control()));
    let text = format!("{} has a backslash, a control character or bytes that are not UTF-8", path.display());
    if plain { Ok(()) } else { Err(Error::input(text + ": Slurm's jobs can't have it")) }
}

/// A path as one word of a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_its_own_folder_and_a_copied_store_ignores_it() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::create(&dir.path().join("it's here")).unwrap();
        let parcel: Parcel = serde_json::from_value(serde_json::json!({
            "schema": crate::parcel::SCHEMA, "version": crate::parcel::Maker::here(), "experiment": "small",
            "how": { "events": false, "validation": false }, "attach": [], "cells": [], "tasks": [],
        }))
        .unwrap();
        let (one, two) =
            (folder.begin(&parcel, Path::new("x")).unwrap(), folder.begin(&parcel, Path::new("x")).unwrap());
        assert!(one.name != two.name && one.name.ends_with("-1") && two.name.ends_with("-2"));
        assert_eq!(
            folder.jobs().unwrap().iter().map(|j| &j.name).collect::<Vec<_>>(),
            [&one.name, &two.name]
        );
        let script = fs::read_to_string(one.folder.join(SCRIPT)).unwrap();
        assert!(script.contains(r"--out '/") && script.contains(r"it'\''s here"), "{script}");
        two.remove();
        fs::rename(dir.path().join("it's here"), dir.path().join("moved")).unwrap();
        assert_eq!(Folder::create(&dir.path().join("moved")).unwrap().jobs().unwrap().len(), 0);
    }

    #[test]
    fn the_last_error_of_a_task_is_found_in_its_output() {
        let dir = tempfile::tempdir().unwrap();
        let job = Job { name: "a".to_owned(), folder: dir.path().to_owned() };
        assert_eq!(job.last_words(0), None);
        fs::create_dir(job.logs()).unwrap();
        fs::write(job.log(0), "begun\nschedlab: error: the disk is full\n  help: more\n\n").unwrap();
        fs::write(job.log(1), "killed\n").unwrap();
        assert_eq!(job.last_words(0).as_deref(), Some("the disk is full"));
        assert_eq!(job.last_words(1).as_deref(), Some("killed"));
    }

    #[test]
    fn paths_that_slurm_would_change_are_refused() {
        assert!(check_path(Path::new("/a b/it's")).is_ok());
        assert!(["/a\\b", "/a\nb"].iter().all(|path| check_path(Path::new(path)).is_err()));
    }
}
