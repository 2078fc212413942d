//! The XCP router (Katabi, Handley, Rohrs 2002; draft-falk-xcp-spec-03 section 4).
//!
//! Once per control interval, which is the mean RTT of the traffic, the efficiency controller
//! computes the change of the aggregate. The fairness controller divides that change, plus some
//! shuffled traffic, among packets:
//!
//! ```text
//! F   = alpha (C - input/d) - beta Q/d          aggregate change, bytes/s
//! h   = max(0, shuffle input/d - |F|)           shuffled traffic
//! C_p = (max(F, 0) + h) / sum(x_i)              per packet: + C_p x_i
//! C_n = (max(-F, 0) + h) / sum(s_i)                         - C_n s_i
//! ```
//!
//! with `x_i` the inter-packet time a packet carries and `s_i` its size. The draft's form, in
//! throughput, is used; it equals the paper's form in windows, which multiplies by the RTT at
//! the router instead of at the sender.

use super::{Router, RouterKind, RouterPart};
use crate::network::aqm::{Backlog, QueueSetup};
use crate::packet::{CongestionHeader, Packet};
use crate::parameters;
use crate::part::{Advice, Form, Part, ValueKind, Words};
use crate::units::{Duration, Rate, Time};

/// Control interval before the first estimate, and after one without traffic (ns-2: 50 ms).
const INITIAL_INTERVAL: f64 = 0.05;
/// Longest RTT that counts for the control interval (draft section 4.2).
const MAX_INTERVAL: f64 = 1.0;
/// Shortest control interval (ns-2: 1 ms).
const MIN_INTERVAL: f64 = 0.001;
/// Shortest mean RTT, seconds, by which a queue is divided: a header from the network may have a
/// shorter one than any path.
const LEAST_RTT: f64 = 1e-6;
/// Shortest interval over which the minimum queue is taken (draft section 4.5).
const MIN_QUEUE_INTERVAL: f64 = 0.002;

parameters! {
    /// Parameters of an XCP router.
    pub struct XcpRouterConfig in "", "parameters of xcp";
    /// The draft's router.
    pub const PUBLISHED;
    /// 0.4 keeps the loop stable for any delay (Katabi et al. 2002, section 4).
    alpha: f64 = 0.4, ValueKind::Number { least: 0.0, most: 10.0 }, "",
        "share of the spare bandwidth that is granted",
        advice = Advice {
            least: 0.0,
            most: STABLE_ALPHA,
            why: "it may be unstable (Katabi 2002, theorem 1); lower it, with \
                  beta = alpha^2 sqrt 2",
        };
    beta: f64 = 0.226, ValueKind::Number { least: 0.0, most: 10.0 }, "", "weight of the queue";
    shuffle: f64 = 0.1,
        ValueKind::Number { least: 0.0, most: 1.0 }, "", "share of the traffic shuffled";
    /// Neither Katabi et al. 2002 nor the draft has it; Katabi's code for ns-2 does, with 0.6 of
    /// the buffer. Without it a single flow may be granted 0.4 of the bandwidth-delay product at
    /// once, and a burst of that size overflows a smaller buffer.
    increase_limit: Option<f64> = None, ValueKind::Bytes { most: 1e18 }, "",
        "bound of the growth of windows in an interval plus the queue", absent = "none";
    /// True for a standing queue. lr2008 section 7.2: Q becomes (Qbar - gamma), Qbar an exponential
    /// average of Q.
    persistent: bool = false;
    /// gamma:
    target_packets: f64 = 10.0,
        ValueKind::Number { least: 0.0, most: 1e9 }, "packets", "target of the queue",
        when = |xcp| xcp.persistent;
    packet_size: u32 = 1000, ValueKind::Integer { least: 1, most: 1 << 20 }, "bytes",
        "size of a packet of the target",
        when = |xcp| xcp.persistent;
    /// beta:
    weight: f64 = 0.9, ValueKind::Number { least: 0.0, most: 1.0 }, "", "weight of the old average",
        when = |xcp| xcp.persistent;
}

impl XcpRouterConfig {
    /// The router of `lr-xcpq-pa` with the paper's gamma = 10 packets and beta = 0.9.
    pub const fn persistent() -> Self {
        XcpRouterConfig { persistent: true, ..Self::PUBLISHED }
    }
}

/// Katabi 2002, theorem 1: stable for 0 < alpha < pi / (4 sqrt 2) and beta = alpha^2 sqrt 2.
const STABLE_ALPHA: f64 = std::f64::consts::PI / (4.0 * std::f64::consts::SQRT_2);

impl Part for XcpRouter {
    type Config = XcpRouterConfig;
    const FORMS: &'static [Form<XcpRouterConfig>] = &[
        Form {
            words: Words {
                name: "xcp",
                what: "grants every packet its share of the spare bandwidth",
                source: "Katabi et al. 2002; draft-falk-xcp-spec-03 section 4",
            },
            config: XcpRouterConfig::PUBLISHED,
        },
        Form {
            words: Words {
                name: "xcp-persistent",
                what: "as xcp, with a small standing queue",
                source: "lr2008 section 7.2",
            },
            config: XcpRouterConfig::persistent(),
        },
    ];
    fn form(config: &XcpRouterConfig) -> &'static Form<XcpRouterConfig> {
        &Self::FORMS[usize::from(config.persistent)]
    }
}

impl Router for XcpRouter {
    #[inline]
    fn on_arrival(&mut self, now: Time, _: &Backlog<'_>, packet: &mut Packet) -> bool {
        self.count(now, packet);
        false
    }
    #[inline]
    fn on_departure(&mut self, now: Time, queue: &Backlog<'_>, packet: &mut Packet) -> bool {
        self.grant(now, packet, queue.bytes + u64::from(packet.size));
        false
    }
    #[inline]
    fn next_timer(&self) -> Time {
        self.next_end()
    }
    fn on_timer(&mut self, now: Time, queue: &Backlog<'_>) {
        self.end_intervals(now, queue.bytes);
    }
    fn on_rate(&mut self, now: Time, share: Rate) {
        if self.asleep {
            // The lengths of the intervals skipped while asleep depend on the old rate.
            self.wake(now, true);
        }
        self.capacity = share.bytes_per_s();
    }
}

impl RouterPart for XcpRouter {
    fn new(config: &XcpRouterConfig, setup: &QueueSetup<'_>) -> Self {
        XcpRouter::with_rate(*config, setup.share)
    }
    const ACTS_ON_DEPARTURE: bool = true;
    fn serves(kind: RouterKind) -> bool {
        // The feedback is the same with a standing queue.
        matches!(
            kind,
            RouterKind::Any
                | RouterKind::EcnThreshold
                | RouterKind::Xcp
                | RouterKind::XcpPersistent
        )
    }
}

/// State of an XCP router in front of one wire. Bytes and seconds.
#[derive(Debug, Clone)]
pub struct XcpRouter {
    spec: XcpRouterConfig,
    /// C, bytes per second.
    capacity: f64,

    /// Ends of the control and of the queue interval.
    control_due: Time,
    queue_due: Time,
    interval: f64,
    mean_rtt: f64,
    sums: Sums,
    grants: Grants,
    queue: MinQueue,
    /// True if nothing has arrived since before the last control interval began.
    idle: bool,
    /// True if the ends of intervals change nothing until a packet arrives or leaves.
    asleep: bool,
    /// The queue when it fell asleep.
    still_queue: f64,
}

/// Sums over the control interval under way.
#[derive(Debug, Clone, Default)]
struct Sums {
    input_bytes: f64,
    inter_packet: f64,
    rtt_inter_packet: f64,
}

/// Decisions of the last control interval.
#[derive(Debug, Clone, Default)]
struct Grants {
    positive_scale: f64,
    negative_scale: f64,
    positive_residue: f64,
    negative_residue: f64,
}

/// The minimum of the queue in the present interval, and Q or Qbar - gamma from the last.
#[derive(Debug, Clone, Default)]
struct MinQueue {
    running_min: f64,
    term: f64,
    average: f64,
}

impl XcpRouter {
    /// The router of a wire with this rate, before any traffic.
    pub fn with_rate(spec: XcpRouterConfig, rate: Rate) -> Self {
        let first = Time::ZERO + Duration::from_secs_f64(INITIAL_INTERVAL);
        XcpRouter {
            spec,
            capacity: rate.bytes_per_s(),
            control_due: first,
            queue_due: first,
            interval: INITIAL_INTERVAL,
            mean_rtt: INITIAL_INTERVAL,
            sums: Sums::default(),
            grants: Grants::default(),
            queue: MinQueue::default(),
            idle: false,
            asleep: false,
            still_queue: 0.0,
        }
    }

    /// C, bytes per second.
    pub fn capacity(&self) -> f64 {
        self.capacity
    }

    /// Counts a packet that arrives, even if the queue drops it. All traffic counts as input; only
    /// XCP packets determine the interval and the shares (draft section 4.2).
    #[inline]
    pub fn count(&mut self, now: Time, packet: &Packet) {
        if self.asleep {
            self.wake(now, true);
        }
        self.idle = false;
        self.sums.input_bytes += f64::from(packet.size);
        if let CongestionHeader::Xcp { rtt, inter_packet, .. } = packet.header
            && rtt > 0.0
        {
            self.sums.inter_packet += inter_packet;
            self.sums.rtt_inter_packet += rtt.min(MAX_INTERVAL) * inter_packet;
        }
    }

    /// Writes the grant into a packet that leaves the queue; `queue_bytes` includes it.
    #[inline]
    pub fn grant(&mut self, now: Time, packet: &mut Packet, queue_bytes: u64) {
        if self.asleep {
            self.wake(now, false);
        }
        self.queue.running_min = self.queue.running_min.min(queue_bytes as f64);
        let size = f64::from(packet.size);
        let CongestionHeader::Xcp { rtt, inter_packet, delta, .. } = &mut packet.header else {
            return;
        };
        if *rtt == 0.0 {
            *delta = 0.0;
            return;
        }
        let mut positive =
            (self.grants.positive_scale * *inter_packet).min(self.grants.positive_residue);
        let mut negative = (self.grants.negative_scale * size).min(self.grants.negative_residue);
        let feedback = positive - negative;
        if *delta >= feedback {
            *delta = feedback;
        } else {
            // An earlier router was stricter: this router does not grant the difference.
            negative = (negative + (feedback - *delta)).min(self.grants.negative_residue);
            positive = *delta + negative;
        }
        self.grants.positive_residue = (self.grants.positive_residue - positive).max(0.0);
        self.grants.negative_residue = (self.grants.negative_residue - negative).max(0.0);
        if self.grants.positive_residue == 0.0 {
            self.grants.positive_scale = 0.0;
        }
        if self.grants.negative_residue == 0.0 {
            self.grants.negative_scale = 0.0;
        }
    }

    /// The time at which [`XcpRouter::end_intervals`] must be called next; never, if it would
    /// change nothing before an arrival or a departure.
    pub fn next_end(&self) -> Time {
        if self.asleep { Time::NEVER } else { self.control_due.min(self.queue_due) }
    }

    /// Ends the intervals that are due, with `queue_bytes` in the queue.
    pub fn end_intervals(&mut self, now: Time, queue_bytes: u64) {
        if self.queue_due <= now {
            self.end_queue_interval(now, queue_bytes as f64);
        }
        if self.control_due <= now {
            self.end_control_interval(now, queue_bytes as f64);
        }
        let queue = queue_bytes as f64;
        self.asleep = self.idle
            && self.queue.running_min == queue
            && self.next_queue_term(queue) == (self.queue.term, self.queue.average);
        self.still_queue = queue;
    }

    /// Processes the ends of intervals skipped while asleep. An arrival at `now` comes after those
    /// of the same instant, a departure before them.
    fn wake(&mut self, now: Time, includes_now: bool) {
        self.asleep = false;
        let queue_interval = self.queue_interval(self.still_queue);
        let control_interval = Duration::from_secs_f64(self.interval);
        for (due, interval) in
            [(&mut self.queue_due, queue_interval), (&mut self.control_due, control_interval)]
        {
            if *due < now || (includes_now && *due == now) {
                let (passed, each) = (now.since(*due).as_ps(), interval.as_ps());
                let ends = if includes_now { passed / each + 1 } else { passed.div_ceil(each) };
                *due += interval.saturating_mul(ends);
            }
        }
    }

    /// Draft section 4.5: Q is the smallest queue of the interval, so that a burst that comes
    /// and goes within an RTT is not mistaken for a standing queue.
    fn end_queue_interval(&mut self, now: Time, queue_bytes: f64) {
        (self.queue.term, self.queue.average) = self.next_queue_term(self.queue.running_min);
        self.queue.running_min = queue_bytes;
        self.queue_due = now + self.queue_interval(queue_bytes);
    }

    /// Q or Qbar - gamma, and Qbar, after an interval with this minimum of the queue.
    fn next_queue_term(&self, sample: f64) -> (f64, f64) {
        let XcpRouterConfig { persistent, target_packets, packet_size, weight, .. } = self.spec;
        if !persistent {
            return (sample, 0.0);
        }
        let average = weight * self.queue.average + (1.0 - weight) * sample;
        (average - target_packets * f64::from(packet_size), average)
    }

    fn queue_interval(&self, queue_bytes: f64) -> Duration {
        let interval = (self.mean_rtt - queue_bytes / self.capacity) / 2.0;
        Duration::from_secs_f64(interval.max(MIN_QUEUE_INTERVAL))
    }

    fn end_control_interval(&mut self, now: Time, queue_bytes: f64) {
        self.mean_rtt = if self.sums.inter_packet > 0.0 {
            (self.sums.rtt_inter_packet / self.sums.inter_packet).max(LEAST_RTT)
        } else {
            INITIAL_INTERVAL
        };
        let (mut change, mut shuffled) = (0.0, 0.0);
        if self.sums.input_bytes > 0.0 {
            let input = self.sums.input_bytes / self.interval;
            change = self.spec.alpha * (self.capacity - input)
                - self.spec.beta * self.queue.term / self.mean_rtt;
            shuffled = (self.spec.shuffle * input - change.abs()).max(0.0);
        }
        self.grants.positive_residue = change.max(0.0) + shuffled;
        if let Some(limit) = self.spec.increase_limit {
            let room = (limit - queue_bytes).max(0.0) / self.mean_rtt;
            self.grants.positive_residue = self.grants.positive_residue.min(room);
        }
        self.grants.negative_residue = (-change).max(0.0) + shuffled;
        let share = |residue: f64, sum: f64| if sum > 0.0 { residue / sum } else { 0.0 };
        self.grants.positive_scale = share(self.grants.positive_residue, self.sums.inter_packet);
        self.grants.negative_scale = share(self.grants.negative_residue, self.sums.input_bytes);

        self.idle = self.sums.input_bytes == 0.0;
        self.sums.input_bytes = 0.0;
        self.sums.inter_packet = 0.0;
        self.sums.rtt_inter_packet = 0.0;
        self.interval = self.mean_rtt.max(MIN_INTERVAL);
        self.control_due = now + Duration::from_secs_f64(self.interval);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn xcp(rtt: f64, cwnd: f64, delta: f64) -> Packet {
        let inter_packet = rtt / cwnd;
        let header = CongestionHeader::Xcp { rtt, inter_packet, delta, congestion_flag: 0 };
        Packet { size: 1000, header, ..Packet::default() }
    }

    fn granted(packet: &Packet) -> f64 {
        match packet.header {
            CongestionHeader::Xcp { delta, .. } => delta,
            _ => f64::NAN,
        }
    }

    fn close(measured: f64, expected: f64) {
        assert!(
            (measured - expected).abs() < 1e-9 * expected.abs().max(1.0),
            "{measured} for {expected}"
        );
    }

    /// A router of 1 MB/s after its first interval of 50 ms, in which 30 packets of 1000 bytes
    /// arrived: 20 of a flow with cwnd 20 and 10 of one with cwnd 10, both of RTT 100 ms.
    fn after_one_interval() -> XcpRouter {
        let rate = Rate::from_bps(8_000_000).unwrap();
        let mut router = XcpRouter::with_rate(XcpRouterConfig::default(), rate);
        for _ in 0..20 {
            router.count(Time::ZERO, &xcp(0.1, 20.0, f64::MAX));
        }
        for _ in 0..10 {
            router.count(Time::ZERO, &xcp(0.1, 10.0, f64::MAX));
        }
        router.end_intervals(router.next_end(), 0);
        router
    }

    #[test]
    fn extreme_rtts_in_headers_give_finite_grants() {
        let mut router = after_one_interval();
        for _ in 0..50 {
            // The extreme of a header: an RTT close to zero, by which the queue is divided.
            let header = CongestionHeader::Xcp {
                rtt: f64::MIN_POSITIVE,
                inter_packet: 1e8,
                delta: f64::MAX,
                congestion_flag: 0,
            };
            router.count(Time::ZERO, &Packet { size: 1000, header, ..Packet::default() });
            router.grant(Time::ZERO, &mut xcp(0.1, 20.0, f64::MAX), 1_000_000);
            router.end_intervals(router.next_end(), 1_000_000);
            let mut packet = xcp(0.1, 20.0, f64::MAX);
            router.grant(Time::ZERO, &mut packet, 1_000_000);
            // A queue of 1 MB over 1 us.
            assert!(granted(&packet).abs() < 1e13, "{}", granted(&packet));
        }
    }

    #[test]
    fn one_interval_by_hand() {
        // input = 30 000 / 0.05 = 600 000 B/s. F = 0.4 (1 000 000 - 600 000) - 0 = 160 000.
        // h = max(0, 60 000 - 160 000) = 0. sum(x) = 20 (0.1/20) + 10 (0.1/10) = 0.2 s.
        // C_p = 160 000 / 0.2 = 800 000. Mean RTT 0.1 s.
        let mut router = after_one_interval();
        close(router.mean_rtt, 0.1);
        let mut large = xcp(0.1, 20.0, f64::MAX);
        router.grant(Time::ZERO, &mut large, 1000);
        close(granted(&large), 800_000.0 * 0.005); // 4000 B/s
        let mut small = xcp(0.1, 10.0, f64::MAX);
        router.grant(Time::ZERO, &mut small, 1000);
        // Twice as much a packet, with half as many packets: equal shares of the increase.
        close(granted(&small), 8000.0);
        close(router.grants.positive_residue, 160_000.0 - 12_000.0);
    }

    #[test]
    fn overload_and_queue_take_away_in_proportion_to_size() {
        // 60 packets in 50 ms: 1.2 MB/s into 1 MB/s; a standing queue of 5000 bytes.
        let mut router =
            XcpRouter::with_rate(XcpRouterConfig::default(), Rate::from_bps(8_000_000).unwrap());
        for _ in 0..60 {
            router.count(Time::ZERO, &xcp(0.1, 60.0, f64::MAX));
        }
        router.queue.term = 5000.0;
        router.end_control_interval(Time::ZERO, 5000.0);
        // F = 0.4 (-200 000) - 0.226 x 5000 / 0.1 = -91 300; h = 120 000 - 91 300 = 28 700.
        // Positive 28 700 / 0.1 s; negative 120 000 / 60 000 bytes = 2 per byte.
        let mut packet = xcp(0.1, 60.0, f64::MAX);
        router.grant(Time::ZERO, &mut packet, 5000);
        close(granted(&packet), 287_000.0 * 0.1 / 60.0 - 2.0 * 1000.0);
    }

    #[test]
    fn the_increase_leaves_room_in_the_buffer() {
        // As above: F = 160 000 B/s, which is 16 000 bytes of window at a mean RTT of 0.1 s. A
        // limit of 10 000 bytes with 4000 waiting leaves 6000, or 60 000 B/s over 0.2 s.
        let increase_limit = Some(10_000.0);
        let spec = XcpRouterConfig { increase_limit, ..XcpRouterConfig::default() };
        let mut router = XcpRouter::with_rate(spec, Rate::from_bps(8_000_000).unwrap());
        for _ in 0..20 {
            router.count(Time::ZERO, &xcp(0.1, 20.0, f64::MAX));
        }
        for _ in 0..10 {
            router.count(Time::ZERO, &xcp(0.1, 10.0, f64::MAX));
        }
        let before = router.clone();
        router.end_intervals(router.next_end(), 4000);
        close(router.grants.positive_scale, 300_000.0);
        close(router.grants.negative_residue, 0.0);
        let mut full = before;
        full.end_intervals(full.next_end(), 12_000);
        close(full.grants.positive_scale, 0.0);
    }

    #[test]
    fn datagrams_are_input_and_get_no_share() {
        // As above with 20 datagrams of 1000 bytes more: input = 50 000 / 0.05 = 1 MB/s, so that
        // F = 0 and all that moves is h = 0.1 x 1 MB/s, shared by the sum of x of 0.2 s and, what
        // is taken, by all 50 000 bytes.
        let mut router =
            XcpRouter::with_rate(XcpRouterConfig::default(), Rate::from_bps(8_000_000).unwrap());
        for _ in 0..20 {
            router.count(Time::ZERO, &xcp(0.1, 20.0, f64::MAX));
            router.count(Time::ZERO, &Packet { size: 1000, ..Packet::default() });
        }
        for _ in 0..10 {
            router.count(Time::ZERO, &xcp(0.1, 10.0, f64::MAX));
        }
        router.end_intervals(router.next_end(), 0);
        close(router.mean_rtt, 0.1);
        close(router.grants.positive_scale, 500_000.0);
        close(router.grants.negative_scale, 2.0);
        let mut datagram = Packet { size: 1000, ..Packet::default() };
        router.grant(Time::ZERO, &mut datagram, 1000);
        assert_eq!(datagram.header, CongestionHeader::None);
        close(router.grants.positive_residue, 100_000.0);
    }

    #[test]
    fn a_stricter_router_before_wins() {
        let mut router = after_one_interval();
        let mut packet = xcp(0.1, 20.0, -500.0);
        router.grant(Time::ZERO, &mut packet, 1000);
        close(granted(&packet), -500.0);
    }

    #[test]
    fn shares_end_with_the_residue() {
        // The sum of x in an interval is 0.2 s; asking for more than that gets nothing more.
        let mut router = after_one_interval();
        let mut total = 0.0;
        for _ in 0..100 {
            let mut packet = xcp(0.1, 10.0, f64::MAX);
            router.grant(Time::ZERO, &mut packet, 1000);
            total += granted(&packet);
        }
        close(total, 160_000.0);
    }

    #[test]
    fn without_an_rtt_there_is_no_feedback() {
        let mut packet = xcp(0.0, 1.0, f64::MAX);
        packet.header = CongestionHeader::Xcp {
            rtt: 0.0,
            inter_packet: 0.0,
            delta: f64::MAX,
            congestion_flag: 0,
        };
        after_one_interval().grant(Time::ZERO, &mut packet, 1000);
        assert_eq!(granted(&packet), 0.0);
    }

    #[test]
    fn the_persistent_queue_is_averaged_and_shifted() {
        let mut router =
            XcpRouter::with_rate(XcpRouterConfig::persistent(), Rate::from_bps(8_000_000).unwrap());
        router.queue.running_min = 20_000.0;
        router.end_queue_interval(Time::ZERO, 0.0);
        // Qbar = 0.9 x 0 + 0.1 x 20 000 = 2000; minus 10 packets of 1000 bytes.
        close(router.queue.term, -8000.0);
    }

    /// Two routers see the same traffic in bursts between long pauses; one of them is kept awake.
    fn sleeping_changes_nothing(spec: XcpRouterConfig, rate: u64) -> u32 {
        let rate = Rate::from_bps(rate).unwrap();
        let (mut sleeper, mut watch) =
            (XcpRouter::with_rate(spec, rate), XcpRouter::with_rate(spec, rate));
        let mut stream = crate::rng::Stream::new(1, "test", "sleep");
        let (mut now, mut slept, mut queue) = (Time::ZERO, 0, 0);
        let lone = |router: &XcpRouter| {
            format!("{:?}", XcpRouter { asleep: false, still_queue: 0.0, ..router.clone() })
        };
        for _ in 0..2000 {
            // Often a whole number of intervals, so that instants coincide.
            let pause = match stream.uniform() {
                u if u < 0.4 => Duration::from_millis((u * 20.0) as u64),
                u if u < 0.7 => Duration::from_millis((u * 4000.0) as u64 / 25 * 25),
                u => Duration::from_secs_f64(u * 10.0),
            };
            let next = now + pause;
            let departs = queue > 0 && stream.uniform() < 0.5;
            // Timers at the same instant come after a departure and before an arrival.
            let due = |router: &XcpRouter| {
                let timer = router.next_end();
                (timer < next || (timer == next && !departs)).then_some(timer)
            };
            while let Some(timer) = due(&sleeper) {
                sleeper.end_intervals(timer, queue);
            }
            slept += u32::from(sleeper.asleep);
            while let Some(timer) = due(&watch) {
                watch.end_intervals(timer, queue);
                watch.asleep = false;
            }
            now = next;
            let mut granted = Vec::new();
            for router in [&mut sleeper, &mut watch] {
                let mut packet = xcp(0.08, 5.0, f64::MAX);
                if departs {
                    router.grant(now, &mut packet, queue);
                } else {
                    router.count(now, &packet);
                }
                granted.push(packet.header);
            }
            assert_eq!(granted[0], granted[1]);
            assert_eq!(lone(&sleeper), lone(&watch), "at {now:?}");
            queue = if departs { queue - 1000 } else { queue + 1000 };
        }
        slept
    }

    #[test]
    fn a_sleeping_router_misses_nothing() {
        let persistent = XcpRouterConfig::persistent();
        for rate in [100, 1_000_000, 1_000_000_000] {
            assert!(sleeping_changes_nothing(XcpRouterConfig::default(), rate) > 200);
            sleeping_changes_nothing(persistent, rate);
        }
    }
}
