//! `windward play`: the playground in a browser, served on loopback.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use windward_sim::output::OutputFile;

use crate::failure::Failure;
use crate::http::{Listener, Site, unpacked};
use crate::{output, signals};

/// The page, which crates/web/build.sh makes: one compressed file.
pub(crate) const PAGE: &[u8] = include_bytes!("../../web/dist/play.html.gz");

/// Open the playground: the simulator in a browser, with sliders
///
/// The page is served on loopback until Ctrl-C. It is one file, which needs no network and sends
/// nothing.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Port on 127.0.0.1; 0 takes a free one
    #[arg(long, default_value_t = 0)]
    port: u16,

    /// Print the address and do not open a browser
    #[arg(long)]
    no_browser: bool,

    /// Write the page to this file instead, which works from a disk without a server
    #[arg(long, value_name = "FILE.html", conflicts_with_all = ["port", "no_browser"])]
    save: Option<PathBuf>,
}

pub(crate) fn play(args: &Args, quiet: bool) -> Result<(), Failure> {
    if let Some(path) = &args.save {
        output::claim("--save", path)?;
        let page = unpacked(PAGE)?;
        OutputFile::create(path)?.finish(&page)?;
        return Ok(());
    }
    let option = format!("--port {}", args.port);
    let listener = Listener::bind(&option, SocketAddr::from((Ipv4Addr::LOCALHOST, args.port)))?;
    let url = listener.url();
    output::print(&format!("{url}\n"))?;
    if !args.no_browser && !open(&url) && !quiet {
        output::note("no browser could be started: open the address above");
    }
    if !quiet {
        output::note("serving the playground; Ctrl-C ends it");
    }
    let site = Arc::new(Site { page: PAGE, events: None });
    listener.serve(&site, || signals::check().is_err());
    Err(Failure::Interrupted)
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
