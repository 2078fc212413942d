//! Controllers that replace `subjects`, `standards` and `against` in experiments of a suite.

use std::fmt;

use windward_core::part::checksum;
use windward_core::protocols::{self, Protocol};
use windward_sim::stack::Stacks;

/// A controller in a suite.
#[derive(Debug, Clone, PartialEq)]
pub struct Subject {
    /// Its name in tables, charts and checks.
    pub name: String,
    /// Value of `protocol` for its flows, as for `--set`: a name of the table, or a composition as
    /// an inline table.
    pub protocol: String,
    /// The protocol of that name, if it is not in the table: a composition with external parts. If
    /// `protocol` is a composition, it takes the window of this one by its name.
    pub own: Option<Protocol>,
    /// Name on a command line.
    pub given: String,
}

impl Subject {
    /// Reads `NAME`, or `NAME={ window = "cubic", .. }` for a composition.
    ///
    /// # Errors
    /// Description of the error in the name.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, protocol) = match text.split_once('=') {
            Some((name, composition)) if composition.trim_start().starts_with('{') => {
                (name.trim(), composition.trim())
            }
            Some((name, _)) => {
                return Err(format!(
                    "`{text}`: after `{name}=` comes a composition in braces, as \
                     '{name}={{ window = \"cubic\", recovery = \"rack\" }}', or FILE.py:CLASS"
                ));
            }
            None => (text.trim(), text.trim()),
        };
        if let Some(problem) = wrong_with(name) {
            return Err(format!("`{name}` cannot be the name of a subject: {problem}"));
        }
        let subject = Subject {
            name: name.to_owned(),
            protocol: protocol.to_owned(),
            own: None,
            given: text.trim().to_owned(),
        };
        subject.name_taken(&Stacks::none()).map_or(Ok(subject), |taken| Err(is_taken(taken)))
    }

    /// A row of the table of protocols.
    pub fn row(name: &str) -> Self {
        let name = name.to_owned();
        Subject { protocol: name.clone(), given: name.clone(), own: None, name }
    }

    /// The controller itself, as far as text can say it: the composition with its expressions, or
    /// the source of the code, each with a checksum.
    pub fn definition(&self) -> String {
        match &self.own {
            Some(own) if self.protocol.starts_with('{') => {
                format!("{} of {}", self.protocol, own.source)
            }
            Some(own) => format!("{} ({})", own.source, own.summary.trim_end_matches('.')),
            None if self.protocol.starts_with('{') => {
                let crc = checksum(self.protocol.as_bytes());
                format!("{}, CRC-32 {crc:08x}", self.protocol)
            }
            None => format!("`{}` of windward {}", self.protocol, env!("CARGO_PKG_VERSION")),
        }
    }

    /// The stack that it runs on, `quinn` of `quinn:cubic`; `None` for senders of the simulator.
    pub fn host(&self) -> Option<&str> {
        let (host, _) =
            self.protocol.split_once(':').filter(|_| !self.protocol.starts_with('{'))?;
        (self.own.is_none()).then_some(host)
    }

    /// True if its name is a row of the table of protocols or a stack.
    fn is_plain(&self) -> bool {
        self.own.is_none() && self.protocol == self.name
    }

    /// The name of a row or a stack that a composition or an external controller uses, ignoring
    /// case. Tables and bounds would confuse the two.
    pub fn name_taken(&self, stacks: &Stacks) -> Option<&'static str> {
        let rows = protocols::PROTOCOLS.iter().map(|row| row.name);
        let names = rows.chain(stacks.iter().map(|stack| stack.facts().name));
        let mut taken = names.filter(|name| same_name(name, &self.name));
        let first = taken.next();
        let exact = first.into_iter().chain(taken).find(|name| **name == *self.name);
        if self.is_plain() { None } else { exact.or(first) }
    }

    /// A protocol that cannot be written as text, by its name. Two with the same name and other
    /// code differ in [`Protocol::source`], which `--resume` compares.
    ///
    /// # Errors
    /// Description of the error in the name.
    pub fn own(protocol: Protocol) -> Result<Self, String> {
        let name = protocol.name;
        // Quoted: `nan` and `true` are names too, and values of TOML.
        let own =
            Subject { own: Some(protocol), protocol: format!("\"{name}\""), ..Self::parse(name)? };
        own.name_taken(&Stacks::none()).map_or(Ok(own), |taken| Err(is_taken(taken)))
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// True if these names are equal except for case.
pub fn same_name(a: &str, b: &str) -> bool {
    a.to_lowercase() == b.to_lowercase()
}

/// Error message for a name of a row or a stack.
pub fn is_taken(name: &str) -> String {
    let what = if name.contains(':') { "a stack" } else { "a row of the table of protocols" };
    format!(
        "`{name}` is the name of {what}, and results would be confused with its results: choose another name"
    )
}

/// Error message for a name that tables, checks or pages would misread.
fn wrong_with(name: &str) -> Option<&'static str> {
    let good = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '+' | ':' | '.');
    if name.is_empty() {
        Some("it is empty")
    } else if name.chars().count() > 40 {
        Some("it has more than 40 characters")
    } else if !name.chars().all(good) {
        Some("letters, digits and `-`, `_`, `+`, `:`, `.` may be in it")
    } else if !name.starts_with(char::is_alphanumeric) {
        Some("it must begin with a letter or a digit")
    } else if [SUBJECT, SUBJECTS, STANDARDS, AGAINST].contains(&name) {
        Some("suites use this word for all of them")
    } else {
        None
    }
}

/// In a check: the subject that it is about.
pub(crate) const SUBJECT: &str = "subject";
/// As the values of an axis: the subjects, followed by the standards.
pub(crate) const SUBJECTS: &str = "subjects";
/// As the values of an axis, and as a label inside `min`, `max` and `mean`: all standards.
pub(crate) const STANDARDS: &str = "standards";
/// As the values of an axis: the controllers that share the path with a subject.
pub(crate) const AGAINST: &str = "against";

/// All controllers in a suite.
#[derive(Debug, Clone, PartialEq)]
pub struct Cast {
    /// Controllers that are judged, in the order of the report.
    pub subjects: Vec<Subject>,
    /// The controllers of standards, which bounds are relative to.
    pub standards: Vec<Subject>,
    /// Controllers that share paths with each subject.
    pub against: Vec<Subject>,
}

impl Cast {
    /// The standards that bounds of a subject are relative to: those on the same stack, so that a
    /// verdict is about the controller and not about the stack. If no standard runs on that stack,
    /// all of them.
    pub fn standards_of(&self, subject: &Subject) -> Vec<&Subject> {
        let same: Vec<&Subject> =
            self.standards.iter().filter(|standard| standard.host() == subject.host()).collect();
        if same.is_empty() { self.standards.iter().collect() } else { same }
    }

    /// Protocols that scenarios need in addition to the table.
    pub fn own(&self) -> Vec<Protocol> {
        let all = self.subjects.iter().chain(&self.standards).chain(&self.against);
        all.filter_map(|subject| subject.own).collect()
    }

    /// The values of an axis for that word.
    pub fn of(&self, word: &str) -> Option<Vec<&Subject>> {
        Some(match word {
            SUBJECTS => {
                let others = self.standards.iter();
                let others = others.filter(|s| self.subjects.iter().all(|t| t.name != s.name));
                self.subjects.iter().chain(others).collect()
            }
            STANDARDS => self.standards.iter().collect(),
            AGAINST => self.against.iter().collect(),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_a_row_or_a_composition_with_a_name() {
        assert_eq!(Subject::parse(" cubic ").unwrap(), Subject::row("cubic"));
        assert_eq!(Subject::parse("quinn:cubic").unwrap().name, "quinn:cubic");
        let own = Subject::parse("mine={ window = \"cubic\" }").unwrap();
        assert_eq!((&*own.name, &*own.protocol), ("mine", "{ window = \"cubic\" }"));
        for (text, says) in [
            ("", "empty"),
            ("mine=cubic", "in braces"),
            ("a b", "may be in it"),
            ("-x", "begin with"),
            ("standards", "word for all"),
            (&"x".repeat(41), "40"),
        ] {
            assert!(Subject::parse(text).unwrap_err().contains(says), "{text}");
        }
    }

    #[test]
    fn a_composition_does_not_go_by_the_name_of_a_row() {
        for name in ["newreno", "NewReno", "CUBIC"] {
            let text = format!("{name}={{ window = \"fixed-window\", recovery = \"sack\" }}");
            let said = Subject::parse(&text).unwrap_err();
            assert!(
                said.contains("the name of a row") && said.contains("choose another"),
                "{said}"
            );
        }
        assert!(Subject::parse("newreno2={ window = \"cubic\" }").is_ok());
    }

    #[test]
    fn a_standard_that_is_a_subject_stands_once() {
        let rows = |names: &[&str]| names.iter().map(|n| Subject::row(n)).collect();
        let cast = Cast {
            subjects: rows(&["bbr", "cubic"]),
            standards: rows(&["newreno", "cubic"]),
            against: rows(&["cubic"]),
        };
        let names = |word| cast.of(word).unwrap().iter().map(|s| &*s.name).collect::<Vec<_>>();
        assert_eq!(names(SUBJECTS), ["bbr", "cubic", "newreno"]);
        assert_eq!(names(AGAINST), ["cubic"]);
        assert!(cast.of("protocols").is_none());
    }
}
