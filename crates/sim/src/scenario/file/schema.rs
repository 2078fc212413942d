//! Every key of the format, in one table: what is not here is an error.

use std::borrow::Cow;
use std::sync::OnceLock;

use KeyList::{Fixed, Made};

use windward_core::network::{AqmConfig, RouterConfig};
use windward_core::part::{self, AnyPart};
use windward_core::protocols::PROTOCOLS;

use super::error::{ScenarioError, suggest};
use super::parameter;
use super::section::Result;
use super::tree::{Node, Table, Value};
use super::{endpoint, group, link};

/// A key and what may stand under it.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) default: Cow<'static, str>,
    pub(super) meaning: Cow<'static, str>,
    /// The kinds of values it takes, as far as a part tells: several where parts differ.
    pub(super) values: Vec<part::ValueKind>,
}

/// Keys of one table, in parts because tables share some.
pub(super) type Keys = &'static [KeyList];

/// A part of the keys of a table.
#[derive(Debug, Clone, Copy)]
pub(super) enum KeyList {
    /// Written here.
    Fixed(&'static [Key]),
    /// Made of what parts tell of themselves; always the same.
    Made(fn() -> &'static [Key]),
}

impl KeyList {
    fn keys(&self) -> &'static [Key] {
        match self {
            KeyList::Fixed(keys) => keys,
            KeyList::Made(make) => make(),
        }
    }
}

/// All keys of a table.
pub(super) fn all(keys: Keys) -> impl Iterator<Item = &'static Key> {
    keys.iter().flat_map(KeyList::keys)
}

/// The words that stand for a table.
pub(super) type Names = fn() -> Vec<&'static str>;

/// What stands under a key.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// A value that is no table.
    Value,
    /// A table.
    Table(Keys),
    /// A table, or one of these words that stands for a table with that `kind`.
    WordOrTable(Keys, Names),
    /// A table, or one of these words that stands for a table with that `base`.
    BaseOrTable(Keys, Names),
    /// A table, or a value that says the same in another way.
    ValueOrTable(Keys),
    /// An array of tables, each known by the value of one of its keys.
    Tables(Keys, &'static str),
    /// A table, or an array of tables that says the same as a table with that `schedule`.
    TableOrSchedule(Keys),
    /// Not ours to read.
    Foreign,
}

/// A key of the scenario format, for documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyDoc {
    /// The dotted key, as `--set` takes it.
    pub key: String,
    /// What it is when the file does not say; empty if it must be given or is simply absent.
    pub default: String,
    /// Meaning, unit and range in one line.
    pub meaning: String,
}

/// The key called `name`.
pub(super) fn find(keys: Keys, name: &str) -> Option<&'static Key> {
    all(keys).find(|key| key.name == name)
}

/// The names of all keys.
pub(super) fn names(keys: Keys) -> impl Iterator<Item = &'static str> {
    all(keys).map(|key| key.name)
}

/// The name of the table at `index` of an array, by the value of its key `by`.
pub(super) fn name_of<'a>(node: &'a Node, by: &str) -> Option<std::borrow::Cow<'a, str>> {
    let Value::Table(table) = &node.value else {
        return None;
    };
    let text = |key: &str| match &table.get(key)?.value {
        Value::Text(text) => Some(text.as_str()),
        _ => None,
    };
    match text(by) {
        Some(name) => Some(name.into()),
        // A link is called after its ends unless it has a name of its own.
        None if by == "name" => Some(format!("{}->{}", text("from")?, text("to")?).into()),
        None => None,
    }
}

/// Errors on the first unknown key, in the order of the file.
pub(super) fn check(file: &str, path: &str, table: &Table, keys: Keys) -> Result<()> {
    for (name, node) in &table.entries {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let Some(key) = find(keys, name) else {
            let path = super::error::shorten(&path);
            return Err(ScenarioError::new(node.origin.place(file), "unknown key")
                .with_key(path)
                .with_help(suggest(name, names(keys))));
        };
        match (key.kind, &node.value) {
            (
                Kind::Table(keys)
                | Kind::WordOrTable(keys, _)
                | Kind::BaseOrTable(keys, _)
                | Kind::ValueOrTable(keys)
                | Kind::TableOrSchedule(keys),
                Value::Table(table),
            ) => {
                check(file, &path, table, keys)?;
            }
            (Kind::TableOrSchedule(keys), Value::Array(items)) => {
                let Some(Key { kind: Kind::Tables(keys, _), .. }) = find(keys, "schedule") else {
                    continue;
                };
                for (index, item) in items.iter().enumerate() {
                    if let Value::Table(table) = &item.value {
                        check(file, &format!("{path}[{index}]"), table, keys)?;
                    }
                }
            }
            (Kind::Tables(keys, by), Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    if let Value::Table(table) = &item.value {
                        let path = match name_of(item, by) {
                            Some(name) => format!("{path}.{name}"),
                            None => format!("{path}[{index}]"),
                        };
                        check(file, &path, table, keys)?;
                    }
                }
            }
            // Readers say what is wrong with the type of a value.
            _ => {}
        }
    }
    Ok(())
}

/// Every key of the format with its documentation.
pub(super) fn describe(prefix: &str, keys: Keys, into: &mut Vec<KeyDoc>) {
    for key in all(keys) {
        let path = format!("{prefix}{}", key.name);
        into.push(KeyDoc {
            key: path.clone(),
            default: key.default.clone().into_owned(),
            meaning: key.meaning.clone().into_owned(),
        });
        match key.kind {
            Kind::Table(keys)
            | Kind::WordOrTable(keys, _)
            | Kind::BaseOrTable(keys, _)
            | Kind::ValueOrTable(keys)
            | Kind::TableOrSchedule(keys) => {
                describe(&format!("{path}."), keys, into);
            }
            Kind::Tables(keys, _) => describe(&format!("{path}.*."), keys, into),
            Kind::Value | Kind::Foreign => {}
        }
    }
}

const fn key(name: &'static str, default: &'static str, meaning: &'static str) -> Key {
    nested(name, Kind::Value, default, meaning)
}

const fn nested(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    meaning: &'static str,
) -> Key {
    Key {
        name,
        kind,
        default: Cow::Borrowed(default),
        meaning: Cow::Borrowed(meaning),
        values: Vec::new(),
    }
}

/// A key whose words are made of what a part tells of itself.
pub(super) fn made(
    name: &'static str,
    default: String,
    meaning: String,
    values: Vec<part::ValueKind>,
) -> Key {
    let (default, meaning) = (Cow::Owned(default), Cow::Owned(meaning));
    Key { name, kind: Kind::Value, default, meaning, values }
}

/// A table of such keys. It stays for as long as the program runs.
pub(super) fn made_table(name: &'static str, meaning: &'static str, keys: Vec<Key>) -> Key {
    let keys: &'static [Key] = Box::leak(keys.into_boxed_slice());
    let lists: Keys = Box::leak(Box::new([Fixed(keys)]));
    nested(name, Kind::Table(lists), "", meaning)
}

/// The whole file.
pub(super) const FILE: Keys = &[Fixed(&[
    key("duration", "", "how long the run lasts, up to 2400h"),
    key("warmup", "0s", "results count from here; less than duration"),
    key("seed", "1", "all random streams derive from it; 0 to 2^64 - 1"),
    key("bin", "1s", "width of throughput bins; duration / bin at most 1000000"),
    key("flow_bins", "false", "keep throughput bins of every flow too"),
    key("sample", "", "record windows and queues at the multiples of this"),
    key("idle_after", "200ms", "a connection silent for longer at its bottleneck is idle"),
    nested("dumbbell", Kind::Table(&[Fixed(DUMBBELL)]), "", "one bottleneck shared by all flows"),
    nested("parking_lot", Kind::Table(&[Fixed(PARKING_LOT)]), "", "bottlenecks in a row"),
    key("nodes", "those of the links", "names of the nodes of a general graph"),
    nested(
        "links",
        Kind::Tables(&[Fixed(GRAPH_LINK), Fixed(LINK)], "name"),
        "",
        "links of a general graph",
    ),
    nested("endpoint", Kind::Table(&[Made(endpoint::keys)]), "", "defaults of every flow"),
    nested(
        "flows",
        Kind::Tables(&[Fixed(FLOW), Fixed(HOPS), Made(endpoint::keys)], "group"),
        "",
        "groups of flows that have all in common",
    ),
    nested("experiment", Kind::Foreign, "", "reserved for sweeps, plots and claims"),
])];

const DUMBBELL: &[Key] = &[
    nested("bottleneck", Kind::Table(&[Fixed(LINK)]), "", "the shared link, data direction"),
    nested(
        "reverse_bottleneck",
        Kind::Table(&[Fixed(LINK)]),
        "mirror without loss",
        "the shared link, direction of acknowledgments",
    ),
    nested("access", Kind::Table(&[Fixed(LINK)]), "", "first and last hop of every flow"),
];

const PARKING_LOT: &[Key] = &[
    key("hops", "the number of bottlenecks", "number of bottlenecks, 1 to 1000"),
    nested("bottleneck", Kind::Table(&[Fixed(LINK)]), "", "what every bottleneck is like"),
    nested(
        "bottlenecks",
        Kind::Tables(&[Fixed(LINK)], ""),
        "",
        "one table a bottleneck, over `bottleneck`",
    ),
    nested(
        "reverse_bottleneck",
        Kind::Table(&[Fixed(LINK)]),
        "mirror without loss",
        "every bottleneck in the direction of acknowledgments",
    ),
    nested("access", Kind::Table(&[Fixed(LINK)]), "", "first and last hop of every flow"),
];

const GRAPH_LINK: &[Key] = &[
    key("name", "FROM->TO", "name of the link in results"),
    key("from", "", "node the link leaves"),
    key("to", "", "node the link reaches"),
    key("both_ways", "true", "is there a link back?"),
    nested("reverse", Kind::Table(&[Fixed(LINK)]), "mirror without loss", "the link back"),
];

const LINK: &[Key] = &[
    nested(
        "rate",
        Kind::ValueOrTable(&[Fixed(RATE_TRACE)]),
        "",
        "1bit to 100Tbit, or a trace or a schedule",
    ),
    nested(
        "delay",
        Kind::ValueOrTable(&[Fixed(CHANGING_DELAY)]),
        "",
        "propagation delay, 0 to 24h, or a schedule or a trace",
    ),
    key("queue", "50p", "what may wait, in packets (50p) or bytes (64kB)"),
    nested(
        "aqm",
        Kind::WordOrTable(&[Made(aqm_keys)], aqm_names),
        "droptail",
        "queue management: a kind, or a table",
    ),
    nested(
        "router",
        Kind::WordOrTable(&[Made(router_keys)], router_names),
        "auto",
        "auto (what the protocols ask for), a kind, or a table",
    ),
    nested(
        "classes",
        Kind::ValueOrTable(&[Fixed(CLASSES)]),
        "false",
        "true or a table: a queue for each class of protocols, by the router that they ask for",
    ),
    key("loss", "0", "probability that a packet is lost"),
    key("ber", "0", "probability that a bit is inverted"),
    nested("burst", Kind::Table(&[Fixed(BURST)]), "", "losses of consecutive packets"),
    nested(
        "gilbert_elliott",
        Kind::Table(&[Fixed(GILBERT_ELLIOTT)]),
        "",
        "a good and a bad state, by packet (p, r) or by time (mean_good, mean_bad)",
    ),
    nested(
        "notifier",
        Kind::WordOrTable(&[Fixed(NOTIFIER)], notifier_names),
        "auto",
        "what knows of corruption: auto (where asked for), off, configured or measured",
    ),
    nested(
        "jitter",
        Kind::ValueOrTable(&[Fixed(JITTER)]),
        "0s",
        "delay at random beyond `delay`: the most that it is, or a distribution",
    ),
    nested("reorder", Kind::Table(&[Fixed(REORDER)]), "", "a share of the packets is late"),
    nested(
        "outages",
        Kind::TableOrSchedule(&[Fixed(OUTAGES)]),
        "[]",
        "times without a signal: a list, or a table with one",
    ),
    nested("arq", Kind::Table(&[Fixed(ARQ)]), "", "link-layer retransmission of what is corrupted"),
];

const REORDER: &[Key] = &[
    key("share", "", "probability that a packet is late"),
    key(
        "by",
        "",
        "how late: a time, or packets (3p) that overtake it on a busy wire, 1 to 1000000",
    ),
];

const ARQ: &[Key] = &[
    key("attempts", "", "how often a frame is sent at most, 1 to 100"),
    key("delay", "", "time from the end of an attempt to the next, 0 to 10s"),
    key("in_order", "true", "does the far end hold back what comes after a missing frame?"),
    key("air_time", "true", "do retransmissions take time on the wire?"),
];

const CHANGING_DELAY: &[Key] = &[
    nested(
        "schedule",
        Kind::Tables(&[Fixed(DELAY_STEP)], ""),
        "",
        "delays, each from an instant on",
    ),
    key("repeat", "never", "schedule: time after which it starts over, after the last entry"),
    key(
        "trace",
        "",
        "file with a time and a delay a line, both in ms; the last time is the period",
    ),
    key("in_order", "false", "does what takes a shorter route wait for what left before?"),
];

const DELAY_STEP: &[Key] = &[
    key("at", "", "instant from which on it holds; the first at 0s"),
    key("delay", "", "propagation delay, 0 to 24h"),
];

const JITTER: &[Key] = &[
    key("distribution", "uniform", "uniform, normal, exponential or pareto"),
    key("amount", "", "uniform: the most, beginning at 0"),
    key("mean", "", "all others: the mean"),
    key("deviation", "mean / 4", "normal: standard deviation; below 0 is 0"),
    key("shape", "3", "pareto: exponent of the tail, above 1, up to 100"),
    key("correlation", "0", "of a draw with the one before, 0 to less than 1"),
    key("interval", "0s", "how long a draw holds; 0s draws for each packet"),
    key("in_order", "true", "does a packet wait for the one before it to arrive?"),
];

const OUTAGES: &[Key] = &[
    nested("schedule", Kind::Tables(&[Fixed(OUTAGE)], ""), "", "outages, in order"),
    key("repeat", "never", "time after which they start over, not before the last has ended"),
    key("during", "hold", "hold: nothing is sent; drop: what is sent is destroyed"),
];

const OUTAGE: &[Key] =
    &[key("at", "", "instant at which it begins"), key("length", "", "how long it lasts")];

const NOTIFIER: &[Key] = &[
    key("kind", "", "auto, off, configured or measured"),
    key("window", "10000", "measured: packets it averages over, 1 to 10^9"),
    key("prior", "100", "measured: packets taken as uncorrupted in advance, 0 to 10^9"),
];

const RATE_TRACE: &[Key] = &[
    key("trace", "", "file with a millisecond a line, each good for 1500 bytes (mahimahi)"),
    key("opportunities", "", "the same milliseconds as an array"),
    nested("schedule", Kind::Tables(&[Fixed(RATE_STEP)], ""), "", "rates, each from an instant on"),
    key("repeat", "never", "schedule: time after which it starts over, after the last entry"),
];

const RATE_STEP: &[Key] = &[
    key("at", "", "instant from which on it holds; the first at 0s"),
    key("rate", "", "1bit to 100Tbit"),
];

fn notifier_names() -> Vec<&'static str> {
    link::NOTIFIERS.map(|(name, _)| name).to_vec()
}

fn aqm_names() -> Vec<&'static str> {
    AqmConfig::forms().into_iter().map(|(words, _)| words.name).collect()
}

fn router_names() -> Vec<&'static str> {
    let kinds = RouterConfig::forms().into_iter().map(|(words, _)| words.name);
    std::iter::once("auto").chain(kinds).collect()
}

fn protocol_names() -> Vec<&'static str> {
    PROTOCOLS.iter().map(|protocol| protocol.name).collect()
}

/// The keys of AQM, as its parts tell them.
fn aqm_keys() -> &'static [Key] {
    static KEYS: OnceLock<Vec<Key>> = OnceLock::new();
    KEYS.get_or_init(|| {
        let forms = AqmConfig::forms().into_iter();
        let parts: Vec<_> = forms.map(|(words, spec)| (words, spec.settings())).collect();
        parameter::keys_of_kinds(None, &parts)
    })
}

/// The keys of routers, as they tell them.
fn router_keys() -> &'static [Key] {
    static KEYS: OnceLock<Vec<Key>> = OnceLock::new();
    KEYS.get_or_init(|| {
        let forms = RouterConfig::forms().into_iter();
        let parts: Vec<_> = forms.map(|(words, spec)| (words, spec.settings())).collect();
        parameter::keys_of_kinds(Some("auto"), &parts)
    })
}

const CLASSES: &[Key] = &[
    nested("none", Kind::Table(&[Fixed(CLASS)]), "", "plain TCP and datagrams"),
    nested("xcp", Kind::Table(&[Fixed(CLASS)]), "", "protocols that ask for xcp"),
    nested(
        "xcp-persistent",
        Kind::Table(&[Fixed(CLASS)]),
        "",
        "protocols that ask for xcp-persistent",
    ),
    nested("xtcp", Kind::Table(&[Fixed(CLASS)]), "", "protocols that ask for xtcp"),
    nested(
        "ecn-threshold",
        Kind::Table(&[Fixed(CLASS)]),
        "",
        "protocols that ask for ecn-threshold",
    ),
    nested("estcp", Kind::Table(&[Fixed(CLASS)]), "", "protocols that ask for estcp"),
    nested("cw", Kind::Table(&[Fixed(CLASS)]), "", "protocols that ask for cw"),
];

const CLASS: &[Key] = &[
    key("weight", "1", "share of the wire beside those of other classes, 0.001 to 1000"),
    key("queue", "that of the link", "what may wait of this class"),
    nested("aqm", Kind::WordOrTable(&[Made(aqm_keys)], aqm_names), "that of the link", "its AQM"),
    nested(
        "router",
        Kind::WordOrTable(&[Made(router_keys)], router_names),
        "what the class asks for",
        "its router",
    ),
];

const BURST: &[Key] = &[
    key("event", "", "probability that a packet begins a burst"),
    key("rate", "", "the same as event times length"),
    key("length", "", "packets lost by one event, 1 to 1000000"),
    key("per_flow", "true", "packets of one flow (true) or of the link (false)"),
];

const GILBERT_ELLIOTT: &[Key] = &[
    key("p", "", "by packet: probability of good to bad"),
    key("r", "1 - p", "by packet: probability of bad to good"),
    key("mean_good", "", "by time: mean time in the good state"),
    key("mean_bad", "", "by time: mean time in the bad state"),
    key("loss_good", "0", "loss probability in the good state (netem's 1-k)"),
    key("loss_bad", "1", "loss probability in the bad state (netem's 1-h)"),
];

/// The keys of `[[flows]]` that make a group one of datagrams.
pub(super) const DATAGRAMS: [&str; 4] = ["cbr", "on_off", "media", "schedule"];

const FLOW: &[Key] = &[
    key("group", "", "unique name of the group"),
    key("count", "1", "number of flows, 1 to 100000 in all groups"),
    nested(
        "protocol",
        Kind::BaseOrTable(&[Fixed(COMPOSITION)], protocol_names),
        "",
        "a name of the protocol table, or parts by name; or cbr, on_off, media, schedule",
    ),
    nested("cbr", Kind::Table(&[Fixed(CBR)]), "", "datagrams at a constant rate"),
    nested("on_off", Kind::Table(&[Fixed(ON_OFF)]), "", "datagrams, exponential on and off times"),
    nested("media", Kind::Table(&[Fixed(MEDIA)]), "", "frames of live video (RFC 8593)"),
    nested(
        "schedule",
        Kind::Tables(&[Fixed(INTERVAL)], ""),
        "",
        "datagrams during given intervals",
    ),
    key("size", "no end of data", "what to transfer, bytes (10MB) or packets (1000p)"),
    nested(
        "arrivals",
        Kind::Table(&[Fixed(ARRIVALS)]),
        "",
        "transfers that come at random between `count` pairs of hosts, each a connection",
    ),
    nested(
        "receiver",
        Kind::WordOrTable(&[Fixed(RECEIVER)], receiver_names),
        "honest",
        "how the receivers behave: a kind, or a table",
    ),
    key("start", "0s", "an instant, or a range [\"0s\", \"1s\"] drawn from per flow"),
    key("stop", "never", "no more data from here on; after start"),
    key("bottleneck", "slowest link", "link at which throughput is measured"),
];

const RECEIVER: &[Key] = &[
    key("kind", "", "honest, optimistic, divides, duplicates or hides-marks"),
    key("ahead", "0", "optimistic: packets acknowledged beyond the highest seen, 0 to 2^20"),
    key("pieces", "4", "divides: acknowledgments of one packet, 2 to 1000"),
    key("copies", "3", "duplicates: copies of each acknowledgment, 1 to 1000"),
];

fn receiver_names() -> Vec<&'static str> {
    group::RECEIVERS.to_vec()
}

const ARRIVALS: &[Key] = &[
    key("rate", "", "transfers per second of the whole group, on average; above 0, up to 10^9"),
    key("load", "", "instead of rate: what they carry of the bottleneck's rate; above 0, up to 2"),
    key("from", "0s", "when the first may begin"),
    key("until", "end of the run", "none begins from here on; after from"),
    nested("sizes", Kind::ValueOrTable(&[Fixed(SIZES)]), "", "a size, several, or a distribution"),
];

const SIZES: &[Key] = &[
    key("distribution", "", "fixed, list, exponential, lognormal, pareto or cdf"),
    key("mean", "", "fixed, exponential, lognormal, pareto: the mean, bytes or packets"),
    key("sigma", "", "lognormal: standard deviation of the logarithm, 0 to 10"),
    key("shape", "", "pareto: exponent of the tail, above 0, up to 100; above 1 without most"),
    key("least", "what gives the mean", "pareto: instead of mean, the least size"),
    key("most", "no bound", "pareto: the greatest size"),
    key("values", "", "list: sizes of the same probability"),
    key("points", "", "cdf: [[\"1kB\", 0.5], [\"1MB\", 1]]: sizes, and the share no larger"),
];

const COMPOSITION: &[Key] = &[
    key("base", "", "a row of the protocol table, whose parts are those not named here"),
    key("window", "that of base", "congestion controller, by its name in `windward list --parts`"),
    key("recovery", "that of base, sack", "recovery scheme"),
    key("discrimination", "that of base, always", "what judges losses"),
    key("feedback", "that of base, none", "what packets carry and ACKs echo"),
    key("router", "what the feedback asks for", "what the routers on the path must do"),
    key("name", "base and what differs", "the name in results"),
];

const HOPS: &[Key] = &[
    nested(
        "first_hop",
        Kind::Table(&[Fixed(HOP), Fixed(LINK)]),
        "access",
        "the link of the sender",
    ),
    nested(
        "last_hop",
        Kind::Table(&[Fixed(HOP), Fixed(LINK)]),
        "access",
        "the link of the receiver",
    ),
    nested(
        "first_hop_reverse",
        Kind::Table(&[Fixed(LINK)]),
        "mirror without loss",
        "acknowledgments to the sender",
    ),
    nested(
        "last_hop_reverse",
        Kind::Table(&[Fixed(LINK)]),
        "mirror without loss",
        "acknowledgments from the receiver",
    ),
    key("from", "0 in a parking lot", "graph: node; parking lot: first bottleneck"),
    key("to", "the last in a parking lot", "graph: node; parking lot: last bottleneck"),
    key("upload", "false", "dumbbell, parking lot: data takes the ways back"),
    key("hops", "all", "parking lot: bottlenecks crossed, consecutive, from 0"),
    key("path", "shortest", "graph: nodes that data passes, from and to included"),
    key("ack_path", "path backwards", "graph: nodes that acknowledgments pass"),
];

const HOP: &[Key] = &[
    key("shared", "false", "do all flows of the group cross one common link here?"),
    key("delay_to", "delay", "spread the delays of the flows evenly from `delay` to this"),
];

const CBR: &[Key] = &[
    key("rate", "", "sending rate on the wire"),
    key("packet_size", "that of the flow", "bytes on the wire"),
];

const ON_OFF: &[Key] = &[
    key("rate", "", "sending rate while on"),
    key("mean_on", "", "mean on time, up to 2400h"),
    key("mean_off", "", "mean off time, up to 2400h"),
    key("packet_size", "that of the flow", "bytes on the wire"),
];

const MEDIA: &[Key] = &[
    key("rate", "", "target rate on the wire"),
    key("fps", "30", "frames per second, above 0, up to 1000"),
    key("variation", "0.15", "scale of the Laplacian variation of frames, 0 to 1"),
    key("packet_size", "that of the flow", "bytes on the wire"),
    key(
        "deadline",
        "100ms",
        "a frame that takes so much longer than on idle links is late, 0 to 1h",
    ),
    key("report_interval", "1s", "time between reports, for the circuit breaker; 10ms to 1h"),
];

const INTERVAL: &[Key] = &[
    key("from", "", "begin of the interval"),
    key("until", "", "end of the interval"),
    key("rate", "", "sending rate during the interval"),
];
