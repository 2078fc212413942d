//! Where packets are sent and received, along four axes.
//!
//! Life of one acknowledgment: the [`Receiver`] echoes what the packet carried; the [`Sender`]
//! updates its estimators, reads the feedback, asks recovery what was lost and discrimination
//! what the loss means, tells the window law, and answers [`Sender::poll_transmit`] until cwnd
//! or the receiver window is full.

use self::discrimination::{CetenConfig, JtcpConfig, RateGapConfig, SpikeConfig, VenoConfig};
use self::feedback::{Direction, XcpRConfig};
use self::recovery::BulkRepeatConfig;
use self::window::{EstcpConfig, NewJerseyConfig, WestwoodConfig};
use crate::units::Duration;

pub mod discrimination;
pub mod estimator;
pub mod feedback;
mod pacer;
mod range_set;
mod receiver;
pub mod recovery;
mod sender;
pub mod window;

pub use range_set::{Added, RangeSet};
pub use receiver::{Receiver, ReceiverStats};
pub use sender::{Sender, SenderStats};

/// Parameters of the two endpoints of a connection. Windows are counted in packets.
#[derive(Debug, Clone, PartialEq)]
pub struct EndpointConfig {
    /// Size of a data packet on the wire, bytes.
    pub packet_size: u32,
    /// Size of an acknowledgment on the wire, bytes.
    pub ack_size: u32,
    /// Congestion window at the start, packets, at least 1.
    pub initial_window: f64,
    /// Receiver window, packets: bound on the send-out window and on what the receiver stores
    /// out of order.
    pub rwnd: u64,
    /// Duplicate acknowledgments that mean a loss (lr2008: `dupackthreshold`), at least 1.
    pub dupack_threshold: u32,
    /// Lower bound of the retransmission timeout. RFC 6298 says 1 s; ns-2 and Linux use 200 ms.
    pub rto_floor: Duration,
    /// Retransmission timeout before the first RTT sample (RFC 6298: 1 s).
    pub rto_initial: Duration,
    /// Upper bound of the backed-off timeout (RFC 6298: at least 60 s).
    pub rto_ceiling: Duration,
    /// Timestamps (RFC 7323): every acknowledgment of new data gives an RTT sample and ends the
    /// back-off. Without them one packet at a time does, and no retransmission (Karn), but for
    /// recovery by packet number, which needs none.
    pub timestamps: bool,
    /// Tick of the clock that RTT samples are measured with; zero is an ideal clock.
    pub clock_granularity: Duration,
    /// lr2008 section 4.3: retransmission timeout over recovery timeout, at least 1.
    pub retransmission_timeout_factor: f64,
    /// Acknowledge every second packet, or after this time; `None` acknowledges each at once.
    pub delayed_acks: Option<Duration>,
    /// Each data packet leaves after a processing time drawn uniformly from zero to this, never
    /// before the one sent earlier. It breaks the phase effects of deterministic DropTail queues
    /// (Floyd and Jacobson 1992, section 4, who take the bottleneck's time for one packet);
    /// ns-2 calls it `overhead_`. Zero sends at once.
    pub overhead: Duration,
    /// Negotiate ECN (RFC 3168) on protocols that have no feedback of their own and whose law
    /// answers marks; BBR's does not.
    pub ecn: bool,
    /// Pace packets at 1.25 cwnd per smoothed RTT (RFC 9002 section 7.7) where the protocol has no
    /// pacing of its own.
    pub pacing: bool,
    /// Deflate the send-out window on a partial acknowledgment by what it acknowledged instead
    /// of resetting it (lr2008 section 4.1; RFC 6582 step 5). Only for protocols that do so.
    pub partial_deflation: bool,
    /// lr2008 section 5.2, last sentence, read literally: after a retransmission the count of
    /// later acknowledgments starts again only when one arrives for a packet sent more than a
    /// window after it. The default reading needs no such guard: see `recovery::loss_monitor`.
    pub loss_monitor_guard: bool,
    /// Parameters of `estcp-ecn`.
    pub estcp: EstcpConfig,
    /// Parameters of `veno`.
    pub veno: VenoConfig,
    /// Parameters of `jtcp`.
    pub jtcp: JtcpConfig,
    /// Parameters of `new-jersey`.
    pub new_jersey: NewJerseyConfig,
    /// Parameters of the Westwood windows.
    pub westwood: WestwoodConfig,
    /// Parameters of Bulk Repeat.
    pub bulk_repeat: BulkRepeatConfig,
    /// Parameters of discrimination by spikes of the RTT.
    pub spike: SpikeConfig,
    /// Parameters of discrimination by the gap between expected and achieved rate.
    pub rate_gap: RateGapConfig,
    /// Which way notices of corruption reach the sender (eten2004 section 3.3.5): `None` as the
    /// protocol's paper has it, backward for the Oracle and forward for CETEN.
    pub notification: Option<Direction>,
    /// Parameters of CETEN (eten2004 section 4.3).
    pub ceten: CetenConfig,
    /// Parameters of `xcp-r`.
    pub xcp_r: XcpRConfig,
}

impl Default for EndpointConfig {
    fn default() -> Self {
        EndpointConfig {
            packet_size: 1000,
            ack_size: 40,
            initial_window: 2.0,
            rwnd: 1 << 20,
            dupack_threshold: 3,
            rto_floor: Duration::from_millis(200),
            rto_initial: Duration::from_secs(1),
            rto_ceiling: Duration::from_secs(60),
            timestamps: true,
            clock_granularity: Duration::from_millis(10),
            retransmission_timeout_factor: 2.0,
            delayed_acks: None,
            overhead: Duration::ZERO,
            ecn: false,
            pacing: false,
            partial_deflation: true,
            loss_monitor_guard: false,
            estcp: EstcpConfig::default(),
            veno: VenoConfig::default(),
            jtcp: JtcpConfig::default(),
            new_jersey: NewJerseyConfig::default(),
            westwood: WestwoodConfig::default(),
            bulk_repeat: BulkRepeatConfig::default(),
            spike: SpikeConfig::default(),
            rate_gap: RateGapConfig::default(),
            notification: None,
            ceten: CetenConfig::default(),
            xcp_r: XcpRConfig::default(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
