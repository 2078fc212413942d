//! Invalid input: exit status 2, one clear message, no panic, nothing on standard output.

use std::fs;

use crate::{SMALL, Sandbox, stderr, windward};

/// Runs `windward` with bad input; the message must contain all of `words`.
#[track_caller]
pub(crate) fn refused(args: &[&str], words: &[&str]) {
    let output = windward(args);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{args:?}\n{said}");
    assert!(output.stdout.is_empty(), "{args:?}");
    assert!(said.starts_with("error: "), "{args:?}\n{said}");
    assert!(!said.contains("panicked"), "{said}");
    for word in words {
        assert!(said.contains(word), "no `{word}` in the message to {args:?}:\n{said}");
    }
}

/// Runs the small scenario with `from` replaced by `to`; the message must name the file and
/// contain all of `words`.
#[track_caller]
fn bad_file(from: &str, to: &str, words: &[&str]) {
    assert!(SMALL.contains(from), "{from}");
    let sandbox = Sandbox::new(&SMALL.replacen(from, to, 1));
    let path = sandbox.scenario().display().to_string();
    refused(&["run", &path], &[&["scenario.toml"], words].concat());
}

#[test]
fn unknown_words_get_the_nearest_one() {
    bad_file("\"newreno\"", "\"newrneo\"", &["newrneo", "newreno"]);
    bad_file("count = 1", "cuont = 1", &["cuont", "count"]);
    bad_file("duration", "durration", &["durration", "duration"]);
    bad_file("last_hop", "last_hopp", &["last_hopp", "last_hop"]);
}

#[test]
fn bad_units_and_values_are_named() {
    bad_file("\"5Mbit\"", "\"5 Mbits\"", &["5 Mbits", "rate", "Mbit"]);
    bad_file("\"5ms\"", "\"-5ms\"", &["-5ms", "delay"]);
    bad_file("loss = 0.05", "loss = 1.5", &["1.5", "loss"]);
    bad_file("\"50p\"", "\"0p\"", &["0p", "queue"]);
    bad_file("count = 1", "count = 0", &["count", "0"]);
    bad_file("count = 1", "count = 1000000000", &["count", "1000000000"]);
    bad_file("seed = 7", "seed = -7", &["seed", "-7"]);
}

#[test]
fn things_that_are_no_scenario_are_refused() {
    let sandbox = Sandbox::new("");
    let path = |name: &str| sandbox.path(name).display().to_string();
    refused(&["run", &path("scenario.toml")], &["scenario.toml"]);
    fs::write(sandbox.path("binary.toml"), b"\x7fELF\0\xff\xfe\0\x01").unwrap();
    refused(&["run", &path("binary.toml")], &["binary.toml"]);
    fs::create_dir(sandbox.path("folder.toml")).unwrap();
    refused(&["run", &path("folder.toml")], &["folder.toml"]);
    refused(&["run", &path("absent.toml")], &["absent.toml"]);
    refused(&["sweep", &path("absent.toml")], &["absent.toml"]);
    refused(&["sweep", &path("folder.toml")], &["folder.toml"]);
    refused(&["bench", &path("absent.toml")], &["absent.toml"]);
}

/// Each would otherwise be ignored.
#[test]
fn options_that_a_mode_does_not_honour_are_refused() {
    let sandbox = Sandbox::new(SMALL);
    let page = sandbox.path("page.html").display().to_string();
    for (args, option) in [
        (&["play", "--save", &page, "--set", "duration=1s"][..], "--set"),
        (&["play", "--save", &page, "--duration", "1s"], "--duration"),
        (&["play", "--save", &page, "--seed", "7"], "--seed"),
        (&["reproduce", "--list", "--seed", "7"], "--seed"),
        (&["reproduce", "--dry-run", "--strict"], "--strict"),
        (&["evaluate", "--list", "cubic"], "SUBJECT"),
        (&["evaluate", "--diff", "a", "b", "--seed", "7"], "--seed"),
        (&["evaluate", "cubic", "--dry-run", "--junit", "a"], "--junit"),
        (&["list", "--markdown", "--json"], "--json"),
        (&["script", "--all", "--json"], "--json"),
        #[cfg(target_os = "linux")]
        (&["compare", "--list", "--runs", "5"], "--runs"),
        #[cfg(target_os = "linux")]
        (&["shell", "--json", "--live"], "--live"),
        #[cfg(all(target_os = "linux", feature = "deploy"))]
        (&["forward", "--print-key", "--protocol", "bbr"], "--protocol"),
    ] {
        refused(args, &["cannot be used with", option]);
    }
    refused(&["reproduce", "--worlds-budget", "1s"], &["--worlds"]);
    refused(&["script", "--tolerance-usecs", "1", "rfc9438"], &["--tolerance-usecs", "--rtt"]);
    assert_eq!(sandbox.names(), ["scenario.toml"]);
}

#[test]
fn the_playground_says_which_flows_it_does_not_have() {
    let play = |protocol: &str, words: &[&str]| {
        let sandbox = Sandbox::new(&SMALL.replacen("\"newreno\"", &format!("\"{protocol}\""), 1));
        let path = sandbox.scenario().display().to_string();
        refused(&["play", "--no-browser", "--port", "0", &path], words);
    };
    play("outside:port", &["from programs", "windward shell", "windward emulate"]);
    #[cfg(feature = "stacks")]
    play("quinn:cubic", &["clean-1", "QUIC stack", "windward run"]);
    #[cfg(feature = "stacks")]
    play("quinn:cubik", &["quinn:cubic"]);
}

/// No control characters for a terminal, from any source.
#[test]
fn escape_sequences_do_not_reach_the_terminal() {
    const ESCAPES: &str = "\u{1b}[2J\u{9b}1m\u{7}";
    let sandbox = Sandbox::new(SMALL);
    let file = sandbox.scenario().display().to_string();
    let out = sandbox.path(&format!("out{ESCAPES}")).display().to_string();
    let escaped = sandbox.path(&format!("{ESCAPES}.toml")).display().to_string();
    fs::write(&escaped, SMALL.replace("\"newreno\"", "\"newrneo\"")).unwrap();
    let experiment = sandbox.path("experiment.toml").display().to_string();
    let titled = crate::sweep::small_experiment().replace("\"Small\"", "\"\\u001b]0;x\\u0007\"");
    fs::write(&experiment, titled).unwrap();
    let key = sandbox.path("key.toml").display().to_string();
    fs::write(&key, format!("\"a\\u001bb\" = 1\n{SMALL}")).unwrap();
    let set = format!("flows.lossy.protocol={ESCAPES}");
    for args in [
        &["run", &escaped][..],
        &["run", &format!("absent{ESCAPES}")],
        &["run", &file, "--set", &set],
        &["run", &file, "--set", &format!("{ESCAPES}=1")],
        &["run", &file, "--set", ESCAPES],
        &["run", &file, "--seed", ESCAPES],
        &["run", &file, "--trace", &format!("{file}/{ESCAPES}")],
        &["run", &key],
        &["sweep", &experiment],
        &["sweep", &file, "--out", &out],
        &["explain", ESCAPES],
        &["reproduce", ESCAPES],
        &[ESCAPES],
        &[&format!("--{ESCAPES}")],
    ] {
        let output = windward(args);
        let said = stderr(&output);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{args:?}\n{said}");
        let obeyed = |c: char| c.is_control() && c != '\n';
        assert!(!said.contains(obeyed) && !said.is_empty(), "{args:?}\n{said:?}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
    // On standard output too, where the folder is named.
    let small = sandbox.path("small.toml").display().to_string();
    fs::write(&small, crate::sweep::small_experiment()).unwrap();
    let text = crate::success(["sweep", &small, "--out", &out]);
    assert!(text.contains("out\\u{1b}[2J") && !text.contains('\u{1b}'), "{text:?}");
}

/// Devices that never end: without a limit these would read until memory is full.
#[cfg(target_os = "linux")]
#[test]
fn files_without_an_end_are_refused_at_a_limit() {
    let device = "/dev/zero";
    for args in [
        &["run", device][..],
        &["sweep", device],
        &["evaluate", "cubic", "--suite", device],
        &["router", "lo", "--config", device],
        &["compare", "--rate", "1mbit", "--table", device],
        &["script", device],
    ] {
        refused(args, &[device, "larger than"]);
    }
    refused(&["replay", device], &[device]);
    refused(&["compare-logs", device, device], &[device]);
}

/// Wrong command lines, and a word of the message to each. `FIRST` is a scenario, `SWEEP` an
/// experiment, `OUT` a path in an empty folder.
#[rustfmt::skip]
const WRONG: &[(&[&str], &str)] = &[
    (&["list", "--stacks", "--parts"], "--parts"),
    (&["list", "--json", "--markdown"], "--markdown"),
    (&["list", "x"], "x"),
    (&["explain"], "<NAME"),
    (&["explain", "lr-lmxpc"], "there is no protocol `lr-lmxpc` (did you mean `lr-lmxcp`"),
    (&["explain", "cubic", "reno"], "reno"),
    (&["run"], "FILE"),
    (&["run", "FIRST", "--set", "dumbbell.bottleneck.rtae=1Mbit"], "rate"),
    (&["run", "FIRST", "--set", "flows.lossy.protocol=sakc"], "sack"),
    (&["run", "FIRST", "--set", "duration="], "KEY=VALUE"),
    (&["run", "FIRST", "--seed", "18446744073709551616"], "18446744073709551616"),
    (&["run", "FIRST", "--seed", "-1"], "18446744073709551615"),
    (&["run", "FIRST", "--duration", "-3s"], "-3s"),
    (&["run", "FIRST", "--duration", "3"], "3"),
    (&["run", "FIRST", "--trace-interval", "1s"], "--trace"),
    (&["run", "FIRST", "--trace", "OUT", "--trace-interval", "-1s"], "-1s"),
    (&["run", "FIRST", "--trace", "OUT", "--trace-interval", "5"], "5"),
    (&["run", "FIRST", "--trace", "experiments/examples/first.toml/below"], "cannot make the folder"),
    (&["run", "FIRST", "--qlog-limit", "1MB"], "--qlog"),
    (&["run", "FIRST", "--qlog-format", "qvis"], "--qlog <DIR>"),
    (&["run", "FIRST", "--qlog", "OUT", "--qlog-format", "0.9"], "invalid value '0.9'"),
    (&["run", "FIRST", "--sed", "1"], "--seed"),
    (&["swep"], "sweep"),
    (&["bench", "FIRST", "--runs", "0"], "--runs"),
    (&["run", "FIRST", "--set", "flows.*.protocol={ base = \"cubic\""], "flows.*.protocol: not valid TOML at character 17"),
    (&["run", "FIRST", "--set", "flows.nobody.protocol=cubic"], "valid: clean, lossy"),
    (&["run", "FIRST", "--duration", "0s"], "duration"),
    (&["run", "FIRST", "--duration", "1fortnight"], "fortnight"),
    (&["run", "FIRST", "--seed", "1.5"], "whole number"),
    (&["run", "FIRST", "--trace", "OUT", "--trace-interval", "0s"], "--trace-interval"),
    (&["run", "FIRST", "--trace", "OUT", "--trace-format", "xml"], "parquet"),
    (&["run", "FIRST", "--qlog-flows", "x"], "--qlog"),
    (&["run", "FIRST", "--qlog", "OUT", "--qlog-flows", "nobody"], "nobody"),
    (&["run", "FIRST", "--qlog", "OUT", "--qlog-limit", "many"], "64kB"),
    (&["run", "FIRST", "--pcap-links", "bottleneck"], "--pcap"),
    (&["run", "FIRST", "--pcap", "OUT", "--pcap-links", "nolink"], "nolink"),
    (&["run", "FIRST", "--plot", "OUT.png"], "SVG"),
    (&["run", "FIRST", "--out", "FIRST"], "cannot make the folder"),
    (&["run", "FIRST", "SWEEP"], "loss-sweep"),
    (&["sweep", "FIRST"], "windward run"),
    (&["sweep", "SWEEP", "--quick", "--full"], "--full"),
    (&["sweep", "SWEEP", "--repetitions", "0"], "--repetitions"),
    (&["sweep", "SWEEP", "--threads", "0"], "1..=1024"),
    (&["sweep", "SWEEP", "--threads", "x"], "--threads"),
    (&["sweep", "SWEEP", "--set", "nonsense=1"], "unknown key `nonsense`"),
    (&["sweep", "SWEEP", "--dry-run", "--set", "duration=-1s"], "negative"),
    (&["sweep", "SWEEP", "--dask", "nowhere", "--ray", "auto"], "--ray"),
    (&["reproduce", "lr2008-fgi3"], "`lr2008-fig3`"),
    (&["reproduce", "--quick", "--full"], "--full"),
    (&["reproduce", "--seed", "x"], "--seed"),
    (&["reproduce", "--set", "nonsense=1", "--dry-run"], "nonsense"),
    (&["evaluate"], "<SUBJECT>"),
    (&["evaluate", "Quinn:Cubic={ window = \"reno\" }"], "name of a stack"),
    (&["evaluate", "newreno={window=\"fixed-window\", recovery=\"sack\"}"], "`newreno` is the name of a row"),
    (&["evaluate", "mine={ window = \"cubik\" }"], "did you mean `cubic`"),
    (&["evaluate", "mine={ window = \"cubic\""], "not valid TOML at character"),
    (&["evaluate", "cubic", "cubic", "--out", "OUT"], "named twice"),
    (&["evaluate", "cubic", "--only", "nothing", "--out", "OUT"], "`nothing`"),
    (&["evaluate", "cubic", "--against", "nobody", "--out", "OUT"], "unknown protocol"),
    (&["evaluate", "--list", "--suite", "nosuite"], "rfc9743"),
    (&["evaluate", "--list", "--only", "nothing"], "`nothing`"),
    (&["evaluate", "absent.py:Law"], "there is no file absent.py"),
    (&["compare-logs", "absent1", "absent2"], "absent1"),
    (&["compare-logs", "FIRST", "FIRST"], "not a qlog file"),
    (&["compare-logs", "a", "b", "--tolerance", "2x"], "10%"),
    (&["compare-logs", "a"], "<B>"),
    (&["script", "absent.script"], "absent.script"),
    (&["script", "--protocol", "cubik", "--all"], "did you mean `cubic`"),
    (&["script", "--all", "--json", "--markdown"], "--markdown"),
    (&["script", "FIRST"], "end in .pkt"),
    (&["compare", "--programs", "nobody", "--rate", "1Mbit"], "nobody"),
    (&["compare", "--rate", "1Mbit", "--runs", "0"], "--runs"),
    (&["compare", "--rate", "1Mbit", "--table", "absent.toml"], "absent.toml"),
    (&["compare", "--rate", "1Mbit", "--jobs", "0"], "--jobs"),
    (&["compare", "FIRST", "--rate", "1Mbit"], "--rate"),
    (&["compare", "--rate", "1Mbit", "--loss", "150%"], "between 0 and 1"),
    (&["bench", "FIRST", "--runs", "x"], "--runs"),
    (&["bench", "FIRST", "--set", "x=1"], "unknown key `x`"),
    (&["bench", "SWEEP", "--duration", "x"], "duration"),
    (&["completions", "cmd"], "zsh"),
    (&["completions"], "<SHELL>"),
    (&["man", "--out", "FIRST"], "cannot make the folder"),
    (&["man", "x"], "x"),
    (&["schema", "--reading"], "--reading"),
    (&["nocommand"], "nocommand"),
    (&["--nooption"], "--nooption"),
];

/// Wrong command lines on Linux alone.
#[cfg(target_os = "linux")]
#[rustfmt::skip]
const WRONG_ON_LINUX: &[(&[&str], &str)] = &[
    (&["shell", "--rate", "fast", "--", "true"], "Mbit"),
    (&["shell", "--rate", "0", "--", "true"], "a rate needs a unit"),
    (&["shell", "--rate", "1mbit", "--queue", "0bdp", "--", "true"], "greater than zero before `bdp`"),
    (&["shell", "--rate", "10m", "--", "true"], "write 10mbit (or 10Mbit)"),
    (&["shell", "--loss", "5", "--", "true"], "write 5% or 0.05"),
    (&["compare", "--rate", "1Mbit", "--programs", "cubik"], "no program is called `cubik`"),
    (&["compare", "--rate", "1Mbit", "--loss", "0,100%"], "nothing would arrive"),
    (&["compare", "--rate", "1Mbit", "--time", "1.5s"], "whole seconds"),
    (&["compare", "--rate", "1Mbit", "--programs", "cubic", "--alone", "--endpoint", "initial_window=0"], "initial_window"),
    (&["compare", "--rate", "1Mbit", "--programs", "cubic", "--alone", "--set", "links.down.rat=1"], "rat"),
    (&["compare", "experiments/emulate/satellite.toml", "--loss", "1%", "--programs", "cubic"], "--link NAME"),
    (&["run", "experiments/emulate/satellite.toml"], "use windward shell or windward emulate"),
    (&["perf", "client", "127.0.0.1", "--set", "packet_sise=9"], "packet_size"),
    (&["perf", "client", "127.0.0.1", "--set", "rwnd=70000"], "rwnd"),
    (&["perf", "client", "127.0.0.1", "--set", "packet_size=9000000"], "packet"),
    (&["perf", "client", "127.0.0.1", "--set", "packet_size=1000", "--datagram", "1000"], "packet_size"),
    (&["perf", "client", "127.0.0.1", "-n", "0p"], "--bytes"),
    (&["perf", "client", "127.0.0.1", "--protocol", "{ window = 7 }"], "--protocol"),
    (&["perf", "client", "127.0.0.1", "--time", "0s"], "--time"),
    (&["perf", "client", "127.0.0.1", "--datagram", "100"], "128 to 9000"),
    (&["perf", "client", "127.0.0.1", "--psk", "/dev/null"], "16 bytes"),
    (&["shell", "absent.toml", "--", "true"], "no such file"),
    (&["shell", "FIRST", "--rate", "1Mbit", "--", "true"], "--rate"),
    (&["shell", "--every", "1ms", "--", "true"], "10ms"),
    (&["shell", "--rate", "1Mbit", "--payload", "--", "true"], "--record"),
    (&["shell", "--rate", "1Mbit", "--mtu", "100", "--", "true"], "576"),
    (&["shell", "--rate", "1Mbit", "--aqm", "nothing", "--", "true"], "fq-codel"),
    (&["shell", "--rate", "1Mbit", "--loss", "2", "--", "true"], "between 0 and 1"),
    (&["shell", "--rate", "1Mbit", "--trace", "absent.trace", "--", "true"], "--trace"),
    (&["shell", "--rate", "1Mbit", "--up", "speed=1", "--", "true"], "unknown key `speed`"),
    (&["emulate"], "<FILE>"),
    (&["emulate", "FIRST"], "outside:port"),
    (&["emulate", "absent.toml"], "no such file"),
    (&["emulate", "FIRST", "--lead", "x"], "--lead"),
    (&["exec"], "<NODE>"),
    (&["exec", "node", "--process", "x"], "--process"),
    (&["replay"], "<FILE>"),
    (&["replay", "absent.rec"], "absent.rec"),
    (&["replay", "FIRST"], "not a record"),
    (&["perf", "client"], "<HOST>"),
    (&["perf", "client", "127.0.0.1", "--protocol", "cubik"], "did you mean `cubic`"),
    (&["perf", "client", "127.0.0.1", "-p", "70000"], "--port"),
    (&["perf", "client", "127.0.0.1", "--psk", "absent"], "absent"),
    (&["perf", "client", "127.0.0.1", "--parallel", "0"], "--parallel"),
    (&["perf", "client", "127.0.0.1", "--datagram", "5"], "--datagram"),
    (&["perf", "server", "--bind", "nowhere"], "--bind"),
    (&["perf", "server", "--max-rate", "fast"], "--max-rate"),
    (&["perf", "server", "--psk", "absent"], "absent"),
    (&["perf", "server", "--min-rto", "x"], "--min-rto"),
];

#[test]
fn wrong_command_lines_are_refused_with_one_error() {
    let sandbox = Sandbox::new("");
    let out = sandbox.path("out").display().to_string();
    let check = |(args, word): &(&[&str], &str)| {
        let file = |arg: &&str| match *arg {
            "FIRST" => "experiments/examples/first.toml".to_owned(),
            "SWEEP" => "experiments/examples/loss-sweep.toml".to_owned(),
            other => other.replace("OUT", &out),
        };
        let args: Vec<String> = args.iter().map(file).collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        refused(&args, &[word]);
        let said = stderr(&windward(&args));
        assert_eq!(said.lines().filter(|line| line.starts_with("error")).count(), 1, "{said}");
    };
    WRONG.iter().for_each(check);
    #[cfg(target_os = "linux")]
    WRONG_ON_LINUX.iter().for_each(check);
    assert_eq!(sandbox.names(), ["scenario.toml"]);
}
