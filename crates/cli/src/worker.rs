//! The process that loads foreign code, and what it tells the one that shows the results.
//!
//! Standard input of a worker is the pipe for its words, one JSON value a line after a key that the
//! worker has chosen before it loads foreign code. Its standard output and standard error belong to
//! the foreign code. Only a final word ends the work: foreign code can end the process with any
//! status, close every descriptor, or print what it likes, also into the pipe.

use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, BufRead, Read, Write};
use std::process::{exit, id};
use std::sync::mpsc::channel;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windward_native::Watch;

use crate::failure::Failure;

/// Interval between two signs of life.
const BEAT: Duration = Duration::from_secs(1);
/// Signs of life after which a call that has not returned counts as endless: ten seconds.
const ENDLESS: u32 = 10;
/// Largest number of open descriptors: a worker needs some tens.
const DESCRIPTORS: usize = 512;
/// Exit status of a worker whose pipe was closed.
pub(crate) const DEAF: i32 = 113;

/// A message of a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Word {
    /// It is about to load foreign code: of that subject, or of the last one that it named.
    Loads(String),
    /// All code is loaded.
    Loaded,
    /// A sign of life.
    Alive,
    /// The share of the work that is done, and a message.
    Share(f64, String),
    /// A part of the result.
    Print(String),
    /// A note for standard error.
    Note(String),
    /// The result of the work.
    Ended(Result<(), Failure>),
    /// The worker has ended, or ends now, in this way.
    Gone(Result<String, Failure>),
}

/// Bytes of a key, in hexadecimal digits.
const KEY: usize = 16;
/// Number of processes that tell words: the keeper, and then the worker, before it loads foreign
/// code.
const TELLERS: usize = 2;
/// Bytes of a line that is read at once.
const LINE: u64 = 1 << 24;

/// Hears the words of a pipe, until `take` returns false or nobody can tell one any more. Lines
/// without a key come from foreign code, and are left out.
pub(crate) fn hear(mut pipe: impl BufRead, mut take: impl FnMut(Word) -> bool) {
    let (mut keys, mut line) = (Vec::new(), Vec::new());
    loop {
        line.clear();
        let Ok(1..) = pipe.by_ref().take(LINE).read_until(b'\n', &mut line) else { return };
        let Some((key, word)) = line.trim_ascii().split_at_checked(KEY) else { continue };
        if word.is_empty() && keys.len() < TELLERS {
            keys.push(key.to_vec());
        }
        if keys.iter().any(|known| known == key)
            && let Ok(word) = serde_json::from_slice(word)
            && !take(word)
        {
            return;
        }
    }
}

/// The pipe for words.
#[derive(Debug)]
pub(crate) struct Pipe {
    file: Mutex<File>,
    key: String,
    /// Its process: foreign code can fork and return in both.
    process: u32,
    /// Its inode: foreign code can close a descriptor, and another file gets its number.
    inode: u64,
}

impl Pipe {
    /// The pipe that is standard input.
    pub(crate) fn open() -> io::Result<Self> {
        #[cfg(unix)]
        let copy = std::os::fd::AsFd::as_fd(&io::stdin()).try_clone_to_owned()?;
        #[cfg(windows)]
        let copy = std::os::windows::io::AsHandle::as_handle(&io::stdin()).try_clone_to_owned()?;
        let mut file = File::from(copy);
        let key = format!("{:0KEY$x}", RandomState::new().build_hasher().finish());
        file.write_all(format!("{key}\n").as_bytes())?;
        Ok(Pipe { inode: inode(&file)?, file: Mutex::new(file), key, process: id() })
    }

    /// Tells a word.
    pub(crate) fn say(&self, word: &Word) -> io::Result<()> {
        // Foreign code, or the end of the worker, may have left a part of a line.
        let line = format!("\n{}{}\n", self.key, serde_json::to_string(word)?);
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if inode(&file)? != self.inode || id() != self.process {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        file.write_all(line.as_bytes())
    }
}

#[cfg(unix)]
fn inode(file: &File) -> io::Result<u64> {
    Ok(std::os::unix::fs::MetadataExt::ino(&file.metadata()?))
}
#[cfg(not(unix))]
fn inode(_: &File) -> io::Result<u64> {
    Ok(0)
}

static PIPE: OnceLock<Pipe> = OnceLock::new();

/// True if this is a worker that has begun.
pub(crate) fn is_one() -> bool {
    PIPE.get().is_some()
}

/// Tells a word if this is a worker that has begun; false otherwise. Ends the process if nobody can
/// hear it.
pub(crate) fn say(word: &Word) -> bool {
    let Some(pipe) = PIPE.get() else { return false };
    if pipe.say(word).is_err() {
        exit(DEAF);
    }
    true
}

/// Prepares the worker, before it loads foreign code.
///
/// # Errors
/// If standard input is not a pipe for words.
pub(crate) fn begin() -> Result<(), Failure> {
    let pipe = Pipe::open();
    let pipe = pipe.map_err(|error| Failure::Failed(format!("a worker has no pipe: {error}")))?;
    let _ = PIPE.set(pipe);
    #[cfg(unix)]
    {
        use rustix::process::{Resource, getrlimit, setrlimit};
        if let Ok(nothing) = File::open("/dev/null") {
            let _ = rustix::stdio::dup2_stdin(nothing);
        }
        let most = Some(2 * DESCRIPTORS as u64);
        let mut limit = getrlimit(Resource::Nofile);
        limit.maximum = limit.maximum.min(most).or(most);
        limit.current = limit.maximum;
        // Without the limit, the watch still counts.
        let _ = setrlimit(Resource::Nofile, limit);
    }
    // Elsewhere it ends at its next word.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let (tell, started) = channel::<()>();
    thread::spawn(move || {
        let mut watch = Watch::default();
        let mut tell = Some(tell);
        loop {
            say(&Word::Alive);
            if let Some(fault) = watch.look(ENDLESS).map(|stuck| stuck.to_string()).or_else(greed) {
                say(&Word::Gone(Ok(fault)));
                exit(1);
            }
            drop(tell.take());
            thread::sleep(BEAT);
        }
    });
    // The first call of a function by a thread may need a lock of the loader, and a library that
    // never ends its loading keeps that.
    let _ = started.recv();
    Ok(())
}

/// The fault of code that opens descriptors without end.
fn greed() -> Option<String> {
    let open = match fs::read_dir("/proc/self/fd") {
        Ok(open) => open.count(),
        // EMFILE: even that needs a descriptor.
        Err(error) if error.raw_os_error() == Some(24) => usize::MAX,
        Err(_) => return None,
    };
    (open > DESCRIPTORS).then(|| format!("it keeps more than {DESCRIPTORS} files open"))
}

/// Tells the result of the work. The failure that it returns has been reported.
pub(crate) fn end(done: Result<(), Failure>) -> Result<(), Failure> {
    // Where no file can be opened, anything may fail.
    if done.is_err()
        && let Some(fault) = greed()
    {
        say(&Word::Gone(Ok(fault)));
        return Err(Failure::Command(1));
    }
    let status = if done.is_ok() { Ok(()) } else { Err(Failure::Command(1)) };
    say(&Word::Ended(done));
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_with_a_key_are_heard() {
        let [a, b, forged] = ["a", "b", "c"].map(|digit| digit.repeat(KEY));
        let done = r#"{"Ended":{"Ok":null}}"#;
        let text = format!(
            "{a}\n\n{a}\"Alive\"\n{b}\n{forged}\n{done}\n{forged}{done}\n{forged} {done}\n\
             {{\"Ended\n{b}{{\"Note\":\"heard\"}}\n\0\n"
        );
        let mut heard = Vec::new();
        hear(text.as_bytes(), |word| {
            heard.push(format!("{word:?}"));
            true
        });
        assert_eq!(heard, ["Alive", "Note(\"heard\")"]);
    }
}
