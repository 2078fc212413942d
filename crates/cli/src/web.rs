//! `--web`: charts of a run in a browser, while it lasts.
//!
//! A thread serves one page and the events that it draws. It reads nothing from browsers but
//! requests, and the emulation never waits for it.

use std::net::SocketAddr;

use serde::Serialize;
use windward_core::units::Duration;
use windward_http::{Content, Feed, Listener, Server, Site};
use windward_report::playground::unpacked;

use crate::failure::Failure;
use crate::moment::Moment;
use crate::{http, output};

/// The page, which crates/web/build.sh makes: one compressed file.
const PAGE: &[u8] = include_bytes!("../../web/dist/live.html.gz");

/// Interval of the charts.
pub(crate) const INTERVAL: Duration = Duration::from_millis(100);

const OPTION: &str = "--web";

/// Option of the commands that run on a real clock.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct WebArgs {
    /// Serve live charts at this address, such as 127.0.0.1:8000 or a port [default: a free port of
    /// 127.0.0.1]
    ///
    /// The page only shows. With an address that other hosts reach, they see it too.
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = "0",
          value_parser = parse_web)]
    web: Option<SocketAddr>,
}

/// Address of the charts.
fn parse_web(text: &str) -> Result<SocketAddr, String> {
    http::parse_address(text).map_err(|wrong| {
        format!("{wrong}; for a free port, write `--web=` or put --web behind the other arguments")
    })
}

impl WebArgs {
    /// Listens, if charts are requested. Called before the process leaves the network of this
    /// machine.
    ///
    /// # Errors
    /// Those of [`http::listen`].
    pub(crate) fn listen(&self) -> Result<Option<Listener>, Failure> {
        self.web.map(|address| http::listen(OPTION, address)).transpose()
    }
}

/// Facts that charts show above all moments.
#[derive(Debug, Serialize)]
pub(crate) struct About<'a> {
    /// The command.
    pub(crate) command: &'static str,
    /// The links with their rates, delays, losses and queues, and the program.
    pub(crate) subject: &'a str,
    /// Rate that the bottleneck can deliver, C (1 - p), if it has a limit.
    pub(crate) capacity_bps: Option<f64>,
    /// Name of the rates of flows, or of links where no flow is known.
    pub(crate) rates: &'static str,
    /// Names of the two directions of a port: that of `rate_bps`, then that of `back_bps`. The
    /// first is drawn as a solid line, unless it is a download.
    pub(crate) ways: [&'static str; 2],
}

impl About<'static> {
    /// Facts of charts of packets on links, whatever they carry.
    pub(crate) const THROUGHPUT: Self = About {
        command: "",
        subject: "",
        capacity_bps: None,
        rates: "Throughput",
        ways: ["forward", "back"],
    };
}

/// Served charts. When this is dropped, browsers are told that the run has ended.
#[derive(Debug)]
pub(crate) struct Web {
    // In this order of their ends: browsers that connect before the end still learn of it.
    feed: Feed,
    _server: Server,
}

impl Web {
    /// Serves charts on a thread of the current priority.
    ///
    /// # Errors
    /// If no thread can be made.
    pub(crate) fn start(
        listener: Listener,
        about: &About<'_>,
        quiet: bool,
    ) -> Result<Self, Failure> {
        let failed = |error| Failure::Failed(format!("{OPTION}: cannot make a thread: {error}"));
        let feed = Feed::new(json(about)).map_err(failed)?;
        let page = Content::Page(PAGE, || unpacked(PAGE).expect("the build has compressed it"));
        let site = Site::new([("/", page), ("/events", Content::Events(feed.reader()))]);
        if !quiet {
            output::note(&format!("charts: {}", listener.url()));
            if !listener.is_loopback() {
                output::note("warning: other hosts that reach this address can see the charts");
            }
        }
        Ok(Web { feed, _server: listener.serve(site).map_err(failed)? })
    }

    /// Changes the facts above all moments.
    pub(crate) fn describe(&self, about: &About<'_>) {
        self.feed.describe(json(about));
    }

    /// Adds a moment to the charts.
    pub(crate) fn show(&self, moment: Moment<'_>) {
        self.feed.push(json(&moment.busiest()));
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("texts and numbers can be written")
}
