//! Two evaluations compared, and an evaluation for CI systems. Both work on `evaluation.json`, so
//! that evaluations of earlier versions take part.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;
use windward_experiments::ExperimentError;
use windward_report::plot::escape;
use windward_sim::input::read_text;

/// The answers of one evaluation, from `evaluation.json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvaluation {
    /// Title of the suite.
    pub title: String,
    /// Name of the suite.
    pub suite: String,
    /// Names of the subjects.
    pub subjects: Vec<String>,
    /// Answers, in the order of the suite.
    pub rows: Vec<StoredAnswer>,
}

/// Answer of a subject to a criterion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAnswer {
    /// The subject.
    pub subject: String,
    /// Name of the criterion.
    pub criterion: String,
    /// Its title, with the section.
    pub title: String,
    /// The answer in words: see [`Answer`](crate::Answer).
    pub answer: String,
    /// The numbers of its claims; empty without any.
    pub measured: String,
}

impl StoredEvaluation {
    /// Reads `evaluation.json`.
    ///
    /// # Errors
    /// If the file cannot be read or is not such a file.
    pub fn read(path: &Path) -> Result<Self, ExperimentError> {
        const LARGEST: u64 = 64 << 20;
        let text = read_text(path, LARGEST).map_err(|e| ExperimentError::io("read", path, e))?;
        Self::parse(&text).map_err(|message| ExperimentError::Experiment {
            file: path.display().to_string(),
            line: 0,
            message,
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let not_ours = || "this is not the evaluation.json of `windward evaluate`".to_owned();
        let json: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let word = |value: &Value| value.as_str().map(str::to_owned);
        let list = |value: &Value| value.as_array().cloned();
        let subjects = list(&json["subjects"]).ok_or_else(not_ours)?;
        let subjects: Vec<String> = subjects.iter().filter_map(word).collect();
        let mut rows = Vec::new();
        for criterion in list(&json["criteria"]).ok_or_else(not_ours)? {
            let id = word(&criterion["id"]).ok_or_else(not_ours)?;
            let (section, title) = (word(&criterion["section"]), word(&criterion["title"]));
            let title = format!("{} {}", section.unwrap_or_default(), title.unwrap_or_default());
            for answer in list(&criterion["answers"]).ok_or_else(not_ours)? {
                // Without an answer the criterion was not asked.
                let (Some(subject), Some(answer)) =
                    (word(&answer["subject"]), word(&answer["answer"]))
                else {
                    continue;
                };
                let of_claim = |claim: &Value| {
                    let answers = list(&claim["answers"])?;
                    let mine = answers.iter().find(|a| a["subject"] == subject.as_str())?;
                    let (id, measured) = (word(&claim["id"])?, word(&mine["measured"])?);
                    Some(format!("{id}: {}, {measured}", word(&mine["answer"])?))
                };
                let claims = list(&criterion["claims"]).unwrap_or_default();
                let measured: Vec<String> = claims.iter().filter_map(of_claim).collect();
                let (criterion, title) = (id.clone(), title.trim().to_owned());
                let measured = measured.join("; ");
                rows.push(StoredAnswer { subject, criterion, title, answer, measured });
            }
        }
        let (title, suite) = (word(&json["title"]), word(&json["suite"]));
        let (title, suite) = (title.unwrap_or_default(), suite.unwrap_or_default());
        Ok(StoredEvaluation { title, suite, subjects, rows })
    }

    /// As JUnit XML, which CI systems read: a suite of tests for each subject, a test for each
    /// criterion. A criterion that is not met is a failure; one that is undecided or not applicable
    /// is skipped.
    pub fn to_junit(&self) -> String {
        let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
        for subject in &self.subjects {
            let rows: Vec<_> = self.rows.iter().filter(|row| row.subject == *subject).collect();
            let of = |kind: Kind| rows.iter().filter(|row| Kind::of(&row.answer) == kind).count();
            let _ = writeln!(
                xml,
                "  <testsuite name=\"{}: {}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">",
                escape(&self.suite),
                escape(subject),
                rows.len(),
                of(Kind::Failure),
                of(Kind::Skipped),
            );
            for row in rows {
                let _ = write!(
                    xml,
                    "    <testcase classname=\"{}\" name=\"{}\"",
                    escape(&row.criterion),
                    escape(&row.title)
                );
                let tag = match Kind::of(&row.answer) {
                    Kind::Passed => {
                        xml += "/>\n";
                        continue;
                    }
                    Kind::Failure => "failure",
                    Kind::Skipped => "skipped",
                };
                let message = format!("{}: {}", row.answer, row.measured);
                let _ = writeln!(
                    xml,
                    ">\n      <{tag} message=\"{}\"/>\n    </testcase>",
                    escape(message.trim_end_matches([':', ' ']))
                );
            }
            xml += "  </testsuite>\n";
        }
        xml + "</testsuites>\n"
    }

    /// Answers that differ from those of an earlier evaluation. If each has one subject, these are
    /// compared, whatever their names.
    pub fn changes_since(&self, before: &StoredEvaluation) -> Vec<Change> {
        let single = self.subjects.len() == 1 && before.subjects.len() == 1;
        let same = |a: &StoredAnswer, b: &StoredAnswer| {
            a.criterion == b.criterion && (single || a.subject == b.subject)
        };
        let mut changes = Vec::new();
        for row in &self.rows {
            let earlier = before.rows.iter().find(|other| same(row, other));
            if earlier.is_none_or(|earlier| earlier.answer != row.answer) {
                changes.push(Change { before: earlier.cloned(), after: Some(row.clone()) });
            }
        }
        let gone = before.rows.iter().filter(|row| !self.rows.iter().any(|other| same(row, other)));
        changes.extend(gone.map(|row| Change { before: Some(row.clone()), after: None }));
        changes
    }
}

/// How a CI system shows an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Passed,
    Skipped,
    Failure,
}

impl Kind {
    fn of(answer: &str) -> Self {
        match answer {
            "meets" => Kind::Passed,
            "does not" => Kind::Failure,
            _ => Kind::Skipped,
        }
    }
}

/// An answer that differs between two evaluations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The earlier answer; `None` if the criterion was not asked.
    pub before: Option<StoredAnswer>,
    /// The later answer; `None` if the criterion was not asked.
    pub after: Option<StoredAnswer>,
}

impl Change {
    /// True if a criterion that was met is not met or is undecided now, or one that was undecided
    /// is not met.
    pub fn is_worse(&self) -> bool {
        let (Some(before), Some(after)) = (&self.before, &self.after) else { return false };
        let rank = |answer: &str| match answer {
            "meets" => Some(2),
            "undecided" => Some(1),
            "does not" => Some(0),
            _ => None,
        };
        match (rank(&before.answer), rank(&after.answer)) {
            (Some(before), Some(after)) => after < before,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(subject: &str, answers: &[(&str, &str)]) -> StoredEvaluation {
        let criteria = answers.iter().map(|(id, answer)| {
            serde_json::json!({
                "id": id, "section": "5.1", "title": id.to_uppercase(),
                "answers": [{ "subject": subject, "answer": answer }],
                "claims": [{ "id": format!("{id}-1"), "answers": [
                    { "subject": subject, "answer": answer, "measured": "1 < 2 & 3" }
                ] }],
            })
        });
        let criteria: Vec<Value> = criteria.collect();
        let json = serde_json::json!({
            "suite": "rfc9743", "title": "RFC 9743", "subjects": [subject], "criteria": criteria
        });
        StoredEvaluation::parse(&json.to_string()).unwrap()
    }

    #[test]
    fn what_became_worse_is_told_from_what_only_changed() {
        let before = of("v1", &[("a", "meets"), ("b", "does not"), ("c", "meets"), ("d", "meets")]);
        let after = of("v2", &[("a", "does not"), ("b", "meets"), ("c", "meets"), ("e", "meets")]);
        let changes = after.changes_since(&before);
        let brief: Vec<_> = changes
            .iter()
            .map(|c| {
                let id = c.after.as_ref().or(c.before.as_ref()).unwrap().criterion.clone();
                (id, c.is_worse())
            })
            .collect();
        let expected = [("a", true), ("b", false), ("e", false), ("d", false)];
        assert_eq!(brief, expected.map(|(id, worse)| (id.to_owned(), worse)));
        assert!(before.changes_since(&before).is_empty());
        let undecided = of("v2", &[("a", "undecided")]);
        assert!(undecided.changes_since(&before)[0].is_worse());
    }

    #[test]
    fn junit_counts_failures_and_escapes() {
        let xml =
            of("x<y", &[("a", "meets"), ("b", "does not"), ("c", "not applicable")]).to_junit();
        assert!(xml.contains(
            "<testsuite name=\"rfc9743: x&lt;y\" tests=\"3\" failures=\"1\" skipped=\"1\">"
        ));
        assert!(xml.contains("<testcase classname=\"a\" name=\"5.1 A\"/>"));
        assert!(xml.contains("<failure message=\"does not: b-1: does not, 1 &lt; 2 &amp; 3\"/>"));
        assert!(StoredEvaluation::parse("{}").unwrap_err().contains("evaluation.json"));
    }
}
