//! Both ends of a connection of quinn and of its fork noq: compiled with each of them. The
//! differences between their interfaces are in the modules around it.

use std::collections::VecDeque;
use std::fmt;
use std::net::Ipv4Addr;
use std::ops::Range;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::BytesMut;
use windward_core::endpoint::driver::Spacing;
use windward_core::rng::Stream;
use windward_core::units::{Duration, Time};
use windward_sim::stack::{
    Codepoint, Connection, End, PacketFacts, StackConfig, StackReport, StackSetup,
};

use super::controller::Watching;
use super::crypto::{Null, TokenKey};
use super::differences;
use super::proto::congestion::ControllerFactory;
use super::proto::{
    self, ClientConfig, ConnectionError, ConnectionHandle, ConnectionId, ConnectionIdGenerator,
    DatagramEvent, Dir, EcnCodepoint, Endpoint, EndpointConfig, Event, MtuDiscoveryConfig,
    NoneTokenStore, ServerConfig, StreamEvent, StreamId, TimeSource, TransportConfig,
    ValidationTokenConfig, VarInt,
};
use crate::application::Application;
use crate::watched::Watched;
use crate::{clock, random, wire};

/// Both ends.
pub(super) struct Pair {
    ends: [Peer; 2],
    application: Application,
    streams: Vec<StreamId>,
    /// Index of the next stream to write.
    turn: usize,
    /// True once all streams have been finished.
    ended: bool,
    /// True if it was stopped before that.
    stopped: bool,
    connected: bool,
    acknowledged: u32,
    delivered: u64,
    watched: Arc<Watched>,
    /// State of the sender's path after the last event.
    path: PathNumbers,
    failure: Option<Arc<str>>,
}

/// State of a path, as the stack reports it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PathNumbers {
    pub(super) cwnd: u64,
    pub(super) ssthresh: Option<u64>,
    pub(super) srtt: std::time::Duration,
    pub(super) lost: u64,
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair").field("report", &self.report()).finish_non_exhaustive()
    }
}

/// One end: its endpoint, and its connection once there is one.
struct Peer {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, proto::Connection)>,
    client: Option<ClientConfig>,
    /// Datagrams of the endpoint itself: refusals and resets.
    responses: VecDeque<Vec<u8>>,
    batch: Batch,
    /// Largest number of datagrams of a batch.
    segments: usize,
    /// Largest payload that the path carries, bytes.
    largest: usize,
    /// Largest packet number in each space that a log has seen.
    numbers: [Option<u64>; 3],
    /// Earliest time at which its timer may fire: later than the last time.
    earliest: Time,
    /// Departure of the datagram that waits for its turn.
    held: Option<Time>,
}

/// Makes both ends of a connection. `watched` records what happens at the sender.
pub(super) fn connect(
    setup: &StackSetup,
    controller: Arc<dyn ControllerFactory + Send + Sync>,
    watched: Arc<Watched>,
) -> Box<dyn Connection> {
    Box::new(Pair::new(setup, controller, watched))
}

/// Datagrams of a connection that leave back to back.
struct Batch {
    bytes: Vec<u8>,
    /// Length of each but the last.
    segment: usize,
    /// Place of the next one.
    next: usize,
    ecn: Codepoint,
}

impl Batch {
    /// True if all of it has left.
    fn is_empty(&self) -> bool {
        self.next >= self.bytes.len()
    }

    /// The place of the next datagram.
    fn datagram(&self) -> Range<usize> {
        self.next..(self.next + self.segment).min(self.bytes.len())
    }
}

impl Pair {
    fn new(
        setup: &StackSetup,
        controller: Arc<dyn ControllerFactory + Send + Sync>,
        watched: Arc<Watched>,
    ) -> Self {
        let now = clock::instant(Time::ZERO);
        let mtu = first_mtu(&setup.config);
        let cwnd = Arc::clone(&controller).build(now, mtu).window();
        let of_sender = Watching { of: Arc::clone(&controller), watched: Arc::clone(&watched) };
        let application = Application::new(setup);
        Pair {
            ends: [
                Peer::client(setup, Arc::new(of_sender)),
                Peer::server(setup, controller, application.streams()),
            ],
            application,
            streams: Vec::new(),
            turn: 0,
            ended: false,
            stopped: false,
            connected: false,
            acknowledged: 0,
            delivered: 0,
            watched,
            path: PathNumbers { cwnd, ..PathNumbers::default() },
            failure: None,
        }
    }

    /// Exchanges the events between the parts of an end and the application.
    fn settle(&mut self, end: End) {
        let peer = &mut self.ends[end as usize];
        let Some((handle, connection)) = &mut peer.connection else { return };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = peer.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        let mut writes = false;
        while let Some(event) = connection.poll() {
            match (event, end) {
                (Event::ConnectionLost { reason }, _) => {
                    self.failure.get_or_insert_with(|| explained(&reason, end));
                }
                (Event::Connected, End::Sender) => {
                    self.connected = true;
                    let streams = std::iter::from_fn(|| connection.streams().open(Dir::Uni));
                    self.streams.extend(streams.take(self.application.streams() as usize));
                    writes = true;
                }
                (Event::Stream(StreamEvent::Writable { .. }), End::Sender) => writes = true,
                (Event::Stream(StreamEvent::Finished { .. }), End::Sender) => {
                    self.acknowledged += 1;
                }
                (Event::Stream(StreamEvent::Opened { dir }), End::Receiver) => {
                    while let Some(id) = connection.streams().accept(dir) {
                        self.delivered += read(connection, id);
                    }
                }
                (Event::Stream(StreamEvent::Readable { id }), End::Receiver) => {
                    self.delivered += read(connection, id);
                }
                _ => {}
            }
        }
        if writes {
            self.write();
        }
        self.look(end);
    }

    /// Reads the state of the sender's path.
    fn look(&mut self, end: End) {
        if end == End::Sender
            && let Some((_, connection)) = &mut self.ends[End::Sender as usize].connection
            && let Some(path) = differences::path(connection)
        {
            self.path = path;
        }
    }

    /// True if the next datagram of the sender waits, as at the socket of a deployed endpoint: full
    /// ones leave at the pacing rate of a controller of Windward. Batches of small ones do not ask.
    fn holds(&mut self, now: Time) -> bool {
        let peer = &mut self.ends[End::Sender as usize];
        peer.held = None;
        if !differences::IS_SPACED {
            return false;
        }
        let Some(driver) = self.watched.driver() else { return false };
        if let Some(datagram) = peer.next_datagram(clock::instant(now))
            && peer.batch.segment >= Spacing::FULL
        {
            peer.held = driver.depart(now, datagram.len());
        }
        peer.held.is_some()
    }

    /// Writes data of the application into streams that take it.
    fn write(&mut self) {
        let Some((_, connection)) = &mut self.ends[End::Sender as usize].connection else { return };
        let window = self.path.cwnd;
        let mut blocked = 0;
        while blocked < self.streams.len()
            && let Some(zeros) = self.application.next(window)
        {
            let stream = self.streams[self.turn];
            self.turn = (self.turn + 1) % self.streams.len();
            match differences::write(connection.send_stream(stream), zeros) {
                // It is writable again after an update by the peer.
                0 => blocked += 1,
                written => {
                    self.application.wrote(written);
                    blocked = 0;
                }
            }
        }
        if self.application.is_finished() && !self.streams.is_empty() && !self.ended {
            self.ended = true;
            for stream in &self.streams {
                // A stream that the peer stopped needs no end.
                let _ = connection.send_stream(*stream).finish();
            }
        }
    }
}

/// Reads the data of a stream in order, and returns the number of bytes.
fn read(connection: &mut proto::Connection, id: StreamId) -> u64 {
    let mut bytes = 0;
    let mut stream = connection.recv_stream(id);
    let Ok(mut chunks) = stream.read(true) else { return 0 };
    // It ends with the stream, at a gap, or with a reset.
    while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
        bytes += chunk.bytes.len() as u64;
    }
    // The engine requests packets in any case.
    let _ = chunks.finalize();
    bytes
}

fn explained(reason: &ConnectionError, end: End) -> Arc<str> {
    let who = match end {
        End::Sender => "sender",
        End::Receiver => "receiver",
    };
    format!("the {who}'s connection was lost: {reason}").into()
}

impl Connection for Pair {
    fn start(&mut self, now: Time) {
        let peer = &mut self.ends[End::Sender as usize];
        let Some(config) = peer.client.take() else { return };
        match peer.endpoint.connect(clock::instant(now), config, SERVER.into(), "server") {
            Ok(connection) => peer.connection = Some(connection),
            Err(error) => {
                let reason = format!("the sender cannot connect: {error}");
                self.failure.get_or_insert(reason.into());
            }
        }
        self.settle(End::Sender);
    }

    fn stop(&mut self, _now: Time) {
        if self.stopped || self.ended {
            return;
        }
        self.stopped = true;
        self.ended = true;
        self.application.stop();
        let Some((_, connection)) = &mut self.ends[End::Sender as usize].connection else { return };
        for stream in &self.streams {
            // Data that was written ahead is not sent any more.
            let _ = connection.send_stream(*stream).reset(VarInt::from_u32(0));
        }
    }

    fn receive(&mut self, now: Time, end: End, payload: &[u8], ecn: Codepoint) {
        self.ends[end as usize].receive(clock::instant(now), end, payload, ecn);
        self.settle(end);
    }

    fn poll_transmit(&mut self, now: Time, end: End, payload: &mut Vec<u8>) -> Option<Codepoint> {
        if end == End::Sender && self.ends[end as usize].batch.is_empty() {
            self.write();
        }
        if end == End::Sender && self.holds(now) {
            return None;
        }
        let ecn = self.ends[end as usize].poll_transmit(clock::instant(now), payload)?;
        if end == End::Sender {
            self.application.sent(payload.len());
            self.look(end);
        }
        Some(ecn)
    }

    fn describe(&mut self, from: End, payload: &[u8]) -> Vec<PacketFacts> {
        wire::packets(payload, CID, &mut self.ends[from as usize].numbers)
    }

    fn next_timer(&mut self, end: End) -> Time {
        let peer = &mut self.ends[end as usize];
        let connection = peer.connection.as_mut();
        let due = connection.and_then(|(_, connection)| connection.poll_timeout());
        let due = due.map_or(Time::NEVER, clock::time).max(peer.earliest);
        peer.held.map_or(due, |until| due.min(until))
    }

    fn on_timer(&mut self, now: Time, end: End) {
        let peer = &mut self.ends[end as usize];
        // A real clock advances between two calls. Virtual time does not: a pacer that waits for
        // less than a nanosecond would be woken at the same instant for ever.
        peer.earliest = clock::tick(now);
        if let Some((_, connection)) = &mut peer.connection {
            connection.handle_timeout(clock::instant(now));
        }
        self.settle(end);
    }

    fn report(&self) -> StackReport {
        let PathNumbers { cwnd, ssthresh, srtt, lost } = self.path;
        let rtts = self.watched.rtts();
        StackReport {
            cwnd,
            // NewReno and CUBIC have the largest number before the first loss.
            ssthresh: ssthresh.filter(|bytes| *bytes != u64::MAX),
            in_flight: self.watched.in_flight(),
            srtt: if rtts.1 > 0 { clock::span(srtt) } else { Duration::ZERO },
            rtts,
            lost,
            delivered: self.delivered,
            refused_windows: self.watched.refused_windows(),
            connected: self.connected,
            completed: !self.stopped
                && self.ended
                && self.acknowledged == self.streams.len() as u32,
            failure: self.failure.clone(),
        }
    }
}

/// Addresses for documentation (RFC 5737): nothing depends on them.
const SERVER: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 443);
const CLIENT: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 2), 49_152);

impl Peer {
    fn client(setup: &StackSetup, controller: Arc<dyn ControllerFactory + Send + Sync>) -> Self {
        let mut config = ClientConfig::new(Arc::new(Null));
        let first: [u8; CID] = random::bytes(setup.seed, "first connection id");
        config
            .transport_config(transport(&setup.config, controller, 0))
            .token_store(Arc::new(NoneTokenStore))
            .initial_dst_cid_provider(Arc::new(move || ConnectionId::new(&first)));
        Peer::new(setup, "client", None, Some(config))
    }

    fn server(
        setup: &StackSetup,
        controller: Arc<dyn ControllerFactory + Send + Sync>,
        streams: u32,
    ) -> Self {
        let mut config = ServerConfig::new(Arc::new(Null), Arc::new(TokenKey(setup.seed)));
        let mut tokens = ValidationTokenConfig::default();
        tokens.sent(0);
        config
            .transport_config(transport(&setup.config, controller, streams))
            .validation_token_config(tokens)
            .time_source(Arc::new(NoClock));
        Peer::new(setup, "server", Some(Arc::new(config)), None)
    }

    fn new(
        setup: &StackSetup,
        name: &str,
        server: Option<Arc<ServerConfig>>,
        client: Option<ClientConfig>,
    ) -> Self {
        let seed = Stream::new(setup.seed, "stack", name).bits();
        let mut config = EndpointConfig::new(Arc::new(TokenKey(seed)));
        config.rng_seed(Some(random::bytes(seed, "endpoint")));
        differences::set_cid_generator(&mut config, move || {
            Box::new(Cids(Stream::new(seed, "stack", "connection ids")))
        });
        // Sizes in scenarios are within its bounds.
        let _ = config.max_udp_payload_size(largest_tried(&setup.config));
        Peer {
            endpoint: differences::endpoint(config, server),
            connection: None,
            client,
            responses: VecDeque::new(),
            batch: Batch { bytes: Vec::new(), segment: 0, next: 0, ecn: Codepoint::NotEct },
            segments: setup.config.segments as usize,
            largest: setup.config.payload() as usize,
            numbers: [None; 3],
            earliest: Time::ZERO,
            held: None,
        }
    }

    fn receive(&mut self, now: std::time::Instant, end: End, payload: &[u8], ecn: Codepoint) {
        let from = match end {
            End::Sender => SERVER,
            End::Receiver => CLIENT,
        };
        let ecn = match ecn {
            Codepoint::NotEct => None,
            Codepoint::Ect0 => Some(EcnCodepoint::Ect0),
            Codepoint::Ect1 => Some(EcnCodepoint::Ect1),
            Codepoint::Ce => Some(EcnCodepoint::Ce),
        };
        let mut response = Vec::new();
        let datagram = BytesMut::from(payload);
        let from = from.into();
        match differences::handle(&mut self.endpoint, now, from, ecn, datagram, &mut response) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) if self.connection.is_none() => {
                match self.endpoint.accept(incoming, now, &mut response, None) {
                    Ok(connection) => self.connection = Some(connection),
                    Err(error) if error.response.is_some() => self.responses.push_back(response),
                    Err(_) => {}
                }
            }
            // There is one connection only.
            Some(DatagramEvent::NewConnection(incoming)) => self.endpoint.ignore(incoming),
            Some(DatagramEvent::Response(_)) => self.responses.push_back(response),
            None => {}
        }
    }

    fn poll_transmit(
        &mut self,
        now: std::time::Instant,
        payload: &mut Vec<u8>,
    ) -> Option<Codepoint> {
        if let Some(response) = self.responses.pop_front() {
            *payload = response;
            return Some(Codepoint::NotEct);
        }
        loop {
            let datagram = self.next_datagram(now)?;
            self.batch.next = datagram.end;
            // A probe that is larger than the MTU of the path is lost.
            if datagram.len() <= self.largest {
                payload.clear();
                payload.extend_from_slice(&self.batch.bytes[datagram]);
                return Some(self.batch.ecn);
            }
        }
    }

    /// The place of the next datagram of the connection in the batch; `None` if it has none to send
    /// now.
    fn next_datagram(&mut self, now: std::time::Instant) -> Option<Range<usize>> {
        if self.batch.is_empty() {
            let (_, connection) = self.connection.as_mut()?;
            let batch = &mut self.batch;
            batch.bytes.clear();
            batch.next = 0;
            let segments = differences::segments(self.segments)?;
            let made = connection.poll_transmit(now, segments, &mut batch.bytes)?;
            batch.bytes.truncate(made.size);
            batch.segment = made.segment_size.unwrap_or(made.size).max(1);
            batch.ecn = match made.ecn {
                None => Codepoint::NotEct,
                Some(EcnCodepoint::Ect0) => Codepoint::Ect0,
                Some(EcnCodepoint::Ect1) => Codepoint::Ect1,
                Some(EcnCodepoint::Ce) => Codepoint::Ce,
            };
        }
        Some(self.batch.datagram())
    }
}

/// Settings of the transport that are not the defaults of the stack.
fn transport(
    config: &StackConfig,
    controller: Arc<dyn ControllerFactory + Send + Sync>,
    streams: u32,
) -> Arc<TransportConfig> {
    let mtu = first_mtu(config);
    let discovery = config.mtu_discovery.then(|| {
        let mut discovery = MtuDiscoveryConfig::default();
        discovery.upper_bound(largest_tried(config));
        discovery
    });
    let window = config.rwnd.saturating_mul(u64::from(config.payload()));
    let window = VarInt::from_u64(window).unwrap_or(VarInt::MAX);
    let mut transport = TransportConfig::default();
    transport
        .congestion_controller_factory(controller)
        .max_idle_timeout(None)
        .initial_mtu(mtu)
        .min_mtu(mtu)
        .mtu_discovery_config(discovery)
        .max_concurrent_uni_streams(VarInt::from_u32(streams))
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .stream_receive_window(window)
        .receive_window(window)
        // The application itself limits the data written ahead.
        .send_window(1 << 60);
    Arc::new(transport)
}

/// Payload of full datagrams at first, bytes: that of the path, or the smallest of QUIC (RFC 9000
/// section 14) where the stack searches for it.
fn first_mtu(config: &StackConfig) -> u16 {
    if config.mtu_discovery { 1200 } else { config.payload() as u16 }
}

/// Largest payload that a stack sends, bytes. A search tries 1452 at least, as by default.
fn largest_tried(config: &StackConfig) -> u16 {
    let payload = config.payload() as u16;
    if config.mtu_discovery { payload.max(1452) } else { payload }
}

/// Bytes of a connection ID, as the stacks have them by default.
const CID: usize = 8;

/// Connection IDs from a seed.
struct Cids(Stream);

impl ConnectionIdGenerator for Cids {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut bytes = [0; CID];
        random::fill(&mut self.0, &mut bytes);
        ConnectionId::new(&bytes)
    }

    fn cid_len(&self) -> usize {
        CID
    }

    fn cid_lifetime(&self) -> Option<std::time::Duration> {
        None
    }
}

/// A clock for tokens, which would otherwise read the time of day.
struct NoClock;

impl TimeSource for NoClock {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH
    }
}

#[cfg(test)]
mod leak;
#[cfg(test)]
mod truth;
