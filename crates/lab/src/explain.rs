//! What a protocol is made of, in words: `windward explain`, the pages of `docs/protocols` and
//! the tables of the documentation say it with these.
//!
//! One function an axis, each an exhaustive match: a new part does not compile until it is
//! explained here.

use windward_core::endpoint::discrimination::Discrimination;
use windward_core::endpoint::feedback::Feedback;
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
    }
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
        RouterKind::Xtcp => (
            "counts the packets its queue drops and flags as many of those that leave it",
            "lr2008 section 3.2",
        ),
    };
    Part { name: kind.name(), what, source }
}

/// What sources are called here and in full, besides the papers that come with experiments.
const TITLES: [(&str, &str); 2] = [
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
];

/// The short keys that the explanation of `protocol` uses, with the full titles behind them.
pub fn references(protocol: &Protocol) -> Vec<(&'static str, String)> {
    let parts = parts(protocol);
    let sources = || parts.iter().map(|(_, part)| part.source).chain([protocol.source]);
    let paper = |p: &&'static crate::builtin::Collection| {
        (p.key, format!("{}, \"{}\", {}", p.authors, p.title, p.published))
    };
    let others = TITLES.into_iter().map(|(key, title)| (key, title.to_owned()));
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
