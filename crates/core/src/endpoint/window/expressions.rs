//! A congestion controller that expressions define, compiled once.
//!
//! ```
//! use windward_core::endpoint::window::Expressions;
//!
//! let aimd = Expressions {
//!     on_ack: "cwnd + growth / cwnd".to_owned(),
//!     on_loss: "0.7 * cwnd".to_owned(),
//!     ..Expressions::default()
//! };
//! assert!(aimd.compile().is_ok());
//! let wrong = Expressions { on_loss: "0.7 * cwmd".to_owned(), ..aimd }.compile().unwrap_err();
//! assert_eq!((wrong.key, wrong.misread.at), ("on_loss", 6));
//! assert!(wrong.to_string().contains("did you mean `cwnd`?"));
//! ```
//!
//! Slow start, what counts as growth, and the restart after a timeout are those of RFC 5681.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use super::{
    Controller, ControllerSetup, Fault, LARGEST_WINDOW, MakeController, Wrong, is_rate, is_window,
    record,
};
use crate::endpoint::estimator::RateSample;
use crate::endpoint::event::{AckEvent, CongestionEvent, Path, ResetEvent};
use crate::expression::{Cursor, Expression, Leaf, Misread, Step};
use crate::packet::Flags;
use crate::part::{Ability, CustomPart, Need, Words, checksum};
use crate::units::Time;

/// The text of a controller: its expressions and the rest of its definition.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Expressions {
    /// Window after an acknowledgment of new data, outside loss recovery and slow start, while the
    /// window limits the sender; packets.
    pub on_ack: String,
    /// Window after congestion, packets, at least 2. It becomes ssthresh too, as after a timeout.
    pub on_loss: String,
    /// The same after an ECN mark, if that is not as after a loss.
    pub on_mark: Option<String>,
    /// Pacing rate after each event, packets per second; none, zero or infinity for no limit but
    /// the window.
    pub pacing_rate: Option<String>,
    /// Whether the window grows by one packet per acknowledgment below ssthresh (RFC 5681).
    pub slow_start: bool,
}

impl Default for Expressions {
    /// AIMD(1, 1/2).
    fn default() -> Self {
        Expressions {
            on_ack: "cwnd + growth / cwnd".to_owned(),
            on_loss: "in_flight / 2".to_owned(),
            on_mark: None,
            pacing_rate: None,
            slow_start: true,
        }
    }
}

impl Expressions {
    /// The expressions by their keys, without those that are absent.
    pub fn texts(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let Expressions { on_ack, on_loss, on_mark, pacing_rate, .. } = self;
        let always = [("on_ack", on_ack), ("on_loss", on_loss)].into_iter();
        let mark = on_mark.iter().map(|text| ("on_mark", text));
        let pacing = pacing_rate.iter().map(|text| ("pacing_rate", text));
        always.chain(mark).chain(pacing).map(|(key, text)| (key, text.as_str()))
    }

    /// [`checksum`] of the definition.
    pub fn checksum(&self) -> u32 {
        let lines = self.texts().map(|(key, text)| format!("{key}={text}\n"));
        let mut definition = lines.collect::<String>().into_bytes();
        definition.push(u8::from(self.slow_start));
        checksum(&definition)
    }

    /// Compiles the expressions. Each definition is compiled once and kept as long as the program.
    ///
    /// # Errors
    /// The first expression that cannot be read, with the place.
    pub fn compile(&self) -> Result<&'static ExpressionController, WrongExpression> {
        static KNOWN: LazyLock<Mutex<HashMap<Expressions, &'static ExpressionController>>> =
            LazyLock::new(Mutex::default);
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(self) {
            return Ok(known);
        }
        let parse = |key: &'static str, text: &str| {
            Expression::parse(text).map_err(|misread| WrongExpression {
                key,
                text: text.to_owned(),
                misread,
            })
        };
        let maybe =
            |key, text: &Option<String>| text.as_ref().map(|text| parse(key, text)).transpose();
        let on_ack = parse("on_ack", &self.on_ack)?;
        let on_loss = parse("on_loss", &self.on_loss)?;
        let on_mark = maybe("on_mark", &self.on_mark)?;
        let pacing_rate = maybe("pacing_rate", &self.pacing_rate)?;
        let all = [Some(&on_ack), Some(&on_loss), on_mark.as_ref(), pacing_rate.as_ref()];
        let samples = all.into_iter().flatten().any(uses_rate);
        let what: Vec<String> =
            self.texts().map(|(key, text)| format!("{key} = `{text}`")).collect();
        let slow_start = if self.slow_start { "" } else { "; no slow start" };
        let compiled = Compiled {
            name: format!("law-{:08x}", self.checksum()).leak(),
            what: format!("{}{slow_start}", what.join("; ")).leak(),
            texts: self.clone(),
            on_ack,
            on_loss,
            on_mark,
            pacing_rate,
            samples,
        };
        let compiled: &'static _ = Box::leak(Box::new(ExpressionController(Arc::new(compiled))));
        known.insert(self.clone(), compiled);
        Ok(compiled)
    }
}

/// An expression of a controller that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongExpression {
    /// Its key: `on_ack`.
    pub key: &'static str,
    /// The expression.
    pub text: String,
    /// The error and its place.
    pub misread: Misread,
}

impl fmt::Display for WrongExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WrongExpression { key, text, misread } = self;
        let character = text.get(..misread.at).map_or(0, |before| before.chars().count()) + 1;
        write!(f, "{key} = {text:?}: character {character}: {misread}")
    }
}

impl std::error::Error for WrongExpression {}

/// Terms of an expression besides numbers and `+ - * / abs min max mean at_least`.
#[derive(Debug, Clone)]
enum Term {
    Variable(Variable),
    Call(Function, Vec<Expression<Term>>),
}

/// Makes the enum of variables and their descriptions from one list.
macro_rules! variables {
    ($($variant:ident = $name:literal: $meaning:literal;)+) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        enum Variable { $($variant),+ }
        impl Variable {
            const ALL: &'static [(&'static str, Variable)] = &[$(($name, Variable::$variant)),+];
            fn name(self) -> &'static str {
                match self { $(Variable::$variant => $name),+ }
            }
        }
        /// The variables of expressions, each with unit and meaning.
        pub const VARIABLES: &[(&str, &str)] = &[$(($name, $meaning)),+];
    };
}

variables! {
    Cwnd = "cwnd": "the window, packets";
    Ssthresh = "ssthresh": "the slow start threshold, packets";
    InitialWindow = "initial_window": "the window at the start, packets";
    InFlight = "in_flight": "packets outstanding, no more than cwnd";
    Growth = "growth": "packets by which growth counts the ACK, mostly 1; 0 at a loss";
    Delivered = "delivered": "packets that the ACK reports as arrived; 0 at a loss";
    Lost = "lost": "packets found lost by the ACK; 0 at a loss";
    Marked = "marked": "1 if the ACK or the congestion event is by an ECN mark, else 0";
    Rtt = "rtt": "the latest RTT sample, seconds; 0 before the first";
    Srtt = "srtt": "the smoothed RTT, seconds; 0 before the first sample";
    MinRtt = "min_rtt": "the smallest RTT sample, seconds; 0 before the first";
    DeliveryRate = "delivery_rate": "the latest delivery-rate sample, packets per second; 0 before the first";
    Now = "now": "seconds since the start";
    SinceLoss = "since_loss": "seconds since the last congestion, or the start";
    LossCwnd = "loss_cwnd": "the window before the last congestion, or the initial one, packets";
    Probability = "probability": "probability of congestion as the cause of the loss, 1 with most discriminators";
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Function {
    Sqrt,
    Cbrt,
    Exp,
    Ln,
    Pow,
    /// The second where the first is not zero, else the third.
    If,
}

impl Function {
    const ALL: [(&'static str, Function, usize); 6] = [
        ("sqrt", Function::Sqrt, 1),
        ("cbrt", Function::Cbrt, 1),
        ("exp", Function::Exp, 1),
        ("ln", Function::Ln, 1),
        ("pow", Function::Pow, 2),
        ("if", Function::If, 3),
    ];

    fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, function, _)| *function == self);
        found.map_or("", |(name, ..)| *name)
    }
}

impl Leaf for Term {
    fn parse(name: &str, cursor: &mut Cursor<'_>) -> Result<Self, String> {
        if let Some((_, variable)) = Variable::ALL.iter().find(|(word, _)| *word == name) {
            return Ok(Term::Variable(*variable));
        }
        if let Some((_, function, needed)) = Function::ALL.iter().find(|(word, ..)| *word == name) {
            let arguments = cursor.arguments()?;
            if arguments.len() != *needed {
                return Err(format!("`{name}(..)` takes {needed}, not {}", arguments.len()));
            }
            return Ok(Term::Call(*function, arguments));
        }
        let words = Variable::ALL.iter().map(|(word, _)| *word);
        let words = words.chain(Function::ALL.iter().map(|(word, ..)| *word));
        let words: Vec<&str> = words.chain(["abs", "min", "max", "mean", "at_least"]).collect();
        // One character more, less, other or exchanged with its neighbour.
        let near = words.iter().find(|word| strsim::osa_distance(word, name) == 1);
        let help = near.map_or_else(
            || format!("valid: {}", words.join(", ")),
            |near| format!("did you mean `{near}`?"),
        );
        Err(format!("`{name}` is not a variable or function of controllers; {help}"))
    }
}

/// True if the expression reads delivery-rate samples.
fn uses_rate(expression: &Expression<Term>) -> bool {
    expression.leaves().into_iter().any(|term| match term {
        Term::Variable(variable) => *variable == Variable::DeliveryRate,
        Term::Call(_, arguments) => arguments.iter().any(uses_rate),
    })
}

/// A compiled controller: the maker of the state of each connection.
#[derive(Debug)]
pub struct ExpressionController(Arc<Compiled>);

#[derive(Debug)]
struct Compiled {
    name: &'static str,
    what: &'static str,
    texts: Expressions,
    on_ack: Expression<Term>,
    on_loss: Expression<Term>,
    on_mark: Option<Expression<Term>>,
    pacing_rate: Option<Expression<Term>>,
    /// True if an expression reads delivery-rate samples.
    samples: bool,
}

impl ExpressionController {
    /// The expressions as they were written.
    pub fn expressions(&self) -> &Expressions {
        &self.0.texts
    }

    /// The steps of each expression, by its key, with the names of variables. A call of `if`
    /// evaluates all three arguments.
    pub fn steps(&self) -> impl Iterator<Item = (&'static str, Vec<Step<&'static str>>)> {
        let Compiled { on_ack, on_loss, on_mark, pacing_rate, .. } = &*self.0;
        let always = [("on_ack", Some(on_ack)), ("on_loss", Some(on_loss))];
        let maybe = [("on_mark", on_mark.as_ref()), ("pacing_rate", pacing_rate.as_ref())];
        let all = always.into_iter().chain(maybe);
        all.filter_map(|(key, expression)| Some((key, steps(expression?))))
    }
}

/// The steps of an expression and of the functions that are leaves in it.
fn steps(expression: &Expression<Term>) -> Vec<Step<&'static str>> {
    let mut all = Vec::new();
    for step in expression.steps() {
        match step {
            Step::Number(x) => all.push(Step::Number(x)),
            Step::Apply(name, arguments) => all.push(Step::Apply(name, arguments)),
            Step::Leaf(Term::Variable(variable)) => all.push(Step::Leaf(variable.name())),
            Step::Leaf(Term::Call(function, arguments)) => {
                arguments.iter().for_each(|argument| all.extend(steps(argument)));
                all.push(Step::Apply(function.name(), arguments.len()));
            }
        }
    }
    all
}

const NEEDS_RATE: &[Need] = &[Need {
    any_of: &[Ability::TransmissionNumbers],
    why: "there is no delivery_rate (use the recovery packet-number or rack)",
}];

impl CustomPart for ExpressionController {
    fn words(&self) -> Words {
        Words { name: self.0.name, what: self.0.what, source: "its expressions" }
    }
    fn needs(&self) -> &'static [Need] {
        if self.0.samples { NEEDS_RATE } else { &[] }
    }
}

impl MakeController for ExpressionController {
    fn make(&self, setup: ControllerSetup<'_>) -> Box<dyn Controller> {
        let initial_window = setup.endpoint.initial_window;
        Box::new(State {
            compiled: Arc::clone(&self.0),
            cwnd: initial_window,
            ssthresh: if self.0.texts.slow_start { f64::INFINITY } else { 0.0 },
            initial_window,
            lost_at: Time::ZERO,
            loss_cwnd: initial_window,
            delivery_rate: 0.0,
            pacing_rate: None,
        })
    }
    fn paces(&self) -> bool {
        self.0.pacing_rate.is_some()
    }
    fn samples_rate(&self) -> bool {
        self.0.samples
    }
    fn as_expressions(&self) -> Option<&ExpressionController> {
        Some(self)
    }
}

/// The window of one connection.
#[derive(Debug)]
struct State {
    compiled: Arc<Compiled>,
    cwnd: f64,
    /// Zero without slow start.
    ssthresh: f64,
    initial_window: f64,
    lost_at: Time,
    loss_cwnd: f64,
    delivery_rate: f64,
    pacing_rate: Option<f64>,
}

/// Values of the variables at an event.
#[derive(Clone, Copy)]
struct Inputs<'a> {
    state: &'a State,
    path: &'a Path,
    growth: f64,
    delivered: f64,
    lost: f64,
    marked: bool,
    probability: f64,
}

impl<'a> Inputs<'a> {
    fn new(state: &'a State, path: &'a Path) -> Self {
        let (growth, delivered, lost) = (0.0, 0.0, 0.0);
        Inputs { state, path, growth, delivered, lost, marked: false, probability: 1.0 }
    }

    fn value(&self, expression: &Expression<Term>) -> f64 {
        expression.evaluate(&|term| self.term(term))
    }

    fn term(&self, term: &Term) -> f64 {
        match term {
            Term::Variable(variable) => self.variable(*variable),
            // Of libm, as everywhere: the same bits on every machine.
            Term::Call(function, arguments) => match (function, &arguments[..]) {
                (Function::Sqrt, [x, ..]) => self.value(x).sqrt(),
                (Function::Cbrt, [x, ..]) => libm::cbrt(self.value(x)),
                (Function::Exp, [x, ..]) => libm::exp(self.value(x)),
                (Function::Ln, [x, ..]) => libm::log(self.value(x)),
                (Function::Pow, [x, y, ..]) => libm::pow(self.value(x), self.value(y)),
                (Function::If, [condition, yes, no, ..]) => {
                    self.value(if self.value(condition) == 0.0 { no } else { yes })
                }
                // The parser has checked the number of arguments.
                _ => f64::NAN,
            },
        }
    }

    fn variable(&self, variable: Variable) -> f64 {
        let Inputs { state, path, .. } = self;
        match variable {
            Variable::Cwnd => state.cwnd,
            Variable::Ssthresh => state.ssthresh,
            Variable::InitialWindow => state.initial_window,
            Variable::InFlight => path.in_flight,
            Variable::Growth => self.growth,
            Variable::Delivered => self.delivered,
            Variable::Lost => self.lost,
            Variable::Marked => f64::from(u8::from(self.marked)),
            Variable::Rtt => path.rtt.as_secs_f64(),
            Variable::Srtt => path.srtt.as_secs_f64(),
            Variable::MinRtt => path.min_rtt.as_secs_f64(),
            Variable::DeliveryRate => state.delivery_rate,
            Variable::Now => path.now.as_secs_f64(),
            Variable::SinceLoss => path.now.since(state.lost_at).as_secs_f64(),
            Variable::LossCwnd => state.loss_cwnd,
            Variable::Probability => self.probability,
        }
    }

    /// The value of an expression; `None` if it is not valid, which is recorded.
    fn number(
        &self,
        key: &'static str,
        expression: &Expression<Term>,
        is_valid: impl Fn(f64) -> bool,
    ) -> Option<f64> {
        let value = self.value(expression);
        if is_valid(value) {
            return Some(value);
        }
        let texts = &self.state.compiled.texts;
        let text = texts.texts().find(|(of, _)| *of == key).map_or("", |(_, text)| text);
        let (cwnd, rtt) = (self.state.cwnd, self.path.rtt);
        let wrong = match key {
            "pacing_rate" => Wrong::PacingRate(value),
            _ => Wrong::Window(value),
        };
        let what = format!("{wrong}, by {key} = {text:?} with cwnd = {cwnd} and rtt = {rtt}");
        record(Fault {
            part: self.state.compiled.name.to_owned(),
            wrong: Wrong::Answer(what),
            at: self.path.now,
            after: match key {
                "on_ack" => "an acknowledgment",
                "on_loss" => "a loss",
                "on_mark" => "a mark",
                _ => "an event",
            },
        });
        None
    }
}

impl State {
    /// The window after congestion, at least two packets.
    fn reduced(&self, path: &Path, probability: f64, marked: bool) -> f64 {
        let (key, expression) = match &self.compiled.on_mark {
            Some(on_mark) if marked => ("on_mark", on_mark),
            _ => ("on_loss", &self.compiled.on_loss),
        };
        let inputs = Inputs { probability, marked, ..Inputs::new(self, path) };
        // Below two packets it is two.
        let is_valid = |window: f64| (0.0..=LARGEST_WINDOW).contains(&window);
        inputs.number(key, expression, is_valid).unwrap_or(self.cwnd).max(2.0)
    }

    fn pace(&mut self, inputs: (&Path, f64, f64, f64, bool)) {
        let Some(expression) = &self.compiled.pacing_rate else { return };
        let (path, growth, delivered, lost, marked) = inputs;
        let inputs = Inputs { growth, delivered, lost, marked, ..Inputs::new(self, path) };
        // Zero is for no limit, and infinite is what a division by an RTT gives before the first.
        let is_none = |rate: f64| rate == 0.0 || rate == f64::INFINITY;
        let is_valid = |rate: f64| is_none(rate) || is_rate(rate);
        let rate = inputs.number("pacing_rate", expression, is_valid);
        self.pacing_rate = rate.filter(|rate| !is_none(*rate));
    }

    fn paced(&mut self, path: &Path) {
        self.pace((path, 0.0, 0.0, 0.0, false));
    }

    fn grow(&mut self, ack: &AckEvent) {
        if !ack.allows_growth() {
            return;
        }
        let mut growth = ack.growth;
        if self.cwnd < self.ssthresh {
            // RFC 5681, equation (2). Growth beyond ssthresh counts for congestion avoidance, as in
            // Reno.
            let grown = self.cwnd + growth;
            if growth <= 1.0 || grown <= self.ssthresh {
                self.cwnd = grown;
                return;
            }
            (self.cwnd, growth) = (self.ssthresh, grown - self.ssthresh);
        }
        let inputs = Inputs {
            growth,
            delivered: ack.delivered as f64,
            lost: ack.lost as f64,
            marked: ack.flags.contains(Flags::ECN_ECHO),
            ..Inputs::new(self, &ack.path)
        };
        self.cwnd = inputs.number("on_ack", &self.compiled.on_ack, is_window).unwrap_or(self.cwnd);
    }
}

impl Controller for State {
    fn cwnd(&self) -> f64 {
        self.cwnd
    }
    fn ssthresh(&self) -> f64 {
        if self.ssthresh > 0.0 { self.ssthresh } else { f64::INFINITY }
    }
    fn pacing_rate(&self) -> Option<f64> {
        self.pacing_rate
    }
    fn on_ack(&mut self, ack: &AckEvent) {
        self.grow(ack);
        let marked = ack.flags.contains(Flags::ECN_ECHO);
        self.pace((&ack.path, ack.growth, ack.delivered as f64, ack.lost as f64, marked));
    }
    fn on_congestion(&mut self, event: &CongestionEvent) {
        let reduced = self.reduced(&event.path, event.probability.get(), event.marked);
        (self.lost_at, self.loss_cwnd) = (event.path.now, self.cwnd);
        self.cwnd = reduced;
        if self.compiled.texts.slow_start {
            self.ssthresh = reduced;
        }
        self.paced(&event.path);
    }
    fn on_error_loss(&mut self, _: &Path) {}
    fn on_reset(&mut self, event: &ResetEvent) {
        if !event.repeated {
            let reduced = self.reduced(&event.path, event.probability.get(), false);
            (self.lost_at, self.loss_cwnd) = (event.path.now, self.cwnd);
            if self.compiled.texts.slow_start {
                self.ssthresh = reduced;
            }
        }
        self.cwnd = event.window_after(self.cwnd);
        self.paced(&event.path);
    }
    fn on_rate_sample(&mut self, sample: &RateSample) -> bool {
        if sample.rate > 0.0 {
            self.delivery_rate = sample.rate;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::fault;
    use super::*;
    use crate::endpoint::EndpointConfig;
    use crate::endpoint::feedback::FeedbackConfig;
    use crate::part::Plain;
    use crate::rng::Stream;
    use crate::units::Duration;

    fn state(expressions: &Expressions) -> Box<dyn Controller> {
        let endpoint = EndpointConfig { initial_window: 10.0, ..EndpointConfig::default() };
        let feedback = FeedbackConfig::None(Plain);
        let stream = Stream::new(1, "test", "test");
        let setup = ControllerSetup { feedback: &feedback, endpoint: &endpoint, stream };
        expressions.compile().unwrap().make(setup)
    }

    fn path(cwnd: f64) -> Path {
        let rtt = Duration::from_millis(50);
        Path { cwnd, in_flight: cwnd, rtt, srtt: rtt, min_rtt: rtt, ..Path::default() }
    }

    fn ack(cwnd: f64) -> AckEvent {
        let (newly_acked, delivered, growth) = (1, 1, 1.0);
        let path = path(cwnd);
        AckEvent { path, newly_acked, delivered, growth, cwnd_limited: true, ..AckEvent::default() }
    }

    #[test]
    fn a_window_by_hand() {
        let aimd = Expressions {
            on_loss: "0.7 * cwnd".to_owned(),
            on_mark: Some("0.9 * cwnd".to_owned()),
            pacing_rate: Some("if(at_least(srtt, 1), 0, 2 * cwnd / srtt)".to_owned()),
            ..Expressions::default()
        };
        let mut window = state(&aimd);
        assert_eq!(window.pacing_rate(), None, "before the first event");
        window.on_ack(&ack(10.0));
        assert_eq!(window.cwnd(), 11.0, "slow start");
        assert_eq!(window.pacing_rate(), Some(440.0)); // 2 x 11 / 0.05
        window.on_congestion(&CongestionEvent::certain(path(11.0)));
        assert!((window.cwnd() - 7.7).abs() < 1e-12); // 0.7 x 11
        assert_eq!(window.ssthresh(), window.cwnd());
        window.on_ack(&ack(7.7));
        assert!((window.cwnd() - (7.7 + 1.0 / 7.7)).abs() < 1e-12);
        let before = window.cwnd();
        let mark = CongestionEvent { marked: true, ..CongestionEvent::certain(path(before)) };
        window.on_congestion(&mark);
        assert!((window.cwnd() - 0.9 * before).abs() < 1e-12);
        window.on_reset(&ResetEvent::timeout(path(before)));
        assert_eq!(window.cwnd(), 1.0, "RFC 5681 equation (4)");
    }

    #[test]
    fn what_is_not_valid_is_recorded_once_and_changes_nothing() {
        for (on_ack, said) in [
            ("cwnd + sqrt(0 - growth)", "a window of NaN packets"),
            ("1/0", "a window of inf packets"),
            ("-5", "a window of -5 packets"),
            ("cwnd * 1e300", "a window of 1e301 packets"),
            ("0.5", "a window of 0.5 packets"),
        ] {
            let odd = Expressions {
                on_ack: on_ack.to_owned(),
                slow_start: false,
                ..Expressions::default()
            };
            let mut window = state(&odd);
            assert_eq!(fault(), None);
            window.on_ack(&ack(10.0));
            window.on_ack(&ack(10.0));
            assert_eq!(window.cwnd(), 10.0);
            let wrong = fault().unwrap().to_string();
            let all = ["law-", "on_ack = ", said, "after an acknowledgment", "simulated time"];
            assert!(all.iter().all(|word| wrong.contains(word)), "{wrong}");
            assert_eq!(fault(), None);
        }
        for (on_loss, pacing, said) in [
            ("-5", "0", "on_loss"),
            ("0", "-1", "-1 packets per second"),
            ("0", "1e-300", "1e-300"),
        ] {
            let (on_loss, pacing_rate) = (on_loss.to_owned(), Some(pacing.to_owned()));
            let mut window = state(&Expressions { on_loss, pacing_rate, ..Expressions::default() });
            window.on_congestion(&CongestionEvent::certain(path(11.0)));
            let wrong = fault().unwrap().to_string();
            assert!(wrong.contains(said), "{wrong}");
        }
    }

    #[test]
    fn errors_have_their_place() {
        let misread = |on_ack: &str| {
            let wrong = Expressions { on_ack: on_ack.to_owned(), ..Expressions::default() };
            let wrong = wrong.compile().unwrap_err();
            (wrong.misread.at, wrong.misread.message)
        };
        assert_eq!(misread("cwnd + + 1").0, 7);
        assert_eq!(misread("cwnd + pow(cwnd)").0, 7);
        assert_eq!(misread("cwnd + pow(cwnd, crwnd)").0, 17);
        assert_eq!(misread("cwnd + min(1 2)").0, 13);
        assert_eq!(misread("cwnd 2").0, 5);
        assert!(misread("cwdn + 1").1.contains("did you mean `cwnd`?"));
        assert!(misread("window + 1").1.contains("valid: cwnd, ssthresh"));
        let endless = vec!["1"; 20_000].join("+");
        assert!(misread(&endless).1.contains("more than 10000 terms"));
    }

    #[test]
    fn steps_are_in_reverse_polish_notation() {
        let law = Expressions {
            on_ack: "if(at_least(cwnd, 2), -growth * 3, sqrt(1 - rtt))".to_owned(),
            ..Expressions::default()
        };
        let steps: HashMap<_, _> = law.compile().unwrap().steps().collect();
        use Step::{Apply, Leaf, Number};
        let condition = [Leaf("cwnd"), Number(2.0), Apply("at_least", 2)];
        let yes = [Leaf("growth"), Apply("-", 1), Number(3.0), Apply("*", 2)];
        let no = [Number(1.0), Leaf("rtt"), Apply("-", 2), Apply("sqrt", 1)];
        let all = [&condition[..], &yes, &no, &[Apply("if", 3)]].concat();
        assert_eq!(steps["on_ack"], all);
        assert_eq!(steps["on_loss"], [Leaf("in_flight"), Number(2.0), Apply("/", 2)]);
        assert_eq!(steps.len(), 2);
    }

    #[test]
    fn a_rate_needs_recovery_by_number() {
        let rate = Expressions {
            on_ack: "if(1, max(cwnd, delivery_rate * min_rtt), 2)".to_owned(),
            ..Expressions::default()
        };
        let compiled = rate.compile().unwrap();
        assert!(compiled.samples_rate() && !compiled.needs().is_empty());
        assert!(Expressions::default().compile().unwrap().needs().is_empty());
    }

    #[test]
    fn the_checksum_is_that_of_ieee() {
        // `on_ack=a\non_loss=b\n` and the byte 1, by Python's zlib.crc32.
        let (on_ack, on_loss) = ("a".to_owned(), "b".to_owned());
        let texts = Expressions { on_ack, on_loss, ..Expressions::default() };
        assert_eq!(texts.checksum(), 0x30fd_d547);
    }
}
