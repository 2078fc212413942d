//! The phases of ESTCP's traffic controllers, from the views of the router and of the
//! flows.

use windward_core::endpoint::window::PhaseCut;
use windward_core::network::Link;
use windward_core::network::router::{EstcpPhase, TrafficController};
use windward_core::units::Time;

use super::flow::{Ends, Flow};
use super::hop::{Hop, Span};
use super::route::Routes;
use crate::outcome::PhaseOutcome;

/// The phases of the controller of the link with this index, if there are any.
pub(super) fn outcome(
    link: u32,
    hop: &Hop,
    routes: &Routes,
    flows: &[Flow],
    window: Span,
) -> Option<PhaseOutcome> {
    let Link::Queued(queue) = &hop.link else { return None };
    let controller = queue.traffic_controller()?;
    let crosses =
        |flow: &Flow| routes.from(flow.route.forward).iter().any(|step| step.link() == link);
    let cuts: Vec<&[PhaseCut]> = flows
        .iter()
        .filter(|flow| crosses(flow))
        .filter_map(|flow| match &flow.ends {
            Ends::Transport(transport) => Some(transport.sender.phase_cuts()),
            _ => None,
        })
        .filter(|cuts| !cuts.is_empty())
        .collect();
    summary(controller, &cuts, window.from)
}

fn summary(
    controller: &TrafficController,
    cuts: &[&[PhaseCut]],
    from: Time,
) -> Option<PhaseOutcome> {
    let all = controller.phases();
    let length = |phase: &EstcpPhase| phase.end.since(phase.start).as_secs_f64();
    let phases: Vec<&EstcpPhase> = all.iter().filter(|phase| phase.start >= from).collect();
    if phases.is_empty() {
        return None;
    }
    let mean = |of: &dyn Fn(&EstcpPhase) -> f64| {
        phases.iter().map(|phase| of(phase)).sum::<f64>() / phases.len() as f64
    };
    let extreme = |of: &dyn Fn(&EstcpPhase) -> f64, pick: fn(f64, f64) -> f64| {
        phases.iter().map(|phase| of(phase)).reduce(pick).unwrap_or(0.0)
    };

    let (mut cut_spread, mut missed) = (0.0_f64, 0);
    let (mut heard_g, mut error, mut n) = (0.0, 0.0, 0.0);
    for phase in &phases {
        // The cut of each flow for the shift that began the phase, and for the one that ended it.
        let heard = |cuts: &&[PhaseCut], from: Time| {
            let next = cuts.partition_point(|cut| cut.at < from);
            cuts.get(next).copied()
        };
        let times = cuts.iter().filter_map(|cuts| heard(cuts, phase.start).map(|cut| cut.at));
        let in_time: Vec<Time> = times.filter(|at| *at < phase.end).collect();
        missed += (cuts.len() - in_time.len()) as u64;
        if let (Some(first), Some(last)) = (in_time.iter().min(), in_time.iter().max()) {
            cut_spread = cut_spread.max(last.since(*first).as_secs_f64());
        }
        for cut in cuts.iter().filter_map(|cuts| heard(cuts, phase.end)) {
            if cut.g.is_finite() {
                n += 1.0;
                heard_g += cut.g;
                error += (cut.g / phase.g - 1.0).abs();
            }
        }
    }

    let target = controller.spec().target.as_secs_f64();
    let good = |phase: &&EstcpPhase| (length(phase) / target - 1.0).abs() <= 0.1;
    let good_at_the_end = all.iter().rev().take_while(|phase| good(phase)).count();
    Some(PhaseOutcome {
        count: phases.len() as u64,
        mean_length: mean(&length),
        mean_g: mean(&|phase| phase.g),
        queue_low: extreme(&|phase| phase.queue.0, f64::max),
        queue_high: extreme(&|phase| phase.queue.1, f64::min),
        cut_spread,
        missed,
        heard_g: (n > 0.0).then(|| heard_g / n),
        g_error: (n > 0.0).then(|| error / n),
        until_converged: (good_at_the_end >= 3).then_some((all.len() - good_at_the_end) as u64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use windward_core::network::{EstcpRouterConfig, Gamma, QueueLimit};
    use windward_core::rng::Stream;
    use windward_core::units::Duration;

    fn ms(time: u64) -> Time {
        Time::ZERO + Duration::from_millis(time)
    }

    #[test]
    fn phases_and_cuts_are_put_together() {
        let spec = EstcpRouterConfig { gamma: Gamma::Fixed(1e-9), ..EstcpRouterConfig::default() };
        let limit = QueueLimit::Packets(100);
        let mut controller =
            TrafficController::with_marks(spec, limit, Stream::new(1, "estcp", "test"));
        // Shifts at 1, 2, 7, 12 and 17 s: one phase of 1 s and three of 5 s, each drained to 3
        // packets.
        for second in [1, 2, 7, 12, 17] {
            controller.overflow(ms(1000 * second), 100, 0);
            controller.write(ms(1000 * second + 100), &mut Default::default(), 3, 0);
        }
        // One flow learns of each shift after 20 ms, the other after 50, 60 and 70 ms, and not of
        // the fourth; the second takes g for 0.11 instead of 0.1.
        let cut = |at, g| PhaseCut { at: ms(at), g };
        let near: Vec<_> = [1, 2, 7, 12, 17].map(|s| cut(1000 * s + 20, 0.1)).to_vec();
        let far = [cut(1050, 0.11), cut(2060, 0.11), cut(7070, 0.11), cut(17_050, 0.11)];
        let outcome = summary(&controller, &[&near, &far], ms(1500)).unwrap();
        assert_eq!((outcome.count, outcome.missed), (3, 1));
        assert!((outcome.mean_length - 5.0).abs() < 1e-9);
        assert!((outcome.cut_spread - 0.05).abs() < 1e-9, "70 - 20 ms");
        assert_eq!((outcome.queue_low, outcome.queue_high), (0.03, 1.0));
        assert!((outcome.heard_g.unwrap() - 0.105).abs() < 1e-6);
        // Half of the values of g are exact, the other half 10 % too large.
        assert!((outcome.g_error.unwrap() - 0.05).abs() < 1e-6);
        assert_eq!(outcome.until_converged, Some(1));
        assert_eq!(summary(&controller, &[], ms(20_000)), None);
    }
}
