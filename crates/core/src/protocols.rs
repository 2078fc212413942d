//! The table of protocols: one row per named protocol. Everything that lists, explains, plots or
//! tests protocols iterates over it.
//!
//! A row composes parts of four axes, each with its own folder under [`crate::endpoint`], and names
//! the routers that it needs on its path. A new protocol is a new row and, if a part is new, one
//! file.

use crate::endpoint::discrimination::{
    DiscriminatorConfig, ErrorShareConfig, FullQueueConfig, IsolatedLossConfig,
    SpikeOrRateGapConfig,
};
use crate::endpoint::estimator::{BacklogConfig, BandwidthKind};
use crate::endpoint::feedback::{
    Direction, EstcpConfig, FeedbackConfig, Granularity, Notification, XcpRConfig,
};
use crate::endpoint::recovery::{
    BulkRepeatConfig, LossMonitorConfig, NewRenoConfig, RackConfig, RecoveryConfig, SackConfig,
    SendOutWindowConfig,
};
use crate::endpoint::window::{
    AbbaConfig, ControllerConfig, CopaConfig, CubicConfig, HighspeedConfig, HyblaConfig,
    NewJerseyConfig, PragueConfig, RenoConfig, StartUpConfig, UpwindConfig, VegasConfig,
    WestwoodConfig, XcpConfig, XtcpConfig,
};
use crate::endpoint::{EndpointConfig, discrimination::JitterRatioConfig};
use crate::network::RouterKind;
use crate::part::{Ability, AnyPart, ParameterTable, Parameters, Plain, Setting, Value, Words};

/// One row of the table: a named composition of parts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Protocol {
    /// The name used in scenario files, on the command line and in reports.
    pub name: &'static str,
    /// The source of the composition: the key of a paper (`lr2008`) or an RFC.
    pub source: &'static str,
    /// A description in one sentence.
    pub summary: &'static str,
    /// Axis 1: the congestion controller.
    pub window: ControllerConfig,
    /// Axis 2: loss detection and retransmission.
    pub recovery: RecoveryConfig,
    /// Axis 3: discrimination of losses by congestion from other losses.
    pub discrimination: DiscriminatorConfig,
    /// Axis 4: the feedback that packets carry and acknowledgments echo.
    pub feedback: FeedbackConfig,
    /// The routers that it needs on its path.
    pub router: RouterKind,
}

/// Every protocol, in the order of the documentation.
pub static PROTOCOLS: &[Protocol] = &[
    Protocol {
        name: "reno",
        source: "RFC 5681",
        summary: "TCP Reno: slow start, congestion avoidance, fast retransmit and fast recovery.",
        window: ControllerConfig::Reno(RenoConfig::DEFAULT),
        recovery: RecoveryConfig::Reno(Plain),
        ..TCP
    },
    Protocol {
        name: "newreno",
        source: "RFC 6582",
        summary: "Reno that stays in fast recovery and retransmits on partial acknowledgments.",
        window: ControllerConfig::Reno(RenoConfig::DEFAULT),
        recovery: RecoveryConfig::NewReno(NewRenoConfig::DEFAULT),
        ..TCP
    },
    Protocol {
        name: "sack",
        source: "RFC 6675",
        summary: "TCP with selective acknowledgments and a scoreboard at the sender.",
        window: ControllerConfig::Reno(RenoConfig::DEFAULT),
        recovery: RecoveryConfig::Sack(SackConfig::DEFAULT),
        ..TCP
    },
    Protocol {
        name: "cubic",
        source: "RFC 9438",
        summary: "CUBIC window growth with selective acknowledgments: today's default TCP.",
        window: ControllerConfig::Cubic(CubicConfig::DEFAULT),
        recovery: RecoveryConfig::Sack(SackConfig::DEFAULT),
        ..TCP
    },
    Protocol {
        name: "bbr",
        source: "draft-ietf-ccwg-bbr-06",
        summary: "BBRv3: paced at the modelled rate of the path, with RFC 9002's loss detection.",
        window: ControllerConfig::Bbr(Plain),
        recovery: RecoveryConfig::PacketNumber(Plain),
        ..TCP
    },
    Protocol {
        name: "dctcp",
        source: "RFC 8257",
        summary: "DCTCP: a decrease in proportion to the share of marked packets.",
        window: ControllerConfig::Dctcp(Plain),
        recovery: RecoveryConfig::Sack(SackConfig::DEFAULT),
        feedback: FeedbackConfig::ExactEcn(Plain),
        router: RouterKind::EcnThreshold,
        ..TCP
    },
    Protocol {
        name: "xcp-dumb",
        source: "lr2008 table 1",
        summary: "XCP with the loss recovery of Reno: duplicate ACKs halve the window.",
        recovery: RecoveryConfig::Reno(Plain),
        discrimination: DiscriminatorConfig::AlwaysCongestion(Plain),
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
        recovery: RecoveryConfig::LossMonitor(LossMonitorConfig::DEFAULT),
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
        summary: "XCP as in Katabi's code for ns-2, with the recovery and the timeouts of TCP Reno.",
        window: ControllerConfig::Xcp(XcpConfig { heeds_duplicates: false }),
        recovery: RecoveryConfig::Reno(Plain),
        discrimination: DiscriminatorConfig::AlwaysCongestion(Plain),
        ..XCP
    },
    Protocol {
        name: "xcp-r",
        source: "xcpr2005 section IV",
        summary: "XCP whose window is computed at the receiver, so that lost ACKs do no harm.",
        window: ControllerConfig::XcpR(Plain),
        recovery: RecoveryConfig::Reno(Plain),
        discrimination: DiscriminatorConfig::AlwaysCongestion(Plain),
        feedback: FeedbackConfig::XcpR(XcpRConfig::DEFAULT),
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
        recovery: RecoveryConfig::LossMonitor(LossMonitorConfig::DEFAULT),
        ..XTCP
    },
    Protocol {
        name: "lr-lmxtcp-tcpfriend",
        source: "lr2008 section 8.1",
        summary: "lr-lmxtcp that backs off where TCP would time out, to share fairly with it.",
        window: ControllerConfig::Xtcp(XtcpConfig { tcp_friendly: true }),
        recovery: RecoveryConfig::LossMonitor(LossMonitorConfig::DEFAULT),
        ..XTCP
    },
    Protocol {
        name: "sack-oracle",
        source: "eten2004 section 2.1",
        summary: "sack that is told at once which packets were corrupted and does not reduce for \
            them.",
        discrimination: DiscriminatorConfig::Oracle(Plain),
        feedback: FeedbackConfig::Corruption(Notification {
            granularity: Granularity::PerPacket,
            direction: Direction::Backward,
        }),
        ..ETEN
    },
    Protocol {
        name: "ceten-p",
        source: "eten2004 section 4.3.1",
        summary: "sack that takes a loss for corruption with the share of losses it causes.",
        discrimination: DiscriminatorConfig::ErrorShare(ErrorShareConfig::DEFAULT),
        ..ETEN
    },
    Protocol {
        name: "ceten-a",
        source: "eten2004 section 4.3.2",
        summary: "sack that reduces the less, the larger the share of losses corruption causes.",
        discrimination: DiscriminatorConfig::ErrorShare(ErrorShareConfig {
            adaptive: true,
            ..ErrorShareConfig::DEFAULT
        }),
        ..ETEN
    },
    Protocol {
        name: "westwood",
        source: "tcpwbr2003 section II",
        summary: "NewReno that sets ssthresh to what the estimated rate keeps in flight.",
        window: westwood(BandwidthKind::Ere),
        recovery: RecoveryConfig::NewReno(NewRenoConfig::DEFAULT),
        ..TCP
    },
    Protocol {
        name: "westwood+",
        source: "estcp2010 reference 11",
        summary: "NewReno that sets the window after a loss by a bandwidth estimate, one sample \
            per RTT.",
        window: westwood(BandwidthKind::PerRtt),
        recovery: RecoveryConfig::NewReno(NewRenoConfig::DEFAULT),
        ..TCP
    },
    Protocol {
        name: "estcp",
        source: "estcp2010, ESTCP algorithm",
        summary: "Dynamic AIMD: a controller at the bottleneck paces growth and has all cut at \
            once.",
        ..ESTCP
    },
    Protocol {
        name: "estcp-ecn",
        source: "estcp2010 figure 4",
        summary: "estcp with nothing but the two ECN bits to carry the controller's signals.",
        feedback: FeedbackConfig::EstcpBits(EstcpConfig::DEFAULT),
        ..ESTCP
    },
    Protocol {
        name: "veno",
        source: "estcp2010 reference 4",
        summary: "Reno that takes losses with a short queue for random, and grows less with a long \
            one.",
        window: ControllerConfig::Veno(BacklogConfig::DEFAULT),
        recovery: RecoveryConfig::NewReno(NewRenoConfig::DEFAULT),
        discrimination: DiscriminatorConfig::Backlog(BacklogConfig::DEFAULT),
        ..TCP
    },
    Protocol {
        name: "jtcp",
        source: "estcp2010 reference 5",
        summary: "TCP that takes a loss for corruption if packets arrive as evenly as they were \
            sent.",
        recovery: RecoveryConfig::NewReno(NewRenoConfig::DEFAULT),
        discrimination: DiscriminatorConfig::JitterRatio(JitterRatioConfig::DEFAULT),
        feedback: FeedbackConfig::Timestamps(Plain),
        ..TCP
    },
    Protocol {
        name: "new-jersey",
        source: "estcp2010 reference 7",
        summary: "TCP whose routers warn of congestion: only then is the window set by bandwidth.",
        window: ControllerConfig::NewJersey(NewJerseyConfig::DEFAULT),
        recovery: RecoveryConfig::NewReno(NewRenoConfig::DEFAULT),
        discrimination: DiscriminatorConfig::Warning(Plain),
        feedback: FeedbackConfig::CongestionWarning(Plain),
        router: RouterKind::CongestionWarning,
    },
    Protocol {
        name: "tcpw-br",
        source: "tcpwbr2003 section III",
        summary: "Westwood that repeats whole windows and keeps cwnd when losses are errors.",
        window: westwood(BandwidthKind::Be),
        recovery: RecoveryConfig::BulkRepeat(BulkRepeatConfig::DEFAULT),
        discrimination: DiscriminatorConfig::SpikeOrRateGap(SpikeOrRateGapConfig::DEFAULT),
        ..TCP
    },
    Protocol {
        name: "hybla",
        source: "Caini and Firrincieli 2004",
        summary: "TCP that grows on a long path as fast as on one of 25 ms, for satellites.",
        window: ControllerConfig::Hybla(HyblaConfig::DEFAULT),
        recovery: RecoveryConfig::Sack(SackConfig::DEFAULT),
        ..TCP
    },
    Protocol {
        name: "vegas",
        source: "Brakmo and Peterson 1995",
        summary: "TCP that keeps two to four packets in the queue, by the round-trip time.",
        window: ControllerConfig::Vegas(VegasConfig::DEFAULT),
        recovery: RecoveryConfig::Sack(SackConfig::DEFAULT),
        ..TCP
    },
    Protocol {
        name: "copa",
        source: "Arun and Balakrishnan 2018",
        summary: "Copa: a rate by the queueing delay, and AIMD where others fill the queue.",
        window: ControllerConfig::Copa(CopaConfig::DEFAULT),
        recovery: RecoveryConfig::PacketNumber(Plain),
        ..TCP
    },
    Protocol {
        name: "prague",
        source: "draft-briscoe-iccrg-prague-congestion-control-04",
        summary: "Prague: DCTCP for L4S on the Internet, for queues such as dualpi2.",
        window: ControllerConfig::Prague(PragueConfig::DEFAULT),
        recovery: RecoveryConfig::Sack(SackConfig::DEFAULT),
        feedback: FeedbackConfig::L4s(Plain),
        ..TCP
    },
    Protocol {
        name: "bbr1",
        source: "draft-cardwell-iccrg-bbr-congestion-control-00",
        summary: "BBR version 1, as in Linux: a model of the path that losses do not enter.",
        window: ControllerConfig::Bbr1(Plain),
        recovery: RecoveryConfig::PacketNumber(Plain),
        ..TCP
    },
    Protocol {
        name: "highspeed",
        source: "RFC 3649",
        summary: "HighSpeed TCP: the larger the window, the more it adds and the less it gives up.",
        window: ControllerConfig::Highspeed(HighspeedConfig::DEFAULT),
        recovery: RecoveryConfig::Sack(SackConfig::DEFAULT),
        ..TCP
    },
    Protocol {
        name: "cuback",
        source: "draft-kazuho-ccwg-cuback-00",
        summary: "CUBIC driven by acknowledgments: a flow that gains share grows faster.",
        window: ControllerConfig::Cuback(CubicConfig::DEFAULT),
        recovery: RecoveryConfig::Sack(SackConfig::DEFAULT),
        ..TCP
    },
    Protocol {
        name: "abba",
        source: "draft-kazuho-ccwg-abba",
        summary: "CUBIC that grows faster while the path carries its window with less queue than \
            before.",
        window: ControllerConfig::Abba(AbbaConfig::DEFAULT),
        recovery: RecoveryConfig::Sack(SackConfig::DEFAULT),
        ..TCP
    },
    Protocol {
        name: "cubic-hystart",
        source: "RFC 9406",
        summary: "CUBIC with HyStart++: slow start ends when the RTT rises, before the queue \
            overflows.",
        window: ControllerConfig::Cubic(CubicConfig::starting(StartUpConfig::HYSTART)),
        recovery: RecoveryConfig::Sack(SackConfig::DEFAULT),
        ..TCP
    },
    Protocol {
        name: "cubic-rapid-start",
        source: "draft-kazuho-ccwg-rapid-start",
        summary: "CUBIC that opens by three times a round trip and then lands on what the path \
            holds.",
        window: ControllerConfig::Cubic(CubicConfig::starting(StartUpConfig::RAPID_START)),
        recovery: RecoveryConfig::Sack(SackConfig::DEFAULT),
        ..TCP
    },
    Protocol {
        name: "cubic-full-queue",
        source: "h2o/quicly#687",
        summary: "CUBIC that takes a single loss for random if the RTT is below that of a full \
            queue.",
        window: ControllerConfig::Cubic(CubicConfig::DEFAULT),
        recovery: RecoveryConfig::Sack(SackConfig::DEFAULT),
        discrimination: DiscriminatorConfig::FullQueue(FullQueueConfig::DEFAULT),
        ..TCP
    },
    Protocol {
        name: "cubic-isolated-loss",
        source: "h2o/quicly#445",
        summary: "CUBIC that reduces for the second loss of a round trip and not for the first.",
        window: ControllerConfig::Cubic(CubicConfig::DEFAULT),
        recovery: RecoveryConfig::Sack(SackConfig::DEFAULT),
        discrimination: DiscriminatorConfig::IsolatedLoss(IsolatedLossConfig::DEFAULT),
        ..TCP
    },
    Protocol {
        name: "upwind",
        source: "Windward",
        summary: "Upwind: responds to delay, competes by a shadow window, and ignores corruption \
            losses.",
        window: ControllerConfig::Upwind(UpwindConfig::DEFAULT),
        recovery: RecoveryConfig::PacketNumber(Plain),
        feedback: FeedbackConfig::Help(Plain),
        ..TCP
    },
];

/// The common values of the plain TCPs.
const TCP: Protocol = Protocol {
    name: "",
    source: "",
    summary: "",
    window: ControllerConfig::Reno(RenoConfig::DEFAULT),
    recovery: RecoveryConfig::Reno(Plain),
    discrimination: DiscriminatorConfig::AlwaysCongestion(Plain),
    feedback: FeedbackConfig::None(Plain),
    router: RouterKind::Any,
};

/// The common values of the XCP variants.
const XCP: Protocol = Protocol {
    window: ControllerConfig::Xcp(XcpConfig { heeds_duplicates: true }),
    discrimination: DiscriminatorConfig::Never(Plain),
    feedback: FeedbackConfig::Xcp(Plain),
    router: RouterKind::Xcp,
    ..TCP
};

/// The common values of the XTCP variants.
const XTCP: Protocol = Protocol {
    window: ControllerConfig::Xtcp(XtcpConfig { tcp_friendly: false }),
    discrimination: DiscriminatorConfig::Never(Plain),
    feedback: FeedbackConfig::CongestionFlag(Plain),
    router: RouterKind::Xtcp,
    ..TCP
};

/// The common values of both forms of ESTCP. The paper names no recovery; selective acknowledgments
/// repair the many losses of an overflow, and of a lossy link, in one round trip.
const ESTCP: Protocol = Protocol {
    window: ControllerConfig::Estcp(Plain),
    recovery: RecoveryConfig::Sack(SackConfig::DEFAULT),
    feedback: FeedbackConfig::Estcp(Plain),
    router: RouterKind::Estcp,
    ..TCP
};

/// The common values of the variants of explicit transport error notification.
const ETEN: Protocol = Protocol {
    recovery: RecoveryConfig::Sack(SackConfig::DEFAULT),
    feedback: FeedbackConfig::Corruption(Notification {
        granularity: Granularity::Cumulative,
        direction: Direction::Forward,
    }),
    ..TCP
};

const fn westwood(estimator: BandwidthKind) -> ControllerConfig {
    ControllerConfig::Westwood(WestwoodConfig::of(estimator))
}

const fn send_out_window(partial_acks: bool, retransmission_timer: bool) -> RecoveryConfig {
    RecoveryConfig::SendOutWindow(SendOutWindowConfig::of(partial_acks, retransmission_timer))
}

/// The protocol of this name.
pub fn find(name: &str) -> Option<&'static Protocol> {
    PROTOCOLS.iter().find(|p| p.name == name)
}

/// The base of a composition that names no row: plain TCP with selective acknowledgments.
pub fn plain() -> &'static Protocol {
    const PLAIN: Protocol = Protocol { recovery: RecoveryConfig::Sack(SackConfig::DEFAULT), ..TCP };
    &PLAIN
}

/// The reason why a composition cannot work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incompatible {
    /// The axis and the name of the part that lacks something.
    pub part: (&'static str, &'static str),
    /// The missing ability and its consequence, as a sentence without a capital or a full stop.
    pub why: String,
    /// The remedy, as a sentence without a capital or a full stop.
    pub remedy: String,
}

impl std::fmt::Display for Incompatible {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (axis, name) = self.part;
        write!(f, "{axis} `{name}` {}; {}", self.why, self.remedy)
    }
}
impl std::error::Error for Incompatible {}

/// Parts by their names.
type Forms = Vec<(Words, Box<dyn AnyPart>)>;

/// An axis: its name, its part in a protocol, and every part that it has.
struct Axis {
    name: &'static str,
    part: fn(&Protocol) -> &dyn AnyPart,
    part_mut: fn(&mut Protocol) -> &mut dyn AnyPart,
    forms: fn() -> Forms,
    tables: fn() -> Vec<ParameterTable>,
}

macro_rules! axis {
    ($field:ident: $config:ty) => {
        Axis {
            name: stringify!($field),
            part: |protocol| &protocol.$field,
            part_mut: |protocol| &mut protocol.$field,
            forms: || {
                let forms = <$config>::forms().into_iter();
                forms.map(|(words, part)| (words, Box::new(part) as Box<dyn AnyPart>)).collect()
            },
            tables: <$config>::tables,
        }
    };
}

/// The axes in the order of the documentation.
static AXES: [Axis; 4] = [
    axis!(window: ControllerConfig),
    axis!(recovery: RecoveryConfig),
    axis!(discrimination: DiscriminatorConfig),
    axis!(feedback: FeedbackConfig),
];

impl Protocol {
    /// The axes in the order of the documentation, and the part on each.
    pub fn axes(&self) -> [(&'static str, &dyn AnyPart); 4] {
        AXES.each_ref().map(|axis| (axis.name, (axis.part)(self)))
    }

    /// The axes, and the part on each in words.
    pub fn parts(&self) -> [(&'static str, Words); 4] {
        self.axes().map(|(axis, part)| (axis, part.words()))
    }

    /// The protocol as in Linux, version 6: Reno, CUBIC and DCTCP with TCP's recovery get RACK-TLP
    /// instead, and CUBIC counts as tcp_cubic.c does (`cubic.linux`). All others are unchanged.
    /// See also [`EndpointConfig::linux`].
    #[must_use]
    pub const fn linux(mut self) -> Self {
        let feedback =
            matches!(self.feedback, FeedbackConfig::None(_) | FeedbackConfig::ExactEcn(_));
        let judges = matches!(self.discrimination, DiscriminatorConfig::AlwaysCongestion(_));
        if !(feedback && judges) {
            return self;
        }
        match &mut self.window {
            ControllerConfig::Cubic(config) => {
                config.reno_alpha = false;
                config.linux = true;
            }
            ControllerConfig::Reno(_) | ControllerConfig::Dctcp(_) => {}
            _ => return self,
        }
        if let RecoveryConfig::Reno(_) | RecoveryConfig::NewReno(_) | RecoveryConfig::Sack(_) =
            self.recovery
        {
            self.recovery = RecoveryConfig::Rack(RackConfig::DEFAULT);
        }
        self
    }

    /// The consequence if no router on the path gives the feedback that it requires; `None` if it
    /// requires no feedback, or marks, without which it is a plain TCP.
    pub fn without_router(&self) -> Option<&'static str> {
        match (self.router, &self.discrimination) {
            (RouterKind::Any | RouterKind::EcnThreshold, _) => None,
            (RouterKind::Estcp, _) => Some("it is TCP with alpha = 1, beta = 1/2"),
            (_, DiscriminatorConfig::Never(_)) => Some("it answers no congestion at all"),
            (_, DiscriminatorConfig::Warning(_)) => {
                Some("it takes every loss for corruption and answers no congestion at all")
            }
            _ => Some("losses alone tell it of congestion"),
        }
    }

    /// The parameters of all its parts with their values. A parameter that two parts share appears
    /// once.
    pub fn settings(&self) -> Vec<Setting> {
        let mut all: Vec<Setting> = Vec::new();
        for setting in self.axes().into_iter().flat_map(|(_, part)| part.settings()) {
            let same = |s: &Setting| s.table == setting.table && s.doc.key == setting.doc.key;
            if !all.iter().any(same) {
                all.push(setting);
            }
        }
        all
    }

    /// Sets a parameter in every part that has it, and returns whether any has. The value must have
    /// passed its check.
    pub fn set(&mut self, table: &str, key: &str, value: Value) -> bool {
        let taken = AXES.each_ref().map(|axis| (axis.part_mut)(self).set(table, key, value));
        taken.contains(&true)
    }

    /// Checks that the parameters of each part are in their ranges and go together.
    ///
    /// # Errors
    /// The first part with an error, as axis and name, and the error.
    pub fn validate(&self) -> Result<(), ((&'static str, &'static str), String)> {
        self.axes().into_iter().try_for_each(|(axis, part)| {
            part.validate().map_err(|wrong| ((axis, part.words().name), wrong))
        })
    }

    /// Checks that the composition can work, with parameters in their ranges. Every row of the
    /// table can.
    ///
    /// # Errors
    /// The first part that lacks an ability which no other part gives, or has wrong parameters.
    pub fn check(&self) -> Result<(), Incompatible> {
        if let Err((part, wrong)) = self.validate() {
            let why = format!("cannot be configured so: {wrong}");
            return Err(Incompatible { part, why, remedy: "change that value".to_owned() });
        }
        let gives = self.axes().map(|(_, part)| part.gives()).concat();
        for (axis, part) in self.axes() {
            for need in part.needs() {
                if need.any_of.iter().any(|ability| gives.contains(ability)) {
                    continue;
                }
                let wanted: Vec<&str> = need.any_of.iter().map(|a| a.words()).collect();
                let why = format!("needs {}: without it {}", wanted.join(" or "), need.why);
                let remedy = format!("take one of: {}", givers(need.any_of).join(", "));
                return Err(Incompatible { part: (axis, part.words().name), why, remedy });
            }
        }
        if !self.window.heeds_verdicts() && !self.discrimination.never_doubts() {
            return Err(Incompatible {
                part: ("window", self.window.words().name),
                why: format!(
                    "weighs losses itself and does not ask discrimination `{}` about them",
                    self.discrimination.words().name
                ),
                remedy: "take discrimination `always`, or another window".to_owned(),
            });
        }
        Ok(())
    }

    /// Whether the key of endpoints has an effect on it; `None` if there is no such key. Keys of
    /// tables are dotted, and their tables count as keys too: `ceten` and `ceten.n`.
    pub fn applies(&self, key: &str) -> Option<bool> {
        let (table, name) = key.split_once('.').unwrap_or(("", key));
        let of = |s: &Setting| s.table == table && s.doc.key == name;
        if let Some(setting) = self.settings().iter().find(|s| of(s)) {
            return Some(setting.applies);
        }
        if self.settings().iter().any(|s| table.is_empty() && s.table == name) {
            return Some(true);
        }
        let known = tables().iter().any(|t| {
            (table.is_empty() && t.name == name)
                || (t.name == table && t.settings.iter().any(|s| s.doc.key == name))
        });
        if known {
            return Some(false);
        }
        if key == "preset" {
            return Some(true); // A key of the endpoints, for any protocol.
        }
        if !EndpointConfig::DEFAULT.settings().iter().any(|setting| setting.doc.key == key) {
            return None;
        }
        Some(match key {
            "ecn" => self.can_negotiate_ecn(),
            "pacing" => !self.window.paces(),
            key => !is_selective(key) || self.reads().contains(&key),
        })
    }

    /// True if it can negotiate classic ECN: its feedback leaves the echo to the receiver, and its
    /// controller responds to marks.
    fn can_negotiate_ecn(&self) -> bool {
        self.window.answers_ecn() && self.reads().contains(&"ecn")
    }

    /// True if a connection with these endpoints negotiates classic ECN (RFC 3168): if they say so,
    /// or say nothing and the controller does by default.
    pub fn negotiates_ecn(&self, endpoint: &EndpointConfig) -> bool {
        endpoint.ecn.unwrap_or(self.window.negotiates_ecn()) && self.can_negotiate_ecn()
    }

    /// The default of a key of endpoints that is left to the protocol; `None` for all others.
    pub fn own_default(&self, key: &str) -> Option<Value> {
        (key == "ecn").then(|| Value::Bool(self.window.negotiates_ecn()))
    }

    /// The keys of endpoints that have an effect on its parts and not on those of every protocol.
    fn reads(&self) -> Vec<&'static str> {
        self.axes().map(|(_, part)| part.reads()).concat()
    }
}

/// Every part of every axis by its names, with the name of its axis.
fn all_forms() -> impl Iterator<Item = (&'static str, Words, Box<dyn AnyPart>)> {
    AXES.iter()
        .flat_map(|axis| (axis.forms)().into_iter().map(|(words, part)| (axis.name, words, part)))
}

/// True if the key of endpoints has an effect on some parts only.
fn is_selective(key: &str) -> bool {
    all_forms().any(|(_, _, part)| part.reads().contains(&key))
}

/// Every part of every axis by its names: the axis, its words, and its parameters.
pub fn parts() -> Vec<(&'static str, Words, Vec<Setting>)> {
    all_forms().map(|(axis, words, part)| (axis, words, part.settings())).collect()
}

/// The tables of the parameters of all parts of endpoints, without repetition.
pub fn tables() -> Vec<ParameterTable> {
    let mut all: Vec<ParameterTable> = Vec::new();
    for table in AXES.iter().flat_map(|axis| (axis.tables)()) {
        if !all.iter().any(|known| known.name == table.name && known.settings == table.settings) {
            all.push(table);
        }
    }
    all
}

/// The parts that give one of these abilities, as `axis name`.
fn givers(any_of: &[Ability]) -> Vec<String> {
    all_forms()
        .filter(|(_, _, part)| part.gives().iter().any(|ability| any_of.contains(ability)))
        .map(|(axis, words, _)| format!("{axis} `{}`", words.name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_can_work() {
        for protocol in PROTOCOLS {
            assert_eq!(protocol.check(), Ok(()), "{}", protocol.name);
        }
    }

    #[test]
    fn invalid_compositions_are_refused_with_a_reason() {
        let base = *find("sack").unwrap();
        let refused = |protocol: Protocol| protocol.check().unwrap_err().to_string();
        let bbr = refused(Protocol { window: ControllerConfig::Bbr(Plain), ..base });
        assert!(bbr.contains("window `bbr` needs news of each transmission by number"), "{bbr}");
        assert!(bbr.contains("recovery `packet-number`"), "{bbr}");
        let by_number = find("bbr").unwrap();
        let doubting = Protocol { discrimination: DiscriminatorConfig::Never(Plain), ..*by_number };
        assert!(refused(doubting).contains("does not ask discrimination `never`"));
        let deaf = Protocol { window: ControllerConfig::XcpR(Plain), ..base };
        assert!(refused(deaf).contains("feedback `xcp-r`"));
        let jitter = DiscriminatorConfig::JitterRatio(JitterRatioConfig {
            threshold: -1.0,
            ..JitterRatioConfig::DEFAULT
        });
        let wrong = Protocol {
            discrimination: jitter,
            feedback: FeedbackConfig::Timestamps(Plain),
            ..base
        };
        assert!(refused(wrong).contains("jtcp.threshold = -1: must be 0 to 1000"));
        // A composition that no row has, and that works.
        let free = Protocol {
            window: ControllerConfig::Cubic(CubicConfig::DEFAULT),
            recovery: RecoveryConfig::PacketNumber(Plain),
            discrimination: DiscriminatorConfig::Backlog(BacklogConfig::DEFAULT),
            ..base
        };
        assert_eq!(free.check(), Ok(()));
    }

    #[test]
    fn linux_recovers_by_rack_and_leaves_other_protocols_alone() {
        for protocol in PROTOCOLS {
            let linux = protocol.linux();
            assert_eq!(linux.check(), Ok(()), "{}", protocol.name);
            let plain =
                ["reno", "newreno", "sack", "cubic", "dctcp", "cubic-hystart", "cubic-rapid-start"]
                    .contains(&protocol.name);
            assert_eq!(
                linux.recovery == RecoveryConfig::Rack(RackConfig::DEFAULT),
                plain,
                "{}",
                protocol.name
            );
            assert!(plain || linux == *protocol, "{}", protocol.name);
        }
        let cubic = find("cubic").unwrap().linux();
        let config = CubicConfig { reno_alpha: false, linux: true, ..CubicConfig::DEFAULT };
        assert_eq!(cubic.window, ControllerConfig::Cubic(config));
    }

    #[test]
    fn keys_apply_to_whom_they_concern() {
        let applies = |name: &str, key: &str| find(name).unwrap().applies(key);
        assert_eq!(applies("veno", "veno.threshold"), Some(true));
        assert_eq!(applies("veno", "veno"), Some(true));
        assert_eq!(applies("reno", "veno.threshold"), Some(false));
        assert_eq!(applies("ceten-p", "ceten.per_segment"), Some(true));
        assert_eq!(applies("ceten-a", "ceten.per_segment"), Some(false));
        assert_eq!(applies("ceten-a", "ceten.k"), Some(true));
        assert_eq!(applies("estcp-ecn", "estcp.prior"), Some(true));
        assert_eq!(applies("estcp", "estcp.prior"), Some(false));
        assert_eq!(applies("sack-oracle", "notification"), Some(true));
        assert_eq!(applies("sack", "notification"), Some(false));
        assert_eq!(applies("bbr", "rto_floor"), Some(false));
        assert_eq!(applies("sack", "rto_floor"), Some(true));
        assert_eq!(applies("sack", "ecn"), Some(true));
        assert_eq!(applies("dctcp", "ecn"), Some(false));
        assert_eq!(applies("bbr", "pacing"), Some(false));
        assert_eq!(applies("reno", "partial_deflation"), Some(false));
        assert_eq!(applies("newreno", "partial_deflation"), Some(true));
        assert_eq!(applies("lr-xcp", "retransmission_timeout_factor"), Some(true));
        assert_eq!(applies("lr-lmxcp", "loss_monitor_guard"), Some(true));
        assert_eq!(applies("tcpw-br", "partial_deflation"), Some(true));
        assert_eq!(applies("sack", "old_duplicates"), Some(false));
        assert_eq!(applies("reno", "packet_size"), Some(true));
        assert_eq!(applies("reno", "no_such_key"), None);
        assert_eq!(applies("reno", "veno.no_such_key"), None);
    }

    #[test]
    fn upwind_alone_negotiates_ecn_by_default() {
        let negotiates = |ecn: Option<bool>| {
            let config = EndpointConfig { ecn, ..EndpointConfig::default() };
            let rows = PROTOCOLS.iter().filter(|row| row.negotiates_ecn(&config));
            rows.map(|row| row.name).collect::<Vec<_>>()
        };
        assert_eq!(negotiates(None), ["upwind"]);
        assert_eq!(negotiates(Some(false)), [""; 0]);
        let told = negotiates(Some(true));
        assert!(["newreno", "cubic", "upwind"].iter().all(|name| told.contains(name)));
        // BBR answers no marks, and DCTCP has its own echo.
        assert!(!["bbr", "dctcp"].iter().any(|name| told.contains(name)));
        let own = |name: &str, key| find(name).unwrap().own_default(key);
        assert_eq!(own("upwind", "ecn"), Some(Value::Bool(true)));
        assert_eq!(own("newreno", "ecn"), Some(Value::Bool(false)));
        assert_eq!(own("upwind", "rwnd"), None);
    }

    #[test]
    fn a_parameter_that_two_parts_share_is_set_in_both() {
        let mut veno = *find("veno").unwrap();
        assert!(veno.set("veno", "threshold", Value::Number(5.0)));
        let config = BacklogConfig { threshold: 5.0, ..BacklogConfig::DEFAULT };
        assert_eq!(veno.window, ControllerConfig::Veno(config));
        assert_eq!(veno.discrimination, DiscriminatorConfig::Backlog(config));
        assert!(!veno.set("jtcp", "threshold", Value::Number(5.0)));
    }
}
