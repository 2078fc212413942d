//! The description that a part gives of itself: names, effect, source and parameters.
//!
//! A part (a congestion controller, a recovery scheme, an AQM, ...) has this description once, in
//! its own file, as an implementation of [`Part`] beside its state machine. Scenario keys, range
//! checks, warnings, `windward explain` and the documentation iterate over it.
//!
//! The macro [`parameters!`](crate::parameters) declares the typed configuration of a part with its
//! parameters; a [`Setting`] is one of them with its value.

use std::fmt;

use crate::units::Duration;

/// A part of a protocol or of a queue.
pub trait Part {
    /// Its parameters, [`Plain`] if it has none.
    type Config: Parameters;
    /// The names of the part, each with the parameters that it stands for. The first is the usual
    /// one; never empty.
    const FORMS: &'static [Form<Self::Config>];
    /// Keys of [`crate::endpoint::EndpointConfig`] that have an effect on this part and not on
    /// every other.
    const READS: &'static [&'static str] = &[];

    /// The abilities that it cannot work without and another part must give.
    const NEEDS: &'static [Need] = &[];

    /// The abilities that it gives to the parts beside it.
    fn gives(_config: &Self::Config) -> &'static [Ability] {
        &[]
    }

    /// The form that a configuration belongs to.
    fn form(_config: &Self::Config) -> &'static Form<Self::Config> {
        &Self::FORMS[0]
    }
}

/// An ability that one part of a protocol gives and another may need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ability {
    /// Recovery reports losses and deliveries transmission by transmission, by number.
    TransmissionNumbers,
    /// Acknowledgments carry the feedback that XCP routers granted.
    XcpFeedback,
    /// Acknowledgments carry the window that XCP-r's receiver computed.
    XcpWindow,
    /// Acknowledgments carry XTCP's congestion flag.
    CongestionFlag,
    /// The receiver echoes each ECN mark.
    EachMark,
    /// Acknowledgments carry ESTCP's phase and g.
    Phase,
    /// Acknowledgments carry the time at which their data arrived.
    ArrivalTimes,
    /// Marks are the congestion warning of TCP New Jersey.
    Warning,
    /// Notices name corrupted packets.
    CorruptedPackets,
    /// The sender learns the probability that a packet survives its path.
    Survival,
    /// The sender estimates its bandwidth.
    Bandwidth,
}

impl Ability {
    /// The ability in words, as the object of "needs".
    pub const fn words(self) -> &'static str {
        match self {
            Ability::TransmissionNumbers => "news of each transmission by number",
            Ability::XcpFeedback => "the feedback of XCP routers",
            Ability::XcpWindow => "the window that the receiver computes",
            Ability::CongestionFlag => "the congestion flag of XTCP",
            Ability::EachMark => "an echo of each ECN mark",
            Ability::Phase => "ESTCP's phase and g",
            Ability::ArrivalTimes => "arrival times at the receiver",
            Ability::Warning => "the routers' congestion warning",
            Ability::CorruptedPackets => "notices of corrupted packets",
            Ability::Survival => "the survival probability of the path",
            Ability::Bandwidth => "a bandwidth estimate",
        }
    }
}

/// A need of a part: one of several abilities, and the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// Any of these will do.
    pub any_of: &'static [Ability],
    /// The consequence without it, as the end of a sentence.
    pub why: &'static str,
}

/// A name of a part with the parameters that it stands for.
#[derive(Debug, Clone, Copy)]
pub struct Form<C: 'static> {
    /// The part in words under this name.
    pub words: Words,
    /// The default parameters of the form.
    pub config: C,
}

/// A part in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Words {
    /// Short, as scenario files and tables have it.
    pub name: &'static str,
    /// Its effect, in one sentence without a capital or a full stop.
    pub what: &'static str,
    /// Its source: paper, section; RFC, section.
    pub source: &'static str,
}

/// The parameters of a part. The macro [`parameters!`](crate::parameters) implements it.
pub trait Parameters: Copy + fmt::Debug + PartialEq + 'static {
    /// The tables of scenario files in which the keys stand, each with its subject. The empty name
    /// is that of the table that names the part (`aqm = { kind = "red", .. }`).
    fn tables() -> Vec<(&'static str, &'static str)> {
        Vec::new()
    }

    /// The parameters with their values, in the order of the documentation.
    fn settings(&self) -> Vec<Setting> {
        Vec::new()
    }

    /// Sets the parameter `key` of `table`; returns true if there is one that takes such a value.
    /// [`ValueKind::check`] checks its range.
    fn set(&mut self, _table: &str, _key: &str, _value: Value) -> bool {
        false
    }

    /// Checks whether the values go together; each of them is in its own range.
    ///
    /// # Errors
    /// The contradiction, as a sentence without a capital or a full stop.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Checks every value against its range, and then [`Parameters::check`].
    ///
    /// # Errors
    /// The first value out of its range, or the contradiction.
    fn validate(&self) -> Result<(), String> {
        self.settings().iter().try_for_each(Setting::check)?;
        self.check()
    }
}

/// The configuration of a part without parameters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Plain;

impl Parameters for Plain {}

/// The description of a parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ParameterDoc {
    /// Its key in the table.
    pub key: &'static str,
    /// The values that it takes.
    pub kind: ValueKind,
    /// Its unit; empty for pure numbers, words and times.
    pub unit: &'static str,
    /// Its meaning, in one line.
    pub meaning: &'static str,
    /// The meaning of an absent value: `no limit`.
    pub absent: &'static str,
    /// The range outside of which a value is allowed but hardly intended.
    pub advice: Option<Advice>,
}

/// A bound within which a parameter should stay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Advice {
    /// The smallest number, or seconds, that is reasonable.
    pub least: f64,
    /// The largest.
    pub most: f64,
    /// The reason and the remedy, as a sentence without a capital or a full stop.
    pub why: &'static str,
}

/// The values that a parameter takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ValueKind {
    /// Yes or no.
    Bool,
    /// A number from `least` to `most`, both included.
    Number {
        /// The smallest.
        least: f64,
        /// The largest.
        most: f64,
    },
    /// A number above zero, up to `most`.
    Positive {
        /// The largest.
        most: f64,
    },
    /// A whole number from `least` to `most`.
    Integer {
        /// The smallest.
        least: u64,
        /// The largest.
        most: u64,
    },
    /// A length of time from `least` to `most`; not zero if `least` is not.
    Time {
        /// The shortest.
        least: Duration,
        /// The longest.
        most: Duration,
    },
    /// A length of time up to `most`, or `true` for `on` and `false` for none.
    Switch {
        /// The value of `true`.
        on: Duration,
        /// The longest.
        most: Duration,
    },
    /// A size in bytes up to `most`, written with its unit.
    Bytes {
        /// The largest.
        most: f64,
    },
    /// One of these words.
    Word(&'static [&'static str]),
    /// A number above zero, up to `most`, or one of these words.
    PositiveOrWord {
        /// The largest.
        most: f64,
        /// The words.
        words: &'static [&'static str],
    },
}

/// The value of a parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// Yes or no.
    Bool(bool),
    /// A number.
    Number(f64),
    /// A whole number.
    Integer(u64),
    /// A length of time.
    Time(Duration),
    /// A word.
    Word(&'static str),
    /// No value: see [`ParameterDoc::absent`].
    Absent,
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bool(value) => write!(f, "{value}"),
            Value::Number(value) if *value != 0.0 && !(1e-4..1e7).contains(&value.abs()) => {
                write!(f, "{value:e}")
            }
            Value::Number(value) => write!(f, "{value}"),
            Value::Integer(value) => write!(f, "{value}"),
            Value::Time(value) => write!(f, "{value}"),
            Value::Word(value) => write!(f, "{value}"),
            Value::Absent => write!(f, "none"),
        }
    }
}

impl ValueKind {
    /// Checks that the value is of this kind and in its range.
    ///
    /// # Errors
    /// The values that are allowed, as a sentence without a capital or a full stop.
    pub fn check(&self, value: Value) -> Result<(), String> {
        let ok = match (*self, value) {
            (_, Value::Absent) | (ValueKind::Bool, Value::Bool(_)) => true,
            (ValueKind::Number { least, most }, Value::Number(x)) => (least..=most).contains(&x),
            (
                ValueKind::Positive { most } | ValueKind::PositiveOrWord { most, .. },
                Value::Number(x),
            ) => x > 0.0 && x <= most,
            (ValueKind::Bytes { most }, Value::Number(x)) => (1.0..=most).contains(&x),
            (ValueKind::Integer { least, most }, Value::Integer(x)) => (least..=most).contains(&x),
            (ValueKind::Time { least, most }, Value::Time(x)) => (least..=most).contains(&x),
            (ValueKind::Switch { most, .. }, Value::Time(x)) => !x.is_zero() && x <= most,
            (ValueKind::Word(words) | ValueKind::PositiveOrWord { words, .. }, Value::Word(x)) => {
                words.contains(&x)
            }
            _ => false,
        };
        if ok { Ok(()) } else { Err(format!("must be {self}")) }
    }
}

/// The allowed values, as errors and tables show them.
impl fmt::Display for ValueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            ValueKind::Bool => write!(f, "true or false"),
            ValueKind::Number { least, most } => {
                write!(f, "{} to {}", Value::Number(least), Value::Number(most))
            }
            ValueKind::Positive { most } => write!(f, "above 0, up to {}", Value::Number(most)),
            ValueKind::Integer { least, most } => write!(f, "a whole number, {least} to {most}"),
            ValueKind::Bytes { .. } => write!(f, "bytes, as in 600kB"),
            ValueKind::Time { least, most } if least.is_zero() => write!(f, "0 to {}", span(most)),
            ValueKind::Time { least, most } if least == Duration::from_ps(1) => {
                write!(f, "longer than 0, up to {}", span(most))
            }
            ValueKind::Time { least, most } => write!(f, "{least} to {}", span(most)),
            ValueKind::Switch { on, most } => {
                write!(f, "true ({on}), false, or a time up to {}", span(most))
            }
            ValueKind::Word(words) => write!(f, "{}", alternatives(words)),
            ValueKind::PositiveOrWord { most, words } => {
                write!(f, "above 0, up to {}, or {}", Value::Number(most), alternatives(words))
            }
        }
    }
}

/// A time in hours if that is a whole number, else in its usual unit.
fn span(time: Duration) -> String {
    const HOUR: u64 = Duration::from_secs(3600).as_ps();
    let hours = time.as_ps() / HOUR;
    if hours > 0 && time.as_ps().is_multiple_of(HOUR) {
        format!("{hours}h")
    } else {
        time.to_string()
    }
}

/// CRC-32 of IEEE 802.3, as of zip and Python's zlib: it tells the controllers of users apart, in
/// names and reports.
pub fn checksum(definition: &[u8]) -> u32 {
    const CRC: crc::Crc<u32> = crc::Crc::<u32>::new(&crc::CRC_32_ISO_HDLC);
    CRC.checksum(definition)
}

/// `a`, `a or b`, `a, b or c`.
pub fn alternatives(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}

/// A type that a parameter can have.
pub trait ParameterValue: Sized {
    /// Converts to a value.
    fn into_value(self) -> Value;
    /// Converts from a value; `None` if it is of another kind.
    fn from_value(value: Value) -> Option<Self>;
}

macro_rules! plain_value {
    ($type:ty, $variant:ident, $into:expr, $from:expr) => {
        impl ParameterValue for $type {
            fn into_value(self) -> Value {
                let into: fn($type) -> _ = $into;
                Value::$variant(into(self))
            }
            fn from_value(value: Value) -> Option<Self> {
                match value {
                    Value::$variant(value) => {
                        let from: fn(_) -> Option<$type> = $from;
                        from(value)
                    }
                    _ => None,
                }
            }
        }
    };
}
plain_value!(bool, Bool, |x| x, Some);
plain_value!(f64, Number, |x| x, Some);
plain_value!(u64, Integer, |x| x, Some);
plain_value!(u32, Integer, u64::from, |x: u64| u32::try_from(x).ok());
plain_value!(Duration, Time, |x| x, Some);

impl<T: ParameterValue> ParameterValue for Option<T> {
    fn into_value(self) -> Value {
        self.map_or(Value::Absent, T::into_value)
    }
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Absent => Some(None),
            value => T::from_value(value).map(Some),
        }
    }
}

/// Implements [`ParameterValue`] for an enum by its words, and lists them as `WORDS`.
#[macro_export]
macro_rules! words {
    ($type:ident { $($variant:ident = $word:literal),+ $(,)? }) => {
        impl $type {
            /// Its words in scenario files.
            pub const WORDS: &'static [&'static str] = &[$($word),+];
            /// The word for it.
            pub const fn word(self) -> &'static str {
                match self { $($type::$variant => $word),+ }
            }
        }
        impl $crate::part::ParameterValue for $type {
            fn into_value(self) -> $crate::part::Value {
                $crate::part::Value::Word(self.word())
            }
            fn from_value(value: $crate::part::Value) -> Option<Self> {
                match value {
                    $($crate::part::Value::Word($word) => Some($type::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

/// Declares a configuration with its parameters: key, type, default, kind, unit and meaning.
///
/// ```
/// use windward_core::parameters;
/// use windward_core::part::{ValueKind, Parameters};
///
/// parameters! {
///     /// Parameters of Vegas.
///     pub struct VegasConfig in "vegas", "parameters of vegas";
///     /// The values of the paper.
///     pub const DEFAULT;
///     alpha: f64 = 2.0, ValueKind::Number { least: 0.0, most: 1e6 }, "packets",
///         "grow below this backlog";
///     beta: f64 = 4.0, ValueKind::Number { least: 0.0, most: 1e6 }, "packets",
///         "shrink above this backlog";
///     @check(config) {
///         if config.alpha > config.beta {
///             return Err(format!("alpha ({}) is above beta ({})", config.alpha, config.beta));
///         }
///         Ok(())
///     }
/// }
/// assert!(VegasConfig::DEFAULT.validate().is_ok());
/// assert!(VegasConfig { alpha: 5.0, beta: 4.0 }.validate().is_err());
/// assert!(VegasConfig { alpha: f64::NAN, beta: 4.0 }.validate().is_err());
/// ```
///
/// The first line names the table in which the keys stand, and its subject. The constant has the
/// defaults, as [`Default`] has. The meaning is also the documentation of the field, after the
/// comment before it. After the meaning may follow `absent = "..."`, the meaning of an absent
/// value; `when = ...`, a function of the configuration that returns whether the parameter has an
/// effect; and `advice = ...`, an [`Advice`].
///
/// A field without a kind is not a parameter. One with `=> included` after its default has
/// parameters of its own, which become those of the configuration.
///
/// For a configuration that is declared elsewhere the macro implements [`Parameters`] alone:
/// `VegasConfig in "vegas", "parameters of vegas";` and lines of `alpha: ValueKind::..`.
#[macro_export]
macro_rules! parameters {
    (
        $(#[$attribute:meta])*
        pub struct $config:ident in $table:literal, $about:literal;
        $(#[$source:meta])*
        pub const $defaults:ident;
        $(
            $(#[$comment:meta])*
            $key:ident: $type:ty = $default:expr
            $(
                , $kind:expr, $unit:literal, $meaning:expr
                $(, absent = $absent:literal)? $(, when = $when:expr)? $(, advice = $advice:expr)?
            )?
            $(=> $included:ident)?;
        )*
        $(@check($it:ident) $check:block)?
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub struct $config {
            $($(#[$comment])* $(#[doc = $meaning])? pub $key: $type,)*
        }

        impl $config {
            $(#[$source])*
            pub const $defaults: $config = $config { $($key: $default,)* };
        }

        impl Default for $config {
            fn default() -> Self {
                Self::$defaults
            }
        }

        $crate::parameters! {
            @implement $config, $table, $about,
            [$({
                $key
                $(
                    , $kind, $unit, $meaning $(, absent = $absent)? $(, when = $when)?
                    $(, advice = $advice)?
                )?
                $(=> $included $type)?
            })*]
            $(@check($it) $check)?
        }
    };
    (
        $config:ident in $table:literal, $about:literal;
        $($key:ident: $kind:expr, $unit:literal, $meaning:expr $(, absent = $absent:literal)?
            $(, when = $when:expr)?;)*
        $(@check($it:ident) $check:block)?
    ) => {
        $crate::parameters! {
            @implement $config, $table, $about,
            [$({ $key, $kind, $unit, $meaning $(, absent = $absent)? $(, when = $when)? })*]
            $(@check($it) $check)?
        }
    };
    (
        @implement $config:ident, $table:literal, $about:literal, [$({ $($line:tt)+ })*]
        $(@check($it:ident) $check:block)?
    ) => {
        impl $crate::part::Parameters for $config {
            fn tables() -> Vec<(&'static str, &'static str)> {
                [vec![($table, $about)] $(, $crate::parameters!(@tables $($line)+))*].concat()
            }
            fn settings(&self) -> Vec<$crate::part::Setting> {
                let mut all = Vec::new();
                $($crate::parameters!(@setting self, all, $table, $($line)+);)*
                all
            }
            fn set(&mut self, table: &str, key: &str, value: $crate::part::Value) -> bool {
                $($crate::parameters!(@set self, (table, key, value), $table, $($line)+)) ||*
            }
            fn check(&self) -> Result<(), String> {
                $($crate::parameters!(@check self, $($line)+);)*
                $(
                    let $it = self;
                    let checked: Result<(), String> = $check;
                    checked?;
                )?
                Ok(())
            }
        }
    };

    (@tables $key:ident => $included:ident $type:ty) => {
        <$type as $crate::part::Parameters>::tables()
    };
    (@tables $($line:tt)+) => { Vec::new() };

    (@setting $self:ident, $all:ident, $table:literal, $key:ident) => {};
    (@setting $self:ident, $all:ident, $table:literal, $key:ident => $included:ident $type:ty) => {
        $all.extend($crate::part::Parameters::settings(&$self.$key))
    };
    (
        @setting $self:ident, $all:ident, $table:literal,
        $key:ident, $kind:expr, $unit:literal, $meaning:expr
        $(, absent = $absent:literal)? $(, when = $when:expr)? $(, advice = $advice:expr)?
    ) => {
        $all.push($crate::part::Setting {
            table: $table,
            doc: $crate::part::ParameterDoc {
                key: stringify!($key),
                kind: $kind,
                unit: $unit,
                meaning: $meaning,
                absent: $crate::parameters!(@last "" $(, $absent)?),
                advice: $crate::parameters!(@last None $(, Some($advice))?),
            },
            value: $crate::part::ParameterValue::into_value($self.$key),
            applies: {
                let applies: fn(&Self) -> bool = $crate::parameters!(@last |_| true $(, $when)?);
                applies($self)
            },
        })
    };

    (@set $self:ident, $asked:tt, $table:literal, $key:ident) => { false };
    (@set $self:ident, $asked:tt, $table:literal, $key:ident => $included:ident $type:ty) => {{
        let (table, key, value) = $asked;
        $crate::part::Parameters::set(&mut $self.$key, table, key, value)
    }};
    (@set $self:ident, $asked:tt, $table:literal, $key:ident, $($rest:tt)+) => {{
        let (table, key, value) = $asked;
        table == $table && key == stringify!($key) && $crate::part::put(&mut $self.$key, value)
    }};

    (@check $self:ident, $key:ident => $included:ident $type:ty) => {
        $crate::part::Parameters::check(&$self.$key)?
    };
    (@check $self:ident, $($line:tt)+) => {};

    (@last $only:expr) => { $only };
    (@last $first:expr, $last:expr) => { $last };
}

/// Puts a value into a field, and returns whether the field takes values of that kind.
pub fn put<T: ParameterValue>(field: &mut T, value: Value) -> bool {
    match T::from_value(value) {
        Some(value) => {
            *field = value;
            true
        }
        None => false,
    }
}

/// A parameter of a composed part, without the type of its configuration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting {
    /// The table its key stands in; empty where that is the part's own.
    pub table: &'static str,
    /// Its description.
    pub doc: ParameterDoc,
    /// Its value.
    pub value: Value,
    /// Whether it has an effect beside the other values of the part.
    pub applies: bool,
}

impl Setting {
    /// Checks that the value is in its range.
    ///
    /// # Errors
    /// The key with the value, and the range.
    fn check(&self) -> Result<(), String> {
        let Setting { table, doc, value, .. } = self;
        doc.kind.check(*value).map_err(|wrong| {
            let dot = if table.is_empty() { "" } else { "." };
            format!("{table}{dot}{} = {value}: {wrong}", doc.key)
        })
    }

    /// Its value as the documentation shows it.
    pub fn default_text(&self) -> String {
        match self.value {
            Value::Absent => self.doc.absent.to_owned(),
            value => value.to_string(),
        }
    }

    /// Its meaning, unit and range, in one line.
    pub fn description(&self) -> String {
        let ParameterDoc { kind, unit, meaning, .. } = self.doc;
        let range = match kind {
            ValueKind::Bool => String::new(),
            kind => kind.to_string(),
        };
        let details = [unit, &range].into_iter().filter(|text| !text.is_empty());
        let details: Vec<&str> = details.collect();
        let colon = if details.is_empty() { "" } else { "; " };
        format!("{meaning}{colon}{}", details.join(", "))
    }
}

/// A table of scenario files with the parameters that stand in it.
#[derive(Debug, Clone, PartialEq)]
pub struct ParameterTable {
    /// Its name; empty where the keys stand with the part's name.
    pub name: &'static str,
    /// Its subject.
    pub about: &'static str,
    /// The parameters with the values of the part's first form.
    pub settings: Vec<Setting>,
}

/// The tables of a part's parameters, without repetition.
pub fn tables<P: Part>() -> Vec<ParameterTable> {
    in_tables(P::Config::tables(), &P::FORMS[0].config.settings())
}

fn in_tables(
    tables: Vec<(&'static str, &'static str)>,
    settings: &[Setting],
) -> Vec<ParameterTable> {
    let mut all: Vec<ParameterTable> = Vec::new();
    for (name, about) in tables {
        let settings: Vec<_> = settings.iter().filter(|s| s.table == name).copied().collect();
        if !settings.is_empty() && all.iter().all(|known| known.name != name) {
            all.push(ParameterTable { name, about, settings });
        }
    }
    all
}

/// A maker of a part from another crate. It lives as long as the program: a `static` will do, and
/// `Box::leak` makes one while the program runs.
pub trait CustomPart: Send + Sync {
    /// The part in words.
    fn words(&self) -> Words;
    /// The abilities that it cannot work without: see [`Part::NEEDS`].
    fn needs(&self) -> &'static [Need] {
        &[]
    }
    /// The error that the part met in the runs of this thread since the last call: a run whose part
    /// has failed is void. `None` for parts that cannot fail.
    fn failure(&self) -> Option<String> {
        None
    }
}

/// A configured part of any axis. The configuration enum of each axis implements it.
pub trait AnyPart {
    /// The part in words.
    fn words(&self) -> Words;
    /// Its parameters with their values.
    fn settings(&self) -> Vec<Setting>;
    /// Sets a parameter and returns whether the part has it. The value must have passed its check.
    fn set(&mut self, table: &str, key: &str, value: Value) -> bool;
    /// Checks every parameter.
    ///
    /// # Errors
    /// The first that is out of its range, or the contradiction between several.
    fn validate(&self) -> Result<(), String>;
    /// The keys of endpoints that have an effect on it: [`Part::READS`].
    fn reads(&self) -> &'static [&'static str];
    /// The abilities that it cannot work without.
    fn needs(&self) -> &'static [Need];
    /// The abilities that it gives to the parts beside it.
    fn gives(&self) -> &'static [Ability];
    /// The error that it met in the runs of this thread: see [`CustomPart::failure`].
    fn failure(&self) -> Option<String>;
    /// True for a part from another crate.
    fn is_custom(&self) -> bool;
}

/// A reference to the maker of a part from another crate.
pub struct Custom<M: ?Sized + 'static>(pub &'static M);

impl<M: ?Sized> Clone for Custom<M> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<M: ?Sized> Copy for Custom<M> {}
impl<M: ?Sized> PartialEq for Custom<M> {
    /// True if both refer to the same maker.
    fn eq(&self, other: &Self) -> bool {
        std::ptr::addr_eq(self.0, other.0)
    }
}
impl<M: ?Sized + CustomPart> fmt::Debug for Custom<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Custom({})", self.0.words().name)
    }
}

/// Makes an axis from a list of parts: the enum of configurations (which part, with which
/// parameters), the enum of states, and a macro that calls a method of the part that a state holds.
///
/// The line of a part puts it into both enums, where it is found by name, listed, explained and
/// configured. `=> Box` behind its type keeps a large state in a box: a copy of it in every
/// dispatch would slow down all the others. The first token is a `$`, for the macros that this one
/// writes.
macro_rules! axis {
    (
        $d:tt $each:ident $each_config:ident;
        $(#[$config_doc:meta])* config $config:ident;
        $(#[$state_doc:meta])* state $state:ident;
        @make $maker_trait:ident($setup:ty);
        $(@custom $maker:ty => $object:ty = $make_custom:expr;)?
        $($name:ident: $part:ty $(=> $holder:ident)?,)+
    ) => {
        $(#[$config_doc])*
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub enum $config {
            $(
                #[doc = concat!("See `", stringify!($part), "`.")]
                $name(<$part as $crate::part::Part>::Config),
            )+
            $(
                /// From another crate.
                Custom($crate::part::Custom<$maker>),
            )?
        }

        $(#[$state_doc])*
        #[derive(Debug)]
        #[repr(u8)] // A tag in its own place: a dispatch is a load and a jump.
        pub enum $state {
            $(
                #[doc = concat!("State of [`", stringify!($config), "::", stringify!($name), "`].")]
                $name($crate::part::axis!(@held $part $(, $holder)?)),
            )+
            $(
                /// From another crate.
                Custom($object),
            )?
        }

        impl $crate::part::AnyPart for $config {
            fn words(&self) -> $crate::part::Words {
                match self {
                    $($config::$name(config) => <$part as $crate::part::Part>::form(config).words,)+
                    $($config::Custom(custom) => {
                        <$maker as $crate::part::CustomPart>::words(custom.0)
                    })?
                }
            }
            fn settings(&self) -> Vec<$crate::part::Setting> {
                match self {
                    $($config::$name(config) => $crate::part::Parameters::settings(config),)+
                    $($config::Custom($crate::part::Custom::<$maker>(_)) => Vec::new(),)?
                }
            }
            fn set(&mut self, table: &str, key: &str, value: $crate::part::Value) -> bool {
                match self {
                    $($config::$name(config) => {
                        $crate::part::Parameters::set(config, table, key, value)
                    })+
                    $($config::Custom($crate::part::Custom::<$maker>(_)) => false,)?
                }
            }
            fn validate(&self) -> Result<(), String> {
                match self {
                    $($config::$name(config) => $crate::part::Parameters::validate(config),)+
                    $($config::Custom($crate::part::Custom::<$maker>(_)) => Ok(()),)?
                }
            }
            fn reads(&self) -> &'static [&'static str] {
                match self {
                    $($config::$name(_) => <$part as $crate::part::Part>::READS,)+
                    $($config::Custom($crate::part::Custom::<$maker>(_)) => &[],)?
                }
            }
            fn needs(&self) -> &'static [$crate::part::Need] {
                match self {
                    $($config::$name(_) => <$part as $crate::part::Part>::NEEDS,)+
                    $($config::Custom(custom) => {
                        <$maker as $crate::part::CustomPart>::needs(custom.0)
                    })?
                }
            }
            fn gives(&self) -> &'static [$crate::part::Ability] {
                match self {
                    $($config::$name(config) => <$part as $crate::part::Part>::gives(config),)+
                    $($config::Custom($crate::part::Custom::<$maker>(_)) => &[],)?
                }
            }
            fn failure(&self) -> Option<String> {
                match self {
                    $($config::$name(_) => None,)+
                    $($config::Custom(custom) => {
                        <$maker as $crate::part::CustomPart>::failure(custom.0)
                    })?
                }
            }
            fn is_custom(&self) -> bool {
                match self {
                    $($config::$name(_) => false,)+
                    $($config::Custom($crate::part::Custom::<$maker>(_)) => true,)?
                }
            }
        }

        impl $config {
            /// The state at the start.
            pub fn make(&self, setup: $setup) -> $state {
                match self {
                    $($config::$name(config) => {
                        $state::$name($($holder::new)?(<$part as $maker_trait>::new(config, setup)))
                    })+
                    $($config::Custom($crate::part::Custom::<$maker>(custom)) => {
                        $state::Custom(($make_custom)(*custom, setup))
                    })?
                }
            }
            /// Every part by its names.
            pub fn forms() -> Vec<($crate::part::Words, $config)> {
                let mut forms = Vec::new();
                $(for form in <$part as $crate::part::Part>::FORMS {
                    forms.push((form.words, $config::$name(form.config)));
                })+
                forms
            }
            /// The part of that name.
            pub fn named(name: &str) -> Option<$config> {
                Self::forms().into_iter().find(|(words, _)| words.name == name).map(|form| form.1)
            }
            /// The tables of parameters of all parts.
            pub fn tables() -> Vec<$crate::part::ParameterTable> {
                [$($crate::part::tables::<$part>()),+].concat()
            }
        }

        /// Evaluates an expression of the part's state (`each!(self, part => ..)`), or makes a call
        /// that `behaviour!` hands over.
        #[allow(unused_macros)]
        macro_rules! $each {
            (& $d self:ident.$d method:ident($d ($d argument:ident),*)) => {
                $each!($d self, part => part.$d method($d ($d argument),*))
            };
            (&mut $d self:ident.$d method:ident($d ($d argument:ident),*)) => {
                $each!($d self, part => part.$d method($d ($d argument),*))
            };
            ($d self:expr, $d part:pat => $d call:expr) => {
                match $d self {
                    $($state::$name($d part) => $d call,)+
                    $($state::Custom($d part) => {
                        let _ = std::marker::PhantomData::<$object>;
                        $d call
                    })?
                }
            };
        }
        #[allow(unused_imports)]
        use $each;

        /// Evaluates an expression of the part's type, and of its configuration.
        #[allow(unused_macros)]
        macro_rules! $each_config {
            (
                $d self:expr, $d kind:ident($d config:pat) => $d call:expr
                $d (, custom($d custom:pat) => $d other:expr)?
            ) => {
                match $d self {
                    $($config::$name($d config) => {
                        #[allow(dead_code)]
                        type $d kind = $part;
                        $d call
                    })+
                    $($d (
                        $config::Custom($crate::part::Custom::<$maker>($d custom)) => $d other,
                    )?)?
                }
            };
        }
        #[allow(unused_imports)]
        use $each_config;
    };
    (@held $part:ty) => { $part };
    (@held $part:ty, $holder:ident) => { $holder<$part> };
}
pub(crate) use axis;

/// Writes a behaviour trait and the implementations that only forward to another, so that the
/// signature of each method stands once.
///
/// `Box<T>` gets the trait, and so does each type that an `impl for Type by forward;` names. The
/// macro `forward!` is given each call, as `&self.method(arguments)` or
/// `&mut self.method(arguments)`, and expands to the expression that answers it. A default stands
/// behind the signature (`fn phase(&self) -> u8 = 0;`). An attribute of the forwarding in those
/// types may precede `fn`, `@forward(inline)`, and one of the forwarding in boxes,
/// `@boxed(inline(never))`.
macro_rules! behaviour {
    (
        $(#[$doc:meta])*
        pub trait $behaviour:ident: $bound:ident $(+ $more:ident)* { $($methods:tt)+ }
        $($forwards:tt)*
    ) => {
        $crate::part::behaviour!(
            @all [$(#[$doc])*] $behaviour [$bound $(+ $more)*] { $($methods)+ } $($forwards)*
        );
    };
    (
        @all $doc:tt $behaviour:ident $bounds:tt $methods:tt
        $(impl for $type:ty, by $forward:ident;)*
    ) => {
        $crate::part::behaviour!(@trait $doc $behaviour $bounds $methods);
        $crate::part::behaviour!(@boxed $behaviour $methods);
        $($crate::part::behaviour!(@forward $behaviour [$type] $forward $methods);)*
    };
    (
        @trait [$($doc:tt)*] $behaviour:ident [$($bounds:tt)+] {
            $(
                $(#[$method_doc:meta])* $(@forward($hint:meta))? $(@boxed($box_hint:meta))?
                fn $method:ident $arguments:tt $(-> $answer:ty)? $(= $default:expr)?;
            )+
        }
    ) => {
        $($doc)*
        #[allow(unused_variables)] // Of methods that do nothing by default.
        pub trait $behaviour: $($bounds)+ {
            $($crate::part::behaviour!(
                @method [$(#[$method_doc])*] [$method $arguments $(-> $answer)?] $($default)?
            );)+
        }
    };
    (@method [$($doc:tt)*] [$($signature:tt)+]) => {
        $($doc)* fn $($signature)+;
    };
    (@method [$($doc:tt)*] [$($signature:tt)+] $default:expr) => {
        $($doc)* fn $($signature)+ { $default }
    };
    (
        @boxed $behaviour:ident {
            $(
                $(#[$method_doc:meta])* $(@forward($hint:meta))? $(@boxed($box_hint:meta))?
                fn $method:ident $arguments:tt $(-> $answer:ty)? $(= $default:expr)?;
            )+
        }
    ) => {
        impl<T: $behaviour + ?Sized> $behaviour for Box<T> {
            $(
                $(#[$box_hint])?
                fn $method $arguments $(-> $answer)? {
                    $crate::part::behaviour!(@call $method $arguments)
                }
            )+
        }
    };
    (
        @forward $behaviour:ident [$type:ty] $forward:ident {
            $(
                $(#[$method_doc:meta])* $(@forward($hint:meta))? $(@boxed($box_hint:meta))?
                fn $method:ident $arguments:tt $(-> $answer:ty)? $(= $default:expr)?;
            )+
        }
    ) => {
        impl $behaviour for $type {
            $(
                $(#[$hint])?
                fn $method $arguments $(-> $answer)? {
                    $crate::part::behaviour!(@call $forward $method $arguments)
                }
            )+
        }
    };
    (@call $method:ident (&mut $self:ident $(, $argument:ident: $type:ty)* $(,)?)) => {
        (**$self).$method($($argument),*)
    };
    (@call $method:ident (&$self:ident $(, $argument:ident: $type:ty)* $(,)?)) => {
        (**$self).$method($($argument),*)
    };
    (
        @call $forward:ident $method:ident
        (&mut $self:ident $(, $argument:ident: $type:ty)* $(,)?)
    ) => {
        $forward!(&mut $self.$method($($argument),*))
    };
    (@call $forward:ident $method:ident (&$self:ident $(, $argument:ident: $type:ty)* $(,)?)) => {
        $forward!(&$self.$method($($argument),*))
    };
}
pub(crate) use behaviour;

#[cfg(test)]
#[allow(unreachable_pub, dead_code)] // A list makes what a test does not use.
mod tests {
    use std::fmt::Debug;

    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq)]
    pub enum Mode {
        Fast,
        Slow,
    }
    words!(Mode { Fast = "fast", Slow = "slow" });

    parameters! {
        /// Parameters of a test.
        pub struct Config in "test", "parameters of a test";
        /// Good ones.
        pub const GOOD;
        gain: f64 = 1.0, ValueKind::Positive { most: 2.0 }, "", "a factor",
            advice = Advice { least: 0.1, most: 1.0, why: "it oscillates" };
        limit: Option<u32> = None, ValueKind::Integer { least: 1, most: 10 }, "packets", "a bound",
            absent = "no limit";
        mode: Mode = Mode::Fast, ValueKind::Word(Mode::WORDS), "", "a choice";
        pause: Duration = Duration::from_millis(1),
            ValueKind::Time { least: Duration::from_ps(1), most: Duration::from_secs(1) }, "",
            "a wait";
        @check(config) {
            if config.mode == Mode::Slow && config.limit.is_some() {
                return Err("slow knows no limit".to_owned());
            }
            Ok(())
        }
    }
    const GOOD: Config = Config::GOOD;

    #[derive(Debug)]
    pub struct Counter(f64);
    #[derive(Debug)]
    pub struct Idler;
    behaviour! {
        /// Something that says a number.
        pub trait Speaks: Debug {
            /// The number.
            @forward(inline) @boxed(inline(never))
            fn say(&self) -> f64;
            /// Hears of a number.
            fn hear(&mut self, number: f64) -> bool = false;
        }
        impl for States, by each;
    }
    impl Speaks for Counter {
        fn say(&self) -> f64 {
            self.0
        }
        fn hear(&mut self, number: f64) -> bool {
            self.0 = number;
            true
        }
    }
    impl Speaks for Idler {
        fn say(&self) -> f64 {
            0.0
        }
    }
    pub trait Maker: CustomPart {
        fn make(&self) -> Box<dyn Speaks>;
    }
    trait Made: Part {
        fn new(config: &Self::Config, setup: f64) -> Self;
    }
    impl Made for Counter {
        fn new(_: &Config, start: f64) -> Self {
            Counter(start)
        }
    }
    impl Made for Idler {
        fn new(_: &Plain, _: f64) -> Self {
            Idler
        }
    }
    const fn words(name: &'static str) -> Words {
        Words { name, what: "", source: "" }
    }
    impl Part for Counter {
        type Config = Config;
        const FORMS: &'static [Form<Config>] = &[
            Form { words: words("counter"), config: GOOD },
            Form { words: words("slow-counter"), config: Config { mode: Mode::Slow, ..GOOD } },
        ];
        fn form(config: &Config) -> &'static Form<Config> {
            &Self::FORMS[usize::from(config.mode == Mode::Slow)]
        }
    }
    impl Part for Idler {
        type Config = Plain;
        const FORMS: &'static [Form<Plain>] = &[Form { words: words("idler"), config: Plain }];
        const READS: &'static [&'static str] = &["rwnd"];
    }
    axis! {
        $ each each_config;
        /// Test parts.
        config Kinds;
        /// Their states.
        state States;
        @make Made(f64);
        @custom dyn Maker => Box<dyn Speaks> = |maker: &dyn Maker, _: f64| maker.make();
        Counter: Counter,
        Idler: Idler => Box,
    }
    struct Outside;
    impl CustomPart for Outside {
        fn words(&self) -> Words {
            words("outside")
        }
    }
    impl Maker for Outside {
        fn make(&self) -> Box<dyn Speaks> {
            Box::new(Counter(3.0))
        }
    }

    #[test]
    fn a_list_makes_an_axis() {
        let names: Vec<_> = Kinds::forms().iter().map(|(words, _)| words.name).collect();
        assert_eq!(names, ["counter", "slow-counter", "idler"]);
        let mut slow = Kinds::named("slow-counter").unwrap();
        assert_eq!(slow.words().name, "slow-counter");
        assert!(slow.set("test", "gain", Value::Number(2.0)));
        assert_eq!(slow.settings()[0].value, Value::Number(2.0));
        assert!(slow.set("test", "mode", Value::Word("fast")));
        assert_eq!(slow.words().name, "counter", "the name follows the parameters");
        assert_eq!(Kinds::named("idler").unwrap().reads(), ["rwnd"]);
        assert_eq!(Kinds::named("nobody"), None);
        let tables: Vec<_> = Kinds::tables().iter().map(|table| table.name).collect();
        assert_eq!(tables, ["test"], "the idler has no parameters");

        let parameters = |kind: &Kinds| each_config!(kind, P(_) => P::FORMS[0].config.settings().len(), custom(_) => 99);
        assert_eq!(parameters(&slow), 4);
        static OUTSIDE: Outside = Outside;
        let custom = Kinds::Custom(Custom(&OUTSIDE));
        assert_eq!((custom.words().name, custom), ("outside", custom));
        let say = |state: &States| each!(state, part => part.say());
        assert_eq!(say(&slow.make(1.5)), 1.5);
        assert_eq!(say(&Kinds::Idler(Plain).make(1.5)), 0.0);
        assert_eq!(say(&custom.make(1.5)), 3.0);

        let mut counter = slow.make(1.5);
        assert!(counter.hear(2.5) && !Kinds::Idler(Plain).make(1.5).hear(2.5));
        assert_eq!(counter.say(), 2.5, "forwarded");
        let mut boxed: Box<dyn Speaks> = Box::new(Box::new(Counter(1.0)));
        assert!(boxed.hear(4.0));
        assert_eq!(boxed.say(), 4.0, "through both boxes");
    }

    #[test]
    fn values_are_read_and_written_by_key() {
        let mut config = GOOD;
        assert!(config.set("test", "limit", Value::Integer(7)));
        assert!(config.set("test", "mode", Value::Word("slow")));
        assert_eq!((config.limit, config.mode), (Some(7), Mode::Slow));
        assert!(!config.set("test", "limits", Value::Integer(7)), "no such key");
        assert!(!config.set("", "limit", Value::Integer(7)), "another table");
        assert!(!config.set("test", "gain", Value::Bool(true)), "another kind");
        let values: Vec<_> = config.settings().iter().map(|s| s.value.to_string()).collect();
        assert_eq!(values, ["1", "7", "slow", "1ms"]);
        assert_eq!(GOOD.settings()[1].value.to_string(), "none");
        assert_eq!(GOOD.settings()[1].doc.absent, "no limit");
        assert_eq!(GOOD.settings()[0].doc.advice.map(|a| a.most), Some(1.0));
    }

    #[test]
    fn every_range_is_checked() {
        assert_eq!(GOOD.validate(), Ok(()));
        let wrong = |config: Config| config.validate().unwrap_err();
        assert_eq!(wrong(Config { gain: 0.0, ..GOOD }), "test.gain = 0: must be above 0, up to 2");
        assert!(wrong(Config { gain: f64::NAN, ..GOOD }).starts_with("test.gain = NaN"));
        assert_eq!(
            wrong(Config { limit: Some(11), ..GOOD }),
            "test.limit = 11: must be a whole number, 1 to 10"
        );
        assert_eq!(
            wrong(Config { pause: Duration::ZERO, ..GOOD }),
            "test.pause = 0s: must be longer than 0, up to 1s"
        );
        let both = Config { mode: Mode::Slow, limit: Some(1), ..GOOD };
        assert_eq!(wrong(both), "slow knows no limit");
    }

    #[test]
    fn kinds_say_what_they_take() {
        assert_eq!(ValueKind::Word(Mode::WORDS).to_string(), "fast or slow");
        assert_eq!(ValueKind::Number { least: 0.0, most: 1e6 }.to_string(), "0 to 1000000");
        assert_eq!(alternatives(&["a", "b", "c"]), "a, b or c");
    }
}
