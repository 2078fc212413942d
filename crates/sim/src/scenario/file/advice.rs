//! What a file may say and its author hardly means: warnings, for people to read.

use windward_core::endpoint::feedback::Granularity;
use windward_core::network::{AqmSpec, ChannelSpec, NotifierSpec};

use super::group::Group;
use crate::scenario::{FlowSpec, LinkSpec, Traffic};

/// One sentence a thing, each naming the flows and what to do. `loss_free` says of which links
/// the file says nothing about losses.
pub(super) fn warnings(
    groups: &[Group<'_>],
    flows: &[FlowSpec],
    links: &[LinkSpec],
    loss_free: &[bool],
) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        // The flows of a group have like routes.
        let Some(flow) = flows.iter().find(|flow| flow.group == index) else { continue };
        let forward: Vec<&LinkSpec> = flow.forward.iter().map(|&link| &links[link]).collect();
        warnings.extend(ecn_without_marks(group.name, flow, &forward));
        let silent = flow.forward.iter().all(|&link| loss_free[link]);
        warnings.extend(notices_without_notifier(group.name, flow, &forward, silent));
    }
    warnings
}

/// ECN that no queue answers is a plain TCP.
fn ecn_without_marks(group: &str, flow: &FlowSpec, forward: &[&LinkSpec]) -> Option<String> {
    let Traffic::Transport { config, .. } = &flow.traffic else { return None };
    let marks = |link: &&LinkSpec| matches!(&link.queue.aqm, AqmSpec::Red(red) if red.ecn);
    (config.ecn && !forward.iter().any(marks)).then(|| {
        format!(
            "flows `{group}` negotiate ECN and no queue on their way marks packets: losses alone \
             tell them of congestion; give a link `aqm = {{ kind = \"red\", ecn = true }}`"
        )
    })
}

/// Notices that nobody gives: the flows are plain SACK. Nobody is told who says that no link
/// loses anything, as a sweep of loss rates does.
fn notices_without_notifier(
    group: &str,
    flow: &FlowSpec,
    forward: &[&LinkSpec],
    silent: bool,
) -> Option<String> {
    let Traffic::Transport { protocol, .. } = &flow.traffic else { return None };
    let granularity = protocol.feedback.notification()?.granularity;
    let name = protocol.name;
    let asked = match granularity {
        Granularity::PerPacket => "which packets were corrupted",
        Granularity::Cumulative => "how many packets are corrupted",
    };
    let lossy = |link: &&&LinkSpec| link.channel != ChannelSpec::Clean;
    let Some(first) = forward.iter().find(lossy) else {
        return silent.then(|| format!(
            "flows `{group}` ask {asked}, and no link on their way corrupts any: {name} is plain \
             sack here; give a link a channel, as in `loss = 0.01` or `ber = 1e-6`"
        ));
    };
    let told = |link: &&LinkSpec| link.notifier != NotifierSpec::Off;
    (!forward.iter().filter(|link| lossy(&link)).any(|link| told(link))).then(|| {
        format!(
            "flows `{group}` ask {asked}, and no lossy link on their way has a notifier: {name} is \
             plain sack here; give link `{}` `notifier = \"configured\"`",
            first.name
        )
    })
}
