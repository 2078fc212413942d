//! The pure half of Windward: protocols, routers and channels as state machines.
//!
//! Nothing here reads a clock, does I/O or draws from a global random generator: time and
//! randomness are arguments. The same code therefore runs in virtual time, between network
//! namespaces and in real endpoints.
//!
//! The modules, in reading order; each uses only those before it, except that
//! [`endpoint::Sender`] is made from a [`protocols::Protocol`]:
//!
//! - [`units`]: time, rates, probabilities and their texts. [`rng`]: streams of random numbers.
//! - [`expression`]: arithmetic as users write it.
//! - [`part`]: the description that each part gives of itself, with its parameters.
//! - [`packet`]: packets and their headers. [`wire`]: their bytes.
//! - [`network`]: links, AQMs, routers, loss channels, impairments and notifiers.
//! - [`endpoint`]: senders and receivers. The axes are `window` (congestion controllers),
//!   `recovery`, `discrimination` and `feedback`; `estimator` has their measurements.
//! - [`media`]: senders and receivers of live media, and their rate controllers.
//! - [`protocols`]: the table of protocols, each a row of parts.
//!
//! A caller polls a sender for packets and passes it the acknowledgments that arrive:
//!
//! ```
//! use windward_core::endpoint::{EndpointConfig, Receiver, Sender};
//! use windward_core::packet::Packet;
//! use windward_core::protocols;
//! use windward_core::units::{Duration, Time};
//!
//! let protocol = protocols::find("newreno").expect("a row of the table");
//! let config = EndpointConfig { initial_window: 2.0, ..EndpointConfig::default() };
//! let mut sender = Sender::new(protocol, &config, 1, "sender");
//! let mut receiver = Receiver::new(&protocol.feedback, &config);
//! sender.offer_until(20);
//!
//! // A path without limits: everything sent in a round trip is acknowledged at its end.
//! let one_way = Duration::from_millis(25);
//! let (mut now, mut round_trips) = (Time::ZERO, 0);
//! while !sender.is_done() {
//!     let mut acks = Vec::new();
//!     let mut packet = Packet::default();
//!     while sender.poll_transmit(now, &mut packet) {
//!         let mut arrived = packet.clone();
//!         if receiver.on_data(now + one_way, &mut arrived) {
//!             acks.push(arrived); // It has become the acknowledgment.
//!         }
//!     }
//!     now = now + one_way + one_way;
//!     for ack in &acks {
//!         sender.on_ack(now, ack);
//!     }
//!     round_trips += 1;
//! }
//! // Slow start doubles the window: 2 + 4 + 8 packets and the 6 that are left.
//! assert_eq!(round_trips, 4);
//! assert_eq!(receiver.stats().unique, 20);
//! ```
//!
//! `examples/transfer.rs` adds links with queues between the two, and handles the timers.

pub mod endpoint;
pub mod expression;
pub mod media;
pub mod network;
pub mod packet;
pub mod part;
pub mod protocols;
pub mod rng;
#[cfg(test)]
mod testing;
pub mod units;
pub mod wire;
