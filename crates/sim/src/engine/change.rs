//! Changes of a link during a run.

use std::{error, fmt};

use windward_core::network::ChannelConfig;
use windward_core::units::{Duration, Rate};

/// Change of a link; `None` leaves a property as it is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LinkChange {
    /// The new rate.
    pub rate: Option<Rate>,
    /// The new delay, which also replaces a schedule of delays. After a reduction, packets overtake
    /// those that are under way.
    pub delay: Option<Duration>,
    /// The new loss model.
    pub channel: Option<ChannelConfig>,
}

/// Reason why a link cannot change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeError {
    /// The simulation was not made by [`changeable`](crate::Simulation::changeable), so that
    /// departures in the future are already settled.
    Fixed,
    /// The rate of the link is given by a trace or a schedule.
    Traced,
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ChangeError::Fixed => "the links of this simulation cannot change",
            ChangeError::Traced => {
                "the rate of the link cannot change: a trace or a schedule determines it"
            }
        })
    }
}

impl error::Error for ChangeError {}
