//! Complete files get their names: first their contents are on the disk, then the name changes.

use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use crate::transfer::claims::Claim;
use crate::transfer::folder::Folder;

/// Most files that are committed together.
const BATCH: usize = 256;
/// From this number of files on, one synchronization of the file system is faster than one a file.
const TOGETHER: usize = 8;

/// A file whose contents are complete, under its temporary name.
#[derive(Debug)]
pub struct Ready {
    /// Number of its offer.
    pub id: u64,
    /// Path.
    pub claim: Arc<Claim>,
    /// The file.
    pub file: File,
    /// Whether and how it gets its name.
    pub naming: Naming,
}

/// Change of the name of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// It has its name already.
    Done,
    /// It replaces the one with its name.
    Replace,
    /// Nothing has its name.
    New,
}

/// Outcome of a batch.
#[derive(Debug, Default)]
pub struct Committed {
    /// Files that got their names.
    pub stored: Vec<u64>,
    /// Files that had their names and contents already.
    pub same: Vec<u64>,
    /// Files that could not get their name, with the reason.
    pub failed: Vec<(u64, String)>,
}

/// Commits files until nobody sends more, and reports each batch. It does not end before, even if
/// nobody hears the reports, so that nothing is written after its end.
pub fn run(folder: &Arc<Folder>, ready: &Receiver<Ready>, mut report: impl FnMut(Committed)) {
    while let Ok(first) = ready.recv() {
        let mut batch = vec![first];
        while batch.len() < BATCH
            && let Ok(next) = ready.try_recv()
        {
            batch.push(next);
        }
        report(commit(folder, batch));
    }
}

fn commit(folder: &Folder, batch: Vec<Ready>) -> Committed {
    let mut outcome = Committed::default();
    let together = batch.len() >= TOGETHER && folder.is_whole() && folder.sync().is_ok();
    for Ready { id, claim, file, naming } in batch {
        let synced = if together { Ok(()) } else { file.sync_all() };
        let named = synced.and_then(|()| match naming {
            Naming::Done => Ok(()),
            Naming::Replace => folder.rename(&claim.path, false),
            Naming::New => folder.rename(&claim.path, true),
        });
        match named {
            Ok(()) if naming == Naming::Done => outcome.same.push(id),
            Ok(()) => outcome.stored.push(id),
            Err(error) => outcome.failed.push((id, error.to_string())),
        }
    }
    outcome
}
