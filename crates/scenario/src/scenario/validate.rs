//! Checks of scenarios that a program builds. Files are checked when they are read.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use windward_core::endpoint::EndpointConfig;
use windward_core::endpoint::window::fault;
use windward_core::network::{ChannelConfig, LinkRate, NotifierConfig, QueueConfig, QueueLimit};
use windward_core::part::{AnyPart, Parameters};
use windward_core::units::{Duration, Time};

use super::{
    FlowConfig, FlowKind, LinkConfig, LinkId, LinkKind, MAX_CHANGES, MAX_DURATION, MAX_TRANSFERS,
    Pattern, Scenario, Station, Traffic,
};

/// The reason why a scenario is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidScenario {
    /// The invalid object: `scenario`, or a link or flow by its name.
    pub subject: String,
    /// The reason, as a sentence without a capital or a full stop.
    pub message: String,
}

impl fmt::Display for InvalidScenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject, self.message)
    }
}
impl std::error::Error for InvalidScenario {}

type Check = Result<(), String>;

fn check(holds: bool, message: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(message()) }
}

/// The parts of a scenario. Most flows and links share them; each is here once.
#[derive(Debug)]
pub struct Parts {
    flows: Vec<Arc<FlowKind>>,
    links: Vec<Arc<LinkKind>>,
}

impl Parts {
    /// Returns the failure of a part of another crate in runs of this thread since the last call,
    /// as `NAME: clause` for a controller. Such a run is invalid. `None` if all parts are of this
    /// project.
    pub fn failure(&self) -> Option<String> {
        let protocols = self.flows.iter().filter_map(|flow| match &flow.traffic {
            Traffic::Transport { protocol, .. } => Some(protocol),
            Traffic::Stack { .. } | Traffic::Datagrams { .. } => None,
        });
        if let Some(fault) = fault() {
            let mut names = protocols
                .filter(|protocol| protocol.window.words().name == fault.part)
                .map(|protocol| protocol.name);
            return Some(match names.next().filter(|name| !name.is_empty()) {
                Some(name) => format!("{name}: {}", fault.clause()),
                None => fault.to_string(),
            });
        }
        let mut of_flows = protocols.filter_map(|protocol| {
            protocol.window.failure().or_else(|| protocol.discrimination.failure())
        });
        let mut of_links = self.links.iter().filter_map(|link| {
            let of_channel = match link.channel {
                ChannelConfig::Custom(custom) => custom.0.failure(),
                _ => None,
            };
            of_channel.or_else(|| link.queue.aqm.failure())
        });
        of_flows.next().or_else(|| of_links.next())
    }

    /// True if a part is of another crate: its instances may share state.
    pub fn are_custom(&self) -> bool {
        let mut flows = self.flows.iter();
        let of_flow = |flow: &Arc<FlowKind>| match &flow.traffic {
            Traffic::Transport { protocol, .. } => {
                protocol.window.is_custom() || protocol.discrimination.is_custom()
            }
            Traffic::Stack { .. } => true,
            Traffic::Datagrams { .. } => false,
        };
        let of_link = |link: &Arc<LinkKind>| {
            let LinkKind { queue, channel, .. } = &**link;
            let classes = queue.classes.iter().map(|class| (&class.queue.aqm, &class.queue.router));
            matches!(channel, ChannelConfig::Custom(_))
                || std::iter::once((&queue.aqm, &queue.router))
                    .chain(classes)
                    .any(|(aqm, router)| aqm.is_custom() || router.is_custom())
        };
        flows.any(of_flow) || self.links.iter().any(of_link)
    }
}

impl Scenario {
    /// The parts on which its runs rely.
    pub fn parts(&self) -> Parts {
        let (mut flows, mut links) = (HashSet::new(), HashSet::new());
        let of_flow = |flow: &&FlowConfig| flows.insert(Arc::as_ptr(&flow.kind));
        let of_link = |link: &&LinkConfig| links.insert(Arc::as_ptr(&link.kind));
        Parts {
            flows: self.flows.iter().filter(of_flow).map(|flow| Arc::clone(&flow.kind)).collect(),
            links: self.links.iter().filter(of_link).map(|link| Arc::clone(&link.kind)).collect(),
        }
    }

    /// Checks everything on which the engine relies: times, parameters of queues, channels,
    /// protocols and endpoints, and that routes cross existing links, none of them twice.
    ///
    /// # Errors
    /// The first invalid value.
    pub fn validate(&self) -> Result<(), InvalidScenario> {
        let of = |subject: &str| {
            let subject = subject.to_owned();
            move |message| InvalidScenario { subject, message }
        };
        self.times().map_err(of("scenario"))?;
        for link in &self.links {
            self::link(link, self.duration).map_err(of(&format!("link {}", link.name)))?;
        }
        for wlan in &self.wlans {
            wlan.medium.validate().map_err(of(&format!("wlan {}", wlan.name)))?;
        }
        for link in &self.links {
            self.station(link).map_err(of(&format!("link {}", link.name)))?;
        }
        let end = Time::ZERO + self.duration;
        let arrivals = self.flows.iter().filter_map(|flow| flow.kind.traffic.arrivals());
        let transfers: f64 = arrivals.map(|arrivals| arrivals.expected(end)).sum();
        check(transfers <= MAX_TRANSFERS, || {
            format!("about {transfers:.0} transfers are expected, more than {MAX_TRANSFERS}")
        })
        .map_err(of("scenario"))?;
        for flow in &self.flows {
            self.flow(flow).map_err(of(&format!("flow {}", flow.name)))?;
        }
        Ok(())
    }

    fn station(&self, link: &LinkConfig) -> Check {
        let Some(Station { wlan, station }) = link.station else { return Ok(()) };
        let place = self.wlans.get(wlan as usize);
        check(place.is_some_and(|place| (station as usize) < place.stations), || {
            format!("there is no station {station} of wireless LAN {wlan}")
        })?;
        let LinkKind { rate, notifier, impairments, .. } = &*link.kind;
        let moves = matches!(rate, LinkRate::Trace(_) | LinkRate::Cell(_))
            || *notifier != NotifierConfig::Off
            || !impairments.is_empty();
        check(!moves, || {
            "a link of a wireless LAN has neither the rate of a trace or a cell, impairments nor a \
             notifier"
                .to_owned()
        })
    }

    fn times(&self) -> Check {
        let Scenario { duration, warmup, bin, sample, .. } = self;
        check(!duration.is_zero() && *duration <= MAX_DURATION, || {
            format!("the duration must be from above 0 to {MAX_DURATION}, not {duration}")
        })?;
        check(warmup < duration, || {
            format!("the warm-up must be shorter than the duration, {duration}, not {warmup}")
        })?;
        check(!bin.is_zero(), || "the width of bins must be greater than 0".to_owned())?;
        check(*sample != Some(Duration::ZERO), || {
            "the interval between samples must be greater than 0".to_owned()
        })
    }

    fn flow(&self, flow: &FlowConfig) -> Check {
        let FlowConfig { group, forward, reverse, bottleneck, kind, .. } = flow;
        let FlowKind { traffic, start, stop, nodes: _ } = &**kind;
        check(*group < self.groups.len(), || format!("there is no group {group}"))?;
        check(!forward.is_empty(), || "its data crosses no link".to_owned())?;
        self.route(forward)?;
        self.route(reverse)?;
        check(forward.contains(bottleneck), || {
            format!("its data does not cross its bottleneck, link {bottleneck}")
        })?;
        check(start.0 <= start.1, || "the range of its start ends before it begins".to_owned())?;
        check(stop.is_none_or(|stop| stop > start.1), || {
            "it must stop after it starts".to_owned()
        })?;
        match traffic {
            Traffic::Transport { protocol, config, arrivals, .. } => {
                if let Some(arrivals) = arrivals {
                    arrivals.validate()?;
                }
                check(!reverse.is_empty(), || "its acknowledgments cross no link".to_owned())?;
                protocol.check().map_err(|wrong| wrong.to_string())?;
                config.validate()
            }
            Traffic::Stack { stack, config, arrivals, .. } => {
                if let Some(arrivals) = arrivals {
                    arrivals.validate()?;
                }
                check(!reverse.is_empty(), || "its acknowledgments cross no link".to_owned())?;
                let facts = stack.facts();
                check(facts.packet_sizes.contains(&config.packet_size), || {
                    format!(
                        "{} does not support packets of {} bytes",
                        facts.name, config.packet_size
                    )
                })
            }
            Traffic::Datagrams { packet_size, pattern } => {
                check((1..=EndpointConfig::MAX_PACKET_SIZE).contains(packet_size), || {
                    format!(
                        "datagrams must have 1 to {} bytes, not {packet_size}",
                        EndpointConfig::MAX_PACKET_SIZE
                    )
                })?;
                self::pattern(pattern, *packet_size)
            }
        }
    }

    fn route(&self, route: &[LinkId]) -> Check {
        let mut crossed = std::collections::HashSet::new();
        for link in route {
            check(*link < self.links.len(), || format!("there is no link {link}"))?;
            check(crossed.insert(link), || {
                format!("its route crosses link {} twice", self.links[*link].name)
            })?;
        }
        Ok(())
    }
}

fn link(link: &LinkConfig, duration: Duration) -> Check {
    let LinkKind { rate, queue, impairments, .. } = &*link.kind;
    self::queue(queue)?;
    impairments.validate()?;
    if let LinkRate::Cell(cell) = rate {
        cell.validate()?;
    }
    let changes = rate.changes(duration).saturating_add(impairments.changes(duration));
    check(changes <= MAX_CHANGES, || {
        format!("its schedules change {changes} times, more than {MAX_CHANGES}")
    })?;
    match link.kind.channel {
        ChannelConfig::Bursts { length: 0, .. } => {
            Err("a burst must have at least one packet".to_owned())
        }
        _ => Ok(()),
    }
}

fn queue(queue: &QueueConfig) -> Check {
    let holds = !matches!(queue.limit, QueueLimit::Packets(0) | QueueLimit::Bytes(0));
    check(holds, || "the limit of its queue must be greater than 0".to_owned())?;
    queue.aqm.validate()?;
    queue.router.validate()?;
    for class in &queue.classes {
        check(class.weight.is_finite() && class.weight > 0.0, || {
            format!("the weight of a class must be finite and greater than 0, not {}", class.weight)
        })?;
        check(class.queue.classes.is_empty(), || "a class cannot have classes itself".to_owned())?;
        self::queue(&class.queue)?;
    }
    Ok(())
}

fn pattern(pattern: &Pattern, packet_size: u32) -> Check {
    match pattern {
        Pattern::Constant { .. } => Ok(()),
        Pattern::Media(media) => media.validate(packet_size),
        Pattern::Exponential { mean_on, mean_off, .. } => {
            let last = !mean_on.is_zero() && !mean_off.is_zero();
            check(last, || "mean on and off times must be greater than 0".to_owned())
        }
        Pattern::Schedule { intervals } => {
            let mut end = Time::ZERO;
            for &(from, until, _) in intervals {
                check(from >= end && until > from, || {
                    format!(
                        "the interval from {from:?} to {until:?} is empty or overlaps the one before"
                    )
                })?;
                end = until;
            }
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use windward_core::endpoint::window::ControllerConfig;
    use windward_core::part::Plain;
    use windward_core::protocols::Protocol;

    use super::*;
    use crate::scenario::file::ScenarioFile;

    fn scenario() -> Scenario {
        let text = include_str!("../../../../experiments/examples/first.toml");
        ScenarioFile::parse("first.toml", text).and_then(|file| file.build()).unwrap()
    }

    fn wrong(change: impl FnOnce(&mut Scenario)) -> String {
        let mut scenario = scenario();
        assert_eq!(scenario.validate(), Ok(()));
        change(&mut scenario);
        scenario.validate().unwrap_err().to_string()
    }

    #[test]
    fn invalid_scenarios_of_programs_are_refused_with_a_reason() {
        assert!(wrong(|s| s.warmup = s.duration).contains("the warm-up"));
        assert!(wrong(|s| s.flows[0].group = 7).contains("flow clean-1: there is no group 7"));
        let twice = wrong(|s| {
            let first = s.flows[0].forward[0];
            s.flows[0].forward.push(first);
        });
        assert!(twice.contains("crosses link clean-1-first-hop twice"), "{twice}");
        assert!(wrong(|s| s.flows[0].forward[0] = 999).contains("there is no link 999"));
        assert!(wrong(|s| s.flows[0].reverse.clear()).contains("acknowledgments cross no link"));
        assert!(
            wrong(|s| Arc::make_mut(&mut s.links[0].kind).queue.limit = QueueLimit::Packets(0))
                .contains("limit of its queue")
        );
        let unfit = wrong(|s| {
            let Traffic::Transport { protocol, .. } =
                &mut Arc::make_mut(&mut s.flows[0].kind).traffic
            else {
                panic!()
            };
            *protocol = Arc::new(Protocol { window: ControllerConfig::XcpR(Plain), ..**protocol });
        });
        assert!(unfit.contains("window `xcp-r` needs"), "{unfit}");
        let config = wrong(|s| {
            let Traffic::Transport { config, .. } =
                &mut Arc::make_mut(&mut s.flows[0].kind).traffic
            else {
                panic!()
            };
            *config = Arc::new(EndpointConfig { initial_window: f64::NAN, ..**config });
        });
        assert!(config.contains("initial_window = NaN: must be 1 to 1000000"), "{config}");
    }
}
