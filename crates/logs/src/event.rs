//! Events of logs. A field of the wrong type counts as absent, and unknown fields are skipped,
//! since logs have many writers.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A number or a string with a number, which some stacks write; otherwise empty.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) enum Number {
    #[default]
    None,
    Integer(u64),
    Real(f64),
}

impl Number {
    /// As a finite real number.
    pub(super) fn real(self) -> Option<f64> {
        match self {
            Number::None => None,
            Number::Integer(number) => Some(number as f64),
            Number::Real(number) => Some(number),
        }
    }

    /// As a non-negative real number.
    pub(super) fn size(self) -> Option<f64> {
        self.real().filter(|number| *number >= 0.0)
    }

    /// As a non-negative integer.
    pub(super) fn integer(self) -> Option<u64> {
        match self {
            Number::None => None,
            Number::Integer(number) => Some(number),
            // Above 2^53, not every integer has an exact `f64`.
            Number::Real(number) => ((0.0..=9_007_199_254_740_992.0).contains(&number)
                && number.fract() == 0.0)
                .then_some(number as u64),
        }
    }

    fn of(number: f64) -> Self {
        if number.is_finite() { Number::Real(number) } else { Number::None }
    }
}

/// A string; any other value becomes an empty one.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

impl Text<'_> {
    pub(super) fn some(&self) -> Option<&str> {
        Some(self.0.as_ref()).filter(|text| !text.is_empty())
    }
}

/// An object; any other value becomes one without members.
#[derive(Debug, Clone, Default)]
pub(super) struct Object<T>(pub(super) T);

/// An array; any other value becomes an empty one.
#[derive(Debug, Clone)]
pub(super) struct List<T>(pub(super) Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        List(Vec::new())
    }
}

/// Conversion of JSON values; those of another type become the default.
trait FromAny<'de>: Default {
    fn from_str(_text: Cow<'de, str>) -> Self {
        Self::default()
    }
    fn from_u64(_number: u64) -> Self {
        Self::default()
    }
    fn from_f64(_number: f64) -> Self {
        Self::default()
    }
    fn from_seq<A: SeqAccess<'de>>(mut seq: A) -> Result<Self, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }
    fn from_map<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }
}

impl FromAny<'_> for Number {
    fn from_str(text: Cow<'_, str>) -> Self {
        let integer = text.trim().parse().map(Number::Integer);
        integer.or_else(|_| text.trim().parse().map(Number::of)).unwrap_or_default()
    }
    fn from_u64(number: u64) -> Self {
        Number::Integer(number)
    }
    fn from_f64(number: f64) -> Self {
        Number::of(number)
    }
}

impl<'de: 'a, 'a> FromAny<'de> for Text<'a> {
    fn from_str(text: Cow<'de, str>) -> Self {
        Text(text)
    }
}

impl<'de, T: Deserialize<'de> + Default> FromAny<'de> for Object<T> {
    fn from_map<A: MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

impl<'de, T: Deserialize<'de>> FromAny<'de> for List<T> {
    fn from_seq<A: SeqAccess<'de>>(mut seq: A) -> Result<Self, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = seq.next_element()? {
            list.push(element);
        }
        Ok(List(list))
    }
}

struct Lenient<T>(PhantomData<T>);

impl<'de, T: FromAny<'de>> Visitor<'de> for Lenient<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }
    fn visit_bool<E>(self, _: bool) -> Result<T, E> {
        Ok(T::default())
    }
    fn visit_u64<E>(self, number: u64) -> Result<T, E> {
        Ok(T::from_u64(number))
    }
    fn visit_i64<E>(self, number: i64) -> Result<T, E> {
        Ok(u64::try_from(number).map_or_else(|_| T::from_f64(number as f64), T::from_u64))
    }
    fn visit_f64<E>(self, number: f64) -> Result<T, E> {
        Ok(T::from_f64(number))
    }
    fn visit_str<E>(self, text: &str) -> Result<T, E> {
        Ok(T::from_str(Cow::Owned(text.to_owned())))
    }
    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<T, E> {
        Ok(T::from_str(Cow::Borrowed(text)))
    }
    fn visit_unit<E>(self) -> Result<T, E> {
        Ok(T::default())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<T, A::Error> {
        T::from_seq(seq)
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::from_map(map)
    }
}

macro_rules! lenient {
    ($([$($parameters:tt)*] $type:ty;)+) => {
        $(impl<'de $($parameters)*> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(Lenient(PhantomData))
            }
        })+
    };
}
lenient! {
    [] Number;
    [: 'a, 'a] Text<'a>;
    [, T: Deserialize<'de> + Default] Object<T>;
    [, T: Deserialize<'de>] List<T>;
}

/// An event as an object, from draft-02 on.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RawEvent<'a> {
    pub(super) time: Number,
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) category: Text<'a>,
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) time_format: Text<'a>,
    #[serde(borrow)]
    pub(super) group_id: Text<'a>,
    #[serde(borrow)]
    pub(super) data: Object<Data<'a>>,
}

/// Members of `data` in all events that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Data<'a> {
    #[serde(borrow)]
    pub(super) header: Object<Header<'a>>,
    #[serde(borrow)]
    pub(super) packet_type: Text<'a>,
    pub(super) packet_number: Number,
    pub(super) packet_size: Number,
    pub(super) raw: Object<Raw>,
    #[serde(borrow)]
    pub(super) frames: List<Object<Frame<'a>>>,
    pub(super) packet_numbers: List<Number>,
    #[serde(borrow)]
    pub(super) packet_number_space: Text<'a>,
    #[serde(borrow)]
    pub(super) trigger: Text<'a>,
    #[serde(borrow)]
    pub(super) old: Text<'a>,
    #[serde(borrow)]
    pub(super) new: Text<'a>,
    #[serde(borrow)]
    pub(super) event_type: Text<'a>,
    #[serde(borrow)]
    pub(super) timer_type: Text<'a>,
    pub(super) congestion_window: Number,
    pub(super) cwnd: Number,
    pub(super) bytes_in_flight: Number,
    pub(super) smoothed_rtt: Number,
    pub(super) latest_rtt: Number,
    pub(super) min_rtt: Number,
    pub(super) ssthresh: Number,
    pub(super) max_datagram_size: Number,
    pub(super) initial_congestion_window: Number,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Header<'a> {
    #[serde(borrow)]
    pub(super) packet_type: Text<'a>,
    pub(super) packet_number: Number,
    pub(super) packet_size: Number,
    pub(super) length: Number,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Raw {
    pub(super) length: Number,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Frame<'a> {
    #[serde(borrow)]
    pub(super) frame_type: Text<'a>,
    pub(super) acked_ranges: List<List<Number>>,
    pub(super) ce: Number,
}

/// An event, in milliseconds of the log's own clock.
#[derive(Debug, Clone, PartialEq)]
pub struct LogEvent {
    /// Time, milliseconds.
    pub time_ms: f64,
    /// Offset in the file, bytes.
    pub at: u64,
    /// Kind of event.
    pub what: What,
}

/// Content of an event, as far as it is understood.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// A packet was sent.
    Sent {
        /// Its number, if it has one.
        number: Option<u64>,
        /// True in the application's packet number space.
        is_data: bool,
        /// Bytes.
        size: Option<f64>,
    },
    /// A packet was received, or packets were acknowledged.
    Received {
        /// The inclusive ranges that it acknowledges.
        acked: Vec<(u64, u64)>,
        /// Number of marked packets that the peer has received so far.
        ce: Option<u64>,
        /// As for [`What::Sent`].
        is_data: bool,
    },
    /// A packet was declared lost.
    Lost {
        /// Its number.
        number: Option<u64>,
        /// The trigger.
        trigger: Option<String>,
    },
    /// Metrics changed to those that are not `None`.
    Metrics(Metrics),
    /// Parameters of recovery were set to those that are not `None`.
    Parameters {
        /// Bytes of a packet, as congestion control counts them.
        max_datagram_size: Option<f64>,
        /// The congestion window at the start, bytes.
        initial_cwnd: Option<f64>,
    },
    /// The state of congestion control changed.
    State {
        /// From.
        old: Option<String>,
        /// State after the change.
        new: String,
        /// The trigger.
        trigger: Option<String>,
    },
    /// A timer of loss recovery expired.
    Expired,
    /// Packets that were declared lost had arrived.
    Spurious,
    /// An event that comparisons do not use.
    Other,
}

/// Bytes and milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Metrics {
    /// The congestion window, bytes.
    pub cwnd: Option<f64>,
    /// Bytes in flight.
    pub in_flight: Option<f64>,
    /// The smoothed RTT, milliseconds.
    pub smoothed_rtt: Option<f64>,
    /// The latest RTT, milliseconds.
    pub latest_rtt: Option<f64>,
    /// The smallest RTT, milliseconds.
    pub min_rtt: Option<f64>,
    /// The slow start threshold, bytes.
    pub ssthresh: Option<f64>,
}

impl Data<'_> {
    /// The content of an event of that category and type; times are in units of `unit_ms`.
    pub(super) fn what(&self, category: &str, kind: &str, unit_ms: f64) -> What {
        let ours = ["", "quic", "transport", "recovery", "windward"];
        if !ours.iter().any(|known| known.eq_ignore_ascii_case(category)) {
            return What::Other;
        }
        let owned = |text: &Text<'_>| text.some().map(str::to_owned);
        match kind.to_ascii_lowercase().as_str() {
            "packet_sent" => self.sent(),
            "packet_received" => self.received(),
            "packets_acked" => {
                let numbers = self.packet_numbers.0.iter().filter_map(|number| number.integer());
                let acked = numbers.map(|number| (number, number)).collect();
                What::Received { acked, ce: None, is_data: self.is_data() }
            }
            "packet_lost" => What::Lost { number: self.number(), trigger: owned(&self.trigger) },
            "metrics_updated" | "recovery_metrics_updated" => What::Metrics(self.metrics(unit_ms)),
            "parameters_set" | "recovery_parameters_set" => What::Parameters {
                max_datagram_size: self.max_datagram_size.size(),
                initial_cwnd: self.initial_congestion_window.size(),
            },
            "congestion_state_updated" => match owned(&self.new) {
                Some(new) => {
                    What::State { old: owned(&self.old), new, trigger: owned(&self.trigger) }
                }
                None => What::Other,
            },
            "loss_timer_updated" | "timer_updated" => {
                let timers = ["", "ack", "pto", "loss_timeout"];
                let of_recovery = timers.contains(&self.timer_type.0.as_ref());
                match of_recovery && self.event_type.0 == "expired" {
                    true => What::Expired,
                    false => What::Other,
                }
            }
            "spurious_loss" => What::Spurious,
            _ => What::Other,
        }
    }

    fn sent(&self) -> What {
        let header = &self.header.0;
        // quinn has the size in the header as `length`.
        let sizes = [self.raw.0.length, header.packet_size, self.packet_size, header.length];
        let size = sizes.into_iter().find_map(Number::size);
        What::Sent { number: self.number(), is_data: self.is_data(), size }
    }

    fn received(&self) -> What {
        let acks = || {
            let frames = self.frames.0.iter().map(|frame| &frame.0);
            frames.filter(|frame| frame.frame_type.0.eq_ignore_ascii_case("ack"))
        };
        let ranges = acks().flat_map(|frame| &frame.acked_ranges.0);
        let acked = ranges.filter_map(|range| match range.0[..] {
            [one] => one.integer().map(|one| (one, one)),
            [first, last] => first.integer().zip(last.integer()),
            _ => None,
        });
        What::Received {
            acked: acked.filter(|(first, last)| first <= last).collect(),
            ce: acks().filter_map(|frame| frame.ce.integer()).max(),
            is_data: self.is_data(),
        }
    }

    fn metrics(&self, unit_ms: f64) -> Metrics {
        let rtt = |number: Number| number.size().map(|time| time * unit_ms);
        Metrics {
            cwnd: self.congestion_window.size().or_else(|| self.cwnd.size()),
            in_flight: self.bytes_in_flight.size(),
            smoothed_rtt: rtt(self.smoothed_rtt),
            latest_rtt: rtt(self.latest_rtt),
            min_rtt: rtt(self.min_rtt),
            ssthresh: self.ssthresh.size(),
        }
    }

    fn number(&self) -> Option<u64> {
        self.header.0.packet_number.integer().or_else(|| self.packet_number.integer())
    }

    fn is_data(&self) -> bool {
        let kind = self.header.0.packet_type.some().or_else(|| self.packet_type.some());
        let space = self.packet_number_space.some();
        !kind.or(space).is_some_and(|kind| {
            ["initial", "handshake", "retry", "version_negotiation", "stateless_reset"]
                .iter()
                .any(|other| other.eq_ignore_ascii_case(kind))
        })
    }
}
