//! `--web`: charts of a run in a browser, while it lasts.
//!
//! A thread serves one page and the events that it draws. It reads nothing from browsers but
//! requests, and the emulation never waits for it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use serde::Serialize;
use windward_core::units::Duration;

use crate::failure::Failure;
use crate::feed::Feed;
use crate::http::{Listener, Site};
use crate::moment::Moment;
use crate::output;

/// The page, which crates/web/build.sh makes: one compressed file.
const PAGE: &[u8] = include_bytes!("../../web/dist/live.html.gz");

/// Interval of the charts.
pub(crate) const INTERVAL: Duration = Duration::from_millis(100);

const OPTION: &str = "--web";

/// Option of the commands that run on a real clock.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// Serve live charts at this address, such as 127.0.0.1:8000 or a port [default: a free port of
    /// 127.0.0.1]
    ///
    /// The page only shows. With an address that other hosts reach, they see it too.
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = "0",
          value_parser = parse_address)]
    web: Option<SocketAddr>,
}

/// Address of a port, an IP address or both.
fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let local = text.strip_prefix("localhost").map(|rest| format!("127.0.0.1{rest}"));
    let text = local.as_deref().unwrap_or(text);
    let bracketed = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    if text.is_empty() {
        return Ok(loopback(0));
    }
    if let Ok(port) = text.parse::<u16>() {
        return Ok(loopback(port));
    }
    if let Some(ip) = bracketed.and_then(|text| text.parse::<Ipv6Addr>().ok()) {
        return Ok(SocketAddr::from((ip, 0)));
    }
    text.parse::<SocketAddr>()
        .or_else(|_| text.parse::<IpAddr>().map(|ip| SocketAddr::from((ip, 0))))
        .map_err(|_| {
            "expected a port, an IP address or both, such as 8000 or 127.0.0.1:8000; for a free \
             port, write `--web=` or put --web behind the other arguments"
                .to_owned()
        })
}

impl Args {
    /// Listens, if charts are requested. Called before the process leaves the network of this
    /// machine.
    ///
    /// # Errors
    /// Those of [`Listener::bind`].
    pub(crate) fn listen(&self) -> Result<Option<Listener>, Failure> {
        self.web.map(|address| Listener::bind(OPTION, address)).transpose()
    }
}

/// Facts that charts show above all moments.
#[derive(Debug, Serialize)]
pub(crate) struct About<'a> {
    /// The command.
    pub(crate) command: &'static str,
    /// The scenario or the interfaces.
    pub(crate) subject: &'a str,
    /// Rate that the bottleneck can deliver, C (1 - p), if it has a limit.
    pub(crate) capacity_bps: Option<f64>,
}

/// Served charts. When this is dropped, browsers are told that the run has ended.
#[derive(Debug)]
pub(crate) struct Web {
    feed: Option<Feed>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
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
        let about = serde_json::to_string(about).unwrap_or_default();
        let feed = Feed::new(about).map_err(failed)?;
        let site = Arc::new(Site { page: PAGE, events: Some(Box::new(feed.reader())) });
        if !quiet {
            output::note(&format!("charts: {}", listener.url()));
            if !listener.is_loopback() {
                output::note("warning: other hosts that reach this address can see the charts");
            }
        }
        let stop = Arc::new(AtomicBool::new(false));
        let of_thread = Arc::clone(&stop);
        let serve = move || listener.serve(&site, || of_thread.load(Ordering::Relaxed));
        let thread = std::thread::Builder::new().name("web".into()).spawn(serve).map_err(failed)?;
        Ok(Web { feed: Some(feed), stop, thread: Some(thread) })
    }

    /// Adds a moment to the charts.
    pub(crate) fn show(&self, moment: Moment<'_>) {
        if let (Some(feed), Ok(event)) = (&self.feed, serde_json::to_string(&moment.busiest())) {
            feed.push(event);
        }
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        // Browsers that connect before the end still learn of it.
        drop(self.feed.take());
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_port_an_ip_address_or_both() {
        for (text, address) in [
            ("", "127.0.0.1:0"),
            ("0", "127.0.0.1:0"),
            ("8000", "127.0.0.1:8000"),
            ("localhost:8000", "127.0.0.1:8000"),
            ("localhost", "127.0.0.1:0"),
            ("0.0.0.0", "0.0.0.0:0"),
            ("192.0.2.1:80", "192.0.2.1:80"),
            ("::1", "[::1]:0"),
            ("[::1]", "[::1]:0"),
            ("[::1]:8000", "[::1]:8000"),
        ] {
            assert_eq!(parse_address(text), Ok(address.parse().unwrap()), "{text}");
        }
        for wrong in ["65536", "scenario.toml", "eth0", "-1", "host:80", "[::1", "localhosts"] {
            assert!(parse_address(wrong).unwrap_err().contains("127.0.0.1:8000"), "{wrong}");
        }
    }
}
