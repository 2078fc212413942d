//! A scenario of one link in each direction, from the values of its options.

use std::path::PathBuf;

use windward_core::units::Duration;
use windward_sim::stack::Stacks;

use crate::error::Error;
use crate::source::Source;

/// Values of a link, as text; the same in both directions unless `up` or `down` says otherwise.
#[derive(Debug, Clone, Default)]
pub struct Link {
    /// Rate of each direction, bits per second; unlimited if not given.
    pub rate: Option<String>,
    /// Delay of each direction: the RTT is twice that.
    pub delay: Option<String>,
    /// Size of the queues: packets (`50p`), bytes (`64kB`) or bandwidth-delay products (`1bdp`, the
    /// default).
    pub queue: Option<String>,
    /// AQM of the queues.
    pub aqm: Option<String>,
    /// Probability with which each direction loses a packet.
    pub loss: Option<String>,
    /// Rate over time, a trace of mahimahi.
    pub trace: Option<PathBuf>,
    /// Keys and values of the link that programs inside send over.
    pub up: Vec<(String, String)>,
    /// Keys and values of the link that they receive over.
    pub down: Vec<(String, String)>,
}

/// Name of the scenario of such a link in errors.
const NAME: &str = "the link";
/// The link from `outside` to `inside`.
pub(crate) const DOWN: &str = "down";
/// Two one-way links, at a rate beyond that of any machine.
const SKELETON: &str = r#"
duration = "1h"
links = [
    { name = "down", from = "outside", to = "inside", both_ways = false, rate = "1Tbit", delay = "0s", queue = "10000p" },
    { name = "up", from = "inside", to = "outside", both_ways = false, rate = "1Tbit", delay = "0s", queue = "10000p" },
]
flows = [{ group = "outside", protocol = "outside:port", from = "outside", to = "inside" }]
"#;
/// Size of the smallest queue, bytes: a smaller one drops the bursts of programs.
const LEAST_QUEUE: f64 = 32_000.0;

impl Link {
    /// The scenario of this link, with one port that begins at `outside` and ends at `inside`.
    pub fn source(&self, stacks: Stacks) -> Result<Source, Error> {
        let mut source = Source {
            name: NAME.to_owned(),
            text: SKELETON.to_owned(),
            changes: Vec::new(),
            is_open: true,
            stacks,
        };
        for (way, own) in self.ways() {
            let mut set = |key: &str, value: &str| {
                source.changes.push((format!("links.{way}.{key}"), value.to_owned()));
            };
            if let Some(trace) = &self.trace {
                // A literal string of TOML, which has no escapes.
                set("rate", &format!("{{ trace = '{}' }}", trace.display()));
            }
            let given = [
                ("rate", &self.rate),
                ("delay", &self.delay),
                ("loss", &self.loss),
                ("aqm", &self.aqm),
            ];
            for (key, value) in given {
                if let Some(value) = value {
                    set(key, value);
                }
            }
            for (key, value) in own {
                set(key, value);
            }
        }
        let queues = self.queues(&source)?;
        source.changes.extend(queues);
        Ok(source)
    }

    fn ways(&self) -> [(&'static str, &[(String, String)]); 2] {
        [(DOWN, &self.down), ("up", &self.up)]
    }

    /// The number of bandwidth-delay products that the queues are to hold, if they are given so.
    fn products(&self) -> Result<Option<f64>, Error> {
        let Some(text) = &self.queue else { return Ok(Some(1.0)) };
        let Some(number) = text.trim().strip_suffix("bdp") else { return Ok(None) };
        match number.trim().parse::<f64>() {
            Ok(products) if products > 0.0 && products.is_finite() => Ok(Some(products)),
            _ => Err(Error::Input(format!(
                "queue {text}: expected a number greater than zero before `bdp`, as in 1bdp"
            ))),
        }
    }

    /// The sizes of the queues, which may be given in bandwidth-delay products of the rest.
    fn queues(&self, source: &Source) -> Result<Vec<(String, String)>, Error> {
        let products = self.products()?;
        let links = source.load()?.scenario.links;
        let rtt: Duration = links.iter().map(|link| link.delay).fold(Duration::ZERO, |a, b| a + b);
        let limited = self.rate.is_some() || self.trace.is_some();
        let queues = self.ways().into_iter().zip(&links).filter_map(|((way, own), link)| {
            let is_limited = limited || own.iter().any(|(key, _)| key == "rate");
            if own.iter().any(|(key, _)| key == "queue") {
                return None;
            }
            let size = match (products, &self.queue) {
                (None, Some(text)) => text.clone(),
                _ if !is_limited => return None,
                (products, _) => {
                    let product = link.kind.rate.mean().bytes_per_s() * rtt.as_secs_f64();
                    let bytes = (products.unwrap_or(1.0) * product).max(LEAST_QUEUE);
                    format!("{}B", bytes.round() as u64)
                }
            };
            Some((format!("links.{way}.queue"), size))
        });
        Ok(queues.collect())
    }

    /// The link in words.
    pub(crate) fn words(&self) -> String {
        let given = [
            (&self.rate, "rate"),
            (&self.delay, "delay each way"),
            (&self.queue, "queue"),
            (&self.aqm, "AQM"),
            (&self.loss, "loss"),
        ];
        let of_both =
            given.into_iter().filter_map(|(text, what)| Some(format!("{what} {}", text.as_ref()?)));
        let trace = self.trace.iter().map(|path| format!("rate of the trace {}", path.display()));
        let own = [("up", &self.up), ("down", &self.down)];
        let own = own.into_iter().flat_map(|(way, keys)| {
            keys.iter().map(move |(key, value)| format!("{key} {value} {way}"))
        });
        let all: Vec<String> = of_both.chain(trace).chain(own).collect();
        match all.is_empty() {
            true => "An emulated link without a limit, delay or loss.".to_owned(),
            false => format!("An emulated link: {}.", all.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_each_value_that_is_given() {
        assert_eq!(Link::default().words(), "An emulated link without a limit, delay or loss.");
        let link = Link {
            rate: Some("10mbit".to_owned()),
            loss: Some("1%".to_owned()),
            up: vec![("delay".to_owned(), "40ms".to_owned())],
            ..Link::default()
        };
        assert_eq!(link.words(), "An emulated link: rate 10mbit, loss 1%, delay 40ms up.");
        let link = Link { trace: Some("a.trace".into()), ..Link::default() };
        assert_eq!(link.words(), "An emulated link: rate of the trace a.trace.");
    }
}
