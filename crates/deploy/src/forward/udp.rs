//! UDP flows: each has a stream, whose life is that of the flow, and datagrams that begin with its
//! number.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quinn::{RecvStream, SendStream};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::limits::Peer;
use super::link::Link;
use super::pump::{Broken, reply};
use super::reply::Reply;
use super::session::{Session, VarIntId};
use super::target::Target;
use super::wire::{ABORTED, Kind};
use crate::address::towards;
use crate::clock;

/// A flow ends after this time without a datagram. RFC 4787 (REQ-5) asks NATs for two minutes.
pub(super) const IDLE: Duration = Duration::from_secs(120);
/// Largest payload of a datagram of UDP.
const LARGEST: usize = 65_507;

/// Opens a socket to the first address to which there is a route.
///
/// # Errors
///
/// The reply for the last one.
pub(super) async fn connect(addresses: &[SocketAddr]) -> Result<UdpSocket, Reply> {
    let mut last = Reply::HostUnreachable;
    for address in addresses {
        let socket = async {
            let socket = UdpSocket::bind(towards(*address)).await?;
            socket.connect(address).await?;
            Ok::<_, std::io::Error>(socket)
        };
        match socket.await {
            Ok(socket) => return Ok(socket),
            Err(error) => last = Reply::from_connect(error.kind()),
        }
    }
    Err(last)
}

/// Number of a flow: the index of its stream.
fn number(stream: VarIntId) -> u32 {
    // The two last bits of a number of a stream are its kind (RFC 9000 section 2.1).
    u32::try_from(stream.0 >> 2).unwrap_or(u32::MAX)
}

/// Serves a flow of a peer until the peer ends it, or nothing has come for long.
pub(super) async fn serve(
    socket: UdpSocket,
    mut send: SendStream,
    mut recv: RecvStream,
    session: &Arc<Session>,
    peer: &Peer,
) {
    let Some(mut flow) = session.flow(number(send.id().into())) else { return };
    if send.write_all(&[Reply::Connected as u8]).await.is_err() {
        return;
    }
    loop {
        let step = async {
            tokio::select! {
                from_peer = flow.datagrams.recv() => {
                    let Some(datagram) = from_peer else { return false };
                    if peer.pass(clock::now()) {
                        // A datagram that cannot be sent is lost, as others.
                        let _ = socket.send(&datagram).await;
                    } else {
                        session.meter.dropped_datagrams.inc();
                    }
                    true
                }
                // No memory is held for a flow that is silent.
                ready = socket.readable() => ready.is_ok() && match receive(&socket) {
                    Ok(datagram) => flow.send(&datagram).is_ok(),
                    // Nothing there, or ICMP said that nobody listens; somebody may later.
                    Err(_) => true,
                },
                // The peer ends the flow by the end of the stream.
                _ = recv.read_chunk(1, true) => false,
            }
        };
        if !matches!(timeout(IDLE, step).await, Ok(true)) {
            break;
        }
    }
    let _ = send.finish();
    let _ = recv.stop(ABORTED);
}

fn receive(socket: &UdpSocket) -> std::io::Result<Vec<u8>> {
    let mut buffer = [0; LARGEST];
    let length = socket.try_recv(&mut buffer)?;
    Ok(buffer[..length].to_vec())
}

/// Runs a flow at the forwarder: datagrams of a program go out, and those of the target to
/// `deliver`. Ends when the channel is closed, the server ends the flow, or nothing has come for
/// long.
///
/// # Errors
///
/// If the server does not open it.
pub(super) async fn run(
    link: &Link,
    target: Target,
    mut outgoing: mpsc::Receiver<Bytes>,
    mut deliver: impl AsyncFnMut(Bytes),
) -> Result<(), Broken> {
    let (session, mut send, mut recv, lane) = link.open(Kind::Udp, target).await?;
    let mut flow = session.flow(number(send.id().into())).ok_or(Broken::Reset)?;
    reply(&mut recv).await?;
    loop {
        let step = async {
            tokio::select! {
                out = outgoing.recv() => match out {
                    Some(datagram) => flow.send(&datagram).is_ok(),
                    None => false,
                },
                back = flow.datagrams.recv() => match back {
                    Some(datagram) => {
                        deliver(datagram).await;
                        true
                    }
                    None => false,
                },
                _ = recv.read_chunk(1, true) => false,
            }
        };
        if !matches!(timeout(IDLE, step).await, Ok(true)) {
            break;
        }
    }
    let _ = send.finish();
    drop(lane);
    Ok(())
}
