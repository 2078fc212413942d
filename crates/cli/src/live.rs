//! Live view of an emulation: links and flows, every second.

use std::io::{self, IsTerminal, Write as _};

use windward_core::units::{Duration, Time};
use windward_net::port::Port;
use windward_sim::stack::End;
use windward_sim::text::printable;
use windward_sim::{LinkSnapshot, Scenario, Simulation};

use crate::failure::Failure;
use crate::moment::{FlowMoment, LinkMoment, Moment};
use crate::output::{TextTable, rate, seconds};
use crate::web::Web;

/// Form of the live view.
#[derive(Debug)]
pub(crate) enum Style {
    /// No live view.
    Hidden,
    /// A table that is redrawn, or lines if standard error is not a terminal.
    People,
    /// A line of JSON for each interval, on standard output.
    Json,
    /// Charts in a browser.
    Web(Web),
}

/// Shows the state of a simulation at an interval.
#[derive(Debug)]
pub(crate) struct Live {
    style: Style,
    every: Duration,
    next: Time,
    last: Time,
    links: Vec<Link>,
    flows: Vec<Flow>,
    /// Lines on the terminal that the next drawing overwrites.
    drawn: usize,
}

#[derive(Debug)]
struct Link {
    name: String,
    propagation: Duration,
    before: Counts,
}

/// Counters since the beginning.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    arrived: u64,
    dropped: u64,
    corrupted: u64,
    marked: u64,
    sent_bytes: u64,
    waiting: u64,
}

impl From<&LinkSnapshot> for Counts {
    fn from(link: &LinkSnapshot) -> Self {
        Counts {
            arrived: link.arrived,
            dropped: link.dropped,
            corrupted: link.corrupted,
            marked: link.marked,
            sent_bytes: link.sent_bytes,
            waiting: link.queue_packets,
        }
    }
}

#[derive(Debug)]
struct Flow {
    name: String,
    /// Its links in both directions.
    route: Vec<usize>,
    bytes: u64,
    /// Bytes that left a port at either end.
    of_port: [u64; 2],
}

impl Live {
    /// A live view of this scenario, with an interval of `every`.
    pub(crate) fn new(scenario: &Scenario, style: Style, every: Duration) -> Self {
        let link = |link: &windward_sim::scenario::LinkConfig| Link {
            name: link.name.to_string(),
            propagation: link.delay,
            before: Counts::default(),
        };
        let flow = |flow: &windward_sim::scenario::FlowConfig| Flow {
            name: flow.name.to_string(),
            route: flow.forward.iter().chain(&flow.reverse).copied().collect(),
            bytes: 0,
            of_port: [0; 2],
        };
        Live {
            style,
            every,
            next: Time::ZERO + every,
            last: Time::ZERO,
            links: scenario.links.iter().map(link).collect(),
            flows: scenario.flows.iter().map(flow).collect(),
            drawn: 0,
        }
    }

    /// Time of the next [look](Live::look).
    pub(crate) fn next(&self) -> Time {
        if matches!(self.style, Style::Hidden) { Time::NEVER } else { self.next }
    }

    /// Starts counting now: the simulation may have run before.
    pub(crate) fn begin(&mut self, simulation: &mut Simulation) {
        self.last = simulation.now();
        self.next = self.last + self.every;
        for (index, link) in self.links.iter_mut().enumerate() {
            link.before = Counts::from(&simulation.link(index));
        }
        for (index, flow) in self.flows.iter_mut().enumerate() {
            flow.bytes = simulation.bottleneck_bytes(index);
        }
    }

    /// Shows in a browser the part of an interval before the end.
    pub(crate) fn end(
        &mut self,
        simulation: &mut Simulation,
        ports: &[(usize, Port)],
    ) -> Result<(), Failure> {
        let is_due = matches!(self.style, Style::Web(_)) && simulation.now() > self.last;
        if is_due { self.look(simulation, ports) } else { Ok(()) }
    }

    /// Shows the state now, with the packets that crossed these ports.
    pub(crate) fn look(
        &mut self,
        simulation: &mut Simulation,
        ports: &[(usize, Port)],
    ) -> Result<(), Failure> {
        let now = simulation.now();
        let span = now.since(self.last).as_secs_f64();
        // Missed intervals, as of a stopped process, are skipped.
        while self.next <= now {
            self.next += self.every;
        }
        self.last = now;
        let Live { links, flows, .. } = self;
        let links: Vec<LinkMoment<'_>> = links
            .iter_mut()
            .enumerate()
            .map(|(index, link)| link.moment(&simulation.link(index), span))
            .collect();
        let mut delays = links.iter().map(|link| link.delay_s).collect::<Vec<_>>();
        let flows: Vec<FlowMoment<'_>> = flows
            .iter_mut()
            .enumerate()
            .map(|(index, flow)| {
                let port = ports.iter().find(|(flow, _)| *flow == index).map(|(_, port)| port);
                flow.moment(index, simulation, span, &mut delays, port)
            })
            .collect();
        let moment = Moment { time_s: now.as_secs_f64(), links, flows };
        match &self.style {
            Style::Hidden => Ok(()),
            Style::Json => json(&moment),
            Style::Web(web) => {
                web.show(moment);
                Ok(())
            }
            Style::People => {
                self.drawn = show(moment, self.drawn);
                Ok(())
            }
        }
    }
}

impl Link {
    fn moment(&mut self, snapshot: &LinkSnapshot, span: f64) -> LinkMoment<'_> {
        let now = Counts::from(snapshot);
        let before = std::mem::replace(&mut self.before, now);
        // Little's law: the queue over the departure rate.
        let came = now.arrived - before.arrived;
        let gone = before.waiting + came - (now.dropped - before.dropped).min(came);
        let left = gone.saturating_sub(now.waiting) as f64;
        let wait = if left > 0.0 { now.waiting as f64 / left * span } else { 0.0 };
        LinkMoment {
            name: &self.name,
            rate_bps: (now.sent_bytes - before.sent_bytes) as f64 * 8.0 / span,
            queue_packets: now.waiting,
            delay_s: self.propagation.as_secs_f64() + wait,
            queueing_delay_s: wait,
            dropped: now.dropped - before.dropped,
            corrupted: now.corrupted - before.corrupted,
            marked: now.marked - before.marked,
        }
    }
}

impl Flow {
    fn moment(
        &mut self,
        index: usize,
        simulation: &Simulation,
        span: f64,
        delays: &mut [f64],
        port: Option<&Port>,
    ) -> FlowMoment<'_> {
        let bytes = simulation.bottleneck_bytes(index);
        let before = std::mem::replace(&mut self.bytes, bytes);
        let rate_of = |bytes: u64| bytes as f64 * 8.0 / span;
        let of_port = port.map(|port| {
            let now = End::BOTH.map(|from| port.counts(from).bytes_delivered);
            let before = std::mem::replace(&mut self.of_port, now);
            [0, 1].map(|way| rate_of(now[way] - before[way]))
        });
        let of_ours = simulation.flow(index).filter(|flow| !flow.srtt.is_zero());
        let of_links = || self.route.iter().map(|link| delays[*link]).sum();
        FlowMoment {
            name: &self.name,
            rate_bps: of_port.map_or(rate_of(bytes - before), |[forward, _]| forward),
            back_bps: of_port.map(|[_, back]| back),
            cwnd_packets: of_ours.as_ref().map(|flow| flow.cwnd),
            retransmissions: None,
            missing: None,
            queueing_delay_s: None,
            rtt_s: of_ours.map_or_else(of_links, |flow| flow.srtt.as_secs_f64()),
        }
    }
}

fn json(moment: &Moment<'_>) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, moment).map_err(io::Error::from)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

/// Draws over what was `drawn` before on a terminal, and writes lines elsewhere. Returns how many
/// lines are there to be drawn over.
fn show(moment: Moment<'_>, drawn: usize) -> usize {
    let is_terminal = io::stderr().is_terminal();
    let time = format!("{:.1} s", moment.time_s);
    let [links, flows] = tables(moment);
    let text = match is_terminal {
        true => format!("{time}\n{}{}", links.text(), flows.text()),
        false => links.lines(&time) + &flows.lines(&time),
    };
    let back = match is_terminal {
        // Move up by this number of lines, and clear the lines below (ECMA-48 CPL and ED).
        true if drawn > 0 => format!("\x1b[{drawn}F\x1b[J"),
        _ => String::new(),
    };
    let mut err = io::stderr().lock();
    // A failed write to standard error cannot be reported.
    let _ = write!(err, "{back}{}", printable(&text));
    let _ = err.flush();
    text.lines().count()
}

/// The busiest links and flows.
fn tables(moment: Moment<'_>) -> [TextTable; 2] {
    let Moment { links, flows, .. } = moment.busiest();
    let mut of_links =
        TextTable::new(["link", ">rate", ">queue", ">delay", ">dropped", ">corrupted", ">marked"]);
    for link in links {
        of_links.row([
            link.name.to_owned(),
            rate(link.rate_bps),
            link.queue_packets.to_string(),
            seconds(link.delay_s),
            link.dropped.to_string(),
            link.corrupted.to_string(),
            link.marked.to_string(),
        ]);
    }
    let mut of_flows = TextTable::new(["flow", ">rate", ">back", ">cwnd", ">rtt"]);
    for flow in flows {
        of_flows.row([
            flow.name.to_owned(),
            rate(flow.rate_bps),
            flow.back_bps.map_or_else(|| "-".to_owned(), rate),
            flow.cwnd_packets.map_or_else(|| "-".to_owned(), |cwnd| format!("{cwnd:.1}")),
            seconds(flow.rtt_s),
        ]);
    }
    [of_links, of_flows]
}
