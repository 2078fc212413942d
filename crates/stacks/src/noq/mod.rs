//! noq-proto 1.4, n0's fork of quinn: several paths at once, pacing that obeys the controller, BBR
//! in its third version.

use std::sync::Arc;

use noq_proto as proto;
use noq_proto::congestion::{Bbr3Config, CubicConfig, NewRenoConfig};
use windward_core::endpoint::driver::Pacer;
use windward_core::protocols::Protocol;

use self::controller::MakeDriving;
use crate::family::{Connect, Family, Own};
use crate::s2n;

#[path = "../quic/connection.rs"]
mod connection;
mod controller;
mod crypto;
mod differences;

type Controllers = dyn proto::congestion::ControllerFactory + Send + Sync;

/// Controllers that noq brings along.
const OWN: &[Own<Controllers>] = &[
    Own {
        name: "noq:cubic",
        summary: "noq with CUBIC, its default",
        source: "noq-proto 1.4.0, congestion::Cubic",
        notes: &[],
        unrepeatable: None,
        make: |_| Arc::new(CubicConfig::default()),
    },
    Own {
        name: "noq:newreno",
        summary: "noq with NewReno",
        source: "noq-proto 1.4.0, congestion::NewReno",
        notes: &[],
        unrepeatable: None,
        make: |_| Arc::new(NewRenoConfig::default()),
    },
    Own {
        name: "noq:bbr3",
        summary: "noq with version 3 of BBR",
        source: "noq-proto 1.4.0, congestion::Bbr3",
        notes: &[],
        unrepeatable: Some(
            "it draws the times of bandwidth probes from the system's randomness, and its configuration \
             has no seed",
        ),
        make: |_| Arc::new(Bbr3Config::default()),
    },
    Own {
        name: "noq:s2n-cubic",
        summary: "noq with CUBIC of s2n-quic: hybrid slow start, RFC 8312",
        source: "noq-proto 1.4.0, and s2n-quic-core 0.75.0, recovery::CubicCongestionController",
        notes: ON_S2N,
        unrepeatable: None,
        make: s2n::cubic,
    },
    Own {
        name: "noq:s2n-bbr",
        summary: "noq with BBRv2 of s2n-quic",
        source: "noq-proto 1.4.0, and s2n-quic-core 0.75.0, recovery::bbr::BbrCongestionController",
        notes: ON_S2N,
        unrepeatable: None,
        make: s2n::bbr,
    },
];

/// Notes on the controllers of s2n-quic.
const ON_S2N: &[&str] = &[
    "The controller is that of s2n-quic, called directly; everything else is noq, since s2n-quic has no core \
     without I/O. It gets each packet sent, acknowledged and lost, RTT samples that include the delay of \
     acknowledgments, and one ECN mark for each acknowledgment with any. It sets no departure times: noq \
     paces by its own rule, or at the rate of BBR.",
];

/// The stack.
pub(crate) struct Noq;

impl Family for Noq {
    type Controllers = Controllers;
    const NAME: &'static str = "noq";
    const VERSION: &'static str = "noq-proto 1.4.0";
    const PACER: Pacer = Pacer::Rate;
    const OWN: &'static [Own<Controllers>] = OWN;
    const CONNECT: Connect<Controllers> = connection::connect;

    fn drive(protocol: &Protocol, seed: u64) -> Arc<Controllers> {
        Arc::new(MakeDriving { protocol: *protocol, seed })
    }
}

/// The stack of the tests of `connection`.
#[cfg(test)]
type Tested = Noq;
