//! Calls of the code of a stack, so that a panic or an endless loop ends its connection and not the
//! run.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use windward_core::units::Time;

use crate::stack::{Connection, Stack, StackReport, StackSetup, UDP_OVERHEAD};

/// Maximum number of packets and timers of an end at one instant; more is an endless
/// loop.
const MOST_AT_ONCE: u32 = 1 << 18;

/// A connection of a stack that is given up when its code fails.
#[derive(Debug)]
pub(super) struct Guarded {
    pub(super) stack: Arc<dyn Stack>,
    pub(super) setup: StackSetup,
    /// Bytes on the wire before each payload.
    pub(super) overhead: u32,
    /// The connection, from its creation until it is dropped.
    connection: Option<Box<dyn Connection>>,
    /// State at the last action of the sender, or when the connection was dropped.
    pub(super) last: StackReport,
    /// The latest instant, and the number of actions of both ends at it.
    busy: (Time, u32),
    /// Reason why the engine gave the connection up.
    given_up: Option<Arc<str>>,
}

impl Guarded {
    pub(super) fn new(stack: &Arc<dyn Stack>, setup: StackSetup) -> Self {
        Guarded {
            stack: Arc::clone(stack),
            setup,
            overhead: UDP_OVERHEAD,
            connection: None,
            last: StackReport::default(),
            busy: (Time::ZERO, 0),
            given_up: None,
        }
    }

    /// Makes the connection. Returns false if there is one or it has been given up.
    pub(super) fn connect(&mut self) -> bool {
        if self.connection.is_some() || self.given_up.is_some() {
            return false;
        }
        let made = catch_unwind(AssertUnwindSafe(|| {
            let connection = self.stack.connect(&self.setup);
            (connection.report(), connection.overhead(), connection)
        }));
        match made {
            Ok((report, overhead, connection)) => {
                self.overhead = overhead;
                self.last = report;
                self.connection = Some(connection);
                true
            }
            Err(panic) => {
                self.panicked(panic.as_ref());
                false
            }
        }
    }

    /// Calls the connection, if there is one and it has not been given up.
    pub(super) fn call<T>(&mut self, what: impl FnOnce(&mut dyn Connection) -> T) -> Option<T> {
        if self.given_up.is_some() {
            return None;
        }
        let connection = self.connection.as_mut()?;
        // It is never called again if it panics.
        match catch_unwind(AssertUnwindSafe(|| what(connection.as_mut()))) {
            Ok(answer) => Some(answer),
            Err(panic) => {
                self.panicked(panic.as_ref());
                None
            }
        }
    }

    /// Gives the connection up, with the message of a panic.
    #[cold]
    fn panicked(&mut self, panic: &(dyn Any + Send)) {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let text = text.unwrap_or("no message");
        self.given_up = Some(format!("{} panicked: {text}", self.stack.facts().name).into());
        let connection = self.connection.take();
        // The destructor may panic too.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(connection)));
    }

    /// Counts an action of an end at `now`. Returns false after too many actions, and gives
    /// up the connection.
    pub(super) fn may_act(&mut self, now: Time) -> bool {
        if self.given_up.is_some() {
            return false;
        }
        if self.busy.0 != now {
            self.busy = (now, 0);
        }
        self.busy.1 += 1;
        if self.busy.1 > MOST_AT_ONCE {
            self.given_up = Some(
                "too many packets or timers at one instant: an endless loop, or an unbounded window"
                    .into(),
            );
        }
        self.given_up.is_none()
    }

    /// True while the connection exists.
    pub(super) fn is_there(&self) -> bool {
        self.connection.is_some()
    }

    /// Drops the connection; its last report stays.
    pub(super) fn forget(&mut self) {
        self.connection = None;
    }

    /// State of the connection, or its last one.
    pub(super) fn report(&self) -> StackReport {
        let asked = self
            .connection
            .as_ref()
            .map(|connection| catch_unwind(AssertUnwindSafe(|| connection.report())).ok());
        asked.flatten().unwrap_or_else(|| self.last.clone())
    }

    /// Reason why the engine gave the connection up, if it did.
    pub(super) fn given_up(&self) -> Option<&Arc<str>> {
        self.given_up.as_ref()
    }
}
