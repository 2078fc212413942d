//! Explanations of verdicts, whose numbers come from the runs of a report.

use crate::expression::{Cell, Expression};
use crate::statistics::Estimate;

/// Why a claim does not hold, or not under every reading.
///
/// Measured numbers are not typed into the text. `{goodput[westwood, 5%]}` stands for the mean of
/// that expression with its interval under the plain reading, and `{nearest: goodput[..]}` in the
/// nearest world.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// The checks of the claim that it is about, as the file states them.
    pub explains: Vec<String>,
    /// Text and numbers in turn.
    pub(crate) parts: Vec<Part>,
}

/// A part of an explanation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Part {
    Text(String),
    Number(Wanted),
}

/// A number that an explanation shows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wanted {
    /// True for the nearest world, false for the plain reading.
    pub(crate) nearest: bool,
    pub(crate) value: Expression<Cell>,
}

/// A measured number with the unit in which charts show it.
type Shown = (Estimate, &'static str);

impl Explanation {
    /// Splits a text at its braces; `read` parses what stands between them.
    pub(crate) fn parse<E>(
        text: &str,
        explains: Vec<String>,
        unmatched: impl Fn(&str) -> E,
        read: impl Fn(&str) -> Result<Expression<Cell>, E>,
    ) -> Result<Self, E> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (inside, after) =
                after.split_once('}').ok_or_else(|| unmatched("`{` without its `}`"))?;
            let (nearest, value) = match inside.strip_prefix("nearest:") {
                Some(value) => (true, value.trim()),
                None => (false, inside.trim()),
            };
            parts.push(Part::Text(before.to_owned()));
            parts.push(Part::Number(Wanted { nearest, value: read(value)? }));
            rest = after;
        }
        if rest.contains('}') {
            return Err(unmatched("`}` without its `{`"));
        }
        parts.push(Part::Text(rest.to_owned()));
        Ok(Explanation { explains, parts })
    }

    /// One without numbers.
    #[cfg(test)]
    pub(crate) fn plain(text: &str) -> Self {
        Explanation { explains: Vec::new(), parts: vec![Part::Text(text.to_owned())] }
    }

    /// The expressions whose numbers it shows.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Expression<Cell>> {
        self.parts.iter().filter_map(|part| match part {
            Part::Number(wanted) => Some(&wanted.value),
            Part::Text(_) => None,
        })
    }

    /// The text with its numbers; three dots stand for one that was not measured.
    pub(crate) fn text(&self, number: impl Fn(&Wanted) -> Option<Shown>) -> String {
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Number(wanted) => match number(wanted) {
                None => "\u{2026}".to_owned(),
                Some((estimate, "")) => crate::claims::interval(estimate),
                Some((estimate, unit)) => format!("{} {unit}", crate::claims::interval(estimate)),
            },
        };
        self.parts.iter().map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Explanation, String> {
        let read = |text: &str| Expression::parse(text).map_err(|e| e.to_string());
        Explanation::parse(text, Vec::new(), str::to_owned, read)
    }

    #[test]
    fn numbers_stand_where_the_braces_are() {
        let explanation = parse("It has {x[a, 5%]}, and {nearest: x[a, 5%] / 2} there.").unwrap();
        let number = |wanted: &Wanted| {
            let mean = if wanted.nearest { 3.0 } else { 1.5 };
            let unit = if wanted.nearest { "" } else { "Mbit/s" };
            Some((Estimate { mean, low: mean - 0.5, high: mean + 0.5 }, unit))
        };
        assert_eq!(
            explanation.text(number),
            "It has 1.50 [1.00, 2.00] Mbit/s, and 3.00 [2.50, 3.50] there."
        );
        assert_eq!(explanation.text(|_| None), "It has \u{2026}, and \u{2026} there.");
        assert_eq!(explanation.values().count(), 2);
    }

    #[test]
    fn braces_come_in_pairs_and_hold_expressions() {
        for (text, said) in [("{x[a]", "without its"), ("x[a]}", "without its"), ("{x[}", "")] {
            assert!(parse(text).unwrap_err().contains(said), "{text}");
        }
        assert_eq!(parse("no number").unwrap().values().count(), 0);
    }
}
