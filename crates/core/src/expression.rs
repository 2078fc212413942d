//! Arithmetic as users write it: metrics and checks of experiments, and the windows of congestion
//! controllers.
//!
//! ```text
//! sum    = term { ("+" | "-") term }
//! term   = factor { ("*" | "/") factor }
//! factor = number | "-" factor | "(" sum ")" | function "(" sum {"," sum} ")" | leaf
//! function = "abs" | "at_least" | "min" | "max" | "mean"
//! ```
//!
//! A [`Leaf`] is a term that depends on the place of the expression: a measured quantity in a
//! metric, a cell of a table in a check, a variable of the sender in a controller.

use std::fmt;

/// Why a text is not an expression, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misread {
    /// Byte of the text at which the error is.
    pub at: usize,
    /// The error, as a sentence without a capital or a full stop.
    pub message: String,
}

impl fmt::Display for Misread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Misread {}

/// An expression with leaves of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Expression<L> {
    root: Node<L>,
}

/// A step of the evaluation of an expression with a stack, in reverse Polish notation:
/// [`Expression::steps`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step<L> {
    /// Pushes a number.
    Number(f64),
    /// Pushes the value of a leaf.
    Leaf(L),
    /// Replaces the top values, so many arguments, by what an operator or a function gives: `+`,
    /// `*`, `/`, `min`. `-` of one argument is a sign.
    Apply(&'static str, usize),
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

impl Operator {
    fn sign(self) -> &'static str {
        match self {
            Operator::Add => "+",
            Operator::Subtract => "-",
            Operator::Multiply => "*",
            Operator::Divide => "/",
        }
    }
}

impl Function {
    const ALL: [(&'static str, Function); 5] = [
        ("abs", Function::Abs),
        ("at_least", Function::AtLeast),
        ("min", Function::Min),
        ("max", Function::Max),
        ("mean", Function::Mean),
    ];

    fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find_map(|(known, function)| (known == name).then_some(function))
    }

    fn name(self) -> &'static str {
        let found = Self::ALL.into_iter().find(|(_, function)| *function == self);
        found.map_or("", |(name, _)| name)
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
    pub fn parse(text: &str) -> Result<Self, Misread> {
        let mut cursor = Cursor::new(text);
        let parsed = cursor.expression();
        let parsed = parsed.and_then(|parsed| cursor.end().map(|()| parsed));
        parsed.map_err(|message| Misread { at: cursor.position(), message })
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

    /// The steps of its evaluation with a stack, for machines that cannot call [`Self::evaluate`].
    pub fn steps(&self) -> Vec<Step<&L>> {
        let mut steps = Vec::new();
        self.root.steps(&mut steps);
        steps
    }

    /// All numbers in it, from left to right.
    pub fn numbers(&self) -> Vec<f64> {
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
    pub fn has_unit(&self, leaf: &impl Fn(&L) -> bool) -> bool {
        self.root.has_unit(leaf)
    }

    /// True for a single leaf.
    pub fn is_leaf(&self) -> bool {
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

    /// Dividend and divisor, both linear in the leaves, of an expression that can be written as one
    /// quotient: `a / b - 1` is `(a - b) / b`. The divisor of a linear expression is 1.
    pub fn as_quotient(&self) -> Option<(Self, Self)>
    where
        L: PartialEq,
    {
        let (dividend, divisor) = self.root.as_quotient()?;
        Some((Expression { root: dividend }, Expression { root: divisor }))
    }

    /// The argument, if the expression is `abs(..)`.
    pub fn inside_abs(&self) -> Option<Self> {
        match &self.root {
            Node::Call(Function::Abs, arguments) => {
                arguments.first().map(|argument| Expression { root: argument.clone() })
            }
            _ => None,
        }
    }

    /// True if `at_least`, `min` or `max` compare leaves in it: what they give is a property of one
    /// repetition.
    pub fn has_event(&self) -> bool {
        self.root.has_event()
    }

    /// This expression minus another.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        Expression { root: self.root.clone().with(Operator::Subtract, other.root.clone()) }
    }

    /// The same expression with leaves inside `min`, `max` and `mean` expanded: an argument with
    /// such a leaf becomes one argument per replacement, the outermost call first.
    pub fn spread(&self, is_spread: &impl Fn(&L) -> bool, changes: &[impl Fn(&L) -> L]) -> Self {
        Expression { root: self.root.spread(is_spread, changes) }
    }

    /// The same expression with other leaves.
    pub fn map(&self, change: &impl Fn(&L) -> L) -> Self {
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
                // Comparisons drop a NaN; a metric without a value must stay without one.
                let fold = |start: f64, combine: fn(f64, f64) -> f64| {
                    arguments.iter().fold(start, |so_far, argument| {
                        let x = argument.evaluate(leaf);
                        if so_far.is_nan() || x.is_nan() { f64::NAN } else { combine(so_far, x) }
                    })
                };
                match (function, &arguments[..]) {
                    (Function::Abs, [x, ..]) => x.evaluate(leaf).abs(),
                    (Function::AtLeast, [a, b, ..]) => {
                        let (a, b) = (a.evaluate(leaf), b.evaluate(leaf));
                        let known = !a.is_nan() && !b.is_nan();
                        if known { f64::from(u8::from(a >= b)) } else { f64::NAN }
                    }
                    (Function::Min, _) => fold(f64::INFINITY, f64::min),
                    (Function::Max, _) => fold(f64::NEG_INFINITY, f64::max),
                    (Function::Mean, all) => fold(0.0, |a, b| a + b) / all.len() as f64,
                    // The parser has checked the number of arguments.
                    _ => f64::NAN,
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

    fn with(self, operator: Operator, other: Node<L>) -> Node<L> {
        Node::Binary(operator, Box::new(self), Box::new(other))
    }

    /// The degree as a polynomial in the leaves; `None` if it is not a polynomial.
    fn degree(&self) -> Option<u32> {
        let most = |arguments: &[Node<L>]| {
            arguments.iter().try_fold(0, |most, argument| Some(argument.degree()?.max(most)))
        };
        match self {
            Node::Number(_) => Some(0),
            Node::Leaf(_) => Some(1),
            Node::Negate(x) => x.degree(),
            Node::Binary(operator, a, b) => {
                let (a, b) = (a.degree()?, b.degree()?);
                match operator {
                    Operator::Add | Operator::Subtract => Some(a.max(b)),
                    Operator::Multiply => Some(a.saturating_add(b)),
                    Operator::Divide => (b == 0).then_some(a),
                }
            }
            Node::Call(Function::Mean, arguments) => most(arguments),
            Node::Call(_, arguments) => most(arguments).filter(|degree| *degree == 0),
        }
    }

    fn as_quotient(&self) -> Option<(Node<L>, Node<L>)>
    where
        L: Clone + PartialEq,
    {
        use Operator::{Add, Divide, Multiply, Subtract};
        let linear = |node: &Node<L>| node.degree().is_some_and(|degree| degree <= 1);
        if linear(self) {
            return Some((self.clone(), Node::Number(1.0)));
        }
        let (dividend, divisor) = match self {
            Node::Negate(x) => {
                let (dividend, divisor) = x.as_quotient()?;
                (Node::Negate(Box::new(dividend)), divisor)
            }
            Node::Binary(operator, a, b) => {
                let ((a, c), (b, d)) = (a.as_quotient()?, b.as_quotient()?);
                match operator {
                    Add | Subtract if c == d => (a.with(*operator, b), c),
                    Add | Subtract => (
                        a.with(Multiply, d.clone()).with(*operator, b.with(Multiply, c.clone())),
                        c.with(Multiply, d),
                    ),
                    Multiply => (a.with(Multiply, b), c.with(Multiply, d)),
                    Divide => (a.with(Multiply, d), c.with(Multiply, b)),
                }
            }
            _ => return None,
        };
        (linear(&dividend) && linear(&divisor)).then_some((dividend, divisor))
    }

    fn has_event(&self) -> bool {
        match self {
            Node::Number(_) | Node::Leaf(_) => false,
            Node::Negate(x) => x.has_event(),
            Node::Binary(_, a, b) => a.has_event() || b.has_event(),
            Node::Call(Function::AtLeast | Function::Min | Function::Max, arguments) => {
                arguments.iter().any(|a| a.degree() != Some(0))
            }
            Node::Call(_, arguments) => arguments.iter().any(Node::has_event),
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

    fn steps<'a>(&'a self, steps: &mut Vec<Step<&'a L>>) {
        match self {
            Node::Number(x) => steps.push(Step::Number(*x)),
            Node::Leaf(l) => steps.push(Step::Leaf(l)),
            Node::Negate(x) => {
                x.steps(steps);
                steps.push(Step::Apply("-", 1));
            }
            Node::Binary(operator, a, b) => {
                a.steps(steps);
                b.steps(steps);
                steps.push(Step::Apply(operator.sign(), 2));
            }
            Node::Call(function, arguments) => {
                arguments.iter().for_each(|a| a.steps(steps));
                steps.push(Step::Apply(function.name(), arguments.len()));
            }
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
    ///
    /// # Errors
    /// The error, as a sentence without a capital or a full stop.
    fn parse(name: &str, cursor: &mut Cursor<'_>) -> Result<Self, String>;
}

/// A position in the text of an expression.
#[derive(Debug)]
pub struct Cursor<'a> {
    text: &'a str,
    rest: &'a str,
    depth: u32,
    nodes: usize,
    /// Byte of the first error, if that is not where the reader stands.
    wrong: Option<usize>,
}

/// Maximum nesting of parentheses and signs, so that no text can exhaust the stack.
const MAX_DEPTH: u32 = 64;

/// Maximum number of numbers, names and functions, so that no text takes endless work.
const MAX_NODES: usize = 10_000;

impl<'a> Cursor<'a> {
    /// The start of a text.
    pub fn new(text: &'a str) -> Self {
        Cursor { text, rest: text, depth: 0, nodes: 0, wrong: None }
    }

    /// Byte of the first error, or of the next character without one.
    pub fn position(&self) -> usize {
        self.wrong.unwrap_or(self.text.len() - self.rest.trim_start().len())
    }

    /// Reads an expression, as far as it goes.
    ///
    /// # Errors
    /// The error.
    pub fn expression<L: Leaf>(&mut self) -> Result<Expression<L>, String> {
        self.sum().map(|root| Expression { root })
    }

    /// Reads one or more expressions in parentheses after a name, for leaves that are functions.
    ///
    /// # Errors
    /// The error and its position.
    pub fn arguments<L: Leaf>(&mut self) -> Result<Vec<Expression<L>>, String> {
        let arguments = self.arguments_inside();
        if arguments.is_err() {
            self.wrong.get_or_insert(self.position());
        }
        arguments
    }

    fn arguments_inside<L: Leaf>(&mut self) -> Result<Vec<Expression<L>>, String> {
        if !self.eat('(') {
            return Err(self.expected("`(`"));
        }
        let mut arguments = vec![self.expression()?];
        while self.eat(',') {
            arguments.push(self.expression()?);
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
        self.nodes += 1;
        if self.depth > MAX_DEPTH {
            return Err("the expression nests too deeply".to_owned());
        }
        if self.nodes > MAX_NODES {
            return Err(format!("the expression has more than {MAX_NODES} terms"));
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
        let start = self.position();
        let word = self.word_or_id();
        if word.is_empty() {
            return Err(self.expected("a number, a name or `(`"));
        }
        // `mean[..]` is a metric of that name.
        let function = Function::named(&word).filter(|_| !self.rest.trim_start().starts_with('['));
        let Some(function) = function else {
            let leaf = L::parse(&word, self).map(Node::Leaf);
            if leaf.is_err() {
                self.wrong.get_or_insert(start);
            }
            return leaf;
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
                self.wrong.get_or_insert(start);
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
    pub fn word(&mut self) -> String {
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
    ///
    /// # Errors
    /// If `close` does not follow.
    pub fn names(&mut self, close: char) -> Result<Vec<String>, String> {
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

    /// Reads `c` after spaces, and returns whether it was there.
    pub fn eat(&mut self, c: char) -> bool {
        self.skip_space();
        self.eat_next(c)
    }

    /// Reads `c` if it comes at once, and returns whether it did.
    pub fn eat_next(&mut self, c: char) -> bool {
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

    /// Checks that nothing follows but spaces.
    ///
    /// # Errors
    /// If something does.
    pub fn end(&mut self) -> Result<(), String> {
        self.skip_space();
        match self.rest.is_empty() {
            true => Ok(()),
            false => Err(self.expected("an operator or the end")),
        }
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// The error that `what` does not follow.
    pub fn expected(&self, what: &str) -> String {
        match self.rest.trim() {
            "" => format!("`{}` ends where {what} is expected", self.text.trim()),
            rest => format!("expected {what} before `{rest}`"),
        }
    }
}
