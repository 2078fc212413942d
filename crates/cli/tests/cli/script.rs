//! `windward script`.

use crate::{Sandbox, repository, stderr, success, windward};

#[test]
fn what_comes_along_is_met_and_the_document_says_so() {
    let table = success(["script", "--markdown"]);
    let path = repository().join("docs/conformance.md");
    let written = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = written.split_once("<!-- generated -->\n").unwrap();
    let (_, after) = rest.split_once("<!-- end -->\n").unwrap();
    let page = format!("{before}<!-- generated -->\n{table}<!-- end -->\n{after}");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, page).unwrap();
        return;
    }
    assert_eq!(
        written, page,
        "`BLESS=1 cargo test -p windward what_comes_along` writes docs/conformance.md"
    );
}

#[test]
fn an_assertion_that_is_not_met_is_status_1_with_what_was_seen() {
    let sandbox = Sandbox::new("");
    let path = sandbox.path("a.pkt");
    let script = r#"
--title=a
--source=b
--protocol=newreno
--duration=1s
--rtt=100ms
--initial_window=4
--rwnd=4
.2 %{
"RFC 5681 section 3.1: the window"
assert packets == 13 # It is 12: four a round trip.
}%
"#;
    std::fs::write(&path, script).unwrap();
    let path = path.display().to_string();
    let output = windward(["script", &path]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let said = String::from_utf8(output.stdout).unwrap();
    for word in
        ["not met: ", "a.pkt:11:1: `assert packets == 13", "at 0.2", "packets = 12", "RFC 5681"]
    {
        assert!(said.contains(word), "no `{word}` in:\n{said}");
    }
    let output = windward(["script", &path, "--json", "--protocol", "cubic"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json[0]["protocol"], &json[0]["verdict"]), (&"cubic".into(), &"differs".into()));
    assert_eq!(json[0]["findings"][0]["verdict"], "not-met");
}

#[test]
fn bad_scripts_and_names_are_status_2() {
    let sandbox = Sandbox::new("");
    let path = sandbox.path("a.pkt");
    std::fs::write(&path, "--rtt=1ms\n--title=a\n").unwrap();
    let path = path.display().to_string();
    for (args, word) in [
        (vec!["script", &path], "--source is missing"),
        (vec!["script", "no-such.pkt"], "no such file"),
        (vec!["script", "rfc9439"], "did you mean `rfc9438`"),
        (vec!["script", "rfc9438", "--protocol", "cubik"], "cubic"),
        (vec!["script", "rfc9438/beta", "--protocol", "xcp"], "routers"),
        (vec!["script", "rfc9438/beta", "--tolerance-usecs", "1"], "without --rtt"),
    ] {
        let output = windward(&args);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(word) && !said.contains("panicked"), "{args:?}: {said}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

/// The beginning of a connection with ten segments of data.
const PACKETS: &str = "\
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 65535 <mss 1000,sackOK,nop,wscale 7>
+0 > S. 0:0(0) ack 1 <mss 1460,sackOK,nop,wscale 8>
+.1 < . 1:1(0) ack 1 win 1000
+0 accept(3, ..., ...) = 4
+0 write(4, ..., 20000) = 20000
+0 > P. 1:10001(10000) ack 1
";

#[test]
fn packetdrill_scripts_have_a_status_for_each_result() {
    let ours = repository().join("experiments/scripts/packetdrill").display().to_string();
    let all = success(["script", &ours]);
    assert_eq!(all.lines().filter(|line| line.starts_with("passes: ")).count(), 8, "{all}");

    let sandbox = Sandbox::new("");
    let path = sandbox.path("a.pkt");
    let name = path.display().to_string();
    for (more, status, said) in [
        ("+.1 %{ assert tcpi_snd_cwnd == 10 }%", 0, "passes: "),
        ("+.1 %{ assert tcpi_snd_cwnd == 11 }%", 1, "a.pkt:9:7: `assert tcpi_snd_cwnd == 11`"),
        ("+.1 > . 10001:11001(1000) ack 1", 1, "at 0.200000 sec but happened at 0.302000 sec"),
        ("+.1 poll(4) = 0", 4, "not about congestion: "),
        ("+.1 `sysctl -q net.ipv4.tcp_frto=0`", 4, "not supported: "),
        ("+.1 > . 1:9(9) ack 1", 2, "a.pkt:9:12: 1:9 is not a segment of 9 bytes"),
    ] {
        std::fs::write(&path, format!("{PACKETS}{more}\n")).unwrap();
        let output = windward(["script", &name]);
        assert_eq!(output.status.code(), Some(status), "{more}: {}", stderr(&output));
        let printed = String::from_utf8(output.stdout.clone()).unwrap() + &stderr(&output);
        assert!(printed.contains(said), "{more}: {printed}");
    }
}
