//! What the stacks of quinn's family tell of themselves.

use std::sync::Arc;

use windward_core::endpoint::window::ControllerConfig;
use windward_core::part::AnyPart;
use windward_sim::stack::{Facts, UDP_OVERHEAD};

use crate::law::{self, Pacer};

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

/// What makes the controller of a connection.
pub(crate) enum Factory<F: ?Sized> {
    /// The stack's own.
    Own(fn(u64) -> Arc<F>),
    /// A congestion controller of ours.
    Ours(ControllerConfig),
}

impl<F: ?Sized> std::fmt::Debug for Factory<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Factory::Own(_) => f.write_str("Own"),
            Factory::Ours(law) => f.debug_tuple("Ours").field(law).finish(),
        }
    }
}

/// What holds for all of them.
const NOTES: &[&str] = &[
    "As in the package: packets and frames, handshake, streams and flow control, acknowledgments, loss \
     detection and probe timeouts, pacing, ECN and its validation.",
    "Modelled: the clock; the socket, which sends what is made at once back to back (`quic.segments`); \
     the cryptography, which only costs its round trip and a tag of 16 bytes a packet; an application \
     that writes as fast as it may, over several streams (`quic.streams`), and one that reads in order.",
    "Not as by default: no idle timeout, so that an outage ends no connection; no discovery of the \
     path's MTU: packets have `packet_size` from the start; flow control only at `rwnd`.",
];

/// What is said of the controllers of ours.
const OF_OURS: &str = "The congestion controller is Windward's, the same code that its own senders run, with its \
     parameters as they are by default. It hears of an acknowledgment frame as one event, of losses and \
     ECN marks once a round trip, and of persistent congestion as a restart; not of how many packets \
     were lost or marked. Its window counts from ten packets and has two at least (RFC 9002 section 7.2).";

/// What is said of the controllers of others.
const OF_OTHERS: &str = "The congestion controller is that of another crate. It hears of an acknowledgment frame as one \
     event, of losses and ECN marks once a round trip, and of persistent congestion as a restart; not of \
     how many packets were lost or marked. Its window has two packets at least (RFC 9002 section 7.2).";

const PACER_OF_ITS_OWN: &str =
    "The stack paces at 1.25 windows a round trip, in bursts, whatever the controller says.";

/// All controllers within a stack.
pub(crate) fn all<F: ?Sized + 'static>(
    stack: &'static str,
    version: &'static str,
    own: &'static [Own<F>],
    pacer: Pacer,
) -> impl Iterator<Item = (Facts, Factory<F>)> {
    // The least payload of QUIC (RFC 9000 section 14), and the largest packet of IPv4.
    let packet_sizes = 1200 + UDP_OVERHEAD..=65_535;
    let sizes = packet_sizes.clone();
    let its = own.iter().map(move |own| {
        let facts = Facts {
            name: own.name,
            summary: own.summary,
            source: own.source,
            notes: own.notes.iter().chain(NOTES).copied().collect(),
            packet_sizes: sizes.clone(),
            unrepeatable: own.unrepeatable,
        };
        (facts, Factory::Own(own.make))
    });
    let ours = law::rows(pacer).map(move |row| {
        let name = format!("{stack}:{}", row.name);
        let taken = own.iter().any(|own| own.name == name);
        let name = if taken { format!("{stack}:windward-{}", row.name) } else { name };
        let facts = Facts {
            // Made once, for as long as the program runs.
            name: name.leak(),
            summary: format!("{stack} with the congestion controller of `{}`", row.name).leak(),
            source: format!("{version}, and Windward's `{}` ({})", row.name, row.source).leak(),
            notes: [OF_OURS]
                .into_iter()
                .chain((pacer == Pacer::Own).then_some(PACER_OF_ITS_OWN))
                .chain(NOTES.iter().copied())
                .collect(),
            packet_sizes: packet_sizes.clone(),
            unrepeatable: None,
        };
        (facts, Factory::Ours(row.window))
    });
    its.chain(ours)
}

/// What a stack tells of itself with a congestion controller of another crate.
pub(crate) fn with_controller(
    name: &str,
    stack: &'static str,
    version: &'static str,
    law: &ControllerConfig,
    pacer: Pacer,
) -> Facts {
    let words = law.words();
    Facts {
        // Made once, for as long as the program runs.
        name: name.to_owned().leak(),
        summary: format!("{stack} with a congestion controller of another crate: {}", words.what)
            .leak(),
        source: format!("{version}, and {}", words.source).leak(),
        notes: [OF_OTHERS]
            .into_iter()
            .chain((pacer == Pacer::Own).then_some(PACER_OF_ITS_OWN))
            .chain(NOTES.iter().copied())
            .collect(),
        packet_sizes: 1200 + UDP_OVERHEAD..=65_535,
        unrepeatable: None,
    }
}

/// The rows of the protocol table whose controllers cannot run within a stack, as that would be called, and why
/// not, as the end of a sentence.
pub(crate) fn refused(
    stack: &'static str,
    pacer: Pacer,
) -> impl Iterator<Item = (String, &'static str)> {
    windward_core::protocols::PROTOCOLS.iter().filter_map(move |row| {
        law::obstacle(row, pacer).map(|why| (format!("{stack}:{}", row.name), why))
    })
}
