//! Plan of a measurement: a protocol and its parameters, as in scenario files, and the endpoints
//! made from them.
//!
//! The reader of scenario files reads them, so that a flow between hosts has the defaults, ranges
//! and errors of a flow in a scenario.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use windward_core::endpoint::EndpointConfig;
use windward_core::protocols::{self, Protocol};
use windward_core::units::Duration;
use windward_sim::Scenario;
use windward_sim::scenario::Traffic;
use windward_sim::scenario::file::{ScenarioError, ScenarioFile};

/// Largest length of the text of a test, bytes: its protocol, and a line for each parameter.
pub const MAX_WORDS: usize = 1024;
/// The smallest and the largest datagram of data, bytes of UDP payload.
pub const DATAGRAM: std::ops::RangeInclusive<u32> = 128..=9000;
/// The longest test, seconds: a day.
pub const MAX_SECONDS: u32 = 86_400;
/// Maximum and default receiver window, packets: 75 MB of 1200 bytes, or 1 Gbit/s over 600 ms. It
/// bounds the memory that a peer can make either side use. The default in scenarios is 2^20.
pub const MAX_RWND: u64 = 1 << 16;
/// The shortest time between two reports.
pub const MIN_REPORT: Duration = Duration::from_millis(10);

/// Names of the two directions, from the client and to it, as groups in results.
pub const GROUPS: [&str; 2] = ["up", "down"];

/// Test of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Test {
    /// A row of the protocol table, or a composition as scenario files have it but without a
    /// `name`.
    pub protocol: String,
    /// Keys of `[endpoint]` of scenario files, with their values as `--set` takes them, in order.
    pub parameters: Vec<(String, String)>,
    /// True if the server sends and the client receives.
    pub reverse: bool,
    /// Length, whole seconds, 1 to [`MAX_SECONDS`].
    pub seconds: u32,
    /// Packets to transfer; 0 for no limit.
    pub packets: u64,
    /// Time between two reports of the server, at least [`MIN_REPORT`]; zero for none.
    pub report: Duration,
}

impl Test {
    /// A test of ten seconds from the client, with default parameters.
    pub fn of(protocol: impl Into<String>) -> Self {
        Test {
            protocol: protocol.into(),
            parameters: Vec::new(),
            reverse: false,
            seconds: 10,
            packets: 0,
            report: Duration::ZERO,
        }
    }

    /// The protocol and its endpoints.
    ///
    /// # Errors
    /// The error in the protocol or a parameter, or what hosts do not support, as text.
    pub fn plan(&self) -> Result<Plan, String> {
        let scenario = self.scenario([1, 0])?;
        let flow = scenario.flows.first().map(|flow| &flow.kind.traffic);
        let Some(Traffic::Transport { protocol, config, .. }) = flow else {
            let name = &self.protocol;
            return Err(format!("`{name}` is neither a row of the table nor a composition"));
        };
        if config.rwnd > MAX_RWND {
            return Err(format!("rwnd: must be at most {MAX_RWND} packets between hosts"));
        }
        if !config.overhead.is_zero() {
            return Err(
                "overhead: not available between hosts, which take their own time to send a packet"
                    .to_owned(),
            );
        }
        if config.ack_size > config.packet_size {
            return Err("ack_size: an ACK must not be larger than its data packet".to_owned());
        }
        Ok(Plan { protocol: Arc::clone(protocol), config: Arc::clone(config) })
    }

    /// A scenario with this many flows in the groups of [`GROUPS`], for logs and names as in the
    /// simulator. Its path has no meaning.
    ///
    /// # Errors
    /// As [`Test::plan`].
    pub fn scenario(&self, flows: [usize; 2]) -> Result<Scenario, String> {
        self.check()?;
        let mut text = format!(
            r#"
            duration = "{}s"
            [endpoint]
            rwnd = {MAX_RWND}
            [dumbbell]
            bottleneck = {{ rate = "1Gbit", delay = "1ms", queue = "100p" }}
            access = {{ rate = "1Gbit", delay = "1ms", queue = "100p" }}
            "#,
            self.seconds
        );
        let groups = GROUPS.iter().zip(flows).filter(|(_, count)| *count > 0);
        for (group, count) in groups.clone() {
            text +=
                &format!("[[flows]]\ngroup = \"{group}\"\ncount = {count}\nprotocol = \"reno\"\n");
        }
        let build = || {
            let mut file = ScenarioFile::parse("test", &text)?;
            for (group, _) in groups {
                file.set(&format!("flows.{group}.protocol"), &self.protocol)?;
            }
            for (key, value) in &self.parameters {
                file.set(&format!("endpoint.{key}"), value)?;
            }
            file.build()
        };
        build().map_err(|error| words_of(&error))
    }

    /// Restrictions of a server beyond those of scenario files.
    fn check(&self) -> Result<(), String> {
        if self.words().len() > MAX_WORDS {
            return Err(format!(
                "the protocol and its parameters take more than {MAX_WORDS} bytes"
            ));
        }
        let all = self.parameters.iter().flat_map(|(key, value)| [key, value]);
        if all.chain([&self.protocol]).any(|word| word.contains(char::is_control)) {
            return Err("control characters in the protocol or a parameter".to_owned());
        }
        if self.parameters.iter().any(|(key, _)| key.is_empty() || key.contains('=')) {
            return Err("a parameter without a name".to_owned());
        }
        if !(1..=MAX_SECONDS).contains(&self.seconds) {
            return Err(format!("{} seconds: must be from 1 to {MAX_SECONDS}", self.seconds));
        }
        if protocols::find(&self.protocol).is_some() {
            return Ok(());
        }
        // Names are kept for as long as a program runs, and a server runs long.
        let value = format!("v = {}", self.protocol).parse::<toml::Table>();
        match value.as_ref().ok().and_then(|table| table.get("v")) {
            Some(toml::Value::Table(table)) if table.contains_key("name") => {
                Err("a composition between hosts has no `name`: omit it".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// The protocol, and a line for each parameter.
    pub(super) fn words(&self) -> String {
        let lines = self.parameters.iter().map(|(key, value)| format!("\n{key}={value}"));
        std::iter::once(self.protocol.clone()).chain(lines).collect()
    }

    /// Reads what [`Test::words`] wrote.
    pub(super) fn read_words(&mut self, words: &str) -> Option<()> {
        let mut lines = words.split('\n');
        self.protocol = lines.next()?.to_owned();
        let pairs = lines.map(|line| {
            let (key, value) = line.split_once('=')?;
            Some((key.to_owned(), value.to_owned()))
        });
        self.parameters = pairs.collect::<Option<_>>()?;
        Some(())
    }
}

/// Configuration of both ends of a connection.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The protocol.
    pub protocol: Arc<Protocol>,
    /// Its endpoints. Sizes are those of IP packets.
    pub config: Arc<EndpointConfig>,
}

impl Plan {
    /// UDP payload of a data packet to this address, bytes.
    ///
    /// # Errors
    /// If that is not within [`DATAGRAM`].
    pub fn datagram(&self, to: SocketAddr) -> Result<usize, String> {
        let (size, headers) = (self.config.packet_size, overhead(to));
        let payload = size.saturating_sub(headers);
        if DATAGRAM.contains(&payload) {
            return Ok(payload as usize);
        }
        let (least, most) = (DATAGRAM.start() + headers, DATAGRAM.end() + headers);
        Err(format!("packet_size: {size} bytes; must be from {least} to {most} for {}", to.ip()))
    }
}

/// The error without the generated scenario.
fn words_of(error: &ScenarioError) -> String {
    let own = |key: &str| {
        let groups = GROUPS.map(|group| format!("flows.{group}."));
        let prefixes = groups.iter().map(String::as_str).chain(["endpoint."]);
        let rest = prefixes.filter_map(|prefix| key.strip_prefix(prefix)).next();
        rest.unwrap_or(key).to_owned()
    };
    let place = match (error.key(), error.value()) {
        (Some(key), Some(value)) => format!("{} = {value}: ", own(key)),
        (Some(key), None) => format!("{}: ", own(key)),
        (None, _) => String::new(),
    };
    let help = error.help().map_or_else(String::new, |help| format!("\n  help: {help}"));
    format!("{place}{}{help}", error.message())
}

/// Bytes of the headers of IP and UDP before a datagram to this address.
pub fn overhead(to: SocketAddr) -> u32 {
    match to.ip().to_canonical() {
        IpAddr::V4(_) => 20 + 8,
        IpAddr::V6(_) => 40 + 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(protocol: &str, parameters: &[(&str, &str)]) -> Test {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        Test { parameters: parameters.iter().map(owned).collect(), ..Test::of(protocol) }
    }

    #[test]
    fn endpoints_are_those_of_a_scenario() {
        for row in protocols::PROTOCOLS {
            let plan = test(row.name, &[]).plan().expect(row.name);
            assert_eq!(*plan.protocol, *row);
            // All as in a scenario file that says nothing, but for the bound of the window.
            let config = EndpointConfig { rwnd: MAX_RWND, ..EndpointConfig::default() };
            assert_eq!(*plan.config, config, "{}", row.name);
        }
        let set = [("preset", "linux"), ("packet_size", "1228"), ("cubic.reno_alpha", "false")];
        let plan = test("cubic", &set).plan().expect("a plan");
        let linux = EndpointConfig { rwnd: MAX_RWND, ..EndpointConfig::default() }.linux();
        assert_eq!(*plan.config, EndpointConfig { packet_size: 1228, ..linux });
        assert_eq!(plan.protocol.recovery, protocols::find("cubic").unwrap().linux().recovery);
        assert_ne!(plan.protocol.window, protocols::find("cubic").unwrap().window);
        // IPv4 20, IPv6 40, UDP 8.
        assert_eq!(plan.datagram("192.0.2.1:9".parse().unwrap()), Ok(1200));
        assert_eq!(plan.datagram("[2001:db8::1]:9".parse().unwrap()), Ok(1180));
        assert_eq!(plan.datagram("[::ffff:192.0.2.1]:9".parse().unwrap()), Ok(1200));
    }

    #[test]
    fn what_cannot_be_between_hosts_is_refused_in_words() {
        let wrong = |protocol, parameters: &[_], word: &str| {
            let error = test(protocol, parameters).plan().expect_err(word);
            assert!(error.contains(word), "{error}");
        };
        wrong("cubik", &[], "cubic");
        wrong("{ window = 7 }", &[], "window");
        wrong("{ base = \"cubic\", name = \"mine\" }", &[], "`name`");
        wrong("{ \"base\" = \"cubic\", 'name' = \"mine\" }", &[], "`name`");
        wrong("{ base = \"cubic\", \"na\\u006de\" = \"mine\" }", &[], "`name`");
        wrong("cubic", &[("rwnd", "70000")], "rwnd");
        wrong("cubic", &[("overhead", "1ms")], "overhead");
        wrong("cubic", &[("ack_size", "1001")], "ack_size");
        wrong("cubic", &[("packet_sise", "1000")], "packet_size");
        wrong("cubic", &[("count", "9")], "count");
        wrong("cubic", &[("a\nb", "9")], "control");
        // Errors do not mention the generated scenario.
        let error = test("cubik", &[]).plan().expect_err("no such row");
        assert!(error.starts_with("protocol = \"cubik\": unknown protocol"), "{error}");
        let error = test("cubic", &[("initial_window", "0")]).plan().expect_err("out of range");
        assert!(error.starts_with("initial_window = 0: "), "{error}");
        wrong(&"x".repeat(MAX_WORDS + 1), &[], "bytes");
        let small = test("cubic", &[("packet_size", "155")]).plan().expect("a plan");
        let error = small.datagram("192.0.2.1:9".parse().unwrap()).expect_err("too small");
        assert!(error.contains("156 to 9028"), "{error}");
    }

    #[test]
    fn words_are_read_as_they_were_written() {
        let test = test("{ base = \"cubic\" }", &[("a", "1"), ("b.c", "x=y")]);
        let mut read = Test::of("");
        assert_eq!(read.read_words(&test.words()), Some(()));
        assert_eq!(read, test);
        assert_eq!(read.read_words("cubic\nnothing"), None);
    }
}
