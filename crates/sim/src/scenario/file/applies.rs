//! Which keys of endpoints mean anything to which protocol.

use windward_core::endpoint::discrimination::Discrimination;
use windward_core::endpoint::feedback::Feedback;
use windward_core::endpoint::recovery::RecoveryKind;
use windward_core::endpoint::window::WindowLaw;
use windward_core::protocols::Protocol;

/// Does the key of `[endpoint]` mean anything to this protocol? `None` for what is no such key.
/// Sub-tables count as keys too: `ceten` and `ceten.n`.
pub fn applies(key: &str, protocol: &Protocol) -> Option<bool> {
    let recovery = protocol.recovery;
    match key {
        "packet_size" | "ack_size" | "initial_window" | "rwnd" | "dupack_threshold"
        | "rto_initial" | "rto_ceiling" | "clock_granularity" | "delayed_acks" | "overhead" => {
            Some(true)
        }
        "rto_floor" => Some(recovery != RecoveryKind::PacketNumber),
        "ecn" => Some(protocol.feedback == Feedback::None && !protocol.window.is_rate_based()),
        "pacing" => Some(!protocol.window.is_rate_based()),
        "retransmission_timeout_factor" => Some(recovery.has_retransmission_timer()),
        "partial_deflation" => Some(matches!(
            recovery,
            RecoveryKind::NewReno | RecoveryKind::SendOutWindow { .. } | RecoveryKind::BulkRepeat
        )),
        "loss_monitor_guard" => Some(recovery == RecoveryKind::LossMonitor),
        "timestamps" => Some(true),
        "westwood" | "westwood.estimator" | "westwood.counting" => {
            Some(matches!(protocol.window, WindowLaw::Westwood { .. }))
        }
        "bulk_repeat"
        | "bulk_repeat.maximum"
        | "bulk_repeat.repeat"
        | "bulk_repeat.fixed_timeout"
        | "bulk_repeat.timeout_window" => Some(recovery == RecoveryKind::BulkRepeat),
        "spike" | "spike.a" | "spike.b" | "spike.tick" | "rate_gap" | "rate_gap.threshold"
        | "rate_gap.reading" => Some(protocol.discrimination == Discrimination::SpikeOrRateGap),
        "notification" => Some(protocol.feedback.notification().is_some()),
        "ceten" | "ceten.timeouts" => Some(shares_errors(protocol, None)),
        "ceten.n" | "ceten.k" => Some(shares_errors(protocol, Some(true))),
        "ceten.per_segment" => Some(shares_errors(protocol, Some(false))),
        "xcp_r" | "xcp_r.formula" | "xcp_r.congestion_flag" => {
            Some(protocol.feedback == Feedback::XcpR)
        }
        _ => match key.split('.').next()? {
            "estcp" => Some(protocol.feedback == Feedback::EstcpBits),
            "veno" => Some(protocol.discrimination == Discrimination::Backlog),
            "jtcp" => Some(protocol.discrimination == Discrimination::JitterRatio),
            "new_jersey" => Some(protocol.window == WindowLaw::NewJersey),
            _ => None,
        },
    }
}

/// Is it CETEN, in this variant if one is given?
fn shares_errors(protocol: &Protocol, variant: Option<bool>) -> bool {
    match protocol.discrimination {
        Discrimination::ErrorShare { adaptive } => variant.is_none_or(|v| v == adaptive),
        _ => false,
    }
}
