//! Propagation delays that change: a schedule, or a measured trace.

use std::sync::Arc;

use super::Steps;
use crate::network::TraceError;
use crate::units::Duration;

/// Propagation delays over time.
pub type DelaySteps = Steps<Duration>;

/// A propagation delay that changes, for example at a handover between satellites.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ChangingDelay {
    /// The delay of packets that leave the wire from an instant on.
    pub steps: Arc<DelaySteps>,
    /// True if packets on a shorter route wait for those still on the longer one. On a real change
    /// of routes they overtake.
    pub in_order: bool,
}

impl ChangingDelay {
    /// True if packets arrive in the order in which they leave.
    pub(super) fn keeps_order(&self) -> bool {
        self.in_order || self.steps.never_falls()
    }

    /// The long-term delay: the mean over a period, or the last.
    pub fn mean(&self) -> Duration {
        let (mut sum, mut time) = (0, 0);
        for (delay, lasts) in self.steps.lasting() {
            sum += u128::from(delay.as_ps()) * u128::from(lasts.as_ps());
            time += u128::from(lasts.as_ps());
        }
        Duration::from_ps(u64::try_from(sum / time.max(1)).unwrap_or(u64::MAX))
    }
}

impl DelaySteps {
    /// The longest delay, a day.
    pub const LONGEST_DELAY: Duration = Duration::from_secs(86_400);

    /// The least delay.
    pub fn least(&self) -> Duration {
        self.entries().map(|(_, delay)| delay).min().unwrap_or(Duration::ZERO)
    }

    /// Parses a text of one time and one delay per line, both in milliseconds. As in a trace of
    /// rates, the time of the last line is the period, after which the delays start over with the
    /// first; the delay of the last line is not used. Empty lines at the end are allowed.
    ///
    /// # Errors
    /// As [`Steps::new`], or if a line is not two numbers, a delay is longer than a day, or there
    /// is no second line.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let mut steps = Vec::new();
        for (index, line) in text.trim_ascii_end().lines().enumerate() {
            let wrong = |reason: String| TraceError { index: Some(index), reason };
            let mut words = line.split_ascii_whitespace();
            let (Some(time), Some(delay), None) = (words.next(), words.next(), words.next()) else {
                let found: String = line.chars().take(40).collect();
                let found = found.escape_debug();
                return Err(wrong(format!("`{found}` is not a time and a delay")));
            };
            let time = milliseconds(time).map_err(wrong)?;
            let delay = milliseconds(delay).map_err(wrong)?;
            if delay > Self::LONGEST_DELAY {
                return Err(wrong(format!("a delay of {delay} is longer than a day")));
            }
            steps.push((time, delay));
        }
        if steps.len() < 2 {
            let reason = "there must be two lines at least: the last says when it starts over";
            return Err(TraceError { index: None, reason: reason.to_owned() });
        }
        // The times must increase up to the last line.
        let all = Steps::new(steps.clone(), None)?;
        let repeat = steps.pop().map(|(time, _)| time);
        drop(all);
        Steps::new(steps, repeat)
    }
}

/// A number of milliseconds with decimals, without a sign.
fn milliseconds(text: &str) -> Result<Duration, String> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number = text.parse::<f64>().ok().filter(|ms| plain && ms.is_finite());
    let shown = || text.chars().take(40).flat_map(char::escape_debug).collect::<String>();
    let ms = number.ok_or_else(|| format!("`{}` is not a number of milliseconds", shown()))?;
    let longest = Steps::<Duration>::LONGEST.as_secs_f64() * 1e3;
    if ms > longest {
        return Err(format!("{} ms is more than 100 days", shown()));
    }
    Ok(Duration::from_secs_f64(ms / 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Time;

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    #[test]
    fn a_trace_starts_over_at_its_last_line() {
        let trace = DelaySteps::parse("0 20\n15000\t35.25\n30000 20\n\n").unwrap();
        assert_eq!(trace.repeat(), Some(Duration::from_secs(30)));
        let at = |s: u64| trace.at(Time::ZERO + Duration::from_secs(s));
        assert_eq!(
            [at(0), at(14), at(15), at(29), at(30)].map(|d| d.as_nanos() / 1000),
            [20_000, 20_000, 35_250, 35_250, 20_000]
        );
        assert_eq!(trace.least(), us(20_000));
        // Both for the same time: (20 + 35.25) / 2.
        let delay = ChangingDelay { steps: trace.into(), in_order: false };
        assert_eq!(delay.mean(), us(27_625));
        let last = Steps::new(vec![(us(0), us(7)), (us(5), us(9))], None).unwrap();
        assert_eq!(ChangingDelay { steps: last.into(), in_order: true }.mean(), us(9));
    }

    #[test]
    fn invalid_traces() {
        let reason = |text: &str| DelaySteps::parse(text).unwrap_err().to_string();
        assert!(reason("").contains("two lines at least"));
        assert!(reason("0 20").contains("two lines at least"));
        assert!(reason("0 20\n150").starts_with("line 2: `150` is not a time and a delay"));
        assert!(reason("0 20\n150 3 4").contains("line 2"));
        assert!(reason("0 20\n150 -3").contains("`-3` is not a number"));
        assert!(reason("0 nan\n1 2").contains("`nan` is not a number"));
        assert!(reason("0 1e300\n1 2").contains("line 1"));
        assert!(reason("0 99999999999999\n1 2").contains("more than 100 days"));
        assert!(reason("0 100000000\n1 2").contains("longer than a day"));
        assert!(reason("5 20\n15 30").contains("line 1: the first entry is at"));
        assert!(reason("0 20\n15 30\n15 20").starts_with("line 3"));
        assert!(reason("0 20\n15 30\n10 20").starts_with("line 3"));
        assert!(reason("0 20\u{1b}[2J\n1 2").contains("20\\u{1b}[2J"));
    }
}
