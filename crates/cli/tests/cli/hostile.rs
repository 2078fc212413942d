//! `windward evaluate` with libraries that break the process: each is a verdict, and nothing stays.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::evaluate::{args, sandbox};
use crate::{Sandbox, command, repository, stderr};

/// Place of the code: in a call of `on_ack`, or when the library is loaded or unloaded.
enum At {
    Ack,
    Load,
    Unload,
}

/// Rust's own library aborts in a build for tests if a descriptor that it owns is closed.
const CLOSED: &str = "it closed the file descriptors|it crashed with SIGABRT";

/// Name, place, code in C, and what is said of it, or one of several texts; nothing where it meets
/// the criterion.
const LIBRARIES: [(&str, At, &str, &str); 21] = [
    (
        "bomb",
        At::Ack,
        "for (int i = 0; i < 7; i++) fork(); for (;;) pause();",
        "it started more than 64 processes",
    ),
    (
        "segv",
        At::Ack,
        "*(volatile int *)0 = 0;",
        "it crashed with SIGSEGV, an invalid memory access",
    ),
    ("abort", At::Ack, "abort();", "it crashed with SIGABRT, an abort"),
    ("quiet-exit", At::Ack, "_exit(0);", "it ended the process (exit status: 0)"),
    ("exit", At::Ack, "exit(0);", "it ended the process (exit status: 0)"),
    ("exit-at-load", At::Load, "_exit(0);", "it ended the process (exit status: 0)"),
    ("close", At::Ack, "for (int i = 0; i < 256; i++) close(i);", CLOSED),
    ("close-at-load", At::Load, "for (int i = 0; i < 256; i++) close(i);", CLOSED),
    ("open", At::Ack, "while (open(\"/dev/null\", 0) >= 0);", "it keeps more than 512 files open"),
    ("loop", At::Ack, "for (volatile int i = 0;; i++);", "on_ack does not return, at "),
    ("pause-at-load", At::Load, "pause();", "loading does not return"),
    ("stop", At::Ack, "raise(SIGSTOP);", "it stopped the process (SIGSTOP)"),
    ("stop-at-load", At::Load, "raise(SIGSTOP);", "it stopped the process (SIGSTOP)"),
    (
        "stop-both",
        At::Ack,
        "kill(getppid(), SIGSTOP); raise(SIGSTOP);",
        "it stopped the process (SIGSTOP)",
    ),
    (
        "kill-parent",
        At::Ack,
        "kill(getppid(), SIGKILL); pause();",
        "it ended the process that started it",
    ),
    ("terminate", At::Ack, "kill(0, SIGTERM); pause();", "signal"),
    (
        "daemon",
        At::Load,
        "if (fork() == 0) { setsid(); if (fork()) _exit(0); for (;;) pause(); }",
        "",
    ),
    (
        "print",
        At::Ack,
        "puts(\"{ \\\"forged\\\": 1 }\"); fprintf(stderr, \"no\\n\"); fflush(stdout);",
        "",
    ),
    (
        "forge",
        At::Ack,
        "for (int i = 3; i < 32; i++) dprintf(i, \"\\n{\\\"Ended\\\":{\\\"Ok\\\":null}}\\n{\"); _exit(0);",
        "it ended the process (exit status: 0)",
    ),
    ("fork", At::Ack, "static int acks; if (acks++ == 1000) fork();", ""),
    ("pause-at-unload", At::Unload, "pause();", ""),
];

/// Compiles `examples/c/aimd.c` with that code into a folder.
fn compile(name: &str, at: &At, code: &str, folder: &Path) -> bool {
    let headers = ["fcntl.h", "signal.h", "stdio.h", "stdlib.h", "unistd.h"];
    let mut text: String = headers.iter().map(|name| format!("#include <{name}>\n")).collect();
    let example = fs::read_to_string(repository().join("examples/c/aimd.c")).unwrap();
    let place = "double growth = ack->growth_bytes,";
    assert!(example.contains(place));
    text += &match at {
        At::Ack => example.replace(place, &format!("{code} {place}")),
        At::Load | At::Unload => {
            let when = if matches!(at, At::Load) { "constructor" } else { "destructor" };
            format!("{example}__attribute__(({when})) static void at(void) {{ {code} }}\n")
        }
    };
    let source = folder.join(format!("{name}.c"));
    fs::write(&source, text).unwrap();
    let include = repository().join("crates/native/include");
    let mut cc = Command::new("cc");
    cc.args(["-w", "-shared", "-fPIC", "-I"]).arg(include).arg(source);
    match cc.arg("-o").arg(folder.join(format!("{name}.so"))).status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("skipped: cc cannot be started: {error}");
            false
        }
    }
}

/// Command lines of processes that name a folder.
fn processes_of(folder: &Path) -> Vec<String> {
    let folder = folder.display().to_string();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(&folder)).collect()
}

/// True if the one claim that is asked for is met.
fn is_met(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("1.1 ") && line.ends_with(" meets"))
}

fn start(sandbox: &Sandbox, name: &str) -> Child {
    let library = sandbox.path(&format!("{name}.so")).display().to_string();
    let out = sandbox.path(name).display().to_string();
    let mut words = args(sandbox, &[&library, "--only", "some"]);
    // The last one counts.
    let at = words.iter().position(|word| word == "--out").unwrap();
    words[at + 1] = out;
    let mut child = command(words);
    child.env("TMPDIR", sandbox.path("tmp")).stdout(Stdio::piped()).stderr(Stdio::piped());
    child.spawn().unwrap()
}

#[test]
fn whatever_a_library_does_is_a_verdict_and_nothing_stays() {
    let sandbox = sandbox();
    fs::create_dir(sandbox.path("tmp")).unwrap();
    for (name, at, code, _) in &LIBRARIES {
        if !compile(name, at, code, &sandbox.path("")) {
            return;
        }
    }
    // At once, since most of the time is that of the limits; the first, which needs all of the
    // machine, alone.
    let children = LIBRARIES.iter().map(|(name, ..)| {
        let child = start(&sandbox, name);
        let output = std::thread::spawn(|| child.wait_with_output().unwrap());
        while *name == LIBRARIES[0].0 && !output.is_finished() {
            sleep(Duration::from_millis(20));
        }
        output
    });
    let children: Vec<_> = children.collect();
    for ((name, .., says), child) in LIBRARIES.iter().zip(children) {
        let output: Output = child.join().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let told = format!("{name}: {}\n{text}\n{}", output.status, stderr(&output));
        if says.is_empty() {
            assert_eq!(output.status.code(), Some(0), "{told}");
            assert!(is_met(&text), "{told}");
        } else {
            assert_eq!(output.status.code(), Some(1), "{told}");
            assert!(text.contains(&format!("{name} meets no criterion: ")), "{told}");
            assert!(says.split('|').any(|words| text.contains(words)), "{told}");
        }
        assert!(!text.contains("forged"), "{told}");
        if *name == "print" {
            assert!(stderr(&output).contains("\n  | { \"forged\": 1 }\n  | no\n"), "{told}");
            assert!(stderr(&output).len() < 1000, "{told}");
        }
        assert!(sandbox.path(name).join("index.html").is_file(), "{told}");
    }
    let left = processes_of(sandbox.path("").as_path());
    assert!(left.is_empty(), "{left:#?}");
    assert_eq!(fs::read_dir(sandbox.path("tmp")).unwrap().count(), 0);
}

#[test]
fn a_library_may_have_a_path_that_is_not_utf8() {
    use std::os::unix::ffi::OsStrExt;
    let sandbox = sandbox();
    if !compile("good", &At::Load, "", &sandbox.path("")) {
        return;
    }
    let folder = sandbox.path("").join(std::ffi::OsStr::from_bytes(b"d\xff="));
    fs::create_dir(&folder).unwrap();
    let library = folder.join(std::ffi::OsStr::from_bytes(b"\xfe good.so"));
    fs::copy(sandbox.path("good.so"), &library).unwrap();
    let mut named = std::ffi::OsString::from("named=");
    named.push(&library);
    for (subject, name) in [(library.into_os_string(), "aimd-c"), (named, "named")] {
        let mut command = command(args(&sandbox, &["--only", "some"]));
        let output = command.arg(subject).arg("--quiet").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(is_met(&text) && text.contains(&format!("{name} meets")), "{text}");
    }
}

#[test]
fn no_process_outlives_a_command_that_is_killed() {
    let sandbox = sandbox();
    fs::create_dir(sandbox.path("tmp")).unwrap();
    let code = "if (fork() == 0) { setsid(); if (fork()) _exit(0); for (;;) pause(); } for (;;);";
    if !compile("left", &At::Ack, code, &sandbox.path("")) {
        return;
    }
    let mut child = start(&sandbox, "left");
    let left = || processes_of(sandbox.path("").as_path());
    let wait = |done: &dyn Fn() -> bool| {
        (0..500).any(|_| {
            done() || {
                sleep(Duration::from_millis(20));
                false
            }
        })
    };
    // Itself, the keeper, the worker and what that forked.
    assert!(wait(&|| left().len() >= 4), "{:#?}", left());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(wait(&|| left().is_empty()), "{:#?}", left());
}
