//! The predicted cost of a run.

use windward_core::network::During;
use windward_core::units::{Duration, Time};

use super::{Arrivals, FlowConfig, LinkKind, Pattern, Scenario, Traffic};

impl Scenario {
    /// Estimated number of packet-hops of the run, the measure of its cost (`Outcome::packet_hops`
    /// of the simulator); at least 1. Used to start the most expensive of many runs first and to
    /// show their progress.
    ///
    /// Datagrams count as their sources send them, and transfers that arrive at random with their
    /// expected number, up to the capacity of the links. Other connections share the rest of each
    /// link equally while they are on, up to the receiver window. Connections that take corruption
    /// for congestion send no more than TCP would, which is too little for controllers that reduce
    /// less, such as Westwood's. Slow start, queue overflows and lost acknowledgments are left
    /// out.
    pub fn predicted_packet_hops(&self) -> f64 {
        let packets = self.flows.iter().zip(self.predicted_packets());
        1.0 + packets.map(|(flow, packets)| packets * hops(flow)).sum::<f64>()
    }

    /// Estimated number of data packets or datagrams that each flow sends, as in
    /// [`Scenario::predicted_packet_hops`].
    pub fn predicted_packets(&self) -> Vec<f64> {
        let end = Time::ZERO + self.duration;
        let mut links: Vec<Load> = self
            .links
            .iter()
            .map(|link| Load { left: link.kind.bytes_until(self.duration), users: 0.0 })
            .collect();
        let mut packets = vec![0.0; self.flows.len()];
        for (flow, packets) in self.flows.iter().zip(&mut packets) {
            let seconds = seconds_on(flow, end);
            match &flow.kind.traffic {
                Traffic::Datagrams { packet_size, pattern } => {
                    let bytes = pattern.bytes(seconds, end);
                    *packets = bytes / f64::from(*packet_size);
                    for &link in &flow.forward {
                        links[link].left -= bytes;
                    }
                }
                Traffic::Transport { arrivals: Some(arrivals), config, .. } => {
                    *packets = transferred(flow, arrivals, config.packet_size, &mut links, end);
                }
                Traffic::Stack { arrivals: Some(arrivals), config, .. } => {
                    *packets = transferred(flow, arrivals, config.packet_size, &mut links, end);
                }
                Traffic::Transport { .. } | Traffic::Stack { .. } => {
                    for &link in &flow.forward {
                        links[link].users += seconds;
                    }
                }
            }
        }
        for (flow, packets) in self.flows.iter().zip(&mut packets) {
            *packets += self.of_connection(flow, &links, end);
        }
        packets
    }

    /// The data packets of one connection; 0 for other traffic.
    fn of_connection(&self, flow: &FlowConfig, links: &[Load], end: Time) -> f64 {
        let (size, rwnd, packets, least_timeout, yields) = match &flow.kind.traffic {
            Traffic::Transport { config, packets, protocol, arrivals: None } => {
                let yields = protocol.discrimination.never_doubts();
                (config.packet_size, config.rwnd, *packets, config.rto_floor, yields)
            }
            // RFC 9002 section 6.2.1: a probe timeout is srtt + 4 rttvar and the delay of ACKs.
            Traffic::Stack { config, bytes, arrivals: None, .. } => {
                let packets = bytes.map(|bytes| bytes.div_ceil(config.payload().into()));
                (config.packet_size, config.rwnd, packets, Duration::from_millis(25), true)
            }
            _ => return 0.0,
        };
        let seconds = seconds_on(flow, end);
        // A flow does not have a whole link if the others start later.
        let share = |&link: &usize| {
            let Load { left, users } = links[link];
            left.max(0.0) * seconds / users.max(self.duration.as_secs_f64())
        };
        let bytes = flow.forward.iter().map(share).fold(f64::INFINITY, f64::min);
        let way = flow.forward.iter().chain(&flow.reverse);
        let rtt: f64 = way.map(|&link| self.links[link].delay.as_secs_f64()).sum();
        // The RTT may be zero.
        let windows = rwnd as f64 * (seconds / rtt.max(1e-9)).max(1.0);
        let most = packets.map_or(f64::INFINITY, |packets| packets as f64);
        let survives = |&link: &usize| 1.0 - self.links[link].kind.loss_rate(size);
        let loss = 1.0 - flow.forward.iter().map(survives).product::<f64>();
        let through = if yields {
            seconds * tcp_rate(loss, rtt, least_timeout.as_secs_f64() + rtt)
        } else {
            f64::INFINITY
        };
        (bytes / f64::from(size)).min(windows).min(most).min(through)
    }
}

impl LinkKind {
    /// Bytes that the wire can send in the given time from the start.
    fn bytes_until(&self, duration: Duration) -> f64 {
        let silent = self.impairments.outages.as_ref().filter(|o| o.during == During::Hold);
        // Assumes that outages do not depend on the rate.
        let up = silent.map_or(1.0, |outages| 1.0 - outages.when.share(duration));
        self.rate.bytes_until(duration) * up
    }
}

/// Returns the packets of the transfers between a pair of hosts; subtracts their bytes from the
/// links.
fn transferred(
    flow: &FlowConfig,
    arrivals: &Arrivals,
    packet_size: u32,
    links: &mut [Load],
    end: Time,
) -> f64 {
    let packet = f64::from(packet_size);
    let packets = arrivals.sizes.mean_packets(packet_size);
    let slowest = flow.forward.iter().map(|&link| links[link].left);
    let slowest = slowest.fold(f64::INFINITY, f64::min).max(0.0);
    let bytes = (arrivals.expected(end) * packets * packet).min(slowest);
    for &link in &flow.forward {
        links[link].left -= bytes;
    }
    bytes / packet
}

/// Number of links that a packet and its acknowledgments cross.
fn hops(flow: &FlowConfig) -> f64 {
    let acks = match &flow.kind.traffic {
        Traffic::Transport { config, .. } => config.receiver.acknowledgments() as usize,
        Traffic::Stack { .. } => 1,
        Traffic::Datagrams { .. } => 0,
    };
    (flow.forward.len() + flow.reverse.len() * acks) as f64
}

/// Capacity of a link that remains for connections.
#[derive(Debug, Clone, Copy)]
struct Load {
    /// Bytes that datagrams and transfers leave free in the whole run.
    left: f64,
    /// Sum of the times for which connections use them, seconds.
    users: f64,
}

/// Packets per second of a TCP with the loss rate `p`, from 0 to 1, and times in seconds:
/// Padhye et al. 1998, equation 30, for ACKs of every packet (b = 1).
fn tcp_rate(p: f64, rtt: f64, rto: f64) -> f64 {
    let timeouts = (3.0 * (3.0 * p / 8.0).sqrt()).min(1.0) * p * (1.0 + 32.0 * p * p);
    1.0 / (rtt * (2.0 * p / 3.0).sqrt() + rto * timeouts)
}

/// Time for which a flow may send, from the middle of its range of starts, seconds.
fn seconds_on(flow: &FlowConfig, end: Time) -> f64 {
    let start = f64::midpoint(flow.kind.start.0.as_secs_f64(), flow.kind.start.1.as_secs_f64());
    let stop = flow.kind.stop.map_or(end, |stop| stop.min(end));
    (stop.as_secs_f64() - start).max(0.0)
}

impl Pattern {
    /// Bytes on the wire of a source that may send for `seconds`, until `end`.
    fn bytes(&self, seconds: f64, end: Time) -> f64 {
        match self {
            Pattern::Constant { rate } => rate.bytes_per_s() * seconds,
            Pattern::Media(media) => media.most().bytes_per_s() * seconds,
            Pattern::Exponential { rate, mean_on, mean_off } => {
                let (on, off) = (mean_on.as_secs_f64(), mean_off.as_secs_f64());
                rate.bytes_per_s() * seconds * on / (on + off)
            }
            Pattern::Schedule { intervals } => intervals
                .iter()
                .map(|(from, until, rate)| {
                    rate.bytes_per_s() * end.min(*until).since(*from).as_secs_f64()
                })
                .sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::scenario::file::ScenarioFile;

    /// Ten flows of packets of 1000 bytes over 5 Mbit/s for 100 s, three hops each way.
    const FIRST: &str = include_str!("../../../../experiments/examples/first.toml");

    fn predicted(changes: &[(&str, &str)]) -> f64 {
        let mut file = ScenarioFile::parse("first.toml", FIRST).unwrap();
        for (key, value) in changes {
            file.set(key, value).unwrap();
        }
        file.build().unwrap().predicted_packet_hops()
    }

    fn near(measured: f64, expected: f64) {
        assert!((measured - expected).abs() < 1.0, "{measured} instead of {expected}");
    }

    #[test]
    fn connections_share_the_bottleneck() {
        // 625 packets per second for 100 s over six hops, and 1.
        let clean = ("flows.lossy.last_hop.loss", "0");
        near(predicted(&[clean]), 375_001.0);
        near(predicted(&[clean, ("duration", "50s")]), 187_501.0);
        // The lossy half transfers 1000 packets each instead of 6250.
        near(predicted(&[clean, ("flows.lossy.size", "1000p")]), 187_500.0 + 30_001.0);
        // Half of the flows are on only for the second half: the others have two thirds of the
        // link.
        let late = ("flows.lossy.start", "50s");
        near(predicted(&[clean, late]), 375_001.0);
        // A window of one packet for each RTT of 120 ms: 833 packets for each flow.
        near(predicted(&[clean, ("endpoint.rwnd", "1")]), 10.0 * 100.0 / 0.12 * 6.0 + 1.0);
    }

    #[test]
    fn corruption_limits_connections_that_take_it_for_congestion() {
        // p = 0.05, RTT 0.12 s, RTO 0.2 + 0.12 s: sqrt(2p/3) = 0.182574 and
        // min(1, 3 sqrt(3p/8)) p (1 + 32 p^2) = 0.410792 * 0.05 * 1.08 = 0.0221828, hence
        // 1 / (0.12 * 0.182574 + 0.32 * 0.0221828) = 34.4738 packets per second instead of 62.5.
        near(predicted(&[]), 187_501.0 + 5.0 * 34.4738 * 600.0);
        near(predicted(&[("flows.lossy.protocol", "lr-lmxtcp")]), 375_001.0);
    }

    #[test]
    fn datagrams_take_precedence_and_have_no_acknowledgments() {
        // 5 sources of 0.8 Mbit/s: 100 packets per second each, three hops; 1 Mbit/s is left.
        let (connections, lossy) = FIRST.split_once("group = \"lossy\"").unwrap();
        let lossy = lossy.replace("protocol = \"newreno\"", "cbr = { rate = \"0.8Mbit\" }");
        let text = format!("{connections}group = \"datagrams\"{lossy}");
        let scenario = ScenarioFile::parse("cbr.toml", &text).unwrap().build().unwrap();
        let expected = 5.0 * 100.0 * 100.0 * 3.0 + 125.0 * 100.0 * 6.0 + 1.0;
        near(scenario.predicted_packet_hops(), expected);
    }
}
