//! quinn's congestion controllers. Those of Windward are the ones of deployed programs.

use windward_quic::Live;

use crate::watched::Figured;

watching_controller! {
    quinn_proto,
    watch(),
    on_ack(),
    on_congestion_event(),
    shown |controller| Live::of(controller).map(|live| Box::new(move || live.figures()) as Figured),
    watched {},
}
