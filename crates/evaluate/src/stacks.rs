//! Controllers behind the interfaces of QUIC stacks, with the feature `stacks`.
//!
//! The stack runs as deployed, in virtual time: its loss detection, its pacing, its packets. The
//! standards are NewReno and CUBIC of the same stack, so that a verdict is about the controller
//! and not about the stack. [`Builder::against`] takes others. [`Builder::paced`] has no effect,
//! since the stack paces.

use std::sync::Arc;

use windward_stacks::{with_noq, with_quinn, with_s2n};

pub use windward_stacks::{noq_proto, quinn_proto, s2n_quic_core};

use crate::{Builder, Source};

/// Begins the evaluation of a congestion controller of quinn:
///
/// ```
/// use std::sync::Arc;
/// use windward_evaluate::quinn_proto::congestion::NewRenoConfig;
///
/// let mine = Arc::new(NewRenoConfig::default());
/// windward_evaluate::quinn(mine).assert_meets(["high-loss"]);
/// ```
///
/// The factory is that of quinn 0.11: `quinn::congestion::ControllerFactory`.
pub fn quinn(
    factory: Arc<dyn quinn_proto::congestion::ControllerFactory + Send + Sync>,
) -> Builder {
    let make = move |name: &str| with_quinn(name, Arc::clone(&factory));
    Builder::of(Source::Stack(Box::new(make))).against(["quinn:newreno", "quinn:cubic"])
}

/// Begins the evaluation of a congestion controller of noq: as [`quinn`].
pub fn noq(factory: Arc<dyn noq_proto::congestion::ControllerFactory + Send + Sync>) -> Builder {
    let make = move |name: &str| with_noq(name, Arc::clone(&factory));
    Builder::of(Source::Stack(Box::new(make))).against(["noq:newreno", "noq:cubic"])
}

/// Begins the evaluation of a congestion controller of s2n-quic, in noq: `make` gets the largest
/// datagram, bytes. The standards are those of noq.
pub fn s2n<C>(make: impl Fn(u16) -> C + Send + Sync + 'static) -> Builder
where
    C: s2n_quic_core::recovery::CongestionController<PacketInfo: Sync> + Sync,
{
    let make = Arc::new(make);
    let make = move |name: &str| {
        let make = Arc::clone(&make);
        with_s2n(name, move |mtu| make(mtu))
    };
    Builder::of(Source::Stack(Box::new(make))).against(["noq:newreno", "noq:cubic"])
}
