//! The compositions that a QUIC stack or the TCP of a kernel can run, derived from their parts.
//!
//! Both bring their own recovery: QUIC has packet numbers and the loss detection of RFC 9002, Linux
//! has that of RFC 8985. They carry no congestion headers, and tell their controllers neither of
//! each ECN mark nor of the times at which packets arrived.

use crate::endpoint::recovery::RecoveryConfig;
use crate::network::RouterKind;
use crate::part::{Ability, AnyPart};
use crate::protocols::Protocol;

/// A sender that is not Windward's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Host {
    /// A QUIC stack.
    Quic,
    /// The TCP of a kernel, by `windward kernel`.
    Kernel,
}

impl Host {
    /// The transport, and what does not give an ability.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Host::Quic => ("QUIC", "QUIC stacks do"),
            Host::Kernel => ("TCP", "the kernel does"),
        }
    }
}

/// How much of a composition runs in a QUIC stack or a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// All of it: its recovery is that of the host.
    Whole,
    /// Everything except its recovery, which is the host's own.
    Partly,
    /// Nothing: it needs what the host does not carry or tell. It runs in the simulator and in
    /// `perf`.
    None,
}

impl Support {
    /// Its word in lists.
    pub const fn word(self) -> &'static str {
        match self {
            Support::Whole => "whole",
            Support::Partly => "partly",
            Support::None => "no",
        }
    }
}

/// How much of a composition runs there, and the reason as a sentence without a capital or a full
/// stop.
pub fn support(protocol: &Protocol, host: Host) -> (Support, String) {
    let (transport, _) = host.words();
    if let Some(why) = obstacle(protocol, host) {
        return (Support::None, format!("{why}; it runs in the simulator and in `windward perf`"));
    }
    let mut reasons = Vec::new();
    let recovery = protocol.recovery.words().name;
    let is_packet_number = matches!(protocol.recovery, RecoveryConfig::PacketNumber(_));
    let is_whole = host == Host::Quic && is_packet_number;
    reasons.push(if is_whole {
        format!("its recovery, `{recovery}`, is that of {transport}")
    } else {
        format!("recovery is {transport}'s own instead of `{recovery}`")
    });
    if protocol.feedback.stamps() {
        let feedback = protocol.feedback.words().name;
        reasons.push(format!("the feedback `{feedback}`, which it does not need, is not carried"));
    }
    let support = if is_whole { Support::Whole } else { Support::Partly };
    (support, reasons.join("; "))
}

/// The reason why a composition cannot run there, as a sentence without a capital or a full stop;
/// `None` if it can.
pub fn obstacle(protocol: &Protocol, host: Host) -> Option<String> {
    let (transport, stack) = host.words();
    let parts: [&dyn AnyPart; 2] = [&protocol.window, &protocol.discrimination];
    let gives: Vec<Ability> =
        parts.iter().flat_map(|part| part.gives()).copied().chain(GIVES).collect();
    let needs = parts.iter().flat_map(|part| part.needs());
    for need in needs {
        if !need.any_of.iter().any(|ability| gives.contains(ability)) {
            let wanted: Vec<&str> = need.any_of.iter().map(|ability| ability.words()).collect();
            let wanted = wanted.join(" or ");
            return Some(format!("it needs {wanted}, which {stack} not give"));
        }
    }
    if protocol.router != RouterKind::Any {
        let router = protocol.router.name();
        return Some(format!(
            "it needs the router {router}, whose feedback {transport} does not carry"
        ));
    }
    None
}

/// The abilities that a QUIC stack or a kernel gives to a composition.
const GIVES: [Ability; 1] = [Ability::TransmissionNumbers];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocols::{PROTOCOLS, find};

    #[test]
    fn rows_run_whole_in_part_or_not() {
        let named = |host, wanted: Support| -> Vec<&str> {
            let is = |row: &&Protocol| support(row, host).0 == wanted;
            PROTOCOLS.iter().filter(is).map(|row| row.name).collect()
        };
        // No row has the recovery of Linux, and the kernel tells what QUIC stacks tell.
        assert_eq!(named(Host::Kernel, Support::Whole), [""; 0]);
        assert_eq!(named(Host::Kernel, Support::None), named(Host::Quic, Support::None));
        let named = |wanted| named(Host::Quic, wanted);
        // RFC 9002's recovery is that of these rows (docs/protocols).
        assert_eq!(named(Support::Whole), ["bbr", "copa", "bbr1", "upwind"]);
        let none = named(Support::None);
        // They need headers, marks one by one, or times of arrival.
        for name in ["xcp", "lr-xtcp", "estcp", "ceten-p", "sack-oracle", "dctcp", "prague", "jtcp"]
        {
            assert!(none.contains(&name), "{name}: {none:?}");
        }
        let partly = named(Support::Partly);
        for name in ["reno", "cubic", "westwood", "veno", "tcpw-br", "cubic-full-queue"] {
            assert!(partly.contains(&name), "{name}: {partly:?}");
        }
    }

    #[test]
    fn reasons_name_the_parts() {
        let why = |name| support(find(name).unwrap(), Host::Quic).1;
        assert!(why("cubic").contains("instead of `sack`"), "{}", why("cubic"));
        assert!(why("upwind").contains("feedback `help`"), "{}", why("upwind"));
        assert!(why("xcp").contains("needs the feedback of XCP routers"), "{}", why("xcp"));
        assert!(why("jtcp").contains("arrival times"), "{}", why("jtcp"));
        let (_, why) = support(find("xcp").unwrap(), Host::Kernel);
        assert!(why.contains("which the kernel does not give"), "{why}");
    }
}
