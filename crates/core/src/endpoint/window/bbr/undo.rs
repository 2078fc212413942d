//! Spurious losses (section "Updating the Model Upon Detecting a Spurious Loss Recovery").

use super::model::Bounds;
use super::{Bbr, BbrState};

/// The values that a loss episode may have reduced.
#[derive(Debug, Clone, Default)]
pub(super) struct Undo {
    /// The state that losses ended, if any.
    pub(super) state: Option<BbrState>,
    /// `None` before the first loss.
    bounds: Option<Bounds>,
}

impl Bbr {
    pub(super) fn save_state_upon_loss(&mut self) {
        self.save_cwnd();
        self.undo = Undo { state: None, bounds: Some(self.bounds) };
    }

    /// HandleSpuriousLossDetection.
    pub(super) fn undo_losses(&mut self) {
        self.restore_cwnd();
        self.loss_round.has_loss = false;
        self.pipe.reset(0.0);
        if let Some(before) = self.undo.bounds {
            self.bounds = self.bounds.max(before);
        }
        match self.undo.state.take() {
            Some(BbrState::Startup) if self.state != BbrState::Startup => {
                self.pipe.full_bw_reached = false;
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
