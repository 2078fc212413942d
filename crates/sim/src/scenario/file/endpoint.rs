//! Parameters of endpoints: `[endpoint]`, and the same keys in `[[flows]]`.

use windward_core::endpoint::EndpointConfig;
use windward_core::endpoint::discrimination::{
    CetenConfig, Jitter, JtcpConfig, RateGapConfig, Reading, SpikeConfig, TimeoutResponse,
    VenoConfig, VenoRtt,
};
use windward_core::endpoint::estimator::{BandwidthKind, Counting};
use windward_core::endpoint::feedback::{CongestionFlag, Direction, Formula, XcpRConfig};
use windward_core::endpoint::recovery::{BulkRepeatConfig, Repeat, TimeoutWindow};
use windward_core::endpoint::window::{EstcpConfig, NewJerseyConfig, WestwoodConfig};
use windward_core::units::Duration;

use super::section::{DAY, Field, Result, Section};
use crate::scenario::MAX_DURATION;

/// The largest packet: an IPv6 jumbogram of 1 MiB.
pub(super) const MAX_PACKET_SIZE: u32 = 1 << 20;

/// What `delayed_acks = true` means: as long as BSD waits (RFC 5681 allows 500 ms).
const DELAYED_ACKS: Duration = Duration::from_millis(200);

/// Puts the value of a key that is there, as `$read` reads it, into the field of that name.
macro_rules! take {
    ($section:ident, $config:ident . $key:ident, $read:expr) => {
        if let Some(value) = $section.read(stringify!($key), $read)? {
            $config.$key = value;
        }
    };
}

/// `config` with the values that `section` gives.
pub(super) fn read(mut config: EndpointConfig, section: &Section<'_>) -> Result<EndpointConfig> {
    let size = |field: Field<'_>| field.small(1..=MAX_PACKET_SIZE);
    let time = |field: Field<'_>| field.duration(Duration::ZERO..=DAY);
    take!(section, config.packet_size, size);
    take!(section, config.ack_size, size);
    take!(section, config.initial_window, |field| field.float(1.0..=1e6));
    take!(section, config.rwnd, |field| field.integer(1..=1 << 30));
    take!(section, config.dupack_threshold, |field| field.small(1..=1_000_000));
    take!(section, config.rto_floor, time);
    take!(section, config.rto_initial, |field| field.positive(DAY));
    take!(section, config.rto_ceiling, |field| field.positive(MAX_DURATION));
    take!(section, config.timestamps, Field::bool);
    take!(section, config.clock_granularity, time);
    take!(section, config.retransmission_timeout_factor, |field| field.float(1.0..=1000.0));
    take!(section, config.delayed_acks, delayed_acks);
    take!(section, config.overhead, time);
    take!(section, config.ecn, Field::bool);
    take!(section, config.pacing, Field::bool);
    take!(section, config.partial_deflation, Field::bool);
    take!(section, config.loss_monitor_guard, Field::bool);
    take!(section, config.estcp, |field| estcp(config.estcp, &field.section()?));
    take!(section, config.veno, |field| veno(config.veno, &field.section()?));
    take!(section, config.jtcp, |field| jtcp(config.jtcp, &field.section()?));
    take!(section, config.new_jersey, |field| new_jersey(config.new_jersey, &field.section()?));
    take!(section, config.westwood, |field| westwood(config.westwood, &field.section()?));
    take!(section, config.bulk_repeat, |field| {
        bulk_repeat(config.bulk_repeat, &field.section()?)
    });
    take!(section, config.spike, |field| spike(config.spike, &field.section()?));
    take!(section, config.rate_gap, |field| rate_gap(config.rate_gap, &field.section()?));
    take!(section, config.notification, |field| {
        let directions = [("forward", Direction::Forward), ("backward", Direction::Backward)];
        field.one_of(&directions).map(Some)
    });
    take!(section, config.ceten, |field| ceten(config.ceten, &field.section()?));
    take!(section, config.xcp_r, |field| xcp_r(config.xcp_r, &field.section()?));
    if config.rto_ceiling < config.rto_floor {
        return Err(section.error(format!(
            "rto_ceiling ({}) is less than rto_floor ({})",
            config.rto_ceiling, config.rto_floor
        )));
    }
    Ok(config)
}

fn delayed_acks(field: Field<'_>) -> Result<Option<Duration>> {
    if field.is_bool() {
        return Ok(field.bool()?.then_some(DELAYED_ACKS));
    }
    field.positive(DAY).map(Some)
}

fn estcp(mut config: EstcpConfig, section: &Section<'_>) -> Result<EstcpConfig> {
    take!(section, config.prior, |field| field.float(1.0..=1e6));
    Ok(config)
}

fn veno(mut config: VenoConfig, section: &Section<'_>) -> Result<VenoConfig> {
    let rtts = [("smoothed", VenoRtt::Smoothed), ("latest", VenoRtt::Latest)];
    take!(section, config.threshold, |field| field.float(0.0..=1e6));
    take!(section, config.rtt, |field| field.one_of(&rtts));
    Ok(config)
}

fn jtcp(mut config: JtcpConfig, section: &Section<'_>) -> Result<JtcpConfig> {
    let sums = [("absolute", Jitter::Absolute), ("signed", Jitter::Signed)];
    take!(section, config.threshold, |field| field.float(0.0..=1000.0));
    take!(section, config.jitter, |field| field.one_of(&sums));
    Ok(config)
}

fn new_jersey(mut config: NewJerseyConfig, section: &Section<'_>) -> Result<NewJerseyConfig> {
    take!(section, config.on_warning, Field::bool);
    Ok(config)
}

fn westwood(mut config: WestwoodConfig, section: &Section<'_>) -> Result<WestwoodConfig> {
    let estimators = [
        ("be", BandwidthKind::Be),
        ("ere", BandwidthKind::Ere),
        ("per-rtt", BandwidthKind::PerRtt),
    ];
    let countings = [("exact", Counting::Exact), ("acked-count", Counting::AckedCount)];
    take!(section, config.estimator, |field| field.one_of(&estimators).map(Some));
    take!(section, config.counting, |field| field.one_of(&countings));
    Ok(config)
}

fn bulk_repeat(mut config: BulkRepeatConfig, section: &Section<'_>) -> Result<BulkRepeatConfig> {
    let repeats = [("round", Repeat::Round), ("ack", Repeat::Ack)];
    let windows = [
        ("repeated", TimeoutWindow::Repeated),
        ("kept", TimeoutWindow::Kept),
        ("one", TimeoutWindow::One),
    ];
    take!(section, config.maximum, |field| field.small(1..=1_000_000).map(Some));
    take!(section, config.repeat, |field| field.one_of(&repeats));
    take!(section, config.fixed_timeout, |field| field.positive(DAY).map(Some));
    take!(section, config.timeout_window, |field| field.one_of(&windows));
    Ok(config)
}

fn spike(mut config: SpikeConfig, section: &Section<'_>) -> Result<SpikeConfig> {
    take!(section, config.a, |field| field.float(0.0..=1.0));
    take!(section, config.b, |field| field.float(0.0..=1.0));
    take!(section, config.tick, |field| field.duration(Duration::ZERO..=DAY));
    if config.b > config.a {
        return Err(section.error(format!(
            "b ({}) is greater than a ({}): congestion mode would end where it has not begun",
            config.b, config.a
        )));
    }
    Ok(config)
}

fn rate_gap(mut config: RateGapConfig, section: &Section<'_>) -> Result<RateGapConfig> {
    let readings = [("text", Reading::Text), ("printed", Reading::Printed)];
    take!(section, config.threshold, |field| field.above_zero(1e6));
    take!(section, config.reading, |field| field.one_of(&readings));
    Ok(config)
}

fn ceten(mut config: CetenConfig, section: &Section<'_>) -> Result<CetenConfig> {
    let responses = [
        ("standard", TimeoutResponse::Standard),
        ("threshold", TimeoutResponse::Threshold),
        ("window", TimeoutResponse::Window),
    ];
    take!(section, config.n, |field| field.float(1.0..=1e9));
    take!(section, config.k, |field| field.above_zero(1000.0));
    take!(section, config.timeouts, |field| field.one_of(&responses));
    take!(section, config.per_segment, Field::bool);
    Ok(config)
}

fn xcp_r(mut config: XcpRConfig, section: &Section<'_>) -> Result<XcpRConfig> {
    let formulas = [("incremental", Formula::Incremental), ("per-window", Formula::PerWindow)];
    let flags = [("count", CongestionFlag::Count), ("once", CongestionFlag::Once)];
    take!(section, config.formula, |field| field.one_of(&formulas));
    take!(section, config.congestion_flag, |field| field.one_of(&flags));
    Ok(config)
}
