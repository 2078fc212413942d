//! Theoretical throughput of a group of flows, as curves to compare measurements with.
//!
//! Everything is computed from the scenario of a cell, before anything runs:
//!
//! - p, the share of data packets that the channels of the path destroy: 1 - (1 - p1)(1 - p2)..
//!   over the links that data crosses. Bit errors count with the size of a data packet, bursts and
//!   two-state channels with their stationary share (bursts of L packets, begun by each packet
//!   outside one with probability e, destroy L e / (1 + (L - 1) e); lr2008 plots L e).
//! - RTT without queues: the propagation delays there and back, the transmission times of a data
//!   packet on each link there, and of an acknowledgment on each link back.
//! - Packets count with their size on the wire, as goodput does.
//!
//! | curve | throughput |
//! |---|---|
//! | capacity | C (1 - p): goodput of a link that is always busy |
//! | Mathis | packets/RTT x sqrt(3/(2p)), with delayed ACKs sqrt(3/(4p)): Mathis, Semke, Mahdavi, Ott, "The macroscopic behavior of the TCP congestion avoidance algorithm", 1997, section 2 |
//! | CUBIC | the larger of windows (C (3 + beta) / (4 (1 - beta)))^(1/4) (RTT/p)^(3/4) and Mathis', over RTT: RFC 9438 sections 5.1 and 4.3 |
//!
//! The last two describe a single flow: they are multiplied by the number of flows in the group and
//! limited by the capacity curve.

use std::collections::BTreeSet;

use windward_core::network::LinkRate;
use windward_sim::Scenario;
use windward_sim::scenario::{FlowConfig, Traffic};
use windward_sim::stack::UDP_OVERHEAD;

/// The curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Formula {
    /// Rate that a busy link delivers.
    Capacity,
    /// TCP with the inverse square root of the loss rate.
    Mathis,
    /// CUBIC's response function.
    Cubic,
}

impl Formula {
    /// Every formula with its name in files and its usual label.
    pub const ALL: [(Formula, &'static str, &'static str); 3] = [
        (Formula::Capacity, "capacity", "capacity"),
        (Formula::Mathis, "mathis", "Mathis et al."),
        (Formula::Cubic, "cubic", "RFC 9438"),
    ];
}

/// RFC 9438 sections 4.6 and 5.
const CUBIC_BETA: f64 = 0.7;
const CUBIC_C: f64 = 0.4;

/// Bits per second that the bottlenecks of these flows carry at most: infinite if the rate of one
/// changes, or without flows.
pub fn carried<'a>(scenario: &Scenario, flows: impl Iterator<Item = &'a FlowConfig>) -> f64 {
    let links: BTreeSet<usize> = flows.map(|flow| flow.bottleneck).collect();
    let rate = |link: &usize| match &scenario.links[*link].kind.rate {
        LinkRate::Constant(rate) => rate.as_bps() as f64,
        LinkRate::Trace(_) | LinkRate::Schedule(_) | LinkRate::Cell(_) => f64::INFINITY,
    };
    if links.is_empty() { f64::INFINITY } else { links.iter().map(rate).sum() }
}

/// Bits per second that a group, by default the first one of connections, should reach at a
/// link, by default its own bottleneck.
///
/// # Errors
/// If there is no such group of connections, or no such link on its way.
pub fn expected(
    formula: Formula,
    scenario: &Scenario,
    group: Option<&str>,
    link: Option<&str>,
) -> Result<f64, String> {
    let connection = |f: &&FlowConfig| !matches!(f.kind.traffic, Traffic::Datagrams { .. });
    let named = |f: &&FlowConfig| group.is_none_or(|name| scenario.groups[f.group] == name);
    let flow = scenario.flows.iter().filter(connection).find(named);
    let flow = flow.ok_or_else(|| match group {
        Some(name) => format!("no group `{name}` of connections"),
        None => "no connection".to_owned(),
    })?;
    let (packet_size, ack_size, delays_acks) = match &flow.kind.traffic {
        Traffic::Transport { config, .. } => {
            (config.packet_size, config.ack_size, config.delayed_acks.is_some())
        }
        // RFC 9000 section 13.2.2: an acknowledgment for two packets, whose size hardly matters.
        Traffic::Stack { config, .. } => (config.packet_size, UDP_OVERHEAD, true),
        Traffic::Datagrams { .. } => return Err("no connection".to_owned()),
    };
    let at = match link {
        None => flow.bottleneck,
        Some(name) => {
            let found = flow.forward.iter().find(|l| scenario.links[**l].name == name);
            *found.ok_or_else(|| format!("no link `{name}` on the way of `{}`", flow.name))?
        }
    };
    let p = scenario.path_loss(&flow.forward, packet_size);
    let capacity = scenario.links[at].kind.rate.mean().as_bps() as f64 * (1.0 - p);
    let rtt =
        scenario.one_way(&flow.forward, packet_size) + scenario.one_way(&flow.reverse, ack_size);
    let rtt = rtt.as_secs_f64();
    let acked_together = if delays_acks { 2.0 } else { 1.0 };
    let mathis = libm::sqrt(1.5 / (acked_together * p));
    let window = match formula {
        Formula::Capacity => return Ok(capacity),
        Formula::Mathis => mathis,
        Formula::Cubic => {
            let factor = CUBIC_C * (3.0 + CUBIC_BETA) / (4.0 * (1.0 - CUBIC_BETA));
            let cubic = libm::pow(factor, 0.25) * libm::pow(rtt / p, 0.75);
            cubic.max(mathis)
        }
    };
    let flows = scenario.flows.iter().filter(|f| f.group == flow.group).count() as f64;
    let alone = window * f64::from(packet_size) * 8.0 / rtt;
    Ok((flows * alone).min(capacity))
}

#[cfg(test)]
mod tests {
    use windward_sim::scenario::file::ScenarioFile;

    use super::*;
    use windward_core::units::Duration;

    /// RTT: 2 (1 + 23 + 1) = 50 ms, and 8 us, 0.8 ms and 8 us for data of 1000 bytes there;
    /// back 0.32 us, 32 us, 0.32 us for 40 bytes: 50.84864 ms.
    fn scenario(channel: &str, flows: &str) -> Scenario {
        let text = format!(
            r#"
            duration = "6s"
            dumbbell.bottleneck = {{ rate = "10Mbit", delay = "23ms"{channel} }}
            dumbbell.access = {{ rate = "1Gbit", delay = "1ms" }}
            flows = [
                {{ group = "udp", cbr = {{ rate = "1Mbit" }} }},
                {{ group = "tcp", protocol = "newreno"{flows} }},
            ]"#
        );
        ScenarioFile::parse("test.toml", &text).unwrap().build().unwrap()
    }

    #[track_caller]
    fn assert_near(formula: Formula, (channel, flows): (&str, &str), bps: f64) {
        let found = expected(formula, &scenario(channel, flows), None, None).unwrap();
        assert!((found / bps - 1.0).abs() < 1e-4, "{found} for {bps}");
    }

    #[test]
    fn capacity_by_hand() {
        assert_near(Formula::Capacity, ("", ""), 1e7);
        assert_near(Formula::Capacity, (", loss = 0.05", ""), 9.5e6);
        // 1 - 0.95 x 0.9.
        assert_near(Formula::Capacity, (", loss = 0.05", ", last_hop = { loss = 0.1 }"), 8.55e6);
        // (1 - 1e-5)^8000 = e^-0.0800004 = 0.923116.
        assert_near(Formula::Capacity, (", ber = 1e-5", ""), 9.231_16e6);
        // 4 lost of 4 + 99: 1 - 0.038835.
        assert_near(Formula::Capacity, (", burst = { event = 0.01, length = 4 }", ""), 9.611_65e6);
        // Bad with 0.01 / 0.05 = 0.2: loses 0.8 x 0.01 + 0.2 x 0.5 = 0.108.
        let chain = ", gilbert_elliott = { p = 0.01, r = 0.04, loss_good = 0.01, loss_bad = 0.5 }";
        assert_near(Formula::Capacity, (chain, ""), 8.92e6);
        // Bad for 1 of 10 s: loses 0.1.
        let chain = ", gilbert_elliott = { mean_good = \"9s\", mean_bad = \"1s\" }";
        assert_near(Formula::Capacity, (chain, ""), 9e6);
    }

    #[test]
    fn response_functions_by_hand() {
        // sqrt(1.5 / 0.01) = 12.24745 packets of 8000 bits over 50.84864 ms: 1.926888 Mbit/s.
        assert_near(Formula::Mathis, (", loss = 0.01", ""), 1.926_888e6);
        // With delayed ACKs sqrt(0.75 / 0.01) = 8.660254: 1.362515; two flows the double of it.
        let two = ", delayed_acks = true, count = 2";
        assert_near(Formula::Mathis, (", loss = 0.01", two), 2.725_030e6);
        // Without losses only the link limits; also at 1e-5: 387.3 packets.
        assert_near(Formula::Mathis, ("", ""), 1e7);
        assert_near(Formula::Mathis, (", loss = 1e-5", ""), 1e7 * (1.0 - 1e-5));

        // RFC 9438 section 5.1: 1.054 (RTT/p)^0.75, with 1.053829 = (0.4 x 3.7 / 1.2)^(1/4). At
        // 0.001: 50.84864^0.75 = e^(0.75 x 3.928853) = 19.04186, 20.0669 packets; Reno has
        // sqrt(1500) = 38.7298, which is more: 6.093352 Mbit/s.
        assert_near(Formula::Cubic, (", loss = 0.001", ""), 6.093_352e6);
        // RTT 1.00084864 s with a link of 498 ms (2 (1 + 498 + 1) + 0.84864 ms), p = 0.01:
        // 100.084864^0.75 = 31.6429, 33.3461 packets against 12.2474: 0.266543 Mbit/s.
        let mut far = scenario(", loss = 0.01", "");
        for link in &mut far.links {
            if link.name.starts_with("bottleneck") {
                link.delay = Duration::from_millis(498);
            }
        }
        let found = expected(Formula::Cubic, &far, Some("tcp"), Some("bottleneck")).unwrap();
        assert!((found / 0.266_543e6 - 1.0).abs() < 1e-4, "{found}");
    }

    #[test]
    fn errors_name_what_is_not_there() {
        let error =
            |group, link| expected(Formula::Capacity, &scenario("", ""), group, link).unwrap_err();
        assert_eq!(error(Some("udp"), None), "no group `udp` of connections");
        assert_eq!(
            error(None, Some("udp-1-last-hop")),
            "no link `udp-1-last-hop` on the way of `tcp-1`"
        );
    }
}
