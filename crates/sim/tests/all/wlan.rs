//! Wireless LANs, over whole runs: links that share a medium by DCF. Expected values are arithmetic
//! with the times of IEEE 802.11, Bianchi's formula, or both.

use windward_sim::{Outcome, Scenario, run};

use crate::{balanced, build, error};

/// A station and the rate of its link to the access point, `ap`.
struct Station {
    name: String,
    rate: &'static str,
}

fn stations(rates: &[&'static str]) -> Vec<Station> {
    rates.iter().enumerate().map(|(n, rate)| Station { name: format!("s{n}"), rate }).collect()
}

/// Saturating datagrams of 1500 bytes from each station to the access point.
fn uplinks(wlan: &str, link: &str, stations: &[Station]) -> Scenario {
    saturated(wlan, link, stations, 1500, &[])
}

/// Saturating datagrams from each station to the access point, and from there to those of `down`.
fn saturated(wlan: &str, link: &str, stations: &[Station], size: u32, down: &[usize]) -> Scenario {
    let mut text = format!(
        "duration = '20s'\nwarmup = '1s'\nwlans = [{{ name = 'wifi', {wlan} }}]\nlinks = [\n"
    );
    for Station { name, rate } in stations {
        text += &format!(
            "  {{ from = '{name}', to = 'ap', rate = '{rate}', delay = '0s', wlan = 'wifi', {link} \
             reverse = {{ queue = '100p' }} }},\n"
        );
    }
    text += "]\n";
    // Twice what the link could carry without any overhead: more would only be dropped.
    let flow = |group: &str, from: &str, to: &str, rate: &str| {
        let megabits: f64 = rate.strip_suffix("Mbit").unwrap().parse().unwrap();
        format!(
            "[[flows]]\ngroup = '{group}'\nfrom = '{from}'\nto = '{to}'\n\
             cbr = {{ rate = '{}Mbit', packet_size = {size} }}\n",
            2.0 * megabits
        )
    };
    for Station { name, rate } in stations {
        text += &flow(name, name, "ap", rate);
    }
    for index in down {
        let Station { name, rate } = &stations[*index];
        text += &flow(&format!("down-{index}"), "ap", name, rate);
    }
    build(&text)
}

fn rates(outcome: &Outcome) -> Vec<f64> {
    outcome.flows.iter().map(|flow| flow.goodput_bps).collect()
}

#[track_caller]
fn assert_near(measured: f64, expected: f64, share: f64) {
    assert!((measured / expected - 1.0).abs() <= share, "{measured}, expected {expected}");
}

#[test]
fn a_station_alone_has_the_arithmetic_of_its_times() {
    // Without random backoff and aggregation: AIFS of 16 + 3 * 9 = 43 us, data of 36 + 48 * 4 =
    // 228 us (12304 + 22 bits, 260 a symbol), and a SIFS and ACK of 44 us: a packet in 315 us.
    let fixed = "cw_min = 0, cw_max = 0";
    let outcome = run(&uplinks(&format!("{fixed}, frames = 1"), "", &stations(&["65Mbit"])));
    assert_near(rates(&outcome)[0], 12_000.0 / 315e-6, 1e-4);
    // With it, 28 frames of 1544 bytes: 345 856 + 22 bits, 1331 symbols, 5360 us; a 29th would
    // take 5508. With AIFS and block ACK 5360 + 43 + 48 = 5451 us.
    let outcome = run(&uplinks(fixed, "", &stations(&["65Mbit"])));
    assert_near(rates(&outcome)[0], 28.0 * 12_000.0 / 5451e-6, 1e-3);
    // A backoff of 0 to 15 slots adds 7.5 * 9 us. The standard error of its mean over 50 000
    // packets is 41 us / 224, 0.05 % of 382.5 us.
    let outcome = run(&uplinks("frames = 1", "", &stations(&["65Mbit"])));
    assert_near(rates(&outcome)[0], 12_000.0 / 382.5e-6, 0.0025);
}

/// Saturation throughput of `n` stations as a share of the channel rate (Bianchi 2000, equations 7,
/// 9 and 13), with a payload of `payload` seconds.
fn bianchi(n: i32, w: f64, m: i32, slot: f64, payload: f64, success: f64, collision: f64) -> f64 {
    let tau = |p: f64| {
        let doubled = 2.0 * p;
        2.0 * (1.0 - doubled) / ((1.0 - doubled) * (w + 1.0) + p * w * (1.0 - doubled.powi(m)))
    };
    // The collision probability p = 1 - (1 - tau(p))^(n - 1), by bisection.
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..100 {
        let p = f64::midpoint(low, high);
        let found = 1.0 - (1.0 - tau(p)).powi(n - 1);
        if found > p { low = p } else { high = p }
    }
    let tau = tau(low);
    let busy = 1.0 - (1.0 - tau).powi(n);
    let alone = f64::from(n) * tau * (1.0 - tau).powi(n - 1) / busy;
    let mean = (1.0 - busy) * slot + busy * alone * success + busy * (1.0 - alone) * collision;
    alone * busy * payload / mean
}

#[test]
fn saturated_stations_have_the_throughput_of_bianchis_formula() {
    // Bianchi 2000, table II: 1 Mbit/s, payload 8184 bits, MAC header 272, PHY header 128 us, ACK
    // 112 bits and PHY header, slot 50 us, SIFS 28 us, DIFS 128 us = SIFS + 2 slots; W = 32 with 5
    // stages. Here all wait for an ACK after a collision too (EIFS): Tc = Ts = 128 + 272 + 8184
    // + 28 + 240 + 128 = 8980 us.
    let wlan = "slot = '50us', sifs = '28us', aifsn = 2, cw_min = 31, cw_max = 1023, \
                attempts = 255, preamble = '128us', control_preamble = '128us', \
                control_rate = '1Mbit', symbol = '0s', overhead = 34, frames = 1";
    for n in [1, 2, 5, 10, 20] {
        let stations = stations(&vec!["1Mbit"; n]);
        let text = saturated(wlan, "", &stations, 1023, &[]);
        let text = Scenario { duration: windward_core::units::Duration::from_secs(200), ..text };
        let measured = rates(&run(&text)).iter().sum::<f64>() / 1e6;
        let success = 8980e-6;
        let expected = bianchi(n as i32, 32.0, 5, 50e-6, 8184e-6, success, success);
        // His own simulations differ from the formula by less than 1 % for n >= 5 (section V).
        assert_near(measured, expected, 0.02);
    }
}

#[test]
fn a_slow_station_takes_time_from_all() {
    // Heusse et al. 2003: both have the same chance of access and thus the same throughput,
    // below that of the slow one alone. 6.5 Mbit/s: 26 bits a symbol, 475 symbols, 1936 us of data.
    // Without collisions, a packet of each takes 228 + 1936 + 2 * (43 + 44) us, and a backoff,
    // which two stations count down together, on average 5 slots: 2.428 ms.
    let fast = run(&uplinks("frames = 1", "", &stations(&["65Mbit", "65Mbit"])));
    let mixed = run(&uplinks("frames = 1", "", &stations(&["65Mbit", "6.5Mbit"])));
    let [a, b] = rates(&mixed)[..] else { panic!("two flows") };
    assert_near(a, b, 0.03);
    // About one access in 8 collides and costs the longer of both.
    assert!((0.75..=1.0).contains(&(a / (12_000.0 / 2.428e-3))), "{a}");
    assert!(rates(&fast)[0] > 2.5 * a);
}

#[test]
fn an_access_point_has_the_chance_of_one_station() {
    // One station sends, and the access point to two: it has half of the accesses.
    let scenario = saturated("frames = 1", "", &stations(&["65Mbit", "65Mbit"]), 1500, &[0, 1]);
    // Without the flow of the second station.
    let flows = scenario.flows.iter().enumerate();
    let flows = flows.filter(|(index, _)| *index != 1).map(|(_, flow)| flow.clone()).collect();
    let outcome = run(&Scenario { flows, ..scenario });
    let [up, first, second] = rates(&outcome)[..] else { panic!("three flows") };
    assert_near(up, first + second, 0.02);
    // It serves packets in the order of their arrival.
    assert_near(first, second, 0.02);
}

#[test]
fn frames_are_retransmitted_up_to_a_limit_and_delivered_in_order() {
    // Half of the frames fail, three attempts: 1 in 8 is lost for good.
    for wlan in ["attempts = 3, frames = 1", "attempts = 3"] {
        let scenario = uplinks(wlan, "loss = 0.5,", &stations(&["65Mbit"]));
        let link = scenario.links[0].kind.loss_rate(1500);
        assert!((link - 0.125).abs() < 1e-12);
        let outcome = balanced(run(&scenario));
        let link = &outcome.links[0];
        let lost = link.corrupted as f64 / (link.corrupted + link.delivered) as f64;
        assert!((lost - 0.125).abs() < 0.01, "{wlan}: {lost}");
        assert_eq!(link.reordered, 0);
    }
}

#[test]
fn connections_cross_a_wireless_lan() {
    // Two downloads and two uploads of TCP, each with a station of its own behind a wired
    // bottleneck of 100 Mbit/s: the medium is full, and everybody gets something.
    let text = |aqm: &str| {
        format!(
            "duration = '20s'\nwarmup = '5s'\nwlans = [{{ name = 'wifi' }}]\n\
             [dumbbell]\nbottleneck = {{ rate = '100Mbit', delay = '10ms', queue = '500p' }}\n\
             access = {{ rate = '1Gbit', delay = '1ms', queue = '500p' }}\n\
             [[flows]]\ngroup = 'down'\ncount = 2\nprotocol = 'cubic'\npacket_size = 1500\n\
             bottleneck = 'last_hop'\n\
             last_hop = {{ wlan = 'wifi', rate = '65Mbit', delay = '0s', queue = '200p', \
             aqm = '{aqm}' }}\n\
             [[flows]]\ngroup = 'up'\ncount = 2\nprotocol = 'cubic'\npacket_size = 1500\n\
             upload = true\nbottleneck = 'first_hop'\n\
             first_hop = {{ wlan = 'wifi', rate = '65Mbit', delay = '0s', queue = '200p' }}\n"
        )
    };
    for aqm in ["droptail", "codel", "fq-codel"] {
        let scenario = build(&text(aqm));
        // The access point, and four stations.
        assert_eq!(scenario.wlans[0].stations, 5);
        let outcome = run(&scenario);
        let sum: f64 = rates(&outcome).iter().sum();
        // Alone, with full aggregates, 61.6 Mbit/s.
        assert!((40e6..=61.7e6).contains(&sum), "{aqm}: {sum}");
        assert!(rates(&outcome).iter().all(|rate| *rate > 2e6), "{aqm}: {:?}", rates(&outcome));
        let again = run(&scenario);
        assert_eq!(again.fingerprint, outcome.fingerprint, "{aqm}");
        let other = run(&Scenario { seed: 2, ..scenario });
        assert_ne!(other.fingerprint, outcome.fingerprint, "{aqm}");
    }
}

#[test]
fn two_media_do_not_disturb_each_other() {
    let text = |wlans: &str, second: &str| {
        format!(
            "duration = '5s'\nwlans = {wlans}\nlinks = [\n\
             {{ from = 'a', to = 'ap', rate = '65Mbit', delay = '0s', wlan = 'one' }},\n\
             {{ from = 'b', to = 'ap', rate = '65Mbit', delay = '0s', wlan = '{second}' }}]\n\
             [[flows]]\ngroup = 'a'\nfrom = 'a'\nto = 'ap'\ncbr = {{ rate = '90Mbit' }}\n\
             [[flows]]\ngroup = 'b'\nfrom = 'b'\nto = 'ap'\ncbr = {{ rate = '90Mbit' }}\n"
        )
    };
    let both = "[{ name = 'one' }, { name = 'two' }]";
    let apart = rates(&run(&build(&text(both, "two"))));
    let together = rates(&run(&build(&text(both, "one"))));
    assert!(apart.iter().all(|rate| *rate > 50e6), "{apart:?}");
    assert!(together.iter().sum::<f64>() < 65e6, "{together:?}");
}

#[test]
fn errors_of_wireless_lans_say_what_is_wrong() {
    let with = |wlans: &str, link: &str| {
        error(&format!(
            "duration = '5s'\nwlans = [{wlans}]\nlinks = [{{ from = 'a', to = 'b', {link} }}]\n\
             [[flows]]\ngroup = 'a'\nfrom = 'a'\nto = 'b'\ncbr = {{ rate = '90Mbit' }}\n"
        ))
    };
    let usual = "rate = '65Mbit', delay = '0s', wlan = 'wifi'";
    for (key, says) in [
        ("slot = '0s'", "must lie between"),
        ("slot = '200ms'", "100ms"),
        ("sifs = '200ms'", "100ms"),
        ("aifsn = 0", "between 1 and 255"),
        ("cw_min = 70000", "between 0 and 65535"),
        ("cw_max = 70000", "between 0 and 65535"),
        ("cw_min = 31, cw_max = 15", "must not be greater than the largest (15)"),
        ("attempts = 0", "between 1 and 255"),
        ("preamble = '200ms'", "100ms"),
        ("control_preamble = '200ms'", "100ms"),
        ("control_rate = '0bit'", "at least 1 bit/s"),
        ("symbol = '200ms'", "100ms"),
        ("overhead = 2000", "between 0 and 1000"),
        ("frames = 0", "between 1 and 256"),
        ("aggregate = 0", "between 1 and 16777215"),
        ("longest = '0s'", "must lie between"),
        ("rate = '1Mbit'", "unknown key"),
    ] {
        let error = with(&format!("{{ name = 'wifi', {key} }}"), usual);
        assert!(error.contains(says), "{key}: {error}");
    }
    let error = with("{ slot = '9us' }", usual);
    assert!(error.contains("name"), "{error}");
    let error = with("{ name = 'wifi' }, { name = 'wifi' }", usual);
    assert!(error.contains("two wireless LANs are called `wifi`"), "{error}");
    let error = with("{ name = 'wiffi' }", usual);
    assert!(error.contains("no wireless LAN of this name") && error.contains("wiffi"), "{error}");
    let error = with("", usual);
    assert!(error.contains("no wireless LAN of this name"), "{error}");
    let one = "{ name = 'wifi' }";
    for (link, says) in [
        ("jitter = '1ms'", "`jitter`"),
        ("reorder = { share = 0.1, by = '3p' }", "`reorder`"),
        ("outages = [{ at = '1s', length = '1s' }]", "`outages`"),
        ("arq = { attempts = 3, delay = '1ms' }", "`arq`"),
        ("notifier = 'measured'", "`notifier`"),
    ] {
        let error = with(one, &format!("{usual}, {link}"));
        assert!(error.contains(says) && error.contains("wireless LAN"), "{link}: {error}");
    }
    let trace = "rate = { opportunities = [1, 2] }, delay = '0s', wlan = 'wifi'";
    let error = with(one, trace);
    assert!(error.contains("`rate` of a trace"), "{error}");
    let cell = "rate = { cell = {} }, delay = '0s', wlan = 'wifi'";
    let error = with(one, cell);
    assert!(error.contains("`rate` of a cell"), "{error}");
    let delay = "rate = '65Mbit', wlan = 'wifi', delay = { schedule = [{ at = '0s', delay = \
                 '1ms' }] }";
    let error = with(one, delay);
    assert!(error.contains("`delay` that changes"), "{error}");
}
