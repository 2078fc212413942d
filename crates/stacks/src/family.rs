//! Common parts of the stacks of quinn's family: their descriptions, and how they connect.

use std::fmt;
use std::sync::Arc;

use windward_core::endpoint::driver::{Host, Pacer, obstacle};
use windward_core::endpoint::window::ControllerConfig;
use windward_core::part::AnyPart;
use windward_core::protocols::{self, PROTOCOLS, Protocol};
use windward_sim::stack::{Connection, Facts, Stack, StackSetup, UDP_OVERHEAD};

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

    /// Makes controllers that drive a protocol of Windward, which has no obstacle.
    fn drive(protocol: &Protocol, seed: u64) -> Arc<Self::Controllers>;

    const CONNECT: Connect<Self::Controllers>;
}

/// Makes both ends of a connection. [`Watched`] records what happens at the sender.
pub(crate) type Connect<F> = fn(&StackSetup, Arc<F>, Arc<Watched>) -> Box<dyn Connection>;

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
    /// A protocol of Windward, or one with a congestion controller of another crate.
    Driven(Box<Protocol>),
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
        let watched = match &self.source {
            Source::Factory(_) => Watched::judging(self.facts.name),
            Source::Own(_) | Source::Driven(_) => Watched::default(),
        };
        let watched = Arc::new(watched);
        let controllers = match &self.source {
            Source::Own(make) => make(setup.seed),
            Source::Driven(protocol) => F::drive(protocol, setup.seed),
            Source::Factory(factory) => Arc::clone(factory),
        };
        (F::CONNECT)(setup, controllers, watched)
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
     the path's MTU unless `quic.mtu_discovery` is set: packets have `packet_size` from the start; flow \
     control only at `rwnd`.",
];

/// Notes on the protocols of Windward.
const ON_OURS: &str = "The congestion controller and the discriminator are Windward's, the same code that its own \
     senders run, with their parameters as they are by default; recovery is the stack's. An \
     acknowledgment frame is one event for them. They learn of ECN marks once per acknowledgment frame, not \
     of the number of packets marked. The window begins at ten packets and is at least two (RFC 9002 \
     section 7.2).";

/// Notes on the congestion controllers of other crates.
const ON_OTHERS: &str = "The congestion controller is that of another crate. An acknowledgment frame is one \
     event for it; it learns of losses and ECN marks once per round trip, and of persistent congestion as a \
     restart. Its window is at least two packets (RFC 9002 section 7.2).";

/// Notes on factories of other crates.
const ON_FACTORIES: &str = "The congestion controller is that of another crate, behind the stack's own interface: it hears \
     all that the stack tells its own controllers.";

const ON_PACER: &str = "The stack paces at 1.25 windows per round trip, in bursts, for any controller. The window of \
     a controller of Windward that sets a rate is at most what the rate carries in a round trip.";

/// From the smallest payload of QUIC (RFC 9000 section 14) to the largest packet of IPv4.
const PACKET_SIZES: std::ops::RangeInclusive<u32> = 1200 + UDP_OVERHEAD..=65_535;

/// Facts of a stack with a congestion controller; `note` comes first among its notes.
fn facts_of_driven<F: Family>(
    name: String,
    summary: String,
    source: String,
    note: &'static str,
) -> Facts {
    let pacer = (F::PACER == Pacer::Window).then_some(ON_PACER);
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
    let controllers = rows().map(|row| {
        let (stack, version) = (F::NAME, F::VERSION);
        let name = format!("{stack}:{}", row.name);
        let taken = F::OWN.iter().any(|own| own.name == name);
        let name = if taken { format!("{stack}:windward-{}", row.name) } else { name };
        let judges = row.discrimination != protocols::plain().discrimination;
        let and = if judges { " and the discriminator" } else { "" };
        let summary = format!("{stack} with the congestion controller{and} of `{}`", row.name);
        let source = format!("{version}, and Windward's `{}` ({})", row.name, row.source);
        let facts = facts_of_driven::<F>(name, summary, source, ON_OURS);
        Member { facts, source: Source::Driven(Box::new(*row)) }
    });
    own.chain(controllers).map(|member| Arc::new(member) as _)
}

/// The stack with a congestion controller of another crate, called `quinn:NAME` or `noq:NAME`.
///
/// # Errors
/// If the name is taken, or if the controller needs what the stack does not give.
pub(crate) fn with_controller<F: Family>(
    name: &str,
    controller: ControllerConfig,
) -> Result<Arc<dyn Stack>, String> {
    let whole = new_name::<F>(name)?;
    let protocol = Protocol { window: controller, ..*protocols::plain() };
    if let Some(why) = obstacle(&protocol, Host::Quic) {
        return Err(format!("{whole} is not possible: {why}"));
    }
    let words = controller.words();
    let summary =
        format!("{} with a congestion controller of another crate: {}", F::NAME, words.what);
    let source = format!("{}, and {}", F::VERSION, words.source);
    let facts = facts_of_driven::<F>(whole, summary, source, ON_OTHERS);
    Ok(Arc::new(Member::<F> { facts, source: Source::Driven(Box::new(protocol)) }))
}

/// The stack with a controller factory of another crate, called `quinn:NAME` or `noq:NAME`.
///
/// # Errors
/// If the name is taken.
pub(crate) fn with_factory<F: Family>(
    name: &str,
    factory: Arc<F::Controllers>,
) -> Result<Arc<dyn Stack>, String> {
    let whole = new_name::<F>(name)?;
    let summary = format!("{} with a congestion controller of another crate", F::NAME);
    let source = format!("{}, and the controller's own crate", F::VERSION);
    let facts = facts_of_driven::<F>(whole, summary, source, ON_FACTORIES);
    Ok(Arc::new(Member::<F> { facts, source: Source::Factory(factory) }))
}

/// The name of the stack with a controller of that name, which must be new.
fn new_name<F: Family>(name: &str) -> Result<String, String> {
    let whole = format!("{}:{name}", F::NAME);
    match crate::all().find(&whole) {
        Some(_) => Err(format!("there is already a stack {whole}")),
        None => Ok(whole),
    }
}

/// Rows of the protocol table that can run in a stack: the first with each pair of congestion
/// controller and discriminator, since recovery is the stack's.
fn rows() -> impl Iterator<Item = &'static Protocol> {
    let known = |row: &Protocol, before: &[Protocol]| {
        let same = |other: &&Protocol| {
            other.window == row.window && other.discrimination == row.discrimination
        };
        before.iter().filter(same).any(|other| obstacle(other, Host::Quic).is_none())
    };
    let rows = PROTOCOLS.iter().enumerate();
    rows.filter(move |(at, row)| {
        obstacle(row, Host::Quic).is_none() && !known(row, &PROTOCOLS[..*at])
    })
    .map(|(_, row)| row)
}

/// Rows of the protocol table that cannot run in a stack: the name that each would have there, and
/// the reason as the end of a sentence.
pub(crate) fn refused<F: Family>() -> impl Iterator<Item = (String, &'static str)> {
    PROTOCOLS.iter().filter_map(|row| {
        // Made once and kept for the life of the program.
        let why: &'static str = obstacle(row, Host::Quic)?.leak();
        Some((format!("{}:{}", F::NAME, row.name), why))
    })
}
