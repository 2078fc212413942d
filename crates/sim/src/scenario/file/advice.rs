//! What a file may say and its author hardly means: warnings, for people to read.

use windward_core::network::{AqmSpec, EcnThreshold, RouterKind, RouterSpec};

use super::group::Group;
use crate::scenario::{FlowSpec, LinkSpec, Traffic};

/// One sentence a thing, each naming the flows and what to do.
pub(super) fn warnings(
    groups: &[Group<'_>],
    flows: &[FlowSpec],
    links: &[LinkSpec],
) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        // The flows of a group have like routes.
        let Some(flow) = flows.iter().find(|flow| flow.group == index) else { continue };
        let forward: Vec<&LinkSpec> = flow.forward.iter().map(|&link| &links[link]).collect();
        warnings.extend(ecn_without_marks(group.name, flow, &forward));
        warnings.extend(ecn_of_rate_based(group.name, flow));
        let reverse = flow.reverse.iter().map(|&link| &links[link]);
        warnings.extend(low_threshold(group.name, flow, &forward, reverse));
    }
    warnings
}

/// ECN that no queue answers is a plain TCP.
fn ecn_without_marks(group: &str, flow: &FlowSpec, forward: &[&LinkSpec]) -> Option<String> {
    let Traffic::Transport { config, protocol, .. } = &flow.traffic else { return None };
    let marks = |link: &&LinkSpec| {
        matches!(&link.queue.aqm, AqmSpec::Red(red) if red.ecn)
            || matches!(&link.queue.router, RouterSpec::EcnThreshold(_))
    };
    let always = protocol.router == RouterKind::EcnThreshold;
    if !always && !config.ecn || forward.iter().any(marks) {
        return None;
    }
    let what = if always { "go by ECN marks" } else { "negotiate ECN" };
    Some(format!(
        "flows `{group}` {what} and no queue on their way marks packets: losses alone tell them \
         of congestion; give a link `router = \"ecn-threshold\"` or \
         `aqm = {{ kind = \"red\", ecn = true }}`"
    ))
}

/// BBR's draft leaves the response to marks open.
fn ecn_of_rate_based(group: &str, flow: &FlowSpec) -> Option<String> {
    let Traffic::Transport { config, protocol, .. } = &flow.traffic else { return None };
    (config.ecn && protocol.window.is_rate_based()).then(|| {
        format!(
            "flows `{group}` of `{}` do not negotiate ECN, whatever `ecn` says: the protocol \
             specifies no response to marks",
            protocol.name
        )
    })
}

/// RFC 8257 section 4.1: K > C RTT / 7 keeps the wire busy.
fn low_threshold<'a>(
    group: &str,
    flow: &FlowSpec,
    forward: &[&'a LinkSpec],
    reverse: impl Iterator<Item = &'a LinkSpec>,
) -> Option<String> {
    let Traffic::Transport { config, protocol, .. } = &flow.traffic else { return None };
    if protocol.router != RouterKind::EcnThreshold {
        return None;
    }
    let rate = forward.iter().map(|link| link.rate.mean()).min()?;
    let links = forward.iter().copied().chain(reverse);
    let rtt: f64 = links.map(|link| link.delay.as_secs_f64()).sum();
    let pipe = rate.bytes_per_s() * rtt / f64::from(config.packet_size);
    let too_low = |link: &&&LinkSpec| match &link.queue.router {
        RouterSpec::EcnThreshold(EcnThreshold { threshold }) => {
            link.rate.mean() == rate && f64::from(*threshold) <= pipe / 7.0
        }
        _ => false,
    };
    forward.iter().find(too_low).map(|link| {
        format!(
            "flows `{group}`: link `{}` marks before a seventh of the {pipe:.0} packets that fill \
             the path wait, so that it may idle (RFC 8257 section 4.1); give it \
             `router = {{ kind = \"ecn-threshold\", threshold = {:.0} }}` or more",
            link.name,
            (pipe / 7.0).floor() + 1.0
        )
    })
}
