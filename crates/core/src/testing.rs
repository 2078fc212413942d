//! Instants, streams and comparisons that tests of several modules share.

use crate::media::MediaSetup;
use crate::units::{Duration, Rate, Time};

/// The instant so many milliseconds after the start.
pub(crate) fn ms(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

/// Checks that the value is as expected, but for rounding.
#[track_caller]
pub(crate) fn near(value: f64, expected: f64) {
    assert!((value / expected - 1.0).abs() < 1e-9, "{value} instead of {expected}");
}

/// A stream of 150 to 1500 kbit/s that begins at `start` bits per second.
pub(crate) fn media(start: u64) -> MediaSetup {
    let rate = |bps| Rate::from_bps(bps).unwrap();
    MediaSetup {
        start: rate(start),
        least: rate(150_000),
        most: rate(1_500_000),
        fps: 30.0,
        packet_size: 1000,
    }
}
