//! Functions of quinn's interface that differ from those of noq.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use quinn_proto::{
    Connection, ConnectionIdGenerator, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig,
    SendStream, ServerConfig,
};

use super::connection::PathNumbers;

/// True if the socket spaces datagrams. Deployed programs space those of quinn, whose pacer ignores
/// the rate of a controller.
pub(super) const IS_SPACED: bool = true;

pub(super) fn endpoint(config: EndpointConfig, server: Option<Arc<ServerConfig>>) -> Endpoint {
    Endpoint::new(Arc::new(config), server, true, None)
}

pub(super) fn set_cid_generator(
    config: &mut EndpointConfig,
    make: impl Fn() -> Box<dyn ConnectionIdGenerator> + Send + Sync + 'static,
) {
    config.cid_generator(make);
}

pub(super) fn handle(
    endpoint: &mut Endpoint,
    now: Instant,
    from: SocketAddr,
    ecn: Option<EcnCodepoint>,
    datagram: BytesMut,
    response: &mut Vec<u8>,
) -> Option<DatagramEvent> {
    endpoint.handle(now, from, None, ecn, datagram, response)
}

/// Writes to the stream, and returns the number of bytes that it takes.
pub(super) fn write(mut stream: SendStream<'_>, bytes: Bytes) -> usize {
    stream.write_chunks(&mut [bytes]).map_or(0, |written| written.bytes)
}

/// The largest number of segments of a batch.
#[expect(clippy::unnecessary_wraps, reason = "noq takes no zero")]
pub(super) fn segments(most: usize) -> Option<usize> {
    Some(most)
}

#[expect(clippy::unnecessary_wraps, reason = "noq may have no path")]
pub(super) fn path(connection: &mut Connection) -> Option<PathNumbers> {
    let stats = connection.stats().path;
    Some(PathNumbers {
        cwnd: stats.cwnd,
        ssthresh: connection.congestion_state().metrics().ssthresh,
        srtt: stats.rtt,
        lost: stats.lost_packets,
    })
}
