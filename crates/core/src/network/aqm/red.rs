//! Random Early Detection (Floyd and Jacobson 1993), with the gentle slope of 2000.
//!
//! RED uses an exponential average of the queue. Between the thresholds packets are dropped with a
//! probability that rises linearly, and the count since the last drop spaces drops evenly.
//!
//! ```text
//! avg <- (1 - w) avg + w q            on arrival at a busy queue
//! avg <- (1 - w)^m avg                after a pause in which m packets could have left
//! p_b  = max_p (avg - min) / (max - min)
//! p_a  = p_b / (1 - count p_b)
//! ```

use super::{Aqm, AqmPart, Backlog, QueueAction, QueueSetup};
use crate::packet::{Flags, Packet};
use crate::parameters;
use crate::part::{Form, Part, ValueKind, Words};
use crate::rng::Stream;
use crate::units::{Duration, Probability, Rate, Time};

parameters! {
    /// Parameters of RED; thresholds in packets. The defaults are those of ns-2.
    pub struct RedConfig in "", "parameters of red";
    /// The defaults of ns-2. No marks unless told, as in tc-red(8).
    pub const NS2;
    min_threshold: f64 = 5.0, ValueKind::Number { least: 0.0, most: 1e9 }, "packets",
        "average queue from which red drops";
    max_threshold: f64 = 15.0, ValueKind::Number { least: 0.0, most: 1e9 }, "packets",
        "average queue of max_probability";
    weight: f64 = 0.002, ValueKind::Number { least: 1e-12, most: 1.0 }, "",
        "weight of a new sample in the average";
    max_probability: f64 = 0.1, ValueKind::Number { least: 1e-12, most: 1.0 }, "",
        "probability at max_threshold";
    gentle: bool = true, ValueKind::Bool, "", "rise to 1 between max_threshold and twice that";
    ecn: bool = false, ValueKind::Bool, "", "mark instead of dropping if ECN is negotiated";
    mean_packet_size: u32 = 1000, ValueKind::Integer { least: 1, most: 1 << 20 }, "bytes",
        "ages the average of an idle queue";
    @check(red) {
        if red.max_threshold <= red.min_threshold {
            return Err(format!(
                "max_threshold ({}) must be more than min_threshold ({})",
                red.max_threshold, red.min_threshold
            ));
        }
        Ok(())
    }
}

impl Part for Red {
    type Config = RedConfig;
    const FORMS: &'static [Form<RedConfig>] = &[Form {
        words: Words {
            name: "red",
            what: "drops or marks arrivals at random, by an average of the queue",
            source: "Floyd and Jacobson 1993; gentle: Floyd 2000",
        },
        config: RedConfig::NS2,
    }];
}

/// The state of RED.
#[derive(Debug, Clone)]
pub struct Red {
    spec: RedConfig,
    average: f64,
    /// Packets accepted since the last drop or mark while between the thresholds; `None` below the
    /// lower one (the papers' -1).
    count: Option<u32>,
    stream: Stream,
    /// Transmission time of a typical packet.
    typical: Duration,
}

impl Red {
    /// An empty queue's RED, drawing from `stream`; `typical` is the transmission time of a typical
    /// packet.
    pub fn with_stream(spec: RedConfig, stream: Stream, typical: Duration) -> Self {
        Red { spec, average: 0.0, count: None, stream, typical }
    }

    /// The average queue, packets.
    pub fn average(&self) -> f64 {
        self.average
    }

    /// Judges a packet that arrives when `waiting` packets wait. `idle` is how long the link
    /// had been idle, in transmission times of a typical packet, or `None` if it is busy.
    pub fn judge(&mut self, waiting: usize, idle: Option<f64>, ecn_capable: bool) -> QueueAction {
        let RedConfig {
            min_threshold, max_threshold, weight, max_probability, gentle, ecn, ..
        } = self.spec;
        if let Some(packets) = idle {
            self.average *= libm::pow(1.0 - weight, packets);
        }
        self.average += weight * (waiting as f64 - self.average);

        let average = self.average;
        let drop_rate = if average < min_threshold {
            self.count = None;
            return QueueAction::Pass;
        } else if average < max_threshold {
            max_probability * (average - min_threshold) / (max_threshold - min_threshold)
        } else if gentle && average < 2.0 * max_threshold {
            max_probability + (1.0 - max_probability) * (average - max_threshold) / max_threshold
        } else {
            self.count = Some(0);
            return QueueAction::Drop;
        };
        let count = self.count.map_or(0, |count| count + 1);
        let spread = drop_rate / (1.0 - f64::from(count) * drop_rate);
        // Negative or beyond one: the next drop is due.
        let due = !(0.0..1.0).contains(&spread);
        if due || self.stream.chance(Probability::new(spread).unwrap_or(Probability::ONE)) {
            self.count = Some(0);
            if ecn && ecn_capable { QueueAction::Mark } else { QueueAction::Drop }
        } else {
            self.count = Some(count);
            QueueAction::Pass
        }
    }
}

impl Aqm for Red {
    fn on_enqueue(&mut self, now: Time, queue: &Backlog<'_>, packet: &Packet) -> QueueAction {
        // How many typical packets could have left during a pause.
        let idle = queue.empty_since.map(|since| match self.typical.as_secs_f64() {
            0.0 => 0.0,
            typical => now.since(since).as_secs_f64() / typical,
        });
        self.judge(queue.packets, idle, packet.flags.contains(Flags::ECN_CAPABLE))
    }
    /// The whole of a pause under way ages the average at the new rate.
    fn on_rate(&mut self, _: Time, wire: Rate, _: Rate) {
        self.typical = wire.transmission_time(self.spec.mean_packet_size);
    }
}

impl AqmPart for Red {
    fn new(config: &RedConfig, setup: &QueueSetup<'_>) -> Self {
        let typical = setup.wire.transmission_time(config.mean_packet_size);
        Red::with_stream(*config, setup.stream("red"), typical)
    }
    fn marks(config: &RedConfig) -> bool {
        config.ecn
    }
    const ACTS_ON_DEPARTURE: bool = false;
    const KEEPS_QUEUE_SHORT: bool = true;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn red(spec: RedConfig) -> Red {
        Red::with_stream(spec, Stream::new(1, "red", "test"), Duration::from_millis(1))
    }

    #[test]
    fn the_average_follows_its_equations() {
        let mut red = red(RedConfig { weight: 0.5, min_threshold: 100.0, ..RedConfig::default() });
        assert_eq!(red.judge(8, None, false), QueueAction::Pass);
        assert_eq!(red.average(), 4.0); // 0 + 0.5 (8 - 0)
        red.judge(8, None, false);
        assert_eq!(red.average(), 6.0); // 4 + 0.5 (8 - 4)
        red.judge(0, Some(2.0), false);
        assert_eq!(red.average(), 0.75); // 6 (0.5)^2 = 1.5, then 1.5 + 0.5 (0 - 1.5)
    }

    #[test]
    fn drops_are_spread_evenly_at_their_rate() {
        // Average fixed halfway: p_b = 0.1 x 0.5 = 0.05. The k-th packet after a drop is dropped
        // with p_a = 0.05 / (1 - 0.05 k) = 1 / (20 - k), so that the gaps are uniform on 1..=19
        // (Floyd and Jacobson, section 7): mean 10 packets.
        let mut red = red(RedConfig { weight: 1.0, ..RedConfig::default() });
        let fates: Vec<QueueAction> = (0..100_000).map(|_| red.judge(10, None, false)).collect();
        let dropped = fates.iter().filter(|v| **v == QueueAction::Drop).count() as f64;
        assert!((100_000.0 / dropped - 10.0).abs() < 0.2, "one in {}", 100_000.0 / dropped);
        let longest = fates.split(|v| *v == QueueAction::Drop).map(<[_]>::len).max().unwrap();
        assert!(longest <= 20, "{longest}");
    }

    #[test]
    fn beyond_the_thresholds() {
        let mut hard = red(RedConfig { weight: 1.0, gentle: false, ..RedConfig::default() });
        assert_eq!(hard.judge(15, None, true), QueueAction::Drop);
        let mut gentle = red(RedConfig { weight: 1.0, ecn: true, ..RedConfig::default() });
        assert_eq!(gentle.judge(30, None, true), QueueAction::Drop);
        let fates: Vec<_> = (0..1000).map(|_| gentle.judge(20, None, true)).collect();
        assert!(fates.contains(&QueueAction::Mark) && fates.contains(&QueueAction::Pass));
        assert!(!fates.contains(&QueueAction::Drop), "early drops become marks");
    }
}
