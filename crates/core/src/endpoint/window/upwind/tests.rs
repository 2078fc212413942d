//! Tests of Upwind's state, and of Upwind alone on a path.

use super::*;

use crate::endpoint::tests::path::TestPath;
use crate::packet::{CongestionHeader, Flags};
use crate::part::Plain;
use crate::protocols::{self, Protocol};
use crate::units::{Duration, Probability};

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

/// A sample of one packet at `now` ms with an RTT of `rtt` ms, at a steady 1000 packets a second.
fn sample(now: u64, rtt: u64) -> RateSample {
    RateSample {
        now: at(now),
        newly_acked: 1,
        newly_lost: 0,
        total_delivered: now,
        prior_delivered: now - rtt,
        delivered: rtt,
        rate: 1000.0,
        is_app_limited: false,
        tx_in_flight: rtt,
        lost: 0,
        rtt: Duration::from_millis(rtt),
        in_flight: rtt,
        prior_in_flight: rtt,
        in_recovery: false,
    }
}

/// An Upwind in delay mode, with 80 packets in flight for 80 ms and no queue.
fn upwind() -> Upwind {
    let config = EndpointConfig { initial_window: 80.0, ..EndpointConfig::default() };
    let mut controller = Upwind::of(UpwindConfig::DEFAULT, &config, &FeedbackConfig::Help(Plain));
    controller.mode = UpwindMode::Delay;
    controller.queue.on_sample(&sample(100, 90));
    for now in 100..400 {
        controller.queue.on_sample(&sample(now, 80));
        controller.rounds.on_sample(&sample(now, 80), 0.08);
    }
    controller
}

fn congestion(now: u64, probability: f64, marked: bool) -> CongestionEvent {
    let path = Path { now: at(now), ..Path::default() };
    let probability = Probability::new(probability).unwrap();
    CongestionEvent { probability, marked, ..CongestionEvent::certain(path) }
}

#[test]
fn the_window_moves_towards_two_packets_in_the_queue() {
    // No queue: up by 1 / (delta cwnd) = 2/80.
    let mut controller = upwind();
    controller.step(&sample(400, 80), false);
    assert!((controller.cwnd() - 80.025).abs() < 1e-9, "{}", controller.cwnd());
    // A standing queue of 20 ms: b = 80 x 20 / 100 = 16, so down by (16 - 2) / 2 = 7 packets a
    // round trip.
    let mut controller = upwind();
    for now in 400..2400 {
        controller.queue.on_sample(&sample(now, 100));
    }
    assert!((controller.queue.delay() - 0.02).abs() < 2e-4, "{}", controller.queue.delay());
    controller.step(&sample(2400, 100), false);
    assert!((controller.cwnd() - (80.0 - 7.0 / 80.0)).abs() < 2e-3, "{}", controller.cwnd());
}

#[test]
fn the_delay_of_what_was_sent_before_start_up_ended_shrinks_nothing() {
    let mut controller = upwind();
    for now in 400..2400 {
        controller.queue.on_sample(&sample(now, 100));
    }
    // Start-up ended when 2350 were delivered; the packet that arrives at 2400 was sent when 2300
    // were.
    controller.steps = Steps::settling(80.0, 2350);
    controller.step(&sample(2400, 100), true);
    assert_eq!(controller.cwnd(), 80.0);
    controller.step(&sample(2450, 100), false);
    assert!(controller.cwnd() < 80.0, "{}", controller.cwnd());
}

#[test]
fn start_up_does_not_grow_while_a_fifth_is_lost() {
    let started = |lost: u64| {
        let mut controller = upwind();
        controller.mode = UpwindMode::StartUp;
        // A round trip without a loss, and one in which 30 arrive so far.
        controller.rounds.on_sample(&sample(480, 80), 0.08);
        (0..lost).for_each(|_| controller.rounds.on_lost());
        controller.start_up(&sample(510, 80), false);
        controller.cwnd()
    };
    assert_eq!(started(0), 81.0);
    // 7 of 37 are less than 20 %; 9 of 39 are 23 %, but fewer than ten losses do not count; 10 of
    // 40 are 25 %.
    assert_eq!((started(7), started(9), started(10)), (81.0, 81.0, 80.0));
}

#[test]
fn losses_change_nothing_in_delay_mode_but_the_shadow() {
    let mut controller = upwind();
    controller.on_congestion(&congestion(400, 1.0, false));
    assert_eq!(controller.cwnd(), 80.0);
    assert!(controller.is_above_shadow());
    // 80 x 1/2, and then by half of a half: 30.
    controller.on_congestion(&congestion(480, 0.5, false));
    controller.mode = UpwindMode::Competitive;
    controller.cwnd = 30.0;
    assert!(controller.is_above_shadow());
    controller.cwnd = 29.9;
    assert!(!controller.is_above_shadow());
}

#[test]
fn a_delay_that_does_not_shrink_with_the_window_is_a_longer_path() {
    let mut controller = upwind();
    for now in 400..600 {
        controller.queue.on_sample(&sample(now, 100));
    }
    // b = 16 is more than five times two.
    controller.judge_path(at(2400));
    controller.cwnd = 57.0;
    controller.judge_path(at(2400));
    assert!(controller.queue.floor() > 0.0, "71 % is not enough");
    controller.cwnd = 55.0;
    controller.judge_path(at(2400));
    assert_eq!(controller.cwnd(), 80.0);
    for now in 600..700 {
        controller.queue.on_sample(&sample(now, 100));
    }
    assert_eq!((controller.queue.floor(), controller.queue.delay()), (0.1, 0.0));
    // If the delay shrinks with the window, it is a queue.
    let mut controller = upwind();
    for now in 400..600 {
        controller.queue.on_sample(&sample(now, 100));
    }
    controller.judge_path(at(2400));
    for now in 600..800 {
        controller.queue.on_sample(&sample(now, 93));
    }
    controller.cwnd = 50.0;
    controller.judge_path(at(2400));
    assert_eq!((controller.cwnd(), controller.queue.floor()), (50.0, 0.08));
}

/// Round trips of 80 ms with these delays, each constant within its round trip.
fn rounds(controller: &mut Upwind, from: u64, delays: &[u64]) -> u64 {
    let mut now = from;
    for delay in delays {
        for _ in 0..80 {
            now += 1;
            controller.queue.on_sample(&sample(now, 80 + delay));
        }
        controller.rounds.count += 1;
        controller.watch_falls(at(now));
    }
    now
}

#[test]
fn a_delay_that_falls_without_its_doing_is_somebody_who_had_a_loss() {
    let rises: Vec<u64> = (20..=40).collect();
    let falls = [10, 10, 10, 10, 11, 11, 11, 12, 12, 12, 12, 12, 12];
    let mut controller = upwind();
    let now = rounds(&mut controller, 400, &rises);
    let now = rounds(&mut controller, now, &falls);
    assert!(controller.overflows(at(now)) && !controller.overflows(at(now + 30_000)));
    // No overflow if the window shrank before,
    let mut controller = upwind();
    let now = rounds(&mut controller, 400, &rises);
    controller.cwnd = 40.0;
    let now = rounds(&mut controller, now, &falls);
    assert!(!controller.overflows(at(now)));
    // nor if the delay rose within fewer than ten round trips, as in start-ups,
    let mut controller = upwind();
    let now = rounds(&mut controller, 400, &[10, 12, 14, 16, 18, 20, 30, 40]);
    let now = rounds(&mut controller, now, &falls);
    assert!(!controller.overflows(at(now)));
    // nor if the delay comes back.
    let mut controller = upwind();
    let now = rounds(&mut controller, 400, &rises);
    let now = rounds(&mut controller, now, &[10, 10, 10, 40, 42, 44, 46, 48, 50, 52, 54, 56]);
    assert!(!controller.overflows(at(now)));
}

/// Round trips of 80 ms, beginning at `from`, that lose 5 %.
fn lossy(controller: &mut Upwind, from: u64, rounds: u64) {
    controller.rounds.lost = 0.05;
    for round in 0..rounds {
        controller.rounds.count += 1;
        controller.look_for_room(at(from + 80 * round));
    }
}

#[test]
fn a_queue_that_takes_eight_packets_has_room() {
    let mut controller = upwind();
    assert_eq!(controller.aim(at(400)), 2.0);
    lossy(&mut controller, 400, 1);
    assert_eq!(controller.aim(at(400)), 10.0);
    // b = 80 x 10 / 90 = 8.9: no test for 30 s.
    for now in 400..600 {
        controller.queue.on_sample(&sample(now, 90));
    }
    lossy(&mut controller, 600, 1);
    for now in 600..800 {
        controller.queue.on_sample(&sample(now, 80));
    }
    lossy(&mut controller, 800, 20);
    assert_eq!((controller.aim(at(2400)), controller.mode), (2.0, UpwindMode::Delay));
    lossy(&mut controller, 31_000, 1);
    assert_eq!(controller.aim(at(31_000)), 10.0);
}

#[test]
fn a_queue_that_does_not_take_them_is_short_and_each_loss_congestion() {
    // No result while the rate grows by a tenth per round trip.
    let mut controller = upwind();
    for _ in 0..20 {
        controller.rounds.rate *= 1.11;
        lossy(&mut controller, 400, 1);
    }
    assert_eq!((controller.aim(at(400)), controller.mode), (10.0, UpwindMode::Delay));
    let mut controller = upwind();
    lossy(&mut controller, 400, 9);
    assert_eq!((controller.cwnd(), controller.mode), (80.0, UpwindMode::Delay));
    lossy(&mut controller, 1120, 1);
    assert_eq!((controller.cwnd(), controller.mode), (40.0, UpwindMode::Competitive));
    // A cut whether corruption or not, once per window.
    let path = Path { now: at(1200), ..Path::default() };
    controller.on_error_loss(&path);
    controller.on_error_loss(&path);
    controller.on_congestion(&congestion(1200, 1.0, false));
    assert_eq!(controller.cwnd(), 20.0);
    // One packet more in a round trip, though there is no queue.
    for now in 1200..1220 {
        controller.compete(&sample(now, 80), false);
    }
    assert!((controller.cwnd() - 21.0).abs() < 0.05, "{}", controller.cwnd());
    // A spurious loss: the window as before, plus the growth since.
    controller.on_spurious_losses();
    controller.compete(&sample(1220, 80), false);
    assert!((controller.cwnd() - 40.0).abs() < 0.05, "{}", controller.cwnd());
    // After 20 s the queue is empty, and the competitive mode ends.
    controller.rounds.count += 5;
    controller.compete(&sample(21_100, 80), true);
    assert_eq!(controller.mode, UpwindMode::Competitive);
    controller.compete(&sample(21_200, 80), true);
    assert_eq!(controller.mode, UpwindMode::Delay);
    // The next time it takes 40 s, from the tenth of these round trips on.
    lossy(&mut controller, 21_200, 10);
    assert!(controller.is_in_short_queue(at(61_900)) && !controller.is_in_short_queue(at(61_920)));
}

/// An acknowledgment at `now`, milliseconds, of a path of 80 ms.
fn ack(now: u64, header: CongestionHeader, flags: Flags) -> AckEvent {
    let srtt = Duration::from_millis(80);
    let path = Path { now: at(now), rtt: srtt, srtt, min_rtt: srtt, ..Path::default() };
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
        controller.rounds.count += 1;
        controller.judge_guide(at(500 + 80 * round));
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
    // More than half of the window waits for ten round trips: grants do not limit the sender.
    // The first two round trips partly count as noise.
    for round in 0..12 {
        for now in 0..180 {
            controller.queue.on_sample(&sample(500 + 180 * round + now, 180));
        }
        controller.rounds.count += 1;
        controller.on_ack(&ack(680 + 180 * round, granted(1e12), Flags::NONE));
        assert!(controller.mode == UpwindMode::Guided || round >= 10, "{round}");
        controller.judge_guide(at(680 + 180 * round));
    }
    assert_eq!(controller.mode, UpwindMode::Delay);
    controller.on_ack(&ack(2700, granted(1e12), Flags::NONE));
    assert_eq!(controller.mode, UpwindMode::Delay, "for 20 s");
    controller.on_ack(&ack(23_000, granted(1e12), Flags::NONE));
    assert_eq!(controller.mode, UpwindMode::Guided);
}

#[test]
fn a_flag_or_a_mark_halves_and_a_window_grows_by_one_packet_a_round_trip_for_as_long() {
    for is_flag in [true, false] {
        let mut controller = upwind();
        // XCP's grants do not describe the queue that flags.
        controller.on_ack(&ack(400, granted(0.0), Flags::NONE));
        if is_flag {
            controller.on_ack(&ack(401, CongestionHeader::None, Flags::CONGESTION));
        } else {
            let event = congestion(401, 1.0, true);
            let path = Path { in_flight: 80.0, ..event.path };
            controller.on_congestion(&CongestionEvent { path, ..event });
        }
        assert_eq!((controller.cwnd(), controller.phase()), (40.0, Some("guided")), "{is_flag}");
        controller.on_ack(&ack(402, granted(50_000.0), Flags::NONE));
        assert_eq!(controller.cwnd(), 40.0 + 1.0 / 40.0, "{is_flag}");
        // There was no queue at the last flag, so that any queue is longer: 20 s.
        controller.judge_guide(at(20_300));
        assert_eq!(controller.mode, UpwindMode::Guided);
        controller.judge_guide(at(20_500));
        assert_eq!(controller.mode, UpwindMode::Delay);
    }
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
        assert!(mean < 5.0, "{loss}: {mean}");
    }
}
