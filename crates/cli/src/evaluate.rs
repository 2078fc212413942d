//! `windward evaluate`: congestion controllers against the criteria of a suite.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use windward_evaluation::{
    Answer, Evaluation, FaultyController, Question, StoredAnswer, StoredEvaluation, Suite,
    VARIATIONS,
};
use windward_experiments::ExperimentError;
use windward_experiments::claims::ClaimResult;
use windward_experiments::experiment::Subject;
use windward_report::ReportOptions;
use windward_sim::output::{OutputDir, OutputFile};

use crate::effort::{self, EffortArgs};
use crate::failure::{Failure, is_worker};
use crate::jail::{self, End};
use crate::native::Library;
use crate::output::{self, TextTable};
use crate::python::{Python, PythonController};
use crate::signals;
use crate::worker::{self, Word};

/// Evaluate congestion controllers against the criteria of RFC 9743
///
/// Runs every experiment of the suite with each subject, and writes one page, DIR/index.html, with
/// a row for each criterion and a column for each subject, and the same as evaluation.md and
/// evaluation.json. Where the RFC gives no number, the bound is the result of standard controllers
/// in the same scenario.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Protocols (see `windward list`), NAME={ window = "cubic", .. } for a composition,
    /// FILE.py:CLASS for a congestion controller in Python, or FILE.so for one in C
    ///
    /// Controllers in C keep to windward_controller.h. Controllers in Python need the Python
    /// package: `pip install .` in a clone of the repository. Both run in a process of their own.
    /// NAME=FILE.py:CLASS gives the controller another name in the report.
    #[arg(value_name = "SUBJECT", required_unless_present_any = ["list", "diff"])]
    subjects: Vec<OsString>,

    /// Compare two evaluation.json, and do nothing else: exit status 1 if an answer became worse
    #[arg(long, value_names = ["OLD.json", "NEW.json"], num_args = 2)]
    diff: Option<Vec<PathBuf>>,

    /// Write the answers as JUnit XML for a CI system; with --diff, those of the new evaluation
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

    /// Protocols that share paths with each subject, in place of those that the suite names
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    against: Vec<OsString>,

    /// Controllers that bounds are relative to, in place of those that the suite names
    ///
    /// A subject is compared with the standards on its own stack. If no standard runs on that
    /// stack, it is compared with all. By default a subject on a QUIC stack is compared with the
    /// suite's standards on that stack.
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    standards: Vec<OsString>,

    /// Suite of criteria: one of the built-in suites, or a file
    #[arg(long, value_name = "NAME|FILE", default_value = "rfc9743")]
    suite: PathBuf,

    /// Check only these criteria, claims or experiments of the suite, see --list; may be given more
    /// than once
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    only: Vec<String>,

    /// Folder for the report
    #[arg(long, value_name = "DIR", default_value = "evaluation")]
    out: PathBuf,

    /// Judge each claim also with buffers, RTTs and rates 20 % smaller and larger, and report the
    /// verdicts that flip as fragile
    ///
    /// Takes seven times the runs. Those of the variations are not kept for --resume.
    #[arg(long)]
    sensitivity: bool,

    /// List the criteria of the suite, and do nothing else
    #[arg(long)]
    list: bool,

    #[command(flatten)]
    effort: EffortArgs,
}

pub(crate) fn evaluate(args: &Args, quiet: bool, python: &Python<'_>) -> Result<(), Failure> {
    if let Some([old, new]) = args.diff.as_deref() {
        return diff(old, new, args.junit.as_deref());
    }
    let suite = Suite::find(&args.suite)?;
    let effort = args.effort.effort();
    if args.list {
        return output::print(&list(&suite, &args.only, &effort)?);
    }
    let foreign = foreign(args)?;
    if !foreign.is_empty() && is_worker() {
        worker::begin()?;
        return worker::end(judge(args, quiet, python, suite));
    }
    let judged = match foreign.is_empty() {
        true => judge(args, quiet, python, suite.clone()),
        false => jailed(&foreign, args, quiet, python),
    };
    junit_of(args, verdict(judged, args, &suite))
}

/// The fault of a subject is a verdict too, with a page.
fn verdict(judged: Result<(), Failure>, args: &Args, suite: &Suite) -> Result<(), Failure> {
    let fault = match judged {
        Err(Failure::Part(fault)) => FaultyController::of(&fault),
        judged => return judged,
    };
    let index = fault.write(suite, &args.only, &effort::about(), &args.out)?;
    let rest = match args.subjects.len() {
        ..=1 => "",
        _ => "\nThe other subjects have no verdict: evaluate them without it.\n",
    };
    output::print(&format!("{}\n{rest}\nThe report is {}\n", fault.sentence(), index.display()))?;
    Err(Failure::Command(1))
}

/// A subject whose code is foreign.
enum Foreign {
    Library(Library),
    Class(PythonController),
}

impl Foreign {
    fn parse(text: &OsStr) -> Option<Result<Self, Failure>> {
        match text.to_str().and_then(PythonController::parse) {
            Some(class) => Some(class.map(Foreign::Class).map_err(Failure::Input)),
            None => Library::parse(text).map(|library| Ok(Foreign::Library(library))),
        }
    }

    /// Its name before it is loaded.
    fn label(&self) -> String {
        match self {
            Foreign::Library(library) => library.label(),
            Foreign::Class(class) => class.name.clone(),
        }
    }

    fn file(&self) -> &Path {
        match self {
            Foreign::Library(library) => &library.file,
            Foreign::Class(class) => Path::new(&class.file),
        }
    }

    /// Loads it. Call it in a worker.
    fn subject(&self, given: &str, python: &Python<'_>) -> Result<Subject, Failure> {
        worker::say(&Word::Loads(self.label()));
        match self {
            Foreign::Library(library) => library.subject(given),
            Foreign::Class(class) => python.subject(class, given),
        }
    }
}

/// The subjects whose code is foreign.
fn foreign(args: &Args) -> Result<Vec<Foreign>, Failure> {
    let all = args.subjects.iter().chain(&args.against).chain(&args.standards);
    let foreign: Vec<Foreign> =
        all.filter_map(|text| Foreign::parse(text)).collect::<Result<_, _>>()?;
    match foreign.iter().map(Foreign::file).find(|file| !file.is_file()) {
        Some(file) => Err(Failure::Input(format!("there is no file {}", file.display()))),
        None => Ok(foreign),
    }
}

/// Judges in a worker, which loads the foreign code.
fn jailed(
    foreign: &[Foreign],
    args: &Args,
    quiet: bool,
    python: &Python<'_>,
) -> Result<(), Failure> {
    let in_python = foreign.iter().any(|subject| matches!(subject, Foreign::Class(_)));
    let worker = if in_python { python.worker() } else { python.again()? };
    let missing = args.out.ancestors().take_while(|path| !path.exists());
    let made: Vec<&Path> = missing.collect();
    let end = jail::work(python.again()?, &worker, &python.arguments, quiet);
    if matches!(end, Err(Failure::Interrupted)) {
        // The worker may have been ended by force, and can tell nothing any more.
        effort::tell_of_resume(quiet, &args.out);
        tidy(&args.out, &made)?;
    }
    let names = || match foreign {
        [one] => one.label(),
        all => format!("one of {}", all.iter().map(Foreign::label).collect::<Vec<_>>().join(", ")),
    };
    match end? {
        End::Done(done) => done,
        End::Fault { subject, fault } => {
            Err(Failure::Part(format!("{}: {fault}", subject.unwrap_or_else(names))))
        }
    }
}

/// Removes what a worker that was ended by force has begun in the folder of the report, and the
/// folders that it made if nothing else is in them.
fn tidy(out: &Path, made: &[&Path]) -> Result<(), Failure> {
    if out.is_dir() {
        // This removes the files that the worker has begun.
        OutputDir::create(out)?;
    }
    let inside = out.join(".windward");
    if made.contains(&out) && fs::read_dir(&inside).is_ok_and(|files| files.count() == 1) {
        let _ = fs::remove_file(inside.join("lock"));
        let _ = fs::remove_dir(&inside);
    }
    for folder in made {
        let _ = fs::remove_dir(folder);
    }
    Ok(())
}

fn judge(args: &Args, quiet: bool, python: &Python<'_>, suite: Suite) -> Result<(), Failure> {
    let effort = args.effort.effort();
    let subjects = subjects(&args.subjects, python)?;
    let against = subjects_or_none(&args.against, python)?;
    let standards = subjects_or_none(&args.standards, python)?;
    worker::say(&Word::Loaded);
    let (only, stacks) = (args.only.clone(), crate::stacks());
    let question = Question { suite, subjects, against, only, stacks, standards };
    let mut inquiry = question.inquire(&effort)?;
    for experiment in &mut inquiry.experiments {
        args.effort.change(experiment)?;
    }
    if args.effort.dry_run {
        let times = if args.sensitivity { 1 + VARIATIONS.len() } else { 1 };
        let all = vec![inquiry.experiments; times].concat();
        return effort::forecast(&all, &effort, &args.effort);
    }
    signals::check()?;
    let report = ReportOptions {
        about: effort::about(),
        resume: args.effort.resume,
        ..ReportOptions::default()
    };
    let summary = effort::with_progress(quiet, &args.effort, &args.out, |options| {
        if args.sensitivity {
            inquiry.vary(&effort, options)?;
        }
        windward_evaluation::evaluate(&inquiry, &effort, options, &report, &args.out)
    })?;
    let mut text = table(&summary.evaluation).text();
    text.push('\n');
    for sentence in summary.evaluation.summary() {
        text += &format!("{sentence}\n");
    }
    if let Some(sentence) = summary.evaluation.sensitivity() {
        text += &format!("\n{sentence}\n");
        for sentence in summary.evaluation.fragile() {
            text += &format!("  {sentence}\n");
        }
    }
    if let Some(sentence) = summary.evaluation.gave_up_in_short() {
        text += &format!("\n{sentence} Their runs and reasons are in evaluation.md.\n");
    }
    let (runs, index) = (summary.summary.runs, summary.summary.index.display());
    text += &format!("\n{runs} runs; the report is {index}\n");
    output::print(&text)?;
    let of_subjects = |claim: &ClaimResult| {
        let asked = claim.asked.as_ref();
        asked.is_none_or(|asked| summary.evaluation.subjects.contains(&asked.subject))
    };
    let claims: Vec<ClaimResult> =
        summary.summary.claims.iter().filter(|c| of_subjects(c)).cloned().collect();
    effort::strictly(args.effort.strict, &claims)
}

/// Writes the answers as JUnit XML if there are any: also where `--strict` or a fault of a library
/// makes the command fail.
fn junit_of(args: &Args, judged: Result<(), Failure>) -> Result<(), Failure> {
    let Some(junit) = args.junit.as_ref().filter(|_| !args.effort.dry_run) else { return judged };
    if matches!(judged, Ok(()) | Err(Failure::Failed(_) | Failure::Command(_))) {
        let stored = StoredEvaluation::read(&args.out.join("evaluation.json"))?;
        OutputFile::create(junit)?.finish(stored.to_junit().as_bytes())?;
    }
    judged
}

/// Prints the answers that differ between two evaluations. Fails if one became worse.
fn diff(old: &Path, new: &Path, junit: Option<&Path>) -> Result<(), Failure> {
    let (before, after) = (StoredEvaluation::read(old)?, StoredEvaluation::read(new)?);
    if before.suite != after.suite {
        let (a, b) = (&before.suite, &after.suite);
        return Err(Failure::Input(format!("the evaluations are of two suites, {a} and {b}")));
    }
    if let Some(junit) = junit {
        OutputFile::create(junit)?.finish(after.to_junit().as_bytes())?;
    }
    let changes = after.changes_since(&before);
    let mut table = TextTable::new(["subject", "criterion", "before", "after", "numbers"]);
    for change in &changes {
        let answer = |row: &Option<StoredAnswer>| {
            row.as_ref().map_or_else(|| "-".to_owned(), |row| row.answer.clone())
        };
        let row = change.after.as_ref().or(change.before.as_ref());
        let row = row.expect("an answer that differs was given at least once");
        let worse = if change.is_worse() { ", worse" } else { "" };
        table.row([
            row.subject.clone(),
            row.title.clone(),
            answer(&change.before),
            format!("{}{worse}", answer(&change.after)),
            row.measured.clone(),
        ]);
    }
    let same = after.rows.len() - changes.iter().filter(|c| c.after.is_some()).count();
    let text = match changes.is_empty() {
        true => format!("No answer differs; {same} are the same.\n"),
        false => format!("{}\n{same} answers are the same.\n", table.text_within(output::width())),
    };
    output::print(&text)?;
    match changes.iter().filter(|change| change.is_worse()).count() {
        0 => Ok(()),
        1 => Err(Failure::Failed("an answer became worse".to_owned())),
        n => Err(Failure::Failed(format!("{n} answers became worse"))),
    }
}

fn subjects_or_none(
    texts: &[OsString],
    python: &Python<'_>,
) -> Result<Option<Vec<Subject>>, Failure> {
    (!texts.is_empty()).then(|| subjects(texts, python)).transpose()
}

fn subjects(texts: &[OsString], python: &Python<'_>) -> Result<Vec<Subject>, Failure> {
    let parse = |text: &OsString| match (Foreign::parse(text), text.to_str()) {
        (Some(foreign), _) => foreign?.subject(&text.to_string_lossy(), python),
        (None, Some(text)) => Subject::parse(text).map_err(Failure::Input),
        (None, None) => Err(Failure::Input(format!(
            "`{}` is not UTF-8, as the name of a subject and of a file in Python must be",
            text.display()
        ))),
    };
    texts.iter().map(parse).collect()
}

/// A row for each claim of the suite, or of those that `only` names.
fn list(
    suite: &Suite,
    only: &[String],
    effort: &windward_experiments::Effort,
) -> Result<String, ExperimentError> {
    let only = only.to_vec();
    let question = Question::new(suite.clone(), suite.standards.clone());
    let question = Question { only: only.clone(), ..question };
    let inquiry = question.inquire(effort)?;
    let mut table = TextTable::new(["section", "criterion", "claim", "experiment", "asks"]);
    for criterion in &suite.criteria {
        let mut any = false;
        for asked in inquiry.asked_of(&criterion.id) {
            any = true;
            table.row(
                [&criterion.section, &criterion.id, &asked.0, &asked.1, &asked.2].map(String::from),
            );
        }
        if !any && (only.is_empty() || only.contains(&criterion.id)) {
            let asks = criterion.discuss.as_ref().unwrap_or(&criterion.asks);
            let row = [&*criterion.section, &criterion.id, "-", "-", asks];
            table.row(row.map(String::from));
        }
    }
    Ok(table.text_within(output::width()))
}

/// Table with a row for each criterion and a column for each subject.
fn table(evaluation: &Evaluation) -> TextTable {
    let columns = ["section", "criterion"].into_iter().map(String::from);
    let mut table = TextTable::new(columns.chain(evaluation.subjects.iter().cloned()));
    for row in &evaluation.criteria {
        if row.answers.iter().all(Option::is_none) {
            continue;
        }
        let answers = row.answers.iter().map(|answer| answer.map_or("-", Answer::words).to_owned());
        let first = [row.criterion.section.clone(), row.criterion.title.clone()];
        table.row(first.into_iter().chain(answers));
    }
    table
}
