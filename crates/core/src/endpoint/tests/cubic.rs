//! CUBIC's window by hand, from the equations of RFC 9438 with C = 0.4 and beta = 0.7.

use super::super::event::{AckEvent, CongestionEvent, Path, ResetEvent};
use super::super::window::{
    Controller, ControllerConfig, ControllerSetup, CubicConfig, StartUpConfig, Window,
};
use crate::endpoint::EndpointConfig;
use crate::protocols;
use crate::rng::Stream;
use crate::units::{Duration, Time};

const RTT: u64 = 100;

fn cubic(initial_window: f64) -> Window {
    window(CubicConfig::DEFAULT, initial_window)
}

fn window(config: CubicConfig, initial_window: f64) -> Window {
    let endpoint = EndpointConfig { initial_window, ..EndpointConfig::default() };
    let feedback = protocols::plain().feedback;
    let stream = Stream::new(1, "window", "test");
    let setup = ControllerSetup { feedback: &feedback, endpoint: &endpoint, stream };
    Window::new(&ControllerConfig::Cubic(config), setup)
}

fn seconds(s: f64) -> Time {
    Time::ZERO + Duration::from_secs_f64(s)
}

fn loss(window: &mut Window) {
    let path = Path { in_flight: window.cwnd(), ..Path::default() };
    window.on_congestion(&CongestionEvent::certain(path));
}

fn ack(window: &mut Window, at: f64, srtt_ms: u64) {
    window.on_ack(&AckEvent {
        path: Path { now: seconds(at), srtt: Duration::from_millis(srtt_ms), ..Path::default() },
        newly_acked: 1,
        cwnd_limited: true,
        growth: 1.0,
        ..AckEvent::default()
    });
}

#[track_caller]
fn cwnd(window: &Window, expected: f64) {
    let cwnd = window.cwnd();
    assert!((cwnd - expected).abs() < 2e-6, "cwnd is {cwnd}, not {expected}");
}

#[test]
fn concave_towards_the_plateau_and_convex_beyond_it() {
    let mut w = cubic(100.0);
    loss(&mut w);
    cwnd(&w, 70.0);
    assert!((w.ssthresh() - 70.0).abs() < 1e-9);
    // K = cbrt((100 - 70) / 0.4) = cbrt(75) = 4.217163.
    // At t = 0, W_cubic = 70 is below W_est = 70 + (3 x 0.3 / 1.7) / 70 = 70.007563.
    ack(&mut w, 0.0, RTT);
    cwnd(&w, 70.007_563);
    // At t = 2 the target is one RTT ahead: W_cubic(2.1) = 100 - 0.4 x 2.117163^3 = 96.204027;
    // cwnd grows by (96.204027 - 70.007563) / 70.007563 = 0.374195.
    ack(&mut w, 2.0, RTT);
    cwnd(&w, 70.381_758);
    // At t + RTT = K the target is W_max: + (100 - 70.381758) / 70.381758 = 0.420823.
    ack(&mut w, 4.117_163, RTT);
    cwnd(&w, 70.802_581);
    // Beyond it at t + RTT = K + 2: W_cubic = 100 + 0.4 x 8 = 103.2: + 0.457574.
    ack(&mut w, 6.117_163, RTT);
    cwnd(&w, 71.260_155);
    // Far beyond it the target is bounded by 1.5 cwnd: + 0.5.
    ack(&mut w, 60.0, RTT);
    cwnd(&w, 71.760_155);
}

#[test]
fn never_slower_than_reno() {
    let mut w = cubic(10.0);
    loss(&mut w);
    cwnd(&w, 7.0);
    // K = cbrt(3 / 0.4) = 1.957 s is thousands of RTTs of 0.1 ms away: cwnd = W_est, which
    // grows by alpha / cwnd, alpha = 3 x 0.3 / 1.7 = 0.529412: 7.075630, + 0.074822.
    ack(&mut w, 0.0, 0);
    cwnd(&w, 7.075_630);
    ack(&mut w, 0.0, 0);
    cwnd(&w, 7.150_452);
    // alpha is 1 from where the window was before the loss: 10 packets.
    while w.cwnd() < 10.0 {
        ack(&mut w, 0.0, 0);
    }
    let before = w.cwnd();
    ack(&mut w, 0.0, 0);
    cwnd(&w, before + 1.0 / before);
}

#[test]
fn fast_convergence_lowers_the_plateau() {
    let mut w = cubic(100.0);
    loss(&mut w);
    // A second loss at 70 < W_max = 100: W_max = 70 x (1 + 0.7) / 2 = 59.5; cwnd = 49.
    loss(&mut w);
    cwnd(&w, 49.0);
    // Reno-friendly at t = 0: 49 + 0.529412 / 49.
    ack(&mut w, 0.0, RTT);
    cwnd(&w, 49.010_804);
    // K = cbrt((59.5 - 49) / 0.4) = cbrt(26.25) = 2.971886. There, one RTT ahead, the target
    // is 59.5: + (59.5 - 49.010804) / 49.010804 = 0.214018.
    ack(&mut w, 2.871_886, RTT);
    cwnd(&w, 49.224_822);
}

#[test]
fn a_timeout_starts_again_below_beta() {
    let mut w = cubic(100.0);
    let reset = |in_flight, repeated| ResetEvent {
        repeated,
        ..ResetEvent::timeout(Path { in_flight, ..Path::default() })
    };
    w.on_reset(&reset(100.0, false));
    cwnd(&w, 1.0);
    assert!((w.ssthresh() - 70.0).abs() < 1e-9);
    // RFC 5681 section 3.1: held when the retransmission times out again.
    w.on_reset(&reset(1.0, true));
    assert!((w.ssthresh() - 70.0).abs() < 1e-9);
    // Slow start: one per acknowledgment.
    ack(&mut w, 0.0, RTT);
    cwnd(&w, 2.0);
}

#[test]
fn an_acknowledgment_of_much_opens_no_more_than_ssthresh_has_room_for() {
    // Growth by bytes: after a timeout with 100 packets in flight one retransmission fills a hole
    // before 150.
    let mut w = cubic(100.0);
    let path = Path { in_flight: 100.0, ..Path::default() };
    w.on_reset(&ResetEvent::timeout(path));
    assert_eq!((w.cwnd(), w.ssthresh()), (1.0, 70.0));
    let event = AckEvent { newly_acked: 150, cwnd_limited: true, ..AckEvent::default() };
    w.on_ack(&AckEvent { growth: 150.0, ..event });
    assert_eq!(w.cwnd(), 70.0);
}

#[test]
fn after_a_timeout_the_cubic_begins_where_slow_start_ends() {
    let mut w = cubic(100.0);
    let path = Path { in_flight: 4.0, ..Path::default() };
    w.on_reset(&ResetEvent::timeout(path));
    // ssthresh = 0.7 x 4 = 2.8: slow start up to 3.
    ack(&mut w, 0.0, RTT);
    ack(&mut w, 0.1, RTT);
    cwnd(&w, 3.0);
    // RFC 9438 section 4.8: K = 0, W_max = 3. At t = 0, W_cubic = 3 is below W_est = 3 + 0.529412 /
    // 3.
    ack(&mut w, 1.0, RTT);
    cwnd(&w, 3.176_471);
    // At t = 1.9 the target is W_cubic(2) = 3 + 0.4 x 8 = 6.2, bounded by 1.5 cwnd: + 0.5.
    ack(&mut w, 2.9, RTT);
    cwnd(&w, 3.676_471);
    // Once more.
    w.on_reset(&ResetEvent::timeout(path));
    ack(&mut w, 10.0, RTT);
    ack(&mut w, 10.1, RTT);
    ack(&mut w, 11.0, RTT);
    cwnd(&w, 3.176_471);
    // At t = 1, W_cubic = 3.4 is above W_est = 3.343137, and the target 3 + 0.4 x 1.1^3 = 3.5324:
    // + (3.5324 - 3.176471) / 3.176471 = 0.112052.
    ack(&mut w, 12.0, RTT);
    cwnd(&w, 3.288_523);
}

/// RFC 8511: 0.85 of the packets in flight, and 0.7 after a loss.
#[test]
fn with_abe_a_mark_costs_less_than_a_loss() {
    for (marked, left) in [(true, 85.0), (false, 70.0)] {
        let mut w = window(CubicConfig { beta_ecn: Some(0.85), ..CubicConfig::DEFAULT }, 100.0);
        let path = Path { in_flight: 100.0, ..Path::default() };
        w.on_congestion(&CongestionEvent { marked, ..CongestionEvent::certain(path) });
        cwnd(&w, left);
    }
}

/// An acknowledgment at 1 s of a packet sent at `sent` seconds, of so many delivered and lost.
fn recovering(window: &mut Window, sent: f64, delivered: u64, lost: u64) {
    let srtt = Duration::from_millis(RTT);
    window.on_ack(&AckEvent {
        path: Path { now: seconds(1.0), srtt, ..Path::default() },
        newly_acked: 1,
        delivered,
        lost,
        cwnd_limited: true,
        growth: 1.0,
        in_recovery: sent <= 1.0,
        sent: seconds(sent),
        ..AckEvent::default()
    });
}

#[test]
fn rapid_start_hands_over_what_the_path_delivered() {
    let mut w = window(CubicConfig::starting(StartUpConfig::RAPID_START), 10.0);
    // Two packets more for each of 45.
    for _ in 0..45 {
        ack(&mut w, 0.5, RTT);
    }
    cwnd(&w, 100.0);
    let path = Path { now: seconds(1.0), in_flight: 100.0, ..Path::default() };
    w.on_congestion(&CongestionEvent::certain(path));
    cwnd(&w, 90.0);
    // 60 arrived and 40 did not: 90 - 0.2 x 60 - 0.9 x 40 = 0.7 x 60.
    recovering(&mut w, 0.95, 60, 40);
    cwnd(&w, 42.0);
    // W_max = 2 x 60, K = cbrt(78 / 0.4) = 5.798890. At t = 0 W_est = 42 + 0.529412 / 42.
    recovering(&mut w, 1.01, 1, 0);
    cwnd(&w, 42.012_605);
    // At t = 0.1 the target is W_cubic(0.2) = 120 - 0.4 x 5.598890^3 = 49.795363: + 0.185248.
    ack(&mut w, 1.1, RTT);
    cwnd(&w, 42.197_853);
}

#[test]
fn other_start_ups_are_for_the_first_slow_start_alone() {
    for start_up in [StartUpConfig::HYSTART, StartUpConfig::RAPID_START] {
        let mut w = window(CubicConfig::starting(start_up), 10.0);
        let path = Path { in_flight: 100.0, ..Path::default() };
        w.on_reset(&ResetEvent::timeout(path));
        cwnd(&w, 1.0);
        ack(&mut w, 3.0, RTT);
        cwnd(&w, 2.0);
    }
}
