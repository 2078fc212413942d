//! Properties of parts in any composition.

use super::super::recovery::RecoveryConfig;
use super::super::window::{Controller, ControllerConfig};
use super::path::TestPath;
use super::*;
use crate::part::Plain;
use crate::units::Probability;

/// The controller that never reduces its window.
const NEVER_YIELDS: &str = "fixed-window";

/// RFC 9002 section 7.6: all packets sent over more than three probe timeouts are lost. The window
/// becomes the minimum, two packets, with any controller. (BBR also keeps the packets in flight, as
/// its draft says in OnEnterRTO.)
#[test]
fn a_blackout_ends_in_the_minimum_window_with_any_controller() {
    let mut seen = 0;
    for (words, window) in ControllerConfig::forms() {
        let recovery = RecoveryConfig::PacketNumber(Plain);
        let protocol = Protocol { window, recovery, ..*protocols::plain() };
        if protocol.check().is_err() || words.name == NEVER_YIELDS {
            continue; // It needs routers or other feedback.
        }
        seen += 1;
        // 3000 packets a second over 100 ms: 300 packets fill the pipe. From 5 to 15 s nothing
        // gets through.
        let mut path = TestPath::of(&protocol, 300.0, 3000, Duration::from_millis(100));
        path.queue = 300;
        path.offer_until(u64::MAX);
        path.run(Duration::from_secs(5), |_, _| {});
        let before = path.sender.cwnd();
        assert!(before > 50.0, "{}: {before}", words.name);
        path.loss = Probability::ONE;
        path.run(Duration::from_secs(10), |_, _| {});
        path.loss = Probability::ZERO;
        let una = path.sender.sequences().una;
        let mut least = f64::INFINITY;
        while path.sender.sequences().una == una {
            path.run(Duration::from_millis(10), |_, window| least = least.min(window.cwnd()));
        }
        assert!(least <= 4.0, "{}: {before} before, {least} after", words.name);
    }
    assert!(seen >= 6, "{seen} controllers");
}

/// RFC 6298 section 5 and RFC 5681 section 3.1: the same blackout under SACK ends in a timeout and
/// a window of one packet.
#[test]
fn a_blackout_ends_in_one_packet_after_a_timeout() {
    for (words, window) in ControllerConfig::forms() {
        let protocol = Protocol { window, ..*protocols::plain() };
        if protocol.check().is_err() || words.name == NEVER_YIELDS {
            continue;
        }
        let mut path = TestPath::of(&protocol, 300.0, 3000, Duration::from_millis(100));
        path.queue = 300;
        path.offer_until(u64::MAX);
        path.run(Duration::from_secs(5), |_, _| {});
        path.loss = Probability::ONE;
        let mut least = f64::INFINITY;
        path.run(Duration::from_secs(10), |_, window| least = least.min(window.cwnd()));
        assert!(least <= 2.0, "{}: {least}", words.name);
    }
}
