//! Upwind's rules together: losses, marks, help from routers, and Upwind alone on a path.

use super::*;

use super::floor::tests::Known;
use super::path::Losses;
use super::path::tests::{feed, sample};
use crate::endpoint::EndpointConfig;
use crate::endpoint::event::Path as Now;
use crate::endpoint::feedback::FeedbackConfig;
use crate::endpoint::tests::path::TestPath;
use crate::packet::{CongestionHeader, Flags};
use crate::part::Plain;
use crate::protocols::{self, Protocol};
use crate::rng::Stream;
use crate::units::{Duration, Probability};

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

/// An Upwind in delay mode, with 80 packets in flight for 80 ms and no queue.
fn upwind() -> Upwind {
    let endpoint = EndpointConfig { initial_window: 80.0, ..EndpointConfig::default() };
    let setup = ControllerSetup {
        feedback: &FeedbackConfig::Help(Plain),
        endpoint: &endpoint,
        stream: Stream::new(1, "test", "upwind"),
    };
    let mut controller = Upwind::new(&UpwindConfig::DEFAULT, setup);
    controller.mode = UpwindMode::Delay;
    feed(&mut controller.path, 100, 400, |ms| if ms == 100 { 90.0 } else { 80.0 });
    // The first round trips belong to start-up.
    for _ in 0..2 {
        controller.ceiling.on_trip(Losses::default(), false, false);
    }
    controller
}

fn congestion(now: u64, probability: f64, marked: bool) -> CongestionEvent {
    let path = Now { now: at(now), ..Now::default() };
    let probability = Probability::new(probability).unwrap();
    CongestionEvent { probability, marked, ..CongestionEvent::certain(path) }
}

/// The window, the shadow and the ceiling.
fn windows(controller: &Upwind) -> (f64, f64, f64) {
    (controller.cwnd(), controller.competition.shadow(), controller.ceiling.window())
}

fn lose(controller: &mut Upwind, number: u64, ms: u64) {
    let packet = LostPacket { number, ..LostPacket::default() };
    controller.on_lost(&packet, at(ms));
}

/// An Upwind whose queue has its longest length, so that losses are congestion.
fn full() -> Upwind {
    let mut controller = upwind();
    controller.floor = Box::new(Known(1.0));
    for ms in 400..500 {
        controller.path.on_sample(&sample(ms, 100), ms as f64 / 1e3, 0.1);
        controller.cause.on_arrival(ms as f64 / 1e3, 1.0, &controller.path);
    }
    controller
}

#[test]
fn losses_change_nothing_in_delay_mode_but_the_shadow_which_a_flight_halves_at_most() {
    let mut controller = full();
    lose(&mut controller, 1000, 500);
    assert_eq!(windows(&controller), (80.0, 40.0, f64::INFINITY));
    assert!(controller.competition.overflows(20.4) && !controller.competition.overflows(20.6));
    // Sent before the first loss was found.
    lose(&mut controller, 1080, 580);
    assert_eq!(windows(&controller), (80.0, 40.0, f64::INFINITY));
    // In competition the window falls by as much as the shadow, to the shadow at least.
    controller.mode = UpwindMode::Competitive;
    lose(&mut controller, 1081, 660);
    assert_eq!(windows(&controller), (60.0, 20.0, f64::INFINITY));
    controller.cwnd = 21.0;
    lose(&mut controller, 2000, 740);
    assert_eq!(windows(&controller), (11.0, 10.0, f64::INFINITY));
    // Spurious losses give back the shadow before the flight, and what was known of overflows.
    controller.on_spurious_losses();
    assert_eq!(windows(&controller), (11.0, 20.0, f64::INFINITY));
}

#[test]
fn losses_of_start_up_are_no_overflow() {
    let mut controller = full();
    controller.ceiling = Ceiling::none();
    lose(&mut controller, 1000, 500);
    assert_eq!(windows(&controller), (80.0, 40.0, f64::INFINITY));
    assert!(!controller.competition.overflows(0.6));
}

/// The queue is short, so that all losses seem to be those of the path: the window is bounded
/// nevertheless.
#[test]
fn losses_above_the_floor_bound_the_window_whatever_their_cause_seems_to_be() {
    let mut controller = full();
    controller.floor = Box::new(Known(0.0));
    controller.on_rate_sample(&sample(501, 80));
    lose(&mut controller, 1000, 502);
    // The half of 1.5 windows.
    let (cwnd, shadow, ceiling) = windows(&controller);
    assert_eq!((shadow, ceiling), (80.0, 0.75 * cwnd));
    controller.on_rate_sample(&sample(503, 80));
    assert!(controller.cwnd() <= ceiling && controller.competition.shadow() <= ceiling);
    // Spurious losses give back what was before the cut.
    controller.on_spurious_losses();
    let (_, shadow, ceiling) = windows(&controller);
    assert_eq!((shadow, ceiling), (80.0, f64::INFINITY));
}

#[test]
fn jitter_is_room_in_the_queue_that_is_aimed_at() {
    // No noise: two packets.
    let mut controller = upwind();
    assert_eq!(controller.target(), 2.0);
    // Packets leave every millisecond, and every 40th is 20 ms late: those behind it arrive with
    // it.
    for now in 400..4400_u64 {
        let late = 20_u64.saturating_sub(now % 40);
        let (sample, seconds) = (sample(now + late, 80 + late), (now + late) as f64 / 1e3);
        controller.path.on_sample(&sample, seconds, (80 + late) as f64 / 1e3);
    }
    // As many packets as arrive in that time, at 80 packets in a round trip.
    let jitter = controller.path.jitter();
    assert!(jitter > 0.01 && controller.target() >= 80.0 / 0.1 * jitter, "{jitter}");
}

#[test]
fn a_ceiling_below_two_packets_is_a_pace() {
    let mut controller = upwind();
    for number in 0..40 {
        controller.ceiling.on_lost(1000 * number + 1000, 2.0, &Estimate::default());
    }
    // Half a packet per round trip of 80 ms, and a window of two.
    controller.on_rate_sample(&sample(400, 80));
    assert_eq!((controller.cwnd(), controller.ceiling.window()), (2.0, 0.5));
    assert!((controller.pacing_rate().unwrap() - 0.5 / 0.08).abs() < 0.1);
    // Where routers grant a window, the ceiling bounds neither the window nor the pace.
    controller.on_ack(&ack(400, granted(0.0), Flags::NONE));
    let pace = controller.pacing_rate().unwrap();
    assert!(pace >= controller.cwnd() / 0.08, "{pace} for {}", controller.cwnd());
}

#[test]
fn a_timeout_begins_start_up_anew_up_to_half_of_the_window() {
    let mut controller = upwind();
    controller.on_reset(&ResetEvent::timeout(Now { now: at(400), ..Now::default() }));
    assert_eq!((controller.cwnd(), controller.phase()), (LEAST, Some("start_up")));
    assert_eq!(controller.competition.shadow(), 40.0);
    for ms in 401..600 {
        controller.on_rate_sample(&RateSample { prior_in_flight: 40, ..sample(ms, 80) });
    }
    assert_eq!(controller.phase(), Some("delay"));
}

/// An acknowledgment at `now`, milliseconds, of a path of 80 ms.
fn ack(now: u64, header: CongestionHeader, flags: Flags) -> AckEvent {
    let srtt = Duration::from_millis(80);
    let path = Now { now: at(now), rtt: srtt, srtt, min_rtt: srtt, ..Now::default() };
    let growth = 1.0;
    AckEvent {
        path,
        newly_acked: 1,
        growth,
        cwnd_limited: true,
        header,
        flags,
        ..AckEvent::default()
    }
}

fn granted(feedback: f64) -> CongestionHeader {
    CongestionHeader::XcpReverse { feedback }
}

#[test]
fn xcp_grants_set_the_window_and_losses_do_not_count() {
    let mut controller = upwind();
    // No router on the path reduced the demand.
    controller.on_ack(&ack(400, granted(f64::MAX), Flags::NONE));
    assert_eq!((controller.cwnd(), controller.phase()), (80.0, Some("delay")));
    // 50,000 bytes a second more are 4,000 bytes in 80 ms: 4 packets of 1000.
    controller.on_ack(&ack(401, granted(50_000.0), Flags::NONE));
    assert_eq!((controller.cwnd(), controller.phase()), (84.0, Some("guided")));
    controller.on_congestion(&congestion(402, 1.0, false));
    assert_eq!(controller.cwnd(), 84.0);
    controller.on_ack(&ack(403, granted(-25_000.0), Flags::NONE));
    assert_eq!(controller.cwnd(), 82.0);
    // Every packet carries a request from now on: 80 ms over 82 packets.
    let mut packet = Packet { packet_seq: 5, ..Packet::default() };
    controller.announce(&mut packet, true);
    let CongestionHeader::Xcp { rtt, inter_packet, delta, .. } = packet.header else { panic!() };
    assert!((rtt - 0.08).abs() < 1e-4 && (inter_packet - 0.08 / 82.0).abs() < 1e-5);
    assert_eq!(delta, f64::MAX);
    // Without feedback for four round trips, the window is its own again.
    for round in 0..6 {
        controller.path.trips += 1;
        controller.judge_guide(0.5 + 0.08 * round as f64);
        assert_eq!(controller.mode == UpwindMode::Guided, round < 4, "{round}");
    }
    assert_eq!(controller.cwnd(), 82.0);
}

#[test]
fn unlimited_grants_are_bounded_by_deliveries() {
    let mut controller = upwind();
    for now in 400..500 {
        controller.on_ack(&ack(now, granted(1e12), Flags::NONE));
    }
    // 1000 packets a second for 80 ms, twice, and 10.
    assert!((controller.cwnd() - 170.0).abs() < 1.0, "{}", controller.cwnd());
    // More than half of the window waits for 20 round trips: grants do not limit the sender.
    // The first two round trips partly count as noise.
    for round in 0..22 {
        feed(&mut controller.path, 500 + 180 * round, 680 + 180 * round, |_| 180.0);
        controller.path.trips += 1;
        controller.on_ack(&ack(680 + 180 * round, granted(1e12), Flags::NONE));
        assert!(controller.mode == UpwindMode::Guided || round >= 20, "{round}");
        controller.judge_guide(0.68 + 0.18 * round as f64);
    }
    assert_eq!(controller.mode, UpwindMode::Delay);
    controller.on_ack(&ack(4700, granted(1e12), Flags::NONE));
    assert_eq!(controller.mode, UpwindMode::Delay, "for 20 s");
    controller.on_ack(&ack(25_000, granted(1e12), Flags::NONE));
    assert_eq!(controller.mode, UpwindMode::Guided);
}

#[test]
fn a_flag_halves_and_a_window_grows_by_one_packet_a_round_trip_for_as_long() {
    let mut controller = upwind();
    // XCP's grants do not describe the queue that flags.
    controller.on_ack(&ack(400, granted(0.0), Flags::NONE));
    controller.on_ack(&ack(401, CongestionHeader::None, Flags::CONGESTION));
    assert_eq!((controller.cwnd(), controller.phase()), (40.0, Some("guided")));
    controller.on_ack(&ack(402, granted(50_000.0), Flags::NONE));
    assert_eq!(controller.cwnd(), 40.0 + 1.0 / 40.0);
    // There was no queue at the last flag, so that any queue is longer: 20 s.
    controller.judge_guide(20.3);
    assert_eq!(controller.mode, UpwindMode::Guided);
    controller.judge_guide(20.5);
    assert_eq!(controller.mode, UpwindMode::Delay);
}

#[test]
fn a_mark_halves_window_shadow_and_ceiling_in_every_mode() {
    for mode in [UpwindMode::StartUp, UpwindMode::Delay, UpwindMode::Competitive] {
        let mut controller = upwind();
        controller.mode = mode;
        controller.on_congestion(&congestion(400, 1.0, true));
        assert_eq!(windows(&controller), (40.0, 40.0, 40.0), "{mode:?}");
        assert!(controller.competition.overflows(0.401), "{mode:?}: a mark is an overflow");
        let after = if mode == UpwindMode::StartUp { UpwindMode::Delay } else { mode };
        assert_eq!(controller.mode, after);
        // The ceiling grows by a packet in each of ten round trips, and bounds the window.
        controller.ceiling.on_trip(Losses::default(), false, false);
        controller.ceiling.on_trip(Losses::default(), false, false);
        assert_eq!(controller.ceiling.window(), 41.0, "{mode:?}");
        // A second mark, a round trip later.
        controller.on_congestion(&congestion(500, 1.0, true));
        assert_eq!(windows(&controller), (20.0, 20.0, 20.0), "{mode:?}");
        for round in 0..30 {
            controller.on_congestion(&congestion(600 + 100 * round, 1.0, true));
        }
        assert_eq!(windows(&controller), (LEAST, LEAST, LEAST), "{mode:?}");
    }
}

#[test]
fn a_mark_halves_the_window_without_the_ceiling() {
    let mut controller = upwind();
    controller.config.ceiling = false;
    controller.on_congestion(&congestion(400, 1.0, true));
    assert_eq!(controller.cwnd(), 40.0);
}

#[test]
fn a_mark_ends_grants_for_a_while() {
    let mut controller = upwind();
    controller.on_ack(&ack(400, granted(50_000.0), Flags::NONE));
    assert_eq!((controller.cwnd(), controller.phase()), (84.0, Some("guided")));
    controller.on_congestion(&congestion(401, 1.0, true));
    assert_eq!((controller.cwnd(), controller.phase()), (42.0, Some("delay")));
    controller.on_ack(&ack(402, granted(50_000.0), Flags::NONE));
    assert_eq!((controller.cwnd(), controller.phase()), (42.0, Some("delay")), "for 20 s");
    controller.on_ack(&ack(20_500, granted(50_000.0), Flags::NONE));
    assert_eq!(controller.phase(), Some("guided"));
}

/// A mark after losses of the same round trip halves once more, and that those were spurious undoes
/// nothing of it.
#[test]
fn a_mark_is_not_undone() {
    let mut controller = full();
    lose(&mut controller, 1000, 500);
    assert_eq!(controller.competition.shadow(), 40.0);
    controller.on_congestion(&congestion(510, 1.0, true));
    assert_eq!(windows(&controller), (40.0, 20.0, 40.0));
    controller.on_spurious_losses();
    assert_eq!(windows(&controller), (40.0, 20.0, 40.0));
}

fn composed() -> Protocol {
    *protocols::find("upwind").expect("a row of the table")
}

/// Packets delivered from 20 to 40 s over a path of 1000 packets a second and 80 ms with random
/// losses, and the mean and the longest queue.
fn alone(loss: f64) -> (u64, f64, usize) {
    let mut path = TestPath::of(&composed(), 2.0, 1000, Duration::from_millis(80));
    path.loss = Probability::new(loss).unwrap();
    path.offer_until(u64::MAX);
    path.run(Duration::from_secs(20), |_, _| {});
    let (before, mut waiting) = (path.delivered(), Vec::new());
    for _ in 0..1000 {
        path.run(Duration::from_millis(20), |_, _| {});
        waiting.push(path.waiting());
    }
    let mean = waiting.iter().sum::<usize>() as f64 / waiting.len() as f64;
    (path.delivered() - before, mean, waiting.into_iter().max().unwrap())
}

#[test]
fn alone_the_path_is_full_and_the_queue_short_whatever_is_lost() {
    for loss in [0.0, 0.05, 0.2] {
        let (delivered, mean, most) = alone(loss);
        let share = delivered as f64 / (20_000.0 * (1.0 - loss));
        println!("loss {loss}: {share:.3} of the capacity, queue {mean:.2}, at most {most}");
        assert!(share > 0.97, "{loss}: {share}");
        // Two on average, as much again when it turns, and one on the link.
        assert!(mean < 6.0, "{loss}: {mean}");
    }
}
