//! `--web`: live charts of commands on a real clock, read over HTTP as a browser does.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::emulate::{Echo, Exchange, NODES, Running, cannot, inside, signal};
use crate::perf::Server;
use crate::{Sandbox, command, stderr, success};

/// The address that a command prints as that of its charts.
fn address(child: &mut Child) -> String {
    let mut said = String::new();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    while lines.read_line(&mut said).unwrap() > 0 {
        let line = said.trim_end().lines().last().unwrap();
        if let Some(url) = line.strip_prefix("charts: http://") {
            let address = url.trim_end_matches('/').to_owned();
            // Later lines are read, so that the command can go on.
            std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
            return address;
        }
    }
    panic!("no address of charts: {said}");
}

/// A connection that has sent its request.
fn connect(address: &str, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    stream
}

/// Head and body of an answer that ends by itself.
fn answer(address: &str, path: &str) -> (String, String) {
    let mut text = Vec::new();
    connect(address, path).read_to_end(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// Server-sent events: their names and data.
struct Events(BufReader<TcpStream>);

impl Events {
    fn open(address: &str) -> Self {
        let mut events = Events(BufReader::new(connect(address, "/events")));
        let mut line = String::new();
        events.0.read_line(&mut line).unwrap();
        assert_eq!(line, "HTTP/1.1 200 OK\r\n");
        while line != "\r\n" {
            line.clear();
            events.0.read_line(&mut line).unwrap();
        }
        events
    }
}

impl Iterator for Events {
    type Item = (String, Value);

    fn next(&mut self) -> Option<Self::Item> {
        let mut name = "message".to_owned();
        let mut data = None;
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            match line.trim_end().split_once(": ") {
                Some(("event", text)) => name = text.to_owned(),
                Some(("data", text)) => data = Some(serde_json::from_str(text).unwrap()),
                Some(_) => {}
                // The end of an event, or of a comment.
                None if data.is_some() => return data.map(|data| (name, data)),
                None => {}
            }
        }
    }
}

fn of<'a>(moment: &'a Value, family: &str, name: &str) -> &'a Value {
    moment[family].as_array().unwrap().iter().find(|each| each["name"] == name).unwrap()
}

#[test]
fn the_packets_of_a_shell_are_in_its_charts_and_the_charts_end_with_it() {
    if cannot() {
        return;
    }
    let echo = Echo::start();
    let port = echo.0;
    let args = ["shell", "--web", "--rate", "8mbit", "--delay", "20ms", "--", "cat"];
    let mut shell = Running::start(&args);
    let node = shell.node("inside");
    let address = address(&mut shell.0);
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    let (head, page) = answer(&address, "/");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/html"), "{head}");
    assert!(page.contains("default-src 'none'") && page.contains("connect-src 'self'"));
    let mut events = Events::open(&address);
    let (name, about) = events.next().unwrap();
    assert_eq!(name, "about");
    assert_eq!(about["command"], "windward shell");
    assert_eq!(about["capacity_bps"], 8e6);
    let links = "down: 8 Mbit/s, 20 ms, no loss, droptail; up: 8 Mbit/s, 20 ms, no loss, droptail";
    let subject = about["subject"].as_str().unwrap();
    assert!(subject.ends_with(&format!(", {links}: cat")), "{subject}");
    assert_eq!(about["rates"], "Throughput");
    assert_eq!(about["ways"], serde_json::json!(["download", "upload"]));
    // 25 datagrams of 972 bytes are 25 packets of 1000 bytes with the headers of UDP and IP.
    let exchange = inside(&node, move || Exchange::run("outside", port, 25, 972));
    drop(exchange);
    assert!(shell.end().status.success());
    let (mut bits, mut last, mut rtt, mut has_ended) = (0.0, 0.0, 0.0, false);
    for (name, moment) in events {
        if name == "end" {
            has_ended = true;
            continue;
        }
        let now = moment["time_s"].as_f64().unwrap();
        assert!(now > last, "{moment}");
        bits += of(&moment, "links", "up")["rate_bps"].as_f64().unwrap() * (now - last);
        rtt = of(&moment, "flows", "outside-1")["rtt_s"].as_f64().unwrap();
        last = now;
    }
    assert!(has_ended);
    // 25 * 8000 bits, and up to three packets that the kernel sends by itself. An interval that
    // began late, on a busy machine, has its own length, so the product is exact up to rounding.
    assert!((199_999.0..=224_001.0).contains(&bits), "{bits} bits");
    assert!((rtt - 0.04).abs() < 1e-9, "{rtt}");
}

#[test]
fn an_emulation_with_a_browser_ends_by_ctrl_c_and_the_browser_learns_of_it() {
    if cannot() {
        return;
    }
    // Losses are those of the way from `from` to `to`, on which the flows send.
    let lossy = NODES
        .replace("from = \"router\", to = \"server\"", "from = \"server\", to = \"router\"")
        .replace("queue = \"100p\"", "queue = \"100p\", loss = 0.02");
    let scenario = Sandbox::new(&lossy);
    let path = scenario.scenario().display().to_string();
    let mut emulation = Running::start(&["emulate", &path, "--web"]);
    let address = address(&mut emulation.0);
    let mut events = Events::open(&address);
    let about = events.next().unwrap().1;
    assert_eq!(about["command"], "windward emulate");
    let subject = about["subject"].as_str().unwrap();
    assert!(subject.contains("20 Mbit/s, ") && subject.contains(" loss 2 %, "), "{subject}");
    // C (1 - p) = 20 Mbit/s * 0.98.
    assert!((about["capacity_bps"].as_f64().unwrap() - 19.6e6).abs() < 1.0, "{about}");
    let flow = |moment: &Value| of(moment, "flows", "cross-1").clone();
    let carries = |(_, moment): &(String, Value)| flow(moment)["rate_bps"].as_f64().unwrap() > 1e5;
    let (_, moment) = events.find(carries).unwrap();
    assert!(flow(&moment)["cwnd_packets"].as_f64().unwrap() >= 1.0, "{moment}");
    signal(emulation.0.id(), "INT");
    assert_eq!(events.last().unwrap().0, "end");
    assert_eq!(emulation.end().status.code(), Some(130));
}

#[test]
fn a_taken_port_is_refused_before_anything_is_created() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for args in [
        vec!["shell", "--web", &port, "--", "true"],
        vec!["emulate", "no-such-file.toml", "--web", &port],
        vec!["perf", "client", "127.0.0.1", "--web", &port],
        vec!["perf", "server", "--port", "0", "--web", &port],
        vec!["router", "no-such-device", "--rate", "1Mbit", "--web", &port],
    ] {
        let output = command(&args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let said = stderr(&output);
        assert!(said.contains(&format!("--web: another program uses port {port}")), "{said}");
    }
}

#[test]
fn a_measurement_has_the_windows_of_its_flows_in_its_charts() {
    let server = Server::start(&[]);
    let args = server.client(&["--web", "0", "-t", "2s", "-P", "2", "--protocol", "newreno"]);
    let mut client = command(&args).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut events = Events::open(&address(&mut client));
    let about = events.next().unwrap().1;
    assert_eq!(about["subject"], "newreno to 127.0.0.1");
    assert_eq!(about["rates"], "Goodput");
    let moments: Vec<Value> =
        events.filter(|(name, _)| name == "message").map(|(_, moment)| moment).collect();
    assert!(client.wait().unwrap().success());
    // Two seconds in tenths; fewer on a machine that stood still.
    assert!((1..=20).contains(&moments.len()), "{}", moments.len());
    let last = moments.last().unwrap();
    for name in ["up-1", "up-2"] {
        let flow = of(last, "flows", name);
        assert!(flow["cwnd_packets"].as_f64().unwrap() >= 1.0, "{last}");
        let has_rtt = |moment: &Value| of(moment, "flows", name)["rtt_s"].as_f64() > Some(0.0);
        assert!(moments.iter().any(has_rtt), "{moments:?}");
    }
    assert!(
        moments.iter().any(|moment| of(moment, "flows", "up-1")["rate_bps"].as_f64() > Some(0.0))
    );
}

#[test]
fn a_server_has_what_it_knows_of_its_connections_in_its_charts() {
    let mut server = Server::start(&["--web=0"]);
    let address = address(&mut server.child);
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    assert!(answer(&address, "/").1.starts_with("<!doctype html>"));
    let mut events = Events::open(&address);
    let about = events.next().unwrap().1;
    assert_eq!(about["command"], "windward perf server");
    assert!(about["subject"].as_str().unwrap().starts_with("at 127.0.0.1:"), "{about}");
    let one_way = ["--protocol", "newreno", "-n", "3000p", "--quiet"];
    for way in [&[][..], &["-R"]] {
        success(server.client(&[&one_way[..], way].concat()));
    }
    crate::perf::signal(&server.child, "-INT");
    let moments: Vec<(String, Value)> = events.collect();
    assert_eq!(moments.last().unwrap().0, "end");
    assert!(server.child.wait().unwrap().success());

    let flows = |number: &str| {
        let name = |flow: &Value| flow["name"].as_str().unwrap().to_owned();
        let mut all = Vec::new();
        let mut last = 0.0;
        for (_, moment) in moments.iter().filter(|(name, _)| name == "message") {
            let now = moment["time_s"].as_f64().unwrap();
            for flow in moment["flows"].as_array().unwrap() {
                if name(flow).starts_with(number) {
                    all.push((now - last, flow.clone()));
                }
            }
            last = now;
        }
        all
    };
    let bits = |flows: &[(f64, Value)]| -> f64 {
        flows.iter().map(|(span, flow)| span * flow["rate_bps"].as_f64().unwrap()).sum()
    };
    let (up, down) = (flows("1: "), flows("2: "));
    // 3000 packets of 1000 bytes each.
    for flows in [&up, &down] {
        assert!((bits(flows) - 24e6).abs() < 1.0, "{flows:?}");
    }
    for (_, flow) in &up {
        assert!(flow["name"].as_str().unwrap().starts_with("1: newreno from 127.0.0.1:"), "{flow}");
        assert_eq!(flow.get("cwnd_packets"), None);
        assert!(flow["missing"].is_u64(), "{flow}");
        assert!(flow["queueing_delay_s"].as_f64().unwrap() >= 0.0, "{flow}");
    }
    for (_, flow) in &down {
        assert!(flow["name"].as_str().unwrap().starts_with("2: newreno to 127.0.0.1:"), "{flow}");
        assert!(flow["cwnd_packets"].as_f64().unwrap() >= 1.0, "{flow}");
        assert_eq!(flow.get("missing"), None);
    }
    // The mean of the RTT is at least its minimum, so the delay above that is less than the mean.
    let is_measured = |(_, flow): &(f64, Value)| {
        let [rtt, queueing] = ["rtt_s", "queueing_delay_s"].map(|key| flow[key].as_f64());
        rtt > Some(0.0) && queueing >= Some(0.0) && queueing < rtt
    };
    assert!(down.iter().any(is_measured), "{down:?}");
}
