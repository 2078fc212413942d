//! A suite: criteria for a congestion controller, as data.
//!
//! A suite file lists criteria, each with the section of its source, and experiment files in the
//! same folder. Experiments name `subjects`, `standards` and `against` in place of controllers
//! ([`Cast`]), and their claims name a criterion.

use std::path::Path;

use windward_experiments::ExperimentError;
use windward_experiments::error::nearest;
use windward_experiments::experiment::{Cast, Claim, Effort, Experiment, Subject};
use windward_sim::input::{LARGEST_SETTINGS, read_text};
use windward_sim::keys;
use windward_sim::stack::Stacks;
use windward_sim::strict_toml::{
    At, Document, Field, KeySource, Result as FileResult, Section, TomlType, json_schema, readers,
    unnamed,
};

/// Criteria for a congestion controller, and the experiments that decide them.
#[derive(Debug, Clone, PartialEq)]
pub struct Suite {
    /// Its name.
    pub id: String,
    /// Title.
    pub title: String,
    /// Its source.
    pub source: String,
    /// Pages of the report, in its order.
    pub chapters: Vec<Chapter>,
    /// Criteria, in the order of the report.
    pub criteria: Vec<Criterion>,
    /// Published results, which reports compare with the measured ones.
    pub known: Vec<Known>,
    /// Controllers of standards. Bounds are relative to them in the same scenario.
    pub standards: Vec<Subject>,
    /// Controllers that share paths with each subject, unless the user names others.
    pub against: Vec<Subject>,
    /// Share of the least goodput of the standards that a subject needs in every scenario to meet a
    /// criterion there; zero for no such claim.
    pub least_goodput: f64,
    /// The file, as the user named it.
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

/// Occasion for an experiment of a suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    Always,
    /// With full effort only.
    Full,
    /// Only in tests of other projects, which take seconds.
    Smoke,
}

keys! {
    /// Criteria on one page.
    #[derive(PartialEq, Eq, serde::Serialize, serde::Deserialize)]
    pub struct Chapter in "chapter" {
        key: String = readers::string(), needed "key = \"safety\"",
            "Its name in the suite, and in the name of the page.";
        title: String = readers::string(), needed "title = \"Safety\"", "The title for readers.";
        section: String = readers::string(), needed "section = \"5.1\"",
            "The section of the text.";
    }

    /// A criterion.
    #[derive(PartialEq, Eq)]
    pub struct Criterion in "criterion" {
        id: String = readers::string(), needed "id = \"fairness\"", "Its name in claims.";
        section: String = readers::string(), needed "section = \"5.1.2\"",
            "Its section of the text.";
        title: String = readers::string(), needed "title = \"Fairness\"", "A few words.";
        asks: String = readers::string(), needed "asks = \"It shares a link fairly.\"",
            "The requirement, a sentence.";
        chapter: String = readers::string(), needed "chapter = \"safety\"",
            "The key of its chapter.";
        general: bool = readers::flag(), or false, "True if it must be met for general use.";
        discuss: Option<String> = readers::string(), absent,
            "Question to the author, if nothing can be measured.";
    }

    /// A known result of a controller.
    #[derive(PartialEq, Eq)]
    pub struct Known in "known" {
        subject: String = readers::string(), needed "subject = \"bbr\"", "The controller.";
        claim: String = readers::string(), needed "claim = \"short-buffers\"",
            "The claim that tests it, without the subject.";
        holds: bool = readers::flag(), needed "holds = false", "True if the claim should hold.";
        says: String = readers::string(), needed "says = \"It loses much.\"",
            "The known result, a sentence.";
        source: String = readers::string(), needed "source = \"RFC 9743\"", "Its source.";
    }
}

/// Returns the text of a file in the folder of the suite.
type Beside<'a> = &'a dyn Fn(&str) -> Result<String, ExperimentError>;

impl Suite {
    /// Reads a file, and the experiments in its folder.
    ///
    /// # Errors
    /// If one cannot be read, or anything in the suite's own file is wrong.
    pub fn read(path: &Path) -> Result<Self, ExperimentError> {
        let text =
            read_text(path, LARGEST_SETTINGS).map_err(|e| ExperimentError::io("read", path, e))?;
        let name = path.display().to_string();
        Self::parse(&name, &text, &|from| Experiment::text_beside(&name, from))
    }

    /// Parses a text. `name` is the name of the file in errors; `beside` returns the texts of the
    /// experiments.
    ///
    /// # Errors
    /// If anything in it is wrong.
    pub fn parse(name: &str, text: &str, beside: Beside<'_>) -> Result<Self, ExperimentError> {
        let document = Document::parse(name, text)?;
        let file = document.section();
        if file.get("suite").is_none() {
            let help = match file.get("experiment") {
                Some(_) => "this is an experiment, which `windward sweep` runs",
                None => "add criteria and experiments as in docs/evaluate.md",
            };
            let message = format!("no [suite] table: {help}");
            return Err(ExperimentError::Experiment { file: name.to_owned(), line: 0, message });
        }
        if let Some((key, field)) = file.entries().find(|(key, _)| *key != "suite") {
            let message = format!(
                "`{key}` is not allowed next to [suite]: scenarios have files of their own"
            );
            return Err(field.error(message).into());
        }
        let suite = FileKeys::read(&document.root(KEYS)?)?.suite;
        read(&suite, beside)
    }

    /// A JSON Schema of suites, for editors.
    pub fn json_schema() -> serde_json::Value {
        json_schema("A suite of Windward", KEYS)
    }

    /// The experiments with these subjects, which share paths with `against` or the controllers
    /// that the suite names. Subjects may be of these stacks. Controllers with known results take
    /// part in the experiments that test them, so that every report can be compared with these
    /// results, and are judged only by those claims.
    ///
    /// # Errors
    /// If anything in one of them is wrong.
    pub fn experiments(
        &self,
        subjects: &[Subject],
        against: Option<&[Subject]>,
        stacks: &Stacks,
        effort: &Effort,
    ) -> Result<Vec<Experiment>, ExperimentError> {
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

    /// The short experiments for tests, with this subject and the standards. Claims are those of
    /// the subject and of each standard.
    ///
    /// # Errors
    /// If there are none, or anything in one of them is wrong.
    pub fn smoke(
        &self,
        subject: &Subject,
        stacks: &Stacks,
    ) -> Result<Vec<Experiment>, ExperimentError> {
        let subjects = [std::slice::from_ref(subject), &self.standards].concat();
        let experiments = self.experiments_of(&[When::Smoke], &subjects, None, stacks)?;
        if experiments.is_empty() {
            return Err(self.error("the suite names no experiments as `smoke`"));
        }
        Ok(experiments)
    }

    /// The standards for these subjects: for a subject on a stack, the suite's standards on that
    /// stack, where it has them.
    pub(crate) fn standards_for(&self, subjects: &[Subject], stacks: &Stacks) -> Vec<Subject> {
        let mut standards: Vec<Subject> = Vec::new();
        for subject in subjects {
            let hosted = subject.host().map(|host| {
                let names = self.standards.iter().map(|s| format!("{host}:{}", s.name));
                names.filter(|name| stacks.find(name).is_some()).collect::<Vec<_>>()
            });
            let those = match hosted {
                Some(names) if !names.is_empty() => {
                    names.iter().map(|name| Subject::row(name)).collect()
                }
                _ => self.standards.clone(),
            };
            let new = those.into_iter().filter(|new| standards.iter().all(|s| s.name != new.name));
            let new: Vec<Subject> = new.collect();
            standards.extend(new);
        }
        standards
    }

    fn error(&self, message: impl Into<String>) -> ExperimentError {
        ExperimentError::Experiment { file: self.file.clone(), line: 0, message: message.into() }
    }

    fn experiments_of(
        &self,
        when: &[When],
        subjects: &[Subject],
        against: Option<&[Subject]>,
        stacks: &Stacks,
    ) -> Result<Vec<Experiment>, ExperimentError> {
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
                let experiment = match self.least_goodput > 0.0 {
                    true => experiment.with_least_goodput(self.least_goodput, cast),
                    false => Ok(experiment),
                };
                let experiment = experiment.map_err(|message| ExperimentError::Experiment {
                    file: file.name.clone(),
                    line: 0,
                    message,
                })?;
                Ok::<_, ExperimentError>(experiment.with_stacks(stacks).with_protocols(&cast.own()))
            };
            let mut experiment = parse(&cast)?;
            let witnesses = self.witnesses(subjects, Some(&experiment))?;
            if !witnesses.is_empty() {
                let subjects = [subjects, &witnesses].concat();
                experiment = parse(&Cast { subjects, ..cast.clone() })?;
                experiment.claims.retain(|claim| self.is_for(claim, &witnesses));
            }
            let fail =
                |message| ExperimentError::Experiment { file: file.name.clone(), line: 0, message };
            if experiment.claims.is_empty() {
                return Err(fail("an experiment of a suite needs claims".into()));
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
                experiment.caption.chapter.get_or_insert_with(|| criterion.chapter.clone());
            }
            experiments.push(experiment);
        }
        Ok(experiments)
    }

    /// Controllers that are not subjects and have known results that an experiment, or any
    /// experiment, tests.
    ///
    /// # Errors
    /// If one is not a valid subject.
    pub(crate) fn witnesses(
        &self,
        subjects: &[Subject],
        experiment: Option<&Experiment>,
    ) -> Result<Vec<Subject>, ExperimentError> {
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

    /// True if a claim is about a subject, or about a witness with a known result for it.
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

keys! {
    /// Keys of the file.
    struct FileKeys<'a> in "file" {
        suite: Section<'a> = readers::table(&[SuiteKeys::KEYS]), needed "[suite]",
            "criteria for a congestion controller";
    }
}

/// The declarations of all keys.
const KEYS: &[KeySource] = &[FileKeys::KEYS];

keys! {
    /// Keys of `[suite]`.
    struct SuiteKeys<'a> in "suite" {
        id: String = readers::string(), needed "id = \"mine\"", "its name";
        title: String = readers::string(), needed "title = \"Mine\"", "what it is";
        source: String = readers::string(), needed "source = \"RFC 9743\"",
            "the source of its criteria";
        standards: Vec<Subject> = readers::custom(subjects_kind, subjects), empty,
            "the controllers that its bounds are relative to";
        against: Vec<Subject> = readers::custom(subjects_kind, subjects), empty,
            "the controllers that share paths with each subject, unless the user names others";
        least_goodput: f64 = readers::number(), or 0.0,
            "the share of the least goodput of the standards without which no criterion is met";
        chapters: Vec<Section<'a>> = readers::tables(&[Chapter::KEYS], unnamed), empty,
            "pages of the report, in its order";
        criteria: Vec<Section<'a>> = readers::tables(&[Criterion::KEYS], unnamed), empty,
            "criteria, in the order of the report";
        known: Vec<Section<'a>> = readers::tables(&[Known::KEYS], unnamed), empty,
            "results that others have published";
        experiments: Vec<At<String>> = readers::texts(), empty, "files of experiments";
        only_full: Vec<At<String>> = readers::texts(), empty,
            "files of experiments that run only with full effort";
        smoke: Vec<At<String>> = readers::texts(), empty,
            "files of experiments that run only in tests of other projects";
    }
}

fn subjects_kind() -> TomlType {
    (readers::texts().kind)()
}

fn subjects(field: &Field<'_>) -> FileResult<Vec<Subject>> {
    let items = if field.is_array() { field.items()? } else { vec![field.clone()] };
    let parse = |item: &Field<'_>| Subject::parse(item.text()?).map_err(|wrong| item.error(wrong));
    items.iter().map(parse).collect()
}

fn read(section: &Section<'_>, beside: Beside<'_>) -> Result<Suite, ExperimentError> {
    let keys = SuiteKeys::read(section)?;
    if keys.standards.is_empty() {
        let message = "a suite needs `standards`, the controllers that its bounds are relative to, \
                       as standards = [\"newreno\", \"cubic\"]";
        return Err(section.error(message).into());
    }
    let chapters: Vec<Chapter> =
        keys.chapters.iter().map(Chapter::read).collect::<FileResult<_>>()?;
    let mut criteria: Vec<Criterion> = Vec::new();
    for table in &keys.criteria {
        let criterion = Criterion::read(table)?;
        if chapters.iter().all(|chapter| chapter.key != criterion.chapter) {
            let known = chapters.iter().map(|chapter| &*chapter.key);
            let error = match table.get("chapter") {
                Some(field) => field.unknown("chapter", &criterion.chapter, known),
                None => table.missing("chapter", "chapter = \"safety\""),
            };
            return Err(error.into());
        }
        if criteria.iter().any(|other| other.id == criterion.id) {
            let message = format!("there are two criteria `{}`", criterion.id);
            return Err(table.error(message).into());
        }
        criteria.push(criterion);
    }
    if criteria.is_empty() {
        return Err(section.missing("criteria", "[[suite.criteria]]").into());
    }
    let mut files = Vec::new();
    let folder = Path::new(section.file()).parent().unwrap_or(Path::new(""));
    let lists = [
        (&keys.experiments, When::Always),
        (&keys.only_full, When::Full),
        (&keys.smoke, When::Smoke),
    ];
    for (names, asked) in lists {
        for At { value, .. } in names {
            let name = folder.join(value).display().to_string();
            files.push(SuiteFile { text: beside(value)?, name, asked });
        }
    }
    Ok(Suite {
        id: keys.id,
        title: keys.title,
        source: keys.source,
        known: keys.known.iter().map(Known::read).collect::<FileResult<_>>()?,
        against: keys.against,
        standards: keys.standards,
        least_goodput: keys.least_goodput,
        chapters,
        criteria,
        file: section.file().to_owned(),
        files,
    })
}
