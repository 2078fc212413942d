//! `windward send` over a real link without losses: as root, with /dev/net/tun.
#![cfg(target_os = "linux")]

use std::fs;

use serde_json::Value;

use crate::emulate::cannot;
use crate::{Sandbox, command, stderr};

/// Bits per second: of packets of 1480 bytes, 1420 are data.
const CAPACITY: f64 = 40e6 * 1420.0 / 1480.0;
/// Three seconds of it.
const BYTES: usize = 14_000_000;

/// Goodput of a transfer, bits per second.
fn goodput(protocol: &str) -> f64 {
    let sandbox = Sandbox::new("");
    let file = sandbox.path("file");
    fs::write(&file, vec![0x5a; BYTES]).unwrap();
    let [inbox, ticket, near, far, json] =
        ["inbox", "ticket", "near", "far", "json"].map(|name| sandbox.path(name));
    let windward = env!("CARGO_BIN_EXE_windward");
    let receive = format!(
        "{windward} -q receive {} --config {} --new-ticket > {}; sleep 100",
        inbox.display(),
        far.display(),
        ticket.display()
    );
    let ticket = ticket.display();
    let send = format!(
        "until [ -s {ticket} ]; do sleep 0.05; done; {windward} -q send --json --protocol {protocol} \
         --config {} {} $(awk '{{print $NF}}' {ticket}) > {}",
        near.display(),
        file.display(),
        json.display()
    );
    let link = ["--rate", "40mbit", "--delay", "20ms", "--queue", "200p", "--duration", "60s"];
    let shell = ["-q", "shell", "--peer", &receive];
    let run = command([&shell[..], &link, &["--", "sh", "-c", &send]].concat()).output().unwrap();
    let text = fs::read_to_string(&json).unwrap_or_default();
    let outcome: Value = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {} {}", stderr(&run), run.status));
    outcome["rate_bps"].as_f64().expect("a rate")
}

/// A controller that takes the departure of a probe for the MTU for that of another packet, or a
/// missing RTT for one of zero, has a quarter of the capacity in half of its runs.
#[test]
fn a_clean_link_is_used() {
    if cannot() {
        return;
    }
    for protocol in ["upwind", "bbr", "cubic"] {
        let rates: Vec<f64> = (0..5).map(|_| goodput(protocol)).collect();
        let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
        println!("{protocol}: {rates:?}");
        assert!(least >= 0.5 * CAPACITY, "{protocol}: {rates:?}");
    }
}
