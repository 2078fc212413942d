//! Every key of the format, in one table: what is not here is an error.

use std::borrow::Cow;
use std::sync::OnceLock;

use KeyList::{Fixed, Made};

use windward_core::network::{AqmSpec, RouterSpec};
use windward_core::part;
use windward_core::protocols::PROTOCOLS;

use super::error::{ScenarioError, suggest};
use super::parameter;
use super::section::Result;
use super::tree::{Node, Table, Value};
use super::{endpoint, link};

/// A key and what may stand under it.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) default: Cow<'static, str>,
    pub(super) meaning: Cow<'static, str>,
    /// The kinds of values it takes, as far as a part tells: several where parts differ.
    pub(super) values: Vec<part::Kind>,
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
                | Kind::ValueOrTable(keys),
                Value::Table(table),
            ) => {
                check(file, &path, table, keys)?;
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
            | Kind::ValueOrTable(keys) => {
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
    values: Vec<part::Kind>,
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
    nested("rate", Kind::ValueOrTable(&[Fixed(RATE_TRACE)]), "", "1bit to 100Tbit, or a trace"),
    key("delay", "", "propagation delay, 0 to 24h"),
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
];

const NOTIFIER: &[Key] = &[
    key("kind", "", "auto, off, configured or measured"),
    key("window", "10000", "measured: packets it averages over, 1 to 10^9"),
    key("prior", "100", "measured: packets taken as uncorrupted in advance, 0 to 10^9"),
];

const RATE_TRACE: &[Key] = &[
    key("trace", "", "file with a millisecond a line, each good for 1500 bytes (mahimahi)"),
    key("opportunities", "", "the same milliseconds as an array"),
];

fn notifier_names() -> Vec<&'static str> {
    link::NOTIFIERS.map(|(name, _)| name).to_vec()
}

fn aqm_names() -> Vec<&'static str> {
    AqmSpec::forms().into_iter().map(|(words, _)| words.name).collect()
}

fn router_names() -> Vec<&'static str> {
    let kinds = RouterSpec::forms().into_iter().map(|(words, _)| words.name);
    std::iter::once("auto").chain(kinds).collect()
}

fn protocol_names() -> Vec<&'static str> {
    PROTOCOLS.iter().map(|protocol| protocol.name).collect()
}

/// The keys of queue management, as its parts tell them.
fn aqm_keys() -> &'static [Key] {
    static KEYS: OnceLock<Vec<Key>> = OnceLock::new();
    KEYS.get_or_init(|| {
        let forms = AqmSpec::forms().into_iter();
        let parts: Vec<_> = forms.map(|(words, spec)| (words, spec.settings())).collect();
        parameter::keys_of_kinds(None, &parts)
    })
}

/// The keys of routers, as they tell them.
fn router_keys() -> &'static [Key] {
    static KEYS: OnceLock<Vec<Key>> = OnceLock::new();
    KEYS.get_or_init(|| {
        let forms = RouterSpec::forms().into_iter();
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
    nested(
        "aqm",
        Kind::WordOrTable(&[Made(aqm_keys)], aqm_names),
        "that of the link",
        "its queue management",
    ),
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
pub(super) const DATAGRAMS: [&str; 3] = ["cbr", "on_off", "schedule"];

const FLOW: &[Key] = &[
    key("group", "", "unique name of the group"),
    key("count", "1", "number of flows, 1 to 100000 in all groups"),
    nested(
        "protocol",
        Kind::BaseOrTable(&[Fixed(COMPOSITION)], protocol_names),
        "",
        "a name of the protocol table, or parts by name; or cbr, on_off, schedule",
    ),
    nested("cbr", Kind::Table(&[Fixed(CBR)]), "", "datagrams at a constant rate"),
    nested("on_off", Kind::Table(&[Fixed(ON_OFF)]), "", "datagrams, exponential on and off times"),
    nested(
        "schedule",
        Kind::Tables(&[Fixed(INTERVAL)], ""),
        "",
        "datagrams during given intervals",
    ),
    key("size", "no end of data", "what to transfer, bytes (10MB) or packets (1000p)"),
    key("start", "0s", "an instant, or a range [\"0s\", \"1s\"] drawn from per flow"),
    key("stop", "never", "no more data from here on; after start"),
    key("bottleneck", "slowest link", "link at which throughput is measured"),
];

const COMPOSITION: &[Key] = &[
    key("base", "", "a row of the protocol table, whose parts are those not named here"),
    key("window", "that of base", "window law, by its name in `windward list --parts`"),
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

const INTERVAL: &[Key] = &[
    key("from", "", "begin of the interval"),
    key("until", "", "end of the interval"),
    key("rate", "", "sending rate during the interval"),
];
