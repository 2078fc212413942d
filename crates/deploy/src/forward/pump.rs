//! The bytes of one forwarded connection: between a TCP socket and a stream of QUIC, in both
//! directions.
//!
//! The end of one direction (FIN) is passed on as such, and the other direction goes on. Whatever
//! breaks (a reset of TCP, a reset of the stream, the loss of the QUIC connection) breaks both
//! directions, and arrives at the other end as a reset.

use std::future;
use std::io::{self, ErrorKind, IoSlice};
use std::time::Duration;

use bytes::{Buf, Bytes};
use quinn::{ReadError, RecvStream, SendStream, WriteError};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::activity::Activity;
use super::credit::{Age, PIECE, piece};
use super::reply::Reply;
use super::session::Lane;
use super::wire::ABORTED;
use crate::clock;

/// Longest time until a server has replied to a request. It has its own limit for the target.
pub(super) const REPLY_PATIENCE: Duration = Duration::from_secs(30);
/// Receive buffer of a socket: bytes that this side took from a program and has not sent on.
const RECEIVE_BUFFER: usize = 128 << 10;
/// Bytes in the send buffer of a socket that its kernel has not sent yet, above which it takes no
/// more.
const NOT_SENT: u32 = 128 << 10;
/// Time without a segment after which TCP asks whether the other end is still there, interval of
/// these probes, and number of those without an answer that end the connection.
const PROBE_AFTER: Duration = Duration::from_secs(30);
const PROBE_INTERVAL: Duration = Duration::from_secs(10);
const PROBES: u32 = 6;
/// Chunks of a stream that are written to the socket by one call.
const CHUNKS: usize = 16;

/// Why a forwarded connection broke.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    /// The socket failed, mostly by a reset.
    #[error("{0}")]
    Tcp(#[from] io::Error),
    /// The peer reset the stream.
    #[error("reset by the other end")]
    Reset,
    /// The QUIC connection is lost.
    #[error("the connection to the peer is lost")]
    Lost,
    /// Nothing was said for too long.
    #[error("silent for {} s", .0.as_secs())]
    Silent(Duration),
    /// The server did not connect.
    #[error("{0}")]
    Refused(Reply),
}

/// Prepares a TCP socket: small writes go out at once, and the kernel buffers little, so that
/// back-pressure reaches the program at the other end.
pub(super) fn prepare(tcp: &TcpStream) {
    let socket = SockRef::from(tcp);
    // They fail only on a socket that is broken already, which the pump finds out.
    let _ = socket.set_tcp_nodelay(true);
    let _ = socket.set_tcp_notsent_lowat(NOT_SENT);
    let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
    // The system of a program that has gone answers for a while, and then with a reset.
    let probes = TcpKeepalive::new().with_time(PROBE_AFTER).with_interval(PROBE_INTERVAL);
    let _ = socket.set_tcp_keepalive(&probes.with_retries(PROBES));
}

/// Carries bytes until both directions have ended. If `expects_reply`, the first byte of the stream
/// is the reply to the request; bytes of the socket go out before it comes. It ends
/// early if `activity` says so.
///
/// # Errors
///
/// If either side broke: both ends get a reset.
pub(super) async fn pump(
    tcp: TcpStream,
    (mut send, mut recv): (SendStream, RecvStream),
    lane: &Lane,
    expects_reply: bool,
    activity: &Activity,
) -> Result<(), Broken> {
    // Boxed, since a task has the size of its largest state.
    let carried = Box::pin(carry(&tcp, &mut send, &mut recv, lane, expects_reply, activity)).await;
    if carried.is_err() {
        abort(tcp, &mut send, &mut recv);
    }
    carried
}

async fn carry(
    tcp: &TcpStream,
    send: &mut SendStream,
    recv: &mut RecvStream,
    lane: &Lane,
    expects_reply: bool,
    activity: &Activity,
) -> Result<(), Broken> {
    let stopped = send.stopped();
    let peer = async {
        match stopped.await {
            // All was acknowledged, or the stream is finished.
            Ok(None) => future::pending().await,
            Ok(Some(_)) => Broken::Reset,
            Err(_) => Broken::Lost,
        }
    };
    let both = async {
        tokio::try_join!(up(tcp, send, lane, activity), async {
            if expects_reply {
                reply(recv).await?;
                lane.begin();
            }
            down(tcp, recv, lane, activity).await
        })
    };
    tokio::select! {
        done = both => done.map(|((), ())| ()),
        broken = peer => Err(broken),
        error = failure(tcp) => Err(Broken::Tcp(error)),
        silent = activity.silence() => Err(Broken::Silent(silent)),
    }
}

/// Ends a broken connection: a reset at both ends.
pub(super) fn abort(tcp: TcpStream, send: &mut SendStream, recv: &mut RecvStream) {
    // Those that are closed already need no reset.
    let _ = send.reset(ABORTED);
    let _ = recv.stop(ABORTED);
    reset(tcp);
}

/// Closes a socket with a reset.
pub(super) fn reset(tcp: TcpStream) {
    let _ = SockRef::from(&tcp).set_linger(Some(Duration::ZERO));
    drop(tcp);
}

/// Reads the reply of a server.
///
/// # Errors
///
/// If it is not [`Reply::Connected`], or does not come.
pub(super) async fn reply(recv: &mut RecvStream) -> Result<(), Broken> {
    let mut code = [0];
    match timeout(REPLY_PATIENCE, recv.read_exact(&mut code)).await {
        Ok(Ok(())) => match Reply::of(code[0]) {
            Reply::Connected => Ok(()),
            other => Err(Broken::Refused(other)),
        },
        Ok(Err(quinn::ReadExactError::ReadError(error))) => Err(broken_by(&error)),
        Ok(Err(quinn::ReadExactError::FinishedEarly(_))) => Err(Broken::Reset),
        Err(_) => Err(Broken::Refused(Reply::TimedOut)),
    }
}

fn broken_by(error: &ReadError) -> Broken {
    match error {
        ReadError::ConnectionLost(_) => Broken::Lost,
        _ => Broken::Reset,
    }
}

/// Completes when the socket has failed, also while nobody reads or writes it.
async fn failure(tcp: &TcpStream) -> io::Error {
    match tcp.ready(Interest::ERROR).await {
        Ok(_) => match tcp.take_error() {
            Ok(Some(error)) | Err(error) => error,
            // Somebody else has read it.
            Ok(None) => ErrorKind::ConnectionReset.into(),
        },
        Err(error) => error,
    }
}

/// From the socket to the stream.
async fn up(
    tcp: &TcpStream,
    send: &mut SendStream,
    lane: &Lane,
    activity: &Activity,
) -> Result<(), Broken> {
    let session = &lane.session;
    let mut age = Age::new(clock::now());
    let mut sent = 0;
    let mut was_young = None;
    loop {
        // Nothing is reserved, and no memory held, for a socket that is silent.
        tcp.readable().await?;
        let credit = lane.credit.after(sent).await;
        let is_young = age.is_young(clock::now());
        let share = session.budget.take(usize::try_from(credit).unwrap_or(PIECE), is_young).await;
        let data = match read(tcp, share.num_permits()) {
            Ok(data) => data,
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error.into()),
        };
        if data.is_empty() {
            break;
        }
        if was_young != Some(is_young) {
            // The stream is open, else the write says so.
            let _ = send.set_priority(i32::from(is_young));
            was_young = Some(is_young);
        }
        let length = data.len();
        age.on_sent(length);
        sent += length as u64;
        send.write_chunk(piece(data, share)).await.map_err(|error| match error {
            WriteError::ConnectionLost(_) => Broken::Lost,
            _ => Broken::Reset,
        })?;
        session.meter.sent_bytes.inc_by(length as u64);
        activity.touch();
    }
    activity.end_direction();
    // A stream that is closed already was stopped, which is found out below.
    let _ = send.finish();
    match send.stopped().await {
        Ok(None) => Ok(()),
        Ok(Some(_)) => Err(Broken::Reset),
        Err(_) => Err(Broken::Lost),
    }
}

/// Reads what is there, up to `most` bytes. The buffer is on the stack, so that what waits in QUIC
/// has no more memory than bytes.
fn read(tcp: &TcpStream, most: usize) -> io::Result<Vec<u8>> {
    let mut buffer = [0; PIECE];
    let length = tcp.try_read(&mut buffer[..most.min(PIECE)])?;
    Ok(buffer[..length].to_vec())
}

/// From the stream to the socket.
async fn down(
    tcp: &TcpStream,
    recv: &mut RecvStream,
    lane: &Lane,
    activity: &Activity,
) -> Result<(), Broken> {
    let mut chunks: [Bytes; CHUNKS] = std::array::from_fn(|_| Bytes::new());
    loop {
        match recv.read_chunks(&mut chunks).await {
            Ok(Some(count)) => {
                let chunks = &mut chunks[..count];
                let length: usize = chunks.iter().map(Bytes::len).sum();
                // A reset must not wait for a reader that does not read.
                let reset = async {
                    match recv.received_reset().await {
                        Ok(Some(_)) => Broken::Reset,
                        Ok(None) => future::pending().await,
                        Err(_) => Broken::Lost,
                    }
                };
                activity.set_stuck(true);
                tokio::select! {
                    biased;
                    written = write(tcp, chunks) => written?,
                    broken = reset => return Err(broken),
                }
                activity.set_stuck(false);
                lane.on_taken(length as u64);
                lane.session.meter.received_bytes.inc_by(length as u64);
                activity.touch();
            }
            Ok(None) => {
                activity.end_direction();
                match SockRef::from(tcp).shutdown(std::net::Shutdown::Write) {
                    // It is closed already.
                    Err(error) if error.kind() != ErrorKind::NotConnected => {
                        return Err(error.into());
                    }
                    _ => return Ok(()),
                }
            }
            Err(error) => return Err(broken_by(&error)),
        }
    }
}

/// Writes all chunks, and leaves them empty.
async fn write(tcp: &TcpStream, chunks: &mut [Bytes]) -> io::Result<()> {
    let mut first = 0;
    while first < chunks.len() {
        let slices: [IoSlice<'_>; CHUNKS] = std::array::from_fn(|index| {
            IoSlice::new(chunks.get(first + index).map_or(&[], AsRef::as_ref))
        });
        let count = (chunks.len() - first).min(CHUNKS);
        let mut written = match tcp.try_write_vectored(&slices[..count]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => written,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                tcp.writable().await?;
                continue;
            }
            Err(error) => return Err(error),
        };
        while written > 0 {
            let length = chunks[first].len().min(written);
            chunks[first].advance(length);
            written -= length;
            if chunks[first].is_empty() {
                chunks[first] = Bytes::new();
                first += 1;
            }
        }
        // Chunks are never empty at first, since quinn gives none.
    }
    Ok(())
}
