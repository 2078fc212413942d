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

/// `config` with the values that `section` gives.
pub(super) fn read(config: EndpointConfig, section: &Section<'_>) -> Result<EndpointConfig> {
    let size = |field: Field<'_>| field.small(1..=MAX_PACKET_SIZE);
    let time = |field: Field<'_>| field.duration(Duration::ZERO..=DAY);
    let mut config = config;
    macro_rules! take {
        ($key:ident, $read:expr) => {
            if let Some(value) = section.read(stringify!($key), $read)? {
                config.$key = value;
            }
        };
    }
    take!(packet_size, size);
    take!(ack_size, size);
    take!(initial_window, |field| field.float(1.0..=1e6));
    take!(rwnd, |field| field.integer(1..=1 << 30));
    take!(dupack_threshold, |field| field.small(1..=1_000_000));
    take!(rto_floor, time);
    take!(rto_initial, |field| field.positive(DAY));
    take!(rto_ceiling, |field| field.positive(MAX_DURATION));
    take!(timestamps, Field::bool);
    take!(clock_granularity, time);
    take!(retransmission_timeout_factor, |field| field.float(1.0..=1000.0));
    take!(delayed_acks, delayed_acks);
    take!(overhead, time);
    take!(ecn, Field::bool);
    take!(pacing, Field::bool);
    take!(partial_deflation, Field::bool);
    take!(loss_monitor_guard, Field::bool);
    take!(estcp, |field| estcp(config.estcp, &field.section()?));
    take!(veno, |field| veno(config.veno, &field.section()?));
    take!(jtcp, |field| jtcp(config.jtcp, &field.section()?));
    take!(new_jersey, |field| new_jersey(config.new_jersey, &field.section()?));
    take!(westwood, |field| westwood(config.westwood, &field.section()?));
    take!(bulk_repeat, |field| bulk_repeat(config.bulk_repeat, &field.section()?));
    take!(spike, |field| spike(config.spike, &field.section()?));
    take!(rate_gap, |field| rate_gap(config.rate_gap, &field.section()?));
    take!(notification, |field| notification(field).map(Some));
    let standard = config.ceten;
    take!(ceten, |field| ceten(standard, &field.section()?));
    take!(xcp_r, |field| xcp_r(config.xcp_r, &field.section()?));
    if config.rto_ceiling < config.rto_floor {
        return Err(section.error(format!(
            "rto_ceiling ({}) is less than rto_floor ({})",
            config.rto_ceiling, config.rto_floor
        )));
    }
    Ok(config)
}

fn notification(field: Field<'_>) -> Result<Direction> {
    Ok(match field.word(&["forward", "backward"])? {
        "forward" => Direction::Forward,
        _ => Direction::Backward,
    })
}

/// `config` with what the table of CETEN gives.
fn ceten(config: CetenConfig, section: &Section<'_>) -> Result<CetenConfig> {
    let k = |field: Field<'_>| {
        let k = field.clone().float(0.0..=1000.0)?;
        if k > 0.0 { Ok(k) } else { Err(field.error("must be more than 0 (eten2004, Eq. 1)")) }
    };
    let timeouts = |field: Field<'_>| {
        Ok(match field.word(&["standard", "threshold", "window"])? {
            "standard" => TimeoutResponse::Standard,
            "threshold" => TimeoutResponse::Threshold,
            _ => TimeoutResponse::Window,
        })
    };
    Ok(CetenConfig {
        n: section.read("n", |field| field.float(1.0..=1e9))?.unwrap_or(config.n),
        k: section.read("k", k)?.unwrap_or(config.k),
        timeouts: section.read("timeouts", timeouts)?.unwrap_or(config.timeouts),
        per_segment: section.read("per_segment", Field::bool)?.unwrap_or(config.per_segment),
    })
}

fn xcp_r(mut config: XcpRConfig, section: &Section<'_>) -> Result<XcpRConfig> {
    const FORMULAS: [&str; 2] = ["incremental", "per-window"];
    const FLAGS: [&str; 2] = ["count", "once"];
    if let Some(word) = section.read("formula", |field| field.word(&FORMULAS))? {
        let incremental = word == FORMULAS[0];
        config.formula = if incremental { Formula::Incremental } else { Formula::PerWindow };
    }
    if let Some(word) = section.read("congestion_flag", |field| field.word(&FLAGS))? {
        let count = word == FLAGS[0];
        config.congestion_flag = if count { CongestionFlag::Count } else { CongestionFlag::Once };
    }
    Ok(config)
}

fn delayed_acks(field: Field<'_>) -> Result<Option<Duration>> {
    if field.is_bool() {
        return Ok(field.bool()?.then_some(DELAYED_ACKS));
    }
    field.positive(DAY).map(Some)
}

fn estcp(base: EstcpConfig, section: &Section<'_>) -> Result<EstcpConfig> {
    let prior = section.read("prior", |field| field.float(1.0..=1e6))?;
    Ok(EstcpConfig { prior: prior.unwrap_or(base.prior) })
}

fn veno(base: VenoConfig, section: &Section<'_>) -> Result<VenoConfig> {
    let threshold = section.read("threshold", |field| field.float(0.0..=1e6))?;
    let rtt = section.read("rtt", |field| {
        Ok(match field.word(&["smoothed", "latest"])? {
            "latest" => VenoRtt::Latest,
            _ => VenoRtt::Smoothed,
        })
    })?;
    Ok(VenoConfig { threshold: threshold.unwrap_or(base.threshold), rtt: rtt.unwrap_or(base.rtt) })
}

fn jtcp(base: JtcpConfig, section: &Section<'_>) -> Result<JtcpConfig> {
    let threshold = section.read("threshold", |field| field.float(0.0..=1000.0))?;
    let jitter = section.read("jitter", |field| {
        Ok(match field.word(&["absolute", "signed"])? {
            "signed" => Jitter::Signed,
            _ => Jitter::Absolute,
        })
    })?;
    Ok(JtcpConfig {
        threshold: threshold.unwrap_or(base.threshold),
        jitter: jitter.unwrap_or(base.jitter),
    })
}

fn new_jersey(base: NewJerseyConfig, section: &Section<'_>) -> Result<NewJerseyConfig> {
    let on_warning = section.read("on_warning", Field::bool)?;
    Ok(NewJerseyConfig { on_warning: on_warning.unwrap_or(base.on_warning) })
}

fn westwood(config: WestwoodConfig, section: &Section<'_>) -> Result<WestwoodConfig> {
    let estimator = section.read("estimator", |field| {
        Ok(match field.word(&["be", "ere", "per-rtt"])? {
            "be" => BandwidthKind::Be,
            "ere" => BandwidthKind::Ere,
            _ => BandwidthKind::PerRtt,
        })
    })?;
    let counting = section.read("counting", |field| {
        Ok(match field.word(&["acked-count", "exact"])? {
            "exact" => Counting::Exact,
            _ => Counting::AckedCount,
        })
    })?;
    Ok(WestwoodConfig {
        estimator: estimator.or(config.estimator),
        counting: counting.unwrap_or(config.counting),
    })
}

fn bulk_repeat(config: BulkRepeatConfig, section: &Section<'_>) -> Result<BulkRepeatConfig> {
    let repeat = section.read("repeat", |field| {
        Ok(match field.word(&["round", "ack"])? {
            "round" => Repeat::Round,
            _ => Repeat::Ack,
        })
    })?;
    let timeout_window = section.read("timeout_window", |field| {
        Ok(match field.word(&["repeated", "kept", "one"])? {
            "repeated" => TimeoutWindow::Repeated,
            "kept" => TimeoutWindow::Kept,
            _ => TimeoutWindow::One,
        })
    })?;
    let maximum = section.read("maximum", |field| field.small(1..=1_000_000))?;
    let fixed_timeout = section.read("fixed_timeout", |field| field.positive(DAY))?;
    Ok(BulkRepeatConfig {
        maximum: maximum.or(config.maximum),
        repeat: repeat.unwrap_or(config.repeat),
        fixed_timeout: fixed_timeout.or(config.fixed_timeout),
        timeout_window: timeout_window.unwrap_or(config.timeout_window),
    })
}

fn spike(config: SpikeConfig, section: &Section<'_>) -> Result<SpikeConfig> {
    let share = |field: Field<'_>| field.float(0.0..=1.0);
    let config = SpikeConfig {
        a: section.read("a", share)?.unwrap_or(config.a),
        b: section.read("b", share)?.unwrap_or(config.b),
        tick: section
            .read("tick", |field| field.duration(Duration::ZERO..=DAY))?
            .unwrap_or(config.tick),
    };
    if config.b > config.a {
        return Err(section.error(format!(
            "b ({}) is greater than a ({}): congestion mode would end where it has not begun",
            config.b, config.a
        )));
    }
    Ok(config)
}

fn rate_gap(config: RateGapConfig, section: &Section<'_>) -> Result<RateGapConfig> {
    let reading = section.read("reading", |field| {
        Ok(match field.word(&["text", "printed"])? {
            "text" => Reading::Text,
            _ => Reading::Printed,
        })
    })?;
    let threshold = section.read("threshold", |field| field.float(f64::MIN_POSITIVE..=1e6))?;
    Ok(RateGapConfig {
        threshold: threshold.unwrap_or(config.threshold),
        reading: reading.unwrap_or(config.reading),
    })
}
