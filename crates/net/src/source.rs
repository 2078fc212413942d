//! Scenarios that packets of outside programs cross: a file with changes, made ready for a clock,
//! and read again from a record.

use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windward_sim::output::stream;
use windward_sim::scenario::file::ScenarioFile;
use windward_sim::stack::Stacks;
use windward_sim::{Observer, Outcome, Scenario, Simulation};

use crate::emulate;
use crate::error::Error;
use crate::port::{NAME, Port, Ports};
use crate::record::{self, Header, Reader, Recorder};
use crate::testbed;

/// Bytes of each packet that a record keeps: all headers of TCP over IPv6.
pub const KEPT: u32 = 120;

/// A scenario file and the changes made to it, in order.
#[derive(Debug, Clone)]
pub struct Source {
    /// Path of the file, or its name in errors.
    pub name: String,
    /// Text of the file.
    pub text: String,
    /// Keys and values, as `--set` takes them.
    pub changes: Vec<(String, String)>,
    /// True if the run lasts until it is stopped, in place of the duration in the file.
    pub is_open: bool,
    /// The stacks that the file may name.
    pub stacks: Stacks,
}

/// A scenario with ports, ready for a clock.
#[derive(Debug)]
pub struct Loaded {
    /// The scenario.
    pub scenario: Scenario,
    ports: Arc<Ports>,
    /// Hash of the contents of its trace files.
    pub traces: u64,
}

impl Source {
    /// Reads a scenario file, without changes.
    pub fn read(path: &Path, is_open: bool, stacks: Stacks) -> Result<Self, Error> {
        let (name, text) = (ScenarioFile::name(path), ScenarioFile::text(path)?);
        Ok(Source { name, text, changes: Vec::new(), is_open, stacks })
    }

    /// The file with its changes.
    pub fn file(&self) -> Result<ScenarioFile, Error> {
        let mut file = ScenarioFile::parse(&self.name, &self.text)?;
        for (key, value) in &self.changes {
            file.set(key, value)?;
        }
        Ok(file)
    }

    /// Adds a port to a dumbbell or a parking lot that has none.
    pub fn add_port(&mut self) -> Result<(), Error> {
        let file = self.file()?;
        if !file.has_protocol(NAME) && (file.has("dumbbell") || file.has("parking_lot")) {
            let port = format!("{{ group = \"outside\", protocol = \"{NAME}\" }}");
            self.changes.push(("flows.+".to_owned(), port));
        }
        Ok(())
    }

    /// Checks the scenario and makes it ready for a clock.
    ///
    /// # Errors
    /// If it is invalid, or has no port.
    pub fn load(&self) -> Result<Loaded, Error> {
        let ports = Ports::new();
        let stacks = self.stacks.clone().with(Arc::clone(&ports) as _);
        let file = self.file()?.with_stacks(&stacks);
        let mut scenario = file.build()?;
        if testbed::ports(&scenario).next().is_none() {
            return Err(Error::Input(format!(
                "{}: no flow is a port for outside programs; add one with protocol = \"{NAME}\"",
                self.name,
            )));
        }
        emulate::prepare(&mut scenario, self.is_open);
        let mut traces = DefaultHasher::new();
        file.hash_traces(&mut traces);
        Ok(Loaded { scenario, ports, traces: traces.finish() })
    }

    /// Begins a record of a run of this scenario in a file, with the first `kept` bytes of each
    /// packet.
    pub fn record(
        &self,
        loaded: &Loaded,
        kept: u32,
        path: &Path,
    ) -> io::Result<Recorder<BufWriter<File>>> {
        let header = Header {
            name: self.name.clone(),
            scenario: self.text.clone(),
            changes: self.changes.clone(),
            is_open: self.is_open,
            traces: loaded.traces,
            kept,
        };
        Recorder::begin(BufWriter::new(stream(path)?), header)
    }
}

impl Loaded {
    /// Makes the simulation, and its ports in the order of their flows.
    pub fn begin(&self, observer: Option<Box<dyn Observer>>) -> (Simulation, Vec<Port>) {
        let simulation = match observer {
            Some(observer) => Simulation::observed(&self.scenario, observer),
            None => Simulation::changeable(&self.scenario),
        };
        (simulation, self.ports.take())
    }
}

/// A record of an emulation, with its scenario.
#[derive(Debug)]
pub struct Recorded {
    path: PathBuf,
    reader: Reader<BufReader<File>>,
    loaded: Loaded,
}

impl Recorded {
    /// Opens a record, and loads the scenario that it names.
    ///
    /// # Errors
    /// If the file is not a record, or the trace files of its scenario have changed.
    pub fn open(path: &Path, stacks: Stacks) -> Result<Self, Error> {
        let unreadable = unreadable(path);
        let file = File::open(path).map_err(|error| unreadable(record::Error::Io(error)))?;
        let reader = Reader::open(BufReader::new(file)).map_err(unreadable)?;
        let header = reader.header().clone();
        let source = Source {
            name: header.name,
            text: header.scenario,
            changes: header.changes,
            is_open: header.is_open,
            stacks,
        };
        let loaded = source.load()?;
        if loaded.traces != header.traces {
            return Err(Error::Input(format!(
                "{}: the trace files of {} are not those of the recorded run; put them back",
                path.display(),
                source.name,
            )));
        }
        Ok(Recorded { path: path.to_owned(), reader, loaded })
    }

    /// The scenario of the recorded run.
    pub fn scenario(&self) -> &Scenario {
        &self.loaded.scenario
    }

    /// Runs it again in virtual time.
    pub fn replay(self, observer: Option<Box<dyn Observer>>) -> Result<Outcome, Error> {
        let Recorded { path, reader, loaded } = self;
        let (mut simulation, ports) = loaded.begin(observer);
        let flows = testbed::ports(&loaded.scenario).map(|(flow, _)| flow);
        let ports: Vec<_> = flows.zip(ports).collect();
        reader.replay(&mut simulation, &ports, |_, _| {}).map_err(unreadable(&path))?;
        Ok(simulation.stop())
    }
}

fn unreadable(path: &Path) -> impl Fn(record::Error) -> Error + Copy {
    move |error| Error::Input(format!("{}: {error}", path.display()))
}
