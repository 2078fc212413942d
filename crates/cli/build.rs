//! Tells the program which revision of the source it is built from, for its reports.

use std::process::Command;

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned()).filter(|t| !t.is_empty())
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Built from an archive there is no repository, and nothing is said.
    let Some(commit) = git(&["rev-parse", "--short=10", "HEAD"]) else { return };
    for path in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", path]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    println!("cargo::rustc-env=WINDWARD_COMMIT={commit}");
}
