//! Warnings of settings that are allowed but rarely intended.

use std::collections::HashSet;
use std::sync::Arc;

use windward_core::endpoint::feedback::Granularity;
use windward_core::endpoint::window::ControllerConfig;
use windward_core::network::{
    AqmConfig, ChannelConfig, EcnThreshold, EstcpRouterConfig, LinkRate, NotifierConfig,
    QueueConfig, RateTrace, RouterConfig, RouterKind,
};
use windward_core::part::{AnyPart, Setting, Value};
use windward_core::units::Duration;

use super::group::Group;
use super::{endpoint, stack};
use crate::scenario::{FlowConfig, LinkConfig, Pattern, Traffic};
use crate::stack::Facts;

/// One sentence per warning, each with the flows and a correction. `loss_free` is true for the
/// links whose losses the file does not give.
pub(super) fn warnings(
    groups: &[Group<'_>],
    flows: &[FlowConfig],
    links: &[LinkConfig],
    loss_free: &[bool],
    end: Duration,
) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        // The flows of a group have equivalent routes.
        let Some(flow) = flows.iter().find(|flow| flow.group == index) else { continue };
        warnings.extend(without_effect(group));
        warnings.extend(cut_short(group, end));
        warnings.extend(unrepeatable(group));
        warnings.extend(other_sizes(groups, group));
        let forward: Vec<&LinkConfig> = flow.forward.iter().map(|&link| &links[link]).collect();
        warnings.extend(ecn_without_marks(group.name, flow, &forward));
        warnings.extend(ecn_of_rate_based(group.name, flow));
        let reverse = flow.reverse.iter().map(|&link| &links[link]);
        warnings.extend(low_threshold(group.name, flow, &forward, reverse));
        warnings.extend(no_router(group.name, flow, &forward));
        warnings.extend(crowded_out(groups, index, flow, flows, links));
        warnings.extend(short_phases(group.name, flows, index, links));
        let silent = flow.forward.iter().all(|&link| loss_free[link]);
        warnings.extend(notices_without_notifier(group.name, flow, &forward, silent));
    }
    warnings.extend(unstable_controllers(flows, links));
    // Most links share their kind.
    let mut harmless = HashSet::new();
    for link in links {
        if !harmless.contains(&Arc::as_ptr(&link.kind)) {
            let found = hardly_meant(link);
            if found.is_empty() {
                harmless.insert(Arc::as_ptr(&link.kind));
            }
            warnings.extend(found);
        }
    }
    warnings.extend(links.iter().filter_map(one_opportunity));
    warnings
}

/// Warns of transfers that begin too late to end before the run does.
fn cut_short(group: &Group<'_>, end: Duration) -> Option<String> {
    let goes_on = group.arrivals.as_ref().is_some_and(|plan| plan.go_on_until(end));
    goes_on.then(|| {
        format!(
            "flows `{}`: transfers begin until the run ends, so the last ones do not complete and \
             completion times have no mean; give `arrivals` an earlier `until`",
            group.name
        )
    })
}

/// Warns of parameters of a group that its protocol does not have. Those of `[endpoint]` apply to
/// the protocols that have them.
fn without_effect(group: &Group<'_>) -> Option<String> {
    let (name, idle): (_, &dyn Fn(&str) -> bool) = match &group.traffic {
        Traffic::Transport { protocol, .. } => {
            (protocol.name, &|key| protocol.applies(key) == Some(false) || key.starts_with("quic."))
        }
        Traffic::Stack { stack, .. } => (stack.facts().name, &|key| {
            let table = key.split('.').next().unwrap_or_default();
            endpoint::keys().keys.iter().any(|known| known.name == table)
                && !stack::KEYS.contains(&table)
        }),
        Traffic::Datagrams { .. } => return None,
    };
    let mut ignored = Vec::new();
    for key in group.section.keys() {
        // A protocol without a response to marks has a warning of its own.
        if key == "ecn"
            && matches!(&group.traffic, Traffic::Transport { protocol, .. } if protocol.window.paces())
        {
            continue;
        }
        if idle(key) {
            ignored.push(format!("`{key}`"));
        } else if let Some(table) = group.section.table(key) {
            let keys = table.keys().map(|name| format!("{key}.{name}"));
            ignored.extend(keys.filter(|key| idle(key)).map(|key| format!("`{key}`")));
        }
    }
    let (verb, it) = if ignored.len() == 1 { ("has", "it") } else { ("have", "them") };
    let which = match &group.traffic {
        Traffic::Stack { .. } => "docs/stacks.md for the keys".to_owned(),
        _ => format!("`windward explain {name} --markdown` for the parameters"),
    };
    (!ignored.is_empty()).then(|| {
        format!(
            "flows `{}`: {} {verb} no effect on {name}; remove {it}, or see {which} that apply",
            group.name,
            ignored.join(", "),
        )
    })
}

/// Warns of runs that may differ with the same seed.
fn unrepeatable(group: &Group<'_>) -> Option<String> {
    let Traffic::Stack { stack, .. } = &group.traffic else { return None };
    let Facts { name, unrepeatable, .. } = stack.facts();
    unrepeatable.map(|why| format!("flows `{}`: runs of {name} may differ: {why}", group.name))
}

/// Warns of Windward's connections beside those of a stack, with different packet sizes because the
/// file does not give them.
fn other_sizes(groups: &[Group<'_>], group: &Group<'_>) -> Option<String> {
    let Traffic::Stack { stack, config, .. } = &group.traffic else { return None };
    let other = groups.iter().find(|other| {
        matches!(&other.traffic, Traffic::Transport { config: own, .. }
            if own.packet_size != config.packet_size)
    })?;
    Some(format!(
        "flows `{}` of {} have packets of {} bytes and flows `{}` of {}: set one \
         `endpoint.packet_size` for a comparison",
        group.name,
        stack.facts().name,
        config.packet_size,
        other.name,
        other.packet_size()
    ))
}

/// Warns of flows with ECN without a queue that marks: they behave like a plain TCP.
fn ecn_without_marks(group: &str, flow: &FlowConfig, forward: &[&LinkConfig]) -> Option<String> {
    let Traffic::Transport { config, protocol, .. } = &flow.kind.traffic else { return None };
    let marks = |link: &&LinkConfig| {
        let classes = link.kind.queue.classes.iter().map(|class| &class.queue);
        classes.chain([&link.kind.queue]).any(|queue| queue.aqm.marks() || queue.router.marks())
    };
    let always = protocol.router == RouterKind::EcnThreshold;
    if !always && config.ecn != Some(true) || forward.iter().any(marks) {
        return None;
    }
    let what = if always { "respond to ECN marks" } else { "negotiate ECN" };
    Some(format!(
        "flows `{group}` {what} and no queue on their route marks packets: they learn of \
         congestion by losses alone; give a link `router = \"ecn-threshold\"` or \
         `aqm = {{ kind = \"red\", ecn = true }}`"
    ))
}

/// Warns of BBR with ECN: its draft does not specify a response to marks.
fn ecn_of_rate_based(group: &str, flow: &FlowConfig) -> Option<String> {
    let Traffic::Transport { config, protocol, .. } = &flow.kind.traffic else { return None };
    (config.ecn == Some(true) && protocol.window.paces() && !protocol.window.answers_ecn()).then(
        || {
            format!(
                "flows `{group}` of `{}` do not negotiate ECN even with `ecn = true`: the protocol \
             specifies no response to marks",
                protocol.name
            )
        },
    )
}

/// Warns of a low marking threshold: RFC 8257 section 4.1 asks for K > C RTT / 7 for full
/// utilization.
fn low_threshold<'a>(
    group: &str,
    flow: &FlowConfig,
    forward: &[&'a LinkConfig],
    reverse: impl Iterator<Item = &'a LinkConfig>,
) -> Option<String> {
    let Traffic::Transport { config, protocol, .. } = &flow.kind.traffic else { return None };
    if protocol.router != RouterKind::EcnThreshold {
        return None;
    }
    let rate = forward.iter().map(|link| link.kind.rate.mean()).min()?;
    let links = forward.iter().copied().chain(reverse);
    let rtt: f64 = links.map(|link| link.delay.as_secs_f64()).sum();
    let pipe = rate.bytes_per_s() * rtt / f64::from(config.packet_size);
    let too_low = |link: &&&LinkConfig| match &link.kind.queue.router {
        RouterConfig::EcnThreshold(EcnThreshold { threshold }) => {
            link.kind.rate.mean() == rate && f64::from(*threshold) <= pipe / 7.0
        }
        _ => false,
    };
    forward.iter().find(too_low).map(|link| {
        format!(
            "flows `{group}`: the threshold of link `{}` is at most a seventh of the {pipe:.0} \
             packets that fill the path, so the link may idle (RFC 8257 section 4.1); give it \
             `router = {{ kind = \"ecn-threshold\", threshold = {:.0} }}` or more",
            link.name,
            (pipe / 7.0).floor() + 1.0
        )
    })
}

/// The router of a queue for a class of packets.
fn router_of(queue: &QueueConfig, kind: RouterKind) -> &RouterConfig {
    let class = queue.classes.iter().find(|class| class.kind == kind);
    class.map_or(&queue.router, |class| &class.queue.router)
}

fn controller(link: &LinkConfig) -> Option<&EstcpRouterConfig> {
    match router_of(&link.kind.queue, RouterKind::Estcp) {
        RouterConfig::Estcp(spec) => Some(spec),
        _ => None,
    }
}

/// Warns of protocols without the router that they need, where they fall back to other behaviour.
fn no_router(group: &str, flow: &FlowConfig, forward: &[&LinkConfig]) -> Option<String> {
    let Traffic::Transport { protocol, .. } = &flow.kind.traffic else { return None };
    let (kind, consequence) = (protocol.router, protocol.without_router()?);
    let serves = |link: &&LinkConfig| {
        let router = router_of(&link.kind.queue, kind);
        *router != RouterConfig::default() && router.serves(kind)
    };
    (!forward.iter().any(serves)).then(|| {
        let (kind, name) = (kind.name(), protocol.name);
        format!(
            "no queue on the route of flows `{group}` has the router `{kind}`: without its \
             feedback to {name}, {consequence}; give the bottleneck `router = \"{kind}\"`"
        )
    })
}

/// Harm to flows that ask for a router, where other flows fill the same queue. `None` for XTCP and
/// TCP New Jersey, which keep their share.
fn without_class(kind: RouterKind) -> Option<&'static str> {
    match kind {
        RouterKind::Xcp | RouterKind::XcpPersistent => {
            Some("their routers distribute the remaining capacity, which is close to zero")
        }
        RouterKind::EcnThreshold => Some("above the threshold only they reduce their rate"),
        RouterKind::Estcp => {
            Some("the traffic controller attributes the queue of the others to its own flows")
        }
        RouterKind::Any | RouterKind::Xtcp | RouterKind::CongestionWarning => None,
    }
}

/// Share of a link from which on datagrams starve flows that yield.
const FLOOD: f64 = 0.9;

/// Warns of flows that need a separate queue and share one with flows that fill it.
fn crowded_out(
    groups: &[Group<'_>],
    index: usize,
    flow: &FlowConfig,
    flows: &[FlowConfig],
    links: &[LinkConfig],
) -> Option<String> {
    let kind = flow.kind.traffic.router();
    if kind == RouterKind::Any {
        return None;
    }
    let name = groups[index].name;
    flow.forward.iter().find_map(|&at| {
        let link = &links[at];
        let queue = &link.kind.queue;
        if !queue.classes.is_empty() || matches!(queue.aqm, AqmConfig::FqCodel(_)) {
            return None;
        }
        let marks = queue.aqm.marks() || queue.router.marks();
        // Without marks, the flows respond to losses alone, like a plain TCP.
        let needs = without_class(kind).filter(|_| kind != RouterKind::EcnThreshold || marks);
        let rate = link.kind.rate.mean();
        let others = groups.iter().enumerate().filter(|(other, _)| *other != index);
        let others = others.filter_map(|(other, group)| {
            let flow = flows.iter().find(|flow| flow.group == other)?;
            let narrowest = flow.forward.iter().map(|&link| links[link].kind.rate.mean()).min();
            (flow.forward.contains(&at) && narrowest == Some(rate)).then_some((group, flow))
        });
        let others: Vec<_> = others.collect();
        let fills = |(_, flow): &&(&Group<'_>, &FlowConfig)| fills_queues(flow, links, marks);
        if let (Some(consequence), Some((other, _))) = (needs, others.iter().find(fills)) {
            return Some(format!(
                "flows `{name}` share the queue of link `{}` with flows `{}`, which fill it: \
                 {consequence}; give the link `classes = true`",
                link.name, other.name
            ));
        }
        let offered: f64 = others.iter().map(|(group, _)| offered_bps(group)).sum();
        (offered > FLOOD * rate.as_bps() as f64).then(|| {
            format!(
                "flows `{name}` share the queue of link `{}` with datagrams that take {:.0} % of it \
                 and never yield; give the link `classes = true`",
                link.name,
                100.0 * offered / rate.as_bps() as f64
            )
        })
    })
}

/// True if a plain connection sends until the queue overflows. False if it responds to delays or to
/// the marks of this queue, or if its window is not larger than the path.
fn fills_queues(flow: &FlowConfig, links: &[LinkConfig], marks: bool) -> bool {
    if let Traffic::Stack { config, bytes, arrivals, .. } = &flow.kind.traffic {
        return bytes.is_none() && arrivals.is_none() && !(marks && config.ecn);
    }
    let Traffic::Transport { protocol, config, packets, arrivals: None } = &flow.kind.traffic
    else {
        return false;
    };
    let by_delay =
        matches!(protocol.window, ControllerConfig::Vegas(_) | ControllerConfig::Copa(_));
    if protocol.router != RouterKind::Any || by_delay || (marks && protocol.negotiates_ecn(config))
    {
        return false;
    }
    let route = flow.forward.iter().chain(&flow.reverse).map(|&link| &links[link]);
    let rtt: f64 = route.map(|link| link.delay.as_secs_f64()).sum();
    let rates = flow.forward.iter().map(|&link| links[link].kind.rate.mean().bytes_per_s());
    let pipe = rates.fold(f64::INFINITY, f64::min) * rtt / f64::from(config.packet_size);
    let most = packets.map_or(f64::INFINITY, |packets| packets as f64).min(config.rwnd as f64);
    most > pipe
}

/// Mean rate of the datagrams of a group while it sends, bits per second.
fn offered_bps(group: &Group<'_>) -> f64 {
    let Traffic::Datagrams { pattern, .. } = &group.traffic else { return 0.0 };
    let rate = match pattern {
        Pattern::Constant { rate } => rate.as_bps() as f64,
        Pattern::Media(media) => media.least().as_bps() as f64,
        Pattern::Exponential { rate, mean_on, mean_off } => {
            let (on, off) = (mean_on.as_secs_f64(), mean_off.as_secs_f64());
            rate.as_bps() as f64 * on / (on + off)
        }
        Pattern::Schedule { intervals } => {
            let last = intervals.last().map_or(0.0, |(_, until, _)| until.as_secs_f64());
            let bits = intervals
                .iter()
                .map(|(from, until, rate)| rate.as_bps() as f64 * until.since(*from).as_secs_f64());
            bits.sum::<f64>() / last.max(f64::MIN_POSITIVE)
        }
    };
    rate * group.count as f64
}

/// Warns of short phases (estcp2010): D must be much longer than any RTT, or a phase ends before
/// the effect of its cut shows.
fn short_phases(
    group: &str,
    flows: &[FlowConfig],
    index: usize,
    links: &[LinkConfig],
) -> Option<String> {
    let own = || flows.iter().filter(|f| f.group == index && is_estcp(f));
    let rtt = |flow: &FlowConfig| {
        let route = flow.forward.iter().chain(&flow.reverse);
        route.map(|&link| links[link].delay.as_secs_f64()).sum::<f64>()
    };
    let longest = own().map(rtt).fold(0.0, f64::max);
    let crossed = own().flat_map(|flow| &flow.forward);
    let target = crossed.filter_map(|&link| controller(&links[link])).map(|spec| spec.target);
    let target = target.min()?;
    (target.as_secs_f64() < 10.0 * longest).then(|| {
        let rtt = Duration::from_secs_f64(longest);
        format!(
            "the phases of flows `{group}`, {target}, are shorter than ten times their RTT of \
             {rtt}: the effect of a cut must show within a tenth of a phase; raise `target`"
        )
    })
}

fn is_estcp(flow: &FlowConfig) -> bool {
    flow.kind.traffic.router() == RouterKind::Estcp
}

/// estcp2010 with I = g B/N: stable for 0 < gamma B/N < 2.
fn unstable_controllers(flows: &[FlowConfig], links: &[LinkConfig]) -> Vec<String> {
    let mut crossing = vec![0_u32; links.len()];
    for flow in flows.iter().filter(|flow| is_estcp(flow)) {
        for &link in &flow.forward {
            crossing[link] += 1;
        }
    }
    let warning = |(link, n): (&LinkConfig, u32)| {
        let spec = controller(link)?;
        let class = link.kind.queue.classes.iter().find(|class| class.kind == RouterKind::Estcp);
        let limit = class.map_or(link.kind.queue.limit, |class| class.queue.limit);
        let (buffer, gamma) = (spec.buffer(limit), spec.fixed_gamma(limit)?);
        let gain = gamma * buffer / f64::from(n.max(1));
        (n > 0 && gain >= 2.0).then(|| {
            format!(
                "the traffic controller of link `{}` is unstable: gamma B/N = {gamma} x {buffer} / \
                 {n} = {gain:.3} is not less than 2; give it a gamma below {:.3e}, or \"adaptive\"",
                link.name,
                2.0 * f64::from(n) / buffer
            )
        })
    };
    links.iter().zip(crossing).filter_map(warning).collect()
}

/// Warns of parameters of AQMs and routers outside the bounds that their parts recommend.
fn hardly_meant(link: &LinkConfig) -> Vec<String> {
    let classes = link.kind.queue.classes.iter().map(|class| &class.queue);
    let queues = classes.chain([&link.kind.queue]);
    let parts = queues.flat_map(|queue| {
        let (aqm, router) = (queue.aqm.words(), queue.router.words());
        [("AQM", aqm, queue.aqm.settings()), ("router", router, queue.router.settings())]
    });
    let mut warnings = Vec::new();
    for (what, words, settings) in parts {
        for Setting { doc, value, applies, .. } in settings {
            let Some(advice) = doc.advice.filter(|_| applies) else { continue };
            let number = match value {
                Value::Number(number) => number,
                Value::Integer(number) => number as f64,
                Value::Time(time) => time.as_secs_f64(),
                _ => continue,
            };
            let short = |x: f64| Value::Number(if x < 1e-3 { x } else { (x * 1e4).round() / 1e4 });
            let bound = if number < advice.least {
                format!("less than {}", short(advice.least))
            } else if number > advice.most {
                format!("more than {}", short(advice.most))
            } else {
                continue;
            };
            warnings.push(format!(
                "the {what} `{}` of link `{}` has {} = {value}, {bound}: {}",
                words.name, link.name, doc.key, advice.why
            ));
        }
    }
    warnings
}

/// Gives the rate of a trace of one line, which may be meant as a time or a rate.
fn one_opportunity(link: &LinkConfig) -> Option<String> {
    let LinkRate::Trace(trace) = &link.kind.rate else { return None };
    (trace.len() == 1).then(|| {
        format!(
            "the trace of link `{}` has one line, an opportunity for {} bytes every {} ms, \
             which is a rate of {}",
            link.name,
            RateTrace::OPPORTUNITY,
            trace.period(),
            trace.mean()
        )
    })
}

/// Warns of flows that ask for notices of corruption on a path without a notifier: they behave like
/// plain SACK. There is no warning if the file sets all losses to zero, as a sweep of loss rates
/// does.
fn notices_without_notifier(
    group: &str,
    flow: &FlowConfig,
    forward: &[&LinkConfig],
    silent: bool,
) -> Option<String> {
    let Traffic::Transport { protocol, .. } = &flow.kind.traffic else { return None };
    let granularity = protocol.feedback.notification()?.granularity;
    let name = protocol.name;
    let asked = match granularity {
        Granularity::PerPacket => "which packets were corrupted",
        Granularity::Cumulative => "how many packets are corrupted",
    };
    let lossy = |link: &&&LinkConfig| link.kind.channel != ChannelConfig::Clean;
    let Some(first) = forward.iter().find(lossy) else {
        return silent.then(|| format!(
            "flows `{group}` ask {asked}, and no link on their route corrupts any: {name} behaves \
             like sack here; give a link a channel, as in `loss = 0.01` or `ber = 1e-6`"
        ));
    };
    let told = |link: &&LinkConfig| link.kind.notifier != NotifierConfig::Off;
    (!forward.iter().filter(|link| lossy(link)).any(told)).then(|| {
        format!(
            "flows `{group}` ask {asked}, and no lossy link on their route has a notifier: {name} \
             behaves like sack here; give link `{}` `notifier = \"configured\"`",
            first.name
        )
    })
}
