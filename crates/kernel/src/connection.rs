//! A connection of the kernel, driven by a controller of Windward.

use std::collections::VecDeque;

use windward_core::endpoint::driver::{Driver, DriverSetup, Figures, Frame, Pacer};
use windward_core::protocols::Protocol;
use windward_core::units::{Duration, Time};

use crate::event::{Event, Kind};

/// Packets by which the list may exceed the kernel's flight.
const SLACK: usize = 64;

/// Largest payload of a packet, bytes: that of IPv4.
const LARGEST: u32 = 65_000;

/// Largest number of packets that one report adds: 95 MB in packets of 1448 bytes.
const MOST: u64 = 1 << 16;

/// Time after which a connection gets a new controller, microseconds: a [`Time`] counts up to 213
/// days.
const EPOCH_US: u64 = 100 * 86_400 * 1_000_000;

/// The answer to a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Answer {
    /// Number of the connection.
    pub connection: u64,
    /// Number of the report.
    pub number: u64,
    /// Pacing rate, bytes of payload per second, as the kernel counts them; zero without pacing.
    pub pacing_rate: u64,
    /// Window, packets; zero if the kernel's NewReno shall go on.
    pub window: u32,
}

impl Answer {
    /// The answer as `bpf/windward.bpf.c` lays it out.
    pub fn bytes(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&self.connection.to_ne_bytes());
        bytes[8..16].copy_from_slice(&self.number.to_ne_bytes());
        bytes[16..24].copy_from_slice(&self.pacing_rate.to_ne_bytes());
        bytes[24..28].copy_from_slice(&self.window.to_ne_bytes());
        bytes
    }
}

/// A connection.
#[derive(Debug)]
pub struct Connection {
    driver: Driver,
    /// The latest report.
    last: Event,
    /// Time zero of the driver on the kernel's clock, microseconds.
    zero_us: u64,
    /// Number of the next packet, and the packets in flight as far as reports tell: number and time
    /// of sending.
    next: u64,
    flight: VecDeque<(u64, Time)>,
    /// Retransmission timeouts; delivered packets at the latest one.
    timeouts: u64,
    timeout_at: Option<u32>,
    /// True until the driver's window has reached that of the kernel's NewReno: the daemon found
    /// the connection in progress.
    adopting: bool,
}

impl Connection {
    /// The connection of a first report.
    pub fn new(protocol: &Protocol, event: &Event) -> Self {
        let mtu = packet(event.mss);
        let setup = DriverSetup { mtu, pacer: Pacer::Rate, seed: event.connection };
        let driver = Driver::new(protocol, setup)
            .unwrap_or_else(|why| unreachable!("the protocol was checked before: {why}"));
        let adopting = event.kind != Kind::Open;
        let mut connection = Connection {
            driver,
            last: *event,
            // Packets in flight were sent before.
            zero_us: event.now_us.saturating_sub(60_000_000),
            next: 1,
            flight: VecDeque::new(),
            timeouts: 0,
            timeout_at: None,
            adopting,
        };
        let sent = connection.time(event.now_us.saturating_sub(event.srtt_us.into()));
        for _ in 0..u64::from(event.in_flight).min(MOST) {
            connection.push(sent, mtu.into());
        }
        connection
    }

    /// A packet that was sent.
    fn push(&mut self, at: Time, size: u32) {
        self.driver.on_sent(at, self.next, size);
        self.flight.push_back((self.next, at));
        self.next += 1;
    }

    /// True if a report is of another connection, or so late that a new controller is due.
    pub fn is_over(&self, event: &Event) -> bool {
        let age = event.now_us.saturating_sub(self.zero_us);
        self.last.connection != event.connection || age > EPOCH_US
    }

    /// The latest report.
    pub fn last(&self) -> &Event {
        &self.last
    }

    /// Figures of the controller.
    pub fn figures(&self) -> Figures {
        self.driver.figures()
    }

    /// Retransmission timeouts.
    pub fn timeouts(&self) -> u64 {
        self.timeouts
    }

    fn time(&self, us: u64) -> Time {
        Time::from_nanos(us.saturating_sub(self.zero_us).saturating_mul(1000))
    }

    /// Tells the controller what a report says, and gives the answer.
    pub fn on_event(&mut self, event: &Event) -> Answer {
        if event.kind != Kind::Open && event.number > self.last.number {
            self.tell(event);
            self.last = *event;
        }
        let mss = u64::from(packet(event.mss));
        let window = u32::try_from(self.driver.window() / mss).unwrap_or(u32::MAX).max(2);
        self.adopting &= window < event.cwnd;
        Answer {
            connection: event.connection,
            number: event.number,
            pacing_rate: self.driver.pacing_rate().unwrap_or(0),
            window: if self.adopting { 0 } else { window },
        }
    }

    fn tell(&mut self, event: &Event) {
        let last = self.last;
        let mtu = packet(event.mss);
        if event.mss != last.mss {
            self.driver.set_mtu(mtu);
        }
        let size = u32::from(mtu);
        let now = self.time(event.now_us.max(last.now_us));
        self.send(event, now, size);
        let delivered = event.delivered.wrapping_sub(last.delivered);
        let newly_lost = event.lost.wrapping_sub(last.lost);
        let marked = event.delivered_ce.wrapping_sub(last.delivered_ce);
        // The kernel counts packets and does not say which: lost ones are the oldest.
        let of = |count: u32, flight: &VecDeque<_>| (count as usize).min(flight.len());
        let lost: Vec<(u64, Time)> = self.flight.drain(..of(newly_lost, &self.flight)).collect();
        let acked: Vec<(u64, Time)> = self.flight.drain(..of(delivered, &self.flight)).collect();
        let smoothed = Duration::from_nanos(u64::from(event.srtt_us) * 1000);
        for (number, sent) in &acked {
            self.driver.on_acked(now, *sent, Some(*number), size, smoothed);
        }
        let in_flight = u64::from(event.in_flight.saturating_add(newly_lost));
        if !acked.is_empty() {
            let rtt = event.rtt_us.map(|us| Duration::from_nanos(u64::from(us) * 1000));
            self.driver.tell_rtt(rtt);
            let most = (in_flight as usize).saturating_add(SLACK).saturating_sub(lost.len());
            let excess = self.flight.len().saturating_sub(most);
            self.flight.drain(..excess);
            self.driver.on_frame(Frame {
                now,
                in_flight: in_flight.saturating_mul(size.into()),
                app_limited: event.app_limited,
                largest: None,
            });
        }
        for (number, _) in lost {
            self.driver.on_lost(now, number, size);
        }
        // Packets that were taken for lost and arrived after all were counted twice.
        for _ in self.flight.len()..(event.in_flight as usize).min(MOST as usize) {
            self.push(now, size);
        }
        if marked > 0 {
            self.driver.on_mark(now);
        }
        if event.kind == Kind::Timeout {
            self.timeouts += 1;
            // Nothing arrived between two timeouts (RFC 9002 section 7.6).
            if self.timeout_at == Some(event.delivered) {
                self.driver.on_persistent_congestion(now);
            }
            self.timeout_at = Some(event.delivered);
        }
    }

    /// Packets that left since the report before. Those that ACKs released left with them, paced
    /// ones later: they are spread over the time between.
    fn send(&mut self, event: &Event, now: Time, size: u32) {
        let from = self.time(self.last.now_us);
        let sent = u64::from(event.sent.wrapping_sub(self.last.sent)).min(MOST);
        let span = now.since(from).as_nanos();
        for n in 0..sent {
            let at = from
                + Duration::from_nanos(
                    (u128::from(span) * u128::from(n) / u128::from(sent)) as u64,
                );
            self.push(at, size);
        }
    }
}

/// Payload of a full packet.
fn packet(mss: u32) -> u16 {
    mss.clamp(1, LARGEST) as u16
}

#[cfg(test)]
mod tests {
    use windward_core::protocols::find;

    use super::*;

    /// The first report of a connection.
    fn open() -> Event {
        Event {
            connection: 7,
            number: 1,
            now_us: 1_000_000_000,
            sent_us: 0,
            slot: 3,
            kind: Kind::Open,
            delivered: u32::MAX - 20,
            delivered_ce: 0,
            lost: 0,
            sent: u32::MAX - 20,
            in_flight: 0,
            srtt_us: 0,
            rtt_us: None,
            mss: 1448,
            cwnd: 10,
            app_limited: false,
            acks: 0,
            namespace: 0,
            remote: ([192, 0, 2, 1], 443).into(),
            local_port: 5000,
        }
    }

    /// A kernel that sends what the window permits, over a path of 80 ms without losses.
    fn round(connection: &mut Connection, window: u32) -> Answer {
        let last = *connection.last();
        let event = Event {
            number: last.number + 1,
            now_us: last.now_us + 80_000,
            kind: Kind::Ack,
            delivered: last.delivered.wrapping_add(last.in_flight),
            sent: last.sent.wrapping_add(window),
            in_flight: window,
            srtt_us: 80_000,
            rtt_us: Some(80_000),
            cwnd: window,
            acks: 1,
            ..last
        };
        connection.on_event(&event)
    }

    fn of(row: &str, first: &Event) -> Connection {
        Connection::new(find(row).unwrap(), first)
    }

    #[test]
    fn a_window_doubles_in_slow_start_while_counters_wrap() {
        let mut connection = of("newreno", &open());
        let mut answer = connection.on_event(&open());
        assert_eq!((answer.connection, answer.number, answer.window), (7, 1, 10));
        // RFC 5681 section 3.1: a packet for each acknowledged one. A report acknowledges what was
        // sent with the one before: nothing, then 10, 10, 20, 30 packets.
        for expected in [10, 20, 30, 50, 80] {
            answer = round(&mut connection, answer.window);
            assert_eq!(answer.window, expected);
        }
        assert_eq!(answer.number, 6);
        assert_eq!(connection.figures().min_rtt, Duration::from_millis(80));
    }

    #[test]
    fn a_loss_halves_newreno_and_a_second_timeout_restarts() {
        let mut connection = of("newreno", &open());
        let mut window = 10;
        for _ in 0..4 {
            window = round(&mut connection, window).window;
        }
        let last = *connection.last();
        let (number, now_us) = (last.number + 1, last.now_us + 80_000);
        let lost = Event {
            number,
            now_us,
            lost: last.lost + 1,
            delivered: last.delivered.wrapping_add(10),
            ..last
        };
        // RFC 5681 equation 4: half of the packets in flight.
        assert_eq!(connection.on_event(&lost).window, last.in_flight / 2);
        let timeout = Event { number: number + 1, kind: Kind::Timeout, ..lost };
        assert_eq!(connection.on_event(&timeout).window, last.in_flight / 2);
        // Nothing was delivered since: persistent congestion (RFC 9002 section 7.6.2).
        let again = Event { number: number + 2, ..timeout };
        assert_eq!(connection.on_event(&again).window, 2);
        assert_eq!(connection.timeouts(), 2);
    }

    #[test]
    fn a_connection_in_progress_keeps_its_window_until_that_of_the_controller_is_as_large() {
        let first = Event { kind: Kind::Ack, number: 900, cwnd: 60, in_flight: 60, ..open() };
        let mut connection = of("newreno", &first);
        assert_eq!(connection.on_event(&first).window, 0);
        // 20 acknowledged packets make 30, and 60 more make 90.
        let some = Event { number: 901, delivered: first.delivered.wrapping_add(20), ..first };
        assert_eq!(connection.on_event(&Event { in_flight: 40, ..some }).window, 0);
        assert!(round(&mut connection, 60).window >= 60);
    }

    #[test]
    fn impossible_reports_have_bounded_cost_and_a_window() {
        let mut connection = of("upwind", &open());
        let wild = Event {
            number: 2,
            now_us: 0,
            kind: Kind::Ack,
            delivered: 5,
            lost: u32::MAX,
            sent: u32::MAX / 2,
            in_flight: u32::MAX,
            srtt_us: u32::MAX,
            rtt_us: Some(0),
            mss: 0,
            cwnd: 0,
            ..open()
        };
        assert!(connection.on_event(&wild).window >= 2);
        assert!(connection.is_over(&Event { connection: 8, ..wild }));
        assert!(connection.is_over(&Event { now_us: u64::MAX, ..open() }));
    }
}
