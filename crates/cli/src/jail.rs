//! Foreign code in processes of its own: shared libraries, and classes in Python.
//!
//! This process starts a keeper, which starts the worker. The worker loads the code, does the work
//! and tells the results (`worker`); this process shows them. The keeper gets the processes of the
//! worker that lose their parent, ends all of them with the worker and with this process, and
//! bounds their number and memory. It is between the two so that code which ends or stops its
//! parent does not end this process. Whatever the code does, this process ends with a result or a
//! fault.

use std::ffi::OsString;
use std::io::{BufReader, PipeReader, Read};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::failure::{Failure, INTERRUPTED, WORKER};
use crate::output;
use crate::progress::Progress;
use crate::signals;
use crate::tree::{self, Usage};
use crate::worker::{DEAF, Pipe, Word, hear};

/// First argument of a keeper. The command of the worker follows.
const KEEP: &str = "--windward-keep";
/// Interval between two looks.
const PERIOD: Duration = Duration::from_millis(20);
/// Looks without a word until a worker counts as stopped: ten seconds. It says one a second.
const SILENCE: u32 = 500;
/// The same before its first word, while an interpreter starts: a minute.
const START: u32 = 3000;
/// Words in which a worker says no more than that it lives, about a second each, until its work
/// counts as endless: ten minutes.
const IDLE: u32 = 600;
/// Looks of a keeper between a request to end and the end by force: 0.2 seconds.
const GRACE: u32 = 10;
/// The same of this process, which waits for the keeper.
#[cfg(unix)]
const PATIENCE: u32 = 15;
/// Looks of a keeper between two counts of processes.
const COUNT: u32 = 5;
/// Largest number of processes of a worker.
const PROCESSES: usize = 64;
/// The fault of code that interrupts its process.
const INTERRUPTION: &str = "it sent its process a signal that ends it";
/// Bytes and lines of the output of foreign code that are shown.
const SHOWN: usize = 2000;
const LINES: usize = 20;

/// How the work with foreign code ended.
#[derive(Debug)]
pub(crate) enum End {
    /// By itself.
    Done(Result<(), Failure>),
    /// By a fault of the code.
    Fault {
        /// The subject, if it is known.
        subject: Option<String>,
        /// The fault, as a clause: `it crashed with SIGSEGV`.
        fault: String,
    },
}

/// Lets a worker, which is this command, do the work of these arguments. `keeper` starts this
/// program.
///
/// # Errors
/// If the processes cannot be started, or at Ctrl-C.
pub(crate) fn work(
    mut keeper: Command,
    worker: &Command,
    arguments: &[OsString],
    quiet: bool,
) -> Result<End, Failure> {
    keeper.arg(KEEP).arg(worker.get_program()).args(worker.get_args()).args(arguments);
    let mut jail = Jail::start(keeper)?;
    let end = jail.listen(quiet);
    jail.end();
    let said = jail.said();
    match end {
        Err(Failure::Failed(problem)) if !said.is_empty() => {
            Err(Failure::Failed(format!("{problem}\n{said}")))
        }
        end => {
            if !quiet && !said.is_empty() {
                output::note(&format!("output of the foreign code:\n{said}"));
            }
            end
        }
    }
}

/// The keeper, and what is heard of it.
struct Jail {
    keeper: Child,
    words: Receiver<Word>,
    output: Arc<Mutex<Output>>,
    /// Closes once all of the output has been read.
    is_read: Receiver<()>,
}

/// Output of foreign code.
#[derive(Debug, Default)]
struct Output {
    first: Vec<u8>,
    bytes: u64,
}

impl Jail {
    fn start(mut keeper: Command) -> Result<Self, Failure> {
        let start = || {
            tree::adopt();
            let (words, tell) = std::io::pipe()?;
            let (output, print) = std::io::pipe()?;
            keeper.stdin(tell).stdout(print.try_clone()?).stderr(print);
            alone(&mut keeper);
            let child = keeper.spawn()?;
            // Its copies of the pipes would keep them open.
            drop(keeper);
            Ok((child, words, output))
        };
        let wrong = |error: std::io::Error| {
            Failure::Failed(format!("a process for foreign code cannot be started: {error}"))
        };
        let (keeper, words, output) = start().map_err(wrong)?;
        let (tell, heard) = channel();
        thread::spawn(move || hear(BufReader::new(words), |word| tell.send(word).is_ok()));
        let kept = Arc::new(Mutex::new(Output::default()));
        let (reads, is_read) = channel();
        let keep = Arc::clone(&kept);
        thread::spawn(move || collect(output, &keep, reads));
        Ok(Jail { keeper, words: heard, output: kept, is_read })
    }

    /// Waits for the final word.
    fn listen(&mut self, quiet: bool) -> Result<End, Failure> {
        let progress = Progress::new(quiet);
        let (mut text, mut subject) = (String::new(), None);
        let (mut has_begun, mut silent, mut idle, mut gone) = (false, 0, 0, 0);
        loop {
            let fault = |fault: &str, subject: Option<String>| {
                Ok(End::Fault { subject, fault: fault.to_owned() })
            };
            signals::check()?;
            let word = self.words.recv_timeout(PERIOD);
            if word.is_ok() {
                (silent, has_begun) = (0, has_begun || !matches!(word, Ok(Word::Gone(_))));
            }
            match word {
                Ok(Word::Loads(name)) => subject = Some(name),
                Ok(Word::Loaded) => subject = None,
                Ok(Word::Alive) => idle += 1,
                Ok(Word::Share(share, message)) => {
                    idle = 0;
                    progress.set(share, &message);
                }
                // Shown with the result, so that nothing is said of work that fails at its end.
                Ok(Word::Print(part)) => text += &part,
                Ok(Word::Note(note)) => output::note(&note),
                Ok(Word::Ended(Err(Failure::Interrupted))) => {
                    return fault(INTERRUPTION, subject);
                }
                Ok(Word::Ended(done)) => {
                    drop(progress);
                    if !text.is_empty() {
                        output::print(&text)?;
                    }
                    return Ok(End::Done(done));
                }
                Ok(Word::Gone(Ok(how))) if has_begun => return fault(&how, subject),
                Ok(Word::Gone(Ok(how))) => {
                    return Err(Failure::Failed(format!("no work was done: {how}")));
                }
                Ok(Word::Gone(Err(failure))) => return Err(failure),
                Err(RecvTimeoutError::Timeout) => silent += 1,
                // All copies of the pipe are closed.
                Err(RecvTimeoutError::Disconnected) => {
                    thread::sleep(PERIOD);
                    silent += 1;
                }
            }
            if idle > IDLE {
                return fault("no run has ended for ten minutes", subject);
            }
            if silent > if has_begun { SILENCE } else { START } {
                let stopped = "it stopped the process (SIGSTOP)";
                let silent = "its process does not answer for ten seconds";
                return fault(if tree::is_stopped() { stopped } else { silent }, subject);
            }
            // A last word may still be on its way.
            gone += u32::from(matches!(self.keeper.try_wait(), Ok(Some(_))));
            if gone > GRACE {
                return fault("it ended the process that started it", subject);
            }
        }
    }

    /// Ends all processes.
    fn end(&mut self) {
        #[cfg(unix)]
        if let Ok(None) = self.keeper.try_wait() {
            use rustix::process::{Pid, Signal, kill_process};
            let _ = kill_process(Pid::from_child(&self.keeper), Signal::TERM);
            for _ in 0..PATIENCE {
                if !matches!(self.keeper.try_wait(), Ok(None)) {
                    break;
                }
                thread::sleep(PERIOD);
            }
        }
        let _ = self.keeper.kill();
        let _ = self.keeper.try_wait();
        tree::end();
    }

    /// The output of the foreign code, each line with a mark.
    fn said(&self) -> String {
        let _ = self.is_read.recv_timeout(PERIOD * 10);
        let output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&output.first);
        let mut lines: Vec<String> =
            text.lines().take(LINES).map(|line| format!("  | {line}")).collect();
        if output.bytes > output.first.len() as u64 || text.lines().count() > LINES {
            lines.push(format!("  and more, {} bytes in all", output.bytes));
        }
        lines.join("\n")
    }
}

/// Reads all output, so that nobody waits for a full pipe, and keeps its beginning.
fn collect(mut pipe: PipeReader, kept: &Mutex<Output>, _reads: Sender<()>) {
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = pipe.read(&mut buffer) {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        let room = (SHOWN - kept.first.len()).min(read);
        kept.first.extend_from_slice(&buffer[..room]);
        kept.bytes += read as u64;
    }
}

/// Puts a child in a group of its own, which signals of a terminal do not reach.
fn alone(_command: &mut Command) {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(_command, 0);
}

/// Does the work of a keeper if these are the arguments of one, and returns its exit status.
pub(crate) fn keep(arguments: &[OsString]) -> Option<u8> {
    let [_, first, program, arguments @ ..] = arguments else { return None };
    if first != KEEP {
        return None;
    }
    signals::install(None);
    let stop = signals::flag();
    tree::adopt();
    let Ok(pipe) = Pipe::open() else { return Some(1) };
    let mut worker = Command::new(program);
    worker.args(arguments).env(WORKER, "1");
    alone(&mut worker);
    let gone = match worker.spawn() {
        Ok(child) => wait(child, stop),
        Err(error) => {
            let program = program.display();
            Err(Failure::Failed(format!("{program}: cannot be started: {error}")))
        }
    };
    let _ = pipe.say(&Word::Gone(gone));
    Some(0)
}

/// Waits until the worker ends, ends what is left of its processes, and returns how it ended.
fn wait(mut worker: Child, stop: &AtomicBool) -> Result<String, Failure> {
    let most_memory = tree::most_memory();
    let (parent, mut tasks) = (parent(), tree::tasks());
    let (mut looks, mut asked) = (0, 0);
    let how = loop {
        match worker.try_wait() {
            Ok(None) => {}
            Ok(Some(status)) => break how(status),
            Err(error) => break error.to_string(),
        }
        if stop.load(Ordering::Relaxed) || self::parent() != parent {
            asked += 1;
            if asked == 1 {
                ask(&worker);
            }
            if asked > GRACE {
                break "it did not end when it was asked to".to_owned();
            }
        }
        looks += 1;
        let new_tasks = tree::tasks();
        let jumps = new_tasks > tasks + 4 * PROCESSES;
        if looks % COUNT == 0 || jumps {
            // Processes that fork without end soon leave no time to count them.
            if jumps {
                to_group(&worker, Force::Stop);
            }
            let Usage { processes, memory } = tree::usage();
            if processes > PROCESSES {
                break format!("it started more than {PROCESSES} processes");
            }
            if memory > most_memory {
                break format!("it used more than {} MB of memory", most_memory >> 20);
            }
            if jumps {
                to_group(&worker, Force::Continue);
                tasks = new_tasks;
            }
        }
        thread::sleep(PERIOD);
    };
    // All of a group get it at once, however fast they fork.
    to_group(&worker, Force::Kill);
    let _ = worker.kill();
    tree::end();
    Ok(how)
}

/// A signal that no process can refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Force {
    Stop,
    Continue,
    Kill,
}

/// Sends a signal to all processes that are still in the group of the worker.
fn to_group(_worker: &Child, _force: Force) {
    #[cfg(unix)]
    {
        use rustix::process::{Pid, Signal, kill_process_group};
        let signal = match _force {
            Force::Stop => Signal::STOP,
            Force::Continue => Signal::CONT,
            Force::Kill => Signal::KILL,
        };
        let _ = kill_process_group(Pid::from_child(_worker), signal);
    }
}

/// The process that started this one, which becomes another when that ends.
fn parent() -> Option<i32> {
    #[cfg(unix)]
    return rustix::process::getppid().map(rustix::process::Pid::as_raw_pid);
    #[cfg(not(unix))]
    None
}

/// Asks the worker to end.
fn ask(_worker: &Child) {
    #[cfg(unix)]
    {
        use rustix::process::{Pid, Signal, kill_process};
        let _ = kill_process(Pid::from_child(_worker), Signal::TERM);
    }
}

/// How a worker ended that did not say it, as a clause.
fn how(status: ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        // The numbers of Linux and macOS that differ are left out.
        return match signal {
            4 => "it crashed with SIGILL, an illegal instruction".to_owned(),
            5 => "it crashed with SIGTRAP, a trap".to_owned(),
            6 => "it crashed with SIGABRT, an abort".to_owned(),
            7 => "it crashed with SIGBUS, an invalid memory access".to_owned(),
            8 => "it crashed with SIGFPE, an invalid arithmetic operation".to_owned(),
            11 => "it crashed with SIGSEGV, an invalid memory access".to_owned(),
            _ => format!("its process was ended by signal {signal}"),
        };
    }
    match status.code() {
        Some(DEAF) => "it closed the file descriptors of the process".to_owned(),
        Some(code) if code == i32::from(INTERRUPTED) => INTERRUPTION.to_owned(),
        _ => format!("it ended the process ({status})"),
    }
}
