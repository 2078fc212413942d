//! What a run measured.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use windward_core::units::{Duration, Time};

use crate::delays::Delays;
use crate::name::Name;

/// How the figures of a run are kept between two processes: times as picoseconds.
mod kept {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use windward_core::units::{Duration, Time};

    use crate::name::Name;

    /// A span as picoseconds.
    #[derive(Serialize, Deserialize)]
    #[serde(remote = "Duration")]
    pub(super) struct Span(#[serde(getter = "picoseconds")] u64);

    fn picoseconds(span: &Duration) -> u64 {
        span.as_ps()
    }

    impl From<Span> for Duration {
        fn from(span: Span) -> Duration {
            Duration::from_ps(span.0)
        }
    }

    pub(super) mod moment {
        use super::{Deserialize, Deserializer, Serialize, Serializer, Time};

        #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it so")]
        pub(in super::super) fn serialize<S: Serializer>(
            time: &Time,
            to: S,
        ) -> Result<S::Ok, S::Error> {
            time.as_ps().serialize(to)
        }

        pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Time, D::Error> {
            Ok(Time::from_ps(u64::deserialize(from)?))
        }
    }

    pub(super) mod instants {
        use super::{Deserialize, Deserializer, Serialize, Serializer, Time};

        pub(in super::super) fn serialize<S: Serializer>(
            times: &[Time],
            to: S,
        ) -> Result<S::Ok, S::Error> {
            let ps: Vec<u64> = times.iter().map(|t| t.as_ps()).collect();
            ps.serialize(to)
        }

        pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Vec<Time>, D::Error> {
            let ps = Vec::<u64>::deserialize(from)?;
            Ok(ps.into_iter().map(Time::from_ps).collect())
        }
    }

    pub(super) mod instant {
        use super::{Deserialize, Deserializer, Serialize, Serializer, Time};

        #[expect(clippy::ref_option, reason = "serde asks for it so")]
        pub(in super::super) fn serialize<S: Serializer>(
            time: &Option<Time>,
            to: S,
        ) -> Result<S::Ok, S::Error> {
            time.map(Time::as_ps).serialize(to)
        }

        pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Option<Time>, D::Error> {
            Ok(Option::<u64>::deserialize(from)?.map(Time::from_ps))
        }
    }

    impl Serialize for Name {
        fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
            self.as_str().serialize(to)
        }
    }

    impl<'de> Deserialize<'de> for Name {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            Ok(Name::from(String::deserialize(from)?))
        }
    }
}

/// The measurements of one run. Flow figures, utilization and mean queues cover the time
/// after the warm-up; the packet counts of links cover the whole run, so that they balance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The seed of the run.
    pub seed: u64,
    /// Length of the run.
    #[serde(with = "kept::Span")]
    pub duration: Duration,
    /// Its first part, left out of the figures.
    #[serde(with = "kept::Span")]
    pub warmup: Duration,
    /// One row a flow, in the order of the scenario.
    pub flows: Vec<FlowOutcome>,
    /// One row a transfer of those that came by themselves ([`crate::scenario::Arrivals`]), those
    /// between one pair of hosts after those between another, each in the order in which they began.
    pub transfers: Vec<TransferOutcome>,
    /// One row a group.
    pub groups: Vec<GroupOutcome>,
    /// One row a directed link.
    pub links: Vec<LinkOutcome>,
    /// Windows and queues over time, if [`crate::Scenario::sample`] asks for them.
    pub samples: Option<Samples>,
    /// Jain's fairness index over the goodput of all transport flows; 1 if there are none.
    pub jain: f64,
    /// Packets, data or acknowledgments, times the links they crossed.
    pub packet_hops: u64,
    /// Events taken from the queue.
    pub events: u64,
    /// A hash over every delivery at every endpoint with its time: two runs with the same
    /// fingerprint did the same thing.
    pub fingerprint: u64,
}

/// What one flow did after the warm-up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlowOutcome {
    /// Name of the flow.
    pub name: Name,
    /// Index of its group.
    pub group: usize,
    /// Name of its protocol, or `datagrams`. Where connections come by themselves the row is the sum
    /// over those of one pair of hosts, without windows, idle periods and bins.
    pub protocol: Cow<'static, str>,
    /// Unique packets delivered, at their size on the wire, bits per second (eten2004); of a
    /// [stack](crate::stack), bytes of the application.
    pub goodput_bps: f64,
    /// What it put through its bottleneck link, bits per second (lr2008).
    pub throughput_bps: f64,
    /// Data packets sent, retransmissions included.
    pub packets_sent: u64,
    /// Data packets sent again; of a [stack](crate::stack), packets that it deemed lost.
    pub retransmissions: u64,
    /// Expiries of the recovery timer (RTO).
    pub timeouts: u64,
    /// How often, in the whole run, a congestion controller of another crate gave a window that is none (not a
    /// number, below one packet, beyond 2^32) and was kept within these bounds; 0 for all others.
    pub refused_windows: u64,
    /// The share of all data packets sent that was lost, as the sender estimates it by LEAST
    /// (eten2004 section 4.2). This and the next cover the whole run: an estimate is one of a
    /// connection.
    pub loss_estimate: f64,
    /// The share of them that queues dropped or channels destroyed.
    pub true_loss: f64,
    /// Mean of the RTT samples, or 0 if there was none.
    #[serde(with = "kept::Span")]
    pub mean_rtt: Duration,
    /// What became of datagrams, if it sends them.
    pub datagrams: Option<DatagramOutcome>,
    /// Time average of the congestion window, packets.
    pub mean_cwnd: f64,
    /// When it started, as drawn; the first instant at which transfers may come by themselves.
    #[serde(with = "kept::moment")]
    pub start: Time,
    /// From its start to the end of its handshake; zero without one, and before it ends. Only
    /// connections of [stacks](crate::stack) have one.
    #[serde(with = "kept::Span")]
    pub handshake: Duration,
    /// When a transfer of fixed size was fully acknowledged.
    #[serde(with = "kept::instant")]
    pub completed: Option<Time>,
    /// Sum of its idle periods. One lasts from the end of one data packet on the bottleneck's
    /// wire to the start of the next, if that is longer than [`crate::Scenario::idle_after`].
    /// It counts from the start of the flow or the end of the warm-up at the earliest, up to
    /// the completion or the stop of the flow or the end of the run at the latest. Zero for
    /// datagrams.
    #[serde(with = "kept::Span")]
    pub idle: Duration,
    /// The longest of its idle periods.
    #[serde(with = "kept::Span")]
    pub longest_idle: Duration,
    /// How many idle periods it had.
    pub idle_periods: u64,
    /// As [`GroupOutcome::throughput_bins`], if [`crate::Scenario::flow_bins`] asks for it;
    /// else empty.
    pub throughput_bins: Vec<f64>,
    /// Why the connection is no more, if it failed: only those of [stacks](crate::stack) do. They may
    /// panic, too: that ends the connection, not the run.
    pub failure: Option<String>,
}

/// What became of the datagrams of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DatagramOutcome {
    /// The mean of the one-way delays of those that arrived after the warm-up; zero if none did.
    #[serde(with = "kept::Span")]
    pub mean_delay: Duration,
    /// How many of those sent after the warm-up queues dropped or channels destroyed.
    pub lost: u64,
    /// What became of frames, if it sends media.
    pub media: Option<MediaOutcome>,
}

/// What became of the frames of a stream of media ([`crate::scenario::Media`]).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MediaOutcome {
    /// Frames made after the warm-up, and early enough to be in time before the run ended.
    pub frames: u64,
    /// Those of them that were not whole at the receiver within [`crate::scenario::Media::deadline`]
    /// of the least delay of such a frame: late, or with a packet lost.
    pub late: u64,
    /// How often the congestion circuit breaker of RFC 8083 section 4.3 would have tripped in the
    /// whole run, had it begun anew after each time.
    pub trips: u64,
    /// When it would have first.
    #[serde(with = "kept::instant")]
    pub first: Option<Time>,
}

/// One transfer that came by itself, over its whole life.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TransferOutcome {
    /// Index of the flow, the pair of hosts between which it ran.
    pub flow: usize,
    /// When it began.
    #[serde(with = "kept::moment")]
    pub start: Time,
    /// The size that was drawn, bytes.
    pub bytes: u64,
    /// What that is in packets, rounded up.
    pub packets: u64,
    /// As that of a flow.
    #[serde(with = "kept::Span")]
    pub handshake: Duration,
    /// When all of it was acknowledged, if it was before the run ended.
    #[serde(with = "kept::instant")]
    pub completed: Option<Time>,
    /// Data packets sent, retransmissions included.
    pub packets_sent: u64,
    /// Data packets sent again.
    pub retransmissions: u64,
    /// Expiries of the recovery timer.
    pub timeouts: u64,
}

impl TransferOutcome {
    /// How long it took, from the instant at which it could send to the acknowledgment of its last
    /// packet; `None` if the run ended before. A handshake is left out, since connections of ours have
    /// none: what is left is comparable.
    pub fn completion_time(&self) -> Option<Duration> {
        self.completed.map(|completed| completed.since(self.start + self.handshake))
    }
}

/// The sums over one group of flows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupOutcome {
    /// Name of the group.
    pub name: String,
    /// How many flows it has.
    pub flows: usize,
    /// Sum of [`FlowOutcome::goodput_bps`].
    pub goodput_bps: f64,
    /// Sum of [`FlowOutcome::throughput_bps`].
    pub throughput_bps: f64,
    /// Sum of [`FlowOutcome::packets_sent`].
    pub packets_sent: u64,
    /// Sum of [`FlowOutcome::retransmissions`].
    pub retransmissions: u64,
    /// Sum of [`FlowOutcome::timeouts`].
    pub timeouts: u64,
    /// Mean of [`FlowOutcome::mean_cwnd`].
    pub mean_cwnd: f64,
    /// The one-way delays of its datagrams that arrived after the warm-up, if there are any.
    pub delays: Option<Box<Delays>>,
    /// How many of its datagrams that were sent after the warm-up were lost.
    pub datagrams_lost: u64,
    /// Throughput at the bottleneck in each bin of [`crate::Scenario::bin`] from the start of
    /// the run, warm-up included, bits per second.
    pub throughput_bins: Vec<f64>,
    /// Index of the first bin that lies wholly after the warm-up.
    pub first_bin: usize,
}

impl GroupOutcome {
    /// Coefficient of variation of the throughput in bins after the warm-up: the sample
    /// standard deviation over the mean. Zero with fewer than two bins or no throughput.
    pub fn throughput_cv(&self) -> f64 {
        let bins = self.throughput_bins.get(self.first_bin..).unwrap_or_default();
        let n = bins.len() as f64;
        let mean = bins.iter().sum::<f64>() / n;
        if bins.len() < 2 || mean == 0.0 {
            return 0.0;
        }
        let var = bins.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (n - 1.0);
        var.sqrt() / mean
    }
}

/// What one directed link did. `arrived = delivered + dropped + corrupted + in_flight`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkOutcome {
    /// Name of the link.
    pub name: Name,
    /// Share of the time after the warm-up in which the wire was busy; where the rate changes or there
    /// are outages, bytes carried over the bytes that it could have carried in that time.
    pub utilization: f64,
    /// Packets offered to the queue.
    pub arrived: u64,
    /// Packets the queue refused.
    pub dropped: u64,
    /// Packets the channel destroyed.
    pub corrupted: u64,
    /// Packets that reached the far end.
    pub delivered: u64,
    /// Packets still queued or on the wire when the run ended.
    pub in_flight: u64,
    /// Of those delivered, packets that arrived after one that had left after them (RFC 4737).
    pub reordered: u64,
    /// Packets marked by the queue (ECN) or its router (congestion flag).
    pub marked: u64,
    /// Time average of the packets waiting behind the one in transmission, after the warm-up.
    pub mean_queue_packets: f64,
    /// The longest queue seen by an arriving packet in the whole run.
    pub max_queue_packets: u64,
    /// The phases of its traffic controller (estcp2010), if it has one and there were any.
    pub phases: Option<Box<PhaseOutcome>>,
}

/// The phases of a traffic controller that lie wholly after the warm-up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseOutcome {
    /// How many, at least one.
    pub count: u64,
    /// Their mean length, seconds.
    pub mean_length: f64,
    /// The mean of g, seconds.
    pub mean_g: f64,
    /// Of the shortest queues of all phases the longest, as a share of the limit.
    pub queue_low: f64,
    /// Of the longest queues of all phases the shortest, as a share of the limit.
    pub queue_high: f64,
    /// The longest time between the first and the last flow's cut for one shift, seconds.
    pub cut_spread: f64,
    /// Flows that did not hear of a shift before the next, summed over the phases.
    pub missed: u64,
    /// The mean of g as the flows knew it at the end of each phase, seconds, if any has heard one
    /// out.
    pub heard_g: Option<f64>,
    /// The mean of |g at the flow / g at the router - 1| over flows and phases, if any flow has
    /// heard one out.
    pub g_error: Option<f64>,
    /// Phases from the start of the run until all that follow, three at least, last within 10 % of
    /// the length aimed at; `None` if they never do.
    pub until_converged: Option<u64>,
}

/// What was recorded at regular instants, warm-up included.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Samples {
    /// The instants: the multiples of [`crate::Scenario::sample`] from zero to the end of the
    /// run. What happens at an instant is in its sample.
    #[serde(with = "kept::instants")]
    pub times: Vec<Time>,
    /// For each flow of the scenario its congestion window in packets at each instant, from
    /// before its start on; empty for datagrams.
    pub cwnd: Vec<Vec<f64>>,
    /// One row a directed link.
    pub links: Vec<LinkSamples>,
}

/// What was recorded of one directed link.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LinkSamples {
    /// Packets waiting behind the one in transmission at each instant.
    pub queue: Vec<u32>,
    /// Packets that had come to it until each instant.
    #[serde(default)]
    pub arrived: Vec<u64>,
    /// Packets that its queue had dropped or its channel destroyed until each instant.
    #[serde(default)]
    pub lost: Vec<u64>,
    /// The value that its router sends out to the flows at each instant; empty if it never
    /// sends one.
    pub signal: Vec<Option<f64>>,
}

/// Jain's fairness index (sum x)^2 / (n sum x^2) of the shares x of n flows; 1 for no flows or
/// no traffic.
pub fn jain(shares: impl Iterator<Item = f64>) -> f64 {
    let (n, sum, squares) =
        shares.fold((0.0, 0.0, 0.0), |(n, s, q), x| (n + 1.0, s + x, q + x * x));
    if squares > 0.0 { sum * sum / (n * squares) } else { 1.0 }
}
