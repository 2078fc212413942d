//! Upwind: a window for paths that lose packets and routers that do not help.
//!
//! Alone it keeps two packets in the queue, told by delay (Copa; Arun and Balakrishnan, NSDI 2018), and
//! losses change nothing. Where others fill the queue, a shadow window is the least it has: that of
//! NewReno, cut by a loss as far as that is congestion.

mod queue;
mod rounds;

use super::{CongestionControl, Law, Setup};
use crate::endpoint::EndpointConfig;
use crate::endpoint::estimator::{LostPacket, RateSample};
use crate::endpoint::event::{AckEvent, CongestionEvent, ResetEvent};
use crate::part::{Ability, Form, Kind, Need, Part, Words};
use crate::units::{Duration, Time};

use queue::Queue;
use rounds::Rounds;

/// The least window, packets: what keeps acknowledgments coming fast enough to find losses.
const LEAST: f64 = 2.0;

/// How long it is known at least that somebody fills the queue.
const KNOWN: Duration = Duration::from_secs(20);

/// Parameters of Upwind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UpwindConfig {
    /// 1 / delta packets wait in the queue on average. Above 0, up to 10; 1/2.
    pub delta: f64,
    /// Is there a competitive mode?
    pub competitive: bool,
    /// Is a window given back that brought nothing but losses?
    pub gain_test: bool,
}

impl UpwindConfig {
    /// As it is usually.
    pub const DEFAULT: UpwindConfig =
        UpwindConfig { delta: 0.5, competitive: true, gain_test: true };
}

crate::parameters! {
    UpwindConfig in "upwind", "parameters of upwind";
    delta: Kind::Positive { most: 10.0 }, "per packet", "1 / delta packets wait in the queue on average";
    competitive: Kind::Bool, "", "keep a share beside flows that fill the queue";
    gain_test: Kind::Bool, "", "give back a window that brought nothing but losses";
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    StartUp,
    /// The window goes by delay.
    Delay,
    /// The shadow is the least that it has.
    Competitive,
    /// Competitive, and holding back for some round trips: is it still needed?
    Yield,
    /// The queue marks: the shadow is the window.
    Marked,
}

/// The state of Upwind.
#[derive(Debug, Clone)]
pub struct Upwind {
    config: UpwindConfig,
    mode: Mode,
    cwnd: f64,
    queue: Queue,
    rounds: Rounds,
    full: Full,
    steps: Steps,
    gain: Gain,
    /// The window of a NewReno in this one's place.
    shadow: f64,
    /// The largest window lately, above which the shadow does not grow in delay mode.
    top: f64,
    rivalry: Rivalry,
    /// The window and the delay when the delay became much longer than its own doing.
    step: Option<(f64, f64)>,
}

/// Is the pipe full, in start-up?
#[derive(Debug, Clone, Copy, Default)]
struct Full {
    rate: f64,
    rounds: u32,
}

/// How fast the window moves.
#[derive(Debug, Clone, Copy)]
struct Steps {
    velocity: f64,
    is_up: bool,
    /// Round trips in that direction.
    steady: u32,
    /// The window when the round trip began.
    began: f64,
}

/// What more in flight brought.
#[derive(Debug, Clone, Copy)]
struct Gain {
    before: f64,
    /// The window and the rate that growth is measured from.
    window: f64,
    rate: f64,
    /// No growth until this round trip, and how long the next time.
    until: u64,
    hold: u64,
}

/// What is known of others in the queue.
#[derive(Debug, Clone, Copy)]
struct Rivalry {
    /// Round trips since the queue was nearly empty, and since it was short.
    since_empty: u32,
    since_short: u32,
    /// The round trip in which this mode began.
    entered: u64,
    /// Has the window come up to the shadow?
    reached: bool,
    /// What it had before that, when to look whether more came of it.
    window: f64,
    rate: f64,
    look: u64,
    yielded: Time,
    /// Until then somebody is known to fill the queue, because it overflowed, and to be marked.
    known_until: Time,
    marked_until: Time,
    /// When the queue was seen to overflow last.
    overflowed: Option<Time>,
    /// Was there congestion in the last round trip?
    cut: Option<u64>,
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

impl Law for Upwind {
    const PACES: bool = true;
    const SAMPLES_RATE: bool = true;
    fn new(config: &UpwindConfig, setup: Setup<'_>) -> Self {
        Upwind::of(*config, setup.endpoint)
    }
}

impl Upwind {
    fn of(config: UpwindConfig, endpoint: &EndpointConfig) -> Self {
        let cwnd = endpoint.initial_window.max(LEAST);
        Upwind {
            config,
            mode: Mode::StartUp,
            cwnd,
            queue: Queue::default(),
            rounds: Rounds::default(),
            full: Full::default(),
            steps: Steps { velocity: 1.0, is_up: true, steady: 0, began: cwnd },
            gain: Gain { before: 0.0, window: 0.0, rate: 0.0, until: 0, hold: 8 },
            shadow: cwnd,
            top: cwnd,
            rivalry: Rivalry {
                since_empty: 0,
                since_short: 0,
                entered: 0,
                reached: false,
                window: 0.0,
                rate: 0.0,
                look: 0,
                yielded: Time::ZERO,
                known_until: Time::ZERO,
                marked_until: Time::ZERO,
                overflowed: None,
                cut: None,
            },
            step: None,
        }
    }

    /// 1 / delta.
    fn target(&self) -> f64 {
        1.0 / self.config.delta
    }

    /// b: own packets in the queue.
    fn backlog(&self) -> f64 {
        let standing = self.queue.standing();
        if standing > 0.0 { self.cwnd * self.queue.delay() / standing } else { 0.0 }
    }

    fn start_up(&mut self, sample: &RateSample, is_over: bool) {
        let limited = sample.prior_in_flight as f64 >= 0.5 * self.cwnd;
        if is_over && limited {
            if self.rounds.rate >= 1.25 * self.full.rate {
                self.full = Full { rate: self.rounds.rate, rounds: 0 };
            } else {
                self.full.rounds += 1;
            }
        }
        let floods = self.full.rounds >= 1 && self.rounds.lost > self.rounds.least_lost() + 0.2;
        let delay = self.queue.delay_now();
        let backlog = self.cwnd * delay / self.queue.standing_now();
        let queues = backlog > self.target().max(0.1 * self.cwnd) && delay > 0.05 * self.queue.floor();
        if self.full.rounds >= 3 || floods || queues {
            self.mode = Mode::Delay;
            self.queue.settle();
            self.cwnd = self.cwnd.min(self.rounds.bandwidth() * self.queue.floor() + 1.0);
            (self.shadow, self.top) = (self.cwnd, self.cwnd);
            self.steps = Steps { velocity: 1.0, is_up: true, steady: 0, began: self.cwnd };
            self.rivalry.since_empty = 0;
            self.rivalry.since_short = 0;
        } else if limited {
            self.cwnd += sample.newly_acked as f64;
        }
    }

    /// Copa's step towards 1 / delta packets in the queue.
    fn step(&mut self, sample: &RateSample, is_over: bool) {
        if is_over {
            if self.config.gain_test {
                self.judge_gain();
            }
            let is_up = self.cwnd >= self.steps.began;
            if is_up == self.steps.is_up {
                self.steps.steady += 1;
                if self.steps.steady >= 3 {
                    self.steps.velocity *= 2.0;
                }
            } else {
                self.turn(is_up);
            }
            let most = (self.config.delta * self.cwnd * 0.5).max(1.0);
            self.steps.velocity = self.steps.velocity.min(most);
            self.steps.began = self.cwnd;
        }
        let delay = self.queue.delay();
        let up = self.cwnd * delay * self.config.delta <= self.queue.standing();
        if up && (sample.is_app_limited || self.rounds.count < self.gain.until) {
            return;
        }
        if up != self.steps.is_up {
            self.steps.velocity = 1.0;
        }
        let share = sample.newly_acked as f64 / self.cwnd;
        let step = self.steps.velocity * self.target();
        if up {
            self.cwnd += step * share;
        } else {
            let excess = 0.5 * (self.backlog() - self.target());
            self.cwnd -= step.max(excess) * share;
        }
    }

    /// A delay that stays as it is while the window shrinks is no queue: the path has become longer.
    fn judge_step(&mut self) {
        let delay = self.queue.delay();
        match self.step {
            Some((window, was)) if (delay - was).abs() <= 0.2 * was => {
                if self.cwnd <= 0.7 * window {
                    self.queue.forget();
                    self.cwnd = window;
                    self.step = None;
                    self.turn(false);
                }
            }
            _ => self.step = (self.backlog() >= 5.0 * self.target()).then_some((self.cwnd, delay)),
        }
    }

    fn turn(&mut self, is_up: bool) {
        self.steps = Steps { velocity: 1.0, is_up, steady: 0, ..self.steps };
    }

    /// Did what more was in flight arrive? Where a queue is too short to tell by delay, or a policer
    /// drops, it does not.
    fn judge_gain(&mut self) {
        let window = std::mem::replace(&mut self.gain.before, self.cwnd);
        let rate = self.rounds.rate;
        if self.rounds.count <= self.gain.until {
            self.steps.velocity = 1.0;
            self.steps.steady = 0;
            (self.gain.window, self.gain.rate) = (window, rate);
        } else if window == 0.0 || self.gain.window == 0.0 || window <= self.gain.window {
            (self.gain.window, self.gain.rate) = (window, rate);
        } else if window > 1.15 * self.gain.window + 1.0 {
            if rate < 1.05 * self.gain.rate && self.rounds.lost > 0.02 {
                let kept = 1.0 - self.rounds.least_lost().min(0.9);
                let pipe = rate.max(self.gain.rate) * self.queue.floor() / kept;
                let most = pipe.max(0.5 * self.gain.window).min(0.97 * self.gain.window);
                self.cwnd = self.cwnd.min(most);
                (self.gain.window, self.gain.before) = (self.cwnd, self.cwnd);
                self.gain.until = self.rounds.count + self.gain.hold;
                self.gain.hold = (2 * self.gain.hold).min(64);
            } else {
                self.gain.hold = 8;
                (self.gain.window, self.gain.rate) = (window, rate);
            }
        }
    }

    fn compete(&mut self, sample: &RateSample, is_over: bool) {
        let acked = sample.newly_acked as f64;
        let now = sample.now;
        if now < self.rivalry.known_until || matches!(self.mode, Mode::Delay | Mode::Marked) {
            self.shadow += acked / self.shadow.max(1.0);
        } else {
            // A queue that never overflows is that of others who go by delay.
            self.shadow -= 0.01 * acked;
        }
        self.shadow = self.shadow.max(2.0);
        match self.mode {
            Mode::StartUp => {}
            Mode::Marked => {
                self.cwnd = self.shadow;
                if sample.now >= self.rivalry.marked_until {
                    self.leave(sample.now);
                    self.top = self.cwnd;
                }
            }
            Mode::Delay => self.watch(sample.now, is_over),
            Mode::Yield => self.hold_back(sample.now),
            Mode::Competitive => self.keep_up(sample.now, acked, is_over),
        }
    }

    /// Does somebody fill the queue?
    fn watch(&mut self, now: Time, is_over: bool) {
        self.top = self.top.max(self.cwnd);
        self.shadow = self.shadow.min(self.top);
        if !is_over {
            return;
        }
        self.top = (self.top * 0.998).max(self.cwnd);
        let ceded = self.cwnd < 0.7 * self.shadow - 4.0;
        if self.rivalry.since_short >= 5 || self.rivalry.since_empty >= 20 || ceded {
            self.mode = Mode::Competitive;
            self.rivalry.entered = self.rounds.count;
            self.rivalry.reached = false;
            self.rivalry.window = self.cwnd;
            self.rivalry.rate = self.rounds.best_of_three;
            self.rivalry.yielded = now;
        }
    }

    fn hold_back(&mut self, now: Time) {
        let passed = self.rounds.count - self.rivalry.entered;
        if self.queue.is_nearly_empty() && passed > 0 {
            self.leave(now);
            self.top = self.cwnd.max(self.shadow);
        } else if passed >= 5 {
            self.mode = Mode::Competitive;
            self.rivalry.entered = self.rounds.count;
            self.rivalry.reached = false;
            self.rivalry.window = f64::INFINITY;
            self.rivalry.yielded = now;
        }
    }

    fn keep_up(&mut self, now: Time, acked: f64, is_over: bool) {
        if self.cwnd < self.shadow {
            let rise = if self.rivalry.reached { f64::INFINITY } else { 0.5 * acked };
            self.cwnd = (self.cwnd + rise).min(self.shadow);
        }
        let count = self.rounds.count;
        if !self.rivalry.reached && self.cwnd >= self.shadow {
            self.rivalry.reached = true;
            self.rivalry.look = count + 3;
        }
        if !is_over {
            return;
        }
        let Rivalry { reached, look, window, rate, entered, yielded, .. } = self.rivalry;
        if reached && count == look && self.cwnd > 1.2 * window {
            let gained = self.rounds.rate / rate - 1.0;
            if gained < 0.03 * (self.cwnd / window - 1.0) {
                // Nobody gave way: the capacity is smaller, and the queue our own.
                self.leave(now);
                let pipe = self.rounds.rate * self.queue.floor();
                self.cwnd = pipe.max(window).min(self.cwnd);
                (self.shadow, self.top) = (self.cwnd, self.cwnd);
                return;
            }
        }
        if self.queue.is_nearly_empty() && count > entered + 2 {
            self.leave(now);
            self.top = self.cwnd;
            return;
        }
        let since = now.since(yielded).as_secs_f64();
        let srtt = self.queue.srtt();
        let was_cut = self.rivalry.cut.is_some_and(|cut| cut + 1 >= count);
        let due = was_cut && since > (50.0 * srtt).max(10.0) || since > (60.0 * srtt).max(20.0);
        if reached && due && self.rounds.rate > 0.0 {
            // Without what is ours of the queue: does it empty?
            self.mode = Mode::Yield;
            self.rivalry.entered = count;
            let pipe = 0.9 * self.rounds.rate * self.queue.floor();
            self.cwnd = pipe.max(0.4 * self.shadow).min(self.cwnd);
        }
    }

    /// Until when others are known to be there who were noticed now: a NewReno of that window would
    /// have filled the queue twice.
    fn known(&self, now: Time) -> Time {
        let srtt = Duration::from_secs_f64(self.queue.srtt());
        now + KNOWN.max(srtt.mul_f64(2.0 * self.shadow))
    }

    /// The queue is full. Who filled it will have done so again after twice the time that it took.
    fn on_overflow(&mut self, now: Time) {
        let since = self.rivalry.overflowed.replace(now).map_or(Duration::ZERO, |last| now.since(last));
        let srtt = Duration::from_secs_f64(self.queue.srtt());
        let span = KNOWN.max(since.saturating_mul(2)).max(srtt.mul_f64(2.0 * self.shadow));
        self.rivalry.known_until = self.rivalry.known_until.max(now + span);
    }

    fn leave(&mut self, now: Time) {
        self.mode = Mode::Delay;
        self.rivalry.yielded = now;
        self.rivalry.since_empty = 0;
        self.rivalry.since_short = 0;
        self.steps = Steps { velocity: 1.0, is_up: false, steady: 0, began: self.cwnd };
    }
}

impl CongestionControl for Upwind {
    #[inline]
    fn cwnd(&self) -> f64 {
        self.cwnd
    }
    fn pacing_rate(&self) -> Option<f64> {
        let srtt = self.queue.srtt();
        let gain = if self.mode == Mode::StartUp { 1.5 } else { 1.25 };
        (srtt > 0.0).then(|| gain * self.cwnd / srtt)
    }
    fn phase(&self) -> Option<&'static str> {
        Some(match self.mode {
            Mode::StartUp => "start_up",
            Mode::Delay => "delay",
            Mode::Competitive => "competitive",
            Mode::Yield => "yield",
            Mode::Marked => "marked",
        })
    }

    fn on_ack(&mut self, _: &AckEvent) {}

    fn on_lost(&mut self, _: &LostPacket, _: Time) {
        self.rounds.on_lost();
    }

    fn on_rate_sample(&mut self, sample: &RateSample) -> bool {
        if sample.rtt.is_zero() {
            return false;
        }
        self.queue.on_sample(sample);
        let is_over = self.rounds.on_sample(sample, self.queue.srtt());
        if is_over {
            self.rivalry.since_empty += 1;
            self.rivalry.since_short += 1;
        }
        if is_over && self.mode != Mode::StartUp {
            self.judge_step();
        }
        let is_empty = self.queue.is_nearly_empty();
        if is_empty {
            self.rivalry.since_empty = 0;
        }
        if is_empty || self.backlog() < self.target() {
            self.rivalry.since_short = 0;
        }
        match self.mode {
            Mode::StartUp => self.start_up(sample, is_over),
            Mode::Delay => self.step(sample, is_over),
            Mode::Competitive if self.cwnd >= self.shadow => self.step(sample, is_over),
            Mode::Competitive | Mode::Yield | Mode::Marked => {}
        }
        if self.mode != Mode::StartUp {
            if self.config.competitive {
                self.compete(sample, is_over);
            }
            // Nothing is gained beyond twice what was delivered.
            let most = 2.0 * self.rounds.bandwidth() * self.queue.srtt() + 10.0;
            self.cwnd = self.cwnd.min(most);
        }
        self.cwnd = self.cwnd.max(LEAST);
        false
    }

    fn on_congestion(&mut self, event: &CongestionEvent) {
        let now = event.path.now;
        if event.marked {
            let window = if self.mode == Mode::Marked { self.shadow } else { self.cwnd };
            self.shadow = (window * 0.5).max(2.0);
            self.cwnd = self.shadow;
            self.mode = Mode::Marked;
            self.rivalry.marked_until = self.known(now);
            return;
        }
        if self.mode == Mode::StartUp {
            return;
        }
        if event.probability.get() >= 0.25 {
            self.on_overflow(now);
        }
        self.rivalry.cut = Some(self.rounds.count);
        let cut = (self.shadow * event.kept(0.5)).max(2.0);
        let excess = self.shadow - cut;
        if excess > 0.0 {
            self.shadow = cut;
            if self.mode == Mode::Competitive {
                self.cwnd = (self.cwnd - excess).max(cut);
            }
        }
        let floods = self.rounds.lost > self.rounds.least_lost() + 0.1;
        if self.mode == Mode::Delay && event.probability.get() >= 0.25 && floods {
            self.cwnd *= event.kept(0.5);
        }
    }

    fn on_reset(&mut self, event: &ResetEvent) {
        let kept = event.kept(0.5);
        self.shadow = (self.shadow * kept).max(2.0);
        self.cwnd = (self.cwnd * kept).max(LEAST);
        self.steps.velocity = 1.0;
    }

    fn on_restart_from_idle(&mut self, _: Time) {
        self.steps.velocity = 1.0;
    }
}
