//! `windward play`: the playground in a browser, served on loopback.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use windward_http::{Content, Listener, Site};
use windward_report::playground::{self, PAGE, PORT};
use windward_sim::output::OutputFile;
use windward_sim::scenario::Traffic;
use windward_sim::scenario::file::ScenarioFile;

use crate::failure::Failure;
use crate::scenario_args::{Changes, warn};
use crate::{http, output, signals};

/// Interval of checks for the end.
const TICK: Duration = Duration::from_millis(50);

/// Open the playground: the simulator in a browser, with sliders
///
/// The page is served on loopback until Ctrl-C. It is one file, which needs no network and sends
/// nothing.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Scenario to open, a TOML file; `-` reads standard input [default: cubic beside upwind]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    #[command(flatten)]
    changes: Changes,

    /// Port on 127.0.0.1; 0 takes a free one [default: 9744, to which links in charts lead, or a
    /// free one if another program uses it]
    #[arg(long, value_name = "N")]
    port: Option<u16>,

    /// Print the address and do not open a browser
    #[arg(long)]
    no_browser: bool,

    /// Write the page to this file instead, which works from a disk without a server
    #[arg(long, value_name = "FILE.html")]
    save: Option<PathBuf>,
}

pub(crate) fn play(args: &Args, quiet: bool) -> Result<(), Failure> {
    if let Some(path) = &args.save {
        output::claim("--save", path)?;
        let page = playground::html()
            .map_err(|_| Failure::Failed("the page in this program is damaged".to_owned()))?;
        OutputFile::create(path)?.finish(&page)?;
        return Ok(());
    }
    let state = match &args.file {
        Some(file) => format!("#{}", state(file, &args.changes)?),
        None if !args.changes.list().is_empty() => {
            return Err(Failure::Input("changes need a scenario: write its FILE".to_owned()));
        }
        None => String::new(),
    };
    let listener = listen(args.port)?;
    let url = format!("{}{state}", listener.url());
    output::print(&format!("{url}\n"))?;
    if !args.no_browser && !open(&url) && !quiet {
        output::note("no browser could be started: open the address above");
    }
    if !quiet {
        output::note("serving the playground; Ctrl-C ends it");
    }
    let page =
        Content::Page(PAGE, || playground::unpacked(PAGE).expect("the build has compressed it"));
    let _server = listener
        .serve(Site::new([("/", page)]))
        .map_err(|error| Failure::Failed(format!("cannot make a thread: {error}")))?;
    while signals::check().is_ok() {
        sleep(TICK);
    }
    Ok(())
}

/// State of the page with a scenario.
fn state(path: &Path, changes: &Changes) -> Result<String, Failure> {
    let file = changes.of(ScenarioFile::read(path)?.with_stacks(&crate::stacks()))?;
    let scenario = file.build()?;
    let mut traffic = scenario.flows.iter().map(|flow| (&flow.name, &flow.kind.traffic));
    let stack = traffic.find(|(_, traffic)| matches!(traffic, Traffic::Stack { .. }));
    if let Some((flow, _)) = stack {
        return Err(Failure::Input(format!(
            "{}: the flow {flow} is one of a QUIC stack, which the playground does not have; \
             `windward run` has them",
            ScenarioFile::name(path)
        )));
    }
    warn(scenario.warnings.iter().map(String::as_str));
    playground::fragment(&file).ok_or_else(|| {
        Failure::Input(format!(
            "{}: the playground has no files, so that it cannot open a scenario with trace files, \
             and none of more than some 100 kB",
            ScenarioFile::name(path)
        ))
    })
}

/// Listens at a port of loopback: the given one, or the usual one, or a free one.
fn listen(port: Option<u16>) -> Result<Listener, Failure> {
    let at = |port| {
        let option = format!("--port {port}");
        http::listen(&option, SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    };
    match port {
        Some(port) => at(port),
        None => at(PORT).or_else(|_| at(0)),
    }
}

/// Starts a browser. Returns false if this machine has no browser.
fn open(url: &str) -> bool {
    let openers: &[&[&str]] = if cfg!(target_os = "macos") {
        &[&["open"]]
    } else if cfg!(windows) {
        &[&["rundll32", "url.dll,FileProtocolHandler"]]
    } else {
        // Without a screen, xdg-open starts a browser in the terminal.
        if std::env::var_os("DISPLAY").is_none() && std::env::var_os("WAYLAND_DISPLAY").is_none() {
            return false;
        }
        &[&["xdg-open"], &["sensible-browser"], &["x-www-browser"]]
    };
    openers.iter().any(|words| {
        let started = Command::new(words[0])
            .args(&words[1..])
            .arg(url)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        // It ends by itself, and is waited for so that it leaves no zombie.
        started.map(|mut child| drop(std::thread::spawn(move || drop(child.wait())))).is_ok()
    })
}
