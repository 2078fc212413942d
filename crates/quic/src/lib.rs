//! Windward's congestion controllers in quinn.
//!
//! [`controller()`] makes a factory for quinn's `TransportConfig` from a row of the protocol table,
//! and [`WindwardConfig::of`] from a composition. [`Live`] reads what a connection is doing, from
//! any thread. The state behind it is [`windward_core::endpoint::driver`], which the simulator
//! runs in virtual time too. This crate needs no runtime and reads no clock.
//!
//! ```
//! let mut transport = quinn_proto::TransportConfig::default();
//! transport.congestion_controller_factory(windward_quic::controller("upwind")?);
//! # Ok::<(), windward_quic::Unsuitable>(())
//! ```
//!
//! quinn paces at 1.25 windows per round trip and ignores the rates of its controllers. The window
//! of a controller that sets a rate is therefore at most what the rate carries in a round trip, and
//! never less than two packets. Its pacer waits until ten packets may leave, and sends them at one
//! instant. Beside other senders such bursts lose packets: a program that can hold datagrams at its
//! socket asks [`Live::depart`] when each of them may leave.

#[cfg(doctest)]
#[doc = include_str!("../../../docs/deploy/controllers.md")]
struct ControllersGuide;

mod controller;

pub use controller::{Live, Unsuitable, WindwardConfig, controller};
pub use windward_core::endpoint::driver::{Figures, Support, support};
