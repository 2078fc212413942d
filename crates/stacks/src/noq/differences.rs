//! Functions of noq's interface that differ from those of quinn.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use noq_proto::{
    Connection, ConnectionIdGenerator, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig,
    PathId, SendStream, ServerConfig,
};

use super::connection::PathNumbers;

/// True if the socket spaces datagrams. noq's pacer obeys the rate of a controller.
pub(super) const IS_SPACED: bool = false;

pub(super) fn endpoint(config: EndpointConfig, server: Option<Arc<ServerConfig>>) -> Endpoint {
    Endpoint::new(Arc::new(config), server, true)
}

pub(super) fn set_cid_generator(
    config: &mut EndpointConfig,
    make: impl Fn() -> Box<dyn ConnectionIdGenerator> + Send + Sync + 'static,
) {
    config.cid_generator(Arc::new(make));
}

pub(super) fn handle(
    endpoint: &mut Endpoint,
    now: Instant,
    from: SocketAddr,
    ecn: Option<EcnCodepoint>,
    datagram: BytesMut,
    response: &mut Vec<u8>,
) -> Option<DatagramEvent> {
    endpoint.handle(now, from.into(), ecn, datagram, response)
}

/// Writes to the stream, and returns the number of bytes that it takes.
pub(super) fn write(mut stream: SendStream<'_>, bytes: Bytes) -> usize {
    stream.write_chunks(&mut &mut [bytes][..]).unwrap_or(0)
}

/// The largest number of segments of a batch.
pub(super) fn segments(most: usize) -> Option<NonZeroUsize> {
    NonZeroUsize::new(most)
}

/// The first path is the only one.
pub(super) fn path(connection: &mut Connection) -> Option<PathNumbers> {
    let stats = connection.path_stats(PathId::ZERO)?;
    let metrics = connection.congestion_state(PathId::ZERO)?.metrics();
    Some(PathNumbers {
        cwnd: stats.cwnd,
        ssthresh: metrics.ssthresh,
        srtt: stats.rtt,
        lost: stats.lost_packets,
    })
}
