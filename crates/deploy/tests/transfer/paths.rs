//! Transfers over paths that lose, change, repeat and delay packets, and that die.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use windward_deploy::ticket::Ticket;
use windward_deploy::transfer::figures::Figures;
use windward_deploy::transfer::receive::ReceiveOptions;
use windward_deploy::transfer::send::SendOptions;
use windward_deploy::{Error, Options, Result};

use crate::place::{Place, Receiver, noise, tree, write};
use crate::relay::{Relay, Trouble};

/// A large file and small ones.
fn fill(place: &Place, large: usize) {
    write(&place.from.join("large"), &noise(1, large));
    for index in 0..50 {
        write(&place.from.join(format!("many/{index}")), &noise(index, 2000));
    }
}

/// Properties of connections that notice a dead path soon.
fn impatient() -> Options {
    Options {
        idle_timeout: Duration::from_secs(1),
        keep_alive: Duration::from_millis(250),
        ..Options::default()
    }
}

/// Sends over such a path; also the number of packets.
fn send(place: &Place, options: &SendOptions, trouble: Trouble) -> (Result<()>, Arc<Figures>, u64) {
    let receiver = Receiver::start(ReceiveOptions {
        endpoint: options.endpoint.clone(),
        ..place.receive_options()
    });
    let ticket: Ticket = receiver.ticket.parse().expect("a ticket");
    let relay = Relay::to(ticket.addresses[0], trouble);
    let over = Ticket { addresses: vec![relay.address], ..ticket };
    let (result, figures) = place.send_by(&over.to_string(), options);
    if result.is_ok() {
        receiver.end().0.expect("received");
    } else {
        receiver.stop();
    }
    let packets = relay.packets.load(Ordering::Relaxed);
    (result, figures, packets)
}

#[test]
fn losses_repetitions_disorder_and_wrong_bits_change_nothing() {
    let place = Place::new();
    fill(&place, 1 << 20);
    let trouble =
        Trouble { lost: [0.05; 2], twice: 0.05, late: 0.1, wrong: 0.03, ..Trouble::default() };
    let (result, figures, _) = send(&place, &place.send_options(), trouble);
    result.expect("sent");
    assert!(figures.path().lost > 0, "{:?}", figures.path());
    assert_eq!(place.tree(), tree(&place.from));
}

/// With more lost both ways, probes of QUIC, two at a time, fail so often that the time between
/// them, which doubles (RFC 9002 section 6.2), becomes minutes.
#[test]
fn a_tenth_of_all_packets_lost_both_ways_or_a_quarter_of_one_way_are_survived() {
    for lost in [[0.1, 0.1], [0.25, 0.0]] {
        let place = Place::new();
        write(&place.from.join("a"), &noise(1, 30_000));
        let patient = SendOptions { patience: Duration::from_secs(120), ..place.send_options() };
        send(&place, &patient, Trouble { lost, ..Trouble::default() }).0.expect("sent");
        assert_eq!(place.tree(), tree(&place.from));
    }
}

/// The smallest MTU of IPv6 (RFC 8200 section 5), less the headers of IPv6 and UDP.
#[test]
fn a_path_with_the_smallest_mtu_carries_everything() {
    let place = Place::new();
    fill(&place, 1 << 20);
    let trouble = Trouble { largest: 1280 - 48, ..Trouble::default() };
    let (result, figures, _) = send(&place, &place.send_options(), trouble);
    result.expect("sent");
    assert!((1200..=1232).contains(&figures.path().mtu), "{:?}", figures.path());
    assert_eq!(place.tree(), tree(&place.from));
}

#[test]
fn another_address_of_the_sender_does_not_interrupt() {
    let place = Place::new();
    fill(&place, 4 << 20);
    let trouble = Trouble { moves_after: Some(100), ..Trouble::default() };
    let (result, figures, packets) = send(&place, &place.send_options(), trouble);
    result.expect("sent");
    // 4 MB are 645 packets of 6500 bytes, the largest that are tried.
    assert!(packets > 645, "{packets}");
    assert_eq!(figures.reconnects.get(), 0);
    assert_eq!(place.tree(), tree(&place.from));
}

#[test]
fn a_dead_path_that_comes_back_is_used_again() {
    let place = Place::new();
    fill(&place, 4 << 20);
    let options = SendOptions {
        limit: Some(2e6),
        patience: Duration::from_secs(120),
        endpoint: impatient(),
        ..place.send_options()
    };
    let dead = Some(Duration::from_millis(700)..Duration::from_secs(4));
    let (result, figures, _) = send(&place, &options, Trouble { dead, ..Trouble::default() });
    result.expect("sent");
    assert!(figures.reconnects.get() > 0);
    assert!(figures.sent.get() < 6 << 20, "{} bytes were sent", figures.sent.get());
    assert_eq!(place.tree(), tree(&place.from));
}

#[test]
fn a_path_that_stays_dead_ends_in_words() {
    let place = Place::new();
    fill(&place, 8 << 20);
    let options = SendOptions {
        limit: Some(2e6),
        patience: Duration::from_secs(2),
        endpoint: impatient(),
        ..place.send_options()
    };
    let dead = Some(Duration::from_millis(700)..Duration::MAX);
    let (result, _, _) = send(&place, &options, Trouble { dead, ..Trouble::default() });
    match result {
        Err(Error::Unreachable(why)) => {
            assert!(why.contains("run the same command again to resume"), "{why}");
        }
        other => panic!("{other:?}"),
    }
    assert!(!place.to.join("from/large").exists());
}
