//! `--web` of `windward router`: queues over time.

use windward_core::units::Time;
use windward_http::Listener;
use windward_net::router::{Router, Stats};

use crate::failure::Failure;
use crate::moment::{LinkMoment, Moment};
use crate::output::rate;
use crate::web::{About, Web};

/// Charts of all queues.
pub(super) struct Charts {
    web: Web,
    /// The counts of each queue at the last moment.
    before: Vec<Stats>,
}

impl Charts {
    /// Serves charts of these queues.
    pub(super) fn start(
        listener: Listener,
        routers: &[Router],
        quiet: bool,
    ) -> Result<Self, Failure> {
        let before: Vec<Stats> = routers.iter().map(Router::stats).collect();
        let web = Web::start(listener, &about(&before, &subject(&before)), quiet)?;
        Ok(Charts { web, before })
    }

    /// Shows the queues, if all have published counts since the last moment.
    pub(super) fn look(&mut self, routers: &[Router]) {
        if routers.iter().zip(&self.before).any(|(router, before)| router.published() <= before.at)
        {
            return;
        }
        let stats: Vec<Stats> = routers.iter().map(Router::stats).collect();
        let subject = subject(&stats);
        if subject != self::subject(&self.before) {
            self.web.describe(&about(&stats, &subject));
        }
        let links = stats.iter().zip(&self.before).map(|(now, before)| moment(now, before));
        let last = stats.iter().map(|stats| stats.at).max().unwrap_or(Time::ZERO);
        let moment =
            Moment { time_s: last.as_secs_f64(), links: links.collect(), flows: Vec::new() };
        self.web.show(moment);
        self.before = stats;
    }
}

/// The queues with their present rates.
fn subject(all: &[Stats]) -> String {
    let words = |stats: &Stats| {
        format!("{}: {}, {}", stats.device, rate(stats.rate.as_bps() as f64), stats.qdisc)
    };
    all.iter().map(words).collect::<Vec<_>>().join("; ")
}

fn about<'a>(all: &[Stats], subject: &'a str) -> About<'a> {
    let capacity_bps = match all {
        [one] => Some(one.rate.as_bps() as f64),
        _ => None,
    };
    About { command: "windward router", subject, capacity_bps, ..About::THROUGHPUT }
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
