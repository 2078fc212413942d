//! Window laws that the kernel computes without a daemon: the compiler of `bpf/law.bpf.c`.
//!
//! ```
//! use windward_core::endpoint::window::Expressions;
//! use windward_kernel::Law;
//!
//! let aimd = Expressions { on_loss: "0.7 * cwnd".to_owned(), ..Expressions::default() };
//! assert!(Law::compile(aimd.compile().unwrap()).is_ok());
//! let root = Expressions { on_ack: "cwnd + sqrt(cwnd)".to_owned(), ..aimd };
//! let wrong = Law::compile(root.compile().unwrap()).unwrap_err();
//! assert_eq!((wrong.key, wrong.misread.at), ("on_ack", 7));
//! ```

#[cfg(target_os = "linux")]
mod controller;

#[cfg(target_os = "linux")]
pub use controller::{LawController, LawCounters};

use windward_core::endpoint::window::{ExpressionController, Expressions, WrongExpression};
use windward_core::expression::{Misread, Step};

/// Largest number of operations of an expression.
const LENGTH: usize = 64;
/// Largest number of values on the stack.
const DEPTH: usize = 16;
/// Number of bits after the point.
const POINT: u32 = 24;
/// Largest relative error of a number by its fixed point.
const PRECISION: f64 = 1e-3;

/// Operations, by the numbers of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Code {
    Number,
    Leaf,
    Negate,
    Abs,
    Add,
    Subtract,
    Multiply,
    Divide,
    Min,
    Max,
    AtLeast,
    If,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Operation {
    code: Code,
    leaf: u32,
    number: i64,
}

impl Operation {
    fn of(code: Code) -> Self {
        Operation { code, leaf: 0, number: 0 }
    }

    fn bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&(self.code as u32).to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.leaf.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.number.to_ne_bytes());
        bytes
    }
}

/// Variables that the kernel knows, by the numbers of the program. It calls its controllers with
/// the packets that arrived, which are the growth too.
const LEAVES: [(&str, u32); 13] = [
    ("cwnd", 0),
    ("ssthresh", 1),
    ("initial_window", 2),
    ("in_flight", 3),
    ("growth", 4),
    ("delivered", 4),
    ("rtt", 5),
    ("srtt", 6),
    ("min_rtt", 7),
    ("delivery_rate", 8),
    ("now", 9),
    ("since_loss", 10),
    ("loss_cwnd", 11),
];

/// A window law as the kernel computes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Law {
    texts: Expressions,
    /// Window after an ACK, and after congestion.
    operations: [Vec<Operation>; 2],
}

impl Law {
    /// Compiles the expressions of a controller.
    ///
    /// # Errors
    /// The first term that does not run in the kernel, with the place.
    pub fn compile(controller: &ExpressionController) -> Result<Self, WrongExpression> {
        let texts = controller.expressions();
        let mut operations = [Vec::new(), Vec::new()];
        for ((key, steps), (_, text)) in controller.steps().zip(texts.texts()) {
            let wrong = |misread| WrongExpression { key, text: text.to_owned(), misread };
            let why = match key {
                "on_ack" => {
                    operations[0] = compile(text, &steps).map_err(wrong)?;
                    continue;
                }
                "on_loss" => {
                    operations[1] = compile(text, &steps).map_err(wrong)?;
                    continue;
                }
                "on_mark" => "a mark has no law of its own in the kernel: it is as a loss",
                _ => "the kernel paces by its own rule, from the window and the smoothed RTT",
            };
            return Err(wrong(misread(0, format!("{why}; {DAEMON}"))));
        }
        Ok(Law { texts: texts.clone(), operations })
    }

    /// The expressions.
    pub fn expressions(&self) -> &Expressions {
        &self.texts
    }

    /// The law as `bpf/law.bpf.c` reads it.
    pub fn bytes(&self) -> Vec<u8> {
        let all = self.operations.iter().flatten();
        let leaves = all.filter(|operation| operation.code == Code::Leaf);
        let leaves = leaves.fold(0_u32, |leaves, operation| leaves | 1 << operation.leaf);
        let lengths = [0, 1].map(|which| self.operations[which].len() as u32);
        let head = [u32::from(self.texts.slow_start), leaves, lengths[0], lengths[1]];
        let mut bytes: Vec<u8> = head.into_iter().flat_map(u32::to_ne_bytes).collect();
        for operations in &self.operations {
            let none = Operation::of(Code::Number);
            let padded = operations.iter().copied().chain(std::iter::repeat(none));
            bytes.extend(padded.take(LENGTH).flat_map(Operation::bytes));
        }
        bytes
    }
}

/// The advice where a law does not run in the kernel.
const DAEMON: &str = "`windward kernel` with --daemon computes it outside";

fn misread(at: usize, message: String) -> Misread {
    Misread { at, message }
}

/// Compiles one expression.
fn compile(text: &str, steps: &[Step<&'static str>]) -> Result<Vec<Operation>, Misread> {
    let mut operations = Vec::new();
    let mut depth = 0;
    for step in steps {
        let begins = operations.len();
        match *step {
            Step::Number(x) => operations.push(number(text, x)?),
            // Each loss in the kernel is congestion.
            Step::Leaf("probability") => operations.push(number(text, 1.0)?),
            Step::Leaf(name) => {
                let known = LEAVES.iter().find(|(known, _)| *known == name);
                let Some((_, leaf)) = known else { return Err(unknown(text, name)) };
                operations.push(Operation { leaf: *leaf, ..Operation::of(Code::Leaf) });
            }
            Step::Apply(name, arguments) => {
                let code = match (name, arguments) {
                    ("-", 1) => Code::Negate,
                    ("abs", _) => Code::Abs,
                    ("+" | "mean", _) => Code::Add,
                    ("-", _) => Code::Subtract,
                    ("*", _) => Code::Multiply,
                    ("/", _) => Code::Divide,
                    ("min", _) => Code::Min,
                    ("max", _) => Code::Max,
                    ("at_least", _) => Code::AtLeast,
                    ("if", _) => Code::If,
                    _ => return Err(unknown(text, name)),
                };
                let times = match code {
                    Code::Negate | Code::Abs | Code::If => 1,
                    _ => arguments.saturating_sub(1),
                };
                operations.extend(std::iter::repeat_n(Operation::of(code), times));
                if name == "mean" {
                    operations.push(number(text, arguments as f64)?);
                    operations.push(Operation::of(Code::Divide));
                }
            }
        }
        for operation in &operations[begins..] {
            match operation.code {
                Code::Number | Code::Leaf => depth += 1,
                Code::Negate | Code::Abs => {}
                Code::If => depth -= 2,
                _ => depth -= 1,
            }
            if depth > DEPTH {
                let message =
                    format!("it needs more than {DEPTH} values at once in the kernel; {DAEMON}");
                return Err(misread(0, message));
            }
        }
    }
    match operations.len() {
        ..=LENGTH => Ok(operations),
        many => {
            let message = format!(
                "it has {many} numbers, variables and operations, and the kernel takes {LENGTH}; \
                 {DAEMON}"
            );
            Err(misread(0, message))
        }
    }
}

/// A number in fixed point.
fn number(text: &str, x: f64) -> Result<Operation, Misread> {
    let scaled = (x * f64::from(1_u32 << POINT)).round();
    let wrong = |why: &str| {
        let at = place(text, |word| word.parse() == Ok(x));
        Err(misread(at, format!("`{x}` is too {why}; {DAEMON}")))
    };
    // Not included: infinity of the program.
    if scaled >= i64::MAX as f64 {
        return wrong("large for the kernel (valid: below 2^39)");
    }
    let exact = scaled / f64::from(1_u32 << POINT);
    if (exact - x).abs() > PRECISION * x.abs() {
        return wrong("small for the kernel, which counts in steps of 2^-24");
    }
    Ok(Operation { number: scaled as i64, ..Operation::of(Code::Number) })
}

fn unknown(text: &str, name: &str) -> Misread {
    misread(
        place(text, |word| word == name),
        format!("`{name}` does not run in the kernel; {DAEMON}"),
    )
}

/// Byte of the first word or number of which this is true, or 0.
fn place(text: &str, is_it: impl Fn(&str) -> bool) -> usize {
    let mut start = 0;
    while let Some(first) = text[start..].chars().next() {
        let is_number = first.is_ascii_digit() || first == '.';
        let mut previous = ' ';
        let end = text[start..].find(|c: char| {
            let sign = is_number && matches!(c, '+' | '-') && matches!(previous, 'e' | 'E');
            previous = c;
            !(c.is_alphanumeric() || matches!(c, '_' | '.') || sign)
        });
        let end = end.map_or(text.len(), |end| start + end);
        if is_it(&text[start..end]) {
            return start;
        }
        start = end.max(start + first.len_utf8());
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn law(on_ack: &str, on_loss: &str) -> Result<Law, WrongExpression> {
        let (on_ack, on_loss) = (on_ack.to_owned(), on_loss.to_owned());
        let texts = Expressions { on_ack, on_loss, ..Expressions::default() };
        Law::compile(texts.compile().unwrap())
    }

    fn codes(on_ack: &str) -> Vec<Code> {
        law(on_ack, "0").unwrap().operations[0].iter().map(|o| o.code).collect()
    }

    #[test]
    fn expressions_become_operations_in_reverse_polish_notation() {
        use Code::{Abs, Add, AtLeast, Divide, If, Leaf, Max, Min, Multiply, Negate, Number};
        assert_eq!(codes("cwnd + growth / cwnd"), [Leaf, Leaf, Leaf, Divide, Add]);
        assert_eq!(codes("min(cwnd, 2, 3)"), [Leaf, Number, Number, Min, Min]);
        assert_eq!(codes("mean(cwnd, 2, 3)"), [Leaf, Number, Number, Add, Add, Number, Divide]);
        assert_eq!(codes("max(-abs(srtt))"), [Leaf, Abs, Negate]);
        assert_eq!(
            codes("if(at_least(rtt, 1), 2, 3 * cwnd)"),
            [Leaf, Number, AtLeast, Number, Number, Leaf, Multiply, If]
        );
        assert_eq!(codes("1 - max(1, 2)"), [Number, Number, Number, Max, Code::Subtract]);
    }

    #[test]
    fn numbers_have_twenty_four_bits_after_the_point() {
        let law = law("cwnd + 0.5", "-1.25 * probability").unwrap();
        assert_eq!(law.operations[0][1].number, 1 << 23);
        let on_loss: Vec<i64> = law.operations[1].iter().map(|o| o.number).collect();
        // 1.25 x 2^24, a sign, 1, a product.
        assert_eq!(on_loss, [20_971_520, 0, 16_777_216, 0]);
    }

    #[test]
    fn the_bytes_are_those_of_the_program() {
        let bytes = law("cwnd + growth / srtt", "in_flight").unwrap().bytes();
        // Head of 4 x 4 bytes, and 2 x 64 operations of 16.
        assert_eq!(bytes.len(), 16 + 2 * 64 * 16);
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        // Slow start; the leaves 0, 3, 4 and 6; five operations and one.
        assert_eq!([word(0), word(4), word(8), word(12)], [1, 0b101_1001, 5, 1]);
        // The second operation is the leaf 4, and the first of `on_loss` the leaf 3.
        assert_eq!([word(32), word(36)], [1, 4]);
        assert_eq!([word(16 + 64 * 16), word(20 + 64 * 16)], [1, 3]);
    }

    #[test]
    fn what_does_not_run_is_refused_by_name_and_place() {
        let long = vec!["cwnd"; 33].join(" + ");
        let deep = "cwnd + (".repeat(16) + "1" + &")".repeat(16);
        for (on_ack, at, says) in [
            ("cwnd + sqrt(cwnd)", 7, "`sqrt` does not run in the kernel"),
            ("cwnd + if(lost, 1, 2)", 10, "`lost` does not run"),
            ("cwnd + pow(min(2, cwnd), 2)", 7, "`pow`"),
            ("cwnd + 1e-9 * growth", 7, "`0.000000001` is too small"),
            ("min(cwnd, 1e12)", 10, "`1000000000000` is too large"),
            // 33 variables and 32 sums.
            (&long, 0, "65 numbers, variables and operations, and the kernel takes 64"),
            (&deep, 0, "more than 16 values"),
        ] {
            let wrong = law(on_ack, "1").unwrap_err();
            assert_eq!((wrong.key, wrong.misread.at), ("on_ack", at), "{wrong}");
            assert!(wrong.to_string().contains(says), "{wrong}");
        }
        assert_eq!(law("1", "1 - marked").unwrap_err().key, "on_loss");
        assert!(law(&vec!["cwnd"; 32].join(" + "), "1").is_ok());
        let mark = Expressions { on_mark: Some("cwnd".to_owned()), ..Expressions::default() };
        let wrong = Law::compile(mark.compile().unwrap()).unwrap_err();
        assert!(wrong.key == "on_mark" && wrong.to_string().contains("as a loss"), "{wrong}");
        let rate = Expressions { pacing_rate: Some("9".to_owned()), ..Expressions::default() };
        let wrong = Law::compile(rate.compile().unwrap()).unwrap_err();
        assert_eq!(wrong.key, "pacing_rate");
    }
}
