//! Upwind: a window for paths that lose packets and routers that do not help.
//!
//! Alone it goes by delay, as Copa (Arun and Balakrishnan, NSDI 2018), with two packets in the
//! queue, and losses change nothing. Where others fill the queue, a shadow window is the least that
//! it has: that of a NewReno in its place, which a loss cuts as far as it is congestion, says
//! discrimination.
//!
//! ```text
//! m    = means of RTTs over quarters of a round trip;  s = their deviation, by second differences but for outliers
//! dq   = max(0, least m of the last half round trip - base - 2 s)
//! base = least mean of four m of 30 s, but no more than 1.1 R0 + 5 s
//! R    = least RTT of the last half round trip;  R0 = least RTT of 10 min
//! b    = cwnd dq / R                                 own packets in the queue
//! rate = packets delivered in a round trip over its time;  bandwidth = best rate sample of 10 of them
//! pace = max(1.25 cwnd / srtt, bandwidth);  cwnd <= 2 bandwidth srtt + 10
//!
//! start-up     cwnd += 1 per packet acknowledged, pace 1.5 cwnd / srtt, until cwnd dq / R > max(2, cwnd / 10)
//!              and dq > R0 / 20 (dq here by single RTTs of an eighth of a round trip), or rate < 1.25 of the best
//!              before for three round trips, or for one that loses 20 points more than the least lossy of late, or, not
//!              for the first time, cwnd is half of what it was; then cwnd = bandwidth R0
//! delay        b <= 1/delta:  cwnd += v / (delta cwnd) per packet acknowledged
//!              else:          cwnd -= max(v / delta, (b - 1/delta) / 2) / cwnd
//!              v doubles every round trip from the third in one direction on, up to delta cwnd / 2; 1 at a turn
//! gain         b <= 1/delta, cwnd 15 % larger brought less than 5 % more rate, and 2 % were lost: cwnd back to what brought
//!              as much, no growth for 8, 16, .. 64 round trips
//! longer path  b >= 5/delta, and dq within 20 % of that when cwnd is 70 % of what it was, without overflows:
//!              R0 and dq begin anew
//! flood        a loss halves cwnd also in delay mode where it is congestion with P >= 1/4 and 10 points more are lost
//!              than in the least lossy of 60 round trips
//! room         where a round trip loses more than 2 %: b <= 10 for up to ten of those round trips, without the gain
//!              test. Where b comes to 8 the queue has room, for 30 s or 100 round trips; else it is a short one
//! short queue  for 10, 20, 40, .. 80 s: cwnd = S, each loss cuts S by half, once in a window, and S += 1/S per packet
//! shadow       S += growth/S per packet acknowledged, a loss: S *= 1 - P/2;  in delay mode S <= largest cwnd of late
//! competitive  cwnd >= S.  Begins if b > 1/delta for 5 round trips, or the queue was not nearly empty for 20, or
//!              cwnd < 0.7 S - 4.  Ends if the queue is nearly empty (dq < 0.02 R0, or a tenth of the
//!              greatest of four round trips), or if three round trips at S brought nothing.
//!              S grows only while the queue is known to overflow, and falls by 1 % a round trip otherwise
//! overflow     a loss with P >= 1/4; or dq fell to 0.7 of its peak (R0 / 10 at least) within four round trips,
//!              while cwnd did not shrink, and stays below 0.95 of it for ten: somebody else had a loss. Known for
//!              20 s, 2 S srtt, or twice the time since the one before, whichever is longest
//! yield        every 10 s (after a cut) or 20 s of it: cwnd = max(0.9 rate R0, 0.4 S) for up to 5 round trips;
//!              a queue that is nearly empty then is nobody's
//! guided       by routers that help: the controller of what they say is the window (`guide.rs`)
//! ```
//!
//! - Losses that were none give back what the last cut took of S, and others are known no longer
//!   than before.
//! - Persistent congestion, or a timeout, leaves the least window and begins start-up anew; S is
//!   halved, by P.
//! - Two flows that compete with each other and nobody else would never know: so S needs overflows
//!   to grow by, which flows that go by delay do not make.

mod compete;
mod delay;
mod guide;
mod queue;
mod room;
mod rounds;
mod start_up;

use super::{Controller, ControllerPart, ControllerSetup};
use crate::endpoint::EndpointConfig;
use crate::endpoint::estimator::{LostPacket, RateSample};
use crate::endpoint::event::{AckEvent, CongestionEvent, Path, ResetEvent};
use crate::endpoint::feedback::FeedbackConfig;
use crate::packet::Packet;
use crate::part::{Ability, Form, Need, Part, ValueKind, Words};
use crate::units::Time;

use compete::Others;
use delay::{Gain, Steps};
use guide::Guide;
use queue::Queue;
use room::Room;
use rounds::Rounds;
use start_up::Full;

/// The least window, packets.
const LEAST: f64 = 2.0;

/// Parameters of Upwind. Most are there to see what a mechanism buys.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UpwindConfig {
    /// 1 / delta packets wait in the queue on average. Above 0, up to 10; 1/2.
    pub delta: f64,
    /// Is there a competitive mode?
    pub competitive: bool,
    /// Is a window given back that brought nothing but losses?
    pub gain_test: bool,
    /// By how many standard deviations of noise is a mean too long before it is a queue? 0 to 10;
    /// 2.
    pub noise: f64,
    /// Is a delay that stays as the window shrinks a longer path?
    pub longer_path: bool,
    /// Is a flood of losses answered in delay mode?
    pub flood: bool,
    /// Is a delay that falls without its doing an overflow?
    pub falls: bool,
    /// Does it hold back now and then to see whether others are there?
    pub yields: bool,
    /// Does it try out whether the queue has room, where packets are lost?
    pub room: bool,
    /// The growth of the shadow in a round trip, packets. Above 0, up to 100; 1, as NewReno does.
    pub growth: f64,
}

impl UpwindConfig {
    /// As it is usually.
    pub const DEFAULT: UpwindConfig = UpwindConfig {
        delta: 0.5,
        competitive: true,
        gain_test: true,
        noise: 2.0,
        longer_path: true,
        flood: true,
        falls: true,
        yields: true,
        room: true,
        growth: 1.0,
    };
}

crate::parameters! {
    UpwindConfig in "upwind", "parameters of upwind";
    delta: ValueKind::Positive { most: 10.0 }, "per packet",
        "1 / delta packets wait in the queue on average";
    competitive: ValueKind::Bool, "", "keep a share beside flows that fill the queue";
    gain_test: ValueKind::Bool, "", "give back a window that brought nothing but losses";
    noise: ValueKind::Number { least: 0.0, most: 10.0 }, "standard deviations",
        "what of a delay may be noise";
    longer_path: ValueKind::Bool, "",
        "take a delay that stays as the window shrinks for a longer path";
    flood: ValueKind::Bool, "",
        "halve in delay mode where ten points more are lost than the path loses";
    falls: ValueKind::Bool, "", "take a delay that falls without its doing for somebody's loss";
    yields: ValueKind::Bool, "", "hold back now and then, to see whether others are there";
    room: ValueKind::Bool, "", "try out whether the queue has room, where packets are lost";
    growth: ValueKind::Positive { most: 100.0 }, "packets per round trip",
        "what the shadow grows by";
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UpwindMode {
    StartUp,
    /// The window goes by delay.
    Delay,
    /// The shadow is the least that it has.
    Competitive,
    /// Competitive, and holding back for some round trips: is it still needed?
    Yield,
    /// Routers help: the window is that of their controller.
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
    gain: Gain,
    others: Others,
    room: Room,
    guide: Guide,
    /// The window and the delay when the delay became much longer than this window makes it.
    jump: Option<(f64, f64)>,
}

impl Part for Upwind {
    type Config = UpwindConfig;
    const FORMS: &'static [Form<UpwindConfig>] = &[Form {
        words: Words {
            name: "upwind",
            what: "two packets in the queue by delay; a shadow of NewReno where others fill it",
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
            gain: Gain::default(),
            others: Others::none(cwnd),
            room: Room::unknown(),
            guide: Guide::new(endpoint, feedback),
            jump: None,
        }
    }

    /// 1 / delta.
    fn target(&self) -> f64 {
        1.0 / self.config.delta
    }

    /// The largest window: nothing is gained beyond twice what was delivered.
    fn most(&self) -> f64 {
        2.0 * self.rounds.bandwidth() * self.queue.srtt() + 10.0
    }

    /// Does it do as a NewReno, since the queue is too short to tell anything?
    fn is_in_short_queue(&self, now: Time) -> bool {
        self.mode == UpwindMode::Competitive && self.room.is_short(now)
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
        // An RTT that was no queue's, of a link that was dead or a clock that stepped, holds
        // nothing up.
        (srtt > 0.0).then(|| (gain * self.cwnd / srtt).max(self.rounds.bandwidth()))
    }
    fn phase(&self) -> Option<&'static str> {
        Some(match self.mode {
            UpwindMode::StartUp => "start_up",
            UpwindMode::Delay => "delay",
            UpwindMode::Competitive => "competitive",
            UpwindMode::Yield => "yield",
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
        if sample.rtt.is_zero() {
            return false;
        }
        self.queue.on_sample(sample);
        let is_over = self.rounds.on_sample(sample, self.queue.srtt());
        if is_over && self.mode != UpwindMode::StartUp {
            if self.config.longer_path {
                self.judge_path(sample.now);
            }
            if self.config.falls {
                self.watch_falls(sample.now);
            }
            self.judge_guide(sample.now);
            if self.config.room {
                self.look_for_room(sample.now);
            }
        }
        let is_short = self.backlog() < self.aim(sample.now);
        self.others.see(is_over, self.queue.is_nearly_empty(), is_short);
        match self.mode {
            UpwindMode::StartUp => self.start_up(sample, is_over),
            UpwindMode::Delay => self.step(sample, is_over),
            UpwindMode::Competitive if self.is_in_short_queue(sample.now) => {}
            UpwindMode::Competitive if self.is_above_shadow() => self.step(sample, is_over),
            UpwindMode::Competitive | UpwindMode::Yield | UpwindMode::Guided => {}
        }
        if self.mode != UpwindMode::StartUp {
            if self.config.competitive {
                self.compete(sample, is_over);
            }
            self.cwnd = self.cwnd.min(self.most());
        }
        self.cwnd = self.cwnd.max(LEAST);
        false
    }

    fn on_congestion(&mut self, event: &CongestionEvent) {
        if event.marked {
            self.on_mark(event);
        } else if self.is_in_short_queue(event.path.now) {
            self.on_loss_in_short_queue(event.path.now);
        } else if self.mode != UpwindMode::StartUp {
            self.on_loss(event);
        }
    }

    fn on_error_loss(&mut self, path: &Path) {
        if self.is_in_short_queue(path.now) {
            self.on_loss_in_short_queue(path.now);
        }
    }

    fn on_spurious_losses(&mut self) {
        self.undo();
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

    fn announce(&mut self, packet: &mut Packet, limited: bool) {
        self.ask(packet, limited);
    }
}

#[cfg(test)]
mod robustness;
#[cfg(test)]
mod tests;
