//! The traffic controller of ESTCP (estcp2010, "ESTCP algorithm" and "Implementation of ESTCP").
//!
//! A queue that overflows begins a new phase: all flows are told to reduce their windows, and the
//! length of the phase that ended shows whether windows grow too fast or too slowly.
//!
//! ```text
//! g_{n+1} = g_n + gamma (D - I_n)        I_n: length of the phase, D: its target, 5 s
//! ```
//!
//! One overflow is one shift, for any number of drops. The drops after a shift belong to it until
//! the queue has drained to half of its limit: packets sent before the senders received the shift
//! still arrive, and after the cut the queue can only overflow again by new growth. If it does not
//! drain, because the cut was too small (slow start doubles windows) or other traffic fills it, the
//! same overflow is signalled again after D/10, which exceeds an RTT because D is long: windows are
//! reduced once more, and g does not change, since the time in between does not measure growth.
//!
//! The first overflow does not end a phase: there is no I before it. g stays positive: a phase
//! reduces it by at most half.
//!
//! gamma. With N flows that grow by 1/g packets a second each, a buffer of B packets lasts I = g
//! B/N, a little more as RTTs grow with the queue, so that the error of g is multiplied by 1 -
//! gamma B/N each phase: stable for 0 < gamma B/N < 2, dead-beat at 1. The paper gives no value.
//! Three are offered: [`Gamma::OneFlow`], 1/(2B), stable for a single flow even in a buffer of
//! several BDP, hence for any number, but N/2 phases slow for N flows; a fixed one; and
//! [`Gamma::Adaptive`], which measures dI/dg = B/N as I_n/g_n (through the origin, since without
//! growth a phase lasts for ever) and takes its inverse: g_{n+1} = g_n D/I_n, by at most a factor
//! of four per phase.
//!
//! Packets are written when they leave the queue, so that the shift overtakes waiting packets. With
//! several controllers on a path the ideal field is the sum of their phases, so that no shift is
//! lost, and carries the g of the controller that shifted last: a link that is not a bottleneck
//! does not shift. Before the first shift it carries the g of the controller whose queue has come
//! nearest to its limit, and of the slower one if two are equal; a controller whose queue was
//! always empty does not write the field. The two bits of Fig. 4 have room for one bottleneck; a
//! controller whose queue has never been half full does not write them.

use super::{Router, RouterKind, RouterPart};
use crate::network::QueueLimit;
use crate::network::aqm::{Backlog, QueueSetup};
use crate::packet::{CongestionHeader, Packet};
use crate::parameters;
use crate::part::{Form, ParameterValue, Part, Value, ValueKind, Words};
use crate::rng::Stream;
use crate::units::{Duration, Probability, Time};

/// g of the lowest and the highest marking probability, seconds.
const G_RANGE: (f64, f64) = (1e-4, 10.0);
/// The lowest and the highest marking probability, so that both values of the bit occur.
const P_RANGE: (f64, f64) = (0.01, 0.99);
/// g never falls below this, seconds: a thousand million packets a second.
const LEAST_G: f64 = 1e-9;

/// The least number of latest phases that are remembered: those of a week, of 5 s each. At twice
/// this number the older half is forgotten, since a queue of a packet or two can end a phase with
/// each packet.
const REMEMBERED: usize = 1 << 17;

/// f, the one-to-one mapping between g and the marking probability. The paper does not specify it;
/// this one is logarithmic, so that the relative precision is the same for g from 0.1 ms to 10 s:
/// p = 0.01 + 0.98 ln(g / 0.1 ms) / ln(10 s / 0.1 ms).
pub fn marking_probability(g: f64) -> f64 {
    let (low, high) = G_RANGE;
    let share = libm::log(g.clamp(low, high) / low) / libm::log(high / low);
    P_RANGE.0 + (P_RANGE.1 - P_RANGE.0) * share
}

/// The inverse of [`marking_probability`]: g in seconds.
pub fn g_of_probability(p: f64) -> f64 {
    let (low, high) = G_RANGE;
    let share = (p.clamp(P_RANGE.0, P_RANGE.1) - P_RANGE.0) / (P_RANGE.1 - P_RANGE.0);
    low * libm::pow(high / low, share)
}

/// The gain of the traffic controller, per packet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Gamma {
    /// 1/(2B) with B packets of buffer.
    OneFlow,
    /// 10/B: ten flows reach the target in one phase, more of them later.
    TenFlows,
    /// A given value.
    Fixed(f64),
    /// The inverse of the measured dI/dg.
    Adaptive,
}

parameters! {
    /// Parameters of a traffic controller.
    pub struct EstcpRouterConfig in "", "parameters of estcp";
    /// The values of the paper.
    pub const PUBLISHED;
    target: Duration = Duration::from_secs(5),
        ValueKind::Time { least: Duration::from_ps(1), most: Duration::from_secs(86_400) }, "",
        "D, the length of a phase";
    gamma: Gamma = Gamma::OneFlow,
        ValueKind::PositiveOrWord { most: 1e6, words: &["one-flow", "ten-flows", "adaptive"] },
        "", "gain per packet; one-flow is 1/(2B), ten-flows 10/B";
    /// Not in the paper: 0.1 is the increase of TCP at an RTT of 100 ms.
    initial_g: f64 = 0.1,
        ValueKind::Number { least: 1e-9, most: 1e6 }, "seconds", "g of the first phase";
    mean_packet_size: u32 = 1000, ValueKind::Integer { least: 1, most: 1 << 20 }, "bytes",
        "size of a packet, for a queue limited in bytes";
}

impl ParameterValue for Gamma {
    fn into_value(self) -> Value {
        match self {
            Gamma::OneFlow => Value::Word("one-flow"),
            Gamma::TenFlows => Value::Word("ten-flows"),
            Gamma::Adaptive => Value::Word("adaptive"),
            Gamma::Fixed(gamma) => Value::Number(gamma),
        }
    }
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Word("one-flow") => Some(Gamma::OneFlow),
            Value::Word("ten-flows") => Some(Gamma::TenFlows),
            Value::Word("adaptive") => Some(Gamma::Adaptive),
            Value::Number(gamma) => Some(Gamma::Fixed(gamma)),
            _ => None,
        }
    }
}

impl Part for TrafficController {
    type Config = EstcpRouterConfig;
    const FORMS: &'static [Form<EstcpRouterConfig>] = &[Form {
        words: Words {
            name: "estcp",
            what: "tells all flows when to cut their windows and how fast to grow",
            source: "estcp2010",
        },
        config: EstcpRouterConfig::PUBLISHED,
    }];
}

impl Router for TrafficController {
    #[inline]
    fn on_enqueue(&mut self, _: Time, queue: &Backlog<'_>, packet: &mut Packet) -> bool {
        // A packet that finds the wire free does not queue.
        if queue.idle_since.is_none() {
            self.note(queue.packets + 1, queue.bytes + u64::from(packet.size));
        }
        false
    }
    fn on_drop(&mut self, now: Time, queue: &Backlog<'_>, _: &Packet) {
        self.overflow(now, queue.packets, queue.bytes);
    }
    #[inline]
    fn on_departure(&mut self, now: Time, queue: &Backlog<'_>, packet: &mut Packet) -> bool {
        self.write(now, packet, queue.packets, queue.bytes);
        false
    }
    fn signal(&self) -> Option<f64> {
        Some(self.g())
    }
    fn traffic_controller(&self) -> Option<&TrafficController> {
        Some(self)
    }
}

impl RouterPart for TrafficController {
    fn new(config: &EstcpRouterConfig, setup: &QueueSetup<'_>) -> Self {
        TrafficController::with_marks(*config, setup.limit, setup.stream("estcp"))
    }
    const ACTS_ON_DEPARTURE: bool = true;
    fn serves(kind: RouterKind) -> bool {
        matches!(kind, RouterKind::Any | RouterKind::EcnThreshold | RouterKind::Estcp)
    }
}

impl EstcpRouterConfig {
    /// B: packets that a queue of this limit holds.
    pub fn buffer(&self, limit: QueueLimit) -> f64 {
        match limit {
            QueueLimit::Packets(packets) => f64::from(packets),
            QueueLimit::Bytes(bytes) => bytes as f64 / f64::from(self.mean_packet_size),
        }
    }

    /// gamma before a queue of this limit; `None` if it adapts.
    pub fn fixed_gamma(&self, limit: QueueLimit) -> Option<f64> {
        match self.gamma {
            Gamma::OneFlow => Some(0.5 / self.buffer(limit).max(1.0)),
            Gamma::TenFlows => Some(10.0 / self.buffer(limit).max(1.0)),
            Gamma::Fixed(gamma) => Some(gamma),
            Gamma::Adaptive => None,
        }
    }
}

/// A phase that has ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EstcpPhase {
    /// The shift that began it.
    pub start: Time,
    /// The shift that ended it.
    pub end: Time,
    /// g that was in force, seconds.
    pub g: f64,
    /// The shortest and the longest queue, as shares of the limit.
    pub queue: (f64, f64),
}

/// The state of a traffic controller.
#[derive(Debug, Clone)]
pub struct TrafficController {
    spec: EstcpRouterConfig,
    limit: QueueLimit,
    gamma: Option<f64>,
    marks: Stream,
    /// The number of the phase, from 1.
    phase: u64,
    g: f64,
    /// The latest shift.
    shifted: Option<Time>,
    /// True if the queue has drained since then.
    drained: bool,
    /// True if the queue has ever been half full.
    congested: bool,
    /// The queue in this phase, in the unit of the limit.
    shortest: u64,
    longest: u64,
    ended: Vec<EstcpPhase>,
}

impl TrafficController {
    /// The controller of a queue with this limit, before any traffic; it draws marks from `marks`.
    pub fn with_marks(spec: EstcpRouterConfig, limit: QueueLimit, marks: Stream) -> Self {
        TrafficController {
            spec,
            limit,
            gamma: spec.fixed_gamma(limit),
            marks,
            phase: 1,
            g: spec.initial_g,
            shifted: None,
            drained: true,
            congested: false,
            shortest: u64::MAX,
            longest: 0,
            ended: Vec::new(),
        }
    }

    /// Its parameters.
    pub fn spec(&self) -> &EstcpRouterConfig {
        &self.spec
    }

    /// g, seconds.
    pub fn g(&self) -> f64 {
        self.g
    }

    /// The phases that have ended, in order: at least the latest 131,072.
    pub fn phases(&self) -> &[EstcpPhase] {
        &self.ended
    }

    /// The limit in its own unit.
    fn full(&self) -> u64 {
        match self.limit {
            QueueLimit::Packets(packets) => u64::from(packets),
            QueueLimit::Bytes(bytes) => bytes,
        }
    }

    fn filled(&self, packets: usize, bytes: u64) -> u64 {
        match self.limit {
            QueueLimit::Packets(_) => packets as u64,
            QueueLimit::Bytes(_) => bytes,
        }
    }

    /// Records the length of the queue after it has accepted a packet.
    #[inline]
    pub fn note(&mut self, packets: usize, bytes: u64) {
        let filled = self.filled(packets, bytes);
        self.longest = self.longest.max(filled);
        self.congested |= 2 * filled >= self.full();
    }

    /// Handles the drop of a packet at this length of the queue.
    pub fn overflow(&mut self, now: Time, packets: usize, bytes: u64) {
        let filled = self.filled(packets, bytes);
        self.longest = self.longest.max(filled);
        self.shortest = self.shortest.min(filled);
        self.congested = true;
        let hold = self.spec.target.mul_f64(0.1);
        if self.drained || self.shifted.is_none_or(|at| now.since(at) >= hold) {
            if self.drained {
                self.end_phase(now);
            }
            self.phase += 1;
            self.shifted = Some(now);
            self.drained = false;
            self.shortest = filled;
            self.longest = filled;
        }
    }

    /// Ends the phase that the last overflow began.
    fn end_phase(&mut self, now: Time) {
        if let Some(start) = self.shifted {
            let full = self.full().max(1) as f64;
            let queue = (self.shortest as f64 / full, self.longest as f64 / full);
            if self.ended.len() == 2 * REMEMBERED {
                self.ended.drain(..REMEMBERED);
            }
            self.ended.push(EstcpPhase { start, end: now, g: self.g, queue });
            let (length, target) = (now.since(start).as_secs_f64(), self.spec.target.as_secs_f64());
            self.g = match self.gamma {
                Some(gamma) => (self.g + gamma * (target - length)).max(self.g / 2.0),
                None => self.g * (target / length).clamp(0.25, 4.0),
            }
            .max(LEAST_G);
        }
    }

    /// Writes into a packet that leaves the queue; the length of the queue is given without it.
    #[inline]
    pub fn write(&mut self, now: Time, packet: &mut Packet, packets: usize, bytes: u64) {
        let filled = self.filled(packets, bytes);
        self.shortest = self.shortest.min(filled);
        self.drained |= 2 * filled <= self.full();
        match &mut packet.header {
            CongestionHeader::Estcp { phase, g, age, filled } => {
                let own = self.shifted.map_or(f64::INFINITY, |at| now.since(at).as_secs_f64());
                let longest = self.longest as f32 / self.full().max(1) as f32;
                let nearer = longest > *filled || (longest == *filled && self.g > *g);
                if *phase == 0 || own < *age || (own == *age && nearer) {
                    *g = self.g;
                    *age = own;
                    *filled = longest;
                }
                // A header from the network may have any value.
                *phase = phase.saturating_add(self.phase);
            }
            CongestionHeader::EstcpBits { bits } if self.congested => {
                let p = Probability::new(marking_probability(self.g)).unwrap_or(Probability::ONE);
                let mark = u8::from(self.marks.chance(p));
                *bits = ((self.phase & 1) as u8) << 1 | mark;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ms;

    const LIMIT: QueueLimit = QueueLimit::Packets(100);

    fn controller(gamma: Gamma) -> TrafficController {
        let spec = EstcpRouterConfig { gamma, initial_g: 0.02, ..EstcpRouterConfig::default() };
        TrafficController::with_marks(spec, LIMIT, Stream::new(1, "estcp", "test"))
    }

    fn ideal() -> Packet {
        let header = CongestionHeader::Estcp { phase: 0, g: 0.0, age: f64::INFINITY, filled: 0.0 };
        Packet { header, ..Packet::default() }
    }

    /// Phase and g of a packet that leaves at `now`, `packets` being left.
    fn field(controller: &mut TrafficController, now: Time, packets: usize) -> (u64, f64) {
        let mut packet = ideal();
        controller.write(now, &mut packet, packets, 0);
        match packet.header {
            CongestionHeader::Estcp { phase, g, .. } => (phase, g),
            _ => (0, f64::NAN),
        }
    }

    /// An overflow at `at` with drops for 50 ms, after which the queue drains.
    fn overflow(controller: &mut TrafficController, at: u64) {
        for i in 0..10 {
            controller.overflow(ms(at + 5 * i), 100, 0);
            field(controller, ms(at + 5 * i), 99);
        }
        field(controller, ms(at + 60), 40);
        field(controller, ms(at + 100), 0);
    }

    #[test]
    fn an_overflow_is_one_shift_however_many_packets_it_drops() {
        let mut controller = controller(Gamma::Fixed(0.001));
        assert_eq!(field(&mut controller, ms(0), 10), (1, 0.02));
        overflow(&mut controller, 1000);
        assert_eq!(field(&mut controller, ms(2000), 10).0, 2);
        overflow(&mut controller, 4000);
        assert_eq!(field(&mut controller, ms(5000), 10).0, 3);
    }

    #[test]
    fn g_follows_its_equation() {
        let mut controller = controller(Gamma::Fixed(0.001));
        overflow(&mut controller, 1000);
        overflow(&mut controller, 4000);
        // I = 3 s, D = 5 s: 0.02 + 0.001 x 2 = 0.022.
        let (_, g) = field(&mut controller, ms(5000), 10);
        assert!((g - 0.022).abs() < 1e-12, "{g}");
        overflow(&mut controller, 11_000);
        // I = 7 s: 0.022 - 0.001 x 2.
        let (_, g) = field(&mut controller, ms(12_000), 10);
        assert!((g - 0.020).abs() < 1e-12, "{g}");
        let phases = controller.phases();
        assert_eq!(
            phases[0],
            EstcpPhase { start: ms(1000), end: ms(4000), g: 0.02, queue: (0.0, 1.0) }
        );
        assert_eq!(phases.len(), 2);
    }

    #[test]
    fn g_stays_positive() {
        let mut controller = controller(Gamma::Fixed(0.01));
        overflow(&mut controller, 0);
        overflow(&mut controller, 105_000);
        // 0.02 + 0.01 (5 - 105) = -0.98: half of it instead.
        assert_eq!(field(&mut controller, ms(106_000), 10).1, 0.01);
    }

    #[test]
    fn the_adaptive_gain_hits_the_target_at_once_and_by_no_more_than_fourfold() {
        let mut adaptive = controller(Gamma::Adaptive);
        overflow(&mut adaptive, 0);
        overflow(&mut adaptive, 2000);
        // I = 2 s for g = 0.02: 5 s take 0.05.
        let (_, g) = field(&mut adaptive, ms(3000), 10);
        assert!((g - 0.05).abs() < 1e-12, "{g}");
        overflow(&mut adaptive, 2500);
        let (_, g) = field(&mut adaptive, ms(3000), 10);
        assert!((g - 0.2).abs() < 1e-12, "{g}: not tenfold");
    }

    #[test]
    fn an_overflow_that_does_not_drain_is_signalled_again_after_a_tenth_of_the_target() {
        let mut controller = controller(Gamma::OneFlow);
        let mut shifts = Vec::new();
        for i in 0..110 {
            controller.overflow(ms(10 * i), 100, 0);
            shifts.push(field(&mut controller, ms(10 * i), 99).0);
        }
        // At 0, 0.5 and 1 s.
        assert_eq!((shifts[0], shifts[49], shifts[50], shifts[99], shifts[100]), (2, 2, 3, 3, 4));
        assert_eq!((controller.g(), controller.phases().len()), (0.02, 0), "it is no phase");
        // Drained at 1.2 s, full again at 3 s: 2 s since the last shift.
        field(&mut controller, ms(1200), 50);
        controller.overflow(ms(3000), 100, 0);
        assert_eq!(controller.phases().len(), 1);
        assert_eq!(controller.phases()[0].start, ms(1000));
    }

    #[test]
    fn the_gain_for_one_flow_or_ten_follows_the_buffer() {
        let spec = EstcpRouterConfig::default();
        assert_eq!(spec.fixed_gamma(QueueLimit::Packets(250)), Some(0.002));
        assert_eq!(spec.fixed_gamma(QueueLimit::Bytes(250_000)), Some(0.002));
        let ten = EstcpRouterConfig { gamma: Gamma::TenFlows, ..spec };
        assert_eq!(ten.fixed_gamma(QueueLimit::Packets(250)), Some(0.04));
        assert_eq!(controller(Gamma::Adaptive).gamma, None);
    }

    #[test]
    fn of_two_controllers_the_one_that_shifted_last_gives_g() {
        let mut near = controller(Gamma::OneFlow);
        let far_spec = EstcpRouterConfig { initial_g: 3.0, ..EstcpRouterConfig::default() };
        let mut far =
            TrafficController::with_marks(far_spec, LIMIT, Stream::new(1, "estcp", "far"));
        let read = |near: &mut TrafficController, far: &mut TrafficController, at| {
            let mut packet = ideal();
            near.write(ms(at), &mut packet, 10, 0);
            far.write(ms(at), &mut packet, 10, 0);
            match packet.header {
                CongestionHeader::Estcp { phase, g, .. } => (phase, g),
                _ => (0, f64::NAN),
            }
        };
        assert_eq!(read(&mut near, &mut far, 0), (2, 3.0), "neither has shifted: the slower one");
        near.overflow(ms(10), 100, 0);
        assert_eq!(read(&mut near, &mut far, 20), (3, 0.02));
        far.overflow(ms(30), 100, 0);
        assert_eq!(read(&mut near, &mut far, 40), (4, 3.0));
    }

    #[test]
    fn before_a_shift_the_controller_nearest_to_one_gives_g() {
        // estcp2010, Fig. 3(b): hops of 10 000 packets around a bottleneck of 1250, whose g of 4 ms
        // is 25 packets an RTT of 100 ms: alpha = RTTmin / g. With the 0.1 s of the hops it is 1.
        let make = |initial_g, packets| {
            let spec = EstcpRouterConfig { initial_g, ..EstcpRouterConfig::default() };
            let marks = Stream::new(1, "estcp", "test");
            TrafficController::with_marks(spec, QueueLimit::Packets(packets), marks)
        };
        let mut path = [make(0.1, 10_000), make(0.004, 1250), make(0.1, 10_000)];
        let read = |path: &mut [TrafficController; 3]| {
            let mut packet = ideal();
            path.iter_mut().for_each(|link| link.write(ms(1), &mut packet, 0, 0));
            match packet.header {
                CongestionHeader::Estcp { phase, g, .. } => (phase, g),
                _ => (0, f64::NAN),
            }
        };
        assert_eq!(read(&mut path), (3, 0.1), "nothing waited anywhere: the slowest");
        // Two packets sent at once: the second waits at the first hop, and at the bottleneck.
        path[0].note(1, 1000);
        assert_eq!(read(&mut path), (3, 0.1));
        path[1].note(1, 1000);
        assert_eq!(read(&mut path), (3, 0.004), "1/1250 is nearer than 1/10 000");
        // Bursts of 100: 800/10 000 is nearer than 50/1250.
        path[1].note(50, 50_000);
        assert_eq!(read(&mut path), (3, 0.004));
        path[0].note(800, 800_000);
        assert_eq!(read(&mut path), (3, 0.1));
        // An overflow has priority over these.
        path[1].overflow(ms(1), 1250, 1_250_000);
        assert_eq!(read(&mut path), (4, 0.004));
    }

    #[test]
    fn the_mapping_is_one_to_one_and_logarithmic() {
        // 0.1 ms, 10 s, and halfway in decades: sqrt(1e-4 x 10) = 31.6 ms.
        for (g, p) in [(1e-4, 0.01), (10.0, 0.99), (0.031_622_776_6, 0.5)] {
            assert!((marking_probability(g) - p).abs() < 1e-9);
            assert!((g_of_probability(p) / g - 1.0).abs() < 1e-8);
        }
        assert_eq!(marking_probability(1e-6), 0.01);
        assert!((g_of_probability(1.0) - 10.0).abs() < 1e-9);
    }

    #[test]
    fn bits_carry_parity_and_marks_once_the_queue_has_been_half_full() {
        let mut controller = controller(Gamma::OneFlow);
        let bits = |controller: &mut TrafficController, n: usize| {
            let mut counts = [0usize; 4];
            for _ in 0..n {
                let header = CongestionHeader::EstcpBits { bits: 0 };
                let mut packet = Packet { header, ..Packet::default() };
                controller.write(ms(1), &mut packet, 10, 0);
                if let CongestionHeader::EstcpBits { bits } = packet.header {
                    counts[usize::from(bits)] += 1;
                }
            }
            counts
        };
        controller.note(49, 0);
        assert_eq!(bits(&mut controller, 100), [100, 0, 0, 0]);
        controller.note(50, 0);
        // Phase 1 is odd: 10 and 11. g = 0.02 is ln(200)/ln(100 000) = 0.4602 of the range:
        // p = 0.01 + 0.98 x 0.4602 = 0.461; five sigma of 10 000 packets are 0.025.
        let odd = bits(&mut controller, 10_000);
        assert_eq!((odd[0], odd[1]), (0, 0));
        assert!((odd[3] as f64 / 10_000.0 - 0.461).abs() < 0.025, "{odd:?}");
        controller.overflow(ms(1), 100, 0);
        let even = bits(&mut controller, 100);
        assert_eq!(even[0] + even[1], 100);
    }

    #[test]
    fn a_queue_that_swings_forever_takes_no_more_memory() {
        let mut controller = controller(Gamma::OneFlow);
        let phases = 5 * REMEMBERED as u64;
        for at in 0..=phases {
            controller.overflow(ms(at), 100, 0);
            field(&mut controller, ms(at), 0);
        }
        // Full at 2, 3, 4 and 5 times REMEMBERED, of which the first three forgot a half.
        let left = controller.phases();
        assert_eq!(left.len(), 2 * REMEMBERED);
        assert_eq!(left.last().map(|phase| phase.end), Some(ms(phases)));
        assert!(left.windows(2).all(|two| two[0].end == two[1].start));
    }
}
