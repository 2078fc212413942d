//! quinn's congestion controllers.

congestion_controllers! {
    quinn_proto,
    watch(),
    on_ack(),
    on_congestion_event(),
    // quinn reports a mark as a congestion event without lost bytes.
    is_mark |lost| lost == 0,
    metrics(),
    watched {},
    ours {},
}
