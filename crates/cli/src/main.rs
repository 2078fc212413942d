//! The `windward` program: a call of the library `windward_cli`.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    windward_netns::start_up();
    windward_cli::main(std::env::args_os(), Path::new("python3"), None).into()
}
