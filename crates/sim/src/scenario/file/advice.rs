//! What a file may say and its author hardly means: warnings, for people to read.

use windward_core::network::AqmSpec;

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
