//! Readings: the choices that a paper leaves open, each with its reasonable values.
//!
//! One value of each choice makes up the plain reading. A rule selects it: the value with the
//! strongest [`Basis`], of several the first. The same value applies to all experiments of a paper
//! that declare a choice of that name.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A choice that the paper leaves open or contradicts.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Name, which identifies the same choice in other experiments: `rwnd`.
    pub name: String,
    /// Subject of the choice, in words.
    pub choice: String,
    /// Remark on the paper's text about it, and on the open question.
    pub silent: Option<String>,
    /// The reasonable values, at least two.
    pub values: Vec<ReadingValue>,
    /// Edition of the list of claims in which it was added, or got its plain value: 1 was before
    /// any measurement.
    pub edition: u32,
    /// The former plain value and the verdicts with it, if the plain value has changed.
    pub formerly: Option<String>,
    pub(crate) line: usize,
}

/// One value of a choice.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadingValue {
    /// Its name for readers.
    pub label: String,
    /// Kind of reason for it.
    pub basis: Basis,
    /// The reason: section, program and version, standard.
    pub source: String,
    /// The result of the paper that this value makes impossible, if there is one. Then it is never
    /// the plain value, and in no world.
    pub contradicted: Option<String>,
    /// The words of the paper that speak against it, though they do not exclude it.
    pub against: Option<String>,
    /// Changes of the scenario: key and value, in order.
    pub set: Vec<(String, String)>,
    /// Further changes in the cells with one label: label, and key and value, in order.
    pub at: Vec<SetAt>,
    /// Factors for what an axis sets: key and factor. For a paper whose axis may have another unit
    /// than it says.
    pub scale: Vec<(String, f64)>,
    pub(crate) line: usize,
}

/// Changes of the scenario in the cells with one label: the label, and key and value in order.
pub type SetAt = (String, Vec<(String, String)>);

/// Reason for a value, the strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Basis {
    /// A statement of the paper about this experiment.
    Paper,
    /// A statement of the same paper elsewhere.
    Section,
    /// A source that the paper cites for it.
    Cited,
    /// Default of the simulator that the paper used, in that year.
    Simulator,
    /// A standard of the time.
    Rfc,
    /// Common practice.
    Practice,
    /// The paper's figures only.
    Fit,
    /// No source.
    Invented,
}

impl Basis {
    /// Every basis with its word in files, the strongest first.
    pub const ALL: [(Basis, &'static str); 8] = [
        (Basis::Paper, "paper"),
        (Basis::Section, "section"),
        (Basis::Cited, "cited"),
        (Basis::Simulator, "simulator"),
        (Basis::Rfc, "rfc"),
        (Basis::Practice, "practice"),
        (Basis::Fit, "fit"),
        (Basis::Invented, "invented"),
    ];
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Basis::ALL.iter().find(|(basis, _)| basis == self);
        f.write_str(word.map_or("", |(_, word)| word))
    }
}

impl Reading {
    /// Index of the plain value: the strongest basis, of several the first, among the values that
    /// no result of the paper contradicts.
    pub fn plain(&self) -> usize {
        let by_basis = self
            .values
            .iter()
            .enumerate()
            .min_by_key(|(_, value)| (value.contradicted.is_some(), value.basis));
        by_basis.map_or(0, |(index, _)| index)
    }

    /// The plain value.
    pub fn plain_value(&self) -> &ReadingValue {
        &self.values[self.plain()]
    }

    /// True if nothing but the paper's figures, or nothing at all, speaks for the plain value.
    pub fn is_calibrated(&self) -> bool {
        self.plain_value().basis >= Basis::Fit
    }

    /// The values that are not the plain one.
    pub fn others(&self) -> impl Iterator<Item = &ReadingValue> {
        let plain = self.plain();
        self.values.iter().enumerate().filter(move |(i, _)| *i != plain).map(|(_, value)| value)
    }
}

impl ReadingValue {
    /// True if it changes the cells with one label alone, as those of one protocol of a comparison.
    pub fn is_private(&self) -> bool {
        !self.at.is_empty()
    }
}

/// A setting that begins with a number, as `1e-8` or `5%`, times a factor.
pub(crate) fn scaled(setting: &str, factor: f64) -> Option<String> {
    let (number, unit) = super::quantity(setting)?;
    Some(format!("{}{unit}", number * factor))
}

/// Choices with another value than the plain one, by name, each with the label of its value. Empty
/// for the plain reading.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Deviation(Vec<(String, String)>);

impl Deviation {
    /// The plain reading.
    pub const PLAIN: Deviation = Deviation(Vec::new());

    /// A deviation in one choice.
    pub fn one(name: &str, label: &str) -> Self {
        Deviation(vec![(name.to_owned(), label.to_owned())])
    }

    /// A deviation in these choices, each with the label of its value; of a choice that is there
    /// twice, the first counts.
    pub fn of_choices(mut choices: Vec<(String, String)>) -> Self {
        choices.sort_by(|a, b| a.0.cmp(&b.0));
        choices.dedup_by(|a, b| a.0 == b.0);
        Deviation(choices)
    }

    /// Both at once; `None` if they give one choice two values.
    pub fn and(&self, other: &Deviation) -> Option<Self> {
        let mut both = self.0.clone();
        both.extend(other.0.iter().cloned());
        both.sort();
        both.dedup();
        let clash = both.windows(2).any(|pair| pair[0].0 == pair[1].0);
        (!clash).then_some(Deviation(both))
    }

    /// True for the plain reading.
    pub fn is_plain(&self) -> bool {
        self.0.is_empty()
    }

    /// The choices by name with the labels of their values, sorted by name.
    pub fn choices(&self) -> &[(String, String)] {
        &self.0
    }

    /// The label of the value of a choice, if it deviates.
    pub fn of(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(n, _)| n == name);
        found.map(|(_, label)| label.as_str())
    }

    /// The deviation in each single choice that `keep` accepts.
    pub(crate) fn keep(self, keep: impl Fn(&Deviation) -> bool) -> Self {
        let kept = self.0.into_iter().filter(|choice| keep(&Deviation(vec![choice.clone()])));
        Deviation(kept.collect())
    }

    /// The part that concerns these choices.
    pub fn within(&self, readings: &[Reading]) -> Self {
        let own = self.0.iter().filter(|(name, _)| readings.iter().any(|r| r.name == *name));
        Deviation(own.cloned().collect())
    }
}

/// `plain`, or `rwnd = 32, timers = Karn`.
impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_plain() {
            return f.write_str("plain");
        }
        for (i, (name, label)) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{name} = {label}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(bases: &[Basis]) -> Reading {
        let value = |(i, basis): (usize, &Basis)| ReadingValue {
            label: format!("{i}"),
            basis: *basis,
            source: String::new(),
            contradicted: None,
            against: None,
            set: Vec::new(),
            at: Vec::new(),
            scale: Vec::new(),
            line: 0,
        };
        Reading {
            name: "r".into(),
            choice: "a choice".into(),
            silent: None,
            values: bases.iter().enumerate().map(value).collect(),
            edition: 1,
            formerly: None,
            line: 0,
        }
    }

    #[test]
    fn the_strongest_basis_is_the_plain_reading_and_the_first_of_equals() {
        use Basis::{Fit, Paper, Practice, Rfc, Simulator};
        assert_eq!(reading(&[Fit, Rfc, Simulator, Practice]).plain(), 2);
        assert_eq!(reading(&[Practice, Paper, Paper]).plain(), 1);
        let fitted = reading(&[Fit, Fit]);
        assert!(fitted.is_calibrated());
        assert!(!reading(&[Fit, Practice]).is_calibrated());
        let others: Vec<&str> = fitted.others().map(|v| v.label.as_str()).collect();
        assert_eq!(others, ["1"]);
    }

    #[test]
    fn a_scaled_setting_keeps_its_unit() {
        // Binary fractions, whose products are exact.
        assert_eq!(scaled("0.25", 10.0).as_deref(), Some("2.5"));
        assert_eq!(scaled("5%", 0.5).as_deref(), Some("2.5%"));
        assert_eq!(scaled("20ms", 2.0).as_deref(), Some("40ms"));
        let rate: f64 = scaled("1e-11", 10.0).unwrap().parse().unwrap();
        assert!((rate / 1e-10 - 1.0).abs() < 1e-12);
        assert_eq!(scaled("0", 10.0).as_deref(), Some("0"));
        assert_eq!(scaled("sack", 10.0), None);
    }

    #[test]
    fn deviations_join_unless_they_contradict() {
        let (a, b) = (Deviation::one("rwnd", "32"), Deviation::one("clock", "Karn"));
        let both = a.and(&b).unwrap();
        assert_eq!(both, b.and(&a).unwrap());
        assert_eq!(both.to_string(), "clock = Karn, rwnd = 32");
        assert_eq!(a.and(&a), Some(a.clone()));
        assert_eq!(a.and(&Deviation::one("rwnd", "20")), None);
        assert_eq!(both.within(&[reading(&[])]), Deviation::PLAIN);
        assert_eq!(Deviation::PLAIN.to_string(), "plain");
    }
}
