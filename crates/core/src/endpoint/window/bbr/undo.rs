//! Spurious losses (section "Updating the Model Upon Detecting a Spurious Loss Recovery").

use super::{Bbr, State};

/// The values that a loss episode may have reduced.
#[derive(Debug, Clone, Default)]
pub(super) struct Undo {
    /// The state that losses ended, if any.
    pub(super) state: Option<State>,
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
            Some(State::Startup) if self.state != State::Startup => {
                self.full_bw_reached = false;
                if self.state != State::ProbeRtt {
                    self.enter_startup();
                }
            }
            Some(State::ProbeBwUp)
                if self.state != State::ProbeBwUp && self.state != State::ProbeRtt =>
            {
                self.start_probe_bw_refill();
            }
            _ => {}
        }
    }
}
