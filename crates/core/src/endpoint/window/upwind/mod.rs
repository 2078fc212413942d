//! Upwind: a window for paths that lose packets and routers that do not help.
//!
//! Alone on a path it responds to delay, as Copa does (Arun and Balakrishnan, NSDI 2018): it keeps
//! two packets in the queue, and losses change nothing. Where other flows fill the queue, a shadow
//! window S is the lower bound of cwnd: the window that a NewReno would have in its place. A loss
//! reduces S in proportion to the probability P of congestion, as given by discrimination. In all
//! modes a ceiling C bounds cwnd, which no P can raise: the window of a NewReno for which the
//! losses above those of an empty queue are congestion.
//!
//! ```text
//! m    = means of RTTs over quarters of a round trip, of at least four RTTs
//! s    = standard deviation of m, from second differences, without outliers
//! step = largest increase of the RTT between two packets, minus the time between their
//!        transmissions, in a quarter of a round trip; J = 2 x largest mean of 64 steps in 20 s.
//!        Only pairs sent within R/8 count: other flows fill longer gaps
//! dq   = max(0, smallest m of the last half round trip - base - 2 s)
//! base = smallest mean of four m in 20 s (or 20 round trips), at most 1.1 R0 + 4 s + J
//! R    = smallest RTT of the last half round trip;  R0 = smallest RTT of 10 min
//! b    = cwnd dq / R                                 own packets in the queue
//! b*   = max(1/delta, cwnd/srtt (2 s + J))           own packets to keep in the queue
//! rate = packets delivered in a round trip / its duration
//! bandwidth = largest rate sample of 10 round trips
//! pace = max(1.25 cwnd / srtt, bandwidth), and C / srtt if C < 2, unless routers help;
//!        cwnd <= 2 bandwidth srtt + 10
//!
//! start-up     cwnd += 1 per packet acknowledged, pace 1.5 cwnd / srtt, not while the round trip
//!              loses 20 points more than the best one and at least ten packets, until one of
//!              - cwnd dq / R > max(b*, cwnd / 10), where dq is taken from single RTTs of an eighth
//!                of a round trip, and at least eight of them;
//!              - rate < 1.1 of the best before for three round trips, or for two of which the
//!                last one loses 20 points more than those before. One that loses more than
//!                35 %, and at least ten packets, counts as such in any case;
//!              - in later start-ups: cwnd reaches half of its value before.
//!              Then cwnd = bandwidth R0
//! delay        b <= b*:  cwnd += v / (delta cwnd) per packet acknowledged
//!              else:     cwnd -= max(v / delta, (b - b*) / 2) / cwnd
//!              v is 1 after a turn; it doubles every round trip from the third in one direction
//!              on, up to delta cwnd / 2
//! longer path  b >= 4 b*, and since then dq has changed by at most 30 % while the smallest cwnd
//!              was 70 % of the largest or less, without overflows: R0 and dq begin anew, from the
//!              largest cwnd
//! shadow       S += growth/S per packet acknowledged, a loss: S *= 1 - P/2;
//!              in delay mode S <= largest recent cwnd
//! competitive  cwnd >= S.  Begins if b > b* for 5 round trips, or the queue was not nearly empty
//!              for 20, or cwnd < 0.5 S - 2 while the queue is known to overflow.  Ends if the
//!              queue is nearly empty (dq < 0.02 R0, or a tenth of the largest of four round
//!              trips).  S grows only while the queue is known to overflow, and shrinks by 1 % per
//!              round trip otherwise
//! overflow     a loss with P >= 0.1; or dq fell to 0.7 of its peak (at least R0 / 10) within four
//!              round trips, and stays below 0.9 of it for ten, while cwnd does not shrink below
//!              0.9: another flow had a loss. Known for 20 s or 2 S srtt,
//!              whichever is longer
//! queue        M = mean of so many RTTs, at least eight, that u <= max(t, R0 / 30);
//!              t = min(0.4 ms, R0 / 10);
//!              u = max(4 sd of M from single RTTs, s / sqrt(round trips)); differences of RTTs
//!              count as at most R0
//!              E = smallest M + u of 10 min, at most R0 + sd/2 + 2 J
//!              none stands if M <= E + max(t, u, H);
//!              H = max(0, J - sqrt(pi J / r)) at r packets per second: so much longer is the mean
//!              without a queue than at a low rate if jitter keeps packets in order.
//!              While u is larger, none stands in 100 RTTs either, at eight packets per round trip,
//!              if the smallest is at most R0 + (mean - R0) / 10 and the mean square of second
//!              differences / 6 at least 0.4 of the variance
//! floor        loss rate f of round trips without a standing queue, from the second M in a row
//!              on, once 100 packets passed without an M above E + max(t, u, H) + sd; counts fade
//!              by 1/e in 3000 packets, or in 20 round trips if these have more, and fewer than 100
//!              count as 100. At most 0.35; 0.05 until a queue was seen to stand: at the end of
//!              start-up, or by an M of one round trip above E by R0 / 10. Forgotten if E falls by
//!              R0 / 30
//! early        for 20 round trips, and while it has more packets than the known f, f is the loss
//!              rate of the round trips of start-up that lose at most 35 %, when no RTT of four
//!              round trips exceeds 1.1 R0, and of those without a standing queue since
//! assumed      without such 100 packets, f is the loss rate since, at most 0.1, after four moves
//!              of the smoothed srtt by 33 ms, and as many packets as the known f has
//! ceiling      credit += f sent - lost, at most f max(200, packets of two round trips); free are
//!              losses of the round trip after a cut of C >= 2, and of start-up and the round trip
//!              after it.
//!              credit < 0:  C = min(C, 1.5 cwnd) (1 - c/2), credit = 0, with c = 1 - f'/p at a
//!                           loss rate p, f' = f and half a standard deviation of it; at least
//!                           half a packet
//!              else:        C += min(1, C/4) per round trip, and C *= 1.05 without a standing
//!                           queue, from 10 c round trips after a cut on
//!              cwnd <= C and S <= C, unless routers help
//! search       f > 0.1 and 20, 40, 80, ... means without a standing queue, and none was ever seen:
//!              one more start-up without C, in which an M shows the queue; C as before if none
//!              does
//! mark         of classic ECN, in any mode, at most once per round trip:  S *= 1/2,
//!              C = min(C, cwnd) / 2, c = 1 (`guide.rs`)
//! guided       with help from routers: the controller of their feedback sets cwnd (`guide.rs`)
//! ```
//!
//! - Spurious losses: S and C return to their values before the last cut, and so does the time
//!   until which overflows are known.
//! - Persistent congestion, or a timeout, leaves the least window and begins start-up anew; S is
//!   reduced by P/2.
//! - Two flows of Upwind that compete only with each other could not tell, and would stay in
//!   competitive mode. This is why S grows only after overflows: flows that respond to delay cause
//!   none.

mod bound;
mod compete;
mod delay;
mod guide;
mod losses;
mod queue;
mod rounds;
mod start_up;
mod unseen;

use super::{Controller, ControllerPart, ControllerSetup};
use crate::endpoint::EndpointConfig;
use crate::endpoint::estimator::{LostPacket, RateSample};
use crate::endpoint::event::{AckEvent, CongestionEvent, ResetEvent};
use crate::endpoint::feedback::FeedbackConfig;
use crate::packet::Packet;
use crate::part::{Ability, Form, Need, Part, ValueKind, Words};
use crate::units::Time;

use bound::Bound;
use compete::Others;
use delay::{Jump, Steps};
use guide::Guide;
use queue::Queue;
use rounds::Rounds;
use start_up::Full;

/// The least window, packets.
const LEAST: f64 = 2.0;

/// Parameters of Upwind. Most of them switch off one mechanism, for ablations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UpwindConfig {
    /// 1 / delta packets wait in the queue on average. Above 0, up to 10; 1/2.
    pub delta: f64,
    /// True if Upwind has a competitive mode.
    pub competitive: bool,
    /// Standard deviations of a mean that count as noise and not as a queue, 0 to 10; 2.
    pub noise: f64,
    /// True if a delay that remains while the window shrinks counts as a longer path.
    pub longer_path: bool,
    /// True if a delay that falls while the window does not counts as an overflow.
    pub falls: bool,
    /// True if losses above the floor bound the window.
    pub bound: bool,
    /// The growth of the shadow in a round trip, packets. Above 0, up to 100; 1, as NewReno does.
    pub growth: f64,
}

impl UpwindConfig {
    /// The default parameters.
    pub const DEFAULT: UpwindConfig = UpwindConfig {
        delta: 0.5,
        competitive: true,
        noise: 2.0,
        longer_path: true,
        falls: true,
        bound: true,
        growth: 1.0,
    };
}

crate::parameters! {
    UpwindConfig in "upwind", "parameters of upwind";
    delta: ValueKind::Positive { most: 10.0 }, "per packet",
        "1 / delta packets wait in the queue on average";
    competitive: ValueKind::Bool, "", "keep a share among flows that fill the queue";
    noise: ValueKind::Number { least: 0.0, most: 10.0 }, "standard deviations",
        "part of a delay that counts as noise";
    longer_path: ValueKind::Bool, "",
        "take a delay that remains while the window shrinks for a longer path";
    falls: ValueKind::Bool, "", "take a delay that falls while the window does not for another flow's loss";
    bound: ValueKind::Bool, "", "bound the window by the losses above those without a queue";
    growth: ValueKind::Positive { most: 100.0 }, "packets per round trip",
        "growth of the shadow window";
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UpwindMode {
    StartUp,
    /// The window responds to delay.
    Delay,
    /// The shadow is the lower bound of the window.
    Competitive,
    /// Routers help: the controller of their feedback sets the window.
    Guided,
}

/// The state of Upwind.
#[derive(Debug, Clone)]
pub struct Upwind {
    config: UpwindConfig,
    mode: UpwindMode,
    cwnd: f64,
    queue: Queue,
    rounds: Rounds,
    full: Full,
    steps: Steps,
    bound: Bound,
    others: Others,
    guide: Guide,
    jump: Option<Jump>,
}

impl Part for Upwind {
    type Config = UpwindConfig;
    const FORMS: &'static [Form<UpwindConfig>] = &[Form {
        words: Words {
            name: "upwind",
            what: "keeps two packets in the queue, by delay; at least NewReno's window where others \
                   fill the queue",
            source: "Windward",
        },
        config: UpwindConfig::DEFAULT,
    }];
    const NEEDS: &'static [Need] = &[Need {
        any_of: &[Ability::TransmissionNumbers],
        why: "there are no delivery-rate samples",
    }];
}

impl ControllerPart for Upwind {
    const PACES: bool = true;
    const SAMPLES_RATE: bool = true;
    const ANNOUNCES: bool = true;
    const NEGOTIATES_ECN: bool = true;
    fn new(config: &UpwindConfig, setup: ControllerSetup<'_>) -> Self {
        Upwind::of(*config, setup.endpoint, setup.feedback)
    }
}

impl Upwind {
    fn of(config: UpwindConfig, endpoint: &EndpointConfig, feedback: &FeedbackConfig) -> Self {
        let cwnd = endpoint.initial_window.max(LEAST);
        Upwind {
            config,
            mode: UpwindMode::StartUp,
            cwnd,
            queue: Queue::new(config.noise),
            rounds: Rounds::default(),
            full: Full::default(),
            steps: Steps::new(cwnd, true),
            bound: Bound::unknown(),
            others: Others::none(cwnd),
            guide: Guide::new(endpoint, feedback),
            jump: None,
        }
    }

    /// The number of own packets to keep in the queue: 1 / delta, or as many as arrive in the noise
    /// of the path.
    fn target(&self) -> f64 {
        let srtt = self.queue.srtt();
        let rate = if srtt > 0.0 { self.cwnd / srtt } else { 0.0 };
        self.step_size().max(rate * self.queue.noise())
    }

    /// 1 / delta, the smallest step of the window in a round trip.
    fn step_size(&self) -> f64 {
        1.0 / self.config.delta
    }

    /// The largest window: twice the packets delivered in a round trip, and ten.
    fn most(&self) -> f64 {
        2.0 * self.rounds.bandwidth() * self.queue.srtt() + 10.0
    }

    /// C where it bounds the window and the pace: not where routers help.
    fn ceiling(&self) -> f64 {
        let is_bound = self.config.bound && self.mode != UpwindMode::Guided;
        if is_bound { self.bound.ceiling() } else { f64::INFINITY }
    }

    /// b: own packets in the queue.
    fn backlog(&self) -> f64 {
        let standing = self.queue.standing();
        if standing > 0.0 { self.cwnd * self.queue.delay() / standing } else { 0.0 }
    }
}

impl Controller for Upwind {
    #[inline]
    fn cwnd(&self) -> f64 {
        self.cwnd
    }
    fn pacing_rate(&self) -> Option<f64> {
        let srtt = self.queue.srtt();
        let gain = if self.mode == UpwindMode::StartUp { 1.5 } else { 1.25 };
        let ceiling = self.ceiling();
        if ceiling < LEAST && srtt > 0.0 {
            // Fewer packets per round trip than the least window.
            return Some(ceiling / srtt);
        }
        // The bandwidth bounds the pace from below: an RTT that a dead link or a step of the clock
        // made long must not slow the sender down.
        (srtt > 0.0).then(|| (gain * self.cwnd / srtt).max(self.rounds.bandwidth()))
    }
    fn phase(&self) -> Option<&'static str> {
        Some(match self.mode {
            UpwindMode::StartUp => "start_up",
            UpwindMode::Delay => "delay",
            UpwindMode::Competitive => "competitive",
            UpwindMode::Guided => "guided",
        })
    }

    fn on_ack(&mut self, ack: &AckEvent) {
        self.follow(ack);
    }

    fn on_lost(&mut self, _: &LostPacket, _: Time) {
        self.rounds.on_lost();
    }

    fn on_rate_sample(&mut self, sample: &RateSample) -> bool {
        let Some(rtt) = sample.rtt else { return false };
        self.queue.on_sample(sample.now, rtt);
        self.bound.on_sample(rtt.as_secs_f64(), &self.queue);
        let is_over = self.rounds.on_sample(sample, self.queue.srtt());
        if is_over {
            self.bound_window(sample);
        }
        if is_over && self.mode != UpwindMode::StartUp {
            if self.config.longer_path {
                self.judge_path(sample.now);
            }
            if self.config.falls {
                self.watch_falls(sample.now);
            }
            self.judge_guide(sample.now);
        }
        let is_short = self.backlog() < self.target();
        self.others.see(is_over, self.queue.is_nearly_empty(), is_short);
        match self.mode {
            UpwindMode::StartUp => self.start_up(sample, is_over),
            UpwindMode::Delay => self.step(sample, is_over),
            UpwindMode::Competitive if self.is_above_shadow() => self.step(sample, is_over),
            UpwindMode::Competitive | UpwindMode::Guided => {}
        }
        if self.mode != UpwindMode::StartUp {
            if self.config.competitive {
                self.compete(sample, is_over);
            }
            self.cwnd = self.cwnd.min(self.most());
        }
        if is_over && self.mode == UpwindMode::Delay && self.bound.begins_search() {
            self.mode = UpwindMode::StartUp;
            self.full = Full::default();
        }
        let ceiling = self.ceiling();
        self.others.limit_shadow(ceiling);
        self.cwnd = self.cwnd.min(ceiling).max(LEAST);
        false
    }

    fn on_congestion(&mut self, event: &CongestionEvent) {
        if event.marked {
            self.on_mark(event);
        } else if self.mode != UpwindMode::StartUp {
            self.on_loss(event);
        }
    }

    fn on_spurious_losses(&mut self) {
        self.undo();
        self.bound.undo();
    }

    fn on_reset(&mut self, event: &ResetEvent) {
        let half = 0.5 * self.cwnd;
        self.cwnd = event.window_after(self.cwnd).max(LEAST);
        self.shrink_shadow(event.kept(0.5));
        self.mode = UpwindMode::StartUp;
        self.full = Full::upto(self.others.shadow().max(half));
        self.guide.reset();
    }

    fn on_restart_from_idle(&mut self, _: Time) {
        self.steps.slow_down();
    }

    fn on_packet_size(&mut self) {
        self.queue.forget();
        self.bound.forget();
    }

    fn announce(&mut self, packet: &mut Packet, limited: bool) {
        self.ask(packet, limited);
    }
}

#[cfg(test)]
mod robustness;
#[cfg(test)]
mod tests;
