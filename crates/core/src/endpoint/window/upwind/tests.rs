//! Tests of Upwind's state, and of Upwind alone on a path.

use super::*;

use crate::endpoint::event::Path;
use crate::endpoint::tests::path::TestPath;
use crate::packet::{CongestionHeader, Flags};
use crate::part::Plain;
use crate::protocols::{self, Protocol};
use crate::rng::Stream;
use crate::units::{Duration, Probability};

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A sample of one packet at `now` ms with an RTT of `rtt` ms, at a steady 1000 packets a second.
fn sample(now: u64, rtt: u64) -> RateSample {
    RateSample {
        now: at(now),
        newly_acked: 1,
        total_delivered: now,
        prior_delivered: now - rtt,
        delivered: rtt,
        rate: 1000.0,
        tx_in_flight: rtt,
        rtt: Some(ms(rtt)),
        in_flight: rtt,
        prior_in_flight: rtt,
        ..RateSample::default()
    }
}

/// An Upwind in delay mode, with 80 packets in flight for 80 ms and no queue.
fn upwind() -> Upwind {
    let config = EndpointConfig { initial_window: 80.0, ..EndpointConfig::default() };
    let mut controller = Upwind::of(UpwindConfig::DEFAULT, &config, &FeedbackConfig::Help(Plain));
    controller.mode = UpwindMode::Delay;
    controller.queue.on_sample(at(100), ms(90));
    for now in 100..400 {
        controller.queue.on_sample(at(now), ms(80));
        controller.rounds.on_sample(&sample(now, 80), 0.08);
    }
    // The first round trip belongs to start-up.
    controller.bound.on_round(80.0, 0.0, 80.0, 0.08, false);
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
        controller.queue.on_sample(at(now), ms(100));
    }
    assert!((controller.queue.delay() - 0.02).abs() < 2e-4, "{}", controller.queue.delay());
    controller.step(&sample(2400, 100), false);
    assert!((controller.cwnd() - (80.0 - 7.0 / 80.0)).abs() < 2e-3, "{}", controller.cwnd());
}

#[test]
fn the_delay_of_what_was_sent_before_start_up_ended_shrinks_nothing() {
    let mut controller = upwind();
    for now in 400..2400 {
        controller.queue.on_sample(at(now), ms(100));
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
        controller.queue.on_sample(at(now), ms(100));
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
        controller.queue.on_sample(at(now), ms(100));
    }
    assert_eq!((controller.queue.floor(), controller.queue.delay()), (0.1, 0.0));
    // If the delay shrinks with the window, it is a queue.
    let mut controller = upwind();
    for now in 400..600 {
        controller.queue.on_sample(at(now), ms(100));
    }
    controller.judge_path(at(2400));
    for now in 600..800 {
        controller.queue.on_sample(at(now), ms(93));
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
            controller.queue.on_sample(at(now), ms(80 + delay));
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

/// A sender that reports round trips of 80 ms to the bound of an Upwind with 100 packets in flight.
struct Trips {
    controller: Upwind,
    now: u64,
}

impl Trips {
    fn new() -> Self {
        let mut controller = upwind();
        controller.cwnd = 100.0;
        Trips { controller, now: 400 }
    }

    /// Round trips that lose `lost` of 100 packets while the RTT is `rtt` ms.
    fn pass(&mut self, trips: u64, lost: u64, rtt: u64) -> &Bound {
        self.pass_of(trips, lost, 100.0, rtt)
    }

    /// The same with `sent` packets.
    fn pass_of(&mut self, trips: u64, lost: u64, sent: f64, rtt: u64) -> &Bound {
        for _ in 0..trips {
            self.now += rtt;
            let sample = sample(self.now, rtt);
            self.controller.queue.on_sample(sample.now, ms(rtt));
            let steady = Queue::new(2.0);
            (0..100).for_each(|_| self.controller.bound.on_sample(rtt as f64 / 1e3, &steady));
            (self.controller.rounds.lost_packets, self.controller.rounds.sent) = (lost, sent);
            self.controller.bound_window(&sample);
        }
        &self.controller.bound
    }
}

#[test]
fn losses_without_a_queue_are_those_of_the_path_and_bound_nothing() {
    let mut trips = Trips::new();
    trips.pass(2, 0, 80);
    // A queue stood once, so that one without is known to be empty.
    trips.pass(1, 0, 120);
    trips.pass(1, 0, 80);
    // The first ones exceed what was seen before, and cut the ceiling until they are known.
    assert!(trips.pass(3, 30, 80).ceiling() < 150.0);
    assert!(trips.pass(200, 30, 80).ceiling() > 1000.0);
    // 30 % are the floor now, so that as much in a standing queue is no congestion either.
    assert!(trips.pass(100, 30, 120).ceiling() > 100.0);
}

/// The ceiling after 500 round trips of eight packets, 14 ms apart and delivered in order, every
/// fourth of which loses one. The RTT of each is given, in milliseconds.
fn ceiling_at(mut rtt: impl FnMut(u64) -> f64) -> f64 {
    let mut controller = upwind();
    (controller.cwnd, controller.mode) = (8.0, UpwindMode::Delay);
    let mut arrived = at(400);
    for packet in 0..4000 {
        let sent = at(400 + 14 * packet);
        let rtt = if packet == 0 { 80.0 } else { rtt(packet) };
        arrived = arrived.max(sent + Duration::from_secs_f64(1e-3 * rtt));
        let rtt = arrived.since(sent);
        let sample = RateSample { now: arrived, rtt: Some(rtt), ..sample(400, 80) };
        controller.queue.on_sample(arrived, rtt);
        controller.bound.on_sample(rtt.as_secs_f64(), &controller.queue);
        if packet % 8 == 7 {
            controller.rounds.lost_packets = u64::from(packet % 32 == 31);
            controller.rounds.sent = 8.0;
            controller.bound_window(&sample);
        }
    }
    controller.bound.ceiling()
}

#[test]
fn rtts_that_vary_from_packet_to_packet_down_to_the_least_one_are_no_queue() {
    // 0 to 40 ms of jitter: a mean is certain to a thirtieth of 80 ms after 290 RTTs.
    let mut stream = Stream::new(1, "test", "jitter");
    let jitter = ceiling_at(|_| 80.0 + 40.0 * stream.uniform());
    // The same behind a queue of 10 ms: no RTT is near 80 ms.
    let queue = ceiling_at(|_| 90.0 + 40.0 * stream.uniform());
    // A queue that swings by 30 ms in 50 round trips, and 10 ms of jitter.
    let swing = |packet| 15.0 - 15.0 * libm::cos(packet as f64 * core::f64::consts::PI / 200.0);
    let swings = ceiling_at(|packet| 80.0 + swing(packet) + 10.0 * stream.uniform());
    assert!(jitter > 100.0 && queue < 20.0 && swings < 20.0, "{jitter} {queue} {swings}");
}

#[test]
fn a_floor_counts_as_a_twentieth_until_a_queue_was_seen_to_stand() {
    // 64 flows that start in a full queue know no other RTT: 30 % of losses are a congestion of 25.
    let mut trips = Trips::new();
    trips.pass(2, 0, 80);
    assert!(trips.pass(200, 30, 80).ceiling() < 20.0);
    let mut trips = Trips::new();
    trips.pass(2, 0, 80);
    assert!(trips.pass(200, 4, 80).ceiling() > 1000.0);
}

#[test]
fn a_path_that_loses_much_without_a_queue_is_searched_for_one() {
    // 4 % are less than what counts without a queue: nothing to gain.
    let mut trips = Trips::new();
    trips.pass(2, 0, 80);
    trips.pass(100, 4, 80);
    assert!(!trips.controller.bound.begins_search());
    // 30 % keep the ceiling low. The first search is due after 20 means without a queue.
    let mut trips = Trips::new();
    trips.pass(15, 30, 80);
    assert!(!trips.controller.bound.begins_search());
    let before = trips.pass(10, 30, 80).ceiling();
    assert!(trips.controller.bound.begins_search());
    assert_eq!(trips.controller.bound.ceiling(), f64::INFINITY);
    // It meets no queue. The next one comes after twice as many means.
    trips.controller.bound.end_search();
    assert_eq!(trips.controller.bound.ceiling(), before);
    trips.pass(30, 30, 80);
    assert!(!trips.controller.bound.begins_search());
    trips.pass(20, 30, 80);
    assert!(trips.controller.bound.begins_search());
    assert_eq!(trips.controller.bound.has_found(), Some(false));
    // It meets one: the losses without a queue are those of the path.
    assert_eq!(trips.pass(1, 30, 120).has_found(), Some(true));
    trips.controller.bound.end_search();
    assert_eq!(trips.controller.bound.has_found(), None);
    assert!(trips.pass(50, 30, 80).ceiling() > 1000.0);
    assert!(!trips.controller.bound.begins_search());
}

#[test]
fn a_cut_grants_half_a_deviation_of_the_floor_and_pauses_the_fast_growth() {
    // 9 of 900 packets were lost without a queue: a deviation is 3 packets.
    let floor = super::losses::Losses { lost: 9.0, sent: 900.0 };
    assert!((floor.rate_above(0.5) - 10.5 / 900.0).abs() < 1e-12);
    // After a cut by half in an empty queue, the ceiling grows by single packets until the tenth
    // round trip.
    let mut trips = Trips::new();
    trips.pass(4, 0, 80);
    trips.controller.bound.confirm();
    let cut = trips.pass(1, 5, 80).ceiling();
    assert_eq!(cut, 75.0);
    assert_eq!(trips.pass(9, 0, 80).ceiling(), cut + 9.0);
    assert_eq!(trips.pass(1, 0, 80).ceiling(), (cut + 10.0) * 1.05);
}

#[test]
fn the_floor_is_known_from_a_hundred_packets_in_a_row_without_a_queue() {
    // 30 % of the packets are lost without a queue. The second of six means without one begins a
    // run of 50 packets.
    let mut trips = Trips::new();
    trips.controller.bound.confirm();
    trips.pass_of(2, 0, 10.0, 80);
    for _ in 0..40 {
        trips.pass_of(6, 3, 10.0, 80);
        trips.pass_of(2, 0, 10.0, 120);
    }
    assert!(trips.controller.bound.ceiling() < 5.0, "{}", trips.controller.bound.ceiling());
    // After a longer run, those of 50 packets count too.
    trips.pass_of(13, 3, 10.0, 80);
    for _ in 0..40 {
        trips.pass_of(2, 0, 10.0, 120);
        trips.pass_of(6, 3, 10.0, 80);
    }
    assert!(trips.controller.bound.ceiling() > 100.0, "{}", trips.controller.bound.ceiling());
}

#[test]
fn losses_beyond_a_third_are_congestion_though_no_queue_is_seen() {
    // After a cut, the first round trip is free and leaves a credit of 35; each of the next three
    // takes 15 of it. So C is cut every fourth round trip, by half of 1 - 0.35 / 0.5, to 0.85. It
    // grows by three packets in between, and twice by 5 %: C is ((0.85 C + 2) 1.05 + 1) 1.05 at 52
    // before a cut, and 44 after it.
    let mut trips = Trips::new();
    trips.pass(4, 0, 80);
    trips.controller.bound.confirm();
    let ceiling = trips.pass(600, 50, 80).ceiling();
    assert!((40.0..56.0).contains(&ceiling), "{ceiling}");
    // 30 of 100 are within it, once they are known.
    let mut trips = Trips::new();
    trips.pass(4, 0, 80);
    trips.controller.bound.confirm();
    assert!(trips.pass(200, 30, 80).ceiling() > 100.0);
}

#[test]
fn losses_of_start_up_and_of_the_round_trip_after_it_are_free() {
    let mut trips = Trips::new();
    trips.pass(2, 0, 80);
    trips.controller.mode = UpwindMode::StartUp;
    trips.pass(1, 90, 120);
    trips.controller.mode = UpwindMode::Delay;
    assert_eq!(trips.pass(1, 90, 120).ceiling(), f64::INFINITY);
    // They do not count in the present loss rate either: 10 of 100 halve 1.5 cwnd.
    assert_eq!(trips.pass(1, 10, 120).ceiling(), 75.0);
}

#[test]
fn a_queue_that_never_empties_but_moves_has_an_assumed_floor() {
    // Single packets took 80 ms, so the queue stands. 5 of 100 packets are lost. A queue that is
    // held keeps the window small,
    let mut held = Trips::new();
    assert!(held.pass(600, 5, 130).ceiling() < 10.0);
    // and one that moves between 110 and 190 ms does not: the floor is 5 %.
    let mut moving = Trips::new();
    for _ in 0..12 {
        moving.pass(25, 5, 110);
        moving.pass(25, 5, 190);
    }
    let ceiling = moving.controller.bound.ceiling();
    assert!(ceiling > 200.0, "{ceiling}");
    // More than a tenth is not assumed to be the path's.
    let mut lossy = Trips::new();
    for _ in 0..12 {
        lossy.pass(25, 30, 110);
        lossy.pass(25, 30, 190);
    }
    assert!(lossy.controller.bound.ceiling() < 10.0, "{}", lossy.controller.bound.ceiling());
}

#[test]
fn losses_in_a_standing_queue_halve_the_window_whatever_the_discriminator_says() {
    let mut trips = Trips::new();
    trips.pass(40, 0, 80);
    // Without a loss f = 0, and there is no credit: the half of 1.5 cwnd.
    trips.pass(1, 0, 120);
    assert_eq!(trips.pass(1, 1, 120).ceiling(), 75.0);
    // The round trip after a cut is free, and its growth is one packet.
    assert_eq!(trips.pass(1, 50, 120).ceiling(), 76.0);
    assert_eq!(trips.pass(1, 5, 120).ceiling(), 38.0);
    // The discriminator has reported corruption all the time: the window is bounded nevertheless.
    let now = trips.now;
    trips.controller.on_rate_sample(&sample(now + 1, 120));
    let ceiling = trips.controller.bound.ceiling();
    assert!(ceiling < 40.0 && trips.controller.cwnd() <= ceiling, "{}", trips.controller.cwnd());
    // Spurious losses give back the window before the last cut.
    trips.controller.on_spurious_losses();
    assert_eq!(trips.controller.bound.ceiling(), 76.0);
}

/// Start-up of 100 packets in three round trips without any queue, 10 % of them lost; then 100 in a
/// round trip, 8 % of them lost, at RTTs that show a queue.
#[test]
fn the_losses_of_start_up_are_the_floor_for_twenty_round_trips() {
    let ceiling = |early: &[(f64, f64)], trips: u64| {
        let mut passed = Trips::new();
        early.iter().for_each(|(lost, sent)| passed.controller.bound.on_early_round(*lost, *sent));
        passed.controller.bound.confirm();
        passed.pass(trips, 8, 120).ceiling()
    };
    let doubling = [(1.0, 10.0), (3.0, 30.0), (6.0, 60.0)];
    // Without a floor the first loss halves 1.5 x 100.
    assert_eq!(ceiling(&[], 1), 75.0);
    // Each round trip has a credit of 10.
    assert_eq!(ceiling(&doubling, 19), f64::INFINITY);
    assert!(ceiling(&doubling, 25) < 75.0);
    // A round trip that loses 50 of 100 floods a queue too short to be seen, and is no floor.
    assert_eq!(ceiling(&[(50.0, 100.0)], 1), 75.0);
}

#[test]
fn losses_without_a_queue_count_at_once_after_start_up() {
    // 30 % of ten packets in a round trip, so that 100 take ten round trips.
    let ceiling = |starts: bool| {
        let mut trips = Trips::new();
        if starts {
            trips.controller.bound.on_early_round(0.0, 10.0);
        }
        trips.controller.bound.confirm();
        trips.pass_of(2, 0, 10.0, 80);
        trips.pass_of(7, 3, 10.0, 80).ceiling()
    };
    // The first loss halves 1.5 x 100, and each second one halves again without a floor.
    assert!(ceiling(true) > 60.0 && ceiling(false) < 20.0, "{} {}", ceiling(true), ceiling(false));
}

#[test]
fn losses_above_the_floor_count_in_proportion() {
    let mut trips = Trips::new();
    trips.pass(2, 0, 80);
    trips.pass(1, 0, 120);
    trips.pass(1, 0, 80);
    trips.pass(200, 10, 80);
    // 20 % in a queue, 10 % of them congestion: each cut is at most a quarter of C, at most
    // 1.5 cwnd, and before the first one the counts still say less than 20 %.
    let mut ceilings = (0..40).map(|_| trips.pass(1, 20, 120).ceiling());
    let first = ceilings.find(|ceiling| ceiling.is_finite()).expect("the excess is noticed");
    assert!((112.5..150.0).contains(&first), "{first}");
}

#[test]
fn a_flow_that_never_saw_an_empty_queue_trusts_its_shortest_rtt() {
    // Single packets took 80 ms, and all means since are 120 ms: the queue may always have stood,
    // and the losses count as congestion.
    let mut trips = Trips::new();
    assert!(trips.pass(20, 20, 120).ceiling() < 10.0, "{}", trips.controller.bound.ceiling());
}

#[test]
fn jitter_is_room_in_the_queue_that_is_aimed_at() {
    // No noise: two packets.
    let mut controller = upwind();
    assert_eq!(controller.target(), 2.0);
    // Packets leave every millisecond and every tenth RTT is 20 ms longer: the step is 20 ms minus
    // the time since the transmission of the packet before, 21 - 20 = 1 ms. In in-order delivery
    // the packets behind it arrive with it, so their RTTs are longer by 19, 18, ... ms.
    for now in 400..4400_u64 {
        let behind = now % 40;
        let late = 20_u64.saturating_sub(behind);
        controller.queue.on_sample(at(now + late), ms(80 + late));
    }
    let jitter = controller.queue.jitter();
    assert!((0.01..0.04).contains(&jitter), "{jitter}");
    // As many packets as arrive in that time, at 80 packets in a round trip.
    assert!(controller.target() >= 80.0 / 0.1 * jitter, "{}", controller.target());
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

/// The ceiling bounds neither the window nor the pace of a flow whose window is granted.
#[test]
fn a_granted_window_has_its_own_pace() {
    let mut controller = upwind();
    for _ in 0..40 {
        controller.bound.on_round(2.0, 2.0, 2.0, 0.08, false);
    }
    assert!(controller.bound.ceiling() < LEAST, "{}", controller.bound.ceiling());
    let before = controller.pacing_rate().expect("an RTT is known");
    assert!(before < LEAST / 0.08, "{before}");
    controller.on_ack(&ack(400, granted(0.0), Flags::NONE));
    assert_eq!(controller.phase(), Some("guided"));
    let pace = controller.pacing_rate().expect("an RTT is known");
    assert!(pace >= controller.cwnd() / 0.08, "{pace} for {}", controller.cwnd());
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
        for now in 0..180 {
            controller.queue.on_sample(at(500 + 180 * round + now), ms(180));
        }
        controller.rounds.count += 1;
        controller.on_ack(&ack(680 + 180 * round, granted(1e12), Flags::NONE));
        assert!(controller.mode == UpwindMode::Guided || round >= 20, "{round}");
        controller.judge_guide(at(680 + 180 * round));
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
    controller.judge_guide(at(20_300));
    assert_eq!(controller.mode, UpwindMode::Guided);
    controller.judge_guide(at(20_500));
    assert_eq!(controller.mode, UpwindMode::Delay);
}

/// The window, the shadow and the ceiling.
fn windows(controller: &Upwind) -> (f64, f64, f64) {
    (controller.cwnd(), controller.others.shadow(), controller.bound.ceiling())
}

#[test]
fn a_mark_halves_window_shadow_and_ceiling_in_every_mode() {
    for mode in [UpwindMode::StartUp, UpwindMode::Delay, UpwindMode::Competitive] {
        let mut controller = upwind();
        controller.mode = mode;
        controller.on_congestion(&congestion(400, 1.0, true));
        assert_eq!(windows(&controller), (40.0, 40.0, 40.0), "{mode:?}");
        assert!(controller.overflows(at(401)), "{mode:?}: a mark is an overflow");
        let after = if mode == UpwindMode::StartUp { UpwindMode::Delay } else { mode };
        assert_eq!(controller.mode, after);
        // The ceiling grows by a packet in each of ten round trips, and bounds the window.
        controller.bound.on_round(40.0, 0.0, 40.0, 0.08, false);
        assert_eq!(controller.bound.ceiling(), 41.0, "{mode:?}");
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
fn a_mark_halves_the_window_without_the_bound() {
    let mut controller = upwind();
    controller.config.bound = false;
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

/// Half of a loss is congestion: S = 80 (1 - 1/4) = 60. The mark of the same round trip makes it a
/// half of 80 and not of 60. That losses were spurious changes nothing.
#[test]
fn a_mark_completes_a_cut_for_losses_and_is_not_undone() {
    let mut controller = upwind();
    controller.on_congestion(&congestion(400, 0.5, false));
    assert_eq!(controller.others.shadow(), 60.0);
    controller.on_congestion(&congestion(410, 1.0, true));
    assert_eq!(windows(&controller), (40.0, 40.0, 40.0));
    controller.on_spurious_losses();
    assert_eq!(windows(&controller), (40.0, 40.0, 40.0));
}

/// A window below half of the shadow less two packets competes while the queue is known to
/// overflow.
#[test]
fn a_small_window_beside_flows_that_overflow_the_queue_competes() {
    let phase = |overflows: bool, cwnd: f64| {
        let mut controller = upwind();
        if overflows {
            // The shadow is 40 packets.
            controller.halve_shadow(at(400));
        }
        controller.cwnd = cwnd;
        controller.compete(&sample(480, 80), true);
        controller.phase()
    };
    assert_eq!(phase(true, 17.0), Some("competitive"));
    assert_eq!(phase(true, 19.0), Some("delay"));
    assert_eq!(phase(false, 17.0), Some("delay"));
}

/// Losses above the floor, which is unknown and counts as 0, halved the ceiling at the end of the
/// last round trip; the mark belongs to the same window.
#[test]
fn a_mark_after_a_cut_of_the_ceiling_is_the_same_congestion() {
    let mut controller = upwind();
    controller.bound.on_round(80.0, 8.0, 80.0, 0.08, false);
    // The half of 1.5 x 80, which the mark does not halve again.
    assert_eq!(controller.bound.ceiling(), 60.0);
    controller.cwnd = 40.0;
    controller.on_congestion(&congestion(400, 1.0, true));
    assert_eq!(windows(&controller), (40.0, 40.0, 60.0));
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
