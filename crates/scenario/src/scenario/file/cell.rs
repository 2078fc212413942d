//! The key `cell` of rates: a user in a cell of a mobile network.

use std::ops::RangeInclusive;

use windward_core::network::CellConfig;
use windward_core::units::Duration;

use crate::keys;
use crate::strict_toml::{Result, Section, readers};

keys! {
    /// Keys of `cell`.
    pub(super) struct CellKeys in "cell" {
        bandwidth: Option<f64> = readers::above_zero(CellConfig::MOST_BANDWIDTH), absent "1e7",
            "bandwidth of the cell, Hz; above 0, up to 1e10";
        snr: Option<f64> = readers::number_in(-50.0..=100.0), absent "10",
            "mean signal-to-noise ratio, dB; -50 to 100";
        doppler: Option<f64> = readers::above_zero(CellConfig::MOST_DOPPLER), absent "5.6",
            "maximum Doppler shift, Hz; above 0, up to 60";
        branches: Option<u32> = readers::small(1..=CellConfig::MOST_BRANCHES), absent "2",
            "branches of fading whose power is averaged; 1 to 64";
        shadowing: Option<f64> = readers::number_in(0.0..=30.0), absent "0",
            "standard deviation of the shadowing, dB; 0 to 30";
        shadowing_time: Option<Duration> = readers::time(TIMES), absent "60s",
            "correlation time of the shadowing; 100ms to 24h";
        efficiency: Option<f64> = readers::above_zero(1.0), absent "0.6",
            "factor of the efficiency of Shannon; above 0, up to 1";
        most: Option<f64> = readers::above_zero(100.0), absent "4.4",
            "largest efficiency, bit/s/Hz; above 0, up to 100";
        users: Option<f64> = readers::number_in(0.0..=CellConfig::MOST_USERS), absent "0",
            "mean number of other users; 0 to 1000";
        stay: Option<Duration> = readers::time(TIMES), absent "30s",
            "time for which another user stays; 100ms to 24h";
    }
}

/// Range of the times.
const TIMES: RangeInclusive<Duration> = CellConfig::SHORTEST..=CellConfig::LONGEST;

/// A user in a cell.
pub(super) fn read(section: &Section<'_>) -> Result<CellConfig> {
    let keys = CellKeys::read(section)?;
    let usual = CellConfig::default();
    let cell = CellConfig {
        bandwidth: keys.bandwidth.unwrap_or(usual.bandwidth),
        snr: keys.snr.unwrap_or(usual.snr),
        doppler: keys.doppler.unwrap_or(usual.doppler),
        branches: keys.branches.unwrap_or(usual.branches),
        shadowing: keys.shadowing.unwrap_or(usual.shadowing),
        shadowing_time: keys.shadowing_time.unwrap_or(usual.shadowing_time),
        efficiency: keys.efficiency.unwrap_or(usual.efficiency),
        most: keys.most.unwrap_or(usual.most),
        users: keys.users.unwrap_or(usual.users),
        stay: keys.stay.unwrap_or(usual.stay),
    };
    cell.validate().map_err(|wrong| section.error(wrong))?;
    Ok(cell)
}
