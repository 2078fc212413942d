//! Output folders in which nothing is ever left half-written.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::LabError;

/// Files on their way into a folder. Each is written under a temporary name; [`commit`]
/// renames them all. Dropped before that, they are removed, and the folder too if it was
/// made for them.
///
/// [`commit`]: Staging::commit
#[derive(Debug)]
pub(crate) struct Staging {
    dir: PathBuf,
    /// The folders that had to be made, the outermost first.
    made: Vec<PathBuf>,
    names: Vec<String>,
}

impl Staging {
    pub(crate) fn new(dir: &Path) -> Result<Self, LabError> {
        let missing = dir
            .ancestors()
            .take_while(|a| !a.as_os_str().is_empty() && !a.exists());
        let mut made: Vec<PathBuf> = missing.map(Path::to_owned).collect();
        made.reverse();
        let staging = Staging {
            dir: dir.to_owned(),
            made,
            names: Vec::new(),
        };
        fs::create_dir_all(dir).map_err(|e| LabError::io("create", dir, e))?;
        Ok(staging)
    }

    /// Writes one file.
    pub(crate) fn write(
        &mut self,
        name: &str,
        content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> Result<(), LabError> {
        let temporary = self.temporary(name);
        self.names.push(name.to_owned());
        let written = File::create(&temporary).and_then(|file| {
            let mut writer = BufWriter::new(file);
            content(&mut writer)?;
            writer.flush()
        });
        written.map_err(|e| LabError::io("write", &self.dir.join(name), e))
    }

    /// Gives every file its name.
    pub(crate) fn commit(mut self) -> Result<(), LabError> {
        while let Some(name) = self.names.last() {
            let path = self.dir.join(name);
            let renamed = fs::rename(self.temporary(name), &path);
            renamed.map_err(|e| LabError::io("write", &path, e))?;
            self.names.pop();
        }
        self.made.clear();
        Ok(())
    }

    fn temporary(&self, name: &str) -> PathBuf {
        self.dir
            .join(format!(".{name}.{}.part", std::process::id()))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        for name in &self.names {
            // It may not have come into being; then there is nothing to remove.
            let _ = fs::remove_file(self.temporary(name));
        }
        for dir in self.made.iter().rev() {
            // Only if it is empty: what others put there stays.
            let _ = fs::remove_dir(dir);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        let mut names: Vec<String> = entries
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn committed_files_appear_together_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("a/b");
        let mut staging = Staging::new(&dir).unwrap();
        staging.write("x", |w| w.write_all(b"1")).unwrap();
        staging.write("y", |w| w.write_all(b"2")).unwrap();
        assert!(!dir.join("x").exists());
        staging.commit().unwrap();
        assert_eq!(entries(&dir), ["x", "y"]);
        assert_eq!(fs::read(dir.join("x")).unwrap(), b"1");
    }

    #[test]
    fn a_failure_leaves_what_was_there_before() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("x"), "old").unwrap();
        let mut staging = Staging::new(root.path()).unwrap();
        staging.write("x", |w| w.write_all(b"new")).unwrap();
        let full = |_: &mut BufWriter<File>| Err(io::Error::other("disk full"));
        let error = staging.write("y", full).unwrap_err();
        let expected = format!(
            "{}: cannot write: disk full",
            root.path().join("y").display()
        );
        assert_eq!(error.to_string(), expected);
        drop(staging);
        assert_eq!(entries(root.path()), ["x"]);
        assert_eq!(fs::read(root.path().join("x")).unwrap(), b"old");

        let fresh = root.path().join("fresh/deep");
        drop(Staging::new(&fresh).unwrap());
        assert_eq!(entries(root.path()), ["x"]);
    }

    #[test]
    fn a_file_in_the_place_of_the_folder_is_an_error_with_its_path() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        fs::write(&path, "").unwrap();
        let error = Staging::new(&path.join("sub")).unwrap_err().to_string();
        assert!(error.contains("file/sub: cannot create"), "{error}");
    }
}
