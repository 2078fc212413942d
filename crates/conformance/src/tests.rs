use super::*;

/// A script with a connection of four packets per round trip, and its expectations.
fn script(change: &str, expect: &str) -> String {
    format!(
        "title = \"a\"\nsource = \"b\"\nprotocols = [\"newreno\"]\nduration = \"1s\"\n\
         path = {{ rtt = \"100ms\" }}\n{change}\n[endpoint]\ninitial_window = 4\nrwnd = 4\n\
         [[expect]]\nsource = \"c\"\nsays = \"d\"\n{expect}\n"
    )
}

fn report(change: &str, expect: &str) -> ScriptReport {
    Script::parse("a.toml", &script(change, expect))
        .unwrap()
        .run("newreno", &Stacks::none())
        .unwrap()
}

#[track_caller]
fn refused(text: &str, words: &[&str]) {
    let read = Script::parse("a.toml", text);
    let error =
        read.and_then(|script| script.run("newreno", &Stacks::none())).unwrap_err().to_string();
    for word in words {
        assert!(error.contains(word), "no `{word}` in: {error}");
    }
}

#[test]
fn the_experiments_of_the_program_match_their_texts() {
    for script in all().unwrap() {
        for protocol in &script.protocols {
            let report = script.run(protocol, &Stacks::none()).unwrap();
            let wrong: Vec<_> = report.findings.iter().filter(|f| f.verdict.is_failure()).collect();
            assert!(wrong.is_empty(), "{} with {protocol}: {wrong:#?}", script.name);
        }
    }
}

#[test]
fn names_stand_for_a_script_or_for_all_of_a_text() {
    assert_eq!(select("rfc9438/w-cubic").unwrap().len(), 1);
    assert!(select("rfc5681").unwrap().len() > 2);
    let error = select("rfc9438/w-cubix").unwrap_err().to_string();
    assert!(error.contains("did you mean `rfc9438/w-cubic`"), "{error}");
}

#[test]
fn an_expectation_can_fail_and_says_what_was_seen() {
    // rwnd keeps four packets under way: 4, 8, 12 at 0, 100 and 200 ms.
    let report = report("", "at = \"200ms\"\npackets = 13");
    assert!(!report.holds());
    let Finding { expected, seen, verdict, at, .. } = &report.findings[0];
    assert_eq!((expected.as_str(), seen.as_str(), at.as_str()), ("13", "12", "200ms"));
    assert_eq!((*verdict, report.findings[0].seen_at_s), (Compliance::NotMet, Some(0.2)));
}

#[test]
fn a_note_of_a_departure_is_held_to_be_true() {
    let wrong = "at = \"200ms\"\npackets = 13\ndeparts = { newreno = \"counts otherwise\" }";
    let report_of_wrong = report("", wrong);
    assert!(report_of_wrong.holds());
    assert_eq!(report_of_wrong.findings[0].verdict, Compliance::Departs);
    assert_eq!(report_of_wrong.findings[0].reason.as_deref(), Some("counts otherwise"));
    let right = report("", &wrong.replace("13", "12"));
    assert_eq!(right.findings[0].verdict, Compliance::DepartsNoMore);
    assert!(!right.holds());
}

#[test]
fn moments_are_before_after_and_beyond_what_happens() {
    for (at, packets) in [
        ("before 100ms", 4),
        ("100ms", 8),
        ("before ack 1", 4),
        ("ack 1", 5),
        ("before ack 3", 6),
        ("ack 4 + 99ms", 8),
        ("ack 4 + 100ms", 12),
        ("before ack 4 + 100ms", 8),
        ("packet 5", 5),
        ("before packet 1", 0),
    ] {
        let report = report("", &format!("at = \"{at}\"\npackets = {packets}"));
        assert!(report.holds(), "{at}: {:?}", report.findings);
    }
    let never = report("", "at = \"timeout 2\"\ntime = \"1s\"");
    assert_eq!(never.findings[0].seen, "only 0 of the event timeout in 1s, not 2");
}

#[test]
fn quantities_compare_with_other_moments() {
    for expect in [
        "at = \"200ms\"\npackets = { plus = 4, from = \"100ms\" }",
        "at = \"200ms\"\npackets = { times = 1.5, of = \"100ms\" }",
        "at = \"200ms\"\npackets = { times = 3, of = \"100ms\", quantity = \"in_flight\" }",
        "at = \"200ms\"\npackets = [12, 13]",
        "at = \"200ms\"\npackets = { is = 13, within = 1 }",
        "at = \"200ms\"\npackets = { is = 12.5, within = \"5%\" }",
        "at = \"200ms\"\npackets = { least = 12 }",
        "at = \"ack 5\"\ntime = { plus = \"100ms\", from = \"ack 4\" }",
        "at = \"200ms\"\nssthresh = inf",
        "at = \"0s\"\npacking_rate = 1",
    ] {
        if expect.contains("packing") {
            refused(&script("", expect), &["unknown key", "packing_rate"]);
            continue;
        }
        let report = report("", expect);
        assert!(report.holds(), "{expect}: {:?}", report.findings);
    }
    // Not paced, so that nothing is reported.
    let report = report("", "at = \"200ms\"\npacing_rate = 12");
    assert_eq!(report.findings[0].verdict, Compliance::NotTold);
    assert!(report.holds());
}

#[test]
fn packets_are_lost_marked_and_delayed_as_rules_say() {
    // 1000 bytes at 8 Mbit/s take a millisecond each: the first is back after 101 ms.
    let rate = "path.rate = \"8Mbit\"";
    let at = "at = \"ack 1\"\ntime = \"101ms\"";
    let text = script("", at).replace("path = { rtt = \"100ms\" }", "path.rtt = \"100ms\"");
    let with_rate = text.replace("path.rtt", &format!("{rate}\npath.rtt"));
    let report_of = |text: &str| {
        Script::parse("a.toml", text).unwrap().run("newreno", &Stacks::none()).unwrap()
    };
    assert!(report_of(&with_rate).holds(), "{:?}", report_of(&with_rate).findings);
    // One in transmission and one in the queue: the other two of four are lost at once.
    let tiny = with_rate
        .replace(rate, &format!("{rate}\npath.queue = 1"))
        .replace(at, "at = \"loss 2\"\ntime = \"0s\"\ndata = 4");
    assert!(report_of(&tiny).holds(), "{:?}", report_of(&tiny).findings);
    let rules = [
        ("[[data]]\npacket = 2\ndelay = \"30ms\"", "at = \"130ms\"\nacked = 4"),
        ("[[data]]\npacket = 2\ndelay = \"30ms\"", "at = \"before 130ms\"\nacked = 1"),
        ("[[data]]\ndata = \"2..3\"\ntransmission = 1\nlost = true", "at = \"loss 2\"\ndata = 3"),
        ("[[data]]\nfrom = \"100ms\"\nlost = true", "at = \"900ms\"\nacked = 4"),
        ("[[data]]\nevery = 2\nfirst = 1\nlost = true", "at = \"900ms\"\npackets = { least = 9 }"),
        ("[[data]]\nevery = 2\nfirst = 1\nlost = true", "at = \"loss 1\"\ndata = 2"),
        ("[[data]]\nevery = 4\nlost = true", "at = \"loss 2\"\ntime = \"200ms\""),
        ("[[acks]]\nack = [1, 2]\nlost = true", "at = \"ack 1\"\nacked = 3"),
        ("[[acks]]\nack = 4\ndelay = \"10ms\"", "at = \"ack 4\"\ntime = \"110ms\""),
        ("[[offer]]\npackets = 1\nevery = \"50ms\"\ntimes = 3", "at = \"60ms\"\npackets = 2"),
        ("[[offer]]\npackets = 1\nevery = \"50ms\"\ntimes = 3", "at = \"1s\"\npackets = 3"),
    ];
    // With `every`: the fourth, and the eighth. Three ACKs at 100 ms let out the fifth to the
    // seventh.
    for (rule, expect) in rules {
        let report = report(rule, expect);
        assert!(report.holds(), "{rule}: {:?}", report.findings);
    }
    // A mark has no effect without ECN; with ECN it is echoed.
    let marked = "[[data]]\npacket = 3\nmarked = true";
    let echo = "at = \"echo 1\"\ntime = \"100ms\"";
    assert!(!report(marked, echo).holds());
    assert!(report_of(&script(marked, echo).replace("rwnd", "ecn = true\nrwnd")).holds());
}

#[test]
fn bad_scripts_are_refused_with_the_line_and_a_remedy() {
    let good = script("", "at = \"1s\"\ncwnd = 4");
    for (from, to, words) in [
        ("duration = \"1s\"", "", vec!["`duration` is missing"]),
        ("\"1s\"\npath", "\"0s\"\npath", vec!["a.toml:4", "must lie between"]),
        ("\"1s\"\npath", "\"2000days\"\npath", vec!["a.toml:4", "duration"]),
        ("rtt = \"100ms\"", "rtt = \"0ms\"", vec!["a.toml:5", "must lie between"]),
        ("rtt = \"100ms\"", "rtt = 100", vec!["a.toml:5", "needs a unit", "100"]),
        ("rtt = \"100ms\"", "rtt = \"1ms\", queue = 3", vec!["needs a `rate`"]),
        ("initial_window", "initial_widow", vec!["a.toml:8", "did you mean `initial_window`"]),
        ("rwnd = 4", "rwnd = -4", vec!["a.toml:9", "rwnd", "-4"]),
        ("rwnd = 4", "protocol = \"sack\"", vec!["a.toml:9", "endpoint.protocol: unknown key"]),
        ("cwnd = 4", "", vec!["expects nothing", "cwnd"]),
        ("cwnd = 4", "cwnd = { least = 4, most = 3 }", vec!["a.toml:14", "no value meets both"]),
        ("cwnd = 4", "cwnd = { is = 4, times = 3 }", vec!["give one of `is`, `times`, `plus`"]),
        ("cwnd = 4", "cwnd = { times = 3 }", vec!["`of` is missing"]),
        ("cwnd = 4", "cwnd = { plus = 3, of = \"0s\" }", vec!["`from` is missing"]),
        ("cwnd = 4", "cwnd = nan", vec!["a.toml:14", "must be a number"]),
        ("cwnd = 4", "cwnd = { is = 4, within = \"-3%\" }", vec!["a.toml:14", "share"]),
        ("cwnd = 4", "cwmd = 4", vec!["cwmd"]),
        ("cwnd = 4", "time = \"1s\"", vec!["needs an event"]),
        ("at = \"1s\"", "at = \"2s\"", vec!["the end of the `duration`"]),
        ("at = \"1s\"", "at = \"akc 2\"", vec!["a.toml:13", "did you mean `ack`"]),
        ("at = \"1s\"", "at = \"ack 0\"", vec!["counted from one"]),
        ("at = \"1s\"", "at = \"ack 99999999999999999999\"", vec!["counted from one"]),
        ("at = \"1s\"", "at = \"soon\"", vec!["a.toml:13", "not a moment"]),
        ("says = \"d\"", "", vec!["`says` is missing"]),
        ("says = \"d\"", "says = \"\\u001b[2J\"", vec!["invisible character"]),
        ("[\"newreno\"]", "[]", vec!["`protocols` is missing"]),
        ("title", "titel", vec!["title"]),
    ] {
        assert!(good.contains(from), "{from}");
        refused(&good.replacen(from, to, 1), &words);
    }
    refused("", &["is empty"]);
    refused("title = ", &["a.toml:1"]);
    for (rule, words) in [
        ("[[data]]\npacket = 0\nlost = true", vec!["a number from 1"]),
        ("[[data]]\npacket = \"5..3\"\nlost = true", vec!["a number from 1"]),
        ("[[data]]\npacket = 1", vec!["the fate of packets"]),
        ("[[data]]\npacket = 1\nlost = true\nmarked = true", vec!["by one of"]),
        ("[[data]]\ntransmission = 1\nlost = true", vec!["needs `data`"]),
        ("[[data]]\nfrom = \"2s\"\nuntil = \"1s\"\nlost = true", vec!["before `until`"]),
        ("[[acks]]\nack = 1\nmarked = true", vec!["marked: unknown key", "lost, delay"]),
        ("[[offer]]\npackets = 0", vec!["must lie between 1 and"]),
        ("[[offer]]\nbulk = true\nevery = \"1s\"\ntimes = 2", vec!["need each other"]),
        ("[[offer]]\nbulk = true\npackets = 4", vec!["has either"]),
        ("[[offer]]\npackets = 4\nevery = \"1s\"\ntimes = 1000000", vec!["at most 10000"]),
    ] {
        refused(&script(rule, "at = \"1s\"\ncwnd = 4"), &words);
    }
}

#[test]
fn unsupported_scripts_are_refused() {
    let text = script("", "at = \"1s\"\ncwnd = 4");
    let script = Script::parse("a.toml", &text).unwrap();
    let error = |protocol: &str| script.run(protocol, &Stacks::none()).unwrap_err().to_string();
    assert!(error("xcp").contains("needs xcp routers"), "{}", error("xcp"));
    assert!(error("newrneo").contains("newreno"), "{}", error("newrneo"));
    assert!(error("{ window = \"bbr\", recovery = \"sack\" }").contains("number"));
    assert!(
        script
            .run("{ base = \"newreno\", recovery = \"packet-number\" }", &Stacks::none())
            .unwrap()
            .holds()
    );
    // A window that doubles each millisecond, without end.
    let text = text.replace("rwnd = 4", "rwnd = 1000000").replace("100ms", "1ms");
    let error = Script::parse("a.toml", &text)
        .unwrap()
        .run("newreno", &Stacks::none())
        .unwrap_err()
        .to_string();
    assert!(error.contains("more than 300000 events") && error.contains("`rate`"), "{error}");
}

#[test]
fn the_same_script_gives_the_same_report() {
    let script = select("rfc9438/w-cubic").unwrap().remove(0);
    assert_eq!(
        script.run("cubic", &Stacks::none()).unwrap(),
        script.run("cubic", &Stacks::none()).unwrap()
    );
}
