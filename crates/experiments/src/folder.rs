//! The folder of a report: its pages and tables, and the state to continue it.
//!
//! Next to the pages there is a folder `.windward` with `lock`, held by the writing process; a file
//! per experiment with the contents of its section, so that a later run adds to the report; and
//! journals of completed runs, `runs-KEY` for each running or interrupted campaign. A record is
//! appended when its run ends and has a checksum: all records before the first torn one survive. A
//! journal only grows until its campaign is finished, so that starting anew by mistake loses
//! nothing. That of the campaign that finished last is kept as `done-KEY`.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use windward_sim::output::OutputDir;

use crate::ExperimentError;
use crate::journal::{BUILD, CHECKSUM, Journal};

/// Name of the folder for internal files.
const INSIDE: &str = ".windward";
/// Prefix of the names of journals; the key of the campaign follows.
const JOURNAL: &str = "runs-";
/// The same of the journal of the campaign that finished last.
const DONE: &str = "done-";
/// Reason why a folder has a journal when runs are stored.
const OPENED: &str = "a campaign opens its journal before it runs";
/// Mark of our pages, which identifies their folder.
pub const GENERATOR: &str = "<meta name=\"generator\" content=\"windward\">";
/// The same mark in earlier versions.
const EARLIER: &str = "Made by windward ";

/// A folder that only this process writes to.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    inside: PathBuf,
    journal: Option<(u64, Journal)>,
    /// True once it has permanent contents.
    used: bool,
    /// Folders that did not exist before, the innermost first.
    made: Vec<PathBuf>,
    _lock: File,
}

impl Folder {
    /// Opens or creates the folder, for this process alone.
    ///
    /// # Errors
    /// If it cannot be opened, another process has it, or it contains a page that is not ours.
    pub fn open(path: &Path) -> Result<Self, ExperimentError> {
        let not_ours = |message: String| ExperimentError::Folder { path: path.to_owned(), message };
        if path.exists() && !path.is_dir() {
            return Err(not_ours(
                "is a file, and the report is a folder: choose another with --out".to_owned(),
            ));
        }
        if !path.exists() && path.is_symlink() {
            return Err(not_ours(
                "is a broken symbolic link: create its target, or choose another folder \
                 with --out"
                    .to_owned(),
            ));
        }
        let missing = path.ancestors().take_while(|p| !p.as_os_str().is_empty() && !p.exists());
        let mut made: Vec<PathBuf> = missing.map(Path::to_owned).collect();
        let inside = path.join(INSIDE);
        if !inside.exists() {
            made.insert(0, inside.clone());
        }
        check_page(&path.join("index.html"))?;
        fs::create_dir_all(&inside).map_err(|e| ExperimentError::io("create", &inside, e))?;
        let lock_path = inside.join("lock");
        let lock = hold(&lock_path, path, "choose another folder with --out")?;
        let path = path.to_owned();
        Ok(Folder { path, inside, journal: None, used: false, made, _lock: lock })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The sections of earlier runs of this build, in the order of their names. Those of another
    /// build, whose runs may differ, and torn ones are left out.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn sections<T: DeserializeOwned>(&self) -> Result<Vec<T>, ExperimentError> {
        let mut paths = sections(&self.path)
            .map_err(|e| ExperimentError::io("read", &self.inside, e))?
            .collect::<Vec<PathBuf>>();
        paths.sort();
        let mut readable = Vec::new();
        for path in paths {
            let bytes = fs::read(&path).map_err(|e| ExperimentError::io("read", &path, e))?;
            let section = of_this_build(&bytes);
            readable.extend(
                section.and_then(|s| postcard::from_bytes_crc32(s, CHECKSUM.digest()).ok()),
            );
        }
        Ok(readable)
    }

    /// Stores the section of an experiment for later runs.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn keep(&mut self, id: &str, section: &impl Serialize) -> Result<(), ExperimentError> {
        let path = self.inside.join(format!("{id}.section"));
        let fail = |e: postcard::Error| ExperimentError::io("write", &path, io::Error::other(e));
        let mut bytes = postcard::to_stdvec(BUILD).map_err(fail)?;
        bytes.extend(postcard::to_stdvec_crc32(section, CHECKSUM.digest()).map_err(fail)?);
        self.used = true;
        let mut dir = OutputDir::create(&self.inside)?;
        dir.write(&format!("{id}.section"), |out| out.write_all(&bytes))?;
        Ok(dir.commit()?)
    }

    /// Staging for tables and pages, which appear when it is committed.
    pub fn output(&mut self) -> Result<OutputDir, ExperimentError> {
        self.used = true;
        Ok(OutputDir::create(&self.path)?)
    }

    /// Checks that all of these pages may be written.
    ///
    /// # Errors
    /// If one of them is not ours.
    pub fn check_pages(&self, names: &[String]) -> Result<(), ExperimentError> {
        names.iter().try_for_each(|name| check_page(&self.path.join(name)))
    }

    /// Removes files of earlier runs of an experiment that this one has not written.
    pub fn remove_stale(&self, names: &[String]) -> Result<(), ExperimentError> {
        for name in names {
            let path = self.path.join(name);
            match fs::remove_file(&path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(ExperimentError::io("remove", &path, e));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes pages, never over one that is not ours.
    pub fn write_pages(&mut self, pages: &[(String, String)]) -> Result<(), ExperimentError> {
        let mut dir = self.output()?;
        for (name, page) in pages {
            check_page(&self.path.join(name))?;
            dir.write(name, |out| out.write_all(page.as_bytes()))?;
        }
        Ok(dir.commit()?)
    }

    /// Opens the journal of the campaign with that key. With `resume`, returns the runs that
    /// earlier attempts finished, also if they were all.
    ///
    /// # Errors
    /// If there is nothing to resume, or the interrupted campaign is another one.
    pub fn journal<T: DeserializeOwned>(
        &mut self,
        key: u64,
        resume: bool,
    ) -> Result<Vec<T>, ExperimentError> {
        let name = format!("{JOURNAL}{key:016x}");
        let path = self.inside.join(&name);
        let done = self.done(key);
        if resume && !path.exists() && done.exists() {
            fs::rename(&done, &path).map_err(|e| ExperimentError::io("rename", &done, e))?;
        }
        let (journal, records): (_, Vec<T>) = Journal::open(path.clone(), key)?;
        if resume && records.is_empty() {
            let message = match journals(&self.path).any(|other| other != path) {
                true => {
                    "another run was interrupted in this folder (other experiments, effort, values or \
                     version): repeat its command with --resume, or begin anew without"
                }
                false => "there is nothing to resume: no run was interrupted here",
            };
            return Err(ExperimentError::Folder {
                path: self.path.clone(),
                message: message.to_owned(),
            });
        }
        self.journal = Some((key, journal));
        Ok(if resume { records } else { Vec::new() })
    }

    /// Stores a completed run.
    ///
    /// # Panics
    /// If no journal was opened.
    pub fn record(&mut self, record: &impl Serialize) -> Result<(), ExperimentError> {
        self.used = true;
        self.journal.as_mut().expect(OPENED).1.write(record)
    }

    /// Closes the journal once everything is written, in the place of that of the campaign before.
    ///
    /// # Panics
    /// If no journal was opened.
    pub fn finish(mut self) -> Result<(), ExperimentError> {
        let (key, journal) = self.journal.take().expect(OPENED);
        for earlier in files(&self.path, DONE) {
            fs::remove_file(&earlier).map_err(|e| ExperimentError::io("remove", &earlier, e))?;
        }
        journal.rename(&self.done(key))
    }

    fn done(&self, key: u64) -> PathBuf {
        self.inside.join(format!("{DONE}{key:016x}"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.used {
            // Nothing was written: remove the new folders. A folder with files in it stays.
            if self.made.contains(&self.inside) {
                let _ = fs::remove_file(self.inside.join("lock"));
            }
            for folder in &self.made {
                let _ = fs::remove_dir(folder);
            }
        }
    }
}

/// The internal files of a folder whose names begin like that.
fn files(folder: &Path, prefix: &str) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder.join(INSIDE)).into_iter().flatten();
    let paths = entries.filter_map(|e| Some(e.ok()?.path()));
    paths.filter(move |path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))
    })
}

/// The journals of all interrupted campaigns in a folder.
fn journals(folder: &Path) -> impl Iterator<Item = PathBuf> {
    files(folder, JOURNAL)
}

/// True if the folder of a report has an interrupted campaign that can be resumed.
pub fn is_resumable(folder: &Path) -> bool {
    journals(folder).next().is_some()
}

/// The files with the sections of earlier runs in the folder of a report.
fn sections(folder: &Path) -> io::Result<impl Iterator<Item = PathBuf>> {
    let entries = fs::read_dir(folder.join(INSIDE))?;
    let paths = entries.filter_map(|e| Some(e.ok()?.path()));
    Ok(paths.filter(|path| path.extension().is_some_and(|e| e == "section")))
}

/// The contents of a section if this build wrote it.
fn of_this_build(bytes: &[u8]) -> Option<&[u8]> {
    let (build, section): (&str, &[u8]) = postcard::take_from_bytes(bytes).ok()?;
    (build == BUILD).then_some(section)
}

/// The experiments in the folder of a report that another build of windward ran, sorted. A run of
/// this build leaves them out of the pages that it writes; their tables remain.
pub fn experiments_of_other_builds(folder: &Path) -> Vec<String> {
    let of_another = |path: &PathBuf| fs::read(path).is_ok_and(|b| of_this_build(&b).is_none());
    let others = sections(folder).into_iter().flatten().filter(of_another);
    let name = |path: PathBuf| path.file_stem().map(|name| name.to_string_lossy().into_owned());
    let mut names: Vec<String> = others.filter_map(name).collect();
    names.sort();
    names
}

/// Locks that file for writing into `folder`. The lock lasts as long as the returned file.
///
/// # Errors
/// If another process has it (the error names `otherwise` as the remedy), or it cannot be created.
pub fn hold(lock_path: &Path, folder: &Path, otherwise: &str) -> Result<File, ExperimentError> {
    let lock = OpenOptions::new().create(true).append(true).open(lock_path);
    let lock = lock.map_err(|e| ExperimentError::io("write", lock_path, e))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(ExperimentError::Folder {
            path: folder.to_owned(),
            message: format!("another windward is writing into it: wait for it, or {otherwise}"),
        }),
        Err(TryLockError::Error(e)) => Err(ExperimentError::io("lock", lock_path, e)),
    }
}

/// Verifies that there is no page, or one of ours.
fn check_page(path: &Path) -> Result<(), ExperimentError> {
    let text = match fs::read(path) {
        Ok(bytes) => bytes,
        // Without a folder there is no page; its creation reports other errors.
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(());
        }
        Err(e) => return Err(ExperimentError::io("read", path, e)),
    };
    let text = String::from_utf8_lossy(&text);
    if text.contains(GENERATOR) || text.contains(EARLIER) {
        return Ok(());
    }
    Err(ExperimentError::Folder {
        path: path.to_owned(),
        message:
            "this page is not a report of windward and stays as it is: move it away, or choose \
                  another folder with --out"
                .to_owned(),
    })
}
