use super::*;

/// Our scripts for packetdrill, by name.
fn packetdrill() -> Vec<Script> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/scripts/packetdrill");
    Script::files(folder.as_ref()).unwrap().iter().map(|file| Script::read(file).unwrap()).collect()
}

/// The beginning of a script with a connection of ten segments and a round trip of 100 ms.
const OPEN: &str = "\
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 65535 <mss 1000,sackOK,nop,wscale 7>
+0 > S. 0:0(0) ack 1 <mss 1460,sackOK,nop,wscale 8>
+.1 < . 1:1(0) ack 1 win 1000
+0 accept(3, ..., ...) = 4
";

fn run(name: &str, text: &str) -> Result<Report, String> {
    let script = Script::parse(name, text).map_err(|error| error.to_string())?;
    script.run(None, &Stacks::default(), TOLERANCE).map_err(|error| error.to_string())
}

fn verdict(text: &str) -> (Verdict, String) {
    let report = run("a.pkt", text).unwrap();
    (report.verdict, report.reason.unwrap_or_default())
}

#[test]
fn our_scripts_pass() {
    for script in packetdrill() {
        let report = script.run(None, &Stacks::default(), TOLERANCE).unwrap();
        assert_eq!(report.verdict, Verdict::Passes, "{report:?}");
        assert!(report.counts.packets >= 3 && report.counts.assertions >= 2, "{report:?}");
    }
    for script in all().unwrap() {
        for protocol in script.protocols(&Stacks::none()) {
            let report = script.run(protocol, &Stacks::none(), TOLERANCE).unwrap();
            assert_eq!(report.verdict, Verdict::Passes, "{report:#?}");
            assert_eq!(report, script.run(protocol, &Stacks::none(), TOLERANCE).unwrap());
        }
    }
}

/// Adds `more` to a number at the end of `before`, if there is one.
fn changed(before: &str, more: u64) -> Option<String> {
    let digits = before.len() - before.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (head, number) = before.split_at(before.len() - digits);
    let number: u64 = number.parse().ok()?;
    Some(format!("{head}{}", number + more))
}

/// Copies of the line, each with another expected number or another comparison.
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
    for (operator, other) in [("<=", ">"), (">=", "<")] {
        for (at, _) in bare.match_indices(operator).filter(|_| bare.starts_with("assert ")) {
            wrong.push(format!("{}{other}{}", &bare[..at], &bare[at + 2..]));
        }
    }
    if let Some((time, packet)) = bare.split_once('>')
        && !bare.contains(['<', '='])
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
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/scripts");
    for file in Script::files(folder.as_ref()).unwrap() {
        let (name, text) = (file.display(), std::fs::read_to_string(&file).unwrap());
        let lines: Vec<&str> = text.lines().collect();
        for at in 0..lines.len() {
            for wrong in wrong_lines(lines[at].trim_start()) {
                let mut lines = lines.clone();
                lines[at] = &wrong;
                let report = run("a.pkt", &lines.join("\n")).unwrap();
                let is_here = |finding: &&Finding| finding.line == at + 1;
                let found = report.findings.iter().find(is_here).map(|finding| finding.verdict);
                if found == Some(Compliance::Departs) {
                    continue;
                }
                assert_eq!(report.verdict, Verdict::Differs, "{name}: {wrong}: {report:?}");
                // Either there or at the event that it moved.
                assert!(report.line >= Some(at + 1), "{name}: {wrong}: {report:?}");
                tried += 1;
            }
        }
    }
    assert!(tried > 300, "{tried}");
}

#[test]
fn a_difference_shows_both_packets_and_the_time() {
    let text = format!("{OPEN}+0 write(4, ..., 3000) = 3000\n+.01 > . 1:3001(3000) ack 1\n");
    let (verdict, reason) = verdict(&text);
    assert_eq!(verdict, Verdict::Differs);
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
    assert_eq!(run("a.pkt", &wide).unwrap().verdict, Verdict::Passes);
    for (at, passes) in [("+.3", true), ("+.275", true), ("+.26", false), ("+.35", false)] {
        // The probe of 2 x 100 ms comes first; then the timeout, 300 ms after it.
        let text = format!(
            "{OPEN}+0 write(4, ..., 3000) = 3000\n+0 > . 1:3001(3000) ack 1\n\
             +.2 > . 2001:3001(1000) ack 1\n{at} > . 1:1001(1000) ack 1\n"
        );
        let report = run("a.pkt", &text).unwrap();
        assert_eq!(report.verdict == Verdict::Passes, passes, "{at}: {report:?}");
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
    assert_eq!(verdict, Verdict::Differs);
    assert!(reason.contains("actual packet:  0.100000 . 1001:2001(1000) ack 1"), "{reason}");
}

#[test]
fn what_is_not_read_is_refused_by_name_and_never_passes() {
    use Verdict::{NotAboutCongestion, NotSupported};
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
    let known =
        |name: &str, _: Option<&str>| Ok((name == "tcpi_rtt").then_some(python::Value::Is(100.0)));
    let mut names = python::Names::new();
    let holds = |code: &str, names: &mut python::Names| {
        let mut count = 0;
        let mut judge = |assertion: python::Assertion| {
            count += 1;
            let failed = Fault::new(assertion.place, Subject::Differs, assertion.seen);
            if assertion.holds == Some(true) { Ok(()) } else { Err(failed) }
        };
        let ran = python::run(code, Place::START, names, &known, &mut judge);
        ran.map(|()| count).map_err(|fault| fault.message)
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
        verdict(&text).0 == Verdict::Passes
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
        assert_eq!(verdict(&text).0, Verdict::Passes, "{control}");
    }
}

/// A script of a simulated path, with four packets per round trip of 100 ms.
fn on_path(options: &str, events: &str) -> String {
    format!(
        "--title=a\n--source=b\n--protocol=newreno\n--duration=1s\n--rtt=100ms\n{options}\n\
         --initial_window=4\n--rwnd=4\n{events}\n"
    )
}

#[track_caller]
fn holds(options: &str, at: &str, assertion: &str) -> Report {
    let text = on_path(options, &format!("{at} %{{ assert {assertion} }}%"));
    run("a.pkt", &text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn moments_are_before_after_and_beyond_what_happens() {
    for (at, packets) in [
        ("before .1", 4),
        (".1", 8),
        ("before ack 1", 4),
        ("ack 1", 5),
        ("before ack 3", 6),
        ("ack 4 + .099", 8),
        ("ack 4 + .1", 12),
        ("before ack 4 + .1", 8),
        ("packet 5", 5),
        ("before packet 1", 0),
    ] {
        for (at, assertion) in [
            (at, format!("packets == {packets}")),
            ("1", format!("packets(\"{at}\") == {packets}")),
        ] {
            let report = holds("", at, &assertion);
            assert_eq!(report.verdict, Verdict::Passes, "{at}: {report:?}");
        }
    }
    for (at, seen) in
        [("timeout 2", "only 0 of the event timeout in 1s, not 2"), ("2", "2 is after the end, 1s")]
    {
        let report = holds("", at, "time == 1");
        assert_eq!((report.verdict, report.findings[0].seen.as_str()), (Verdict::Differs, seen));
    }
}

#[test]
fn an_assertion_can_fail_depart_or_lack_its_value() {
    // rwnd keeps four packets under way: 4, 8, 12 at 0, 100 and 200 ms.
    let report = holds("", ".2", "packets == 13");
    let Finding { at, seen, verdict, seen_at_s, .. } = &report.findings[0];
    assert_eq!(
        (at.as_deref(), seen.as_str(), *seen_at_s),
        (Some("0.2"), "packets = 12", Some(0.2))
    );
    assert_eq!((report.verdict, *verdict), (Verdict::Differs, Compliance::NotMet));
    // A note of a departure must be true.
    for (packets, verdict, compliance) in [
        (13, Verdict::Passes, Compliance::Departs),
        (12, Verdict::Differs, Compliance::DepartsNoMore),
    ] {
        let code = format!("departs(\"newreno\", \"why\"); assert packets == {packets}");
        let report = run("a.pkt", &on_path("", &format!(".2 %{{ {code} }}%"))).unwrap();
        let finding = &report.findings[0];
        assert_eq!((report.verdict, finding.verdict), (verdict, compliance));
        assert_eq!(finding.reason.as_deref(), Some("why"));
    }
    // Not paced, so that nothing is reported.
    let report = holds("", ".2", "pacing_rate == 12");
    assert_eq!(report.findings[0].verdict, Compliance::NotTold);
    assert_eq!(report.verdict, Verdict::Passes);
}

#[test]
fn packets_are_lost_marked_and_delayed_as_rules_say() {
    for (options, at, assertion) in [
        // 1000 bytes at 8 Mbit/s take a millisecond each: the first is back after 101 ms.
        ("--rate=8Mbit", "ack 1", "time == 0.101"),
        // One in transmission and one in the queue: the other two of four are lost at once.
        ("--rate=8Mbit\n--queue=1", "loss 2", "time == 0 and data == 4"),
        ("--delay=30ms, packets 2", ".13", "acked == 4"),
        ("--delay=30ms, packets 2", "before .13", "acked == 1"),
        ("--lose=data 2..3, transmission 1", "loss 2", "data == 3"),
        ("--lose=packets, from 100ms", ".9", "acked == 4"),
        ("--lose=packets, every 2, first 1", ".9", "packets >= 9"),
        ("--lose=packets, every 2, first 1", "loss 1", "data == 2"),
        // The fourth, and the eighth. Three ACKs at 100 ms let out the fifth to the seventh.
        ("--lose=packets, every 4", "loss 2", "time == 0.2"),
        ("--lose=acks 1 2", "ack 1", "acked == 3"),
        ("--delay=10ms, acks 4", "ack 4", "time == 0.11"),
        ("--ecn=true\n--mark=packets 3", "echo 1", "time == 0.1"),
    ] {
        let report = holds(options, at, assertion);
        assert_eq!(report.verdict, Verdict::Passes, "{options}: {report:?}");
    }
    // A value that never came is no number.
    let late = ".2 %{ late = cwnd(\"reduction 7\"); assert late != 5 }%";
    assert_ne!(run("a.pkt", &on_path("", late)).unwrap().verdict, Verdict::Passes);
    // A mark has no effect without ECN.
    assert_eq!(holds("--mark=packets 3", "echo 1", "time == 0.1").verdict, Verdict::Differs);
    let writes = "0 write(3, ..., 1000) = 1000\n+.05 write(3, ..., 1000) = 1000\n\
                  .06 %{ assert packets == 2 }%\n1 %{ assert packets == 2 }%";
    assert_eq!(run("a.pkt", &on_path("", writes)).unwrap().verdict, Verdict::Passes);
}

#[test]
fn bad_scripts_of_a_path_are_refused_with_the_place_and_a_remedy() {
    for (options, events, said) in [
        ("--duration=0s", "", "a.pkt:6:1: --duration=0s: must be more than zero"),
        ("--duration=2000days", "", "a.pkt:6:1"),
        ("--rtt=100", "", "a.pkt:6:1: --rtt=100: "),
        ("--queue=3", "", "--queue needs --rate"),
        ("--initial_widow=4", "", "did you mean `initial_window`"),
        ("--protocols=sack", "", "unknown option"),
        ("--dupack_threshold=-4", "", "a.pkt:6:1: --dupack_threshold=-4"),
        ("--lose=packets 0", "", "a list of numbers from one"),
        ("--lose=packets 5..3", "", "a list of numbers from one"),
        ("--lose=all", "", "unknown word `all`"),
        ("--lose=every 3", "", "names no `packets`"),
        ("--lose=packets, transmission 1", "", "needs `data`"),
        ("--lose=packets, from 2s, until 1s", "", "before `until`"),
        ("--mark=acks 1", "", "acks have no marks"),
        ("--delay=packets", "", "--delay=packets"),
        (
            "",
            "akc 2 %{ assert True }%",
            "a.pkt:9:1: expected a time or an event with a number; did you mean `ack`",
        ),
        ("", "ack 0 %{ assert True }%", "counted from one"),
        ("", "ack 99999999999999999999 %{ assert True }%", "too large"),
        ("", "* %{ assert True }%", "needs a time, or an event"),
        ("", ".1 %{ assert cwmd == 4 }%", "a.pkt:9:6: `cwmd` is not defined"),
        ("", ".1 %{ assert data == 4 }%", "needs a packet"),
        ("", ".1 %{ assert cwnd(\"soon\") == 4 }%", "a time or an event with a number"),
        ("", "0 write(3, ..., 10) = 10", "multiples of 1000 bytes"),
        ("", "ack 2 write(3, ..., 1000) = 1000", "at a time, and not at an event"),
        ("", "0 close(3) = 0", "no calls but `write`"),
        ("", "0 > . 1:1001(1000)", "its path is simulated"),
        ("", "", "asserts nothing"),
    ] {
        let error = run("a.pkt", &on_path(options, events)).unwrap_err();
        assert!(error.contains(said), "{options} {events}: no `{said}` in: {error}");
    }
    let error = run("a.pkt", "--rtt=1ms\n").unwrap_err();
    assert!(error.contains("the option --title is missing"), "{error}");
    // A window that doubles each millisecond, without end.
    let endless = on_path("", "").replace("rwnd=4", "rwnd=1000000").replace("100ms", "1ms");
    let error = run("a.pkt", &endless).unwrap_err();
    assert!(error.contains("more than 300000 events") && error.contains("--rate"), "{error}");
    let script = Script::parse("a.pkt", &on_path("", "1 %{ assert cwnd >= 4 }%")).unwrap();
    let run = |protocol: &str| {
        let report = script.run(Some(protocol), &Stacks::none(), TOLERANCE);
        report.map(|report| report.verdict).map_err(|error| error.to_string())
    };
    for (protocol, said) in [
        ("xcp", "needs xcp routers"),
        ("newrneo", "newreno"),
        ("{ window = \"bbr\", recovery = \"sack\" }", "number"),
    ] {
        assert!(run(protocol).is_err_and(|error| error.contains(said)), "{protocol}");
    }
    let composed = "{ base = \"newreno\", recovery = \"packet-number\" }";
    assert_eq!(run(composed), Ok(Verdict::Passes));
}

#[test]
fn names_stand_for_a_script_or_for_all_of_a_text() {
    assert_eq!(select("rfc9438/w-cubic").unwrap().len(), 1);
    assert!(select("rfc5681").unwrap().len() > 2);
    let error = select("rfc9438/w-cubix").unwrap_err().to_string();
    assert!(error.contains("did you mean `rfc9438/w-cubic`"), "{error}");
}

mod any_text {
    use proptest::prelude::*;

    use super::*;

    /// Words of the language, in any order.
    fn words() -> impl Strategy<Value = String> {
        const WORDS: &str = "0 ~+0 ~+.1~* ~< ~> ~S ~. ~P. ~SEW ~1:1001(1000) ~1:1(0) ~ack 1 ~win 65535 ~\
            ack 4294967295 ~<mss 1000,nop> ~<sack 1:2> ~<sack 1001:2001 5:3> ~<...> ~%{ ~}% ~assert ~\
            socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n~listen(3, 1) = 0\n~close(4) = 0\n~== ~10 ~\
            write(4, ..., 30000) = 30000\n~tcpi_snd_cwnd ~`sysctl -q net.ipv4.tcp_ecn=1`\n~(~)~[~]~\
            {~}~\"~'~`~\n~// ~/* ~--tolerance_usecs=1\n~é~-~= ~| ~...~0x~99999999999999999999 ~%~\
            -1 ~#~--lose=packets, from ~--rtt=1ms\n~before ~retransmission ~+ ~cwnd(\"ack 1\") ~and ~not ";
        let word = prop::sample::select(WORDS.split('~').collect::<Vec<_>>());
        prop::collection::vec(word, 0..60).prop_map(|words| words.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn has_a_result(text in prop_oneof![words(), ".*"]) {
            let _ = run("a.pkt", &text);
            let _ = run("a.pkt", &format!("{OPEN}{text}"));
            let values = |_: &str, _: Option<&str>| Ok(Some(python::Value::Is(1.0)));
            let mut names = python::Names::new();
            let _ = python::run(&text, Place::START, &mut names, &values, &mut |_| Ok(()));
            let _ = run("a.pkt", &on_path("", &text));
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
