//! Metrics: the quantities that a run measures, each described once.
//!
//! A [`Metric`] has a name, a unit, a meaning, the kinds of flows that have it and the rule by
//! which groups of flows sum it up. JSON, CSV, Parquet, Arrow, the quantities of expressions and
//! the tables in docs/outputs.md and docs/experiments.md all follow from the lists of metrics in
//! `outcome.rs`. To add one: a line there, and the place in the engine that measures it.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use windward_core::units::{Duration, Time};

use crate::scenario::{Pattern, Traffic};
use crate::table::{Cell, Column, Kind};

/// One measured quantity of rows of type `T`, read from a row and its whole, of type `C`.
#[derive(Debug)]
pub struct Metric<T, C> {
    /// Its key in JSON and its column in tables; ends in its [`Unit`].
    pub name: &'static str,
    /// The object within the JSON object of its row that contains it, and its key there.
    pub(crate) object: Option<(&'static str, &'static str)>,
    /// The unit of its values.
    pub unit: Unit,
    /// Its description, as the documentation of a field has it.
    meaning: &'static str,
    /// The kinds of flows that have it; it is absent from the rows of others.
    pub of: Kinds,
    /// The rule by which groups of flows, and rows of many transfers, sum it up; `None` if they do
    /// not.
    pub groups: Option<Rule>,
    /// Its name in expressions, and the rule by which a group has one number there.
    pub quantity: Option<(&'static str, Rule)>,
    /// True if a sweep writes it for each flow of each run.
    pub in_flow_rows: bool,
    /// Its place among the columns that a row of a sweep has for each group or link; `None` without
    /// one.
    pub in_run_rows: Option<u8>,
    /// True if only the library has it, and no file.
    pub internal: bool,
    /// The kind of its cells.
    pub kind: Kind,
    /// True if it is absent from some rows.
    pub optional: bool,
    /// True if every row has a value, finite or not.
    always: bool,
    read: Read<T, C>,
}

/// Reads a value from a row.
type Read<T, C> = for<'a> fn(&'a T, &'a C) -> Cell<'a>;

/// The unit of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A text.
    Text,
    /// A number of packets, flows, events or similar things.
    Count,
    /// Packets.
    Packets,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
    /// Bits per second.
    BitsPerSecond,
    /// A number without dimension or bound.
    Number,
    /// A ratio, mostly from 0 to 1; an estimate of a share can exceed 1.
    Ratio,
    /// A part of a whole, or an index, from 0 to 1.
    Share,
}

impl Unit {
    /// The unit as tables in the documentation show it.
    pub fn symbol(self) -> &'static str {
        match self {
            Unit::Text | Unit::Number => "",
            Unit::Count => "count",
            Unit::Packets => "packets",
            Unit::Bytes => "bytes",
            Unit::Seconds => "s",
            Unit::BitsPerSecond => "bit/s",
            Unit::Ratio => "ratio",
            Unit::Share => "0 to 1",
        }
    }
}

/// A set of kinds of flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kinds(u8);

impl Kinds {
    /// Connections of Windward's own endpoints.
    pub const TRANSPORT: Kinds = Kinds(1);
    /// Connections of QUIC stacks.
    pub const STACK: Kinds = Kinds(2);
    /// Datagrams that follow a pattern, and packets of outside programs.
    pub const DATAGRAMS: Kinds = Kinds(4);
    /// Media streams.
    pub const MEDIA: Kinds = Kinds(8);
    /// Connections between hosts, measured at their ends (`windward perf`).
    pub const REMOTE: Kinds = Kinds(16);
    /// Connections of any kind.
    pub const CONNECTIONS: Kinds = Kinds::TRANSPORT.and(Kinds::STACK).and(Kinds::REMOTE);
    /// Datagrams of any kind.
    pub const ANY_DATAGRAMS: Kinds = Kinds::DATAGRAMS.and(Kinds::MEDIA);
    /// Everything that runs in a simulated network.
    pub const SIMULATED: Kinds = Kinds::TRANSPORT.and(Kinds::STACK).and(Kinds::ANY_DATAGRAMS);
    /// Every kind.
    pub const ALL: Kinds = Kinds::SIMULATED.and(Kinds::REMOTE);

    /// The union of both sets.
    #[must_use]
    pub const fn and(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }

    /// True if each kind of `other` is in the set.
    pub const fn has(self, other: Kinds) -> bool {
        self.0 & other.0 == other.0
    }

    /// The kind of a flow with this traffic.
    pub fn of(traffic: &Traffic) -> Kinds {
        match traffic {
            Traffic::Transport { .. } => Kinds::TRANSPORT,
            Traffic::Stack { .. } => Kinds::STACK,
            Traffic::Datagrams { pattern: Pattern::Media(_), .. } => Kinds::MEDIA,
            Traffic::Datagrams { .. } => Kinds::DATAGRAMS,
        }
    }
}

/// Writes the simulated kinds in words; nothing for all of them.
impl fmt::Display for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connections = match (self.has(Kinds::TRANSPORT), self.has(Kinds::STACK)) {
            (true, true) => "connections",
            (true, false) => "connections, but not of QUIC stacks",
            (false, true) => "connections of QUIC stacks",
            (false, false) => "",
        };
        let datagrams = match (self.has(Kinds::DATAGRAMS), self.has(Kinds::MEDIA)) {
            (true, _) => "datagrams",
            (false, true) => "media",
            (false, false) => "",
        };
        match (connections, datagrams) {
            ("connections", "datagrams") => Ok(()),
            (one, "") | ("", one) => f.write_str(one),
            (one, other) => write!(f, "{one}, {other}"),
        }
    }
}

/// The rule by which the values of several flows become one. Flows without the metric are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Their sum.
    Sum,
    /// Their mean.
    Mean,
    /// The mean of those that are not zero; zero if all are.
    MeanOfMeasured,
    /// Their maximum.
    Greatest,
}

impl Rule {
    /// The rule as the documentation states it, before "over the flows".
    pub fn words(self) -> &'static str {
        match self {
            Rule::Sum => "sum",
            Rule::Mean => "mean",
            Rule::MeanOfMeasured => "mean of those that measured it",
            Rule::Greatest => "greatest",
        }
    }

    /// True if the rule can be applied to the results for parts of a group.
    pub(crate) fn adds_up(self) -> bool {
        matches!(self, Rule::Sum | Rule::Greatest)
    }

    /// Combines the numbers of several flows into one; NaN without numbers.
    pub fn combine(self, values: impl Iterator<Item = f64>) -> f64 {
        let mut sum = None;
        let count = values.map(|value| u32::from(Some(value).add_to(&mut sum, self))).sum();
        sum.finish(self, count);
        sum.unwrap_or(f64::NAN)
    }
}

impl<T, C> Metric<T, C> {
    const fn new(name: &'static str, unit: Unit) -> Self {
        Metric {
            name,
            object: None,
            unit,
            meaning: "",
            of: Kinds::SIMULATED,
            groups: None,
            quantity: None,
            in_flow_rows: false,
            in_run_rows: None,
            internal: false,
            kind: Kind::Real,
            optional: true,
            always: false,
            read: |_, _| Cell::Empty,
        }
    }

    /// Sets the kinds of flows that have it.
    #[must_use]
    pub const fn of(self, of: Kinds) -> Self {
        Metric { of, ..self }
    }

    /// Sets the rule by which groups of flows have it.
    #[must_use]
    pub const fn groups(self, rule: Rule) -> Self {
        Metric { groups: Some(rule), ..self }
    }

    /// Sets its name in expressions, and the rule by which a group has one number.
    #[must_use]
    pub const fn quantity(self, name: &'static str, rule: Rule) -> Self {
        Metric { quantity: Some((name, rule)), ..self }
    }

    /// Makes a sweep write it for each flow of each run.
    #[must_use]
    pub const fn in_flow_rows(self) -> Self {
        Metric { in_flow_rows: true, ..self }
    }

    /// Sets its place among the columns of each group or link in the rows of a sweep.
    #[must_use]
    pub const fn in_run_rows(self, place: u8) -> Self {
        Metric { in_run_rows: Some(place), ..self }
    }

    /// Keeps it out of files: only the library has it.
    #[must_use]
    pub const fn internal(self) -> Self {
        Metric { internal: true, ..self }
    }

    /// Sets its name in expressions, for one number of a link or of the run.
    #[must_use]
    pub const fn called(self, name: &'static str) -> Self {
        self.quantity(name, Rule::Sum)
    }

    /// Sets its description.
    #[must_use]
    pub const fn means(self, meaning: &'static str) -> Self {
        Metric { meaning, ..self }
    }

    /// Puts it into an object within its row; its name is `OBJECT.KEY`.
    pub(crate) fn nested(self) -> Self {
        Metric { object: self.name.split_once('.'), ..self }
    }

    /// Declares that every row has a value, which need not be finite.
    #[must_use]
    pub const fn always(self) -> Self {
        Metric { always: true, ..self }
    }

    /// Declares that it is absent from some rows.
    #[must_use]
    pub const fn sometimes(self) -> Self {
        Metric { optional: true, ..self }
    }

    /// Sets how it is read: `read` returns cells of this kind.
    #[must_use]
    pub const fn reads(self, kind: Kind, read: Read<T, C>) -> Self {
        // Columns of real numbers may be empty, since 0/0 has no value.
        Metric { kind, optional: matches!(kind, Kind::Real), read, ..self }
    }

    /// Sets how it is read: `read` returns texts.
    #[must_use]
    pub const fn words(self, read: Read<T, C>) -> Self {
        self.reads(Kind::Text, read)
    }

    /// Sets how it is read: `read` returns real numbers.
    #[must_use]
    pub const fn real(self, read: Read<T, C>) -> Self {
        self.reads(Kind::Real, read)
    }

    /// Sets how it is read: `read` returns whole numbers.
    #[must_use]
    pub const fn whole(self, read: Read<T, C>) -> Self {
        self.reads(Kind::Count, read)
    }

    /// Its column in a table.
    pub fn column(&self) -> Column<'static> {
        Column { name: self.name, kind: self.kind, optional: self.optional && !self.always }
    }

    /// Its value in a row of `of`; [`Cell::Empty`] if the row does not have it.
    pub fn of_row<'a>(&self, row: &'a T, of: &'a C) -> Cell<'a> {
        (self.read)(row, of)
    }

    /// Its description: a noun phrase, without a full stop at the end.
    pub fn meaning(&self) -> String {
        let words: Vec<&str> = self.meaning.split_whitespace().collect();
        let mut text = words.join(" ");
        if text.ends_with('.') {
            text.pop();
        }
        text
    }
}

/// A metric whose values are of a type of the engine.
pub(crate) fn measured_by<T, C, M: Measured>(
    about: Metric<T, C>,
    read: Read<T, C>,
) -> Metric<T, C> {
    let metric = about.reads(M::KIND, read);
    if M::OPTIONAL { metric.sometimes() } else { metric }
}

macro_rules! of_units {
    ($($(#[$doc:meta])+ $name:ident: $unit:ident;)+) => {
        $($(#[$doc])+
        pub const fn $name<T, C>(name: &'static str) -> Metric<T, C> {
            Metric::new(name, Unit::$unit)
        })+
    };
}
of_units! {
    /// A text.
    text: Text;
    /// A number of things.
    count: Count;
    /// Packets.
    packets: Packets;
    /// Bytes.
    bytes: Bytes;
    /// Seconds.
    seconds: Seconds;
    /// Bits per second.
    rate: BitsPerSecond;
    /// A number without dimension or bound.
    number: Number;
    /// A ratio, mostly from 0 to 1.
    ratio: Ratio;
    /// A share from 0 to 1.
    share: Share;
}

/// The type of a measured value.
pub(crate) trait Measured: Copy {
    const KIND: Kind;
    const OPTIONAL: bool = false;
    /// Initial value of a sum over flows that have it.
    const NOTHING: Self;
    /// Its form in files between processes: times as picoseconds.
    type Kept: Serialize + for<'de> Deserialize<'de>;

    fn cell(self) -> Cell<'static>;
    fn kept(self) -> Self::Kept;
    fn of_kept(kept: Self::Kept) -> Self;

    /// Adds it to a sum by a rule. Returns true if it counts.
    fn add_to(self, _sum: &mut Self, _rule: Rule) -> bool {
        false
    }

    /// Turns a sum of `count` values that count into the result of the rule.
    fn finish(&mut self, _rule: Rule, _count: u32) {}
}

impl Measured for u64 {
    const KIND: Kind = Kind::Count;
    const NOTHING: Self = 0;
    type Kept = u64;

    fn cell(self) -> Cell<'static> {
        Cell::Count(self)
    }

    fn kept(self) -> u64 {
        self
    }

    fn of_kept(kept: u64) -> Self {
        kept
    }

    fn add_to(self, sum: &mut Self, rule: Rule) -> bool {
        *sum = if rule == Rule::Greatest { self.max(*sum) } else { *sum + self };
        true
    }
}

impl Measured for f64 {
    const KIND: Kind = Kind::Real;
    const NOTHING: Self = 0.0;
    type Kept = f64;

    fn cell(self) -> Cell<'static> {
        Cell::Real(self)
    }

    fn kept(self) -> f64 {
        self
    }

    fn of_kept(kept: f64) -> Self {
        kept
    }

    fn add_to(self, sum: &mut Self, rule: Rule) -> bool {
        *sum = if rule == Rule::Greatest { self.max(*sum) } else { *sum + self };
        rule != Rule::MeanOfMeasured || self != 0.0
    }

    fn finish(&mut self, rule: Rule, count: u32) {
        if matches!(rule, Rule::Mean | Rule::MeanOfMeasured) {
            *self /= f64::from(count.max(1));
        }
    }
}

impl Measured for Time {
    const KIND: Kind = Kind::Real;
    const NOTHING: Self = Time::ZERO;
    type Kept = u64;

    fn cell(self) -> Cell<'static> {
        Cell::Real(self.as_secs_f64())
    }

    fn kept(self) -> u64 {
        self.as_ps()
    }

    fn of_kept(kept: u64) -> Self {
        Time::from_ps(kept)
    }
}

impl Measured for Duration {
    const KIND: Kind = Kind::Real;
    const NOTHING: Self = Duration::ZERO;
    type Kept = u64;

    fn cell(self) -> Cell<'static> {
        Cell::Real(self.as_secs_f64())
    }

    fn kept(self) -> u64 {
        self.as_ps()
    }

    fn of_kept(kept: u64) -> Self {
        Duration::from_ps(kept)
    }

    fn add_to(self, sum: &mut Self, rule: Rule) -> bool {
        *sum = if rule == Rule::Greatest { self.max(*sum) } else { *sum + self };
        rule != Rule::MeanOfMeasured || !self.is_zero()
    }

    fn finish(&mut self, rule: Rule, count: u32) {
        if matches!(rule, Rule::Mean | Rule::MeanOfMeasured) {
            *self = Duration::from_ps(self.as_ps() / u64::from(count.max(1)));
        }
    }
}

impl<M: Measured + Default> Measured for Option<M> {
    const KIND: Kind = M::KIND;
    const OPTIONAL: bool = true;
    const NOTHING: Self = Some(M::NOTHING);
    type Kept = Option<M::Kept>;

    fn cell(self) -> Cell<'static> {
        self.map_or(Cell::Empty, M::cell)
    }

    fn kept(self) -> Self::Kept {
        self.map(M::kept)
    }

    fn of_kept(kept: Self::Kept) -> Self {
        kept.map(M::of_kept)
    }

    fn add_to(self, sum: &mut Self, rule: Rule) -> bool {
        self.is_some_and(|value| value.add_to(sum.get_or_insert_default(), rule))
    }

    fn finish(&mut self, rule: Rule, count: u32) {
        if let Some(sum) = self {
            sum.finish(rule, count);
        }
    }
}

/// For `#[serde(with)]`: values as [`Measured::Kept`].
pub(crate) mod kept {
    use super::{Deserialize, Deserializer, Measured, Serialize, Serializer};

    pub(crate) fn serialize<M: Measured, S: Serializer>(
        value: &M,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        value.kept().serialize(to)
    }

    pub(crate) fn deserialize<'de, M: Measured, D: Deserializer<'de>>(
        from: D,
    ) -> Result<M, D::Error> {
        Ok(M::of_kept(M::Kept::deserialize(from)?))
    }
}

/// A row that may have the metrics of `M`.
pub(crate) trait Has<M>: 'static {
    /// Those metrics, if the row has them.
    fn part(&self) -> Option<&M>;
}

impl<T: 'static> Has<T> for T {
    fn part(&self) -> Option<&T> {
        Some(self)
    }
}

/// Declares a struct of measured values, and the list of their metrics. The description of a metric
/// is the documentation of its field. Values that are `summed` can also be added up by their rules.
macro_rules! measured {
    (
        $(#[$attr:meta])*
        pub summed struct $name:ident { $($fields:tt)+ }
    ) => {
        $crate::metric::measured! { $(#[$attr])* pub struct $name { $($fields)+ } }
        $crate::metric::measured! { @sum $name: $($fields)+ }
    };
    (
        $(#[$attr:meta])*
        pub struct $name:ident {
            $($(#[doc = $meaning:literal])+ $field:ident: $type:ty = $about:expr;)+
            $(beside $($(#[$plain_attr:meta])* $plain:ident: $plain_type:ty,)+)?
        }
    ) => {
        $(#[$attr])*
        pub struct $name {
            $($($(#[$plain_attr])* pub $plain: $plain_type,)+)?
            $(
                $(#[doc = $meaning])+
                #[serde(with = "crate::metric::kept")]
                pub $field: $type,
            )+
        }

        impl $name {
            /// Its metrics, for rows that have them.
            pub(crate) fn metrics<T, C>() -> Vec<$crate::metric::Metric<T, C>>
            where
                T: $crate::metric::Has<$name>,
            {
                use $crate::metric::Measured;
                vec![$(
                    $crate::metric::measured_by::<T, C, $type>(
                        $about.means(concat!($($meaning, " "),+)),
                        |row, _| match $crate::metric::Has::<$name>::part(row) {
                            Some(own) => own.$field.cell(),
                            None => $crate::table::Cell::Empty,
                        },
                    )
                ),+]
            }
        }
    };
    (@sum $name:ident: $($(#[doc = $meaning:literal])+ $field:ident: $type:ty = $about:expr;)+) => {
        impl $name {
            /// Adds the metrics of another whose rule `is_wanted`. Counts the values that were
            /// added.
            pub(crate) fn add(
                &mut self,
                other: &Self,
                counts: &mut $crate::metric::Counts,
                is_wanted: impl Fn($crate::metric::Rule) -> bool,
            ) {
                use $crate::metric::{Measured, Metric};
                counts.resize([$(stringify!($field)),+].len(), 0);
                let mut counts = counts.iter_mut();
                $(if let (Some(count), Some(rule)) = (counts.next(), const { let about: Metric<Self, $crate::Outcome> = $about; about.groups })
                    && is_wanted(rule)
                {
                    *count += u32::from(other.$field.add_to(&mut self.$field, rule));
                })+
            }

            /// The metrics of a flow of this kind before anything is added: sums are zero, and all
            /// else is absent.
            pub(crate) fn nothing_yet(kind: $crate::metric::Kinds) -> Self {
                use $crate::metric::{Measured, Metric, Rule};
                let mut nothing = Self::default();
                $({
                    let about = const { let about: Metric<Self, $crate::Outcome> = $about; (about.of, about.groups) };
                    if about.0.has(kind) && about.1.is_some_and(Rule::adds_up) {
                        nothing.$field = <$type as Measured>::NOTHING;
                    }
                })+
                nothing
            }

            /// Turns sums into the results of the rules.
            pub(crate) fn finish(&mut self, counts: &$crate::metric::Counts) {
                use $crate::metric::{Measured, Metric};
                let mut counts = counts.iter();
                $(if let (Some(count), Some(rule)) = (counts.next(), const { let about: Metric<Self, $crate::Outcome> = $about; about.groups }) {
                    self.$field.finish(rule, *count);
                })+
            }
        }
    };
}
pub(crate) use measured;

/// Number of values in the sum of each metric.
pub(crate) type Counts = Vec<u32>;

#[cfg(test)]
mod tests;
