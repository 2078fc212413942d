//! THE TABLE: one row per named protocol. Everything that lists, explains, plots or tests
//! protocols iterates over it.
//!
//! A row composes parts of four axes, each with its own folder under [`crate::endpoint`],
//! and says what the routers on its path must do. A new protocol is a new row and, where a
//! part is new, one file.

use crate::endpoint::discrimination::Discrimination;
use crate::endpoint::estimator::BandwidthKind;
use crate::endpoint::feedback::{Direction, Feedback, Granularity, Notification};
use crate::endpoint::recovery::RecoveryKind;
use crate::endpoint::window::WindowLaw;
use crate::network::RouterKind;

/// One row of the table: a named composition of parts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Protocol {
    /// The name used in scenario files, on the command line and in reports.
    pub name: &'static str,
    /// Where the composition is described: a paper's key (`lr2008`) or an RFC.
    pub source: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Axis 1: how the congestion window grows and shrinks.
    pub window: WindowLaw,
    /// Axis 2: what is lost, and what to send next.
    pub recovery: RecoveryKind,
    /// Axis 3: does a loss mean congestion?
    pub discrimination: Discrimination,
    /// Axis 4: what packets carry and acknowledgments echo.
    pub feedback: Feedback,
    /// What the routers on the path must do.
    pub router: RouterKind,
}

/// Every protocol, in the order of the documentation.
pub static PROTOCOLS: &[Protocol] = &[
    Protocol {
        name: "reno",
        source: "RFC 5681",
        summary: "TCP Reno: slow start, congestion avoidance, fast retransmit and fast recovery.",
        window: WindowLaw::Reno,
        recovery: RecoveryKind::Reno,
        ..TCP
    },
    Protocol {
        name: "newreno",
        source: "RFC 6582",
        summary: "Reno that stays in fast recovery and retransmits on partial acknowledgments.",
        window: WindowLaw::Reno,
        recovery: RecoveryKind::NewReno,
        ..TCP
    },
    Protocol {
        name: "sack",
        source: "RFC 6675",
        summary: "TCP with selective acknowledgments and a scoreboard at the sender.",
        window: WindowLaw::Reno,
        recovery: RecoveryKind::Sack,
        ..TCP
    },
    Protocol {
        name: "cubic",
        source: "RFC 9438",
        summary: "CUBIC window growth with selective acknowledgments: today's default TCP.",
        window: WindowLaw::Cubic,
        recovery: RecoveryKind::Sack,
        ..TCP
    },
    Protocol {
        name: "bbr",
        source: "draft-ietf-ccwg-bbr-06",
        summary: "BBRv3: paced at the modelled rate of the path, with RFC 9002's loss detection.",
        window: WindowLaw::Bbr,
        recovery: RecoveryKind::PacketNumber,
        ..TCP
    },
    Protocol {
        name: "dctcp",
        source: "RFC 8257",
        summary: "DCTCP: a decrease in proportion to the share of marked packets.",
        window: WindowLaw::Dctcp,
        recovery: RecoveryKind::Sack,
        feedback: Feedback::ExactEcn,
        router: RouterKind::EcnThreshold,
        ..TCP
    },
    Protocol {
        name: "xcp-dumb",
        source: "lr2008 table 1",
        summary: "XCP with the loss recovery of Reno: duplicate ACKs halve the window.",
        recovery: RecoveryKind::Reno,
        discrimination: Discrimination::AlwaysCongestion,
        ..XCP
    },
    Protocol {
        name: "xcp",
        source: "lr2008 table 1",
        summary: "XCP that keeps cwnd on a loss and deflates the send-out window partially.",
        recovery: send_out_window(false, false),
        ..XCP
    },
    Protocol {
        name: "xcp-pa",
        source: "lr2008 table 1",
        summary: "xcp that also retransmits on partial acknowledgments.",
        recovery: send_out_window(true, false),
        ..XCP
    },
    Protocol {
        name: "lr-xcp",
        source: "lr2008 table 1",
        summary: "xcp with a retransmission timer and a recovery timer that any ACK resets.",
        recovery: send_out_window(false, true),
        ..XCP
    },
    Protocol {
        name: "lr-xcp-pa",
        source: "lr2008 table 1",
        summary: "lr-xcp that also retransmits on partial acknowledgments.",
        recovery: send_out_window(true, true),
        ..XCP
    },
    Protocol {
        name: "lr-lmxcp",
        source: "lr2008 table 1",
        summary: "XCP with retransmissions driven by accurate monitoring of losses.",
        recovery: RecoveryKind::LossMonitor,
        ..XCP
    },
    Protocol {
        name: "lr-xcpq-pa",
        source: "lr2008 section 7.2",
        summary: "lr-xcp-pa over XCP routers that keep a queue of ten packets.",
        recovery: send_out_window(true, true),
        router: RouterKind::XcpPersistent,
        ..XCP
    },
    Protocol {
        name: "xcp-katabi",
        source: "xcpr2005 section II",
        summary: "XCP as Katabi's code for ns-2 has it: the recovery and the timeouts of TCP Reno.",
        window: WindowLaw::Xcp { heeds_duplicates: false },
        recovery: RecoveryKind::Reno,
        discrimination: Discrimination::AlwaysCongestion,
        ..XCP
    },
    Protocol {
        name: "xcp-r",
        source: "xcpr2005 section IV",
        summary: "XCP whose window is computed at the receiver, so that lost ACKs do no harm.",
        window: WindowLaw::XcpR,
        recovery: RecoveryKind::Reno,
        discrimination: Discrimination::AlwaysCongestion,
        feedback: Feedback::XcpR,
        ..XCP
    },
    Protocol {
        name: "lr-xtcp",
        source: "lr2008 table 1",
        summary: "AIMD on an explicit congestion flag, with the LR timers.",
        recovery: send_out_window(false, true),
        ..XTCP
    },
    Protocol {
        name: "lr-xtcp-pa",
        source: "lr2008 table 1",
        summary: "lr-xtcp that also retransmits on partial acknowledgments.",
        recovery: send_out_window(true, true),
        ..XTCP
    },
    Protocol {
        name: "lr-lmxtcp",
        source: "lr2008 table 1",
        summary: "AIMD on an explicit congestion flag with accurate monitoring of losses.",
        recovery: RecoveryKind::LossMonitor,
        ..XTCP
    },
    Protocol {
        name: "lr-lmxtcp-tcpfriend",
        source: "lr2008 section 8.1",
        summary: "lr-lmxtcp that backs off where TCP would time out, to share fairly with it.",
        window: WindowLaw::Xtcp { tcp_friendly: true },
        recovery: RecoveryKind::LossMonitor,
        ..XTCP
    },
    Protocol {
        name: "sack-oracle",
        source: "eten2004 section 2.1",
        summary: "sack that is told at once which packets were corrupted and does not reduce for them.",
        discrimination: Discrimination::Oracle,
        feedback: Feedback::Corruption(Notification {
            granularity: Granularity::PerPacket,
            direction: Direction::Backward,
        }),
        ..ETEN
    },
    Protocol {
        name: "ceten-p",
        source: "eten2004 section 4.3.1",
        summary: "sack that takes a loss for corruption with the share of losses it causes.",
        discrimination: Discrimination::ErrorShare { adaptive: false },
        ..ETEN
    },
    Protocol {
        name: "ceten-a",
        source: "eten2004 section 4.3.2",
        summary: "sack that reduces the less, the larger the share of losses corruption causes.",
        discrimination: Discrimination::ErrorShare { adaptive: true },
        ..ETEN
    },
    Protocol {
        name: "westwood",
        source: "tcpwbr2003 section II",
        summary: "NewReno that sets ssthresh to what the estimated rate keeps in flight.",
        window: WindowLaw::Westwood { bandwidth: BandwidthKind::Ere },
        recovery: RecoveryKind::NewReno,
        ..TCP
    },
    Protocol {
        name: "westwood+",
        source: "estcp2010 reference 11",
        summary: "TCP that sets the window after a loss by a bandwidth estimate, one sample an RTT.",
        window: WindowLaw::Westwood { bandwidth: BandwidthKind::PerRtt },
        recovery: RecoveryKind::NewReno,
        ..TCP
    },
    Protocol {
        name: "estcp",
        source: "estcp2010, ESTCP algorithm",
        summary: "Dynamic AIMD: a controller at the bottleneck paces growth and has all cut at once.",
        ..ESTCP
    },
    Protocol {
        name: "estcp-ecn",
        source: "estcp2010 figure 4",
        summary: "estcp with nothing but the two ECN bits to carry the controller's signals.",
        feedback: Feedback::EstcpBits,
        ..ESTCP
    },
    Protocol {
        name: "veno",
        source: "estcp2010 reference 4",
        summary: "Reno that takes losses with a short queue for random, and grows less with a long one.",
        window: WindowLaw::Veno,
        recovery: RecoveryKind::NewReno,
        discrimination: Discrimination::Backlog,
        ..TCP
    },
    Protocol {
        name: "jtcp",
        source: "estcp2010 reference 5",
        summary: "TCP that takes a loss for corruption if packets arrive as evenly as they were sent.",
        recovery: RecoveryKind::NewReno,
        discrimination: Discrimination::JitterRatio,
        feedback: Feedback::Timestamps,
        ..TCP
    },
    Protocol {
        name: "new-jersey",
        source: "estcp2010 reference 7",
        summary: "TCP whose routers warn of congestion: only then is the window set by bandwidth.",
        window: WindowLaw::NewJersey,
        recovery: RecoveryKind::NewReno,
        discrimination: Discrimination::Warning,
        feedback: Feedback::CongestionWarning,
        router: RouterKind::CongestionWarning,
    },
    Protocol {
        name: "tcpw-br",
        source: "tcpwbr2003 section III",
        summary: "Westwood that repeats whole windows and keeps cwnd when losses are errors.",
        window: WindowLaw::Westwood { bandwidth: BandwidthKind::Be },
        recovery: RecoveryKind::BulkRepeat,
        discrimination: Discrimination::SpikeOrRateGap,
        ..TCP
    },
];

/// What the plain TCPs share.
const TCP: Protocol = Protocol {
    name: "",
    source: "",
    summary: "",
    window: WindowLaw::Reno,
    recovery: RecoveryKind::Reno,
    discrimination: Discrimination::AlwaysCongestion,
    feedback: Feedback::None,
    router: RouterKind::Any,
};

/// What the XCP variants share.
const XCP: Protocol = Protocol {
    window: WindowLaw::Xcp { heeds_duplicates: true },
    discrimination: Discrimination::Never,
    feedback: Feedback::Xcp,
    router: RouterKind::Xcp,
    ..TCP
};

/// What the XTCP variants share.
const XTCP: Protocol = Protocol {
    window: WindowLaw::Xtcp { tcp_friendly: false },
    discrimination: Discrimination::Never,
    feedback: Feedback::CongestionFlag,
    router: RouterKind::Xtcp,
    ..TCP
};

/// What both forms of ESTCP share. The paper names no recovery; selective acknowledgments repair
/// the many losses of an overflow, and of a lossy link, in one round trip.
const ESTCP: Protocol = Protocol {
    window: WindowLaw::Estcp,
    recovery: RecoveryKind::Sack,
    feedback: Feedback::Estcp,
    router: RouterKind::Estcp,
    ..TCP
};

/// What the variants of explicit transport error notification share.
const ETEN: Protocol = Protocol {
    recovery: RecoveryKind::Sack,
    feedback: Feedback::Corruption(Notification {
        granularity: Granularity::Cumulative,
        direction: Direction::Forward,
    }),
    ..TCP
};

const fn send_out_window(partial_acks: bool, retransmission_timer: bool) -> RecoveryKind {
    RecoveryKind::SendOutWindow { partial_acks, retransmission_timer }
}

/// The protocol of that name.
pub fn find(name: &str) -> Option<&'static Protocol> {
    PROTOCOLS.iter().find(|p| p.name == name)
}
