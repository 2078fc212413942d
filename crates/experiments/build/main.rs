//! Computes the fingerprint that stored data are checked against: see `fingerprint.rs`.

mod fingerprint;

use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    let crates = Path::new("..");
    // Stored types live in these crates. The contents of a stored run depend on the types that are
    // read back, on the engine (represented by the golden runs), and on the code of metrics.
    let mut types = Vec::new();
    for folder in ["core", "sim", "experiments", "report"].map(|name| crates.join(name).join("src"))
    {
        for file in sources(&folder) {
            types.extend(fingerprint::stored_types(&read(&file)));
        }
    }
    types.sort();
    let mut parts = types;
    parts.push(read(&crates.join("sim/tests/golden/fingerprints.csv")));
    let expressions = sources(Path::new("src/expression"));
    let metrics = expressions.into_iter().chain([PathBuf::from("src/expression.rs")]);
    parts.extend(metrics.map(|file| fingerprint::code(&read(&file))));
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    println!("cargo:rustc-env=WINDWARD_BUILD={version}+{:016x}", fingerprint::of(&parts));
}

/// The text of a file, with line ends as on every system; empty where it is missing.
fn read(path: &Path) -> String {
    println!("cargo:rerun-if-changed={}", path.display());
    fs::read_to_string(path).unwrap_or_default().replace("\r\n", "\n")
}

/// All Rust files below a folder, in one order everywhere.
fn sources(folder: &Path) -> Vec<PathBuf> {
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}
