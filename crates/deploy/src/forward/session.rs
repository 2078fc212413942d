//! A QUIC connection between a forwarder and a server: its control stream, the budget of its
//! streams, and the datagrams of its UDP flows. Both sides are alike here.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use quinn::{RecvStream, SendStream, VarInt};
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use tokio::time::{sleep, timeout};

use super::credit::{Budget, Credit, Grant, Pool};
use super::meter::Meter;
use super::wire::{self, Record};
use crate::budget;
use crate::clock;
use crate::error::Error;
use crate::sync::lock;

/// Priority of the control stream. Young streams have 1, others 0.
const CONTROL_PRIORITY: i32 = 2;
/// Largest budget, bytes.
const MOST_BUDGET: usize = 24 << 20;
/// Datagrams of one UDP flow that wait to be taken.
pub(super) const FLOW_QUEUE: usize = 64;
/// Length of the number of a flow before its payload.
const FLOW_NUMBER: usize = 4;
/// Largest payload of UDP (RFC 768), with the number of the flow.
const LARGEST_DATAGRAM: usize = 65_507 + FLOW_NUMBER;
/// Streams at once that carry datagrams too large for the path, in each direction.
const LARGE_DATAGRAMS: usize = 16;
/// Longest time of such a stream. After that the datagram would be of no use.
const LARGE_PATIENCE: Duration = Duration::from_secs(3);
/// Interval at which an answer is looked for.
const ANSWER_INTERVAL: Duration = Duration::from_millis(50);

/// A connection with its tasks, which end when the connection is closed.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) quic: quinn::Connection,
    pub(super) budget: Budget,
    pub(super) meter: Arc<Meter>,
    pool: Arc<Pool>,
    /// Grants of the peer to the streams of this side.
    credits: Mutex<HashMap<u64, Arc<Credit>>>,
    /// Offsets that the peer has yet to be told.
    grants: Mutex<HashMap<u64, u64>>,
    drain: AtomicBool,
    to_tell: Notify,
    peer_drains: watch::Sender<bool>,
    flows: Mutex<HashMap<u32, mpsc::Sender<Bytes>>>,
    large: Arc<Semaphore>,
}

impl Session {
    /// Starts the tasks of a connection. `control` is its control stream, behind the greeting, and
    /// `buffer` the number of bytes that may wait for readers, beyond the first credit of each.
    pub(super) fn start(
        quic: quinn::Connection,
        control: (SendStream, RecvStream),
        buffer: u64,
        meter: Arc<Meter>,
    ) -> Arc<Self> {
        let session = Arc::new(Session {
            quic,
            budget: Budget::new(MOST_BUDGET),
            meter,
            pool: Arc::new(Pool::new(buffer)),
            credits: Mutex::default(),
            grants: Mutex::default(),
            drain: AtomicBool::new(false),
            to_tell: Notify::new(),
            peer_drains: watch::channel(false).0,
            flows: Mutex::default(),
            large: Arc::new(Semaphore::new(LARGE_DATAGRAMS)),
        });
        let (send, recv) = control;
        // It exists, since it was just opened.
        let _ = send.set_priority(CONTROL_PRIORITY);
        tokio::spawn(Arc::clone(&session).tell(send));
        tokio::spawn(Arc::clone(&session).listen(recv));
        tokio::spawn(Arc::clone(&session).follow());
        tokio::spawn(Arc::clone(&session).take_datagrams());
        tokio::spawn(Arc::clone(&session).take_large_datagrams());
        session
    }

    /// Registers a stream, so that credits of the peer reach it. Must be called before the peer
    /// knows that this side has the stream.
    pub(super) fn lane(self: &Arc<Self>, stream: VarIntId) -> Lane {
        let credit = Arc::new(Credit::new());
        lock(&self.credits).insert(stream.0, Arc::clone(&credit));
        let grant = Mutex::new(Grant::new(Arc::clone(&self.pool), clock::now()));
        Lane { session: Arc::clone(self), stream, credit, grant }
    }

    /// Tells the peer to open no more streams.
    pub(super) fn drain(&self) {
        self.drain.store(true, Ordering::Release);
        self.to_tell.notify_one();
    }

    /// True once the peer takes no more streams.
    pub(super) fn peer_drains(&self) -> watch::Receiver<bool> {
        self.peer_drains.subscribe()
    }

    /// Closes the connection.
    pub(super) fn close(&self, code: u64, reason: &str) {
        self.quic.close(VarInt::try_from(code).unwrap_or(VarInt::MAX), reason.as_bytes());
    }

    /// Asks the peer for a packet. Returns whether any arrived within this time.
    pub(super) async fn answers(&self, patience: Duration) -> bool {
        let before = self.quic.stats().udp_rx.datagrams;
        // The peer acknowledges this datagram, and drops it, since it has no flow.
        let _ = self.quic.send_datagram(Bytes::new());
        let answer = async {
            while self.quic.stats().udp_rx.datagrams == before {
                sleep(ANSWER_INTERVAL).await;
            }
        };
        timeout(patience, answer).await.is_ok()
    }

    fn grant(&self, stream: VarIntId, offset: u64) {
        lock(&self.grants).insert(stream.0, offset);
        self.to_tell.notify_one();
    }

    /// Writes what the peer has to be told. While the path is dead, offsets of the same stream
    /// replace each other.
    async fn tell(self: Arc<Self>, mut send: SendStream) {
        let mut told_drain = false;
        loop {
            tokio::select! {
                () = self.to_tell.notified() => {}
                _ = self.quic.closed() => return,
            }
            let grants = std::mem::take(&mut *lock(&self.grants));
            let mut bytes: Vec<u8> = grants
                .into_iter()
                .flat_map(|(stream, offset)| Record::Credit { stream, offset }.encode())
                .collect();
            if self.drain.load(Ordering::Acquire) && !std::mem::replace(&mut told_drain, true) {
                bytes.extend(Record::Drain.encode());
            }
            if send.write_all(&bytes).await.is_err() {
                return;
            }
        }
    }

    /// Reads what the peer tells. A peer that ends its control stream violates the protocol.
    async fn listen(self: Arc<Self>, mut recv: RecvStream) {
        while let Ok(bytes) = wire::take(&mut recv).await {
            match Record::decode(bytes) {
                Some(Record::Credit { stream, offset }) => {
                    // Streams that have ended are of no interest.
                    if let Some(credit) = lock(&self.credits).get(&stream) {
                        credit.raise(offset);
                    }
                }
                Some(Record::Drain) => {
                    self.peer_drains.send_replace(true);
                }
                None => {}
            }
        }
        if self.quic.close_reason().is_none() {
            self.close(crate::error::REFUSED, "the control stream has ended");
        }
    }

    /// Keeps the budget at what the congestion window and the loss rate ask for.
    async fn follow(self: Arc<Self>) {
        budget::follow(&self.quic, |wanted| self.budget.resize(wanted)).await;
    }

    /// Datagrams of a UDP flow, until the receiver is dropped. None if the number is taken.
    pub(super) fn flow(self: &Arc<Self>, flow: u32) -> Option<Flow> {
        let (sender, datagrams) = mpsc::channel(FLOW_QUEUE);
        let mut flows = lock(&self.flows);
        if flows.contains_key(&flow) {
            return None;
        }
        flows.insert(flow, sender);
        Some(Flow { session: Arc::clone(self), number: flow, datagrams })
    }

    async fn take_datagrams(self: Arc<Self>) {
        while let Ok(datagram) = self.quic.read_datagram().await {
            self.pass(datagram);
        }
    }

    /// Datagrams that do not fit into a packet of this path come on streams of their own.
    async fn take_large_datagrams(self: Arc<Self>) {
        while let Ok(mut stream) = self.quic.accept_uni().await {
            let session = Arc::clone(&self);
            tokio::spawn(async move {
                let whole = stream.read_to_end(LARGEST_DATAGRAM);
                if let Ok(Ok(bytes)) = timeout(LARGE_PATIENCE, whole).await {
                    session.pass(bytes.into());
                }
            });
        }
    }

    /// Hands a datagram over to its flow. One that nobody takes is dropped, as UDP does.
    fn pass(&self, mut datagram: Bytes) {
        let known = datagram.first_chunk::<FLOW_NUMBER>().and_then(|number| {
            let number = u32::from_be_bytes(*number);
            lock(&self.flows).get(&number).cloned()
        });
        let Some(flow) = known else {
            self.meter.dropped_datagrams.inc();
            return;
        };
        datagram.advance(FLOW_NUMBER);
        match flow.try_send(datagram) {
            Ok(()) => self.meter.datagrams.inc(),
            Err(_) => self.meter.dropped_datagrams.inc(),
        };
    }
}

/// Number of a stream of QUIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct VarIntId(pub(super) u64);

impl From<quinn::StreamId> for VarIntId {
    fn from(id: quinn::StreamId) -> Self {
        VarIntId(VarInt::from(id).into_inner())
    }
}

/// A stream of a session with its credits in both directions.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) session: Arc<Session>,
    pub(super) credit: Arc<Credit>,
    stream: VarIntId,
    grant: Mutex<Grant>,
}

impl Lane {
    /// Grants the peer more than the first credit. Must be called when the peer knows the stream.
    pub(super) fn begin(&self) {
        let offset = lock(&self.grant).begin();
        if let Some(offset) = offset {
            self.session.grant(self.stream, offset);
        }
    }

    /// The reader at this side took bytes that came over this stream.
    pub(super) fn on_taken(&self, bytes: u64) {
        let rtt = self.session.quic.rtt();
        let offset = lock(&self.grant).on_taken(bytes, clock::now(), rtt);
        if let Some(offset) = offset {
            self.session.grant(self.stream, offset);
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        lock(&self.session.credits).remove(&self.stream.0);
        lock(&self.session.grants).remove(&self.stream.0);
    }
}

/// A UDP flow of a session.
#[derive(Debug)]
pub(super) struct Flow {
    session: Arc<Session>,
    number: u32,
    /// Datagrams of the peer.
    pub(super) datagrams: mpsc::Receiver<Bytes>,
}

impl Flow {
    /// Sends a datagram to the peer. It is dropped if the path has no room for it.
    pub(super) fn send(&self, payload: &[u8]) -> Result<(), Error> {
        let mut datagram = BytesMut::with_capacity(FLOW_NUMBER + payload.len());
        datagram.put_u32(self.number);
        datagram.put_slice(payload);
        let datagram = datagram.freeze();
        let quic = &self.session.quic;
        let most = quic.max_datagram_size().unwrap_or(0);
        if datagram.len() > most {
            self.send_large(datagram);
            return Ok(());
        }
        match quic.send_datagram(datagram) {
            Ok(()) => Ok(()),
            Err(quinn::SendDatagramError::ConnectionLost(error)) => Err(error.into()),
            Err(_) => {
                self.session.meter.dropped_datagrams.inc();
                Ok(())
            }
        }
    }

    /// Sends a datagram on a stream of its own.
    fn send_large(&self, datagram: Bytes) {
        let Ok(place) = Arc::clone(&self.session.large).try_acquire_owned() else {
            self.session.meter.dropped_datagrams.inc();
            return;
        };
        let session = Arc::clone(&self.session);
        tokio::spawn(async move {
            let send = async {
                let mut stream = session.quic.open_uni().await.ok()?;
                let sent = stream.write_chunk(datagram).await.is_ok() && stream.finish().is_ok();
                let arrived = sent && matches!(stream.stopped().await, Ok(None));
                Some(arrived)
            };
            if timeout(LARGE_PATIENCE, send).await != Ok(Some(true)) {
                session.meter.dropped_datagrams.inc();
            }
            drop(place);
        });
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        lock(&self.session.flows).remove(&self.number);
    }
}
