//! The experiments that come with the program, compiled in, so that they run from anywhere.
//!
//! They form collections: one per paper, each in a file of its own, and further ones without a
//! paper. A new experiment is a line in its collection.

use windward_sim::scenario::file::ScenarioFile;
use windward_sim::text::shell_word;

use crate::ExperimentError;
use crate::error::nearest;
use crate::experiment::ns2::{self, Ns2};
use crate::experiment::worlds::Worlds;
use crate::experiment::{Effort, Experiment};

mod estcp2010;
mod eten2004;
mod field;
mod lr2008;
mod matrix;
mod media;
mod tcpwbr2003;
mod upwind;
mod xcpr2005;

/// Name and text of an experiment file.
pub type File = (&'static str, &'static str);

/// Experiments that belong together.
#[derive(Debug, Clone, Copy)]
pub struct Collection {
    /// Name for `windward reproduce`; of a paper, the key that its experiments name.
    pub key: &'static str,
    /// Title of the paper or of the collection.
    pub title: &'static str,
    /// Authors of the paper; empty for other collections.
    pub authors: &'static str,
    /// Where and when the paper appeared; empty for other collections.
    pub published: &'static str,
    /// Name and text of each experiment file, in the order of the report.
    pub files: &'static [File],
    /// Proposal of the paper in three sentences; empty for other collections.
    pub proposes: &'static str,
    /// Files with readings that they share, and with cells in ns-2 (`ns2.toml`).
    pub(crate) beside: &'static [File],
    /// Name and text of the found worlds of its claims (`worlds.toml`), if it has any.
    pub(crate) worlds: Option<File>,
    /// Abbreviations in its claims, and their meanings.
    pub terms: &'static [(&'static str, &'static str)],
}

/// The experiment file at a path below `experiments/`, without its ending.
#[macro_export]
#[doc(hidden)]
macro_rules! experiment_file {
    ($path:literal) => {
        (
            concat!("experiments/", $path, ".toml"),
            include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../experiments/",
                $path,
                ".toml"
            )),
        )
    };
}
pub(crate) use experiment_file as file;

/// The papers, in the order of the report.
pub static PAPERS: [&Collection; 5] = [
    &lr2008::COLLECTION,
    &xcpr2005::COLLECTION,
    &estcp2010::COLLECTION,
    &eten2004::COLLECTION,
    &tcpwbr2003::COLLECTION,
];

/// Every protocol, and every AQM, on one link.
pub static MATRIX: &Collection = &matrix::COLLECTION;

/// Links that users complain about. They take long and run only on request.
pub static FIELD: &Collection = &field::COLLECTION;

/// The test cases for live media of RFC 8867 and RFC 8869. They run only on request.
pub static MEDIA: &Collection = &media::COLLECTION;

/// Upwind's own figures. They too run only on request.
pub static UPWIND: &Collection = &upwind::COLLECTION;

/// Collections that run only on request.
static ON_REQUEST: [&Collection; 3] = [FIELD, MEDIA, UPWIND];

/// Selects everything, [`FIELD`], [`MEDIA`] and [`UPWIND`] included.
pub const ALL: &str = "all";

/// Every collection, in the order of the report.
pub fn collections() -> impl Iterator<Item = &'static Collection> {
    PAPERS.into_iter().chain([MATRIX]).chain(ON_REQUEST)
}

impl Collection {
    /// Its experiments.
    ///
    /// # Errors
    /// None, as long as the tests pass.
    pub fn experiments(&self) -> Result<Vec<Experiment>, ExperimentError> {
        self.files.iter().map(|file| self.parse(file)).collect()
    }

    fn parse(&self, (name, text): &File) -> Result<Experiment, ExperimentError> {
        let beside = |from: &str| {
            let found = self.beside.iter().find(|(name, _)| name.rsplit('/').next() == Some(from));
            let text = found.map(|(_, text)| (*text).to_owned());
            text.ok_or_else(|| no_such(from, format!("no such file comes with `{}`", self.key)))
        };
        let experiment = Experiment::parse_beside(name, text, &beside)?;
        Ok(Experiment { worlds: self.worlds()?, ns2: self.ns2()?, ..experiment })
    }

    /// The nearest worlds of its claims, as far as a search found them.
    ///
    /// # Errors
    /// None, as long as the tests pass.
    pub fn worlds(&self) -> Result<Worlds, ExperimentError> {
        self.worlds.map_or(Ok(Worlds::default()), |(name, text)| Worlds::parse(name, text))
    }

    /// The cells of its experiments in ns-2, if some were measured.
    ///
    /// # Errors
    /// None, as long as the tests pass.
    pub fn ns2(&self) -> Result<Ns2, ExperimentError> {
        let found = self.beside.iter().find(|(name, _)| name.rsplit('/').next() == Some(ns2::FILE));
        found.map_or(Ok(Ns2::default()), |(name, text)| Ns2::parse(name, text))
    }

    /// True for a paper.
    pub fn is_paper(&self) -> bool {
        !self.authors.is_empty()
    }

    /// True if the experiment belongs to it. Experiments of a paper name the paper; the others are
    /// identified by their file.
    pub fn holds(&self, experiment: &Experiment) -> bool {
        match &experiment.caption.paper {
            Some(paper) => paper == self.key,
            None => self.files.iter().any(|(name, _)| *name == experiment.file),
        }
    }
}

/// Key of the paper or collection of an experiment, which names its folder.
pub(crate) fn key_of(experiment: &Experiment) -> String {
    let collection = || collection_of(experiment).map(|c| c.key.to_owned());
    let paper = experiment.caption.paper.clone().or_else(collection);
    paper.unwrap_or_else(|| "own-experiments".to_owned())
}

/// Collection that an experiment belongs to; `None` for experiments of users.
pub fn collection_of(experiment: &Experiment) -> Option<&'static Collection> {
    collections().find(|c| c.holds(experiment))
}

/// Place of an experiment in the order of the report; experiments of users come last.
pub fn place(experiment: &Experiment) -> usize {
    let mut files = collections().flat_map(|c| c.files);
    files.position(|(name, _)| *name == experiment.file).unwrap_or(usize::MAX)
}

/// True if this exact experiment comes with the program, so that its id identifies it. A file of
/// the same name or paper may differ, and so may the readings next to a copy.
pub fn is_builtin(experiment: &Experiment) -> bool {
    let is_of = |collection: &Collection, file: &File| {
        experiment.is_of(file.1)
            && collection.parse(file).is_ok_and(|plain| experiment.is_changed_from(&plain))
    };
    collections().any(|c| c.files.iter().any(|file| is_of(c, file)))
}

impl Experiment {
    /// The command that runs it again.
    pub fn command(&self, effort: &Effort) -> String {
        let mut words = vec![if effort.is_full() { "--full" } else { "--quick" }.to_owned()];
        // Full effort judges all of them anyway.
        if self.all_readings {
            words.push("--all-readings".to_owned());
        }
        if let Effort::Custom { full, length } = effort {
            let usual = if *full { &self.full } else { &self.quick };
            for (key, value, usual) in [
                ("duration", &length.duration, &usual.duration),
                ("warmup", &length.warmup, &usual.warmup),
            ] {
                let value = value.iter().filter(|_| value != usual);
                words.extend(value.flat_map(|v| ["--set".into(), format!("{key}={v}")]));
            }
            words.extend(["--repetitions".to_owned(), length.repetitions.to_string()]);
        }
        for (key, value) in &self.revision.overrides {
            words.extend(["--set".to_owned(), format!("{key}={value}")]);
        }
        // Only `sweep` takes another number of repetitions.
        let known = !matches!(effort, Effort::Custom { .. }) && is_builtin(self);
        let file = if self.file == ScenarioFile::STDIN { "-" } else { &self.file };
        let what = if known { ["reproduce", &self.id] } else { ["sweep", file] };
        let words = what.into_iter().map(shell_word).chain(words.iter().map(|w| shell_word(w)));
        format!("windward {}", words.collect::<Vec<_>>().join(" "))
    }
}

/// All of them, in the order of the report.
///
/// # Errors
/// None, as long as the tests pass.
pub fn all() -> Result<Vec<Experiment>, ExperimentError> {
    let each = collections().map(Collection::experiments);
    Ok(each.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// The experiments with these names, and those that their claims refer to. A name is that of a
/// collection, an experiment or a claim, or [`ALL`]. Without names, these are the papers and the
/// matrix.
///
/// # Errors
/// If a name is unknown; the error suggests the nearest one.
pub fn select(names: &[String]) -> Result<Vec<Experiment>, ExperimentError> {
    let all = all()?;
    let mut wanted = vec![false; all.len()];
    if names.is_empty() {
        for (wanted, experiment) in wanted.iter_mut().zip(&all) {
            *wanted = !ON_REQUEST.iter().any(|collection| collection.holds(experiment));
        }
    }
    for name in names {
        let mut found = name == ALL || collections().any(|c| c.key == name);
        for (wanted, experiment) in wanted.iter_mut().zip(&all) {
            let named = is_named(experiment, name);
            *wanted |= named;
            found |= named;
        }
        if !found {
            return Err(unknown(name, &all));
        }
    }
    // References of references: as many rounds as there are experiments suffice.
    for _ in 0..all.len() {
        for i in 0..all.len() {
            if wanted[i] {
                for id in all[i].references() {
                    for (w, e) in wanted.iter_mut().zip(&all) {
                        *w |= e.id == id;
                    }
                }
            }
        }
    }
    let kept = all.into_iter().zip(wanted).filter(|(_, w)| *w);
    let kept: Vec<Experiment> = kept.map(|(e, _)| e).collect();
    match kept.is_empty() {
        false => Ok(kept),
        true => Err(no_such(&names.join(", "), "there are no experiments yet".to_owned())),
    }
}

/// True if `name` stands for this experiment.
fn is_named(experiment: &Experiment, name: &str) -> bool {
    name == ALL
        || experiment.id == name
        || collection_of(experiment).is_some_and(|c| c.key == name)
        || experiment.claims.iter().any(|claim| claim.id == name)
}

fn unknown(name: &str, all: &[Experiment]) -> ExperimentError {
    let keys = collections().map(|c| c.key).chain([ALL]);
    let ids = all.iter().map(|e| e.id.as_str());
    let claims = all.iter().flat_map(|e| &e.claims).map(|c| c.id.as_str());
    let hint = nearest(name, keys.chain(ids).chain(claims));
    no_such(name, format!("no such paper, figure or claim{hint}"))
}

fn no_such(name: &str, message: String) -> ExperimentError {
    ExperimentError::Experiment { file: name.to_owned(), line: 0, message }
}

#[cfg(test)]
mod tests;
