//! Spurious losses (section "Updating the Model Upon Detecting a Spurious Loss Recovery").

use super::{Bbr, BbrState};

/// The values that a loss episode may have reduced.
#[derive(Debug, Clone, Default)]
pub(super) struct Undo {
    /// The state that losses ended, if any.
    pub(super) state: Option<BbrState>,
    bw_shortterm: f64,
    inflight_shortterm: f64,
    inflight_longterm: f64,
}

impl Bbr {
    pub(super) fn save_state_upon_loss(&mut self) {
        self.save_cwnd();
        self.undo = Undo {
            state: None,
            bw_shortterm: self.bw_shortterm,
            inflight_shortterm: self.inflight_shortterm,
            inflight_longterm: self.inflight_longterm,
        };
    }

    /// HandleSpuriousLossDetection.
    pub(super) fn undo_losses(&mut self) {
        self.restore_cwnd();
        self.is_loss_in_round = false;
        self.reset_full_bw();
        self.bw_shortterm = self.bw_shortterm.max(self.undo.bw_shortterm);
        self.inflight_shortterm = self.inflight_shortterm.max(self.undo.inflight_shortterm);
        self.inflight_longterm = self.inflight_longterm.max(self.undo.inflight_longterm);
        match self.undo.state.take() {
            Some(BbrState::Startup) if self.state != BbrState::Startup => {
                self.full_bw_reached = false;
                if self.state != BbrState::ProbeRtt {
                    self.enter_startup();
                }
            }
            Some(BbrState::ProbeBwUp)
                if self.state != BbrState::ProbeBwUp && self.state != BbrState::ProbeRtt =>
            {
                self.start_probe_bw_refill();
            }
            _ => {}
        }
    }
}
