//! Upwind: a window for paths that lose packets and routers that do not help.
//!
//! The law is specified in docs/protocols/upwind.md: definitions, rules with a number each, and
//! constants. The code cites these numbers. Each module holds the rules of one idea:
//!
//! | module | rules |
//! |---|---|
//! | `path` | the definitions: delays, round trips |
//! | `verdict` | 1, whether a queue stands |
//! | `floor` | 2 and 3, the loss rate of the path |
//! | `ceiling` | 4 to 7, the window that losses above it allow |
//! | `start_up` | 8 and 9 |
//! | `delay` | 10 and 11, two packets in the queue |
//! | `cause` | 13, whether a loss is congestion |
//! | `competition` | 15 to 18, beside flows that fill the queue |
//! | `guide` | 20, marks and help from routers |
//!
//! This file joins them: which rule comes when, the limits (12), flights (14), and what a restart
//! leaves (19).

mod cause;
mod ceiling;
mod competition;
mod delay;
mod floor;
mod guide;
mod path;
mod start_up;
mod verdict;

use super::{Controller, ControllerPart, ControllerSetup};
use crate::endpoint::estimator::{LostPacket, RateSample};
use crate::endpoint::event::{AckEvent, CongestionEvent, ResetEvent};
use crate::packet::Packet;
use crate::part::{Ability, Form, Need, Part, ValueKind, Words};
use crate::units::Time;

use cause::Cause;
use ceiling::Ceiling;
use competition::Competition;
use delay::Delay;
use floor::{Estimate, Floor};
use guide::Guide;
use path::Path;
use start_up::{StartUp, is_flood};
use verdict::Judge;

/// The least window, packets.
const LEAST: f64 = 2.0;

/// Parameters of Upwind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UpwindConfig {
    /// 1 / delta packets wait in the queue on average. Above 0, up to 10; 1/2.
    pub delta: f64,
    /// The growth of the shadow in a round trip, packets. Above 0, up to 100; 1, as NewReno does.
    pub growth: f64,
    /// True if Upwind has a competitive mode.
    pub competitive: bool,
    /// True if losses above the floor bound the window.
    pub ceiling: bool,
    /// True if a delay that remains while the window shrinks counts as a longer path.
    pub longer_path: bool,
}

impl UpwindConfig {
    /// The default parameters.
    pub const DEFAULT: UpwindConfig = UpwindConfig {
        delta: 0.5,
        growth: 1.0,
        competitive: true,
        ceiling: true,
        longer_path: true,
    };
}

crate::parameters! {
    UpwindConfig in "upwind", "parameters of upwind";
    delta: ValueKind::Positive { most: 10.0 }, "per packet",
        "1 / delta packets wait in the queue on average";
    growth: ValueKind::Positive { most: 100.0 }, "packets per round trip",
        "growth of the shadow window";
    competitive: ValueKind::Bool, "", "keep a share among flows that fill the queue";
    ceiling: ValueKind::Bool, "", "bound the window by the losses above those without a queue";
    longer_path: ValueKind::Bool, "",
        "take a delay that remains while the window shrinks for a longer path";
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

/// A window of packets one of which was lost: the first loss and all packets sent before it was
/// found (rule 14). C and the shadow are those before it: spurious losses restore them.
#[derive(Debug, Clone, Copy)]
struct Flight {
    until: u64,
    ceiling: f64,
    competition: Competition,
}

/// The state of Upwind.
#[derive(Debug)]
pub struct Upwind {
    config: UpwindConfig,
    mode: UpwindMode,
    cwnd: f64,
    path: Path,
    judge: Judge,
    floor: Box<dyn Floor>,
    ceiling: Ceiling,
    cause: Cause,
    start_up: StartUp,
    delay: Delay,
    competition: Competition,
    flight: Flight,
    guide: Guide,
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
    const HEEDS_VERDICTS: bool = false;
    fn new(config: &UpwindConfig, setup: ControllerSetup<'_>) -> Self {
        let cwnd = setup.endpoint.initial_window.max(LEAST);
        let (ceiling, competition) = (Ceiling::none(), Competition::none(cwnd));
        Upwind {
            config: *config,
            mode: UpwindMode::StartUp,
            cwnd,
            path: Path::default(),
            judge: Judge::default(),
            floor: Box::new(Estimate::default()),
            ceiling,
            cause: Cause::default(),
            start_up: StartUp::upto(f64::INFINITY),
            delay: Delay::begin(cwnd, true, 0),
            competition,
            flight: Flight { until: 0, ceiling: ceiling.window(), competition },
            guide: Guide::new(setup.endpoint, setup.feedback),
        }
    }
}

impl Upwind {
    /// b*: the number of own packets to keep in the queue.
    fn target(&self) -> f64 {
        let srtt = self.path.srtt();
        let rate = if srtt > 0.0 { self.cwnd / srtt } else { 0.0 };
        self.step_size().max(rate * self.path.noise())
    }

    /// 1 / delta, the smallest step of the window in a round trip.
    fn step_size(&self) -> f64 {
        1.0 / self.config.delta
    }

    /// The largest window (rule 12).
    fn most(&self) -> f64 {
        2.0 * self.path.bandwidth() * self.path.srtt() + 10.0
    }

    /// C where it bounds the window and the pace: not where routers help.
    fn ceiling(&self) -> f64 {
        let is_bound = self.config.ceiling && self.mode != UpwindMode::Guided;
        if is_bound { self.ceiling.window() } else { f64::INFINITY }
    }

    /// A round trip is over: the rules that judge it.
    fn on_trip(&mut self, sample: &RateSample, now: f64) {
        let is_starting = self.mode == UpwindMode::StartUp;
        let is_unsettled = is_starting || !self.delay.is_settled(sample.prior_delivered);
        self.ceiling.on_trip(self.path.trip, is_unsettled, self.judge.is_clear());
        let clear = self.judge.on_trip(now, &self.path);
        if is_starting && !is_flood(self.path.trip) {
            self.floor.on_start_trip(self.path.trip, self.path.floor());
        }
        // The losses of a start-up are not those of the path.
        if !self.ceiling.is_free() {
            self.floor.on_trip(self.path.trip, self.path.srtt(), self.path.floor());
            if let Some(losses) = clear {
                self.floor.on_clear(losses);
            }
        }
        if is_starting {
            return;
        }
        if self.config.longer_path {
            let (target, overflows) = (self.target(), self.competition.overflows(now));
            if let Some(cwnd) = self.delay.judge_path(self.cwnd, &self.path, target, overflows) {
                self.path.forget();
                self.cwnd = cwnd;
            }
        }
        self.judge_guide(now);
    }

    /// Start-up (rules 8 and 9).
    fn start_up(&mut self, sample: &RateSample, target: f64, is_over: bool) {
        if let Some(cwnd) = self.start_up.step(self.cwnd, &self.path, sample, target, is_over) {
            self.cwnd = cwnd;
            return;
        }
        self.mode = UpwindMode::Delay;
        self.path.settle();
        let pipe = self.path.bandwidth() * self.path.floor() + 1.0;
        self.cwnd = self.cwnd.min(pipe);
        self.delay = Delay::begin(self.cwnd, true, sample.total_delivered);
        self.competition = Competition::none(self.cwnd);
    }

    /// Competition with other flows in the queue (rules 15 to 18).
    fn compete(&mut self, now: f64, acked: f64, is_over: bool) {
        let growth = self.config.growth * acked;
        match self.mode {
            UpwindMode::StartUp => {}
            UpwindMode::Delay => {
                if self.competition.watch(now, self.cwnd, growth, is_over) {
                    self.mode = UpwindMode::Competitive;
                }
            }
            UpwindMode::Competitive => {
                self.cwnd = self.competition.follow(now, self.cwnd, acked, growth);
                if is_over && self.path.is_empty() {
                    self.competition.end(now);
                    self.leave();
                }
            }
            UpwindMode::Guided => self.competition.set(self.cwnd),
        }
    }

    /// Returns to the delay mode.
    fn leave(&mut self) {
        self.mode = UpwindMode::Delay;
        self.delay = Delay::begin(self.cwnd, false, 0);
        self.competition.leave(self.cwnd);
    }

    /// Begins a flight with the present state, up to the packet `until`.
    fn begin_flight(&mut self, until: u64) {
        let (ceiling, competition) = (self.ceiling.window(), self.competition);
        self.flight = Flight { until, ceiling, competition };
    }
}

impl Controller for Upwind {
    #[inline]
    fn cwnd(&self) -> f64 {
        self.cwnd
    }
    /// Rule 12.
    fn pacing_rate(&self) -> Option<f64> {
        let srtt = self.path.srtt();
        if srtt == 0.0 {
            return None;
        }
        let ceiling = self.ceiling();
        if ceiling < LEAST {
            // Fewer packets per round trip than the least window.
            return Some(ceiling / srtt);
        }
        let gain = if self.mode == UpwindMode::StartUp { 1.5 } else { 1.25 };
        // The bandwidth bounds the pace from below: an RTT that a dead link or a step of the clock
        // made long must not slow the sender down.
        Some((gain * self.cwnd / srtt).max(self.path.bandwidth()))
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

    fn on_lost(&mut self, packet: &LostPacket, now: Time) {
        self.path.on_lost();
        let congestion = self.cause.on_lost(&self.path);
        if packet.number > self.flight.until {
            self.begin_flight(packet.number + self.cwnd as u64);
        }
        self.ceiling.on_lost(packet.number, self.cwnd, &*self.floor);
        if matches!(self.mode, UpwindMode::StartUp | UpwindMode::Guided) {
            return;
        }
        // The losses of a flight together halve the shadow at most.
        let least = 0.5 * self.flight.competition.shadow();
        let taken = self.competition.cut(congestion, least);
        if self.mode == UpwindMode::Competitive {
            let least = self.competition.shadow().min(self.cwnd);
            self.cwnd = (self.cwnd - taken).max(least);
        }
        // A start-up fills the queue by itself.
        if congestion > 0.0 && !self.ceiling.is_free() {
            self.competition.on_overflow(now.as_secs_f64());
        }
    }

    fn on_rate_sample(&mut self, sample: &RateSample) -> bool {
        let Some(rtt) = sample.rtt else { return false };
        let (now, rtt) = (sample.now.as_secs_f64(), rtt.as_secs_f64());
        let acked = sample.newly_acked as f64;
        let is_over = self.path.on_sample(sample, now, rtt);
        self.judge.on_sample(rtt, &self.path);
        self.ceiling.grant(acked, &*self.floor);
        self.cause.on_arrival(now, acked, &self.path);
        if is_over {
            self.on_trip(sample, now);
        }
        let target = self.target();
        let is_long = self.cause.is_long(&self.path);
        self.competition.see(is_over, &self.path, self.cwnd, target, is_long);
        match self.mode {
            UpwindMode::StartUp => self.start_up(sample, target, is_over),
            // A window above the shadow responds to delay in competition too.
            UpwindMode::Competitive if self.cwnd < self.competition.shadow() => {}
            UpwindMode::Delay | UpwindMode::Competitive => {
                let targets = (target, self.step_size());
                self.cwnd = self.delay.step(self.cwnd, &self.path, sample, targets, is_over);
            }
            UpwindMode::Guided => {}
        }
        if self.mode != UpwindMode::StartUp {
            if self.config.competitive {
                self.compete(now, acked, is_over);
            }
            self.cwnd = self.cwnd.min(self.most());
        }
        let ceiling = self.ceiling();
        self.competition.limit(ceiling);
        self.cwnd = self.cwnd.min(ceiling).max(LEAST);
        false
    }

    fn on_congestion(&mut self, event: &CongestionEvent) {
        if event.marked {
            self.on_mark(event);
        } else {
            self.on_guided_loss(event);
        }
    }

    fn on_spurious_losses(&mut self) {
        self.competition.undo(&self.flight.competition);
        self.ceiling.undo(self.flight.ceiling);
    }

    fn on_reset(&mut self, event: &ResetEvent) {
        let half = 0.5 * self.cwnd;
        self.cwnd = event.window_after(self.cwnd).max(LEAST);
        self.competition.cut(1.0, 0.0);
        self.mode = UpwindMode::StartUp;
        self.start_up = StartUp::upto(self.competition.shadow().max(half));
        self.guide.reset();
    }

    fn on_restart_from_idle(&mut self, _: Time) {
        self.delay.slow_down();
    }

    fn on_packet_size(&mut self) {
        self.path.forget();
        self.judge.forget();
    }

    fn announce(&mut self, packet: &mut Packet, limited: bool) {
        self.ask(packet, limited);
    }
}

#[cfg(test)]
mod robustness;
#[cfg(test)]
mod tests;
