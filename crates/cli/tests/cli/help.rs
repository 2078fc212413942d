//! Help, versions, completions and manual pages.

use crate::{Sandbox, json, repository, stderr, success, windward};

const COMMANDS: &[&str] = &[
    "list",
    "explain",
    "run",
    "sweep",
    "reproduce",
    "evaluate",
    "script",
    "bench",
    "play",
    "completions",
    "man",
    "schema",
    "compare-logs",
    #[cfg(target_os = "linux")]
    "compare",
    #[cfg(target_os = "linux")]
    "perf",
    #[cfg(all(target_os = "linux", feature = "deploy"))]
    "receive",
    #[cfg(all(target_os = "linux", feature = "deploy"))]
    "send",
    #[cfg(all(target_os = "linux", feature = "deploy"))]
    "peers",
];

#[test]
fn alone_it_says_what_it_can_do() {
    let text = success::<&str>([]);
    for word in COMMANDS.iter().copied().chain(["Examples:"]) {
        assert!(text.contains(word), "no {word} in:\n{text}");
    }
    assert_eq!(text, success(["--help"]));
}

#[test]
fn the_example_of_the_help_runs() {
    let help = success(["--help"]);
    let examples = help
        .lines()
        .filter_map(|line| line.trim().strip_prefix("windward "))
        .filter(|line| line.starts_with("run "));
    let mut count = 0;
    for example in examples {
        let args = example.split_whitespace().map(|word| word.trim_matches('\''));
        success(args.chain(["--duration", "21s"]));
        count += 1;
    }
    assert_eq!(count, 2);
}

#[test]
fn shells_complete_commands_and_options() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = success(["completions", shell]);
        for word in COMMANDS.iter().copied().chain(["trace-interval", "repetitions"]) {
            assert!(script.contains(word), "no {word} for {shell}");
        }
    }
    let output = windward(["completions", "csh"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("bash"), "{}", stderr(&output));
}

/// Completions of a line by bash with the script.
#[cfg(target_os = "linux")]
#[test]
fn bash_takes_its_script() {
    let script = format!(
        "{}\nCOMP_WORDS=(windward run --tra)\nCOMP_CWORD=2\n_windward windward --tra run\n\
         echo \"${{COMPREPLY[@]}}\"",
        success(["completions", "bash"])
    );
    let output = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(said.trim(), "--trace --trace-interval --trace-format", "{}", stderr(&output));
}

#[test]
fn there_is_a_manual_page_for_each_command() {
    let sandbox = Sandbox::new("");
    let main = success(["man"]);
    assert!(main.contains(".TH windward 1"), "{main}");
    assert!(main.contains("Exit status"), "{main}");
    let dir = sandbox.path("man1");
    success(["man", "--out", dir.to_str().unwrap()]);
    assert_eq!(std::fs::read_to_string(dir.join("windward.1")).unwrap(), main);
    for command in COMMANDS {
        let page = std::fs::read_to_string(dir.join(format!("windward-{command}.1"))).unwrap();
        assert!(
            page.contains(&format!(".TH windward\\-{command} 1"))
                || page.contains(&format!(".TH windward-{command} 1")),
            "{page}"
        );
    }
    let run = std::fs::read_to_string(dir.join("windward-run.1")).unwrap();
    for option in ["trace", "plot", "duration", "quiet"] {
        assert!(run.contains(option), "no {option} in\n{run}");
    }
}

#[test]
fn the_version_is_the_package_version() {
    let version = concat!("windward ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(success(["--version"]), version);
}

#[test]
fn list_has_a_row_for_each_protocol() {
    let json = json(["list", "--json"]);
    let rows = json.as_array().unwrap();
    let text = success(["list"]);
    for row in rows {
        for key in ["name", "summary", "source", "window", "recovery", "router"] {
            assert!(row[key].is_string(), "{key} of {row}");
        }
        assert!(text.contains(row["name"].as_str().unwrap()));
    }
}

#[test]
fn a_controller_of_expressions_is_explained() {
    let text = success(["explain", "{ window = { on_loss = \"0.7 * cwnd\" } }"]);
    assert!(text.contains("on_loss = `0.7 * cwnd`"), "{text}");
}

#[test]
fn every_protocol_is_explained_with_its_sources() {
    let json = json(["list", "--json"]);
    for row in json.as_array().unwrap() {
        let text = success(["explain", row["name"].as_str().unwrap()]);
        for word in ["window", "recovery", "discrimination", "feedback", "router"] {
            assert!(text.contains(word), "no {word} in:\n{text}");
        }
        assert!(text.contains(row["source"].as_str().unwrap()));
    }
}

#[test]
fn a_page_of_the_documentation_has_what_the_program_writes() {
    let page = repository().join("docs/protocols/lr-lmxcp.md");
    let page = std::fs::read_to_string(page).unwrap();
    let printed = success(["explain", "lr-lmxcp", "--markdown"]);
    assert!(printed.contains("`loss_monitor_guard`"), "{printed}");
    let (head, frame) = printed.split_once("\n<!-- generated").expect("a head and a frame");
    assert!(page.starts_with(head) && page.ends_with(frame));
}
