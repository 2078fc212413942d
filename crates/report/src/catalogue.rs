//! Protocols, parts and experiments as rows, for `windward list --json`,
//! `windward reproduce --list --json` and the objects of Python.

use serde::Serialize;
use windward_experiments::builtin;
use windward_experiments::experiment::Experiment;
pub use windward_sim::catalogue::{ParameterRow, PartRow, ProtocolRow, parts, protocols};
use windward_sim::stack::{Facts, Stacks};

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
