//! `windward perf`: both ends as processes on loopback.

use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{Child, Stdio};

use crate::{Sandbox, command, stderr, success, windward};

/// A server for as long as this lives.
struct Server {
    child: Child,
    port: String,
}

impl Server {
    fn start(more: &[&str]) -> Self {
        let args = ["perf", "server", "--bind", "127.0.0.1", "--port", "0"];
        let mut child =
            command(args.iter().chain(more)).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut said = String::new();
        let stderr = child.stderr.as_mut().expect("it is piped");
        BufReader::new(stderr).read_line(&mut said).expect("it says where it listens");
        let port = said.split([':', ',']).nth(1).expect("a port").to_owned();
        Server { child, port }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_transfer_is_measured_both_ways() {
    let server = Server::start(&[]);
    for (protocol, way) in
        [("newreno", "--interval"), ("{ base = \"cubic\", recovery = \"rack\" }", "-R")]
    {
        let mut args =
            vec!["perf", "client", "127.0.0.1", "--port", &server.port, "--protocol", protocol];
        args.extend(["--bytes", "1MB", "--parallel", "2", "--json", way]);
        if way == "--interval" {
            args.push("20ms");
        }
        let json: serde_json::Value = serde_json::from_str(&success(&args)).expect("JSON");
        let flows = json["flows"].as_array().expect("flows");
        assert_eq!(flows.len(), 2);
        for flow in flows {
            // The packets of scenarios have 1000 bytes.
            assert_eq!(flow["packets_delivered"], 1000, "{json}");
            assert!(flow["goodput_bps"].as_f64() > Some(0.0), "{json}");
        }
    }
}

#[test]
fn what_is_wrong_is_said() {
    let sandbox = Sandbox::new("");
    let key = sandbox.path("key");
    std::fs::write(&key, [7; 32]).expect("a file");
    let key = key.to_str().expect("a name");
    let server = Server::start(&["--psk", key]);
    let refused = |args: &[&str], status: i32, words: &[&str]| {
        let output = windward(["perf"].iter().chain(args));
        assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
        for word in words {
            assert!(stderr(&output).contains(word), "no {word} in {}", stderr(&output));
        }
    };
    let port = &server.port;
    refused(&["client", "127.0.0.1", "--port", port], 1, &["refused", "--psk"]);
    refused(&["client", "127.0.0.1", "--protocol", "cubik"], 2, &["--protocol", "cubic"]);
    refused(&["client", "127.0.0.1", "--protocol", "{ window = 7 }"], 2, &["--protocol"]);
    refused(&["client", "127.0.0.1", "--time", "0s"], 2, &["--time"]);
    refused(&["client", "127.0.0.1", "--datagram", "100"], 2, &["128 to 9000"]);
    refused(&["client", "127.0.0.1", "--psk", "/dev/null"], 2, &["--psk", "16 bytes"]);
    refused(&["server", "--bind", "127.0.0.1", "--port", port], 1, &[port, "--port"]);
    let closed = UdpSocket::bind("127.0.0.1:0").and_then(|s| s.local_addr()).expect("a port");
    let closed = closed.port().to_string();
    refused(&["client", "127.0.0.1", "--port", &closed], 1, &["nothing listens", &closed]);
}
