//! A run as qlog, the event log of QUIC endpoints: for each flow a file of the sender, one of the
//! receiver and one of the network between them.
//!
//! The format is that of draft-ietf-quic-qlog-main-schema-13 and
//! draft-ietf-quic-qlog-quic-events-13, as JSON text sequences (RFC 7464), or qlog 0.3, which qvis
//! reads. Times are virtual, so that the same run writes the same bytes. docs/qlog.md describes how
//! TCP-like protocols are mapped.
//!
//! This does not use the types of the `qlog` crate: they store RTTs as `f32`, with seven digits
//! where a simulator has twelve, support only one of the two versions, and would enable
//! `serde_json/preserve_order` in the whole program.

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
use windward_sim::output::{OutputDir, OutputError};
use windward_sim::stack::{End, PacketFacts, StackReport};
use windward_sim::suggest;
use windward_sim::{Loss, Observer, Scenario};

/// Choice of flows to be logged, and of the format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QlogOptions {
    /// The version of qlog.
    pub format: Format,
    /// Names of flows and groups; if empty, all flows.
    pub flows: Vec<String>,
    /// Limit on the size of all files together, bytes.
    pub limit_bytes: u64,
}

impl QlogOptions {
    /// Maximum number of flows: each keeps three files open.
    pub const MAX_FLOWS: usize = 64;
    /// Default of [`QlogOptions::limit_bytes`]: 4 GB.
    pub const DEFAULT_LIMIT_BYTES: u64 = 4_000_000_000;
}

impl Default for QlogOptions {
    fn default() -> Self {
        let limit_bytes = QlogOptions::DEFAULT_LIMIT_BYTES;
        QlogOptions { format: Format::Current, flows: Vec::new(), limit_bytes }
    }
}

/// Reason why a run could not be logged.
#[derive(Debug)]
pub enum QlogError {
    /// There is no flow that can be logged.
    Nothing,
    /// More flows than [`QlogOptions::MAX_FLOWS`].
    TooManyFlows {
        /// Number of flows that were chosen.
        flows: usize,
    },
    /// Neither a flow nor a group has that name.
    Unknown {
        /// The name.
        name: String,
        /// The nearest name.
        meant: Option<String>,
    },
    /// The logs have reached [`QlogOptions::limit_bytes`].
    TooLarge {
        /// The limit.
        limit_bytes: u64,
        /// Time in the run.
        at: Time,
    },
    /// The files could not be written.
    Output(OutputError),
}

impl fmt::Display for QlogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QlogError::Nothing => f.write_str(
                "there is no flow to log: connections that `arrivals` open are not logged",
            ),
            QlogError::TooManyFlows { flows } => write!(
                f,
                "{flows} flows are to be logged, but at most {} are possible: name some of them, or a \
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

/// The logs of a run, written into a folder during the run: for each flow `FLOW.sender.sqlog`,
/// `FLOW.receiver.sqlog` and `FLOW.network.sqlog`. Connections that open by themselves (arrivals)
/// are not logged, since there may be any number of them. The files appear with
/// [`QlogFiles::commit`]; without it, they are removed.
///
/// ```
/// use windward_sim::Simulation;
/// use windward_logs::qlog::{QlogFiles, QlogOptions};
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

/// State shared with the observer.
#[derive(Debug)]
struct Shared {
    /// Logs by the index of the flow in the scenario.
    flows: Vec<Option<Box<FlowLog>>>,
    /// Bytes that may still be written.
    left: u64,
    limit_bytes: u64,
    /// Reason why writing stopped.
    error: Option<QlogError>,
}

impl QlogFiles {
    /// Creates the folder, if it is missing, and begins the files.
    ///
    /// # Errors
    /// If a chosen flow does not exist, if there are too many, or if the files cannot be created.
    pub fn create(
        dir: &Path,
        options: &QlogOptions,
        scenario: &Scenario,
    ) -> Result<Self, QlogError> {
        Self::begin(dir, options, scenario, &[])
    }

    /// [`QlogFiles::create`] for flows between hosts: each flow of `scenario` has one file only,
    /// that of the end on this host.
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
        // The number of connections between a pair of hosts is not known, and the pair itself sends
        // nothing.
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

    /// Observer that writes the files, for
    /// [`Simulation::observed`](windward_sim::Simulation::observed).
    pub fn observer(&self) -> Box<dyn Observer> {
        Box::new(Writer(Arc::clone(&self.shared)))
    }

    /// Returns the error if something could not be written. Worth calling now and then, to stop a
    /// run whose logs are lost.
    ///
    /// # Errors
    /// The first error, once.
    pub fn check(&self) -> Result<(), QlogError> {
        lock(&self.shared).error.take().map_or(Ok(()), Err)
    }

    /// Gives the files their names. Returns their paths, flow by flow, the sender's first.
    ///
    /// # Errors
    /// If a write failed.
    pub fn commit(mut self) -> Result<Vec<PathBuf>, QlogError> {
        self.check()?;
        let flows = std::mem::take(&mut lock(&self.shared).flows);
        let mut paths = Vec::new();
        // Complete all files before naming any.
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

/// Flows with these names, or in groups with these names.
fn choose(names: &[String], scenario: &Scenario) -> Result<BTreeSet<usize>, QlogError> {
    if names.is_empty() {
        // Connections between pairs of hosts have no log.
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

/// Name of the files of a flow: portable and unique.
fn file_name(flow: &str, index: usize, names: &mut BTreeSet<String>) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '_' };
    let mut name: String = flow.chars().take(100).map(plain).collect();
    // Some file systems ignore case.
    if !names.insert(name.to_ascii_lowercase()) {
        name = format!("{name}.{index}");
        names.insert(name.to_ascii_lowercase());
    }
    name
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    // A panic elsewhere may at worst have left a line incomplete, in files that are removed with
    // it.
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

    /// Stops writing, and removes the files.
    fn stop(&mut self, error: QlogError) {
        self.error = Some(error);
        self.flows.clear();
    }
}

/// Observer that writes the logs.
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
