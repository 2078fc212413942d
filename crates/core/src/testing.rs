//! Fixtures that tests of several modules share.

use crate::endpoint::EndpointConfig;
use crate::endpoint::discrimination::{DiscriminatorPart, DiscriminatorSetup};
use crate::endpoint::feedback::FeedbackConfig;
use crate::endpoint::window::{ControllerPart, ControllerSetup};
use crate::media::MediaSetup;
use crate::part::Plain;
use crate::rng::Stream;
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

/// A controller at the start of a connection.
pub(crate) fn new_controller<C: ControllerPart>(config: C::Config, endpoint: &EndpointConfig) -> C {
    let stream = Stream::new(1, "test", "window");
    let feedback = &FeedbackConfig::None(Plain);
    C::new(&config, ControllerSetup { feedback, endpoint, stream })
}

/// A discriminator at the start of a connection.
pub(crate) fn new_discriminator<D: DiscriminatorPart>(config: D::Config) -> D {
    let endpoint = &EndpointConfig::default();
    D::new(&config, DiscriminatorSetup { endpoint, stream: Stream::new(1, "t", "t") })
}
