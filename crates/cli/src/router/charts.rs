//! `--web` of `windward router`: queues over time.

use std::time::Duration as WallTime;

use windward_net::router::{Router, Stats};

use crate::clock::Stopwatch;
use crate::moment::{LinkMoment, Moment};
use crate::web::Web;

/// Interval of the charts, which is that in which queues publish their counts.
const INTERVAL: WallTime = WallTime::from_millis(250);

/// Charts of all queues.
pub(super) struct Charts {
    web: Web,
    start: Stopwatch,
    /// Time of the last moment, and the counts at it.
    last: WallTime,
    before: Vec<Stats>,
}

impl Charts {
    pub(super) fn new(web: Web, routers: &[Router]) -> Self {
        let before = routers.iter().map(Router::stats).collect();
        Charts { web, start: Stopwatch::start(), last: WallTime::ZERO, before }
    }

    /// Shows the queues, if a moment is due.
    pub(super) fn look(&mut self, routers: &[Router]) {
        let now = self.start.elapsed();
        let span = now.saturating_sub(self.last);
        if span < INTERVAL {
            return;
        }
        let stats: Vec<Stats> = routers.iter().map(Router::stats).collect();
        let pairs = stats.iter().zip(&self.before);
        let links = pairs.map(|(now, before)| moment(now, before, span.as_secs_f64())).collect();
        self.web.show(Moment { time_s: now.as_secs_f64(), links, flows: Vec::new() });
        (self.last, self.before) = (now, stats);
    }
}

/// A queue between two looks, `span` seconds apart.
fn moment<'a>(now: &'a Stats, before: &Stats, span: f64) -> LinkMoment<'a> {
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
