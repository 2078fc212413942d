//! Common parts of the stacks of quinn's family: their descriptions, and how they connect.

use std::fmt;
use std::sync::Arc;

use windward_core::endpoint::window::ControllerConfig;
use windward_core::part::AnyPart;
use windward_core::protocols::PROTOCOLS;
use windward_sim::stack::{Connection, Facts, Stack, StackSetup, UDP_OVERHEAD};

use crate::law::{self, Pacer};
use crate::watched::Watched;

/// A stack of the family: quinn, or a fork of it.
pub(crate) trait Family: Sized + 'static {
    /// Factories of its congestion controllers.
    type Controllers: ?Sized + Send + Sync + 'static;
    /// Name of the stack, before the colon in the names of protocols.
    const NAME: &'static str;
    /// Package and version.
    const VERSION: &'static str;
    const PACER: Pacer;
    /// The controllers that it brings along.
    const OWN: &'static [Own<Self::Controllers>];

    /// Makes a controller that drives a congestion controller of Windward.
    fn drive(law: ControllerConfig, seed: u64, watched: Arc<Watched>) -> Arc<Self::Controllers>;

    /// Makes both ends of a connection. `watched` records what happens at the sender.
    fn connect(
        setup: &StackSetup,
        controllers: Arc<Self::Controllers>,
        watched: Arc<Watched>,
    ) -> Box<dyn Connection>;
}

/// A controller that the stack brings along.
pub(crate) struct Own<F: ?Sized> {
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) source: &'static str,
    pub(crate) notes: &'static [&'static str],
    pub(crate) unrepeatable: Option<&'static str>,
    /// Makes its factory for a connection with that seed.
    pub(crate) make: fn(u64) -> Arc<F>,
}

/// Source of the controller of a connection.
enum Source<F: ?Sized> {
    /// The stack itself.
    Own(fn(u64) -> Arc<F>),
    /// A congestion controller of Windward, or of another crate.
    Driven(ControllerConfig),
    /// A factory of the stack's own kind in another crate.
    Factory(Arc<F>),
}

/// A stack with one of its controllers.
struct Member<F: Family> {
    facts: Facts,
    source: Source<F::Controllers>,
}

impl<F: Family> fmt::Debug for Member<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Member").field(&self.facts.name).finish()
    }
}

impl<F: Family> Stack for Member<F> {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn connect(&self, setup: &StackSetup) -> Box<dyn Connection> {
        let watched = Arc::new(Watched::default());
        let controllers = match &self.source {
            Source::Own(make) => make(setup.seed),
            Source::Driven(law) => F::drive(*law, setup.seed, Arc::clone(&watched)),
            Source::Factory(factory) => Arc::clone(factory),
        };
        F::connect(setup, controllers, watched)
    }
}

/// Notes on all stacks of the family.
const NOTES: &[&str] = &[
    "As in the package: packets and frames, handshake, streams and flow control, acknowledgments, loss \
     detection and probe timeouts, pacing, ECN and its validation.",
    "Modelled: the clock; the socket, which sends the packets of one batch back to back (`quic.segments`); \
     the cryptography, which only costs its round trip and a tag of 16 bytes per packet; an application \
     that writes as fast as possible, over several streams (`quic.streams`), and one that reads in order.",
    "Different from the defaults: no idle timeout, so that an outage ends no connection; no discovery of \
     the path's MTU: packets have `packet_size` from the start; flow control only at `rwnd`.",
];

/// Notes on the congestion controllers of Windward.
const ON_OURS: &str = "The congestion controller is Windward's, the same code that its own senders run, with its \
     parameters as they are by default. An acknowledgment frame is one event for it; it \
     learns of losses and ECN marks once per round trip, and of persistent congestion as a restart, but \
     not of the number of packets lost or marked. Its window begins at ten packets and is at least two \
     (RFC 9002 section 7.2).";

/// Notes on the congestion controllers of other crates.
const ON_OTHERS: &str = "The congestion controller is that of another crate. An acknowledgment frame is one \
     event for it; it learns of losses and ECN marks once per round trip, and of persistent congestion as a \
     restart, but not of the number of packets lost or marked. Its window is at least two packets \
     (RFC 9002 section 7.2).";

/// Notes on factories of other crates.
const ON_FACTORIES: &str = "The congestion controller is that of another crate, behind the stack's own interface: it hears \
     all that the stack tells its own controllers.";

const ON_PACER: &str =
    "The stack paces at 1.25 windows per round trip, in bursts, for any controller.";

/// From the smallest payload of QUIC (RFC 9000 section 14) to the largest packet of IPv4.
const PACKET_SIZES: std::ops::RangeInclusive<u32> = 1200 + UDP_OVERHEAD..=65_535;

/// Facts of a stack with a congestion controller; `note` comes first among its notes.
fn facts_of_driven<F: Family>(
    name: String,
    summary: String,
    source: String,
    note: &'static str,
) -> Facts {
    let pacer = (F::PACER == Pacer::Own).then_some(ON_PACER);
    Facts {
        // Made once and kept for the life of the program.
        name: name.leak(),
        summary: summary.leak(),
        source: source.leak(),
        notes: [note].into_iter().chain(pacer).chain(NOTES.iter().copied()).collect(),
        packet_sizes: PACKET_SIZES,
        unrepeatable: None,
    }
}

/// Every controller in a stack: its own, and the congestion controllers of Windward that it can
/// run.
pub(crate) fn all<F: Family>() -> impl Iterator<Item = Arc<dyn Stack>> {
    let own = F::OWN.iter().map(|own| Member::<F> {
        facts: Facts {
            name: own.name,
            summary: own.summary,
            source: own.source,
            notes: own.notes.iter().chain(NOTES).copied().collect(),
            packet_sizes: PACKET_SIZES,
            unrepeatable: own.unrepeatable,
        },
        source: Source::Own(own.make),
    });
    let laws = law::rows(F::PACER).map(|row| {
        let (stack, version) = (F::NAME, F::VERSION);
        let name = format!("{stack}:{}", row.name);
        let taken = F::OWN.iter().any(|own| own.name == name);
        let name = if taken { format!("{stack}:windward-{}", row.name) } else { name };
        let summary = format!("{stack} with the congestion controller of `{}`", row.name);
        let source = format!("{version}, and Windward's `{}` ({})", row.name, row.source);
        let facts = facts_of_driven::<F>(name, summary, source, ON_OURS);
        Member { facts, source: Source::Driven(row.window) }
    });
    own.chain(laws).map(|member| Arc::new(member) as _)
}

/// The stack with a congestion controller of another crate, called `quinn:NAME` or `noq:NAME`.
///
/// # Errors
/// If the name is taken, or if the controller needs what the stack does not give.
pub(crate) fn with_controller<F: Family>(
    name: &str,
    law: ControllerConfig,
) -> Result<Arc<dyn Stack>, String> {
    let whole = format!("{}:{name}", F::NAME);
    if crate::all().find(&whole).is_some() {
        return Err(format!("there is already a stack {whole}"));
    }
    if let Some(why) = law::obstacle_of_law(&law, F::PACER) {
        return Err(format!("{whole} is not possible: {why}"));
    }
    let words = law.words();
    let summary =
        format!("{} with a congestion controller of another crate: {}", F::NAME, words.what);
    let source = format!("{}, and {}", F::VERSION, words.source);
    let facts = facts_of_driven::<F>(whole, summary, source, ON_OTHERS);
    Ok(Arc::new(Member::<F> { facts, source: Source::Driven(law) }))
}

/// The stack with a controller factory of another crate, called `quinn:NAME` or `noq:NAME`.
///
/// # Errors
/// If the name is taken.
pub(crate) fn with_factory<F: Family>(
    name: &str,
    factory: Arc<F::Controllers>,
) -> Result<Arc<dyn Stack>, String> {
    let whole = format!("{}:{name}", F::NAME);
    if crate::all().find(&whole).is_some() {
        return Err(format!("there is already a stack {whole}"));
    }
    let summary = format!("{} with a congestion controller of another crate", F::NAME);
    let source = format!("{}, and the controller's own crate", F::VERSION);
    let facts = facts_of_driven::<F>(whole, summary, source, ON_FACTORIES);
    Ok(Arc::new(Member::<F> { facts, source: Source::Factory(factory) }))
}

/// Rows of the protocol table whose congestion controller cannot run in a stack: the name that it
/// would have there, and the reason as the end of a sentence.
pub(crate) fn refused<F: Family>() -> impl Iterator<Item = (String, &'static str)> {
    PROTOCOLS.iter().filter_map(|row| {
        law::obstacle(row, F::PACER).map(|why| (format!("{}:{}", F::NAME, row.name), why))
    })
}
