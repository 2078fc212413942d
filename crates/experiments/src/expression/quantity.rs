//! Quantities that metrics read from a run: functions of the outcome, its scenario, and the groups,
//! links and numbers in the parentheses after their name.

use std::fmt;

use windward_core::units::{Duration, Time};
use windward_sim::metric::{Kinds, Metric, Rule, Unit};
use windward_sim::scenario::{FlowConfig, LinkConfig, Traffic};
use windward_sim::table::Cell;
use windward_sim::{
    Delays, FlowMetrics, FlowOutcome, GroupOutcome, LinkOutcome, Outcome, Row, Samples, Scenario,
    TransferOutcome, jain,
};

use super::{Cursor, Leaf};
use crate::error::nearest;
use crate::theory;

/// A quantity of a run with its arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct Measure {
    quantity: Quantity,
    arguments: Vec<String>,
}

#[derive(Debug, Clone, Copy)]
struct Quantity {
    name: &'static str,
    /// Its arguments.
    takes: &'static [Takes],
    /// Type of optional further arguments.
    more: Option<Takes>,
    /// True if it reads [`Outcome::samples`].
    samples: bool,
    scale: Scale,
    /// The kinds of flows that have it; a group without such a flow is refused.
    needs: Option<Kinds>,
    /// Further check of the scenario.
    check: fn(&Scenario, &[Argument]) -> Result<(), String>,
    read: Read,
    /// Its description in docs/experiments.md; a metric of the simulator has its own.
    meaning: &'static str,
}

/// Computation of a quantity.
#[derive(Debug, Clone, Copy)]
enum Read {
    /// A metric of a group, which aggregates its flows by the rule.
    Group(&'static Metric<GroupOutcome, Outcome>, Rule),
    /// A metric of the flows of a group, aggregated by a rule.
    Flows(&'static Metric<FlowOutcome, Outcome>, Rule),
    /// A metric of a link.
    Link(&'static Metric<LinkOutcome, Outcome>),
    /// A metric of the run.
    Run(&'static Metric<Outcome, Outcome>),
    /// A function.
    By(fn(&Inputs<'_>) -> f64),
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// Type of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    Group,
    Link,
    /// A number of zero or more, with its name.
    Number(&'static str),
    /// A number from zero to one, with its name.
    Share(&'static str),
}

/// Scale of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scale {
    /// A number with a unit or, as `cv`, without a scale of its own: only ratios of it are
    /// meaningful.
    Open,
    /// A ratio, mostly from 0 to 1: an estimate of a share can be above.
    Ratio,
    /// A part of a whole, or an index between 0 and 1.
    Share,
}

/// Quantities beyond the metrics of the simulator. All others are metrics with a name for
/// expressions ([`Metric::quantity`]).
static QUANTITIES: &[Quantity] = &[
    group("cv", |of| of.group(0).throughput_cv())
        .means("coefficient of variation of the throughput in bins"),
    group("lowest_bin", |of| of.bins(0).iter().copied().fold(f64::NAN, f64::min))
        .means("throughput in the worst bin"),
    group("highest_bin", |of| of.bins(0).iter().copied().fold(f64::NAN, f64::max))
        .means("throughput in the best bin"),
    quantity("throughput_between", BETWEEN, throughput_between).means(
        "mean of the throughput in the bins that lie wholly between two instants, in seconds from \
         the start of the run, the warm-up included",
    ),
    Quantity { samples: true, ..group("max_cwnd", max_cwnd) }.means(
        "largest window of any flow in the samples; the scenario needs `sample`",
    ),
    share(quantity("well_estimated", &[Takes::Group, Takes::Number("tolerance")], |of| {
        mean(of.flows(0).map(|f| {
            let error = (f.loss_estimate.unwrap_or(f64::NAN) - f.true_loss).abs();
            f64::from(u8::from(error <= of.number(1) * f.true_loss))
        }))
    }))
    .means(
        "share of the flows whose `loss_estimate` differs from `true_loss` by at most `tolerance` of \
         that, as 0.1",
    ),
    group("completion", |of| {
        mean(of.flows(0).map(|f| f.completed.map_or(f64::NAN, Time::as_secs_f64)))
    })
    .means(
        "mean over the flows of the time, from the start of the run, at which a transfer was fully \
         acknowledged; no number if one was not",
    ),
    datagrams(group("mean_delay", |of| of.delays(Delays::mean))).means(
        "mean one-way delay of the datagrams that arrived after the warm-up",
    ),
    datagrams(quantity("delay_quantile", &[Takes::Group, QUANTILE], |of| {
        of.delays(|delays| delays.quantile(of.number(1)))
    }))
    .means("one-way delay that this share of them does not exceed, within 0.8 %"),
    share(datagrams(group("datagram_loss", |of| {
        of.group(0).datagrams_lost.map_or(f64::NAN, |lost| lost as f64)
            / of.group(0).packets_sent as f64
    })))
    .means(
        "share of the datagrams sent after the warm-up that queues dropped or channels destroyed",
    ),
    share(media(group("late_frames", |of| {
        let sum = |read: fn(&FlowMetrics) -> Option<u64>| {
            of.flows(0).filter_map(|flow| read(&flow.metrics)).sum::<u64>() as f64
        };
        sum(|flow| flow.late_frames) / sum(|flow| flow.frames)
    })))
    .means(
        "share of the frames of `media` that were not complete at the receiver by their `deadline`, late \
         or with a packet lost; of those made after the warm-up with their deadline before the end",
    ),
    arrivals(group("transfers", |of| of.transfers().count() as f64))
        .means("number of transfers"),
    share(arrivals(group("finished", |of| {
        mean(of.transfers().map(|t| f64::from(u8::from(t.time.is_some()))))
    })))
    .means("share of the transfers that ended before the run did"),
    arrivals(group("fct", |of| mean(of.transfers().map(Transfer::seconds)))).means(
        "mean completion time: from the start of a transfer, or the end of the handshake of a \
         [stack](stacks.md), to the acknowledgment of its last packet; no number if one did not end",
    ),
    arrivals(quantity("fct_between", SIZES, |of| {
        mean(of.transfers_between(1).map(Transfer::seconds))
    }))
    .means("the same for sizes in this range"),
    arrivals(quantity("fct_quantile", &[Takes::Group, QUANTILE], |of| {
        quantile(of.transfers().map(Transfer::at_most), of.number(1))
    }))
    .means(
        "completion time that this share of the transfers, as 0.95, does not exceed (nearest rank); a \
         transfer that did not end counts as the longest, so that there is no number only if the rank \
         is one of these",
    ),
    arrivals(quantity("fct_quantile_between", SIZES_AND_QUANTILE, |of| {
        quantile(of.transfers_between(1).map(Transfer::at_most), of.number(3))
    }))
    .means("the same for sizes in this range"),
    arrivals(quantity("slowdown", &[Takes::Group, QUANTILE], |of| {
        quantile(of.transfers().map(|t| t.at_most() / t.least), of.number(1))
    }))
    .means(
        "the same quantile of completion times divided by the least possible: the round trip of a \
         single packet, plus the transmission of each further packet at the slowest link",
    ),
    share(group("jain_of", |of| jain(of.flows(0).map(|f| f.goodput_bps))))
        .means("Jain's index over the goodput of its flows"),
    share(group("epsilon", epsilon)).means(
        "1 minus the smallest goodput of a flow divided by the largest: the epsilon for which the \
         allocation is epsilon-fair (RFC 5166 section 2.3.3)",
    ),
    quantity("convergence", CONVERGENCE, convergence).means(
        "seconds from the start of the first group until its throughput is at least `share` of that of \
         the second, as means over `seconds`; the rest of the run if it never is",
    ),
    link("capacity", |of| of.link_spec(0).kind.rate.mean().as_bps() as f64)
        .means("rate of the link, its long-term mean if it changes"),
    share(link("drop_rate", |of| of.link(0).dropped as f64 / of.link(0).arrived as f64))
        .means("share of the packets offered to the queue that it dropped, whole run"),
    share(link("loss", |of| {
        let LinkOutcome { corrupted, delivered, .. } = *of.link(0);
        corrupted as f64 / (corrupted + delivered) as f64
    }))
    .means("share of the packets that left the wire that the channel destroyed, whole run"),
    share(link("reordered", |of| of.link(0).reordered as f64 / of.link(0).delivered as f64)).means(
        "share of the packets delivered that arrived after one that had left the wire after them (RFC \
         4737); whole run",
    ),
    Quantity {
        samples: true,
        ..quantity("lossy_periods", &[Takes::Link, Takes::Share("share")], lossy_periods)
    }
    .means(
        "largest number of consecutive intervals between samples, after the warm-up, in each of which \
         the queue dropped or the channel destroyed more than this share of the arriving packets, as \
         0.1: the criterion of a slow-trip circuit breaker (RFC 8084). The scenario needs `sample`",
    ),
    link("phases_to_converge", |of| {
        of.link(0).phases.as_deref().map_or(f64::NAN, |phases| {
            phases.until_converged.map_or(f64::INFINITY, |phases| phases as f64)
        })
    })
    .means("number of phases from the start of the run until the lengths of all later ones are within 10 % of D"),
    Quantity {
        more: Some(Takes::Group),
        scale: Scale::Share,
        check: followed_check,
        ..quantity("followed", FOLLOWED, followed)
    }
    .means(
        "share of bins in which the group has at least `share` of the available bandwidth: the rate of \
         the link minus the throughput of the further groups, which send datagrams. It counts bins that \
         begin `seconds` or more after the latest change, which is the start of the run or a bin in \
         which the throughput of the further groups differs by at least 5 % of the link from the bin \
         before. The throughput of all these groups must be measured at the link",
    ),
];

/// Every quantity that expressions can use.
fn quantities() -> impl Iterator<Item = Quantity> {
    fn called<T>(
        of: &'static Metric<T, Outcome>,
    ) -> Option<(&'static Metric<T, Outcome>, &'static str, Rule)> {
        of.quantity.map(|(name, rule)| (of, name, rule))
    }
    // Metrics that groups aggregate by the same rule are metrics of the group already.
    let groups = GroupOutcome::all().iter().filter_map(called);
    let groups = groups.filter(|(of, _, rule)| of.groups == Some(*rule));
    let groups = groups
        .map(|(of, name, rule)| of_metric(name, &[Takes::Group], of.unit, Read::Group(of, rule)));
    let flows = FlowOutcome::all().iter().filter_map(called);
    let flows = flows.filter(|(of, _, rule)| of.groups != Some(*rule));
    let flows = flows.map(|(of, name, rule)| Quantity {
        needs: (of.of == Kinds::MEDIA).then_some(of.of),
        ..of_metric(name, &[Takes::Group], of.unit, Read::Flows(of, rule))
    });
    let links = LinkOutcome::all().iter().filter_map(called);
    let links = links.map(|(of, name, _)| of_metric(name, &[Takes::Link], of.unit, Read::Link(of)));
    let run = Outcome::all().iter().filter_map(called);
    let run = run.map(|(of, name, _)| of_metric(name, &[], of.unit, Read::Run(of)));
    groups.chain(flows).chain(links).chain(run).chain(QUANTITIES.iter().copied())
}

/// Syntax and description of each quantity.
pub fn described() -> impl Iterator<Item = (String, String)> {
    let of_flows = |rule: Rule, meaning: String| {
        format!("{} over the flows. {meaning}", capitalized(rule.words()))
    };
    quantities().map(move |quantity| {
        let meaning = match quantity.read {
            Read::Group(metric, rule) => of_flows(rule, metric.meaning()),
            Read::Flows(metric, rule) => of_flows(rule, metric.meaning()),
            Read::Link(metric) => metric.meaning(),
            Read::Run(metric) => metric.meaning(),
            Read::By(_) => capitalized(quantity.meaning),
        };
        (quantity.written(), meaning)
    })
}

/// The text with its first letter in upper case.
fn capitalized(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().into_iter().flat_map(char::to_uppercase).chain(rest).collect()
}

fn of_metric(name: &'static str, takes: &'static [Takes], unit: Unit, read: Read) -> Quantity {
    let scale = match unit {
        Unit::Share => Scale::Share,
        Unit::Ratio => Scale::Ratio,
        _ => Scale::Open,
    };
    Quantity { scale, read, ..quantity(name, takes, |_| f64::NAN) }
}

const fn quantity(
    name: &'static str,
    takes: &'static [Takes],
    read: fn(&Inputs<'_>) -> f64,
) -> Quantity {
    Quantity {
        name,
        takes,
        more: None,
        samples: false,
        scale: Scale::Open,
        needs: None,
        check: |_, _| Ok(()),
        read: Read::By(read),
        meaning: "",
    }
}

const fn group(name: &'static str, read: fn(&Inputs<'_>) -> f64) -> Quantity {
    quantity(name, &[Takes::Group], read)
}

const fn link(name: &'static str, read: fn(&Inputs<'_>) -> f64) -> Quantity {
    quantity(name, &[Takes::Link], read)
}

/// The same quantity, declared as a share.
const fn share(of: Quantity) -> Quantity {
    Quantity { scale: Scale::Share, ..of }
}

/// Restricts the quantity to groups with transfers.
const fn arrivals(of: Quantity) -> Quantity {
    Quantity { check: transfers_check, ..of }
}

/// Restricts the quantity to datagrams, which are observed both at departure and at arrival.
const fn datagrams(of: Quantity) -> Quantity {
    Quantity { needs: Some(Kinds::ANY_DATAGRAMS), ..of }
}

/// Restricts the quantity to media, which has frames.
const fn media(of: Quantity) -> Quantity {
    Quantity { needs: Some(Kinds::MEDIA), ..of }
}

const QUANTILE: Takes = Takes::Share("quantile");
const SIZES: &[Takes] = &[Takes::Group, Takes::Number("from bytes"), Takes::Number("below bytes")];
const SIZES_AND_QUANTILE: &[Takes] =
    &[Takes::Group, Takes::Number("from bytes"), Takes::Number("below bytes"), QUANTILE];

/// An argument with its name looked up: the index of a group or link, or a number.
#[derive(Debug, Clone, Copy)]
enum Argument {
    Group(usize),
    Link(usize),
    Number(f64),
}

/// Inputs of a quantity. Arguments are counted from zero; access to one of another type than
/// declared is an error in the table above.
struct Inputs<'a> {
    scenario: &'a Scenario,
    outcome: &'a Outcome,
    arguments: Vec<Argument>,
}

impl<'a> Inputs<'a> {
    fn group_index(&self, n: usize) -> usize {
        let Argument::Group(group) = self.arguments[n] else { unreachable!("no group") };
        group
    }

    fn group(&self, n: usize) -> &'a GroupOutcome {
        &self.outcome.groups[self.group_index(n)]
    }

    /// The flows of a group.
    fn flows(&self, n: usize) -> impl Iterator<Item = &'a FlowOutcome> {
        let group = self.group_index(n);
        self.outcome.flows.iter().filter(move |f| f.group == group)
    }

    /// Seconds read from the one-way delays of a group, if it has any.
    fn delays(&self, read: impl Fn(&Delays) -> Option<Duration>) -> f64 {
        let delays = self.group(0).delays.as_deref();
        delays.and_then(read).map_or(f64::NAN, Duration::as_secs_f64)
    }

    /// The transfers of the group that began after the warm-up: arrivals, and flows of a fixed
    /// size.
    fn transfers(&self) -> impl Iterator<Item = Transfer> {
        let from = Time::ZERO + self.outcome.warmup;
        let group = self.group_index(0);
        let own = move |t: &&TransferOutcome| {
            self.outcome.flows.get(t.flow).is_some_and(|f| f.group == group)
        };
        let drawn = self.outcome.transfers.iter().filter(own).map(|t| {
            (t.start, t.bytes, t.packets, t.completion_time(), &self.scenario.flows[t.flow])
        });
        let flows = self.outcome.flows.iter().zip(&self.scenario.flows);
        let fixed = flows.filter(move |(f, _)| f.group == group).filter_map(|(f, spec)| {
            let (bytes, packets) = match &spec.kind.traffic {
                Traffic::Transport { packets: Some(packets), config, arrivals: None, .. } => {
                    (packets.saturating_mul(u64::from(config.packet_size)), *packets)
                }
                Traffic::Stack { bytes: Some(bytes), config, arrivals: None, .. } => {
                    (*bytes, bytes.div_ceil(u64::from(config.payload())))
                }
                _ => return None,
            };
            let time = f.completed.map(|end| end.since(f.start + f.handshake));
            Some((f.start, bytes, packets, time, spec))
        });
        let all = drawn.chain(fixed).filter(move |(start, ..)| *start >= from);
        all.map(|(_, bytes, packets, time, spec)| Transfer {
            bytes: bytes as f64,
            time: time.map(Duration::as_secs_f64),
            least: least_time(self.scenario, spec, packets),
        })
    }

    /// Those whose sizes lie between two arguments, the first included.
    fn transfers_between(&self, n: usize) -> impl Iterator<Item = Transfer> {
        let (from, below) = (self.number(n), self.number(n + 1));
        self.transfers().filter(move |t| t.bytes >= from && t.bytes < below)
    }

    /// The throughput of a group in the bins that lie wholly after the warm-up.
    fn bins(&self, n: usize) -> &'a [f64] {
        self.group(n).measured_bins()
    }

    fn link_index(&self, n: usize) -> usize {
        let Argument::Link(link) = self.arguments[n] else { unreachable!("no link") };
        link
    }

    fn link(&self, n: usize) -> &'a LinkOutcome {
        &self.outcome.links[self.link_index(n)]
    }

    fn link_spec(&self, n: usize) -> &'a LinkConfig {
        &self.scenario.links[self.link_index(n)]
    }

    fn number(&self, n: usize) -> f64 {
        let Argument::Number(number) = self.arguments[n] else { unreachable!("no number") };
        number
    }

    /// The samples, with the index of the first one after the warm-up.
    fn samples(&self) -> Option<(&'a Samples, usize)> {
        let samples = self.outcome.samples.as_ref()?;
        let from = Time::ZERO + self.outcome.warmup;
        Some((samples, samples.times.partition_point(|time| *time < from)))
    }
}

/// One transfer of a group.
#[derive(Debug, Clone, Copy)]
struct Transfer {
    bytes: f64,
    /// Seconds from its start to its end, if it ended during the run.
    time: Option<f64>,
    /// Least possible time on an otherwise idle path, seconds.
    least: f64,
}

impl Transfer {
    /// Completion time in seconds; not a number if the run ended first, so that there is no mean.
    fn seconds(self) -> f64 {
        self.time.unwrap_or(f64::NAN)
    }

    /// Completion time in seconds; infinite if the run ended first, so that lower quantiles are
    /// defined.
    fn at_most(self) -> f64 {
        self.time.unwrap_or(f64::INFINITY)
    }
}

/// Least time in which so many packets can be transferred and acknowledged, with an unlimited
/// window on idle store-and-forward links.
fn least_time(scenario: &Scenario, flow: &FlowConfig, packets: u64) -> f64 {
    /// An acknowledgment of QUIC: short header, an ACK frame, a tag; and UDP and IP.
    const ACK_OF_STACKS: u32 = 64;
    let (packet_size, ack_size) = match &flow.kind.traffic {
        Traffic::Transport { config, .. } => (config.packet_size, config.ack_size),
        Traffic::Stack { config, .. } => (config.packet_size, ACK_OF_STACKS),
        Traffic::Datagrams { .. } => return f64::NAN,
    };
    let way = |links: &[usize], size: u32| -> (f64, f64) {
        links.iter().map(|link| &scenario.links[*link]).fold((0.0, 0.0), |(sum, most), link| {
            let time = link.kind.rate.mean().transmission_time(size).as_secs_f64();
            (sum + link.delay.as_secs_f64() + time, time.max(most))
        })
    };
    let (there, slowest) = way(&flow.forward, packet_size);
    let (back, _) = way(&flow.reverse, ack_size);
    there + back + packets.saturating_sub(1) as f64 * slowest
}

/// Refuses a group with flows that do not have a quantity.
fn kinds_check(needs: Kinds, scenario: &Scenario, arguments: &[Argument]) -> Result<(), String> {
    let Some(Argument::Group(group)) = arguments.first() else { return Ok(()) };
    let mut flows = scenario.flows.iter().filter(|f| f.group == *group);
    if flows.all(|flow| needs.has(Kinds::of(&flow.kind.traffic))) {
        return Ok(());
    }
    let name = &scenario.groups[*group];
    Err(match needs {
        Kinds::MEDIA => format!("`{name}` sends no `media`"),
        _ => format!("`{name}` sends no datagrams: connections have `mean_rtt`"),
    })
}

fn transfers_check(scenario: &Scenario, arguments: &[Argument]) -> Result<(), String> {
    let Some(Argument::Group(group)) = arguments.first() else { return Ok(()) };
    let ends = |flow: &FlowConfig| match &flow.kind.traffic {
        Traffic::Transport { packets, arrivals, .. } => packets.is_some() || arrivals.is_some(),
        Traffic::Stack { bytes, arrivals, .. } => bytes.is_some() || arrivals.is_some(),
        Traffic::Datagrams { .. } => false,
    };
    if !scenario.flows.iter().filter(|f| f.group == *group).all(ends) {
        let name = &scenario.groups[*group];
        return Err(format!("the flows of `{name}` have no end: give them `arrivals` or a `size`"));
    }
    Ok(())
}

/// The least value that at least this share of the values does not exceed (nearest rank).
fn quantile(values: impl Iterator<Item = f64>, share: f64) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    // Rounding must not change the rank.
    let rank = (share * values.len() as f64 - 1e-9).ceil() as usize;
    values.get(rank.max(1) - 1).copied().unwrap_or(f64::NAN)
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (n, sum) = values.fold((0.0, 0.0), |(n, sum), x| (n + 1.0, sum + x));
    sum / n
}

/// The largest window sampled after the warm-up, of any flow of the group.
fn max_cwnd(of: &Inputs<'_>) -> f64 {
    let Some((samples, first)) = of.samples() else { return f64::NAN };
    let own = of.outcome.flows.iter().zip(&samples.cwnd);
    let own = own.filter(|(flow, _)| flow.group == of.group_index(0));
    let windows = own.flat_map(|(_, series)| series.get(first..).unwrap_or_default());
    windows.copied().fold(f64::NAN, f64::max)
}

/// Largest number of consecutive intervals between samples, after the warm-up, in each of which the
/// link lost more than this share of the arriving packets.
fn lossy_periods(of: &Inputs<'_>) -> f64 {
    let Some((samples, first)) = of.samples() else { return f64::NAN };
    let link = &samples.links[of.link_index(0)];
    let counts: Vec<(u64, u64)> =
        link.arrived.iter().copied().zip(link.lost.iter().copied()).skip(first).collect();
    let (mut row, mut longest) = (0u32, 0);
    for period in counts.windows(2) {
        let (arrived, lost) = (period[1].0 - period[0].0, period[1].1 - period[0].1);
        row = if lost as f64 > of.number(1) * arrived as f64 { row + 1 } else { 0 };
        longest = longest.max(row);
    }
    f64::from(longest)
}

const BETWEEN: &[Takes] = &[Takes::Group, Takes::Number("from"), Takes::Number("until")];

/// The mean throughput in the bins that lie wholly between two instants of the run, its warm-up
/// included; no number if there are none.
fn throughput_between(of: &Inputs<'_>) -> f64 {
    let width = of.scenario.bin.as_secs_f64();
    let (from, until) = (of.number(1), of.number(2));
    let bins = of.group(0).throughput_bins.iter().enumerate();
    // Rounding must not exclude a bin that begins or ends exactly there.
    let within = bins.filter(|(bin, _)| {
        let begins = *bin as f64 * width;
        begins >= from - 1e-9 && begins + width <= until + 1e-9
    });
    mean(within.map(|(_, throughput)| *throughput))
}

/// Smallest epsilon for which the allocation is epsilon-fair: the smallest goodput is at least (1 -
/// epsilon) times the largest (RFC 5166 section 2.3.3).
fn epsilon(of: &Inputs<'_>) -> f64 {
    let (least, most) =
        of.flows(0).fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), flow| {
            (least.min(flow.goodput_bps), most.max(flow.goodput_bps))
        });
    1.0 - least / most
}

const CONVERGENCE: &[Takes] =
    &[Takes::Group, Takes::Group, Takes::Share("share"), Takes::Number("seconds")];

/// Time from the start of the first group until its throughput is at least `share` of that of the
/// second, as means over so many seconds; the rest of the run if it never is.
fn convergence(of: &Inputs<'_>) -> f64 {
    let (share, seconds) = (of.number(2), of.number(3));
    let width = of.scenario.bin.as_secs_f64();
    let start = of.flows(0).map(|f| f.start.as_secs_f64()).fold(f64::NAN, f64::min);
    let (late, early) = (&of.group(0).throughput_bins, &of.group(1).throughput_bins);
    let bins = ((seconds / width).round() as usize).max(1);
    // Bins that begin before its start do not count.
    let first = (start / width).ceil() as usize;
    let sum = |bins: &[f64]| bins.iter().sum::<f64>();
    let has = |bin: &usize| sum(&late[*bin..bin + bins]) >= share * sum(&early[*bin..bin + bins]);
    let found = (first..(late.len() + 1).saturating_sub(bins)).find(has);
    found.map_or(late.len() as f64 * width, |bin| bin as f64 * width) - start
}

const FOLLOWED: &[Takes] =
    &[Takes::Group, Takes::Link, Takes::Number("share"), Takes::Number("seconds")];

/// Smallest change of the competing traffic, as a share of the link, that counts as a change of the
/// available bandwidth. Queued datagrams shift less than this from bin to bin if bins are long
/// compared with the time to empty the queue.
const CHANGE: f64 = 0.05;

/// Share of bins in which the group had at least `share` of the bandwidth that the others, the
/// further arguments, left of the link. Only bins that begin `seconds` or more after its latest
/// change count. The run begins with a change.
fn followed(of: &Inputs<'_>) -> f64 {
    let capacity = of.link_spec(1).kind.rate.mean().as_bps() as f64;
    let (share, settle) = (of.number(2), of.number(3));
    let width = of.scenario.bin.as_secs_f64();
    let own = of.group(0);
    let taken = |bin: usize| -> f64 {
        (FOLLOWED.len()..of.arguments.len()).map(|n| of.group(n).throughput_bins[bin]).sum()
    };
    let (mut counted, mut good) = (0.0, 0.0);
    let mut changed = 0;
    for bin in 0..own.throughput_bins.len() {
        // A change within a bin shows at both of its ends: the later one counts.
        if bin > 0 && (taken(bin) - taken(bin - 1)).abs() > CHANGE * capacity {
            changed = bin;
        }
        // Rounding must not exclude the bin that begins exactly then.
        let settled = (bin - changed) as f64 * width >= settle - 1e-9;
        if bin >= own.first_bin && settled {
            counted += 1.0;
            if own.throughput_bins[bin] >= share * (capacity - taken(bin)) {
                good += 1.0;
            }
        }
    }
    good / counted
}

fn followed_check(scenario: &Scenario, arguments: &[Argument]) -> Result<(), String> {
    let links = arguments.iter().find_map(|a| match a {
        Argument::Link(link) => Some(*link),
        _ => None,
    });
    let groups = arguments.iter().filter_map(|a| match a {
        Argument::Group(group) => Some(*group),
        _ => None,
    });
    for (n, group) in groups.enumerate() {
        let flows = || scenario.flows.iter().filter(|f| f.group == group);
        let name = &scenario.groups[group];
        if let Some(flow) = flows().find(|f| Some(f.bottleneck) != links) {
            let at = &scenario.links[flow.bottleneck].name;
            return Err(format!(
                "the throughput of `{name}` is measured at `{at}`; give its flows `bottleneck`"
            ));
        }
        if n > 0 && flows().any(|f| f.kind.traffic.is_connection()) {
            return Err(format!("`{name}` adapts to others: only datagrams take bandwidth away"));
        }
    }
    Ok(())
}

impl Measure {
    /// Bounds of its value: nothing here is below zero.
    pub fn bounds(&self) -> (f64, f64) {
        let share = self.quantity.scale == Scale::Share;
        (0.0, if share { 1.0 } else { f64::INFINITY })
    }

    /// Bounds of its value in a scenario: a group whose links have constant rates has no more than
    /// its bottlenecks carry.
    pub fn bounds_in(&self, scenario: &Scenario) -> (f64, f64) {
        let (least, most) = self.bounds();
        let is_rate = ["goodput", "throughput"].contains(&self.quantity.name);
        let group = self.arguments.first().filter(|_| is_rate);
        let flows = scenario.flows.iter().filter(|f| Some(&scenario.groups[f.group]) == group);
        let most = if is_rate { most.min(theory::carried(scenario, flows)) } else { most };
        (least, most)
    }

    /// True if it has a unit, as bits per second or packets, or no scale of its own.
    pub(crate) fn has_unit(&self) -> bool {
        self.quantity.scale == Scale::Open
    }

    /// Checks that the scenario has everything that it needs.
    ///
    /// # Errors
    /// If there is no such group or link; the error suggests the nearest name. If the scenario does
    /// not record its data.
    pub fn check(&self, scenario: &Scenario) -> Result<(), String> {
        let arguments = self.resolve(scenario)?;
        if self.quantity.samples && scenario.sample.is_none() {
            return Err(format!(
                "`{self}` reads samples and the scenario has none: add for instance `sample = \
                 \"100ms\"`"
            ));
        }
        let of_kind =
            self.quantity.needs.map_or(Ok(()), |needs| kinds_check(needs, scenario, &arguments));
        let checked = of_kind.and_then(|()| (self.quantity.check)(scenario, &arguments));
        checked.map_err(|e| format!("`{self}`: {e}"))
    }

    /// Its value; not a number if there is no such group or link.
    pub fn of(&self, scenario: &Scenario, outcome: &Outcome) -> f64 {
        let Ok(arguments) = self.resolve(scenario) else { return f64::NAN };
        let of = Inputs { scenario, outcome, arguments };
        let number = |cell: Cell<'_>| cell.number().unwrap_or(f64::NAN);
        match self.quantity.read {
            Read::Flows(metric, rule) => {
                rule.combine(of.flows(0).filter_map(|flow| metric.of_row(flow, outcome).number()))
            }
            Read::Group(metric, _) => number(metric.of_row(of.group(0), outcome)),
            Read::Link(metric) => number(metric.of_row(of.link(0), outcome)),
            Read::Run(metric) => number(metric.of_row(outcome, outcome)),
            Read::By(read) => read(&of),
        }
    }

    fn resolve(&self, scenario: &Scenario) -> Result<Vec<Argument>, String> {
        let unknown = |kind: &str, name: &str, names: Vec<&str>| {
            format!("no {kind} `{name}` in `{self}`{}", nearest(name, names))
        };
        let resolve = |(n, text): (usize, &String)| match self.quantity.kind(n) {
            Some(Takes::Group) | None => {
                let found = scenario.groups.iter().position(|g| g == text);
                let names = || scenario.groups.iter().map(String::as_str).collect();
                found.map(Argument::Group).ok_or_else(|| unknown("group", text, names()))
            }
            Some(Takes::Link) => {
                let found = scenario.links.iter().position(|l| l.name == *text);
                let names = || scenario.links.iter().map(|l| l.name.as_str()).collect();
                found.map(Argument::Link).ok_or_else(|| unknown("link", text, names()))
            }
            Some(Takes::Number(_)) => number(text).map(Argument::Number),
            Some(Takes::Share(_)) => part_of_one(text).map(Argument::Number),
        };
        self.arguments.iter().enumerate().map(resolve).collect()
    }
}

fn number(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|x: &f64| x.is_finite() && *x >= 0.0);
    number.ok_or_else(|| format!("`{text}` is not a number from zero up"))
}

fn part_of_one(text: &str) -> Result<f64, String> {
    let share = number(text).ok().filter(|x| *x <= 1.0);
    share.ok_or_else(|| format!("`{text}` is not a number from 0 to 1"))
}

impl Quantity {
    /// The same quantity with its description.
    const fn means(self, meaning: &'static str) -> Quantity {
        Quantity { meaning, ..self }
    }

    /// Type of argument number `n`.
    fn kind(&self, n: usize) -> Option<Takes> {
        self.takes.get(n).copied().or(self.more)
    }

    /// Its name with words for its arguments.
    fn written(&self) -> String {
        let word = |takes: &Takes| match takes {
            Takes::Group => "group",
            Takes::Link => "link",
            Takes::Number(what) | Takes::Share(what) => what,
        };
        let mut words: Vec<String> =
            self.takes.iter().map(|takes| word(takes).to_owned()).collect();
        words.extend(self.more.iter().map(|more| format!("{}s ..", word(more))));
        format!("{}({})", self.name, words.join(", "))
    }

    /// Error message with its syntax.
    fn usage(&self) -> String {
        let name = self.name;
        match (self.takes, self.more) {
            ([], None) => format!("`{name}()` takes nothing in its parentheses"),
            ([Takes::Link], None) => format!("`{name}(..)` takes the name of one link"),
            ([Takes::Group], None) => format!("`{name}(..)` takes the name of one group"),
            _ => format!("write `{}`", self.written()),
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.quantity.name, self.arguments.join(", "))
    }
}

impl Leaf for Measure {
    fn parse(name: &str, cursor: &mut Cursor<'_>) -> Result<Self, String> {
        let Some(quantity) = quantities().find(|q| q.name == name) else {
            let functions = ["abs", "min", "max"];
            let known = quantities().map(|q| q.name).chain(functions);
            return Err(format!("unknown function `{name}`{}", nearest(name, known)));
        };
        if !cursor.eat('(') {
            return Err(format!("`{name}` needs parentheses: `{name}(..)`"));
        }
        let arguments = cursor.names(')')?;
        let (given, needed) = (arguments.len(), quantity.takes.len());
        if given < needed || (given > needed && quantity.more.is_none()) {
            return Err(quantity.usage());
        }
        for (n, text) in arguments.iter().enumerate() {
            let number = match quantity.kind(n) {
                Some(Takes::Number(_)) => number(text),
                Some(Takes::Share(_)) => part_of_one(text),
                _ => continue,
            };
            number.map_err(|e| format!("{}: {e}", quantity.usage()))?;
        }
        Ok(Measure { quantity, arguments })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use windward_core::units::Duration;
    use windward_sim::LinkSamples;
    use windward_sim::scenario::file::ScenarioFile;

    use super::*;
    use crate::expression::Expression;
    use crate::testing::fake;

    #[test]
    fn shares_end_at_one_and_estimates_of_them_have_no_unit_either() {
        let bounds =
            |text: &str| Expression::<Measure>::parse(text).unwrap().bounds(&Measure::bounds);
        assert_eq!(bounds("100 * utilization(bottleneck)"), (0.0, 100.0));
        assert_eq!(bounds("timeouts(tcp)"), (0.0, f64::INFINITY));
        assert_eq!(bounds("followed(tcp, bottleneck, 0.9, 2)"), (0.0, 1.0));
        assert_eq!(bounds("loss_estimate(tcp)"), (0.0, f64::INFINITY));
        let with_unit = ["timeouts(tcp)", "cv(tcp)", "loss_estimate(tcp)", "jain()"]
            .map(|text| measure(text).has_unit());
        assert_eq!(with_unit, [true, true, false, false]);
    }

    /// 10 Mbit/s for two connections and one stream of datagrams; bins of 0.5 s from 1 s on.
    fn scenario(sample: &str) -> Scenario {
        let text = format!(
            r#"
            duration = "6s"
            warmup = "1s"
            bin = "500ms"
            {sample}
            dumbbell.bottleneck = {{ rate = "10Mbit", delay = "1ms" }}
            dumbbell.access = {{ rate = "100Mbit", delay = "1ms" }}
            flows = [
                {{ group = "tcp", count = 2, protocol = "newreno" }},
                {{ group = "udp", cbr = {{ rate = "1Mbit" }} }},
                {{ group = "slow", protocol = "newreno", bottleneck = "last_hop" }},
            ]"#
        );
        ScenarioFile::parse("test.toml", &text).unwrap().build().unwrap()
    }

    fn measure(text: &str) -> Measure {
        let expression = Expression::<Measure>::parse(text).unwrap();
        expression.leaves()[0].clone()
    }

    #[test]
    fn quantities_of_flows_and_links_by_hand() {
        let scenario = scenario("sample = \"500ms\"");
        let mut outcome = fake(&scenario, &AtomicBool::new(false)).unwrap();
        // Shares of 3 and 1: (3 + 1)^2 / (2 (9 + 1)) = 0.8.
        outcome.flows[0].goodput_bps = 3e6;
        outcome.flows[1].goodput_bps = 1e6;
        for (flow, (sum, longest, periods)) in
            outcome.flows.iter_mut().zip([(1500, 900, 2), (500, 500, 1), (9000, 9000, 9)])
        {
            flow.idle_s = Some(f64::from(sum) / 1e3);
            flow.longest_idle_s = Some(f64::from(longest) / 1e3);
            flow.idle_periods = Some(periods);
        }
        let link = outcome.links.iter_mut().find(|l| l.name == "bottleneck").unwrap();
        (link.arrived, link.dropped, link.corrupted, link.delivered) = (1000, 200, 40, 760);
        link.reordered = 190;
        outcome.groups[0].throughput_bins = vec![0.0, 9e6, 4e6, 6e6];
        outcome.groups[0].first_bin = 2;
        outcome.groups[1].throughput_bins = vec![10e6; 4];
        let times = (0..13).map(|n| Time::ZERO + Duration::from_millis(500 * n));
        let windows = |peak: f64| [vec![99.0, 99.0, peak], vec![2.0; 10]].concat();
        outcome.samples = Some(Samples {
            times: times.collect(),
            // The warm-up ends with the sample at 1 s, which counts.
            cwnd: vec![windows(7.0), windows(8.0), vec![], windows(50.0)],
            links: vec![LinkSamples::default(); outcome.links.len()],
        });
        let index = outcome.links.iter().position(|l| l.name == "bottleneck").unwrap();
        let samples = &mut outcome.samples.as_mut().unwrap().links[index];
        // 100 arrive in each interval. Losses in those after the warm-up: 20, 20, 10, 11, 11, 11, 0
        // ..
        samples.arrived = (0..13).map(|n| 100 * n).collect();
        samples.lost = vec![0, 50, 90, 110, 130, 140, 151, 162, 173, 173, 173, 173, 173];
        for (text, expected) in [
            ("lossy_periods(bottleneck, 0.1)", 3.0), // more than ten, three times
            ("lossy_periods(bottleneck, 0.09)", 6.0), // those before too
            ("lossy_periods(bottleneck, 0.3)", 0.0), // 40 was during the warm-up
            ("jain_of(tcp)", 0.8),
            ("epsilon(tcp)", 1.0 - 1.0 / 3.0),
            // It starts at once. The first second with half of the other's throughput: 0 + 9 of 10
            // + 10.
            ("convergence(tcp, udp, 0.4, 1)", 0.0),
            ("convergence(tcp, udp, 0.5, 1)", 0.5), // 9 + 4 of 20
            ("convergence(tcp, udp, 0.9, 0.5)", 0.5), // 9 of 10
            ("convergence(tcp, udp, 1, 1)", 2.0),   // never, in four bins of half a second
            ("idle(tcp)", 1.0),                     // (1.5 + 0.5) / 2
            ("longest_idle(tcp)", 0.9),             // of 0.9 and 0.5
            ("idle_periods(tcp)", 3.0),             // 2 + 1
            ("max_cwnd(tcp)", 8.0),
            ("lowest_bin(tcp)", 4e6),
            ("highest_bin(tcp)", 6e6),
            ("throughput_between(tcp, 0.5, 2)", 19e6 / 3.0), // 9, 4 and 6 in bins of 0.5 s
            ("throughput_between(tcp, 0.6, 1.5)", 4e6),      // whole bins only
            ("capacity(bottleneck)", 1e7),
            ("drop_rate(bottleneck)", 0.2),  // 200 of 1000
            ("loss(bottleneck)", 0.05),      // 40 of the 800 that left the wire
            ("reordered(bottleneck)", 0.25), // 190 of 760
        ] {
            let measure = measure(text);
            measure.check(&scenario).unwrap();
            assert_eq!(measure.of(&scenario, &outcome), expected, "{text}");
        }
    }

    /// Transfers between one pair of hosts, of a path with a round trip of 4 ms and 0.3 + 0.1 ms
    /// for a packet alone, and 0.3 ms for each further one.
    fn with_transfers(transfers: &[(u64, u64, Option<u64>)]) -> (Scenario, Outcome) {
        let text = r#"
            duration = "60s"
            warmup = "1s"
            dumbbell.bottleneck = { rate = "32Mbit", delay = "2ms" }
            dumbbell.access = { rate = "1Tbit", delay = 0 }
            flows = [
                { group = "bulk", protocol = "newreno" },
                { group = "web", protocol = "newreno", packet_size = 1200, ack_size = 400,
                  arrivals = { rate = 1, until = "50s", sizes = "1kB" } },
                { group = "voice", cbr = { rate = "1Mbit" } },
            ]"#;
        let scenario = ScenarioFile::parse("test.toml", text).unwrap().build().unwrap();
        let mut outcome = fake(&scenario, &AtomicBool::new(false)).unwrap();
        outcome.warmup = scenario.warmup;
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        let rows = transfers.iter().map(|&(start, packets, time)| TransferOutcome {
            flow: 1,
            start: at(start),
            bytes: packets * 1000,
            packets,
            completed: time.map(|time| at(start + time)),
            handshake: Duration::ZERO,
            packets_sent: packets,
            retransmissions: 0,
            timeouts: Some(0),
        });
        outcome.transfers = rows.collect();
        (scenario, outcome)
    }

    #[test]
    fn completion_times_are_those_after_the_warm_up_and_miss_none() {
        // The first began in the warm-up. Of the others one packet is least done in 4.4 ms, three
        // in 5.0 ms.
        let mut all = vec![(999, 1, Some(1)), (1000, 1, Some(11)), (2000, 3, Some(20))];
        all.extend([(3000, 3, Some(50)), (4000, 100, Some(99))]);
        let (scenario, outcome) = with_transfers(&all);
        let value = |text: &str, outcome: &Outcome| {
            let measure = measure(text);
            measure.check(&scenario).unwrap();
            measure.of(&scenario, outcome)
        };
        let near = |text: &str, outcome: &Outcome, expected: f64| {
            let value = value(text, outcome);
            // The access links take nanoseconds.
            let off = (value / expected - 1.0).abs();
            assert!(off < 1e-4, "{text}: {value} instead of {expected}");
        };
        near("transfers(web)", &outcome, 4.0);
        near("finished(web)", &outcome, 1.0);
        near("fct(web)", &outcome, 0.045); // (11 + 20 + 50 + 99) / 4
        near("fct_between(web, 3000, 100000)", &outcome, 0.035); // (20 + 50) / 2
        near("fct_quantile(web, 0.5)", &outcome, 0.020); // rank 2 of 4
        near("fct_quantile(web, 0.51)", &outcome, 0.050);
        near("fct_quantile(web, 1)", &outcome, 0.099);
        near("fct_quantile_between(web, 1000, 3001, 0.95)", &outcome, 0.050);
        near("slowdown(web, 0.25)", &outcome, 11.0 / 4.4);
        near("slowdown(web, 0.5)", &outcome, 99.0 / (4.4 + 99.0 * 0.3)); // 2.90 before 4 and 10
        assert!(value("fct_between(web, 5000, 6000)", &outcome).is_nan(), "of none");

        // A transfer that did not end: no mean, and only lower quantiles.
        all.push((59_000, 1, None));
        let (_, cut) = with_transfers(&all);
        near("finished(web)", &cut, 0.8);
        assert!(value("fct(web)", &cut).is_nan());
        near("fct_quantile(web, 0.8)", &cut, 0.099);
        assert_eq!(value("fct_quantile(web, 0.9)", &cut), f64::INFINITY);
        near("fct_between(web, 3000, 100000)", &cut, 0.035);

        let wrong = |text: &str| measure(text).check(&scenario).unwrap_err();
        assert_eq!(
            wrong("fct(bulk)"),
            "`fct(bulk)`: the flows of `bulk` have no end: give them `arrivals` or a `size`"
        );
        assert_eq!(
            wrong("mean_delay(web)"),
            "`mean_delay(web)`: `web` sends no datagrams: connections have `mean_rtt`"
        );
        assert!(value("mean_delay(voice)", &outcome).is_nan(), "of nothing");
        let parse = |text| Expression::<Measure>::parse(text).unwrap_err().message;
        assert_eq!(
            parse("fct_quantile(web, 95)"),
            "write `fct_quantile(group, quantile)`: `95` is not a number from 0 to 1"
        );
    }

    #[test]
    fn following_counts_settled_bins_only() {
        let scenario = scenario("");
        let mut outcome = fake(&scenario, &AtomicBool::new(false)).unwrap();
        // Bins of 0.5 s, the warm-up ends with bin 2. Others take nothing, then 5 of 10 Mbit/s
        // from the middle of bin 5 on: changes at bins 5 and 6. The later jitter is 0.4 Mbit/s.
        let udp = [0.0, 0.0, 0.0, 0.0, 0.0, 2.5, 5.0, 5.0, 5.0, 5.4, 5.0, 5.0];
        let tcp = [9.0, 9.0, 9.0, 8.9, 9.0, 9.0, 1.0, 1.0, 4.5, 4.2, 4.0, 5.0];
        let mega = |bins: [f64; 12]| bins.map(|b| b * 1e6).to_vec();
        outcome.groups[0].throughput_bins = mega(tcp);
        outcome.groups[1].throughput_bins = mega(udp);
        outcome.groups[0].first_bin = 2;
        let followed = |text: &str| {
            let measure = measure(text);
            measure.check(&scenario).unwrap();
            measure.of(&scenario, &outcome)
        };
        // 1 s after a change: bins 2, 3, 4 (of 9.0 needed: 9.0, 8.9, 9.0) and 8 to 11 (4.5, 4.14,
        // 4.5 and 4.5 needed: 4.5, 4.2, 4.0, 5.0): 5 of 7.
        assert_eq!(followed("followed(tcp, bottleneck, 0.9, 1, udp)"), 5.0 / 7.0);
        // 1.5 s: without bins 2 and 8: 3 of 5.
        assert_eq!(followed("followed(tcp, bottleneck, 0.9, 1.5, udp)"), 3.0 / 5.0);
        // Of the whole link, from 2 s after the start: 8 Mbit/s in bins 4 and 5 alone of 8.
        assert_eq!(followed("followed(tcp, bottleneck, 0.8, 2)"), 2.0 / 8.0);
        // Nothing to count has no value.
        assert!(followed("followed(tcp, bottleneck, 0.9, 60, udp)").is_nan());
    }

    #[test]
    fn errors_say_what_is_missing() {
        let check = |text: &str| measure(text).check(&scenario("")).unwrap_err();
        assert_eq!(check("idle(tpc)"), "no group `tpc` in `idle(tpc)`; did you mean `tcp`?");
        assert_eq!(
            check("max_cwnd(tcp)"),
            "`max_cwnd(tcp)` reads samples and the scenario has none: add for instance `sample = \
             \"100ms\"`"
        );
        assert_eq!(
            check("followed(slow, bottleneck, 0.9, 2)"),
            "`followed(slow, bottleneck, 0.9, 2)`: the throughput of `slow` is measured at \
             `slow-1-last-hop`; give its flows `bottleneck`"
        );
        assert_eq!(
            check("followed(udp, bottleneck, 0.9, 2, tcp)"),
            "`followed(udp, bottleneck, 0.9, 2, tcp)`: `tcp` adapts to others: only datagrams \
             take bandwidth away"
        );
        let parse = |text| Expression::<Measure>::parse(text).unwrap_err().message;
        assert_eq!(
            parse("followed(a)"),
            "write `followed(group, link, share, seconds, groups ..)`"
        );
        assert_eq!(
            parse("followed(a, b, much, 2)"),
            "write `followed(group, link, share, seconds, groups ..)`: `much` is not a number \
             from zero up"
        );
    }

    /// `BLESS=1 cargo test -p windward-experiments experiments_guide` writes its tables.
    #[test]
    fn the_experiments_guide_has_every_quantity() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/experiments.md");
        let guide = std::fs::read_to_string(path).unwrap();
        let mut written = guide.clone();
        for (key, heading, first) in [
            ("quantities of groups", "of a group of flows", Some(Takes::Group)),
            ("quantities of links", "of a link", Some(Takes::Link)),
            ("quantities of runs", "of the run", None),
        ] {
            let own = quantities().zip(described());
            let own = own.filter(|(quantity, _)| quantity.takes.first().copied() == first);
            let rows = own.map(|(_, (usage, meaning))| format!("| `{usage}` | {meaning} |\n"));
            let text = format!("| {heading} | |\n|---|---|\n{}", rows.collect::<String>());
            let (begin, end) =
                (format!("<!-- generated: {key} -->\n"), format!("<!-- end: {key} -->"));
            let (before, rest) = written.split_once(&begin).unwrap();
            let (_, after) = rest.split_once(&end).unwrap();
            written = format!("{before}{begin}{text}{end}{after}");
        }
        if std::env::var_os("BLESS").is_some_and(|bless| bless == "1") {
            std::fs::write(path, &written).unwrap();
        } else {
            let how = "`BLESS=1 cargo test -p windward-experiments experiments_guide`";
            assert!(
                written == guide,
                "docs/experiments.md is out of date; {how} writes its tables"
            );
        }
    }
}
