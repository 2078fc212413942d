//! A run as qlog, the event log of QUIC endpoints: what each sender, each receiver and the network
//! between them saw of a flow, a file for each.
//!
//! The format is that of draft-ietf-quic-qlog-main-schema-13 and draft-ietf-quic-qlog-quic-events-13,
//! as JSON text sequences (RFC 7464), or qlog 0.3, which qvis reads. Times are virtual, so that the
//! same run writes the same bytes. docs/qlog.md says what of a TCP-like protocol is mapped how.
//!
//! The types are our own and not those of the `qlog` crate: those keep RTTs in `f32`, which is seven
//! digits where a simulator has twelve, know one of the two versions, and would turn on
//! `serde_json/preserve_order` for everybody.

mod data;
mod flow;
mod format;
mod reception;
mod stack;

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windward_core::endpoint::Sender;
use windward_core::packet::Packet;
use windward_core::units::Time;

use self::flow::FlowLog;
pub use self::format::Format;
use self::format::Sink;
use crate::output::{OutputDir, OutputError};
use crate::stack::{End, PacketFacts, StackReport};
use crate::suggest;
use crate::{Loss, Observer, Scenario};

/// What is to be logged, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QlogOptions {
    /// The version of qlog.
    pub format: Format,
    /// Names of flows and groups; none means all flows.
    pub flows: Vec<String>,
    /// The most bytes that all files together may take.
    pub limit_bytes: u64,
}

impl QlogOptions {
    /// The most flows that are logged: each keeps three files open.
    pub const MAX_FLOWS: usize = 64;
    /// [`QlogOptions::limit_bytes`] unless somebody wants more: 4 GB.
    pub const DEFAULT_LIMIT_BYTES: u64 = 4_000_000_000;
}

impl Default for QlogOptions {
    fn default() -> Self {
        let limit_bytes = QlogOptions::DEFAULT_LIMIT_BYTES;
        QlogOptions { format: Format::Current, flows: Vec::new(), limit_bytes }
    }
}

/// A run could not be logged.
#[derive(Debug)]
pub enum QlogError {
    /// No flow is left to be logged.
    Nothing,
    /// More flows than [`QlogOptions::MAX_FLOWS`].
    TooManyFlows {
        /// How many were asked for.
        flows: usize,
    },
    /// Neither a flow nor a group has that name.
    Unknown {
        /// The name.
        name: String,
        /// One that was perhaps meant.
        meant: Option<String>,
    },
    /// The logs have reached [`QlogOptions::limit_bytes`].
    TooLarge {
        /// The limit.
        limit_bytes: u64,
        /// When that was.
        at: Time,
    },
    /// The files could not be written.
    Output(OutputError),
}

impl fmt::Display for QlogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QlogError::Nothing => f.write_str(
                "there is no flow to be logged: connections that come by themselves (arrivals) are not",
            ),
            QlogError::TooManyFlows { flows } => write!(
                f,
                "{flows} flows are to be logged, and at most {} can be: name some of them, or a \
                 smaller group",
                QlogOptions::MAX_FLOWS
            ),
            QlogError::Unknown { name, meant } => {
                write!(f, "there is no flow and no group {name:?}")?;
                meant.as_ref().map_or(Ok(()), |meant| write!(f, "; did you mean {meant:?}?"))
            }
            QlogError::TooLarge { limit_bytes, at } => write!(
                f,
                "the logs had reached their limit of {limit_bytes} bytes {} s into the run: log \
                 fewer flows, run for a shorter time, or allow more",
                at.as_secs_f64()
            ),
            QlogError::Output(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for QlogError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            QlogError::Output(error) => Some(error),
            _ => None,
        }
    }
}

impl From<OutputError> for QlogError {
    fn from(error: OutputError) -> Self {
        QlogError::Output(error)
    }
}

/// The logs of a run, written into a folder while it goes on: for each flow `FLOW.sender.sqlog`,
/// `FLOW.receiver.sqlog` and `FLOW.network.sqlog`; but connections that come by themselves, of which
/// there may be any number, are not logged. The files appear with [`QlogFiles::commit`];
/// dropped before that, nothing is left of them.
///
/// ```
/// use windward_sim::Simulation;
/// use windward_sim::qlog::{QlogFiles, QlogOptions};
/// use windward_sim::scenario::file::ScenarioFile;
///
/// let text = r#"
/// duration = "1s"
/// [dumbbell]
/// bottleneck = { rate = "5Mbit", delay = "10ms", queue = "50p" }
/// access = { rate = "10Mbit", delay = "5ms" }
/// [[flows]]
/// group = "bulk"
/// protocol = "newreno"
/// "#;
/// let scenario = ScenarioFile::parse("inline", text)?.build()?;
/// let folder = tempfile::tempdir()?;
/// let logs = QlogFiles::create(folder.path(), &QlogOptions::default(), &scenario)?;
/// let outcome = Simulation::observed(&scenario, logs.observer()).finish();
/// assert_eq!(outcome.fingerprint, windward_sim::run(&scenario).fingerprint);
/// let files = logs.commit()?;
/// assert!(files[0].ends_with("bulk-1.sender.sqlog"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct QlogFiles {
    shared: Arc<Mutex<Shared>>,
    dir: OutputDir,
}

/// What the observer writes.
#[derive(Debug)]
struct Shared {
    /// By the place of the flow in the scenario.
    flows: Vec<Option<Box<FlowLog>>>,
    /// Bytes that may still be written.
    left: u64,
    limit_bytes: u64,
    /// Why nothing is written any more.
    error: Option<QlogError>,
}

impl QlogFiles {
    /// Makes the folder, where it is missing, and begins the files.
    ///
    /// # Errors
    /// If flows are asked for that do not exist, or too many, or the folder does not take the files.
    pub fn create(
        dir: &Path,
        options: &QlogOptions,
        scenario: &Scenario,
    ) -> Result<Self, QlogError> {
        Self::begin(dir, options, scenario, &[])
    }

    /// As [`QlogFiles::create`], of flows between hosts: of each flow of `scenario` the end that is here, whose file alone there is.
    ///
    /// # Errors
    /// Likewise.
    pub fn create_measured(
        dir: &Path,
        options: &QlogOptions,
        scenario: &Scenario,
        ends: &[End],
    ) -> Result<Self, QlogError> {
        Self::begin(dir, options, scenario, ends)
    }

    fn begin(
        dir: &Path,
        options: &QlogOptions,
        scenario: &Scenario,
        ends: &[End],
    ) -> Result<Self, QlogError> {
        let mut chosen = choose(&options.flows, scenario)?;
        // Nobody knows beforehand how many connections will come, and the pair of hosts sends nothing.
        chosen.retain(|flow| scenario.flows[*flow].kind.traffic.arrivals().is_none());
        if chosen.is_empty() {
            return Err(QlogError::Nothing);
        }
        if chosen.len() > QlogOptions::MAX_FLOWS {
            return Err(QlogError::TooManyFlows { flows: chosen.len() });
        }
        let dir = OutputDir::create(dir)?;
        let mut shared = Shared {
            flows: scenario.flows.iter().map(|_| None).collect(),
            left: options.limit_bytes,
            limit_bytes: options.limit_bytes,
            error: None,
        };
        let links: Arc<[_]> = scenario.links.iter().map(|link| link.name.clone()).collect();
        let mut names = BTreeSet::new();
        for index in chosen {
            let name = file_name(&scenario.flows[index].name, index, &mut names);
            let end = ends.get(index).copied();
            let sink = |vantage, of| {
                let is_here = end.is_none_or(|end| of == Some(end));
                let file = || dir.file(format!("{name}.{vantage}.sqlog"));
                let file = is_here.then(file).transpose()?;
                Ok::<_, OutputError>(Sink::new(file, options.format, end.is_some()))
            };
            let sinks = [
                sink("sender", Some(End::Sender))?,
                sink("receiver", Some(End::Receiver))?,
                sink("network", None)?,
            ];
            let links = Arc::clone(&links);
            let mut log = FlowLog::new(scenario, index, sinks, links, end.is_some());
            let written = log.begin(scenario);
            shared.flows[index] = Some(Box::new(log));
            shared.account(Time::ZERO, written);
        }
        let files = QlogFiles { shared: Arc::new(Mutex::new(shared)), dir };
        files.check()?;
        Ok(files)
    }

    /// Who writes them, for [`Simulation::observed`](crate::Simulation::observed).
    pub fn observer(&self) -> Box<dyn Observer> {
        Box::new(Writer(Arc::clone(&self.shared)))
    }

    /// Has all been written so far? Worth asking now and then: a run whose logs are lost need not go
    /// on.
    ///
    /// # Errors
    /// Why not; said once.
    pub fn check(&self) -> Result<(), QlogError> {
        lock(&self.shared).error.take().map_or(Ok(()), Err)
    }

    /// Gives the files their names; says which, those of a flow together and its sender's first.
    ///
    /// # Errors
    /// If not all could be written.
    pub fn commit(mut self) -> Result<Vec<PathBuf>, QlogError> {
        self.check()?;
        let flows = std::mem::take(&mut lock(&self.shared).flows);
        let mut paths = Vec::new();
        // All are complete before any gets its name.
        for log in flows.into_iter().flatten() {
            for file in log.into_files() {
                paths.push(file.path().to_owned());
                self.dir.complete(file)?;
            }
        }
        self.dir.commit()?;
        Ok(paths)
    }
}

/// The flows with these names, or of the groups with these names.
fn choose(names: &[String], scenario: &Scenario) -> Result<BTreeSet<usize>, QlogError> {
    if names.is_empty() {
        // Between pairs of hosts connections come and go: they have no log.
        let has_log = |index: &usize| scenario.flows[*index].kind.traffic.arrivals().is_none();
        return Ok((0..scenario.flows.len()).filter(has_log).collect());
    }
    let mut chosen = BTreeSet::new();
    for name in names {
        let is_meant = |index: &usize| {
            let flow = &scenario.flows[*index];
            *flow.name == **name || scenario.groups[flow.group] == *name
        };
        let meant: Vec<usize> = (0..scenario.flows.len()).filter(is_meant).collect();
        if meant.is_empty() {
            let flows = scenario.flows.iter().map(|flow| flow.name.as_str());
            let all = scenario.groups.iter().map(String::as_str).chain(flows);
            let meant = suggest::near(name, all).map(str::to_owned);
            return Err(QlogError::Unknown { name: name.clone(), meant });
        }
        chosen.extend(meant);
    }
    Ok(chosen)
}

/// The name of a flow as that of a file: what every system takes, and no two alike.
fn file_name(flow: &str, index: usize, names: &mut BTreeSet<String>) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '_' };
    let mut name: String = flow.chars().take(100).map(plain).collect();
    // File systems that know no upper and lower case count as well.
    if !names.insert(name.to_ascii_lowercase()) {
        name = format!("{name}.{index}");
        names.insert(name.to_ascii_lowercase());
    }
    name
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    // What a panic elsewhere left half done is at worst a line too few, of files that go with it.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn account(&mut self, now: Time, written: Result<u64, OutputError>) {
        match written {
            Ok(bytes) if bytes <= self.left => self.left -= bytes,
            Ok(_) => {
                let limit_bytes = self.limit_bytes;
                self.stop(QlogError::TooLarge { limit_bytes, at: now });
            }
            Err(error) => self.stop(error.into()),
        }
    }

    /// Nothing is written any more, and the files go.
    fn stop(&mut self, error: QlogError) {
        self.error = Some(error);
        self.flows.clear();
    }
}

/// Writes what it hears.
#[derive(Debug)]
struct Writer(Arc<Mutex<Shared>>);

impl Writer {
    fn with(
        &self,
        now: Time,
        flow: usize,
        write: impl FnOnce(&mut FlowLog) -> Result<u64, OutputError>,
    ) {
        let mut shared = lock(&self.0);
        if let Some(Some(log)) = shared.flows.get_mut(flow) {
            let written = write(log);
            shared.account(now, written);
        }
    }
}

impl Observer for Writer {
    fn on_sent(&mut self, now: Time, flow: usize, packet: &Packet, sender: &Sender) {
        self.with(now, flow, |log| log.on_sent(now, packet, sender));
    }
    fn on_ack(&mut self, now: Time, flow: usize, ack: &Packet, sender: &Sender) {
        self.with(now, flow, |log| log.on_ack(now, ack, sender));
    }
    fn on_timer(&mut self, now: Time, flow: usize, of_recovery: bool, sender: &Sender) {
        if of_recovery {
            self.with(now, flow, |log| log.on_timer(now, sender));
        }
    }
    fn on_settled(&mut self, now: Time, flow: usize, sender: &Sender) {
        self.with(now, flow, |log| log.on_settled(now, sender));
    }
    fn on_arrival(&mut self, now: Time, flow: usize, packet: &Packet) {
        self.with(now, flow, |log| log.on_arrival(now, packet));
    }
    fn on_answer(&mut self, now: Time, flow: usize, ack: &Packet) {
        self.with(now, flow, |log| log.on_answer(now, ack));
    }
    fn on_datagram(&mut self, now: Time, flow: usize, packet: &Packet) {
        self.with(now, flow, |log| log.on_datagram(now, packet));
    }
    fn on_stack_sent(
        &mut self,
        now: Time,
        flow: usize,
        from: End,
        packet: &Packet,
        facts: &[PacketFacts],
    ) {
        self.with(now, flow, |log| log.on_stack_sent(now, from, packet, facts));
    }
    fn on_stack_received(&mut self, now: Time, flow: usize, end: End, packet: &Packet) {
        self.with(now, flow, |log| log.on_stack_received(now, end, packet));
    }
    fn on_stack_report(&mut self, now: Time, flow: usize, report: &StackReport) {
        self.with(now, flow, |log| log.on_stack_report(now, report));
    }
    fn on_loss(&mut self, now: Time, flow: usize, packet: &Packet, loss: Loss) {
        self.with(now, flow, |log| log.on_loss(now, packet, loss));
    }
}

#[cfg(test)]
mod tests;
