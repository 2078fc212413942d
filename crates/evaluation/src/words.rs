//! An evaluation in words, as Markdown and as JSON, and the scenario files of its experiments.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::ops::Range;

use serde_json::{Value, json};
use windward_experiments::experiment::{Cast, Experiment};
use windward_report::Provenance;
use windward_report::lead::GaveUp;
use windward_sim::strict_toml::{Document, Field, Section};

use crate::inquiry::{
    Answer, ClaimAnswers, CriterionAnswers, Evaluation, Inquiry, KnownAnswer, VariedAnswer,
};
use crate::sensitivity::VARIED_BY;

/// Remark on connections that gave up.
pub(crate) const GAVE_UP: &str = "The code of a stack, or the simulator, closed these connections \
                                  during a run, after which they sent nothing. The numbers of \
                                  these runs therefore say little about a congestion controller.";

/// The text of an experiment with the names of its controllers, and without claims.
pub(crate) fn played(text: &str, experiment: &Experiment, cast: &Cast) -> Option<String> {
    let document = Document::parse(&experiment.file, text).ok()?;
    let table = document.section().table("experiment")?;
    let mut changes = claims(text, &document);
    for (field, read) in table.get("axes")?.items().ok()?.iter().zip(&experiment.axes) {
        let axis = field.section().ok()?;
        let Some(values) = axis.get("values") else { continue };
        let word = values.text().ok();
        let Some(those) = word.and_then(|word| cast.of(word)) else { continue };
        // Impossible ones are left out.
        let those = those.iter().filter(|s| read.points.iter().any(|p| p.label == s.name));
        // A string of JSON is one of TOML.
        let quoted = |text: &str| json!(text).to_string();
        let (values_of, labels): (Vec<_>, Vec<_>) = those
            .map(|subject| match &subject.protocol {
                table if table.starts_with('{') => (table.clone(), quoted(&subject.name)),
                name => (quoted(name), quoted(&subject.name)),
            })
            .unzip();
        let labels = format!("[{}]", labels.join(", "));
        let mut list = format!("[{}]", values_of.join(", "));
        match axis.get("labels") {
            Some(field) => changes.push((field.range()?, labels)),
            None => list += &format!("\nlabels = {labels}"),
        }
        changes.push((values.range()?, list));
    }
    changes.sort_by_key(|(range, _)| range.start);
    let mut played = text.to_owned();
    for (range, new) in changes.into_iter().rev() {
        played.replace_range(range, &new);
    }
    Some(played)
}

/// Ranges of the text of claims: from each `[[experiment.claims]]` to the next table.
fn claims(text: &str, document: &Document) -> Vec<(Range<usize>, String)> {
    let mut headers = Vec::new();
    for (key, field) in document.section().entries() {
        find_headers(text, key, &field, &mut headers);
    }
    headers.sort_by_key(|(at, _)| *at);
    let ends = headers.iter().skip(1).map(|(at, _)| *at).chain([text.len()]);
    let cuts = headers.iter().zip(ends).filter(|((_, path), _)| {
        path == "experiment.claims" || path.starts_with("experiment.claims.")
    });
    cuts.map(|((at, _), end)| (*at..end, String::new())).collect()
}

/// Finds the headers of tables in a value, each with its dotted key. The comments above a header
/// belong to it.
fn find_headers(text: &str, path: &str, field: &Field<'_>, headers: &mut Vec<(usize, String)>) {
    if !field.is_block() {
        return;
    }
    if let Ok(items) = field.items() {
        for item in &items {
            find_headers(text, path, item, headers);
        }
        return;
    }
    let at = field.range().map_or(0, |range| range.start);
    if text[at..].starts_with('[') {
        let before = &text[..at];
        let comments = before.lines().rev().take_while(|line| line.trim_start().starts_with('#'));
        let length: usize = comments.map(|line| line.len() + 1).sum();
        headers.push((at - length.min(at), path.to_owned()));
    }
    for (key, below) in field.section().iter().flat_map(Section::entries) {
        find_headers(text, &format!("{path}.{key}"), &below, headers);
    }
}

impl Evaluation {
    /// Summary of the answers, one sentence for each subject.
    pub fn summary(&self) -> Vec<String> {
        (0..self.subjects.len()).map(|column| self.summary_of(column)).collect()
    }

    fn summary_of(&self, column: usize) -> String {
        let name = &self.subjects[column];
        let with = |answer: Answer| -> Vec<&CriterionAnswers> {
            self.criteria.iter().filter(|c| c.answers[column] == Some(answer)).collect()
        };
        let list = |criteria: &[&CriterionAnswers]| {
            let titles =
                criteria.iter().map(|c| format!("{} {}", c.criterion.section, c.criterion.title));
            titles.collect::<Vec<_>>().join("; ")
        };
        let is_partial = |c: &CriterionAnswers| c.is_partial && c.answers[column].is_some();
        let partly: Vec<_> = self.criteria.iter().filter(|c| is_partial(c)).collect();
        let whole = |c: &&CriterionAnswers| c.answers[column].is_some() && !c.is_partial;
        let measured = self.criteria.iter().filter(whole).count();
        let (fails, open) = (with(Answer::DoesNot), with(Answer::Undecided));
        let met = with(Answer::Meets).into_iter().filter(|c| !c.is_partial).count();
        let all = self.measurable().count();
        let mut text = match all - measured {
            0 => format!("{name} meets {met} of {measured} criteria"),
            rest => format!(
                "{name} meets {met} of {measured} criteria measured; {rest} of {all} were not"
            ),
        };
        if !partly.is_empty() {
            let _ = write!(text, ". Some claims were measured of {}", list(&partly));
        }
        if !fails.is_empty() {
            let _ = write!(text, ". It does not meet {}", list(&fails));
        }
        if !open.is_empty() {
            let _ = write!(text, ". Undecided: {}", list(&open));
        }
        let not = with(Answer::NotApplicable);
        if !not.is_empty() {
            let _ = write!(text, ". Not applicable: {}", list(&not));
        }
        let to_come = with(Answer::ToCome).len();
        if to_come > 0 {
            let _ = write!(text, ". {to_come} are still to come");
        }
        text.push('.');
        text.push_str(match self.general_use(column) {
            Some(true) => " It meets every criterion for general use.",
            Some(false) => " It does not meet every criterion for general use.",
            None => "",
        });
        text
    }

    /// Criteria that runs can decide.
    fn measurable(&self) -> impl Iterator<Item = &CriterionAnswers> {
        self.criteria.iter().filter(|c| c.criterion.discuss.is_none())
    }

    /// Number of criteria with this answer of the subject of that column.
    pub fn count(&self, column: usize, answer: Answer) -> usize {
        self.criteria.iter().filter(|c| c.answers[column] == Some(answer)).count()
    }

    /// `yes` if that subject meets all criteria for general use, `open`, or `no: 5.1.2, 5.2.1` with
    /// the criteria that it does not meet.
    pub(crate) fn general_use_in_short(&self, column: usize) -> String {
        let fails = self
            .criteria
            .iter()
            .filter(|c| c.criterion.general && c.answers[column] == Some(Answer::DoesNot));
        let fails: Vec<&str> = fails.map(|c| &*c.criterion.section).collect();
        match self.general_use(column) {
            Some(true) => "yes".to_owned(),
            Some(false) => format!("no: {}", fails.join(", ")),
            None => "open".to_owned(),
        }
    }

    /// True if a table replaces the sentences because of the number of subjects.
    pub(crate) fn has_many_subjects(&self) -> bool {
        self.subjects.len() > 6
    }

    /// True if the subject of that column meets all criteria for general use. `None` while one of
    /// these is open, if none applies, or if a criterion was not measured.
    pub fn general_use(&self, column: usize) -> Option<bool> {
        let general = self.criteria.iter().filter(|c| c.criterion.general);
        let answers: Vec<Answer> = general.filter_map(|c| c.answers[column]).collect();
        if answers.contains(&Answer::DoesNot) {
            return Some(false);
        }
        let open = |a: &Answer| matches!(a, Answer::Undecided | Answer::ToCome);
        let none = answers.iter().all(|a| *a == Answer::NotApplicable);
        let is_whole = self.measurable().all(|c| c.answers[column].is_some() && !c.is_partial);
        (!none && is_whole && !answers.iter().any(open)).then_some(true)
    }

    /// Sentence with the protocols whose connections gave up, if any.
    pub fn gave_up_in_short(&self) -> Option<String> {
        let protocols: BTreeSet<&str> = self.gave_up.iter().map(|g| &*g.protocol).collect();
        let names = protocols.into_iter().collect::<Vec<_>>().join(", ");
        (!names.is_empty()).then(|| format!("Connections gave up: {names}."))
    }

    /// Connections that gave up, by protocol, experiment and reason: a line, and one for each cell.
    pub(crate) fn gave_up_by_reason(&self) -> impl Iterator<Item = (String, Vec<String>)> {
        let alike = |a: &GaveUp, b: &GaveUp| {
            (&a.experiment, &a.protocol, &a.reason) == (&b.experiment, &b.protocol, &b.reason)
        };
        self.gave_up.chunk_by(alike).map(|those| {
            let GaveUp { protocol, experiment, reason, .. } = &those[0];
            let runs = in_runs(those.iter().map(|g| g.runs).sum());
            let cells = those.iter().map(|g| {
                let reading = match g.reading.is_plain() {
                    true => String::new(),
                    false => format!("; {}", g.reading),
                };
                format!("{}{reading}: {}", g.cell, in_runs(g.runs))
            });
            // On one line, whatever the message of a panic.
            let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
            (format!("{protocol} in {experiment}, {runs}: {reason}"), cells.collect())
        })
    }

    /// Sentence on the verdicts that flip when the scenarios vary; `None` without variations.
    pub fn sensitivity(&self) -> Option<String> {
        let answers = self.criteria.iter().flat_map(|c| &c.asked).flat_map(|claim| &claim.answers);
        let varied: Vec<_> = answers.filter(|answer| !answer.varied.is_empty()).collect();
        if varied.is_empty() {
            return None;
        }
        let (of, fragile) =
            (varied.len(), varied.iter().filter(|answer| !answer.flips().is_empty()).count());
        let percent = 100.0 * VARIED_BY;
        let (are, verdicts) = if fragile == 1 { ("is", "verdict") } else { ("are", "verdicts") };
        Some(format!(
            "Each scenario was also run with buffers, RTTs and rates of all links {percent:.0} % \
             smaller and larger, one at a time. {fragile} {verdicts} of {of} {are} fragile: the \
             opposite under at least one of these six variations."
        ))
    }

    /// The fragile verdicts, a sentence for each.
    pub fn fragile(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        for claim in self.criteria.iter().flat_map(|c| &c.asked) {
            for (subject, answer) in self.subjects.iter().zip(&claim.answers) {
                let flips = answer.flips();
                if !flips.is_empty() {
                    let (id, verdict) = (&claim.id, answer.answer);
                    let flips = flips.join(", ");
                    sentences.push(format!("{id}, {subject}: {verdict}, but not with {flips}."));
                }
            }
        }
        sentences
    }

    /// As `evaluation.json`.
    pub(crate) fn to_json(&self, inquiry: &Inquiry, about: &Provenance) -> Value {
        let suite = &inquiry.question.suite;
        let criteria = self.criteria.iter().map(|c| c.to_json(&self.subjects));
        let known = self.known.iter().map(KnownAnswer::to_json);
        let gave_up = self.gave_up.iter().map(|g| {
            json!({
                "protocol": g.protocol,
                "experiment": g.experiment,
                "cell": g.cell,
                "reading": g.reading.to_string(),
                "runs": g.runs,
                "reason": g.reason,
            })
        });
        json!({
            "suite": suite.id,
            "title": suite.title,
            "source": suite.source,
            "subjects": self.subjects,
            "judged": inquiry.question.subjects.iter().map(|subject| {
                let (given, definition) = (&subject.given, subject.definition());
                json!({ "subject": subject.name, "given": given, "definition": definition })
            }).collect::<Vec<_>>(),
            "standards": suite.standards.iter().map(|s| &*s.name).collect::<Vec<_>>(),
            "summary": self.summary(),
            "general_use": (0..self.subjects.len()).map(|c| self.general_use(c)).collect::<Vec<_>>(),
            "criteria": criteria.collect::<Vec<_>>(),
            "known": known.collect::<Vec<_>>(),
            "gave_up": gave_up.collect::<Vec<_>>(),
            "sensitivity": self.sensitivity(),
            "version": env!("CARGO_PKG_VERSION"),
            "date": about.date,
            "commit": about.commit,
            "machine": about.machine,
            "command": about.command,
        })
    }

    /// Writes a row for each subject: the number of criteria that it meets, and whether it meets
    /// all those for general use.
    fn standings_in_markdown(&self, text: &mut String) {
        text.push_str("| Controller |");
        for answer in Answer::ALL {
            let _ = write!(text, " {answer} |");
        }
        text.push_str(" all for general use |\n|---|--:|--:|--:|--:|---|\n");
        for (column, subject) in self.subjects.iter().enumerate() {
            let _ = write!(text, "| {} |", cell(subject));
            for answer in Answer::ALL {
                let _ = write!(text, " {} |", self.count(column, answer));
            }
            let _ = writeln!(text, " {} |", self.general_use_in_short(column));
        }
    }

    /// Writes a row for each criterion: section, title, and the answer of each subject.
    fn criteria_in_markdown(&self, text: &mut String) {
        let _ = write!(text, "\n| Section | Criterion |");
        for subject in &self.subjects {
            let _ = write!(text, " {} |", cell(subject));
        }
        let _ = writeln!(text, "\n|---|---|{}", "---|".repeat(self.subjects.len()));
        for row in &self.criteria {
            let _ = write!(text, "| {} | {} |", row.criterion.section, cell(&row.criterion.title));
            for (column, answer) in row.answers.iter().enumerate() {
                let _ = write!(text, " {} |", cell(&row.in_short(column, *answer)));
            }
            text.push('\n');
        }
    }

    fn gave_up_in_markdown(&self, text: &mut String) {
        if !self.gave_up.is_empty() {
            let _ = writeln!(text, "\n## Connections that gave up\n\n{GAVE_UP}\n");
            for (reason, cells) in self.gave_up_by_reason() {
                let _ = writeln!(text, "- {reason}");
                for cell in cells {
                    let _ = writeln!(text, "  - {cell}");
                }
            }
        }
    }

    /// Writes the claims of each criterion, with the numbers of each subject.
    fn asked_in_markdown(&self, text: &mut String) {
        text.push_str("\n## Measurements\n");
        for row in self.criteria.iter().filter(|row| !row.asked.is_empty()) {
            let crate::suite::Criterion { section, title, asks, .. } = &row.criterion;
            let _ = writeln!(text, "\n### {section} {title}\n\n{asks}\n");
            for claim in &row.asked {
                let _ = writeln!(
                    text,
                    "- **{}**: {} Met if: {}",
                    claim.id, claim.claim, claim.expected
                );
                for (subject, answer) in self.subjects.iter().zip(&claim.answers) {
                    let check = match (answer.in_numbers(), &answer.check) {
                        (Some(numbers), check) => format!(" {numbers}. `{check}`:"),
                        (None, check) if check.is_empty() => String::new(),
                        (None, check) => format!(" `{check}`:"),
                    };
                    let _ = writeln!(
                        text,
                        "  - {subject}: {}.{check} {}",
                        answer.answer, answer.measured
                    );
                }
            }
        }
    }

    /// Criteria for discussion, and known results.
    fn rest_in_markdown(&self, text: &mut String) {
        let discuss: Vec<_> =
            self.criteria.iter().filter(|c| c.criterion.discuss.is_some()).collect();
        if !discuss.is_empty() {
            text.push_str("\n## Questions for discussion\n\n");
            for row in discuss {
                let _ = writeln!(
                    text,
                    "- {} {}: {}",
                    row.criterion.section,
                    row.criterion.title,
                    row.criterion.discuss.as_deref().unwrap_or_default()
                );
            }
        }
        if !self.known.is_empty() {
            text.push_str("\n## Known results\n\n");
            for known in &self.known {
                let _ = writeln!(text, "- {}", known.sentence());
            }
        }
    }

    /// As `evaluation.md`, which an author can attach to a draft.
    pub(crate) fn to_markdown(&self, inquiry: &Inquiry, about: &Provenance) -> String {
        let suite = &inquiry.question.suite;
        let mut text = format!("# {}: {}\n\n", suite.title, self.subjects.join(", "));
        let standards: Vec<&str> = suite.standards.iter().map(|s| &*s.name).collect();
        let _ = writeln!(
            text,
            "Criteria of {}. Bounds without a number are relative to {} in the same scenario.\n",
            suite.source,
            standards.join(" and ")
        );
        if self.has_many_subjects() {
            self.standings_in_markdown(&mut text);
        } else {
            for sentence in self.summary() {
                let _ = writeln!(text, "- {sentence}");
            }
        }
        text.push_str("\nWhat was judged:\n\n");
        for subject in &inquiry.question.subjects {
            let _ = writeln!(text, "- {}: {}", subject.name, subject.definition());
        }
        self.criteria_in_markdown(&mut text);
        if let Some(summary) = self.sensitivity() {
            let _ = writeln!(text, "\n## Sensitivity\n\n{summary}\n");
            for sentence in self.fragile() {
                let _ = writeln!(text, "- {sentence}");
            }
        }
        self.gave_up_in_markdown(&mut text);
        self.asked_in_markdown(&mut text);
        self.rest_in_markdown(&mut text);
        let _ = writeln!(
            text,
            "\nMade by windward {}{}: `{}`.",
            env!("CARGO_PKG_VERSION"),
            if about.date.is_empty() { String::new() } else { format!(", {}", about.date) },
            about.command
        );
        text
    }
}

impl CriterionAnswers {
    fn to_json(&self, subjects: &[String]) -> Value {
        let answer = |(subject, answer): (&String, &Option<Answer>)| json!({ "subject": subject, "answer": answer.map(Answer::words) });
        let answers = subjects.iter().zip(&self.answers).map(answer);
        let claims = self.asked.iter().map(|claim| claim.to_json(subjects));
        json!({
            "id": self.criterion.id,
            "section": self.criterion.section,
            "title": self.criterion.title,
            "asks": self.criterion.asks,
            "general_use": self.criterion.general,
            "discuss": self.criterion.discuss,
            "answers": answers.collect::<Vec<_>>(),
            "claims": claims.collect::<Vec<_>>(),
        })
    }
}

impl ClaimAnswers {
    fn to_json(&self, subjects: &[String]) -> Value {
        let varied = |varied: &VariedAnswer| json!({ "variation": varied.variation, "answer": varied.answer.words() });
        let answers = subjects.iter().zip(&self.answers).map(|(subject, a)| {
            json!({
                "subject": subject,
                "answer": a.answer.words(),
                "check": a.check,
                "quantity": a.quantity,
                "value": a.value,
                "bound": a.bound,
                "measured": a.measured,
                "runs": a.runs,
                "fragile": (!a.varied.is_empty()).then(|| !a.flips().is_empty()),
                "varied": a.varied.iter().map(varied).collect::<Vec<_>>(),
            })
        });
        json!({
            "id": self.id,
            "claim": self.claim,
            "expected": self.expected,
            "experiment": self.experiment,
            "answers": answers.collect::<Vec<_>>(),
        })
    }
}

impl KnownAnswer {
    fn to_json(&self) -> Value {
        json!({
            "subject": self.known.subject,
            "says": self.known.says,
            "source": self.known.source,
            "claim": self.known.claim,
            "answer": self.answer.words(),
            "agrees": self.agrees(),
            "measured": self.measured,
        })
    }
}

impl CriterionAnswers {
    /// `does not: Mean RTT = 61 ms (<= 48 ms)`, from the deciding claim.
    pub(crate) fn in_short(&self, column: usize, answer: Option<Answer>) -> String {
        let Some(answer) = answer else {
            let discussed = self.criterion.discuss.is_some();
            return if discussed { "to discuss".to_owned() } else { "not measured".to_owned() };
        };
        let met = self.asked.iter().filter(|c| c.answers[column].answer == Answer::Meets).count();
        let of = self.asked.len();
        let decides = self.asked.iter().find(|c| c.answers[column].answer == answer);
        let numbers = decides.and_then(|c| c.answers[column].in_numbers());
        match (answer, numbers) {
            (Answer::Meets, _) if of > 1 => format!("{answer} all {met}"),
            (_, Some(numbers)) if of > 1 => format!("{answer}: {numbers}; {met} of {of} met"),
            (_, Some(numbers)) => format!("{answer}: {numbers}"),
            (_, None) => answer.to_string(),
        }
    }
}

impl KnownAnswer {
    /// Sentence with the known result, its source, and whether it was measured again.
    pub(crate) fn sentence(&self) -> String {
        let here = match self.agrees() {
            Some(true) => "Confirmed here",
            Some(false) => "Not confirmed here",
            None => "Undecided here",
        };
        let number = match self.measured.as_str() {
            "" => String::new(),
            measured => format!(": {measured}"),
        };
        let known = &self.known;
        format!("{}: {} ({}). {here}{number}.", known.subject, known.says, known.source)
    }
}

fn in_runs(runs: usize) -> String {
    format!("{runs} run{}", if runs == 1 { "" } else { "s" })
}

/// A text inside a table of Markdown.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
