//! Upwind under unusual input: clocks that step, applications that hardly send, links that are dead
//! for minutes, packets that change their size, routers that mark everything.

use super::*;

use crate::endpoint::EndpointConfig;
use crate::endpoint::event::Path as Now;
use crate::endpoint::feedback::FeedbackConfig;
use crate::endpoint::tests::path::TestPath;
use crate::part::Plain;
use crate::protocols;
use crate::rng::Stream;
use crate::units::{Duration, Probability};

/// Packets per second, and the round trip without transmission: 81 packets fill the pipe.
const RATE: u64 = 1000;
const RTT: Duration = Duration::from_millis(80);
const PIPE: usize = 81;

fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The sender's clock is a day ahead, so that it can step back.
fn path() -> TestPath {
    let mut path = TestPath::new("upwind", 10.0, RATE, RTT);
    path.ahead = secs(86_400);
    path
}

/// The same path during a transfer.
fn busy() -> TestPath {
    let mut path = path();
    path.offer_until(u64::MAX);
    path.run(secs(20), |_, _| {});
    path
}

/// The share of the capacity that is delivered from now on, and the longest queue.
fn carried(path: &mut TestPath, over: Duration) -> (f64, usize) {
    let (before, until) = (path.delivered(), path.now + over);
    let mut most = 0;
    while path.now < until {
        path.run(ms(10).min(until.since(path.now)), |_, window| {
            assert!(window.cwnd() >= LEAST && window.cwnd().is_finite(), "{}", window.cwnd());
        });
        most = most.max(path.waiting());
    }
    ((path.delivered() - before) as f64 / (RATE as f64 * over.as_secs_f64()), most)
}

/// Random rates, RTTs and times, and events in any order: the window stays within its bounds.
#[test]
fn the_window_is_bounded_whatever_comes() {
    for seed in 0..50 {
        let mut stream = Stream::new(seed, "test", "whatever");
        let mut pick = |from: &[f64]| from[(stream.uniform() * from.len() as f64) as usize];
        let setup = ControllerSetup {
            feedback: &FeedbackConfig::None(Plain),
            endpoint: &EndpointConfig::default(),
            stream: Stream::new(seed, "test", "upwind"),
        };
        let mut controller = Upwind::new(&UpwindConfig::DEFAULT, setup);
        let (mut now, mut delivered) = (Time::ZERO, 0);
        for _ in 0..3000 {
            // One event in twenty steps the clock to any time in two days.
            now = if pick(&[0.0; 19]) + pick(&[0.0, 1.0]) * pick(&[0.0, 0.0, 0.0, 0.5]) > 0.0 {
                Time::ZERO + Duration::from_secs_f64(pick(&[0.0, 1.0, 3600.0, 172_800.0]))
            } else {
                now + Duration::from_secs_f64(pick(&[0.0, 1e-3, 0.02]))
            };
            let path = Now { now, ..Now::default() };
            let probability = Probability::new(pick(&[0.1, 0.5, 1.0])).unwrap();
            let event = CongestionEvent { probability, ..CongestionEvent::certain(path) };
            match pick(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]) as u32 {
                0 => controller.on_congestion(&event),
                1 => controller.on_congestion(&CongestionEvent { marked: true, ..event }),
                2 => controller.on_error_loss(&path),
                3 if pick(&[0.0, 0.0, 1.0]) > 0.0 => {
                    controller.on_reset(&ResetEvent::timeout(path));
                }
                _ => {
                    let acked = pick(&[1.0, 2.0, 100.0]) as u64;
                    let rtt = Duration::from_secs_f64(pick(&[0.0, 1e-12, 1e-3, 0.08, 3600.0]));
                    delivered += acked;
                    controller.on_rate_sample(&RateSample {
                        now,
                        newly_acked: acked,
                        total_delivered: delivered,
                        prior_delivered: delivered - acked,
                        delivered: acked,
                        rate: pick(&[0.0, 1e-3, 1e3, 1e12]),
                        rtt: Some(rtt).filter(|rtt| !rtt.is_zero()),
                        prior_in_flight: acked,
                        ..RateSample::default()
                    });
                    let most = controller.most();
                    // A sample without an RTT is ignored.
                    let bounded = rtt.is_zero()
                        || controller.mode == UpwindMode::StartUp
                        || controller.cwnd() <= most.max(LEAST);
                    assert!(bounded, "seed {seed}: {} of {most}", controller.cwnd());
                }
            }
            assert!(
                controller.cwnd() >= LEAST && controller.cwnd().is_finite(),
                "seed {seed}: {}",
                controller.cwnd()
            );
            let pace = controller.pacing_rate();
            assert!(pace.is_none_or(|pace| pace > 0.0 && pace.is_finite()), "{seed}: {pace:?}");
            assert!(
                controller.path.delay().is_finite() && controller.path.noise().is_finite(),
                "{seed}"
            );
        }
    }
}

/// All packets in flight seem to have taken as long as the step. The smoothed RTT is back to RTT
/// once (7/8)^n step < RTT: n = 97 for a day. With two packets in a round trip of 80 ms this takes
/// 3.9 s.
#[test]
fn a_clock_that_steps_forward_costs_seconds_and_no_flood() {
    for step in [1, 60, 3600, 86_400] {
        let mut path = busy();
        path.ahead += secs(step);
        let (_, queue) = carried(&mut path, secs(4));
        assert!(queue <= PIPE, "{step} s: a queue of {queue}");
        // The queue of the step may be held for 20 s, as one of others.
        let (share, queue) = carried(&mut path, secs(10));
        assert!(share > 0.9 && queue < PIPE / 2, "{step} s: {share} {queue}");
    }
}

/// A step by less than a round trip makes packets in flight seem fast, and later ones seem to wait.
/// Since this delay is the same with another window, it counts as a longer path. A step by more
/// gives no samples, because samples from the future count as zero, and the pacer waits until the
/// clock reaches the old time again.
#[test]
fn a_clock_that_steps_back_is_waited_for() {
    for step in [20, 40, 60, 79, 80, 1000, 10_000] {
        let mut path = busy();
        path.ahead = Duration::from_ps(path.ahead.as_ps() - ms(step).as_ps());
        // At the smallest window, the competitive mode begins first, and the window has to grow.
        let (_, queue) = carried(&mut path, ms(step) + secs(5));
        assert!(queue <= PIPE, "{step} ms: a queue of {queue}");
        let (share, queue) = carried(&mut path, secs(10));
        assert!(share > 0.9 && queue < 20, "{step} ms: {share} {queue}");
    }
}

/// A step back in the first round trip lasts longer: its short RTT is the floor, and the window was
/// never large enough to show that the delay is not a queue. The floor is forgotten after 600 s.
/// Until then two packets are sent in 81 ms, 24.7 a second.
#[test]
fn a_false_floor_from_the_start_holds_it_at_the_least_for_ten_minutes() {
    for step in [30, 50, 70, 79] {
        let mut path = path();
        path.offer_until(u64::MAX);
        path.run(ms(20), |_, _| {});
        path.ahead = Duration::from_ps(path.ahead.as_ps() - ms(step).as_ps());
        for _ in 0..60 {
            let (share, queue) = carried(&mut path, secs(10));
            assert!(share * RATE as f64 > 24.0, "{step} ms: {share}");
            assert!(queue <= PIPE, "{step} ms: {queue}");
        }
        path.run(secs(5), |_, _| {});
        let (share, queue) = carried(&mut path, secs(10));
        assert!(share > 0.9 && queue <= PIPE, "{step} ms: {share} {queue}");
    }
}

/// A packet a second for an hour, from the start and after a bulk transfer. Then start-up doubles a
/// window of ten in each round trip: it reaches 81 after three round trips, and takes another two
/// to detect that; a second has 12. Twice the pipe and ten packets in flight leave a queue of
/// little more than one pipe.
#[test]
fn bulk_after_an_hour_of_hardly_anything_starts_soon_and_floods_nothing() {
    for bulk in [0, 20_000] {
        let mut path = path();
        path.offer_until(bulk);
        path.run(secs(60), |_, _| {});
        for n in 1..=3600 {
            path.offer_until(bulk + n);
            path.run(secs(1), |_, _| {});
        }
        assert_eq!(path.delivered(), bulk + 3600);
        path.offer_until(u64::MAX);
        let (_, queue) = carried(&mut path, secs(2));
        assert!(queue <= PIPE + 30, "{queue}");
        let (share, queue) = carried(&mut path, secs(5));
        assert!(share > 0.9 && queue < PIPE / 2, "{share} {queue}");
    }
}

/// The packets in flight are lost, at most a window; then two probes follow each time the timer
/// expires. Its time doubles from T, 81 to 170 ms, up to 60 s: it expires 9 or 10 times in 83 to
/// 174 s, and 7 or 8 times more until 600 s.
#[test]
fn a_link_that_is_dead_for_ten_minutes_is_probed_and_used_again() {
    let mut path = busy();
    path.loss = Probability::ONE;
    let before = path.sender.stats(path.now);
    let most = path.sender.cwnd() + 2.0;
    path.run(secs(600), |_, _| {});
    let after = path.sender.stats(path.now);
    let probes = 2 * (after.timeouts - before.timeouts);
    assert!((2 * 15..=2 * 19).contains(&probes), "{probes}");
    // Acknowledgments in flight when the link died release new packets, but no more than the
    // window.
    let arrived = after.rtt_samples - before.rtt_samples;
    assert!((after.sent - before.sent) as f64 <= most + probes as f64, "{after:?}");
    assert!(arrived as f64 <= most, "{arrived}");
    // The next probe comes within 60 s, and start-up takes a second.
    path.loss = Probability::ZERO;
    let (_, queue) = carried(&mut path, secs(63));
    assert!(queue <= PIPE + 30, "{queue}");
    let (share, queue) = carried(&mut path, secs(10));
    assert!(share > 0.9 && queue < 10, "{share} {queue}");
}

/// With packets of four fifths of the size, 101 fill the pipe. After the return to full size there
/// are 20 too many, a queue of 20 ms. Half of the excess drains in a round trip; but the queue
/// could be other flows' too: in competition the window is held at the shadow, which stays for 20 s
/// and then fades by 1 % of the packets that arrive, 10 in a second.
#[test]
fn packets_of_another_size_are_another_rate() {
    let mut path = busy();
    path.sender.set_packet_size(800);
    path.run(secs(2), |_, _| {});
    let (share, queue) = carried(&mut path, secs(8));
    assert!(share > 0.95 * 1.25 && queue < 20, "{share} {queue}");
    path.sender.set_packet_size(1000);
    let (_, queue) = carried(&mut path, secs(1));
    assert!(queue <= 20 + 10, "{queue}");
    path.run(secs(23), |_, _| {});
    let (share, queue) = carried(&mut path, secs(10));
    assert!(share > 0.95 && queue < 20, "{share} {queue}");
}

/// A path with ECN or without, as the endpoints say.
fn path_with(ecn: Option<bool>) -> TestPath {
    let config = EndpointConfig { initial_window: 10.0, ecn, ..EndpointConfig::default() };
    let protocol = protocols::find("upwind").expect("a row of the table");
    let mut path = TestPath::with(protocol, config, RATE, RTT);
    path.offer_until(u64::MAX);
    path
}

/// A router that marks everything leaves two packets in a round trip of 81 ms, as with NewReno.
/// After the last mark the window grows by a packet per round trip for ten, and by a quarter below
/// 4: from at least 2 to 4 in three and to 11 in seven more. It then grows by 5 % more, W + 20 = 31
/// x 1.05^n: 101 after 28 round trips. 38 round trips are 3.1 s.
#[test]
fn marks_on_everything_slow_it_down_until_they_end() {
    let mut path = path_with(None);
    path.run(secs(20), |_, _| {});
    path.marks_all = true;
    path.run(secs(3), |_, _| {});
    let (share, _) = carried(&mut path, secs(30));
    // 740 of 740.7 packets in 30 s.
    assert!((1.99 / 81.0..4.0 / 81.0).contains(&share), "{share}");
    path.marks_all = false;
    path.run(secs(7), |_, _| {});
    let (share, queue) = carried(&mut path, secs(33));
    assert!(share > 0.9 && queue < 20, "{share} {queue}");
    // Without ECN, nothing can be marked.
    let mut path = path_with(Some(false));
    path.marks_all = true;
    path.run(secs(20), |_, _| {});
    let (share, queue) = carried(&mut path, secs(10));
    assert!(share > 0.9 && queue < 10, "{share} {queue}");
}

/// With 5 % of its packets lost, a window of 81 packets always repairs losses that are corruption.
/// Marks count beside them: 81 packets, halved five times in at most two round trips each, are 3.
#[test]
fn marks_count_while_losses_are_repaired() {
    let mut path = path_with(None);
    path.loss = Probability::new(0.05).unwrap();
    path.run(secs(20), |_, _| {});
    let before = path.sender.cwnd();
    path.marks_all = true;
    path.run(secs(2), |_, _| {});
    let after = path.sender.cwnd();
    assert!(before > 60.0 && after < 6.0, "{before} {after}");
}

/// A path that clears the ECN field delivers the same as one without ECN, packet by packet.
#[test]
fn a_path_that_bleaches_is_a_path_without_ecn() {
    let delivered = |ecn| {
        let mut path = path_with(ecn);
        (path.bleaches, path.marks_all) = (true, true);
        path.loss = Probability::new(0.05).unwrap();
        path.run(secs(30), |_, _| {});
        path.delivered()
    };
    assert_eq!(delivered(None), delivered(Some(false)));
    assert!(delivered(None) as f64 > 0.9 * 0.95 * 30_000.0, "{}", delivered(None));
}

/// 300 packets a second, on a path that becomes 20 or 40 ms longer than 70 ms: 27 or 33 packets
/// fill it. Six or twelve of them seem to wait, too few for the test of a longer path, which needs
/// ten, once the window has begun to shrink. The rate stays below the capacity until the old floor
/// is forgotten after 600 s: an open defect. Beyond 1.1 R0 = 77 ms, 13 or 33 ms count as a queue of
/// two packets: the window is 2 x 90 / 13 = 13.8 or 2 x 110 / 33 = 6.7 packets, half or a fifth of
/// the pipe on average, and never less than two packets in a round trip of 90 or 110 ms: 22 or 18
/// of 300 a second. For a minute the delay may count as another flow's queue; then no more than
/// three pipes of 27 wait in the queue.
#[test]
fn a_thin_path_that_becomes_longer_is_under_used_for_ten_minutes_at_most() {
    for (longer, least) in [(20, 0.07), (40, 0.06)] {
        let mut path = TestPath::new("upwind", 10.0, 300, ms(70));
        path.offer_until(u64::MAX);
        path.run(secs(20), |_, _| {});
        path.delay += ms(longer / 2);
        for _ in 0..60 {
            let (share, queue) = carried(&mut path, secs(10));
            let share = share * RATE as f64 / 300.0;
            assert!(share > least, "{longer} ms: {share}");
            assert!(queue <= 81, "{longer} ms: {queue}");
        }
        path.run(secs(60), |_, _| {});
        let share = carried(&mut path, secs(10)).0 * RATE as f64 / 300.0;
        assert!(share > 0.9, "{longer} ms: {share}");
    }
}
