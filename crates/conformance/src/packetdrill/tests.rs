use super::*;

/// Our own scripts.
const SCRIPTS: [(&str, &str); 8] = {
    macro_rules! script {
        ($name:literal) => {
            (
                $name,
                include_str!(concat!(
                    env!("CARGO_MANIFEST_DIR"),
                    "/../../experiments/scripts/packetdrill/",
                    $name,
                    ".pkt"
                )),
            )
        };
    }
    [
        script!("slow-start"),
        script!("application-limited"),
        script!("fast-retransmit"),
        script!("duplicate-acks"),
        script!("timeout"),
        script!("reordering"),
        script!("tail-loss-probe"),
        script!("ecn"),
    ]
};

/// The beginning of a script with a connection of ten segments and a round trip of 100 ms.
const OPEN: &str = "\
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 65535 <mss 1000,sackOK,nop,wscale 7>
+0 > S. 0:0(0) ack 1 <mss 1460,sackOK,nop,wscale 8>
+.1 < . 1:1(0) ack 1 win 1000
+0 accept(3, ..., ...) = 4
";

fn run(name: &str, text: &str) -> Result<PacketReport, String> {
    let script = PacketScript::parse(name, text).map_err(|error| error.to_string())?;
    script.run(None, &Stacks::default(), TOLERANCE).map_err(|error| error.to_string())
}

fn verdict(text: &str) -> (PacketVerdict, String) {
    let report = run("a.pkt", text).unwrap();
    (report.verdict, report.reason.unwrap_or_default())
}

#[test]
fn our_scripts_pass() {
    for (name, text) in SCRIPTS {
        let report = run(name, text).unwrap();
        assert_eq!(report.verdict, PacketVerdict::Passes, "{report:?}");
        assert!(report.counts.packets >= 3 && report.counts.assertions >= 2, "{report:?}");
    }
}

/// Adds `more` to a number at the end of `before`, if there is one.
fn changed(before: &str, more: u64) -> Option<String> {
    let digits = before.len() - before.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (head, number) = before.split_at(before.len() - digits);
    let number: u64 = number.parse().ok()?;
    Some(format!("{head}{}", number + more))
}

/// Copies of the line, each with another expected number.
fn wrong_lines(line: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let bare = line.split("//").next().unwrap_or_default();
    for (at, _) in bare.match_indices("== ") {
        let end = at + 3;
        let digits = bare[end..].find(|c: char| !c.is_ascii_digit()).unwrap_or(bare.len() - end);
        if let Some(head) = changed(&bare[..end + digits], 1) {
            wrong.push(head + &bare[end + digits..]);
        }
    }
    if let Some((time, packet)) = bare.split_once('>')
        && !bare.contains('<')
        && let Some((begin, rest)) = packet.split_once(':')
        && let Some((end, tail)) = rest.split_once('(')
        && let (Some(start), Some(stop)) = (changed(begin, 1000), changed(end, 1000))
    {
        wrong.push(format!("{time}>{start}:{stop}({tail}"));
        // Half a second later than it is.
        let later = time.trim().trim_start_matches('+').split('~').next().unwrap_or_default();
        let later: f64 = later.parse::<f64>().unwrap() + 0.5;
        wrong.push(format!("+{later}>{packet}"));
        wrong.push(format!("{time}>{}", packet.replacen("ack 1", "ack 2", 1)));
    }
    wrong
}

#[test]
fn every_wrong_number_fails() {
    let mut tried = 0;
    for (name, text) in SCRIPTS {
        let lines: Vec<&str> = text.lines().collect();
        for at in 0..lines.len() {
            for wrong in wrong_lines(lines[at]) {
                let mut lines = lines.clone();
                lines[at] = &wrong;
                let text = lines.join("\n");
                let report = run(name, &text).unwrap();
                assert_eq!(report.verdict, PacketVerdict::Differs, "{name}: {wrong}: {report:?}");
                // Either there or at the event that it moved.
                assert!(report.line >= Some(at + 1), "{name}: {wrong}: {report:?}");
                tried += 1;
            }
        }
    }
    assert!(tried > 100, "{tried}");
}

#[test]
fn a_difference_shows_both_packets_and_the_time() {
    let text = format!("{OPEN}+0 write(4, ..., 3000) = 3000\n+.01 > . 1:3001(3000) ack 1\n");
    let (verdict, reason) = verdict(&text);
    assert_eq!(verdict, PacketVerdict::Differs);
    for part in [
        "expected outbound packet at 0.110000 sec but happened at 0.100000 sec",
        "tolerance 0.004000 sec",
        "script packet:  0.110000 . 1:3001(3000) ack 1",
        "actual packet:  0.100000 . 1:3001(3000) ack 1",
    ] {
        assert!(reason.contains(part), "{part}: {reason}");
    }
    // The option of the script, and packetdrill's 12.5 % of the time since the last event.
    let wide = format!("--tolerance_usecs=20000\n{text}");
    assert_eq!(run("a.pkt", &wide).unwrap().verdict, PacketVerdict::Passes);
    for (at, passes) in [("+.3", true), ("+.275", true), ("+.26", false), ("+.35", false)] {
        // The probe of 2 x 100 ms comes first; then the timeout, 300 ms after it.
        let text = format!(
            "{OPEN}+0 write(4, ..., 3000) = 3000\n+0 > . 1:3001(3000) ack 1\n\
             +.2 > . 2001:3001(1000) ack 1\n{at} > . 1:1001(1000) ack 1\n"
        );
        let report = run("a.pkt", &text).unwrap();
        assert_eq!(report.verdict == PacketVerdict::Passes, passes, "{at}: {report:?}");
    }
}

#[test]
fn a_packet_that_the_script_lacks_is_a_difference() {
    let text = format!(
        "{OPEN}+0 write(4, ..., 3000) = 3000\n+0 > . 1:1001(1000) ack 1\n\
         +.1 < . 1:1(0) ack 3001 win 1000\n+0 write(4, ..., 1000) = 1000\n\
         +0 > . 3001:4001(1000) ack 1\n"
    );
    let (verdict, reason) = verdict(&text);
    assert_eq!(verdict, PacketVerdict::Differs);
    assert!(reason.contains("actual packet:  0.100000 . 1001:2001(1000) ack 1"), "{reason}");
}

#[test]
fn what_is_not_read_is_refused_by_name_and_never_passes() {
    use PacketVerdict::{NotAboutCongestion, NotSupported};
    for (line, expected, named) in [
        ("+0 epoll_create(1) = 5", NotAboutCongestion, "epoll_create"),
        ("+0 read(4, ..., 10) = 10", NotAboutCongestion, "read"),
        ("+0 write(4, ..., 10) = -1 EPIPE (Broken pipe)", NotAboutCongestion, "EPIPE"),
        ("+0 setsockopt(4, SOL_TCP, TCP_CORK, [1], 4) = 0", NotAboutCongestion, "TCP_CORK"),
        ("+0 < R. 1:1(0) ack 1 win 1000", NotAboutCongestion, "reset"),
        ("+0 < . 1:1(0) ack 1 win 1000 <FO 1234>", NotAboutCongestion, "`FO`"),
        ("+0 < [tos 0x4] . 1:1(0) ack 1 win 10", NotAboutCongestion, "`tos`"),
        ("+0 > udp (10)", NotAboutCongestion, "udp"),
        ("+0 `sysctl -q net.ipv4.tcp_recovery=0`", NotSupported, "net.ipv4.tcp_recovery=0"),
        ("+0 `tc qdisc add dev tun0 root netem delay 1ms`", NotSupported, "netem"),
        ("+0 `rm -rf /`", NotSupported, "rm -rf /"),
        ("+0 %{ assert tcpi_rcv_ooopack == 0 }%", NotSupported, "tcpi_rcv_ooopack"),
        ("+0 %{ import os }%", NotSupported, "import os"),
        ("+0 `ip route change default rto_max 1`", NotSupported, "rto_max"),
        ("--speed=1000", NotSupported, "--speed"),
    ] {
        let text = match line.starts_with("--") {
            true => format!("{line}\n{OPEN}"),
            false => format!("{OPEN}{line}\n"),
        };
        let report = run("a.pkt", &text).unwrap();
        let reason = report.reason.clone().unwrap_or_default();
        assert_eq!(report.verdict, expected, "{line}: {report:?}");
        assert!(reason.contains(named), "{line}: {reason}");
        assert!(report.line.is_some() && report.column.is_some(), "{report:?}");
    }
    let nothing = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n";
    assert_eq!(verdict(nothing).0, NotAboutCongestion, "it compares nothing");
}

#[test]
fn errors_name_line_and_column() {
    for (text, place) in [
        ("0 socket(..., SOCK_STREAM) = 3\n  +x\n", "a.pkt:2:4"),
        ("+0 > . 1:10(8)", "a.pkt:1:12"),
        ("+0 < . 1:1(0) win", "a.pkt:1:"),
        ("\n+0 %{ assert", "a.pkt:2:4"),
        ("+0 `sysctl", "a.pkt:1:4"),
        ("+.2~+.1 > . 1:1(0)", "a.pkt:1:"),
        ("99999999999999999999 > . 1:1(0)", "a.pkt:1:1"),
    ] {
        let error = run("a.pkt", text).unwrap_err();
        assert!(error.contains(place), "{text}: {error}");
    }
    let error = run("a.pkt", &format!("{OPEN}+0 %{{\nassert tcpi_rtt ==\n}}%\n")).unwrap_err();
    assert!(error.contains("a.pkt:8:1"), "{error}");
}

#[test]
fn python_has_its_precedence_and_its_rounding() {
    let known = |name: &str| (name == "tcpi_rtt").then_some(100.0);
    let mut names = python::Names::new();
    let holds = |code: &str, names: &mut python::Names| {
        python::run(code, Place::START, names, &known).map_err(|fault| fault.message)
    };
    for code in [
        "assert 1 + 2 * 3 == 7 and not 2 > 3, 'a' % tcpi_rtt",
        "assert (1 + 2) * 3 == 9 or 1 / 0 == 1",
        "assert -7 // 2 == -4; assert -7 % 3 == 2",
        "assert 1 < tcpi_rtt <= 100 != 3",
        "x = 0x10; x += 2; x -= 1\nassert x == 17 # a comment",
        "assert (tcpi_rtt ==\n    100)",
        "assert 6 & 3 == 2 or (6 & 3) == 2; assert abs(-2) == max(1, 2) == min(2, 3)",
        "print('%d' % tcpi_rtt); assert True and not False and not not 1",
    ] {
        if code.contains("/ 0") {
            assert!(holds(code, &mut names).is_err(), "{code}");
        } else {
            assert!(holds(code, &mut names).is_ok_and(|count| count > 0), "{code}");
        }
    }
    let wrong = holds("assert tcpi_rtt == 1 + 1", &mut names).unwrap_err();
    assert!(wrong.contains("tcpi_rtt = 100"), "{wrong}");
    assert!(holds(&format!("assert {}1", "(".repeat(100_000)), &mut names).is_err());
}

#[test]
fn settings_reach_the_sender() {
    let first = |settings: &str, packet: &str| {
        let text = format!(
            "`{settings}`\n{OPEN}+0 write(4, ..., 30000) = 30000\n+0 > . {packet} ack 1\n\
             +.05 %{{ assert tcpi_total_retrans == 0 }}%\n"
        );
        verdict(&text).0 == PacketVerdict::Passes
    };
    assert!(first("sysctl -q net.ipv4.tcp_timestamps=0", "1:10001(10000)"));
    assert!(first("ip route change 192.0.2.1 via 192.168.0.1 dev tun0 initcwnd 4", "1:4001(4000)"));
    // A sender of Reno has half of the window after a loss, and CUBIC 0.7.
    for (control, ssthresh) in [("reno", 5), ("cubic", 7)] {
        let text = format!(
            "`sysctl -q net.ipv4.tcp_congestion_control={control}`\n{OPEN}\
             +0 write(4, ..., 10000) = 10000\n+.1 < . 1:1(0) ack 1 win 1000 <sack 1001:4001>\n\
             +0 %{{ assert tcpi_snd_ssthresh == {ssthresh} }}%\n"
        );
        assert_eq!(verdict(&text).0, PacketVerdict::Passes, "{control}");
    }
}

mod any_text {
    use proptest::prelude::*;

    use super::*;

    /// Words of the language, in any order.
    fn words() -> impl Strategy<Value = String> {
        let word = prop::sample::select(vec![
            "0 ",
            "+0 ",
            "+.1~+.2 ",
            "* ",
            "< ",
            "> ",
            "S ",
            ". ",
            "P. ",
            "SEW ",
            "1:1001(1000) ",
            "1:1(0) ",
            "ack 1 ",
            "ack 4294967295 ",
            "win 65535 ",
            "<mss 1000,nop> ",
            "<sack 1:2> ",
            "<sack 1001:2001 5:3> ",
            "<...> ",
            "socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n",
            "listen(3, 1) = 0\n",
            "write(4, ..., 30000) = 30000\n",
            "close(4) = 0\n",
            "%{ ",
            "}% ",
            "assert ",
            "tcpi_snd_cwnd ",
            "== ",
            "10 ",
            "`sysctl -q net.ipv4.tcp_ecn=1`\n",
            "(",
            ")",
            "[",
            "]",
            "{",
            "}",
            "\"",
            "'",
            "`",
            "\n",
            "// ",
            "/* ",
            "--tolerance_usecs=1\n",
            "é",
            "-",
            "= ",
            "| ",
            "...",
            "0x",
            "99999999999999999999 ",
            "%",
            "-1 ",
            "#",
        ]);
        prop::collection::vec(word, 0..60).prop_map(|words| words.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn has_a_result(text in prop_oneof![words(), ".*"]) {
            let _ = run("a.pkt", &text);
            let _ = run("a.pkt", &format!("{OPEN}{text}"));
            let _ = python::run(&text, Place::START, &mut python::Names::new(), &|_| Some(1.0));
        }

        #[test]
        fn acknowledgments_of_anything_do_not_panic(
            acks in prop::collection::vec((1_u32..40_000, 1_u32..40_000, 0_u32..40_000, 0_u32..900), 0..30)
        ) {
            let mut text = format!("{OPEN}+0 write(4, ..., 30000) = 30000\n");
            for (ack, start, length, win) in acks {
                let end = u64::from(start) + u64::from(length);
                text += &format!("+.02 < . 1:1(0) ack {ack} win {win} <sack {start}:{end}>\n");
            }
            let _ = run("a.pkt", &text);
        }
    }
}
