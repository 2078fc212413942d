//! Folders, senders and receivers of a test.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use windward_deploy::transfer::figures::Figures;
use windward_deploy::transfer::receive::{self, Event, ReceiveOptions, Received};
use windward_deploy::transfer::send::{self, SendOptions, Target};
use windward_deploy::transfer::walk::{Choice, Walk};
use windward_deploy::{Error, Identity, Options, Result};

pub(crate) const LOOPBACK: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Folders of a test: what is sent, what receives, and the configurations of both sides.
pub(crate) struct Place {
    pub(crate) _home: Option<tempfile::TempDir>,
    pub(crate) from: PathBuf,
    pub(crate) to: PathBuf,
    pub(crate) near: PathBuf,
    pub(crate) far: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Place {
        let home = tempfile::tempdir().expect("a folder");
        let at = |name: &str| home.path().join(name);
        let (from, to, near, far) = (at("from"), at("to"), at("near"), at("far"));
        fs::create_dir(&from).expect("made");
        Place { _home: Some(home), from, to, near, far }
    }

    /// The folder of all of them.
    pub(crate) fn home(&self) -> &Path {
        self.from.parent().expect("a parent")
    }

    pub(crate) fn receive_options(&self) -> ReceiveOptions {
        ReceiveOptions {
            folder: self.to.clone(),
            home: self.far.clone(),
            listen: LOOPBACK,
            addresses: vec![],
            expires: Duration::from_secs(3600),
            new_ticket: false,
            perms: false,
            keep: false,
            known: false,
            patience: Duration::from_secs(60),
            endpoint: Options::default(),
        }
    }

    pub(crate) fn receiver(&self) -> Receiver {
        Receiver::start(self.receive_options())
    }

    pub(crate) fn send_options(&self) -> SendOptions {
        SendOptions {
            dry_run: false,
            checksum: false,
            limit: None,
            patience: Duration::from_secs(5),
            first_patience: Duration::from_secs(60),
            home: self.near.clone(),
            endpoint: Options::default(),
        }
    }

    /// A receiver that stays after a transfer.
    pub(crate) fn keeper(&self) -> Receiver {
        Receiver::start(ReceiveOptions { keep: true, ..self.receive_options() })
    }

    pub(crate) fn send(&self, ticket: &str) -> (Result<()>, Arc<Figures>) {
        self.send_by(ticket, &self.send_options())
    }

    pub(crate) fn send_by(
        &self,
        ticket: &str,
        options: &SendOptions,
    ) -> (Result<()>, Arc<Figures>) {
        self.send_with(ticket, options, Choice::default(), &AtomicBool::new(false))
    }

    /// Counts of a transfer that succeeds.
    pub(crate) fn sent(&self, ticket: &str, options: &SendOptions) -> Arc<Figures> {
        let (result, figures) = self.send_by(ticket, options);
        result.expect("sent");
        figures
    }

    pub(crate) fn send_with(
        &self,
        ticket: &str,
        options: &SendOptions,
        choice: Choice,
        stop: &AtomicBool,
    ) -> (Result<()>, Arc<Figures>) {
        let figures = Arc::new(Figures::default());
        let result = (|| {
            let target = Target::parse(ticket, &self.near)?;
            let walk = Walk::new(std::slice::from_ref(&self.from), choice)?;
            send::run(Identity::open(&self.near)?, &target, &walk, options, &figures, stop)
        })();
        (result, figures)
    }

    pub(crate) fn tree(&self) -> BTreeMap<Vec<u8>, String> {
        tree(&self.to.join("from"))
    }
}

/// A receiver on a thread.
pub(crate) struct Receiver {
    pub(crate) ticket: String,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) events: mpsc::Receiver<Event>,
    pub(crate) thread: JoinHandle<Result<()>>,
}

impl Receiver {
    pub(crate) fn start(options: ReceiveOptions) -> Receiver {
        let (sender, tickets) = mpsc::channel();
        let (told, events) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let raised = Arc::clone(&stop);
        let identity = Identity::open(&options.home).expect("an identity");
        let thread = std::thread::spawn(move || {
            let opened = |receiver: &receive::Receiver| {
                sender.send(receiver.ticket().to_string()).expect("heard");
                Ok::<_, Error>(())
            };
            receive::run(identity, options, &raised, opened, |event| {
                let _ = told.send(event);
            })
        });
        let ticket = tickets.recv().unwrap_or_default();
        Receiver { ticket, stop, events, thread }
    }

    /// Waits for its end, and returns the outcome of the last transfer.
    pub(crate) fn end(self) -> (Result<()>, Option<Received>) {
        let result = self.thread.join().expect("no panic");
        let last = self.events.try_iter().filter_map(|event| match event {
            Event::Complete(received) => Some(received),
            _ => None,
        });
        let last = last.last();
        (result, last)
    }

    pub(crate) fn stop(self) -> Option<Received> {
        self.stop.store(true, Ordering::Relaxed);
        let (result, last) = self.end();
        assert!(matches!(result, Err(Error::Interrupted)), "{result:?}");
        last
    }
}

/// Everything below a folder: kind, mode, time, and contents or target.
pub(crate) fn tree(folder: &Path) -> BTreeMap<Vec<u8>, String> {
    fn visit(top: &Path, path: &Path, all: &mut BTreeMap<Vec<u8>, String>) {
        let metadata = fs::symlink_metadata(path).expect("there");
        let name = path.strip_prefix(top).expect("below").as_os_str().as_bytes().to_vec();
        let times = format!("{}.{:09}", metadata.mtime(), metadata.mtime_nsec());
        let text = if metadata.is_symlink() {
            format!("-> {}", fs::read_link(path).expect("a link").display())
        } else if metadata.is_dir() {
            for entry in fs::read_dir(path).expect("a folder") {
                visit(top, &entry.expect("an entry").path(), all);
            }
            format!("folder {:o} {times}", metadata.mode())
        } else {
            let hash = blake3::hash(&fs::read(path).expect("a file"));
            format!("file {:o} {times} {} {hash}", metadata.mode(), metadata.len())
        };
        all.insert(name, text);
    }
    let mut all = BTreeMap::new();
    visit(folder, folder, &mut all);
    all
}

/// Bytes that look random, the same for the same seed.
pub(crate) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let mut reader = blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof();
    reader.fill(&mut bytes);
    bytes
}

pub(crate) fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("made");
    fs::write(path, bytes).expect("written");
}
