//! Arithmetic over measurements: the metrics of an experiment and the two sides of a check.
//!
//! ```text
//! sum    = term { ("+" | "-") term }
//! term   = factor { ("*" | "/") factor }
//! factor = number | "-" factor | "(" sum ")" | function "(" sum {"," sum} ")" | leaf
//! function = "abs" | "at_least" | "min" | "max" | "mean"
//! ```
//!
//! The meaning of a leaf depends on the place of the expression. In a metric it is a [`Measure`] of
//! one run, `throughput(lossy)`. In a check it is a [`Cell`] of a table of results, a metric at one
//! label of each axis: `fairness[lr-xcp, 5%]`, or `lr2008-fig3:fairness[lr-xcp, 5%]` for the
//! results of another experiment.

use std::fmt;

mod quantity;

pub use quantity::{Measure, described};

/// An expression with leaves of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Expression<L> {
    root: Node<L>,
}

#[derive(Debug, Clone, PartialEq)]
enum Node<L> {
    Number(f64),
    Leaf(L),
    Negate(Box<Node<L>>),
    Binary(Operator, Box<Node<L>>, Box<Node<L>>),
    Call(Function, Vec<Node<L>>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Function {
    Abs,
    /// 1 if the first is at least the second, else 0.
    AtLeast,
    Min,
    Max,
    Mean,
}

impl Function {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "abs" => Function::Abs,
            "at_least" => Function::AtLeast,
            "min" => Function::Min,
            "max" => Function::Max,
            "mean" => Function::Mean,
            _ => return None,
        })
    }

    /// Number of arguments; `None` for any number.
    fn arguments(self) -> Option<usize> {
        match self {
            Function::Abs => Some(1),
            Function::AtLeast => Some(2),
            Function::Min | Function::Max | Function::Mean => None,
        }
    }
}

impl<L: Leaf> Expression<L> {
    /// Parses a whole text.
    ///
    /// # Errors
    /// The error and its position.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut cursor = Cursor::new(text);
        let root = cursor.sum()?;
        cursor.end()?;
        Ok(Expression { root })
    }

    /// The value, computed from the value of each leaf. May be infinite or not a number: 1/0, 0/0.
    pub fn evaluate(&self, leaf: &impl Fn(&L) -> f64) -> f64 {
        self.root.evaluate(leaf)
    }

    /// All leaves, from left to right.
    pub fn leaves(&self) -> Vec<&L> {
        let mut leaves = Vec::new();
        self.root.collect(&mut leaves);
        leaves
    }

    /// All numbers in it, from left to right.
    fn numbers(&self) -> Vec<f64> {
        let mut numbers = Vec::new();
        self.root.numbers(&mut numbers);
        numbers
    }

    /// The number, if the expression has no leaves.
    pub fn constant(&self) -> Option<f64> {
        let none = self.leaves().is_empty();
        none.then(|| self.evaluate(&|_| f64::NAN))
    }

    /// True if the value has a unit; `leaf` says so for each leaf. A quotient with a divisor that
    /// has a unit counts as a ratio of two quantities of the same unit.
    pub(crate) fn has_unit(&self, leaf: &impl Fn(&L) -> bool) -> bool {
        self.root.has_unit(leaf)
    }

    /// True for a single leaf.
    pub(crate) fn is_leaf(&self) -> bool {
        self.leaf().is_some()
    }

    /// The leaf, if it is a single one.
    pub fn leaf(&self) -> Option<&L> {
        match &self.root {
            Node::Leaf(leaf) => Some(leaf),
            _ => None,
        }
    }

    /// Bounds of the value, computed from the bounds of each leaf by interval arithmetic. They are
    /// never too narrow, and ignore dependencies between leaves.
    pub fn bounds(&self, leaf: &impl Fn(&L) -> (f64, f64)) -> (f64, f64) {
        self.root.bounds(leaf)
    }

    /// The same expression with leaves inside `min`, `max` and `mean` expanded: an argument with
    /// such a leaf becomes one argument per replacement, the outermost call first.
    pub(crate) fn spread(
        &self,
        is_spread: &impl Fn(&L) -> bool,
        changes: &[impl Fn(&L) -> L],
    ) -> Self {
        Expression { root: self.root.spread(is_spread, changes) }
    }

    /// The same expression with other leaves.
    pub(crate) fn map(&self, change: &impl Fn(&L) -> L) -> Self {
        let root = self.root.map(change);
        Expression { root }
    }
}

impl<L> Node<L> {
    fn evaluate(&self, leaf: &impl Fn(&L) -> f64) -> f64 {
        match self {
            Node::Number(x) => *x,
            Node::Leaf(l) => leaf(l),
            Node::Negate(x) => -x.evaluate(leaf),
            Node::Binary(operator, a, b) => {
                let (a, b) = (a.evaluate(leaf), b.evaluate(leaf));
                match operator {
                    Operator::Add => a + b,
                    Operator::Subtract => a - b,
                    Operator::Multiply => a * b,
                    Operator::Divide => a / b,
                }
            }
            Node::Call(function, arguments) => {
                let values: Vec<f64> = arguments.iter().map(|a| a.evaluate(leaf)).collect();
                // Comparisons drop a NaN; a metric without a value must stay without one.
                if values.iter().any(|x| x.is_nan()) {
                    return f64::NAN;
                }
                match (function, &values[..]) {
                    (Function::AtLeast, [a, b, ..]) => f64::from(u8::from(a >= b)),
                    (Function::Abs | Function::AtLeast, all) => all.iter().map(|x| x.abs()).sum(),
                    (Function::Min, all) => all.iter().copied().fold(f64::INFINITY, f64::min),
                    (Function::Max, all) => all.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                    (Function::Mean, all) => all.iter().sum::<f64>() / all.len() as f64,
                }
            }
        }
    }

    fn has_unit(&self, leaf: &impl Fn(&L) -> bool) -> bool {
        match self {
            Node::Number(_) => false,
            Node::Leaf(l) => leaf(l),
            Node::Negate(x) => x.has_unit(leaf),
            Node::Binary(Operator::Divide, a, b) => a.has_unit(leaf) != b.has_unit(leaf),
            Node::Binary(_, a, b) => a.has_unit(leaf) || b.has_unit(leaf),
            Node::Call(Function::AtLeast, _) => false,
            Node::Call(_, arguments) => arguments.iter().any(|a| a.has_unit(leaf)),
        }
    }

    fn bounds(&self, leaf: &impl Fn(&L) -> (f64, f64)) -> (f64, f64) {
        match self {
            Node::Number(x) => (*x, *x),
            Node::Leaf(l) => leaf(l),
            Node::Negate(x) => {
                let (low, high) = x.bounds(leaf);
                (-high, -low)
            }
            Node::Binary(operator, a, b) => {
                let ((a, b), (c, d)) = (a.bounds(leaf), b.bounds(leaf));
                match operator {
                    Operator::Add => (a + c, b + d),
                    Operator::Subtract => (a - d, b - c),
                    Operator::Multiply => {
                        // Zero times infinity is zero here.
                        let product =
                            |x: f64, y: f64| if x == 0.0 || y == 0.0 { 0.0 } else { x * y };
                        let all = [product(a, c), product(a, d), product(b, c), product(b, d)];
                        let low = all.into_iter().fold(f64::INFINITY, f64::min);
                        (low, all.into_iter().fold(f64::NEG_INFINITY, f64::max))
                    }
                    Operator::Divide if a >= 0.0 && c >= 0.0 => {
                        (a / d, if c == 0.0 { f64::INFINITY } else { b / c })
                    }
                    Operator::Divide => (f64::NEG_INFINITY, f64::INFINITY),
                }
            }
            Node::Call(function, arguments) => {
                let all: Vec<(f64, f64)> = arguments.iter().map(|a| a.bounds(leaf)).collect();
                let (lows, highs) = (all.iter().map(|b| b.0), all.iter().map(|b| b.1));
                match (function, &all[..]) {
                    (Function::Abs, [(low, high), ..]) => {
                        let around_zero = *low <= 0.0 && *high >= 0.0;
                        let least = if around_zero { 0.0 } else { low.abs().min(high.abs()) };
                        (least, low.abs().max(high.abs()))
                    }
                    (Function::AtLeast, _) => (0.0, 1.0),
                    (Function::Mean, _) => {
                        let count = all.len() as f64;
                        (lows.sum::<f64>() / count, highs.sum::<f64>() / count)
                    }
                    (Function::Max, _) => (
                        lows.fold(f64::NEG_INFINITY, f64::max),
                        highs.fold(f64::NEG_INFINITY, f64::max),
                    ),
                    _ => (lows.fold(f64::INFINITY, f64::min), highs.fold(f64::INFINITY, f64::min)),
                }
            }
        }
    }

    fn collect<'a>(&'a self, leaves: &mut Vec<&'a L>) {
        match self {
            Node::Number(_) => {}
            Node::Leaf(l) => leaves.push(l),
            Node::Negate(x) => x.collect(leaves),
            Node::Binary(_, a, b) => {
                a.collect(leaves);
                b.collect(leaves);
            }
            Node::Call(_, arguments) => arguments.iter().for_each(|a| a.collect(leaves)),
        }
    }

    fn numbers(&self, numbers: &mut Vec<f64>) {
        match self {
            Node::Number(x) => numbers.push(*x),
            Node::Leaf(_) => {}
            Node::Negate(x) => x.numbers(numbers),
            Node::Binary(_, a, b) => {
                a.numbers(numbers);
                b.numbers(numbers);
            }
            Node::Call(_, arguments) => arguments.iter().for_each(|a| a.numbers(numbers)),
        }
    }

    fn map(&self, change: &impl Fn(&L) -> L) -> Node<L>
    where
        L: Clone,
    {
        match self {
            Node::Leaf(l) => Node::Leaf(change(l)),
            other => other.over(&|node| node.map(change)),
        }
    }

    fn spread(&self, is_spread: &impl Fn(&L) -> bool, changes: &[impl Fn(&L) -> L]) -> Node<L>
    where
        L: Clone,
    {
        let concerned = |node: &Node<L>| {
            let mut leaves = Vec::new();
            node.collect(&mut leaves);
            leaves.into_iter().any(is_spread)
        };
        match self {
            Node::Call(function, arguments) if function.arguments().is_none() => {
                let spread = arguments.iter().flat_map(|a| match concerned(a) {
                    true => changes.iter().map(|change| a.map(change)).collect(),
                    false => vec![a.clone()],
                });
                Node::Call(*function, spread.collect())
            }
            other => other.over(&|node| node.spread(is_spread, changes)),
        }
    }

    /// The same node with other operands.
    fn over(&self, change: &impl Fn(&Node<L>) -> Node<L>) -> Node<L>
    where
        L: Clone,
    {
        match self {
            Node::Number(_) | Node::Leaf(_) => self.clone(),
            Node::Negate(x) => Node::Negate(Box::new(change(x))),
            Node::Binary(operator, a, b) => {
                Node::Binary(*operator, Box::new(change(a)), Box::new(change(b)))
            }
            Node::Call(function, arguments) => {
                Node::Call(*function, arguments.iter().map(change).collect())
            }
        }
    }
}

/// Leaf of an expression that is not a number.
pub trait Leaf: Clone {
    /// Reads the rest of a leaf that begins with `name`.
    #[doc(hidden)]
    fn parse(name: &str, cursor: &mut Cursor<'_>) -> Result<Self, String>;
}

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
        let left = cursor.sum()?;
        let relation = match (cursor.eat('>'), cursor.eat('<')) {
            (true, _) if cursor.eat_next('=') => Relation::AtLeast,
            (true, _) => Relation::Above,
            (_, true) if cursor.eat_next('=') => Relation::AtMost,
            (_, true) => Relation::Below,
            _ => return Err(cursor.expected("one of `>=`, `<=`, `>`, `<`")),
        };
        let right = cursor.sum()?;
        cursor.end()?;
        Ok(Comparison {
            left: Expression { root: left },
            relation,
            right: Expression { root: right },
        })
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

/// A position in the text of an expression.
#[derive(Debug)]
pub struct Cursor<'a> {
    text: &'a str,
    rest: &'a str,
    depth: u32,
}

/// Maximum nesting of parentheses and signs, so that no text can exhaust the stack.
const MAX_DEPTH: u32 = 64;

impl<'a> Cursor<'a> {
    fn new(text: &'a str) -> Self {
        Cursor { text, rest: text, depth: 0 }
    }

    /// Reads one or more expressions in parentheses after a name, for leaves that are functions.
    ///
    /// # Errors
    /// The error and its position.
    pub fn arguments<L: Leaf>(&mut self) -> Result<Vec<Expression<L>>, String> {
        if !self.eat('(') {
            return Err(self.expected("`(`"));
        }
        let mut arguments = vec![Expression { root: self.sum()? }];
        while self.eat(',') {
            arguments.push(Expression { root: self.sum()? });
        }
        self.close(')').map(|()| arguments)
    }

    fn sum<L: Leaf>(&mut self) -> Result<Node<L>, String> {
        let mut left = self.term()?;
        loop {
            let operator = match (self.eat('+'), self.eat('-')) {
                (true, _) => Operator::Add,
                (_, true) => Operator::Subtract,
                _ => return Ok(left),
            };
            left = Node::Binary(operator, Box::new(left), Box::new(self.term()?));
        }
    }

    fn term<L: Leaf>(&mut self) -> Result<Node<L>, String> {
        let mut left = self.factor()?;
        loop {
            let operator = match (self.eat('*'), self.eat('/')) {
                (true, _) => Operator::Multiply,
                (_, true) => Operator::Divide,
                _ => return Ok(left),
            };
            left = Node::Binary(operator, Box::new(left), Box::new(self.factor()?));
        }
    }

    fn factor<L: Leaf>(&mut self) -> Result<Node<L>, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("the expression nests too deeply".to_owned());
        }
        let node = self.factor_inside();
        self.depth -= 1;
        node
    }

    fn factor_inside<L: Leaf>(&mut self) -> Result<Node<L>, String> {
        if self.eat('-') {
            return Ok(Node::Negate(Box::new(self.factor()?)));
        }
        if self.eat('(') {
            let inside = self.sum()?;
            return self.close(')').map(|()| inside);
        }
        self.skip_space();
        if self.rest.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            return self.number();
        }
        let word = self.word_or_id();
        if word.is_empty() {
            return Err(self.expected("a number, a name or `(`"));
        }
        // `mean[..]` is a metric of that name.
        let function = Function::named(&word).filter(|_| !self.rest.trim_start().starts_with('['));
        let Some(function) = function else {
            return L::parse(&word, self).map(Node::Leaf);
        };
        if !self.eat('(') {
            return Err(self.expected(&format!("`(` after `{word}`")));
        }
        let mut arguments = vec![self.sum()?];
        while self.eat(',') {
            arguments.push(self.sum()?);
        }
        self.close(')')?;
        match function.arguments() {
            Some(needed) if arguments.len() != needed => {
                let plural = if needed == 1 { "" } else { "s" };
                Err(format!("`{word}(..)` takes {needed} expression{plural}"))
            }
            _ => Ok(Node::Call(function, arguments)),
        }
    }

    fn number<L>(&mut self) -> Result<Node<L>, String> {
        let mut end = 0;
        let mut previous = ' ';
        for c in self.rest.chars() {
            let sign_of_exponent = matches!(c, '+' | '-') && matches!(previous, 'e' | 'E');
            if !(c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E') || sign_of_exponent) {
                break;
            }
            end += c.len_utf8();
            previous = c;
        }
        let (digits, rest) = self.rest.split_at(end);
        let value = digits.parse::<f64>().ok().filter(|x| x.is_finite());
        let value = value.ok_or_else(|| format!("`{digits}` is not a number"))?;
        self.rest = rest;
        Ok(Node::Number(value))
    }

    /// Letters, digits and underscores.
    fn word(&mut self) -> String {
        self.skip_space();
        self.take(|c| c.is_alphanumeric() || c == '_')
    }

    /// A word or, before a colon, the id of an experiment, which may contain hyphens.
    fn word_or_id(&mut self) -> String {
        let before = self.rest;
        let id = self.take(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
        if self.rest.starts_with(':') {
            return id;
        }
        self.rest = before;
        self.word()
    }

    /// Names separated by commas up to `close`: anything but commas and `close` itself.
    fn names(&mut self, close: char) -> Result<Vec<String>, String> {
        let Some((inside, rest)) = self.rest.split_once(close) else {
            return Err(self.expected(&format!("`{close}`")));
        };
        self.rest = rest;
        if inside.trim().is_empty() {
            return Ok(Vec::new());
        }
        Ok(inside.split(',').map(|n| n.trim().to_owned()).collect())
    }

    fn take(&mut self, belongs: impl Fn(char) -> bool) -> String {
        let end = self.rest.find(|c| !belongs(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word.to_owned()
    }

    fn eat(&mut self, c: char) -> bool {
        self.skip_space();
        self.eat_next(c)
    }

    fn eat_next(&mut self, c: char) -> bool {
        let rest = self.rest.strip_prefix(c);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn close(&mut self, c: char) -> Result<(), String> {
        match self.eat(c) {
            true => Ok(()),
            false => Err(self.expected(&format!("`{c}`"))),
        }
    }

    fn end(&mut self) -> Result<(), String> {
        self.skip_space();
        match self.rest.is_empty() {
            true => Ok(()),
            false => Err(self.expected("an operator or the end")),
        }
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn expected(&self, what: &str) -> String {
        match self.rest.trim() {
            "" => format!("`{}` ends where {what} is expected", self.text.trim()),
            rest => format!("expected {what} before `{rest}`"),
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
        let error = |text| Expression::<Measure>::parse(text).unwrap_err();
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
