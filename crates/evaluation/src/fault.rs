//! The verdict on a controller that cannot be evaluated, since its code fails.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::json;
use windward_experiments::ExperimentError;
use windward_report::Provenance;
use windward_report::page::{Standing, foot, head};
use windward_report::plot::escape;
use windward_sim::output::OutputDir;

use crate::suite::{Criterion, Suite};

/// Characters of a fault that are shown: the message of an exception can have any length.
const LONGEST: usize = 500;

/// A controller whose code failed: it crashed, gave an invalid window, never returned, or two
/// identical runs with it differed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultyController {
    /// Name of the controller.
    pub subject: String,
    /// The fault, as a clause: `it crashed with SIGSEGV`.
    pub fault: String,
}

impl FaultyController {
    /// Reads the text of a [`ExperimentError::Part`]: `NAME: clause`.
    pub fn of(text: &str) -> Self {
        let (subject, fault) = text.split_once(": ").unwrap_or(("the controller", text));
        let fault = match fault.char_indices().nth(LONGEST) {
            Some((end, _)) => format!("{} ..", &fault[..end]),
            None => fault.to_owned(),
        };
        FaultyController { subject: subject.to_owned(), fault }
    }

    /// The criteria of a suite that it does not meet: those that `only` names, or all.
    pub fn criteria<'a>(suite: &'a Suite, only: &[String]) -> Vec<&'a Criterion> {
        let all: Vec<&Criterion> = suite.criteria.iter().filter(|c| c.discuss.is_none()).collect();
        let named: Vec<_> = all.iter().copied().filter(|c| only.contains(&c.id)).collect();
        if named.is_empty() { all } else { named }
    }

    /// The verdict in one sentence.
    pub fn sentence(&self) -> String {
        let FaultyController { subject, fault } = self;
        format!("{subject} meets no criterion: {fault}.")
    }

    /// Writes `index.html`, `evaluation.md` and `evaluation.json` into a folder: the controller
    /// meets none of the criteria, with the reason. Returns the path of the
    /// page.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub fn write(
        &self,
        suite: &Suite,
        only: &[String],
        about: &Provenance,
        folder: &Path,
    ) -> Result<PathBuf, ExperimentError> {
        let criteria = Self::criteria(suite, only);
        let answer = json!([{ "subject": self.subject, "answer": "does not" }]);
        let rows = criteria.iter().map(|c| {
            json!({ "id": c.id, "section": c.section, "title": c.title, "answers": answer, "claims": [] })
        });
        let json = json!({
            "suite": suite.id,
            "title": suite.title,
            "subjects": [self.subject],
            "fault": { "subject": self.subject, "fault": self.fault },
            "criteria": rows.collect::<Vec<_>>(),
            "command": about.command,
            "version": env!("CARGO_PKG_VERSION"),
        });
        let title = format!("{}: {}", suite.title, self.subject);
        let mut text = format!("# {title}\n\n{}\n\n", self.sentence());
        text += "| section | criterion | answer |\n| --- | --- | --- |\n";
        let mut html = head(&title, &Standing::default());
        let _ = writeln!(
            html,
            "<main>\n<h1>{}</h1>\n<p><strong>{}</strong></p>\n<table>\n<tr><th scope=\"col\">section</th>\
             <th scope=\"col\">criterion</th><th scope=\"col\">answer</th></tr>",
            escape(&title),
            escape(&self.sentence()),
        );
        for c in &criteria {
            let _ = writeln!(text, "| {} | {} | does not |", c.section, c.title);
            let _ = writeln!(
                html,
                "<tr><td>{}</td><td>{}</td><td>does not</td></tr>",
                escape(&c.section),
                escape(&c.title)
            );
        }
        let version = env!("CARGO_PKG_VERSION");
        let _ = writeln!(text, "\nMade by windward {version}: `{}`.", about.command);
        let _ = writeln!(html, "</table>\n<p><code>{}</code></p>\n</main>", escape(&about.command));
        foot(&mut html, about);
        let mut out = OutputDir::create(folder)?;
        for (name, content) in [
            ("evaluation.json", format!("{json:#}\n")),
            ("evaluation.md", text),
            ("index.html", html),
        ] {
            out.write(name, |file| file.write_all(content.as_bytes()))?;
        }
        out.commit()?;
        Ok(folder.join("index.html"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_fault_is_shortened() {
        let fault = |text: &str| FaultyController::of(&format!("own: {text}")).fault;
        assert_eq!(fault("it crashed"), "it crashed");
        assert_eq!(fault(&"é".repeat(LONGEST)).chars().count(), LONGEST);
        assert_eq!(fault(&"é".repeat(1_000_000)).chars().count(), LONGEST + 3);
    }
}
