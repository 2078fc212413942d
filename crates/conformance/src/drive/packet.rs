//! Packets as they leave, and how they are compared and shown.

use std::ops::Range;

use super::*;
use crate::parser::Ecn;

/// Packets as they leave.
#[derive(Debug, Clone)]
pub(super) struct Left {
    pub(super) at: Time,
    pub(super) segment: Segment,
}

/// Packets that have left and are not compared yet.
#[derive(Default)]
pub(super) struct Wire {
    pub(super) left: VecDeque<Left>,
    /// The time and the value of our first timestamp.
    clock: Option<(Time, u64)>,
}

impl Wire {
    /// A packet with these bytes leaves.
    pub(super) fn leave(
        &mut self,
        at: Time,
        flags: TcpFlags,
        bytes: Range<u64>,
        ack: Option<u64>,
        ecn: Option<Ecn>,
        options: Vec<TcpOption>,
    ) {
        let Range { start, end } = bytes;
        let (inbound, window, options) = (false, None, Some(options));
        let segment = Segment { inbound, ecn, flags, start, end, ack, window, options };
        self.left.push_back(Left { at, segment });
    }

    /// Takes the first timestamp that the script expects for that of the packet that left at `at`.
    pub(super) fn start_timestamps(&mut self, at: Time, wanted: &Segment) {
        if let (None, Some(options)) = (self.clock, wanted.options.as_deref()) {
            self.clock = options.iter().find_map(|option| match option {
                TcpOption::Timestamp(value, _) => Some((at, *value)),
                _ => None,
            });
        }
    }

    /// The time at which our timestamp had this value.
    pub(super) fn time_of(&self, echo: u64) -> Option<Time> {
        let (since, value) = self.clock?;
        Some(since + Duration::from_millis(echo.saturating_sub(value)))
    }
}

/// The part in which a packet differs from the one that the script expects.
pub(super) fn difference(wanted: &Segment, actual: &Segment) -> Option<&'static str> {
    if (wanted.start, wanted.end) != (actual.start, actual.end) {
        Some("the data")
    } else if wanted.flags.without(TcpFlags::PSH) != actual.flags {
        Some("the flags")
    } else if wanted.ack.is_some() && wanted.ack != actual.ack {
        Some("the acknowledgment")
    } else if !codepoints_agree(wanted.ecn, actual.ecn) {
        Some("the ECN codepoint")
    } else if !options_agree(wanted.options.as_deref(), actual.options.as_deref()) {
        Some("the TCP options")
    } else {
        None
    }
}

/// True if a packet has the codepoint that the script gives, if it gives one.
fn codepoints_agree(wanted: Option<Ecn>, actual: Option<Ecn>) -> bool {
    let actual = actual.unwrap_or(Ecn::NotEct);
    match wanted {
        None => true,
        Some(Ecn::Ect) => matches!(actual, Ecn::Ect0 | Ecn::Ect1),
        Some(wanted) => wanted == actual,
    }
}

/// True if a packet has the same options with the same segment size. The order, the padding, the
/// values of timestamps and the window's shift do not count.
fn options_agree(wanted: Option<&[TcpOption]>, actual: Option<&[TcpOption]>) -> bool {
    let sorted = |options: &[TcpOption]| {
        let mut kinds: Vec<String> = options.iter().filter_map(option_shown).collect();
        kinds.sort_unstable();
        kinds
    };
    match (wanted, actual) {
        (Some(wanted), Some(actual)) => sorted(wanted) == sorted(actual),
        _ => true,
    }
}

/// An option as far as it is compared; nothing for padding.
fn option_shown(option: &TcpOption) -> Option<String> {
    Some(match option {
        TcpOption::Nop | TcpOption::End => return None,
        TcpOption::Mss(mss) => format!("mss {mss}"),
        TcpOption::Scale(_) => "wscale".to_owned(),
        TcpOption::SackOk => "sackOK".to_owned(),
        TcpOption::Sack(_) => "sack".to_owned(),
        TcpOption::Timestamp(..) => "TS".to_owned(),
    })
}

/// A time as packetdrill shows it.
pub(super) fn seconds(time: Time) -> String {
    format!("{:.6}", time.as_secs_f64())
}

/// A packet with its time, as packetdrill shows both.
pub(super) fn shown(at: Time, segment: &Segment) -> String {
    let mut text = segment.flags.shown();
    if let Some(ecn) = segment.ecn.filter(|ecn| *ecn != Ecn::NotEct) {
        text = format!("[{}] {text}", ecn.word());
    }
    let Segment { start, end, .. } = segment;
    text += &format!(" {start}:{end}({})", end - start);
    if let Some(ack) = segment.ack {
        text += &format!(" ack {ack}");
    }
    let names: Vec<String> = segment.options.iter().flatten().filter_map(option_shown).collect();
    if !names.is_empty() {
        text += &format!(" <{}>", names.join(","));
    }
    format!("{} {text}", seconds(at))
}
