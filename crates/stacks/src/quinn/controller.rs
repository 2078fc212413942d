//! quinn's congestion controllers. Those of Windward are the ones of deployed programs.

use windward_core::endpoint::driver::Figures;
use windward_core::units::Time;
use windward_quic::Live;

use crate::clock;
use crate::watched::Driven;

impl Driven for Live {
    fn figures(&self) -> Figures {
        Live::figures(self)
    }

    fn depart(&self, now: Time, bytes: usize) -> Option<Time> {
        Live::depart(self, clock::instant(now), bytes).map(clock::time)
    }
}

watching_controller! {
    quinn_proto,
    watch(),
    on_ack(),
    on_congestion_event(),
    shown |controller| Live::of(controller).map(|live| Box::new(live) as Box<dyn Driven>),
    watched {},
}
