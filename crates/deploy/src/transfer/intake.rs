//! The receiver's side of a transfer, without a network: offers and frames in, files out.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use crate::clock;
use crate::error::{Error, Result};
use crate::sync::lock;
use crate::transfer::blocks::{ABSENT, Blocks, Hash, MAX_SIZE};
use crate::transfer::claims::{Claim, Claimant};
use crate::transfer::commit::{Committed, Naming, Ready};
use crate::transfer::folder::{self, Folder};
use crate::transfer::path::{RelPath, check_link};
use crate::transfer::walk::Mark;
use crate::transfer::wire::{
    Entry, Frame, HASHES, Kind, MAX_LARGE, MAX_OPEN, MAX_OPEN_PATHS, Part, Stamp,
};

/// A part of a file that is copied at once, bytes.
const COPY: u64 = 64 << 20;
/// Longest time for which hashes wait for others of the same message.
const GATHERED: Duration = Duration::from_secs(1);
/// Messages that a sender may send before and beyond those that its offers need.
const SPARE: u64 = 64;
/// Messages that an offer needs at most: its own, its end, and the properties of a folder.
const PER_OFFER: u64 = 3;

/// Answers to a message with offers.
#[derive(Debug, Default)]
pub struct Answers {
    /// Files whose whole contents are needed.
    pub want: Vec<u64>,
    /// Files that can begin from what is there: see [`Intake::compare`].
    pub compare: Vec<u64>,
    /// Entries that were there already.
    pub same: Vec<u64>,
    /// Entries that are stored.
    pub stored: Vec<u64>,
    /// Entries that cannot be stored, with the reason.
    pub failed: Vec<(u64, String)>,
}

/// Counts of a transfer, read while it runs.
#[derive(Debug, Default)]
pub struct Counts {
    /// Entries offered.
    pub offered: AtomicU64,
    /// Entries stored.
    pub stored: AtomicU64,
    /// Entries that were there already.
    pub same: AtomicU64,
    /// Entries that could not be stored.
    pub failed: AtomicU64,
    /// Bytes of contents that arrived, without headers.
    pub bytes: AtomicU64,
}

/// The receiver's side of a transfer.
#[derive(Debug)]
pub struct Intake {
    folder: Arc<Folder>,
    claimant: Claimant,
    dry_run: bool,
    checksum: bool,
    table: Mutex<Table>,
    ready: SyncSender<Ready>,
    /// True when the session is over: work ends, wherever it is.
    is_over: AtomicBool,
    /// Rises with each step of the protocol.
    steps: AtomicU64,
    /// Counts.
    pub counts: Counts,
}

#[derive(Debug, Default)]
struct Table {
    open: HashMap<u64, Arc<Slot>>,
    /// Offers below this number were made.
    next: u64,
    /// Their paths.
    names: HashSet<RelPath>,
    /// Sum of the lengths of their paths.
    paths: usize,
    /// Number of open files that have a temporary file open.
    large: usize,
    /// Messages that the sender may still send.
    messages: u64,
    /// Bytes of frames that may still arrive of files that have an outcome.
    late: u64,
}

/// A file that is on its way.
#[derive(Debug)]
struct Slot {
    claim: Arc<Claim>,
    mode: u16,
    changed: Stamp,
    blocks: Blocks,
    /// True if nothing had this name when it was offered.
    is_new: bool,
    state: Mutex<State>,
}

impl Slot {
    fn naming(&self) -> Naming {
        if self.is_new { Naming::New } else { Naming::Replace }
    }
}

#[derive(Debug, Default)]
struct State {
    base: Base,
    /// The file that has the base, before it was hashed.
    mark: Option<Mark>,
    file: Option<Arc<File>>,
    /// True if the temporary file was made by this transfer, and is zero where nothing was written.
    fresh: bool,
    /// Hashes of the blocks of a file with several.
    hashes: Vec<Option<Hash>>,
    /// True after the sender was asked for the contents: all, or the blocks that differ.
    is_asked: bool,
    /// Blocks of which a part arrived.
    begun: Vec<bool>,
    /// Number of blocks that arrived.
    arrived: u32,
    /// True if the contents are complete, or given up.
    is_done: bool,
    /// The hash of the file and the number of blocks that were sent, if the sender said so.
    finish: Option<(Hash, u32)>,
}

/// The file from which a transfer begins.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Base {
    #[default]
    Nothing,
    /// The temporary file of an earlier transfer.
    Temporary,
    /// The file with the final name.
    Final,
}

/// True for errors that would meet every other file too.
fn is_general(error: &io::Error) -> bool {
    const GENERAL: [Errno; 4] = [Errno::NOSPC, Errno::DQUOT, Errno::ROFS, Errno::IO];
    error
        .raw_os_error()
        .is_some_and(|code| GENERAL.iter().any(|errno| errno.raw_os_error() == code))
}

/// True for errors of a temporary file in whose place another one can be made.
fn is_replaceable(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
}

/// Neither a file, a folder nor a link.
const OTHER: &str = "something else with this name is there";

fn vanished() -> io::Error {
    io::Error::other("it vanished")
}

fn mark(file: &File) -> io::Result<Mark> {
    Ok(Mark::of(&rustix::fs::fstat(file)?))
}

/// Checks that the file from which a transfer begins is the one that was hashed, and is as it was.
fn check(state: &State, file: &File) -> io::Result<()> {
    if state.mark == Some(mark(file)?) {
        return Ok(());
    }
    Err(io::Error::other("it changed meanwhile: send it again when nothing writes to it"))
}

fn violation(what: &str) -> Error {
    Error::Peer(format!("the sender violates the protocol: {what}"))
}

impl Intake {
    /// A transfer into a folder. Complete files go to `ready`.
    pub fn new(
        folder: Arc<Folder>,
        claimant: Claimant,
        dry_run: bool,
        checksum: bool,
        ready: SyncSender<Ready>,
    ) -> Self {
        folder.forget();
        Intake {
            folder,
            claimant,
            dry_run,
            checksum,
            table: Mutex::new(Table { messages: SPARE, ..Table::default() }),
            ready,
            is_over: AtomicBool::new(false),
            steps: AtomicU64::new(0),
            counts: Counts::default(),
        }
    }

    /// Ends all work of this session, which may be on other threads.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    fn must_go_on(&self) -> io::Result<()> {
        match self.is_over.load(Ordering::Relaxed) {
            // Not `Interrupted`, which means to try again.
            true => Err(io::Error::other("the transfer has ended")),
            false => Ok(()),
        }
    }

    /// Counts a step of the protocol, or of the own work for it.
    pub fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of steps.
    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// Counts a message with so many parts that count.
    ///
    /// # Errors
    ///
    /// If the sender says more than its offers need.
    pub fn hear(&self, parts: usize) -> Result<()> {
        self.step();
        let mut table = lock(&self.table);
        let left = table.messages.checked_sub(1 + parts as u64);
        table.messages = left.ok_or_else(|| violation("more messages than its offers need"))?;
        Ok(())
    }

    /// Takes offers in, makes folders and links, and tells what is needed of the files.
    ///
    /// # Errors
    ///
    /// If the peer violates the protocol, or the disk refuses everything.
    pub fn offer(&self, entries: Vec<Entry>) -> Result<Answers> {
        let mut answers = Answers::default();
        for entry in entries {
            let id = entry.id;
            if self.must_go_on().is_err() {
                return Err(Error::Interrupted);
            }
            {
                let mut table = lock(&self.table);
                if id < table.next || id == u64::MAX {
                    return Err(violation("the numbers of offers must rise"));
                }
                table.next = id + 1;
                // One more for each block that is only compared.
                let blocks = match entry.kind {
                    Kind::File { size, .. } => u64::from(Blocks::of(size.min(MAX_SIZE)).count()),
                    _ => 0,
                };
                table.messages = table.messages.saturating_add(PER_OFFER + blocks);
            }
            self.counts.offered.fetch_add(1, Ordering::Relaxed);
            let path = match RelPath::parse(&entry.path) {
                Ok(path) => path,
                Err(why) => {
                    answers.failed.push((id, why.to_owned()));
                    continue;
                }
            };
            match self.consider(&path, &entry, &mut answers) {
                Ok(()) => {}
                Err(error) if is_general(&error) && !self.dry_run => {
                    return Err(Error::file(self.folder.at(&path), "cannot write")(error));
                }
                Err(error) => answers.failed.push((id, error.to_string())),
            }
        }
        let count =
            |counter: &AtomicU64, by: usize| counter.fetch_add(by as u64, Ordering::Relaxed);
        if !self.dry_run {
            count(&self.counts.stored, answers.stored.len());
        }
        count(&self.counts.same, answers.same.len());
        count(&self.counts.failed, answers.failed.len());
        let table = lock(&self.table);
        if table.open.len() > MAX_OPEN || table.paths > MAX_OPEN_PATHS {
            return Err(violation("too many offers without an outcome"));
        }
        Ok(answers)
    }

    fn consider(&self, path: &RelPath, entry: &Entry, answers: &mut Answers) -> io::Result<()> {
        if entry.changed.nanos >= 1_000_000_000 {
            return Err(io::Error::other("its time is invalid"));
        }
        let there = self.folder.look(path)?;
        match entry.kind {
            Kind::Folder => self.consider_folder(path, entry, there.as_ref(), answers),
            Kind::Link { ref target } => {
                self.consider_link(path, entry, target, there.as_ref(), answers)
            }
            Kind::File { size, space } => {
                self.consider_file(path, entry, (size, space), there.as_ref(), answers)
            }
        }
    }

    fn consider_folder(
        &self,
        path: &RelPath,
        entry: &Entry,
        there: Option<&Stat>,
        answers: &mut Answers,
    ) -> io::Result<()> {
        match there {
            Some(stat) if folder::file_type(stat) == FileType::Directory => {
                if !self.dry_run {
                    self.folder.open_up(path, stat)?;
                }
                answers.same.push(entry.id);
            }
            Some(_) => return Err(io::Error::other("a file with this name is there")),
            None => {
                if !self.dry_run {
                    self.folder.make(path, entry.mode)?;
                }
                answers.stored.push(entry.id);
            }
        }
        Ok(())
    }

    fn consider_link(
        &self,
        path: &RelPath,
        entry: &Entry,
        target: &[u8],
        there: Option<&Stat>,
        answers: &mut Answers,
    ) -> io::Result<()> {
        check_link(path, target).map_err(io::Error::other)?;
        match there.map(folder::file_type) {
            Some(FileType::Symlink) if self.folder.link_target(path)? == target => {
                answers.same.push(entry.id);
            }
            None | Some(FileType::Symlink | FileType::RegularFile) => {
                let _claim = self.claimant.claim(path)?;
                if !self.dry_run {
                    self.folder.link(path, target, entry.changed)?;
                }
                answers.stored.push(entry.id);
            }
            Some(_) => return Err(io::Error::other(OTHER)),
        }
        Ok(())
    }

    fn consider_file(
        &self,
        path: &RelPath,
        entry: &Entry,
        (size, space): (u64, u64),
        there: Option<&Stat>,
        answers: &mut Answers,
    ) -> io::Result<()> {
        if size > MAX_SIZE {
            return Err(io::Error::other("no file can have this size"));
        }
        let claim = self.claimant.claim(path)?;
        let file = match there.map(|stat| (folder::file_type(stat), stat)) {
            None | Some((FileType::Symlink, _)) => None,
            Some((FileType::RegularFile, stat)) => Some(stat),
            Some((FileType::Directory, _)) => {
                return Err(io::Error::other("a folder with this name is there"));
            }
            Some(_) => return Err(io::Error::other(OTHER)),
        };
        let mode = self.folder.mode(path, entry.mode, file);
        if let Some(stat) = file
            && !self.checksum
            && (stat.st_size as u64, folder::changed(stat)) == (size, entry.changed)
        {
            self.keep(path, stat, mode, entry.changed)?;
            answers.same.push(entry.id);
            return Ok(());
        }
        let blocks = Blocks::of(size);
        let base = self.base(path, blocks, file.is_some())?;
        let is_asked = base == Base::Nothing;
        if is_asked && size.min(space) > self.folder.free() {
            return Err(io::Error::other(format!(
                "it needs {} bytes, and the disk has {} free",
                size.min(space),
                self.folder.free()
            )));
        }
        let state = Mutex::new(State { base, is_asked, ..State::default() });
        let changed = entry.changed;
        let slot = Slot { claim, mode, changed, blocks, is_new: there.is_none(), state };
        let mut table = lock(&self.table);
        if !table.names.insert(path.clone()) {
            return Err(io::Error::other("it is offered twice at once"));
        }
        table.paths += path.bytes().len();
        table.open.insert(entry.id, Arc::new(slot));
        let list = if is_asked { &mut answers.want } else { &mut answers.compare };
        list.push(entry.id);
        Ok(())
    }

    /// Keeps a file that is there, with the permissions that it is to have.
    fn keep(&self, path: &RelPath, stat: &Stat, mode: u16, changed: Stamp) -> io::Result<()> {
        if self.dry_run {
            return Ok(());
        }
        if (stat.st_mode & 0o777) as u16 != mode
            && let Some(file) = self.folder.open_file(path)?
        {
            folder::dress(&file, mode, changed)?;
        }
        // An ended attempt may have left one.
        self.folder.discard(path);
        Ok(())
    }

    /// The file from which a file can begin, if that pays.
    fn base(&self, path: &RelPath, blocks: Blocks, is_there: bool) -> io::Result<Base> {
        // A small file is sent faster than compared.
        if blocks.is_single() && !(self.checksum && is_there) {
            return Ok(Base::Nothing);
        }
        if !blocks.is_single() {
            match self.folder.open_earlier(path) {
                Ok(Some(file)) if file.metadata()?.len() > 0 => return Ok(Base::Temporary),
                Ok(_) => {}
                Err(error) if is_replaceable(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(if is_there { Base::Final } else { Base::Nothing })
    }

    fn slot(&self, id: u64) -> Result<Option<Arc<Slot>>> {
        let table = lock(&self.table);
        if id >= table.next {
            return Err(violation("data of a file that was not offered"));
        }
        // Data of a file that was withdrawn or failed may still be on its way.
        Ok(table.open.get(&id).map(Arc::clone))
    }

    /// Hashes the blocks of the file from which an offered one begins, and emits them in order.
    ///
    /// # Errors
    ///
    /// The number of the offer and the reason, if the file cannot be read.
    pub fn compare(
        &self,
        id: u64,
        mut emit: impl FnMut(Vec<Hash>) -> bool,
    ) -> Result<(), (u64, String)> {
        let Ok(Some(slot)) = self.slot(id) else { return Ok(()) };
        let failed = |error: io::Error| {
            self.forget(id);
            self.counts.failed.fetch_add(1, Ordering::Relaxed);
            (id, error.to_string())
        };
        let base = lock(&slot.state).base;
        let file = match base {
            Base::Temporary => self.folder.open_earlier(&slot.claim.path),
            _ => self.folder.open_file(&slot.claim.path),
        };
        let file = file.map_err(failed)?;
        let file = file.ok_or_else(|| failed(vanished()))?;
        let length = file.metadata().map_err(failed)?.len();
        lock(&slot.state).mark = Some(mark(&file).map_err(failed)?);
        let count = slot.blocks.count();
        let mut pending = Vec::with_capacity(HASHES.min(count as usize));
        let mut since = clock::now();
        for index in 0..count {
            // A block that reaches beyond the end of the file has no hash.
            let is_there = slot.blocks.start(index) + slot.blocks.len(index) <= length;
            let read = || slot.blocks.read(&file, index, || self.must_go_on());
            let hash = is_there.then(read).transpose().map_err(failed)?;
            let is_last = index + 1 == count;
            {
                let mut state = lock(&slot.state);
                if !slot.blocks.is_single() {
                    state.hashes.resize(count as usize, None);
                    state.hashes[index as usize] = hash;
                }
                // The answer may be faster than the next line.
                state.is_asked |= is_last;
            }
            pending.push(hash.unwrap_or(ABSENT));
            let is_due = pending.len() == HASHES || clock::now().duration_since(since) >= GATHERED;
            if is_due || is_last {
                if !emit(std::mem::take(&mut pending)) {
                    break;
                }
                since = clock::now();
                self.step();
            }
        }
        Ok(())
    }

    /// The temporary file of a file with several blocks, open for writing.
    fn writable(&self, slot: &Slot, state: &mut State) -> io::Result<Arc<File>> {
        if let Some(file) = &state.file {
            return Ok(Arc::clone(file));
        }
        {
            let mut table = lock(&self.table);
            if table.large >= MAX_LARGE {
                return Err(io::Error::other("too many large files at once"));
            }
            table.large += 1;
        }
        let file = self.prepare(slot, state).inspect_err(|_| lock(&self.table).large -= 1)?;
        state.fresh = state.base == Base::Nothing;
        if state.hashes.is_empty() {
            state.hashes = vec![None; slot.blocks.count() as usize];
        }
        let file = Arc::new(file);
        state.file = Some(Arc::clone(&file));
        Ok(file)
    }

    /// A temporary file with what the transfer begins from.
    fn prepare(&self, slot: &Slot, state: &State) -> io::Result<File> {
        if state.base == Base::Temporary {
            let file = self.folder.open_earlier(&slot.claim.path)?.ok_or_else(vanished)?;
            check(state, &file)?;
            file.set_len(slot.blocks.size)?;
            return Ok(file);
        }
        let file = self.folder.make_temporary(&slot.claim.path)?;
        if state.base == Base::Final {
            let old = self.folder.open_file(&slot.claim.path)?.ok_or_else(vanished)?;
            let mut left = slot.blocks.size;
            while left > 0 {
                self.must_go_on()?;
                // The kernel shares the blocks where the file system can.
                let copied = io::copy(&mut (&old).take(left.min(COPY)), &mut &file)?;
                if copied == 0 {
                    break;
                }
                left -= copied;
            }
            check(state, &old)?;
        }
        file.set_len(slot.blocks.size)?;
        Ok(file)
    }

    /// Counts a frame of a file that was withdrawn or failed, and may have been on its way.
    fn pass_late(&self, bytes: u64) -> Result<()> {
        let mut table = lock(&self.table);
        let left = table.late.checked_sub(bytes);
        table.late = left.ok_or_else(|| violation("more data than it was asked for"))?;
        Ok(())
    }

    /// Forgets an offer that has an outcome; false if it was forgotten already.
    pub fn forget(&self, id: u64) -> bool {
        let removed = {
            let mut table = lock(&self.table);
            let removed = table.open.remove(&id);
            if let Some(slot) = &removed {
                table.paths -= slot.claim.path.bytes().len();
                table.names.remove(&slot.claim.path);
                table.late = table.late.saturating_add(slot.blocks.most_frames());
            }
            removed
        };
        // The state is locked before the table elsewhere.
        if let Some(slot) = &removed {
            let mut state = lock(&slot.state);
            state.is_done = true;
            if state.file.take().is_some() {
                lock(&self.table).large -= 1;
            }
        }
        removed.is_some()
    }

    /// Notes the outcome of complete files.
    pub fn committed(&self, batch: &Committed) {
        self.step();
        let failed = batch.failed.iter().map(|(id, _)| id);
        for id in batch.stored.iter().chain(&batch.same).chain(failed) {
            self.forget(*id);
        }
        self.counts.stored.fetch_add(batch.stored.len() as u64, Ordering::Relaxed);
        self.counts.same.fetch_add(batch.same.len() as u64, Ordering::Relaxed);
        self.counts.failed.fetch_add(batch.failed.len() as u64, Ordering::Relaxed);
    }

    /// Number of offers without an outcome.
    pub fn open(&self) -> usize {
        lock(&self.table).open.len()
    }

    /// Takes the end of a file with several blocks, or of one that needs no data.
    ///
    /// # Errors
    ///
    /// If the peer violates the protocol. The inner error is the failure of this file.
    pub fn finish(&self, id: u64, hash: Hash, sent: u32) -> Result<Result<(), (u64, String)>> {
        let Some(slot) = self.slot(id)? else { return Ok(Ok(())) };
        {
            let mut state = lock(&slot.state);
            if !state.is_asked {
                return Err(violation("the end of a file that nobody asked for"));
            }
            if state.finish.replace((hash, sent)).is_some() {
                return Err(violation("the end of a file twice"));
            }
        }
        Ok(self.settle(id, &slot))
    }

    /// Completes a file if nothing of it is missing.
    fn settle(&self, id: u64, slot: &Slot) -> Result<(), (u64, String)> {
        let outcome = (|| -> io::Result<Option<(File, Naming)>> {
            let mut state = lock(&slot.state);
            let Some((hash, sent)) = state.finish else { return Ok(None) };
            if state.arrived < sent || state.is_done {
                return Ok(None);
            }
            state.is_done = true;
            if !slot.blocks.is_single() {
                let hashes: Option<Vec<Hash>> = state.hashes.iter().copied().collect();
                let hashes = hashes.filter(|hashes| hashes.len() == slot.blocks.count() as usize);
                if hashes.is_none_or(|hashes| Blocks::root(&hashes) != hash) {
                    return Err(io::Error::other(
                        "its contents do not have the hash that the sender states",
                    ));
                }
            }
            if self.dry_run {
                return Err(io::Error::other("nothing is written in a dry run"));
            }
            if state.arrived == 0 && state.base == Base::Final {
                let file = self.folder.open_file(&slot.claim.path)?;
                let file = file.ok_or_else(vanished)?;
                check(&state, &file)?;
                // Its blocks may be equal as far as they go, and the file longer or shorter.
                if file.metadata()?.len() == slot.blocks.size {
                    return Ok(Some((file, Naming::Done)));
                }
            }
            if slot.blocks.is_single() {
                return Err(io::Error::other("its contents are missing"));
            }
            let file = self.writable(slot, &mut state)?;
            Ok(Some((file.try_clone()?, slot.naming())))
        })();
        match outcome {
            Ok(None) => Ok(()),
            Ok(Some((file, naming))) => {
                if let Err(error) = folder::dress(&file, slot.mode, slot.changed) {
                    return self.fail(id, &error).map_or(Ok(()), Err);
                }
                let claim = Arc::clone(&slot.claim);
                let _ = self.ready.send(Ready { id, claim, file, naming });
                Ok(())
            }
            Err(error) => self.fail(id, &error).map_or(Ok(()), Err),
        }
    }

    /// Notes a failure, once for each file: two streams may fail at it.
    fn fail(&self, id: u64, error: &io::Error) -> Option<(u64, String)> {
        self.forget(id).then(|| {
            self.counts.failed.fetch_add(1, Ordering::Relaxed);
            (id, error.to_string())
        })
    }

    /// Sets permissions and times of folders.
    pub fn dress(&self, entries: Vec<Entry>) -> Vec<(u64, String)> {
        let mut failed = Vec::new();
        for entry in entries {
            if self.dry_run || self.must_go_on().is_err() {
                continue;
            }
            let done = RelPath::parse(&entry.path)
                .map_err(io::Error::other)
                .and_then(|path| self.folder.dress(&path, entry.mode, entry.changed));
            if let Err(error) = done {
                let name = String::from_utf8_lossy(&entry.path).into_owned();
                failed.push((entry.id, format!("{name}: permissions and time: {error}")));
            }
        }
        failed
    }

    /// Waits until everything stored is on the disk.
    pub fn sync(&self) -> Result<()> {
        if self.dry_run {
            return Ok(());
        }
        self.folder.sync().map_err(Error::file(self.folder.path(), "cannot write"))
    }
}

/// The frames of one data stream.
#[derive(Debug, Default)]
pub struct Inlet {
    current: Option<Current>,
}

/// The block whose parts arrive.
#[derive(Debug)]
struct Current {
    id: u64,
    index: u32,
    next: u64,
    hasher: blake3::Hasher,
}

impl Current {
    /// Begins a block that the sender was asked for.
    fn begin(slot: &Slot, id: u64, index: u32, offset: u64) -> Result<Self, Failure> {
        if index >= slot.blocks.count() || offset != slot.blocks.start(index) {
            return Err(Failure::Violation("a block that does not begin at its beginning"));
        }
        let mut state = lock(&slot.state);
        if !state.is_asked {
            return Err(Failure::Violation("data that nobody asked for"));
        }
        state.begun.resize(slot.blocks.count() as usize, false);
        if std::mem::replace(&mut state.begun[index as usize], true) {
            return Err(Failure::Violation("a block twice"));
        }
        Ok(Current { id, index, next: offset, hasher: slot.blocks.hasher(index) })
    }
}

impl Inlet {
    /// Takes the complete frames at the beginning of some bytes, and returns their length and the
    /// files that failed.
    ///
    /// # Errors
    ///
    /// If the peer violates the protocol, or the disk refuses everything.
    pub fn feed(&mut self, intake: &Intake, bytes: &[u8]) -> Result<(usize, Vec<(u64, String)>)> {
        let mut used = 0;
        let mut failed = Vec::new();
        while let Some((frame, header)) = Frame::take(&bytes[used..])? {
            let tail = frame.part.tail() as usize;
            let Some(body) = bytes[used + header..].get(..tail) else { break };
            used += header + tail;
            if intake.must_go_on().is_err() {
                return Err(Error::Interrupted);
            }
            let Some(slot) = intake.slot(frame.id)? else {
                self.current = None;
                intake.pass_late((header + tail) as u64)?;
                continue;
            };
            match self.take(intake, frame, &slot, body) {
                Ok(()) => {}
                // It has failed on another stream, or was withdrawn, a moment ago.
                Err(Failure::Violation(_)) if intake.slot(frame.id)?.is_none() => {
                    self.current = None;
                    intake.pass_late((header + tail) as u64)?;
                }
                Err(Failure::Violation(what)) => return Err(violation(what)),
                Err(Failure::File(error)) if is_general(&error) => {
                    return Err(Error::file(intake.folder.at(&slot.claim.path), "cannot write")(
                        error,
                    ));
                }
                Err(Failure::File(error)) => failed.extend(intake.fail(frame.id, &error)),
                Err(Failure::Settled(id, why)) => failed.push((id, why)),
            }
        }
        Ok((used, failed))
    }

    fn take(
        &mut self,
        intake: &Intake,
        frame: Frame,
        slot: &Slot,
        body: &[u8],
    ) -> Result<(), Failure> {
        if intake.dry_run {
            return Err(Failure::Violation("data in a dry run"));
        }
        let id = frame.id;
        match frame.part {
            Part::Whole(length) => {
                if !slot.blocks.is_single() || length != slot.blocks.size {
                    return Err(Failure::Violation("a file with another size than offered"));
                }
                let (data, hash) = body.split_at(length as usize);
                if blake3::hash(data) != <Hash>::try_from(hash).unwrap_or_default() {
                    return Err(Failure::Violation("contents that do not have their hash"));
                }
                {
                    let mut state = lock(&slot.state);
                    if !state.is_asked {
                        return Err(Failure::Violation("data that nobody asked for"));
                    }
                    if std::mem::replace(&mut state.is_done, true) {
                        return Err(Failure::Violation("a file twice"));
                    }
                }
                let file = intake.folder.make_temporary(&slot.claim.path)?;
                file.write_all_at(data, 0)?;
                folder::dress(&file, slot.mode, slot.changed)?;
                intake.counts.bytes.fetch_add(length, Ordering::Relaxed);
                let claim = Arc::clone(&slot.claim);
                let ready = Ready { id, claim, file, naming: slot.naming() };
                let _ = intake.ready.send(ready);
                Ok(())
            }
            Part::Data(offset, length) => self.write(intake, slot, id, offset, length, Some(body)),
            Part::Zeros(offset, length) => self.write(intake, slot, id, offset, length, None),
            Part::End(index) => {
                let current = self.current.take();
                let current = current.filter(|c| c.id == id && c.index == index);
                let Some(current) = current else {
                    return Err(Failure::Violation("the end of another block"));
                };
                if current.next != slot.blocks.start(index) + slot.blocks.len(index) {
                    return Err(Failure::Violation("a block that is not whole"));
                }
                let hash = Blocks::finish(&current.hasher);
                if hash[..] != *body {
                    return Err(Failure::Violation("contents that do not have their hash"));
                }
                {
                    let mut state = lock(&slot.state);
                    state.arrived = state.arrived.saturating_add(1);
                    if let Some(place) = state.hashes.get_mut(index as usize) {
                        *place = Some(hash);
                    }
                }
                intake.settle(id, slot).map_err(|(id, why)| Failure::Settled(id, why))
            }
        }
    }

    fn write(
        &mut self,
        intake: &Intake,
        slot: &Slot,
        id: u64,
        offset: u64,
        length: u64,
        data: Option<&[u8]>,
    ) -> Result<(), Failure> {
        if slot.blocks.is_single() {
            return Err(Failure::Violation("a small file in parts"));
        }
        if length == 0 {
            return Err(Failure::Violation("a part without bytes"));
        }
        // Less than 2^15 blocks, checked by the end below.
        let index = (offset / slot.blocks.block).min(u64::from(u32::MAX)) as u32;
        let current = self.current.take().filter(|c| (c.id, c.index) == (id, index));
        let current = match current {
            Some(current) => self.current.insert(current),
            None => self.current.insert(Current::begin(slot, id, index, offset)?),
        };
        let end = slot.blocks.start(index) + slot.blocks.len(index);
        if current.next != offset || length > end - offset {
            return Err(Failure::Violation("a part outside its block"));
        }
        let (file, fresh) = {
            let mut state = lock(&slot.state);
            if state.is_done {
                return Err(Failure::Violation("data after the end of a file"));
            }
            let file = intake.writable(slot, &mut state)?;
            (file, state.fresh)
        };
        match data {
            Some(data) => {
                current.hasher.update(data);
                file.write_all_at(data, offset)?;
                intake.counts.bytes.fetch_add(length, Ordering::Relaxed);
            }
            None => {
                const ZEROS: [u8; 4096] = [0; 4096];
                let mut left = length;
                while left > 0 {
                    let part = left.min(ZEROS.len() as u64);
                    current.hasher.update(&ZEROS[..part as usize]);
                    left -= part;
                }
                if !fresh {
                    folder::make_hole(&file, offset, length)?;
                }
            }
        }
        current.next = offset + length;
        Ok(())
    }
}

/// Reason why a frame cannot be taken.
#[derive(Debug)]
enum Failure {
    Violation(&'static str),
    File(io::Error),
    /// A file that failed and is forgotten already.
    Settled(u64, String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::File(error)
    }
}
