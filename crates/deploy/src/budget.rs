//! Bytes that QUIC holds for the streams of a connection: enough to fill the path, and no more, so
//! that a bulk transfer does not queue seconds of data before others.

use std::time::Duration;

use quinn::PathStats;

/// Smallest budget, bytes. A piece counts until all of it was acknowledged, so that with few of
/// them the budget, and not the window, would set the rate.
pub(crate) const LEAST: usize = 256 << 10;
/// Interval at which the budget follows a window that changes, and one that does not.
const FOLLOW: Duration = Duration::from_millis(25);
const FOLLOW_IDLE: Duration = Duration::from_millis(400);

/// Budget for a congestion window and a proportion of lost packets, bytes.
///
/// One window is in flight and one waits. With loss, quinn also keeps what was acknowledged behind
/// a gap, until the gap is filled. Of the w / 1200 packets of a window, the one that is lost most
/// often needs about ln(w / 1200) / ln(1 / p) rounds more.
fn budget_for(window: u64, loss: f64) -> usize {
    let packets = (window as f64 / 1200.0).max(1.0);
    let rounds = if loss > 0.0 { packets.ln() / (1.0 / loss.min(0.5)).ln() } else { 0.0 };
    (window as f64 * (2.0 + rounds)) as usize + LEAST
}

/// Proportion of lost packets, over some hundred packets, since that of fewer is chance.
#[derive(Debug, Default)]
struct RecentLoss {
    sent: u64,
    lost: u64,
    loss: f64,
}

impl RecentLoss {
    fn see(&mut self, path: &PathStats) -> f64 {
        if path.sent_packets >= self.sent + 500 {
            let sent = path.sent_packets - self.sent;
            self.loss = path.lost_packets.saturating_sub(self.lost) as f64 / sent as f64;
            (self.sent, self.lost) = (path.sent_packets, path.lost_packets);
        }
        self.loss
    }
}

/// Tells the budget of a connection whenever it has changed by more than a sixteenth, until the
/// connection ends.
pub(crate) async fn follow(quic: &quinn::Connection, mut tell: impl FnMut(usize)) {
    let (mut recent, mut last, mut pause) = (RecentLoss::default(), 0, FOLLOW);
    loop {
        let path = quic.stats().path;
        let wanted = budget_for(path.cwnd, recent.see(&path));
        pause = if wanted.abs_diff(last) > last / 16 {
            tell(wanted);
            last = wanted;
            FOLLOW
        } else {
            (pause * 2).min(FOLLOW_IDLE)
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = quic.closed() => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_has_two_windows_and_what_waits_behind_gaps() {
        assert_eq!(budget_for(120_000, 0.0), 240_000 + LEAST);
        // ln(100) / ln(5) = 2.86135; 120,000 x 4.86135 = 583,362.
        assert_eq!(budget_for(120_000, 0.2), 583_362 + LEAST);
        assert_eq!(budget_for(0, 1.0), LEAST);
    }

    #[test]
    fn the_loss_rate_is_that_of_the_latest_packets() {
        let mut recent = RecentLoss::default();
        let mut path = PathStats::default();
        for (sent, lost, expected) in
            [(499, 100, 0.0), (500, 100, 0.2), (900, 500, 0.2), (1500, 150, 0.05)]
        {
            (path.sent_packets, path.lost_packets) = (sent, lost);
            assert_eq!(recent.see(&path), expected, "{sent}");
        }
    }
}
