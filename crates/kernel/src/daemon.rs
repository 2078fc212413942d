//! Reads reports and writes answers.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use libbpf_rs::RingBufferBuilder;
use rustix::time::{ClockId, clock_gettime};
use windward_core::endpoint::driver::{Driver, Host, obstacle};
use windward_core::protocols::Protocol;

use crate::connection::Connection;
use crate::event::{Event, Kind};
use crate::object::{KernelError, Object, SLOTS};

/// A protocol that can run in the kernel.
#[derive(Debug, Clone, Copy)]
pub struct Row(Protocol);

impl Row {
    /// Checks that a protocol can run in the kernel.
    ///
    /// # Errors
    /// The reason why it cannot, as a sentence without a capital or a full stop.
    pub fn of(protocol: &Protocol) -> Result<Self, String> {
        obstacle(protocol, Host::Kernel).map_or(Ok(()), Err)?;
        Driver::check(protocol).map(|()| Row(*protocol))
    }
}

/// The oldest age that is told apart, microseconds.
const OLDEST_US: u64 = 60_000_000;

/// Longest wait for a report, after which the flag to stop is read.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// The program outside of the kernel that computes windows.
#[derive(Debug)]
pub struct Daemon<'a> {
    object: &'a Object,
    row: Row,
    /// By slot.
    connections: Vec<Option<Box<Connection>>>,
    /// The first refusal of an answer.
    trouble: Option<KernelError>,
    ages: Histogram<u32>,
}

impl<'a> Daemon<'a> {
    /// A daemon with this controller for every connection.
    pub fn new(object: &'a Object, row: Row) -> Self {
        let connections = (0..SLOTS).map(|_| None).collect();
        let ages = Histogram::new_with_bounds(1, OLDEST_US, 2).expect("the bounds are valid");
        Daemon { object, row, connections, trouble: None, ages }
    }

    /// Ages of windows when they could be used, microseconds since the ACK.
    pub fn ages(&self) -> &Histogram<u32> {
        &self.ages
    }

    /// The connections in progress.
    pub fn connections(&self) -> impl Iterator<Item = &Connection> {
        self.connections.iter().flatten().map(|connection| &**connection)
    }

    /// Answers reports until the flag is set. `each` is called at least ten times a second.
    ///
    /// # Errors
    /// If the kernel refuses the ring of reports or an answer.
    pub fn run(self, stop: &AtomicBool, mut each: impl FnMut(&Self)) -> Result<(), KernelError> {
        let refused = |step| {
            move |why: libbpf_rs::Error| KernelError::Refused { step, why: format!("{why:#}") }
        };
        let events = self.object.events();
        let daemon = RefCell::new(self);
        let mut ring = RingBufferBuilder::new();
        let take = |data: &[u8]| {
            daemon.borrow_mut().take(data);
            0
        };
        ring.add(events, take).map_err(refused("read reports"))?;
        let ring = ring.build().map_err(refused("read reports"))?;
        while !stop.load(Ordering::Relaxed) {
            // An interrupted wait is no failure: the flag may be set.
            let _ = ring.poll(LONGEST_WAIT);
            if let Some(trouble) = daemon.borrow_mut().trouble.take() {
                return Err(trouble);
            }
            each(&daemon.borrow());
        }
        Ok(())
    }

    fn take(&mut self, data: &[u8]) {
        let Some(event) = Event::read(data) else { return };
        let Some(place) = self.connections.get_mut(event.slot as usize) else { return };
        if event.kind == Kind::Close {
            *place = None;
            return;
        }
        if place.as_ref().is_none_or(|connection| connection.is_over(&event)) {
            *place = Some(Box::new(Connection::new(&self.row.0, &event)));
        }
        let Some(connection) = place else { return };
        let answer = connection.on_event(&event);
        if let Err(why) = self.object.answer(event.slot, &answer) {
            self.trouble.get_or_insert(why);
        }
        // At a timeout the kernel's clock is that of the ACK before.
        if event.kind != Kind::Ack {
            return;
        }
        let now = clock_gettime(ClockId::Monotonic);
        let now_us = now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000;
        self.ages.saturating_record(now_us.saturating_sub(event.now_us).max(1));
    }
}
