//! A suite: what is asked of a congestion controller, as data.
//!
//! A suite file lists criteria, each with its section of the text that asks it, and experiment
//! files beside it. Those say `subjects`, `standards` and `against` where a controller is named
//! ([`Cast`]), and their claims name the criterion that they are about.

use std::path::Path;

use toml_edit::Document;
use windward_experiments::LabError;
use windward_experiments::error::nearest;
use windward_experiments::experiment::{Cast, Claim, Effort, Experiment, Subject};
use windward_experiments::strict_toml::{Section, Source};
use windward_sim::input::{LARGEST_SETTINGS, read_text};
use windward_sim::stack::Stacks;

/// Criteria for a congestion controller, and the experiments that decide them.
#[derive(Debug, Clone, PartialEq)]
pub struct Suite {
    /// Its name.
    pub id: String,
    /// Title.
    pub title: String,
    /// The text that it follows.
    pub source: String,
    /// Pages of the report, in its order.
    pub chapters: Vec<Chapter>,
    /// In the order of the report.
    pub criteria: Vec<Criterion>,
    /// Published results, which reports compare with the measured ones.
    pub known: Vec<Known>,
    /// Controllers of standards. Bounds are relative to what they do in the same place.
    pub standards: Vec<Subject>,
    /// Controllers that share paths with each subject, unless the user names others.
    pub against: Vec<Subject>,
    /// The file as the user named it.
    pub file: String,
    /// Its experiments.
    files: Vec<SuiteFile>,
}

#[derive(Debug, Clone, PartialEq)]
struct SuiteFile {
    name: String,
    text: String,
    asked: When,
}

/// When an experiment of a suite is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    Always,
    /// With full effort only.
    Full,
    /// In tests of other projects only, which have seconds.
    Smoke,
}

/// Criteria on one page.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Chapter {
    /// Its name in the suite, and in the name of the page.
    pub key: String,
    /// Title.
    pub title: String,
    /// The section of the text.
    pub section: String,
}

/// One thing that is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Criterion {
    /// Its name in claims.
    pub id: String,
    /// Section of the text.
    pub section: String,
    /// A few words.
    pub title: String,
    /// Requirement, one sentence.
    pub asks: String,
    /// The key of its chapter.
    pub chapter: String,
    /// True if general use requires it.
    pub general: bool,
    /// Where nothing can be measured: what its author has to say instead.
    pub discuss: Option<String>,
}

/// Published result about a controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Name of the controller.
    pub subject: String,
    /// The claim that would show it, without the subject.
    pub claim: String,
    /// True if the claim holds by that result.
    pub holds: bool,
    /// The result, one sentence.
    pub says: String,
    /// Source of the result.
    pub source: String,
}

/// Gives the text of a file beside the suite's.
type Beside<'a> = &'a dyn Fn(&str) -> Result<String, LabError>;

impl Suite {
    /// Reads a file, and the experiments beside it.
    ///
    /// # Errors
    /// If one cannot be read, or anything in the suite's own file is wrong.
    pub fn read(path: &Path) -> Result<Self, LabError> {
        let text = read_text(path, LARGEST_SETTINGS).map_err(|e| LabError::io("read", path, e))?;
        let name = path.display().to_string();
        Self::parse(&name, &text, &|from| Experiment::text_beside(&name, from))
    }

    /// Parses a text; `name` stands for the file in errors, `beside` gives the texts of the
    /// experiments.
    ///
    /// # Errors
    /// If anything in it is wrong.
    pub fn parse(name: &str, text: &str, beside: Beside<'_>) -> Result<Self, LabError> {
        let source = Source { name, text };
        let document =
            Document::parse(text).map_err(|e| source.error(source.line(e.span()), e.message()))?;
        let item = document.as_table().get("suite").ok_or_else(|| {
            let help = match document.as_table().contains_key("experiment") {
                true => "this is an experiment, which `windward sweep` runs",
                false => "a suite says what it asks of whom: see docs/evaluate.md",
            };
            source.error(0, format!("no [suite] table: {help}"))
        })?;
        if let Some((key, item)) = document.as_table().iter().find(|(key, _)| *key != "suite") {
            let line = source.line(item.span());
            let message = format!(
                "`{key}` has no place beside [suite]: scenarios stand in files of their own"
            );
            return Err(source.error(line, message));
        }
        let section = Section::new(source, "suite", item)?;
        let suite = read(source, &section, beside)?;
        section.finish()?;
        Ok(suite)
    }

    /// The experiments with these subjects in their parts, against those that the suite names or
    /// `against`; they may be of these stacks. Those of whom something is known take part where it
    /// would show, so that every report can be held against that, and are asked for that alone.
    ///
    /// # Errors
    /// If anything in one of them is wrong.
    pub fn experiments(
        &self,
        subjects: &[Subject],
        against: Option<&[Subject]>,
        stacks: &Stacks,
        effort: &Effort,
    ) -> Result<Vec<Experiment>, LabError> {
        let when: &[When] =
            if effort.is_full() { &[When::Always, When::Full] } else { &[When::Always] };
        let experiments = self.experiments_of(when, subjects, against, stacks)?;
        if experiments.is_empty() {
            return Err(
                self.error("a suite has `experiments`, and this one has none for a quick look")
            );
        }
        Ok(experiments)
    }

    /// The experiments that take the seconds which a test has, with this subject and the standards
    /// in their parts. Claims are those of the subject and of each standard.
    ///
    /// # Errors
    /// If there are none, or anything in one of them is wrong.
    pub fn smoke(&self, subject: &Subject) -> Result<Vec<Experiment>, LabError> {
        let subjects = [std::slice::from_ref(subject), &self.standards].concat();
        let experiments = self.experiments_of(&[When::Smoke], &subjects, None, &Stacks::none())?;
        if experiments.is_empty() {
            return Err(self.error("the suite names no experiments as `smoke`"));
        }
        Ok(experiments)
    }

    fn error(&self, message: impl Into<String>) -> LabError {
        LabError::Experiment { file: self.file.clone(), line: 0, message: message.into() }
    }

    fn experiments_of(
        &self,
        when: &[When],
        subjects: &[Subject],
        against: Option<&[Subject]>,
        stacks: &Stacks,
    ) -> Result<Vec<Experiment>, LabError> {
        let cast = Cast {
            subjects: subjects.to_vec(),
            standards: self.standards.clone(),
            against: against.unwrap_or(&self.against).to_vec(),
        };
        let mut experiments: Vec<Experiment> = Vec::new();
        for file in self.files.iter().filter(|file| when.contains(&file.asked)) {
            let beside = |from: &str| Experiment::text_beside(&file.name, from);
            let parse = |cast: &Cast| {
                let experiment = Experiment::parse_with(&file.name, &file.text, &beside, cast)?;
                Ok::<_, LabError>(experiment.with_stacks(stacks).with_protocols(&cast.own()))
            };
            let mut experiment = parse(&cast)?;
            let witnesses = self.witnesses(subjects, Some(&experiment))?;
            if !witnesses.is_empty() {
                let subjects = [subjects, &witnesses].concat();
                experiment = parse(&Cast { subjects, ..cast.clone() })?;
                experiment.claims.retain(|claim| self.is_for(claim, &witnesses));
            }
            let fail = |message| LabError::Experiment { file: file.name.clone(), line: 0, message };
            if experiment.claims.is_empty() {
                return Err(fail("nothing is asked in it: a suite's experiment has claims".into()));
            }
            if let Some(other) = experiments.iter().find(|e| e.id == experiment.id) {
                return Err(fail(format!("{} has the id `{}` too", other.file, experiment.id)));
            }
            for asked in experiment.claims.iter().filter_map(|c| c.asked.as_ref()) {
                let Some(criterion) = self.criteria.iter().find(|c| c.id == asked.criterion) else {
                    let hint = nearest(&asked.criterion, self.criteria.iter().map(|c| &*c.id));
                    let message = format!(
                        "the claim `{}` names the criterion `{}`, which the suite does not have{hint}",
                        asked.of_all, asked.criterion
                    );
                    return Err(fail(message));
                };
                if let Some(other) = experiments
                    .iter()
                    .flat_map(|e| &e.claims)
                    .filter_map(|c| c.asked.as_ref())
                    .find(|other| other.of_all == asked.of_all)
                {
                    return Err(fail(format!("there are two claims `{}`", other.of_all)));
                }
                experiment.chapter.get_or_insert_with(|| criterion.chapter.clone());
            }
            experiments.push(experiment);
        }
        Ok(experiments)
    }

    /// Those of whom something is known that would show in an experiment, or in any, and who are no
    /// subjects.
    ///
    /// # Errors
    /// If one cannot be a subject.
    pub(crate) fn witnesses(
        &self,
        subjects: &[Subject],
        experiment: Option<&Experiment>,
    ) -> Result<Vec<Subject>, LabError> {
        let shows = |known: &&Known| {
            experiment.is_none_or(|e| {
                e.claims.iter().filter_map(|c| c.asked.as_ref()).any(|a| a.of_all == known.claim)
            })
        };
        let mut witnesses: Vec<Subject> = Vec::new();
        for known in self.known.iter().filter(shows) {
            let witness = Subject::parse(&known.subject).map_err(|message| self.error(message))?;
            if subjects.iter().chain(&witnesses).all(|other| other.name != witness.name) {
                witnesses.push(witness);
            }
        }
        Ok(witnesses)
    }

    /// True if a claim is about a subject, or about a witness of whom the claim is known.
    fn is_for(&self, claim: &Claim, witnesses: &[Subject]) -> bool {
        claim.asked.as_ref().is_none_or(|asked| {
            witnesses.iter().all(|witness| witness.name != asked.subject)
                || self.known.iter().any(|k| k.subject == asked.subject && k.claim == asked.of_all)
        })
    }

    /// The text of one of its experiments.
    pub(crate) fn text_of(&self, file: &str) -> Option<&str> {
        self.files.iter().find(|f| f.name == file).map(|f| &*f.text)
    }
}

fn read(source: Source<'_>, section: &Section<'_>, beside: Beside<'_>) -> Result<Suite, LabError> {
    let subjects = |key: &'static str| {
        let names = section.texts(key)?;
        let parse = |at: &windward_experiments::strict_toml::At<String>| {
            Subject::parse(&at.value).map_err(|message| source.error(at.line, message))
        };
        names.iter().map(parse).collect::<Result<Vec<_>, LabError>>()
    };
    let standards = subjects("standards")?;
    if standards.is_empty() {
        let message = "a suite needs `standards`, the controllers that its bounds are relative to, \
                       as standards = [\"newreno\", \"cubic\"]";
        return Err(section.error(message));
    }
    let chapters = section.sections("chapters")?;
    let chapters = chapters.into_iter().map(chapter).collect::<Result<Vec<_>, _>>()?;
    let mut criteria: Vec<Criterion> = Vec::new();
    for table in section.sections("criteria")? {
        let line = table.line;
        let error = |message: String| source.error(line, message);
        let criterion = criterion(table)?;
        if chapters.iter().all(|c| c.key != criterion.chapter) {
            let hint = nearest(&criterion.chapter, chapters.iter().map(|c| &*c.key));
            return Err(error(format!("no chapter `{}`{hint}", criterion.chapter)));
        }
        if criteria.iter().any(|c| c.id == criterion.id) {
            return Err(error(format!("there are two criteria `{}`", criterion.id)));
        }
        criteria.push(criterion);
    }
    if criteria.is_empty() {
        return Err(section.missing("criteria"));
    }
    let mut files = Vec::new();
    let keys = [("experiments", When::Always), ("only_full", When::Full), ("smoke", When::Smoke)];
    for (key, asked) in keys {
        for at in section.texts(key)? {
            let name = Path::new(source.name).parent().unwrap_or(Path::new("")).join(&at.value);
            let name = name.display().to_string();
            files.push(SuiteFile { text: beside(&at.value)?, name, asked });
        }
    }
    let known = section.sections("known")?;
    Ok(Suite {
        id: section.needed_text("id")?.value,
        title: section.needed_text("title")?.value,
        source: section.needed_text("source")?.value,
        known: known.into_iter().map(self::known).collect::<Result<_, _>>()?,
        against: subjects("against")?,
        standards,
        chapters,
        criteria,
        file: source.name.to_owned(),
        files,
    })
}

fn chapter(table: Section<'_>) -> Result<Chapter, LabError> {
    let text = |key| Ok::<_, LabError>(table.needed_text(key)?.value);
    let chapter = Chapter { key: text("key")?, title: text("title")?, section: text("section")? };
    table.finish()?;
    Ok(chapter)
}

fn criterion(table: Section<'_>) -> Result<Criterion, LabError> {
    let text = |key| Ok::<_, LabError>(table.needed_text(key)?.value);
    let criterion = Criterion {
        id: text("id")?,
        section: text("section")?,
        title: text("title")?,
        asks: text("asks")?,
        chapter: text("chapter")?,
        general: table.flag("general")?.is_some_and(|g| g.value),
        discuss: table.text("discuss")?.map(|d| d.value),
    };
    table.finish()?;
    Ok(criterion)
}

fn known(table: Section<'_>) -> Result<Known, LabError> {
    let text = |key| Ok::<_, LabError>(table.needed_text(key)?.value);
    let holds = table.flag("holds")?.ok_or_else(|| table.missing("holds"))?.value;
    let known = Known {
        subject: text("subject")?,
        claim: text("claim")?,
        holds,
        says: text("says")?,
        source: text("source")?,
    };
    table.finish()?;
    Ok(known)
}
