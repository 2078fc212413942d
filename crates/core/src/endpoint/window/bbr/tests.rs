//! BBR alone on a path: the example test cases of the draft's appendix, and its arithmetic.
//!
//! Unless a test says otherwise the path carries 1250 packets a second over 80 ms: 10 Mbit/s and
//! a BDP of 100 packets of 1000 bytes.

use super::model::{inflight_at_loss, is_inflight_too_high};
use super::*;
use crate::endpoint::event::ResetCause;
use crate::endpoint::tests::path::TestPath;
use crate::endpoint::window::{ControllerState, Window};
use crate::units::Probability;

const RATE: f64 = 1250.0;
const BDP: f64 = 100.0;

fn path() -> TestPath {
    let mut path = TestPath::new("bbr", 10.0, 1250, Duration::from_millis(80));
    path.queue = 100;
    path
}

fn seconds(s: f64) -> Duration {
    Duration::from_secs_f64(s)
}

fn bbr(window: &Window) -> &Bbr {
    let ControllerState::Bbr(bbr) = window.controller() else { panic!("not BBR") };
    bbr
}

/// The values of BBR at the beginning of each of its states, with the time.
fn states(path: &mut TestPath, passed: Duration) -> Vec<(Time, Bbr)> {
    let mut log: Vec<(Time, Bbr)> = vec![(path.now, bbr(path.sender.window()).clone())];
    path.run(passed, |now, window| {
        let bbr = bbr(window);
        if log.last().is_none_or(|(_, last)| last.state != bbr.state) {
            log.push((now, bbr.clone()));
        }
    });
    log
}

fn names(log: &[(Time, Bbr)]) -> Vec<BbrState> {
    log.iter().map(|(_, bbr)| bbr.state).collect()
}

/// Runs until `state` begins.
fn run_to(path: &mut TestPath, state: BbrState) -> Bbr {
    for _ in 0..100_000 {
        if bbr(path.sender.window()).state == state {
            return bbr(path.sender.window()).clone();
        }
        path.run(Duration::from_millis(1), |_, _| {});
    }
    panic!("never in {state:?}");
}

#[test]
fn startup_ends_on_a_plateau_and_drain_when_the_queue_is_gone() {
    let mut path = path();
    path.queue = 1 << 20;
    path.offer_until(u64::MAX);
    let log = states(&mut path, seconds(3.0));
    // With a BDP in flight ProbeBW_DOWN is over as soon as it begins.
    assert_eq!(names(&log)[..3], [BbrState::Startup, BbrState::Drain, BbrState::ProbeBwCruise]);
    let drain = &log[1].1;
    assert!((drain.max_bw() / RATE - 1.0).abs() < 0.02, "{}", drain.max_bw());
    assert!(drain.pipe.full_bw_reached && drain.pipe.full_bw_now && drain.pipe.full_bw_count == 3);
    // 10 packets in the first round trip and twice as many in each following one: 100 after
    // log2(10) = 3.3 round trips, and three without growth. The RTTs of the last ones include the
    // queue.
    assert!((6..=9).contains(&drain.round.count), "{}", drain.round.count);
    // Drain: at half the rate, until no more than a BDP is in flight, in about a round trip.
    let (drained, cruise) = &log[2];
    assert!(drained.since(log[1].0) < seconds(0.2), "{drained:?}");
    assert!(cruise.round.count <= drain.drain_start_round + 3);
    assert_eq!(cruise.min_rtt.map(|rtt| rtt.as_secs_f64() < 0.0815), Some(true));
}

#[test]
fn it_fills_the_path_and_hardly_more() {
    let mut path = path();
    path.offer_until(u64::MAX);
    path.run(seconds(10.0), |_, _| {});
    let (before, mut waiting, mut samples) = (path.delivered(), 0, 0);
    for _ in 0..5000 {
        path.run(seconds(0.01), |_, _| {});
        waiting += path.waiting();
        samples += 1;
    }
    let share = (path.delivered() - before) as f64 / (RATE * 50.0);
    // Pacing 1 % below bw, and 100 ms of each 5 s in ProbeRTT: 0.99 x 0.98 = 0.97.
    assert!((0.955..=0.985).contains(&share), "{share}");
    let mean = f64::from(waiting as u32) / f64::from(samples);
    // A gain of 1.25 for some round trips of every 2 to 3 s builds a queue of about a quarter BDP.
    assert!(mean < 0.2 * BDP, "{mean} packets wait");
}

#[test]
fn probes_come_every_two_to_three_seconds_in_order() {
    let mut path = path();
    path.offer_until(u64::MAX);
    run_to(&mut path, BbrState::ProbeBwCruise);
    let log = states(&mut path, seconds(30.0));
    use BbrState::{ProbeBwCruise, ProbeBwDown, ProbeBwRefill, ProbeBwUp, ProbeRtt};
    for pair in log.windows(2) {
        let [(_, from), (_, to)] = pair else { unreachable!() };
        let allowed: &[BbrState] = match from.state {
            ProbeBwDown => &[ProbeBwCruise, ProbeBwRefill, ProbeRtt],
            ProbeBwCruise => &[ProbeBwRefill, ProbeRtt],
            ProbeBwRefill => &[ProbeBwUp, ProbeRtt],
            ProbeBwUp => &[ProbeBwDown, ProbeRtt],
            ProbeRtt => &[ProbeBwCruise],
            other => panic!("back in {other:?}"),
        };
        assert!(allowed.contains(&to.state), "{:?} to {:?}", from.state, to.state);
    }
    let refills = log.iter().filter(|(_, bbr)| bbr.state == ProbeBwRefill);
    let waits: Vec<f64> =
        refills.map(|(at, bbr)| at.since(bbr.probe.cycle_stamp).as_secs_f64()).collect();
    assert!(waits.len() >= 6, "{waits:?}");
    // The interval of 2 to 3 s is shorter than 63 round trips of 80 ms, and drawn anew each time.
    assert!(waits.iter().all(|wait| (2.0..3.1).contains(wait)), "{waits:?}");
    let spread = waits.iter().copied().fold(f64::MIN, f64::max)
        - waits.iter().copied().fold(f64::MAX, f64::min);
    assert!(spread > 0.2, "{waits:?}");
}

#[test]
fn probe_rtt_comes_every_five_seconds_for_a_fifth() {
    let mut path = path();
    path.offer_until(u64::MAX);
    // A standing queue hides the round-trip time after Startup.
    let log = states(&mut path, seconds(40.0));
    let entries: Vec<usize> =
        (1..log.len()).filter(|&i| log[i].1.state == BbrState::ProbeRtt).collect();
    assert!((5..=8).contains(&entries.len()), "{} in 40 s", entries.len());
    for &i in &entries {
        let Some((left, after)) = log.get(i + 1) else { continue };
        // 200 ms from when no more than half a BDP is in flight, and a round trip.
        let length = left.since(log[i].0).as_secs_f64();
        assert!((0.2..0.5).contains(&length), "{length} s");
        assert_eq!(after.state, BbrState::ProbeBwCruise);
        assert!(log[i].1.cwnd <= 0.5 * BDP * 1.05, "{}", log[i].1.cwnd);
        let min_rtt = after.min_rtt.unwrap_or_default().as_secs_f64();
        // 80 ms and the transmission of one packet, 0.8 ms.
        assert!((0.0808..0.0815).contains(&min_rtt), "{min_rtt}");
    }
    for pair in entries.windows(2) {
        let gap = log[pair[1]].0.since(log[pair[0]].0).as_secs_f64();
        assert!((5.0..6.0).contains(&gap), "{gap} s");
    }
}

#[test]
fn idleness_makes_up_for_probe_rtt() {
    let mut path = path();
    path.offer_until(3000);
    path.run(seconds(4.0), |_, _| {});
    assert!(path.sender.is_done() && bbr(path.sender.window()).state.is_probe_bw());
    path.run(seconds(10.0), |_, _| {});
    path.offer_until(u64::MAX);
    assert!(bbr(path.sender.window()).probe_rtt.idle_restart);
    let log = states(&mut path, seconds(1.0));
    assert!(!names(&log).contains(&BbrState::ProbeRtt), "{:?}", names(&log));
}

#[test]
fn an_application_that_limits_it_keeps_it_in_startup() {
    let mut path = path();
    let mut offered = 0;
    // A packet every 10 ms, a twelfth of the capacity.
    for _ in 0..400 {
        offered += 1;
        path.offer_until(offered);
        path.run(seconds(0.01), |_, _| {});
    }
    let controller = bbr(path.sender.window());
    assert_eq!((controller.state, controller.pipe.full_bw_reached), (BbrState::Startup, false));
    // Losses do end it: six or more ranges and more than 2 % of the packets in a round trip.
    path.loss = Probability::new(0.5).unwrap();
    for _ in 0..600 {
        offered += 4;
        path.offer_until(offered);
        path.run(seconds(0.01), |_, _| {});
    }
    assert!(bbr(path.sender.window()).pipe.full_bw_reached);
}

#[test]
fn a_tenth_of_the_bandwidth_and_ten_times() {
    let mut path = path();
    path.queue = 1000;
    path.offer_until(u64::MAX);
    path.run(seconds(10.0), |_, _| {});
    path.service = Duration::from_micros(80); // 12 500 packets a second.
    path.run(seconds(12.0), |_, _| {});
    let faster = bbr(path.sender.window()).max_bw();
    assert!((faster / (10.0 * RATE) - 1.0).abs() < 0.02, "{faster}");
    // After losses and two cycles it has come down.
    path.queue = 100;
    path.service = Duration::from_micros(800);
    path.run(seconds(15.0), |_, _| {});
    let slower = bbr(path.sender.window()).max_bw();
    assert!((slower / RATE - 1.0).abs() < 0.05, "{slower}");
}

#[test]
fn less_than_a_packet_of_bdp_is_four_packets_of_window() {
    // 10 packets a second over 20 ms: a fifth of a packet.
    let mut path = TestPath::new("bbr", 4.0, 10, Duration::from_millis(20));
    path.offer_until(u64::MAX);
    path.run(seconds(20.0), |_, _| {});
    let before = path.delivered();
    path.run(seconds(50.0), |_, window| assert!(window.cwnd() >= MIN_PIPE_CWND));
    // 10 a second all the time.
    assert!(path.delivered() - before >= 490, "{}", path.delivered() - before);
    let controller = bbr(path.sender.window());
    assert!((controller.max_bw() / 10.0 - 1.0).abs() < 0.05, "{}", controller.max_bw());
}

#[test]
fn losses_of_a_probe_bound_what_is_in_flight() {
    let mut path = path();
    path.queue = 10;
    path.offer_until(u64::MAX);
    path.run(seconds(20.0), |_, _| {});
    let controller = bbr(path.sender.window());
    // BDP, queue and the packet in transmission; a probe sees up to 2 % beyond it.
    let limit = controller.bounds.inflight_longterm;
    assert!((0.9 * BDP..=1.02 * (BDP + 11.0) + 3.0).contains(&limit), "{limit}");
    let before = (path.delivered(), path.dropped);
    path.run(seconds(50.0), |_, _| {});
    let delivered = (path.delivered() - before.0) as f64;
    let lost = (path.dropped - before.1) as f64;
    assert!(delivered / (RATE * 50.0) > 0.9, "{delivered}");
    assert!(lost / delivered < 0.02, "{lost} lost");
}

#[test]
fn where_in_a_flight_losses_crossed_two_per_cent() {
    // 3 of 100: 2 % of 99 is 1.98, of which 2 were lost before; (1.98 - 2) / 0.98 = -0.0204.
    let packet = lost_packet(9, 0, 100, 3);
    assert!(is_inflight_too_high(3, 100) && !is_inflight_too_high(2, 100));
    assert!((inflight_at_loss(&packet) - 98.979_592).abs() < 1e-6);
}

fn lost_packet(number: u64, total_delivered: u64, tx_in_flight: u64, lost: u64) -> LostPacket {
    let (sent, is_app_limited) = (Time::ZERO, false);
    LostPacket { number, sent, total_delivered, tx_in_flight, lost, is_app_limited }
}

fn sample(total_delivered: u64, prior_delivered: u64, rate: f64) -> RateSample {
    RateSample {
        now: Time::ZERO + Duration::from_millis(total_delivered),
        newly_acked: 1,
        total_delivered,
        prior_delivered,
        delivered: total_delivered - prior_delivered,
        rate,
        tx_in_flight: 50,
        rtt: Some(Duration::from_millis(80)),
        in_flight: 50,
        prior_in_flight: 51,
        ..RateSample::default()
    }
}

/// A controller in Startup with a window of 200 packets.
fn bbr_of_200() -> Bbr {
    let config = EndpointConfig { initial_window: 200.0, ..EndpointConfig::default() };
    Bbr::of(&config, Stream::new(0, "window", ""))
}

#[test]
fn losses_outside_a_probe_lower_the_short_term_bounds_once_a_round_trip() {
    let mut controller = bbr_of_200();
    controller.state = BbrState::ProbeBwCruise;
    controller.pipe.full_bw_reached = true;
    controller.max_bw_filter = [1000.0, 0.0];
    controller.bw = 1000.0;
    controller.probe.cycle_stamp = Time::ZERO + Duration::from_secs(1);
    controller.probe.wait = Duration::from_secs(100);
    controller.round.next_delivered = u64::MAX;
    controller.loss_round.delivered = 1000;
    // Round 1000 to 1100: at most 600 a second and 60 packets arrived, and one was lost.
    controller.on_rate_sample(&sample(1040, 980, 600.0));
    let lost = lost_packet(1, 1041, 50, 1);
    controller.on_lost(&lost, Time::ZERO);
    assert_eq!(controller.loss_round.delivered, 1041, "a round trip from the first loss on");
    controller.on_rate_sample(&sample(1060, 1000, 500.0));
    assert_eq!(
        (controller.bounds.bw_shortterm, controller.bounds.inflight_shortterm),
        (f64::INFINITY, f64::INFINITY)
    );
    let cwnd = controller.cwnd;
    controller.on_rate_sample(&sample(1100, 1045, 500.0));
    // max(bw_latest, 0.7 x 1000) = 700; max(60, 0.7 cwnd).
    assert!((controller.bounds.bw_shortterm - 700.0).abs() < 1e-9);
    assert!((controller.bounds.inflight_shortterm - (0.7 * cwnd).max(60.0)).abs() < 1e-9);
    assert!((controller.bw - 700.0).abs() < 1e-9);
    // No loss in the next round trip: no change.
    controller.on_rate_sample(&sample(1200, 1150, 500.0));
    assert!((controller.bounds.bw_shortterm - 700.0).abs() < 1e-9);
}

/// A controller that has judged a loss in a probe of 1000 packets per second over 100 ms.
fn probe_that_lost_four_of_150() -> Bbr {
    let mut controller = bbr_of_200();
    controller.pipe.full_bw_reached = true;
    controller.max_bw_filter = [1000.0, 0.0];
    controller.bw = 1000.0;
    controller.min_rtt = Some(Duration::from_millis(100));
    controller.state = BbrState::ProbeBwUp;
    controller.probe.is_sample = true;
    controller.on_lost(&lost_packet(9, 500, 150, 4), Time::ZERO);
    controller
}

#[test]
fn precaution_after_a_probe_that_went_too_high() {
    let mut controller = probe_that_lost_four_of_150();
    // (0.02 x 149 - 3) / 0.98 = -0.0204 beyond 149; more than 0.7 x min(100, 200).
    assert!(
        (controller.bounds.inflight_longterm - 148.979_592).abs() < 1e-6,
        "{}",
        controller.bounds.inflight_longterm
    );
    assert_eq!((controller.state, controller.probe.prev_too_high), (BbrState::ProbeBwDown, true));
    // The next probe ends once this volume is in flight; without losses another follows.
    controller.state = BbrState::ProbeBwUp;
    let mut rs = sample(600, 550, 900.0);
    rs.in_flight = 149;
    assert!(controller.is_time_to_go_down(&rs) && controller.probe.prev_precautionary);
    controller.probe.prev_too_high = false;
    controller.start_probe_bw_down(rs.now);
    controller.round.start = true;
    controller.update_probe_bw_cycle_phase(&rs);
    assert_eq!(
        (controller.state, controller.probe.prev_precautionary),
        (BbrState::ProbeBwRefill, false)
    );
}

#[test]
fn losses_that_were_none_are_undone() {
    let mut controller = probe_that_lost_four_of_150();
    controller.cwnd = 120.0;
    assert_eq!(
        (controller.state, controller.bounds.inflight_longterm.is_finite()),
        (BbrState::ProbeBwDown, true)
    );
    controller.on_spurious_losses();
    // Back to the window and the bounds from before, and to the probe by way of a refill.
    assert_eq!((controller.state, controller.cwnd), (BbrState::ProbeBwRefill, 200.0));
    assert!(controller.bounds.inflight_longterm.is_infinite());

    // In ProbeRTT the state stays; a Startup that losses ended is resumed after it.
    controller.undo.state = Some(BbrState::Startup);
    controller.state = BbrState::ProbeRtt;
    controller.on_spurious_losses();
    assert_eq!((controller.state, controller.pipe.full_bw_reached), (BbrState::ProbeRtt, false));
}

#[test]
fn persistent_congestion_starts_from_what_is_in_flight() {
    let mut controller = bbr_of_200();
    let path = crate::endpoint::event::Path { in_flight: 2.0, ..Default::default() };
    let cause = ResetCause::PersistentCongestion;
    controller.on_reset(&ResetEvent { cause, ..ResetEvent::timeout(path) });
    assert_eq!((controller.cwnd, controller.prior_cwnd), (3.0, 200.0));
    controller.restore_cwnd();
    assert_eq!(controller.cwnd, 200.0);
}
