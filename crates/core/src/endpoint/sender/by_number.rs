//! The sender's dealings with recovery by packet number, with delivery-rate samples and with
//! pacing. Nothing here runs for protocols that have none of them.

use super::Sender;
use crate::endpoint::pacer::WINDOW_GAIN;
use crate::endpoint::recovery::{Finding, Recovery};
use crate::endpoint::window::ResetEvent;
use crate::units::{Probability, Time};

impl Sender {
    /// Passes on what the last acknowledgment, or a timer, told of single transmissions: the
    /// losses one by one, then the sample.
    pub(super) fn on_delivery_news(&mut self, now: Time) {
        let (Recovery::PacketNumber(scheme), Some(rate)) =
            (&self.recovery, &mut self.delivery_rate)
        else {
            return;
        };
        let news = scheme.news();
        for _ in 0..news.unattributed {
            rate.on_unattributed_delivery(now);
        }
        for number in &news.delivered {
            rate.on_delivered(now, *number);
        }
        for number in &news.lost {
            if let Some(packet) = rate.on_lost(*number) {
                self.window.on_lost(&packet, now);
            }
        }
        let in_flight = scheme.in_flight();
        if news.spurious {
            self.window.on_spurious_losses();
        }
        if news.persistent_congestion {
            let mut path = self.path(now, self.seqs.outstanding());
            path.in_flight = in_flight as f64;
            self.window.on_reset(&ResetEvent {
                path,
                repeated: false,
                probability: Probability::ONE,
                keeps_window: false,
            });
        }
        let Some(rate) = &mut self.delivery_rate else { return };
        let Recovery::PacketNumber(scheme) = &self.recovery else { return };
        let sample = rate.finish(now, scheme.oldest(), in_flight, self.recovery.in_recovery());
        if let Some(sample) = sample
            && self.window.on_rate_sample(&sample)
        {
            rate.mark_app_limited(in_flight);
        }
    }

    /// The timer of RFC 9002 (appendix A.9): losses become certain, or probes are due.
    pub(super) fn on_loss_detection_timer(&mut self, now: Time) {
        let path = self.path(now, self.seqs.outstanding());
        let Recovery::PacketNumber(scheme) = &mut self.recovery else { return };
        if scheme.is_loss_due(now) {
            let finding = scheme.on_loss_timer(now, &self.rtt);
            if finding == Finding::Loss {
                self.on_loss(path);
            }
            self.on_delivery_news(now);
        } else {
            scheme.on_probe_timeout(now);
            self.stats.timeouts += 1;
            self.rtt.back_off();
        }
        if let Recovery::PacketNumber(scheme) = &self.recovery {
            self.recovery_timer = scheme.deadline(&self.rtt);
        }
    }

    /// Must a packet that could be sent now wait for its time?
    pub(super) fn is_held_back(&mut self, now: Time) -> bool {
        let Some(pacer) = &mut self.pacer else { return false };
        let has_work = self.seqs.next < self.seqs.limit || self.seqs.outstanding() > 0;
        let is_probing = match &self.recovery {
            Recovery::PacketNumber(scheme) => scheme.is_probing(),
            _ => false,
        };
        if !has_work || is_probing {
            pacer.clear();
            return false;
        }
        pacer.holds_back(now)
    }

    /// A packet leaves: when may the next?
    pub(super) fn pace(&mut self, now: Time) {
        let srtt = self.rtt.srtt().as_secs_f64();
        let rate = self.window.pacing_rate().or_else(|| {
            // Nothing is known of the path before the first sample.
            (srtt > 0.0).then(|| WINDOW_GAIN * self.window.cwnd() / srtt)
        });
        if let Some(pacer) = &mut self.pacer {
            pacer.on_sent(now, rate);
        }
    }

    /// Transmission `number` is about to leave.
    pub(super) fn note_state_at(&mut self, now: Time, number: u64) {
        let in_flight = self.recovery.in_flight(&self.seqs);
        let Some(rate) = &mut self.delivery_rate else { return };
        if in_flight == 0 && rate.is_app_limited() {
            self.window.on_restart_from_idle(now);
        }
        rate.on_sent(now, number, in_flight);
    }

    /// Nothing can be sent: is it because the application has nothing more, although the window
    /// has room (the draft's CheckIfApplicationLimited)?
    pub(super) fn check_application_limit(&mut self) {
        let in_flight = self.recovery.in_flight(&self.seqs);
        let repaired = match &self.recovery {
            Recovery::PacketNumber(scheme) => scheme.has_repaired_all(),
            _ => true,
        };
        let has_room = in_flight < self.window.cwnd() as u64;
        if self.seqs.next >= self.seqs.limit
            && has_room
            && repaired
            && let Some(rate) = &mut self.delivery_rate
        {
            rate.mark_app_limited(in_flight);
        }
    }

    /// For tests that look inside a window law.
    #[cfg(test)]
    pub(crate) fn window(&self) -> &crate::endpoint::window::Window {
        &self.window
    }
}
