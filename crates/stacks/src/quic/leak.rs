//! The driver's flight and the stack's, over many packets, with what nobody reports to a
//! controller: lost probes for the path's MTU, and packets of discarded keys.

use super::super::Tested;
use super::*;
use crate::family::Family;
use windward_core::protocols;

/// Largest datagram that the path takes, and the largest that the stack tries.
const PATH_MTU: usize = 1300;
const TRIED: u16 = 1452;
/// 100 Mbit/s, in bits per second, and a queue of 250 kB.
const RATE: u64 = 100_000_000;
const QUEUE: Duration = Duration::from_millis(20);
const DELAY: Duration = Duration::from_millis(10);

/// Datagrams on their way to one end, and the time until which the link is busy.
#[derive(Default)]
struct Link {
    on_the_way: VecDeque<(Time, Vec<u8>, Codepoint)>,
    busy: Time,
}

#[test]
fn no_packet_stays_behind() {
    run(50_000);
}

/// Two minutes for each stack: `cargo test --release -p windward-stacks --lib leak -- --ignored`
#[test]
#[ignore = "takes minutes"]
fn a_million_packets_leave_nothing_behind() {
    run(1_000_000);
}

fn run(packets: u64) {
    let config = StackConfig { packet_size: 1480, ..StackConfig::default() };
    let setup = StackSetup { seed: 1, bytes: None, config };
    let watched = Arc::new(Watched::default());
    let controllers = Tested::drive(protocols::find("upwind").unwrap(), 1);
    let mut pair = Pair::new(&setup, Arc::clone(&controllers), Arc::clone(&watched));
    // A search for the MTU each second.
    let mut discovery = proto::MtuDiscoveryConfig::default();
    discovery.upper_bound(TRIED).interval(std::time::Duration::from_secs(1));
    let of_sender = Watching { of: controllers, watched: Arc::clone(&watched) };
    let mut transport = TransportConfig::default();
    transport
        .congestion_controller_factory(Arc::new(of_sender))
        .max_idle_timeout(None)
        .mtu_discovery_config(Some(discovery))
        .send_window(1 << 60);
    let client = pair.ends[End::Sender as usize].client.as_mut().unwrap();
    client.transport_config(Arc::new(transport));

    let mut links = [Link::default(), Link::default()];
    let mut losses = Stream::new(1, "test", "losses");
    let mut now = Time::ZERO;
    let (mut sent, mut too_large, mut most) = (0_u64, 0_u64, 0);
    pair.start(now);
    let mut payload = Vec::new();
    while sent < packets {
        for (end, link) in [(End::Sender, 0), (End::Receiver, 1)] {
            while let Some(ecn) = pair.poll_transmit(now, end, &mut payload) {
                sent += u64::from(end == End::Sender);
                let link: &mut Link = &mut links[link];
                let wait = link.busy.since(now);
                let is_probe = end == End::Sender && payload.len() > PATH_MTU;
                too_large += u64::from(is_probe);
                if is_probe || wait > QUEUE || losses.uniform() < 0.05 {
                    continue;
                }
                let bits = 8 * payload.len() as u64;
                link.busy = now + wait + Duration::from_nanos(bits * 1_000_000_000 / RATE);
                link.on_the_way.push_back((link.busy + DELAY, payload.clone(), ecn));
            }
        }
        let arrival = |link: &Link| link.on_the_way.front().map_or(Time::NEVER, |(at, ..)| *at);
        let timers = End::BOTH.map(|end| pair.next_timer(end));
        let arrivals = [arrival(&links[1]), arrival(&links[0])];
        now = timers.into_iter().chain(arrivals).min().unwrap();
        assert!(now < Time::ZERO + Duration::from_secs(1000), "{:?}", pair.report());
        for (end, link) in [(End::Sender, 1), (End::Receiver, 0)] {
            if arrival(&links[link]) <= now
                && let Some((_, payload, ecn)) = links[link].on_the_way.pop_front()
            {
                pair.receive(now, end, &payload, ecn);
            }
            if pair.next_timer(end) <= now {
                pair.on_timer(now, end);
            }
        }
        if let Some(driver) = watched.driver() {
            let figures = driver.figures();
            most = most.max(figures.in_flight.abs_diff(figures.stack_in_flight));
        }
    }
    assert_eq!(pair.report().failure, None);
    let figures = watched.driver().expect("one of ours").figures();
    assert!(too_large > 10, "probes that are lost: {too_large}");
    assert!(figures.forgotten > 0 && figures.lost > packets / 25, "{figures:?}");
    // quinn reports no probes, of which one may be in flight.
    assert!(most <= u64::from(TRIED), "{most} bytes: {figures:?}");
}
