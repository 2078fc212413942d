//! Expressions over measurements: the metrics of an experiment and the two sides of a check.
//!
//! In a metric a leaf is a [`Measure`] of one run, `throughput(lossy)`. In a check it is a [`Cell`]
//! of a table of results, a metric at one label of each axis: `fairness[lr-xcp, 5%]`, or
//! `lr2008-fig3:fairness[lr-xcp, 5%]` for the results of another experiment.

use std::fmt;

pub use windward_core::expression::{Cursor, Expression, Leaf};

mod quantity;

pub use quantity::{Measure, described};

/// A metric at one cell of a table of results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// Another experiment than that of the check.
    pub experiment: Option<String>,
    /// Name of the metric.
    pub metric: String,
    /// One label per axis, in order.
    pub labels: Vec<String>,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(experiment) = &self.experiment {
            write!(f, "{experiment}:")?;
        }
        f.write_str(&self.metric)?;
        match self.labels.is_empty() {
            true => Ok(()),
            false => write!(f, "[{}]", self.labels.join(", ")),
        }
    }
}

impl Leaf for Cell {
    fn parse(name: &str, cursor: &mut Cursor<'_>) -> Result<Self, String> {
        let (experiment, metric) = match cursor.eat(':') {
            true => (Some(name.to_owned()), cursor.word()),
            false => (None, name.to_owned()),
        };
        if metric.is_empty() {
            return Err(format!("a metric must follow `{name}:`"));
        }
        let labels = match cursor.eat('[') {
            true => cursor.names(']')?,
            false => Vec::new(),
        };
        Ok(Cell { experiment, metric, labels })
    }
}

/// Relation of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// `>`
    Above,
    /// `>=`
    AtLeast,
    /// `<`
    Below,
    /// `<=`
    AtMost,
}

impl Relation {
    /// True if the two sides satisfy the relation.
    pub fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Relation::Above => left > right,
            Relation::AtLeast => left >= right,
            Relation::Below => left < right,
            Relation::AtMost => left <= right,
        }
    }

    /// True if it bounds the left side from below.
    pub fn is_lower(self) -> bool {
        matches!(self, Relation::Above | Relation::AtLeast)
    }
}

/// `left >= right`, and the like.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Left side.
    pub left: Expression<Cell>,
    /// Relation of the sides.
    pub relation: Relation,
    /// Right side.
    pub right: Expression<Cell>,
}

impl Comparison {
    /// Parses a whole text.
    ///
    /// # Errors
    /// The error and its position.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut cursor = Cursor::new(text);
        let left = cursor.expression()?;
        let relation = match (cursor.eat('>'), cursor.eat('<')) {
            (true, _) if cursor.eat_next('=') => Relation::AtLeast,
            (true, _) => Relation::Above,
            (_, true) if cursor.eat_next('=') => Relation::AtMost,
            (_, true) => Relation::Below,
            _ => return Err(cursor.expected("one of `>=`, `<=`, `>`, `<`")),
        };
        let right = cursor.expression()?;
        cursor.end()?;
        Ok(Comparison { left, relation, right })
    }

    /// True if it orders two measured values, so that they can be equal. A comparison with a
    /// required difference or factor is not an order: both sides must have the same constants, if
    /// any.
    pub fn is_order(&self) -> bool {
        let strict = matches!(self.relation, Relation::Above | Relation::Below);
        let measured = |side: &Expression<Cell>| side.constant().is_none();
        let alike = self.left.numbers() == self.right.numbers();
        let bare = self.left.is_leaf() && self.right.is_leaf();
        bare || (strict && alike && measured(&self.left) && measured(&self.right))
    }

    /// All cells of both sides.
    pub fn cells(&self) -> Vec<&Cell> {
        let mut cells = self.left.leaves();
        cells.extend(self.right.leaves());
        cells
    }

    /// The same comparison with cells expanded inside `min`, `max` and `mean`.
    pub(crate) fn spread(
        &self,
        is_spread: &impl Fn(&Cell) -> bool,
        changes: &[impl Fn(&Cell) -> Cell],
    ) -> Self {
        Comparison {
            left: self.left.spread(is_spread, changes),
            relation: self.relation,
            right: self.right.spread(is_spread, changes),
        }
    }

    /// The same comparison with other cells.
    pub(crate) fn map(&self, change: &impl Fn(&Cell) -> Cell) -> Self {
        Comparison {
            left: self.left.map(change),
            relation: self.relation,
            right: self.right.map(change),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of a cell is the number of its labels plus ten.
    fn value(text: &str) -> f64 {
        let expression = Expression::<Cell>::parse(text).unwrap();
        expression.evaluate(&|cell| 10.0 + cell.labels.len() as f64)
    }

    #[test]
    fn arithmetic_by_hand() {
        assert_eq!(value("1 + 2 * 3"), 7.0);
        assert_eq!(value("(1 + 2) * 3"), 9.0);
        assert_eq!(value("8 - 3 - 2"), 3.0); // from the left: (8 - 3) - 2
        assert_eq!(value("16 / 4 / 2"), 2.0);
        assert_eq!(value("2e-1 * 10"), 2.0);
        assert_eq!(value("-2 - -3"), 1.0);
        assert_eq!(value("abs(1 - 4) + min(5, 2, 9) + max(1, 7)"), 12.0); // 3 + 2 + 7
        assert_eq!(value("mean(1, 2, 6) + at_least(2, 2) + at_least(1, 2)"), 4.0); // 3 + 1 + 0
        assert_eq!(value("fairness[lr-xcp, 5%] - x[1]"), 1.0); // 12 - 11
        assert_eq!(value("mean[a, b] - mean(x[1], x[1])"), 1.0); // a metric may have this name
        assert_eq!(value("other-fig:fairness[a, b] - 1"), 11.0);
    }

    #[test]
    fn a_missing_value_stays_missing() {
        assert!(value("min(0/0, 1)").is_nan());
        assert!(value("max(1, 0/0)").is_nan());
        assert!(value("mean(1, at_least(0/0, 1))").is_nan());
        assert_eq!(value("1/0"), f64::INFINITY);
    }

    #[test]
    fn bounds_by_hand() {
        // Every cell is a share except those of the metric `rate`, which is only non-negative.
        let bounds = |text: &str| {
            let expression = Expression::<Cell>::parse(text).unwrap();
            expression.bounds(&|c| (0.0, if c.metric == "rate" { f64::INFINITY } else { 1.0 }))
        };
        assert_eq!(bounds("1 - a[x]"), (0.0, 1.0));
        assert_eq!(bounds("a[x] - b[x]"), (-1.0, 1.0));
        assert_eq!(bounds("abs(a[x] - 0.25)"), (0.0, 0.75));
        assert_eq!(bounds("abs(2 + a[x])"), (2.0, 3.0));
        assert_eq!(bounds("-2 * a[x]"), (-2.0, 0.0));
        assert_eq!(bounds("a[x] / 2"), (0.0, 0.5));
        assert_eq!(bounds("rate[x] / rate[y]"), (0.0, f64::INFINITY));
        assert_eq!(bounds("0 * rate[x]"), (0.0, 0.0));
        assert_eq!(bounds("(a[x] - 1) / rate[x]"), (f64::NEG_INFINITY, f64::INFINITY));
        assert_eq!(bounds("min(rate[x], a[x])"), (0.0, 1.0));
        assert_eq!(bounds("max(rate[x], 1 + a[x])"), (1.0, f64::INFINITY));
        assert_eq!(bounds("mean(a[x], 1 + a[x])"), (0.5, 1.5));
        assert_eq!(bounds("at_least(rate[x], 3)"), (0.0, 1.0));
    }

    #[test]
    fn a_required_factor_or_difference_is_not_an_order() {
        for (text, order) in [
            ("a[x] > b[x]", true),
            ("a[x] >= b[x]", true),
            ("mean(a[x], a[y]) < b[x]", true),
            ("a[x] / a[y] > b[x] / b[y]", true),
            // Distances from one.
            ("abs(a[x] - 1) < abs(b[x] - 1)", true),
            ("a[x] > 2 * b[x]", false),
            ("a[x] / 2 > b[x]", false),
            ("a[x] > b[x] + 0.05", false),
            ("a[x] > 2", false),
            ("a[x] / a[y] >= b[x] / b[y]", false),
        ] {
            assert_eq!(Comparison::parse(text).unwrap().is_order(), order, "{text}");
        }
    }

    #[test]
    fn labels_may_contain_operators() {
        let comparison = Comparison::parse("x[a->b, >= 3] >= y[-]").unwrap();
        assert_eq!(comparison.relation, Relation::AtLeast);
        assert_eq!(comparison.cells()[0].labels, ["a->b", ">= 3"]);
        assert_eq!(comparison.cells()[1].labels, ["-"]);
    }

    #[test]
    fn errors_say_what_is_expected() {
        let error = |text| Expression::<Measure>::parse(text).unwrap_err().message;
        assert_eq!(
            error("troughput(lossy)"),
            "unknown function `troughput`; did you mean `throughput`?"
        );
        assert_eq!(error("(1 + 2"), "`(1 + 2` ends where `)` is expected");
        assert_eq!(error("1 2"), "expected an operator or the end before `2`");
        assert_eq!(error("1.2.3"), "`1.2.3` is not a number");
        assert_eq!(error("jain(x)"), "`jain()` takes nothing in its parentheses");
        assert_eq!(error("utilization(a, b)"), "`utilization(..)` takes the name of one link");
        let deep = "(".repeat(100_000);
        assert_eq!(error(&deep), "the expression nests too deeply");
        let comparison = Comparison::parse("a[1] = 2").unwrap_err();
        assert_eq!(comparison, "expected one of `>=`, `<=`, `>`, `<` before `= 2`");
    }
}
