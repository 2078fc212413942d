//! `--web` of `windward router`: queues over time.

use windward_core::units::Time;
use windward_net::router::{Router, Stats};

use crate::moment::{LinkMoment, Moment};
use crate::web::Web;

/// Charts of all queues.
pub(super) struct Charts {
    web: Web,
    /// The counts of each queue at the last moment.
    before: Vec<Stats>,
}

impl Charts {
    pub(super) fn new(web: Web, routers: &[Router]) -> Self {
        Charts { web, before: routers.iter().map(Router::stats).collect() }
    }

    /// Shows the queues, if all have published counts since the last moment.
    pub(super) fn look(&mut self, routers: &[Router]) {
        if routers.iter().zip(&self.before).any(|(router, before)| router.published() <= before.at)
        {
            return;
        }
        let stats: Vec<Stats> = routers.iter().map(Router::stats).collect();
        let links = stats.iter().zip(&self.before).map(|(now, before)| moment(now, before));
        let last = stats.iter().map(|stats| stats.at).max().unwrap_or(Time::ZERO);
        let moment =
            Moment { time_s: last.as_secs_f64(), links: links.collect(), flows: Vec::new() };
        self.web.show(moment);
        self.before = stats;
    }
}

/// A queue between two publications of its counts.
fn moment<'a>(now: &'a Stats, before: &Stats) -> LinkMoment<'a> {
    let span = now.at.since(before.at).as_secs_f64();
    let sent = now.sojourn.count() - before.sojourn.count();
    let waited = now.sojourn.sum().as_secs_f64() - before.sojourn.sum().as_secs_f64();
    let wait = if sent > 0 { waited / sent as f64 } else { 0.0 };
    LinkMoment {
        name: &now.device,
        rate_bps: (now.sent.bytes - before.sent.bytes) as f64 * 8.0 / span,
        queue_packets: now.waiting,
        delay_s: wait,
        queueing_delay_s: wait,
        dropped: now.dropped.packets + now.overflow - before.dropped.packets - before.overflow,
        corrupted: 0,
        marked: now.marked - before.marked,
    }
}
