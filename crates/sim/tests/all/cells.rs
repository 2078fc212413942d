//! Rates of users in cells, over whole runs.

use windward_sim::{Scenario, run};

use crate::{build, error};

fn text(cell: &str) -> String {
    format!(
        "duration = '60s'\nlinks = [{{ from = 'a', to = 'b', delay = '20ms', queue = '100p', \
         rate = {{ cell = {{ {cell} }} }}, both_ways = false }}]\n\
         [[flows]]\ngroup = 'a'\nfrom = 'a'\nto = 'b'\ncbr = {{ rate = '100Mbit' }}\n"
    )
}

#[test]
fn a_saturated_user_has_its_share_of_the_cell() {
    // More is offered than a cell can carry, 10 MHz * 4.4 = 44 Mbit/s: what arrives is the rate.
    let goodput = |cell: &str| {
        let scenario = build(&text(cell));
        let runs = (0..8).map(|seed| {
            let outcome = run(&Scenario { seed, ..scenario.clone() });
            assert!(outcome.links[0].utilization > 0.99, "{}", outcome.links[0].utilization);
            outcome.flows[0].goodput_bps
        });
        runs.sum::<f64>() / 8.0
    };
    let alone = goodput("snr = 10");
    let mean = build(&text("snr = 10")).links[0].kind.rate.mean().as_bps() as f64;
    assert!((alone / mean - 1.0).abs() < 0.08, "{alone} {mean}");
    // Three other users on average: (1 - e^-3) / 3 = 0.317 of it. Their number is that of about
    // two independent instants in 60 s, 16 in all, with a standard deviation of 1.7.
    let shared = goodput("snr = 10, users = 3") / alone;
    assert!((0.2..=0.5).contains(&shared), "{shared}");
    assert!(goodput("snr = 0") < 0.5 * alone);
}

#[test]
fn rates_depend_on_the_seed_only() {
    let scenario = build(&text("snr = 3, users = 2, shadowing = 8"));
    scenario.validate().unwrap();
    let mark = |seed| run(&Scenario { seed, ..scenario.clone() }).fingerprint;
    assert_eq!(mark(1), mark(1));
    assert_ne!(mark(1), mark(2));
}

#[test]
fn errors_of_cells_say_what_is_wrong() {
    for (key, says) in [
        ("bandwidth = 0", "more than 0"),
        ("snr = 200", "between -50 and 100"),
        ("doppler = 100", "between 0 and 60"),
        ("branches = 0", "between 1 and 64"),
        ("shadowing = -1", "between 0 and 30"),
        ("shadowing_time = '0s'", "between 100ms and 86400s"),
        ("efficiency = 2", "between 0 and 1"),
        ("most = 0", "more than 0"),
        ("users = 2000", "between 0 and 1000"),
        ("stay = '1ms'", "between 100ms and 86400s"),
        ("rate = '5Mbit'", "unknown key"),
    ] {
        let error = error(&text(key));
        assert!(error.contains(says) && error.contains("cell"), "{key}: {error}");
    }
    let both = text("snr = 3").replace("cell = {", "opportunities = [1], cell = {");
    let error = error(&both);
    assert!(error.contains("the rate is already that of a `cell`"), "{error}");
}
