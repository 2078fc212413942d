//! What a protocol is made of, in words: `windward explain`, the pages of `docs/protocols` and
//! the tables of the documentation say it with these.
//!
//! One function an axis, each an exhaustive match: a new part does not compile until it is
//! explained here.

use windward_core::endpoint::discrimination::Discrimination;
use windward_core::endpoint::estimator::BandwidthKind;
use windward_core::endpoint::feedback::{Direction, Feedback, Granularity, Notification};
use windward_core::endpoint::recovery::RecoveryKind;
use windward_core::endpoint::window::WindowLaw;
use windward_core::network::RouterKind;
use windward_core::protocols::Protocol;

use crate::builtin::PAPERS;

/// A part of a protocol in words.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// Short, for tables.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub what: &'static str,
    /// Where it is described.
    pub source: &'static str,
}

/// The axes in the order in which a packet's life meets them, and the part on each.
pub fn parts(protocol: &Protocol) -> [(&'static str, Part); 5] {
    [
        ("window", window(protocol.window)),
        ("recovery", recovery(protocol.recovery)),
        ("discrimination", discrimination(protocol.discrimination)),
        ("feedback", feedback(protocol.feedback)),
        ("router", router(protocol.router)),
    ]
}

fn window(law: WindowLaw) -> Part {
    match law {
        WindowLaw::Reno => Part {
            name: "reno",
            what: "slow start, then one packet more a round trip; half on congestion",
            source: "RFC 5681 section 3.1",
        },
        WindowLaw::Cubic => Part {
            name: "cubic",
            what: "a cubic function of the time since the last decrease, to 0.7 on congestion",
            source: "RFC 9438 section 4",
        },
        WindowLaw::Dctcp => Part {
            name: "dctcp",
            what: "as reno, but on marks down by half of the average share of marked packets",
            source: "RFC 8257 section 3.3",
        },
        WindowLaw::Bbr => Part {
            name: "bbr",
            what: "a pace and a window from the largest delivery rate and the smallest RTT seen lately",
            source: "draft-ietf-ccwg-bbr-06",
        },
        WindowLaw::Westwood { bandwidth: BandwidthKind::Be } => Part {
            name: "westwood (be)",
            what: "as reno, but to rate times RTTmin on congestion; one rate sample an ACK",
            source: "Casetti 2001 section 2, tcpwbr2003 section II",
        },
        WindowLaw::Westwood { bandwidth: BandwidthKind::Ere } => Part {
            name: "westwood (ere)",
            what: "as reno, but to rate times RTTmin on congestion; samples adapt to congestion",
            source: "tcpwbr2003 section II",
        },
        WindowLaw::Westwood { bandwidth: BandwidthKind::PerRtt } => Part {
            name: "westwood+",
            what: "as reno, but to bandwidth times RTTmin on congestion; one bandwidth sample an RTT",
            source: "Grieco and Mascolo 2004 section 2",
        },
        WindowLaw::Veno => Part {
            name: "veno",
            what: "as reno, but half as fast while packets wait at the bottleneck",
            source: "Fu and Liew 2003 section II",
        },
        WindowLaw::Estcp => Part {
            name: "estcp",
            what: "alpha = RTTmin/g an RTT; beta = RTTmin/RTT at a phase shift and at any loss",
            source: "estcp2010, ESTCP algorithm",
        },
        WindowLaw::NewJersey => Part {
            name: "new-jersey",
            what: "as reno, but to RTTmin times the arrival rate at the receiver on congestion",
            source: "Xu, Tian and Ansari 2005",
        },
        WindowLaw::Xcp { heeds_duplicates: true } => Part {
            name: "xcp",
            what: "adds what the routers grant, packet by packet; no slow start",
            source: "Katabi 2002 section 3.3",
        },
        WindowLaw::Xcp { heeds_duplicates: false } => Part {
            name: "xcp-new",
            what: "adds what the routers grant, but on ACKs of new data alone; no slow start",
            source: "xcpr2005 section II, after the ns-2 code of Katabi",
        },
        WindowLaw::XcpR => Part {
            name: "xcp-r",
            what: "takes the window that the receiver computes from what the routers grant",
            source: "xcpr2005 section IV",
        },
        WindowLaw::Xtcp { tcp_friendly: false } => Part {
            name: "xtcp",
            what: "as reno, but half on a congestion flag, once a round trip",
            source: "lr2008 section 3.2",
        },
        WindowLaw::Xtcp { tcp_friendly: true } => Part {
            name: "xtcp+friend",
            what: "xtcp, but down to one packet where TCP would time out, until that window is through",
            source: "lr2008 section 8.1",
        },
    }
}

fn recovery(kind: RecoveryKind) -> Part {
    match kind {
        RecoveryKind::Reno => Part {
            name: "reno",
            what: "fast retransmit on duplicate ACKs, fast recovery until the next new ACK",
            source: "RFC 5681 section 3.2",
        },
        RecoveryKind::NewReno => Part {
            name: "newreno",
            what: "fast recovery lasts a whole window; a partial ACK retransmits the next hole",
            source: "RFC 6582",
        },
        RecoveryKind::Sack => Part {
            name: "sack",
            what: "a scoreboard of selective ACKs says which packets are lost",
            source: "RFC 2018, RFC 6675",
        },
        RecoveryKind::SendOutWindow { partial_acks, retransmission_timer } => {
            match (retransmission_timer, partial_acks) {
                (false, false) => Part {
                    name: "swnd",
                    what: "a send-out window beside cwnd grows on duplicate ACKs, deflates on new ones",
                    source: "lr2008 section 4.1",
                },
                (false, true) => Part {
                    name: "swnd+pa",
                    what: "the send-out window, and a partial ACK retransmits the next hole",
                    source: "lr2008 sections 2.2.2, 4.1",
                },
                (true, false) => Part {
                    name: "swnd+lr",
                    what: "the send-out window, a retransmission timer, a recovery timer any ACK resets",
                    source: "lr2008 sections 4.1 to 4.3",
                },
                (true, true) => Part {
                    name: "swnd+lr+pa",
                    what: "swnd+lr, and a partial ACK retransmits the next hole",
                    source: "lr2008 sections 2.2.2, 4.1 to 4.3",
                },
            }
        }
        RecoveryKind::LossMonitor => Part {
            name: "loss-monitor",
            what: "remembers in which packet each segment went last: lost once later ones arrived",
            source: "lr2008 section 5",
        },
        RecoveryKind::PacketNumber => Part {
            name: "packet-number",
            what: "each transmission has a number: lost once one sent three later, or 9/8 RTT, is acknowledged; probes",
            source: "RFC 9002 section 6",
        },
        RecoveryKind::BulkRepeat => Part {
            name: "bulk-repeat",
            what: "newreno; while losses are errors, partial ACKs repeat the window, RTO does not grow",
            source: "tcpwbr2003 section III",
        },
    }
}

fn discrimination(kind: Discrimination) -> Part {
    match kind {
        Discrimination::AlwaysCongestion => Part {
            name: "always",
            what: "every loss means congestion",
            source: "RFC 5681 section 2",
        },
        Discrimination::Never => Part {
            name: "never",
            what: "no loss means congestion: the routers say so explicitly",
            source: "lr2008 section 4.4",
        },
        Discrimination::Backlog => Part {
            name: "backlog",
            what: "a loss with less than three packets in the queue is random and costs a fifth",
            source: "Fu and Liew 2003 section II",
        },
        Discrimination::JitterRatio => Part {
            name: "jitter-ratio",
            what: "a loss with a jitter ratio below 1/cwnd is corruption",
            source: "Wu and Chen 2004",
        },
        Discrimination::Warning => Part {
            name: "warning",
            what: "a loss that an unmarked ACK tells of is corruption",
            source: "Xu, Tian and Ansari 2005",
        },
        Discrimination::SpikeOrRateGap => Part {
            name: "spike-or-rgt",
            what: "an error if RTTs are short or the rate is near cwnd/RTTmin; else congestion",
            source: "tcpwbr2003 section IV",
        },
        Discrimination::Oracle => Part {
            name: "oracle",
            what: "deterministic: a loss is congestion unless a notice names the packet; one reduction a window",
            source: "eten2004 section 2.1",
        },
        Discrimination::ErrorShare { adaptive: false } => Part {
            name: "error-share-coin",
            what: "probabilistic: corruption with probability e/p, e told by the network, p by LEAST",
            source: "eten2004 sections 4.2, 4.3.1",
        },
        Discrimination::ErrorShare { adaptive: true } => Part {
            name: "error-share-mdf",
            what: "deterministic: the window shrinks to (1 + (e/np)^k) / 2, e told by the network, p by LEAST",
            source: "eten2004 sections 4.2, 4.3.2",
        },
    }
}

fn feedback(kind: Feedback) -> Part {
    match kind {
        Feedback::None => Part {
            name: "none",
            what: "nothing beyond the acknowledgment, or ECN where a scenario asks for it",
            source: "RFC 5681, RFC 3168",
        },
        Feedback::Xcp => Part {
            name: "xcp",
            what: "packets carry rtt and the wanted change of throughput; ACKs echo what is left",
            source: "draft-falk-xcp-spec-03 section 2",
        },
        Feedback::Estcp => Part {
            name: "phase+g",
            what: "packets carry the number of the phase and g; ACKs echo them",
            source: "estcp2010, Implementation of ESTCP",
        },
        Feedback::EstcpBits => Part {
            name: "phase+g in ECN",
            what: "two bits: parity of the phase, and a mark whose share tells g; ACKs echo them",
            source: "estcp2010 figure 4",
        },
        Feedback::Timestamps => Part {
            name: "timestamps",
            what: "ACKs carry the arrival time at the receiver",
            source: "RFC 7323",
        },
        Feedback::CongestionWarning => Part {
            name: "timestamps+cw",
            what: "ACKs carry the arrival time and echo the warning, packet by packet",
            source: "Xu, Tian and Ansari 2005",
        },
        Feedback::XcpR => Part {
            name: "xcp-r",
            what: "packets carry XCP's header; the receiver sums the grants, ACKs carry the window",
            source: "xcpr2005 section IV",
        },
        Feedback::CongestionFlag => Part {
            name: "flag",
            what: "packets carry a congestion flag; ACKs echo it",
            source: "lr2008 section 3.2",
        },
        Feedback::ExactEcn => Part {
            name: "exact-ecn",
            what: "ECN on every data packet; the receiver echoes each mark as it came",
            source: "RFC 8257 section 3.2",
        },
        Feedback::Corruption(notification) => corruption(notification),
    }
}

/// In the words of ETEN's taxonomy: locus, granularity, band and direction.
fn corruption(notification: Notification) -> Part {
    let Notification { granularity, direction } = notification;
    let (name, what) = match (granularity, direction) {
        (Granularity::PerPacket, Direction::Forward) => (
            "corrupted-forward",
            "hop-by-hop, per packet, in-band, forward: damaged packets go on, ACKs name them",
        ),
        (Granularity::PerPacket, Direction::Backward) => (
            "corrupted-backward",
            "hop-by-hop, per packet, out-of-band, backward: the link's end names corrupted packets at once",
        ),
        (Granularity::Cumulative, Direction::Forward) => (
            "survival-forward",
            "hop-by-hop, cumulative, in-band, forward: a survival probability times (1 - r) a link; ACKs echo it",
        ),
        (Granularity::Cumulative, Direction::Backward) => (
            "survival-backward",
            "hop-by-hop, cumulative, out-of-band, backward: each link's end sends its rate r",
        ),
    };
    Part { name, what, source: "eten2004 sections 3.3, 4.1" }
}

fn router(kind: RouterKind) -> Part {
    let (what, source) = match kind {
        RouterKind::Any => ("nothing asked: any queue will do", "RFC 5681"),
        RouterKind::Xcp => (
            "shares out spare capacity once a mean RTT: efficiency and fairness controllers",
            "Katabi 2002 section 3.5, draft-falk-xcp-spec-03 section 3",
        ),
        RouterKind::XcpPersistent => (
            "xcp that leaves a queue of ten packets standing, so that the wire stays busy",
            "lr2008 section 7.2",
        ),
        RouterKind::Estcp => (
            "one phase shift an overflow, for all flows; g += gamma (D - length of the phase)",
            "estcp2010, ESTCP algorithm",
        ),
        RouterKind::CongestionWarning => (
            "marks every packet while the average queue is above a threshold",
            "Xu, Tian and Ansari 2005",
        ),
        RouterKind::Xtcp => (
            "counts the packets its queue drops and flags as many of those that leave it",
            "lr2008 section 3.2",
        ),
        RouterKind::EcnThreshold => {
            ("marks every packet that finds more than K packets waiting", "RFC 8257 section 3.1")
        }
    };
    Part { name: kind.name(), what, source }
}

/// What sources are called here and in full, besides the papers that come with experiments.
const TITLES: &[(&str, &str)] = &[
    (
        "Katabi 2002",
        "D. Katabi, M. Handley, C. Rohrs, \"Congestion control for high bandwidth-delay \
         product networks\", SIGCOMM 2002",
    ),
    (
        "draft-falk-xcp-spec-03",
        "A. Falk et al., \"Specification for the Explicit Control Protocol (XCP)\", \
         Internet-Draft, 2007",
    ),
    (
        "draft-ietf-ccwg-bbr-06",
        "N. Cardwell, I. Swett, J. Beshay (eds.), \"BBR Congestion Control\", Internet-Draft, 2026",
    ),
    (
        "Casetti 2001",
        "C. Casetti, M. Gerla, S. Mascolo, M. Y. Sanadidi, R. Wang, \"TCP Westwood: bandwidth \
         estimation for enhanced transport over wireless links\", MobiCom 2001",
    ),
    (
        "Grieco and Mascolo 2004",
        "L. A. Grieco, S. Mascolo, \"Performance evaluation and comparison of Westwood+, New Reno, \
         and Vegas TCP congestion control\", Computer Communication Review 34(2), 2004",
    ),
    (
        "Fu and Liew 2003",
        "C. P. Fu, S. C. Liew, \"TCP Veno: TCP enhancement for transmission over wireless access \
         networks\", IEEE JSAC 21(2), 2003",
    ),
    (
        "Wu and Chen 2004",
        "E. H.-K. Wu, M.-Z. Chen, \"JTCP: Jitter-based TCP for heterogeneous wireless \
         networks\", IEEE JSAC 22(4), 2004",
    ),
    (
        "Xu, Tian and Ansari 2005",
        "K. Xu, Y. Tian, N. Ansari, \"Improving TCP performance in integrated wireless \
         communications networks\", Computer Networks 47(2), 2005",
    ),
];

/// The short keys that the explanation of `protocol` uses, with the full titles behind them.
pub fn references(protocol: &Protocol) -> Vec<(&'static str, String)> {
    let parts = parts(protocol);
    let sources = || parts.iter().map(|(_, part)| part.source).chain([protocol.source]);
    let paper = |p: &&'static crate::builtin::Collection| {
        (p.key, format!("{}, \"{}\", {}", p.authors, p.title, p.published))
    };
    let others = TITLES.iter().map(|&(key, title)| (key, title.to_owned()));
    let known = PAPERS.iter().map(paper).chain(others);
    known.filter(|(key, _)| sources().any(|source| source.contains(key))).collect()
}

#[cfg(test)]
mod tests {
    use windward_core::protocols::{self, PROTOCOLS};

    use super::*;

    #[test]
    fn every_part_of_every_protocol_is_explained() {
        for protocol in PROTOCOLS {
            for (axis, part) in parts(protocol) {
                assert!(!part.name.is_empty(), "{} {axis}", protocol.name);
                assert!(part.what.len() > 10, "{} {axis}", protocol.name);
                assert!(!part.source.is_empty(), "{} {axis}", protocol.name);
            }
        }
    }

    /// A protocol is its parts: no two rows may look the same to a reader.
    #[test]
    fn no_two_protocols_have_the_same_parts() {
        let names = |p| parts(p).map(|(_, part)| part.name);
        for (i, a) in PROTOCOLS.iter().enumerate() {
            for b in &PROTOCOLS[..i] {
                assert_ne!(names(a), names(b), "{} and {}", a.name, b.name);
            }
        }
    }
    #[test]
    fn short_keys_are_spelt_out() {
        let keys = |name| {
            let protocol = protocols::find(name).unwrap();
            references(protocol).into_iter().map(|(key, _)| key).collect::<Vec<_>>()
        };
        assert_eq!(keys("lr-lmxcp"), ["lr2008", "Katabi 2002", "draft-falk-xcp-spec-03"]);
        assert_eq!(keys("newreno"), Vec::<&str>::new());
    }
}
