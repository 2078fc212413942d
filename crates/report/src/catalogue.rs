//! Protocols, parts and experiments as rows, for `windward list --json`,
//! `windward reproduce --list --json` and the objects of Python.

use serde::Serialize;
use windward_core::network::{AqmConfig, RouterConfig};
use windward_core::part::{AnyPart, Setting};
use windward_core::protocols::{self, PROTOCOLS, Protocol};
use windward_experiments::builtin;
use windward_experiments::experiment::Experiment;
use windward_sim::stack::{Facts, Stacks};

use crate::explain;

/// A row of the protocol table: its name, and the name of its part on each axis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProtocolRow {
    /// Name in scenario files.
    pub name: &'static str,
    /// Summary, one line.
    pub summary: &'static str,
    /// Its source.
    pub source: &'static str,
    /// Part that controls the window.
    pub window: &'static str,
    /// Part that detects losses and selects the next packet.
    pub recovery: &'static str,
    /// Part that distinguishes congestion from corruption.
    pub discrimination: &'static str,
    /// Feedback that packets carry and ACKs echo.
    pub feedback: &'static str,
    /// Requirement for routers.
    pub router: &'static str,
}

/// A stack that can be the protocol of flows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StackRow {
    /// Name in scenario files.
    pub name: &'static str,
    /// Summary, one line.
    pub summary: &'static str,
    /// Package, version and type of the code that runs.
    pub source: &'static str,
    /// Paragraphs on the original code, on modelled parts and on missing ones.
    pub notes: Vec<&'static str>,
    /// Smallest size of full packets, bytes on the wire.
    pub least_packet_size: u32,
    /// Largest size of full packets, bytes on the wire.
    pub most_packet_size: u32,
    /// Reason why runs with the same seed may differ, if they may.
    pub unrepeatable: Option<&'static str>,
}

/// A part of an axis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PartRow {
    /// `window`, `recovery`, `discrimination`, `feedback`, `aqm` or `router`.
    pub axis: &'static str,
    /// Name in scenario files.
    pub name: &'static str,
    /// Description, one sentence.
    pub what: &'static str,
    /// Its source.
    pub source: &'static str,
    /// Parameters.
    pub parameters: Vec<ParameterRow>,
}

/// A parameter of a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ParameterRow {
    /// Its key, with the table.
    pub key: String,
    /// Its default.
    pub default: String,
    /// Unit; empty for pure numbers, words and times.
    pub unit: &'static str,
    /// Range, in words.
    pub range: String,
    /// Meaning, one line.
    pub meaning: &'static str,
}

/// A paper or another collection, with its requested experiments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CollectionRow {
    /// Name for `windward reproduce`.
    pub key: &'static str,
    /// Title of the paper or of the collection.
    pub title: &'static str,
    /// Authors of the paper; empty for other collections.
    pub authors: &'static str,
    /// Where and when the paper appeared; empty for other collections.
    pub published: &'static str,
    /// Abbreviations in its claims, and their meanings.
    pub terms: &'static [(&'static str, &'static str)],
    /// In the order of the report.
    pub experiments: Vec<ExperimentRow>,
}

/// An experiment that comes with the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExperimentRow {
    /// Name for `windward reproduce`.
    pub id: String,
    /// Its file, from the root of the repository.
    pub file: String,
    /// The paper's figure.
    pub figure: Option<String>,
    /// Title.
    pub title: String,
    /// Names of its claims.
    pub claims: Vec<String>,
    /// Hash of its configuration, as in `manifest.json`.
    pub configuration_hash: String,
}

/// These experiments, collection by collection.
pub fn collections(experiments: &[Experiment]) -> Vec<CollectionRow> {
    let row = |collection: &'static builtin::Collection| CollectionRow {
        key: collection.key,
        title: collection.title,
        authors: collection.authors,
        published: collection.published,
        terms: collection.terms,
        experiments: experiments
            .iter()
            .filter(|experiment| collection.holds(experiment))
            .map(ExperimentRow::new)
            .collect(),
    };
    builtin::collections().map(row).filter(|row| !row.experiments.is_empty()).collect()
}

/// The protocol table.
pub fn protocols() -> Vec<ProtocolRow> {
    PROTOCOLS.iter().map(ProtocolRow::new).collect()
}

/// The stacks, in order.
pub fn stacks(stacks: &Stacks) -> Vec<StackRow> {
    let row = |facts: &Facts| StackRow {
        name: facts.name,
        summary: facts.summary,
        source: facts.source,
        notes: facts.notes.clone(),
        least_packet_size: *facts.packet_sizes.start(),
        most_packet_size: *facts.packet_sizes.end(),
        unrepeatable: facts.unrepeatable,
    };
    stacks.iter().map(|stack| row(stack.facts())).collect()
}

/// Every part of every axis, in the order of the documentation.
pub fn parts() -> Vec<PartRow> {
    let aqms = AqmConfig::forms().into_iter();
    let aqms = aqms.map(|(words, aqm)| ("aqm", words, aqm.settings()));
    let routers = RouterConfig::forms().into_iter();
    let routers = routers.map(|(words, router)| ("router", words, router.settings()));
    let parts = protocols::parts().into_iter().chain(aqms).chain(routers);
    let rows = parts.map(|(axis, words, settings)| PartRow {
        axis,
        name: words.name,
        what: words.what,
        source: words.source,
        parameters: settings.iter().filter(|s| s.applies).map(ParameterRow::new).collect(),
    });
    rows.collect()
}

impl ProtocolRow {
    fn new(protocol: &Protocol) -> Self {
        let [window, recovery, discrimination, feedback, router] =
            explain::parts(protocol).map(|(_, part)| part.name);
        ProtocolRow {
            name: protocol.name,
            summary: protocol.summary,
            source: protocol.source,
            window,
            recovery,
            discrimination,
            feedback,
            router,
        }
    }
}

impl ExperimentRow {
    fn new(experiment: &Experiment) -> Self {
        ExperimentRow {
            id: experiment.id.clone(),
            file: experiment.file.clone(),
            figure: experiment.caption.figure.clone(),
            title: experiment.caption.title.clone(),
            claims: experiment.claims.iter().map(|claim| claim.id.clone()).collect(),
            configuration_hash: format!("{:016x}", experiment.revision.configuration_hash),
        }
    }
}

impl ParameterRow {
    fn new(setting: &Setting) -> Self {
        let dot = if setting.table.is_empty() { "" } else { "." };
        ParameterRow {
            key: format!("{}{dot}{}", setting.table, setting.doc.key),
            default: setting.default_text(),
            unit: setting.doc.unit,
            range: setting.doc.kind.to_string(),
            meaning: setting.doc.meaning,
        }
    }
}
