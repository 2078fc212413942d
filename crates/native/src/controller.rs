//! A controller of a library as a congestion controller of Windward.

use std::path::Path as File;

use windward_core::endpoint::estimator::RateSample;
use windward_core::endpoint::event::{AckEvent, CongestionEvent, Path, ResetEvent};
use windward_core::endpoint::window::{
    Controller, ControllerSetup, Fault, MakeController, Wrong, record,
};
use windward_core::packet::Flags;
use windward_core::part::{Ability, CustomPart, Need, Words};
use windward_core::units::Time;

use crate::library::{self, Ack, Loaded, Loss, Setup, State, Timeout};

/// A congestion controller from a shared library.
#[derive(Debug)]
pub struct NativeController {
    loaded: Loaded,
    name: &'static str,
    what: &'static str,
}

impl NativeController {
    /// Loads the library. It stays loaded as long as the program runs.
    ///
    /// # Errors
    /// What is wrong with it, as a sentence without a capital or a full stop.
    pub fn load(path: &File) -> Result<&'static Self, String> {
        let loaded = library::load(path)?;
        let name = loaded.name.clone().leak();
        let what = match loaded.description.is_empty() {
            true => "what a library in C does",
            false => loaded.description.clone().leak(),
        };
        Ok(Box::leak(Box::new(NativeController { loaded, name, what })))
    }

    /// Its name, as the library says.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

const NUMBERS: &[Need] =
    &[Need { any_of: &[Ability::TransmissionNumbers], why: "there are no delivery rates" }];

impl CustomPart for NativeController {
    fn words(&self) -> Words {
        Words { name: self.name, what: self.what, source: "a shared library" }
    }
    fn needs(&self) -> &'static [Need] {
        if self.loaded.needs_rates { NUMBERS } else { &[] }
    }
}

impl MakeController for NativeController {
    fn make(&self, mut setup: ControllerSetup<'_>) -> Box<dyn Controller> {
        let packet = f64::from(setup.endpoint.packet_size);
        let setup = Setup {
            packet_size: u64::from(setup.endpoint.packet_size),
            initial_window: (setup.endpoint.initial_window * packet) as u64,
            seed: (setup.stream.uniform() * (1_u64 << 53) as f64) as u64,
        };
        let state = self.loaded.functions.create(&setup);
        let mut controller = Native {
            state,
            packet,
            cwnd: 1.0,
            rate: None,
            delivery_rate: 0,
            total: 0,
            paces: self.loaded.functions.paces(),
        };
        if controller.state.is_none() {
            record(Fault {
                part: self.name.to_owned(),
                wrong: Wrong::Answer("create returned NULL".to_owned()),
                at: Time::ZERO,
                after: "the start",
            });
        }
        controller.look(0);
        Box::new(controller)
    }
    fn paces(&self) -> bool {
        self.loaded.functions.paces()
    }
    fn samples_rate(&self) -> bool {
        self.loaded.needs_rates
    }
}

/// A connection.
#[derive(Debug)]
struct Native {
    state: Option<State>,
    /// Bytes of a packet.
    packet: f64,
    /// Packets.
    cwnd: f64,
    /// Packets per second.
    rate: Option<f64>,
    /// The latest sample of the delivery rate, bytes per second; 0 after it was told.
    delivery_rate: u64,
    /// Bytes delivered so far.
    total: u64,
    paces: bool,
}

fn nanoseconds(time: Time) -> u64 {
    time.since(Time::ZERO).as_ps() / 1000
}

impl Native {
    /// Saturates; negative values and NaN become zero.
    fn bytes(&self, packets: f64) -> u64 {
        (packets * self.packet) as u64
    }

    /// Reads window and rate after an event. The sender checks them.
    fn look(&mut self, now_ns: u64) {
        let Some(state) = &mut self.state else { return };
        self.cwnd = state.cwnd(now_ns) / self.packet;
        let rate = if self.paces { state.pacing_rate(now_ns) } else { None };
        self.rate = rate.filter(|rate| *rate != 0.0).map(|rate| rate / self.packet);
    }
}

impl Controller for Native {
    fn cwnd(&self) -> f64 {
        self.cwnd
    }

    fn pacing_rate(&self) -> Option<f64> {
        self.rate
    }

    fn on_rate_sample(&mut self, sample: &RateSample) -> bool {
        self.delivery_rate = self.bytes(sample.rate);
        false
    }

    fn on_ack(&mut self, ack: &AckEvent) {
        let delivery_rate = std::mem::take(&mut self.delivery_rate);
        let marked = ack.flags.contains(Flags::ECN_ECHO);
        if ack.delivered == 0 && ack.lost == 0 && !ack.is_part && !marked {
            return;
        }
        let delivered_bytes = self.bytes(ack.delivered as f64);
        self.total += delivered_bytes;
        let now_ns = nanoseconds(ack.path.now);
        let event = Ack {
            now_ns,
            sent_ns: nanoseconds(ack.sent),
            delivered_bytes,
            lost_bytes: self.bytes(ack.lost as f64),
            growth_bytes: if ack.allows_growth() { self.bytes(ack.growth) } else { 0 },
            rtt_ns: ack.path.rtt.as_ps() / 1000,
            min_rtt_ns: ack.path.min_rtt.as_ps() / 1000,
            srtt_ns: ack.path.srtt.as_ps() / 1000,
            in_flight_bytes: self.bytes(ack.path.in_flight),
            delivery_rate,
            total_bytes: self.total,
            in_recovery: u32::from(ack.in_recovery),
            marked: u32::from(marked),
        };
        if let Some(state) = &mut self.state {
            state.on_ack(&event);
        }
        self.look(now_ns);
    }

    fn on_congestion(&mut self, event: &CongestionEvent) {
        let now_ns = nanoseconds(event.path.now);
        let loss = Loss {
            now_ns,
            sent_ns: nanoseconds(event.sent),
            in_flight_bytes: self.bytes(event.path.in_flight),
            marked: u32::from(event.marked),
            reserved: 0,
        };
        if let Some(state) = &mut self.state {
            state.on_loss(&loss);
        }
        self.look(now_ns);
    }

    fn on_error_loss(&mut self, _: &Path) {}

    fn on_reset(&mut self, event: &ResetEvent) {
        let now_ns = nanoseconds(event.path.now);
        let timeout = Timeout {
            now_ns,
            in_flight_bytes: self.bytes(event.path.in_flight),
            restart_window: self.bytes(event.window_after(self.cwnd)),
            repeated: u32::from(event.repeated),
            reserved: 0,
        };
        if let Some(state) = &mut self.state {
            state.on_timeout(&timeout);
        }
        self.look(now_ns);
    }
}
