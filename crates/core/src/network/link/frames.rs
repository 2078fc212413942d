//! Packets in a link: those that wait, and those on a shared medium that were transmitted.

use std::collections::VecDeque;

use crate::packet::Label;
use crate::units::Time;

/// A packet in a queue.
#[derive(Debug)]
pub(super) struct Waiting<T> {
    pub(super) handle: T,
    pub(super) label: Label,
    pub(super) arrived: Time,
    pub(super) size: u32,
}

/// The frames of a link that were transmitted and whose fate the far end does not know yet: those
/// that failed, and those after them, in order.
#[derive(Debug)]
pub(super) struct Shared<T> {
    pub(super) frames: VecDeque<Frame<T>>,
}

/// A packet that has been transmitted at least once.
#[derive(Debug)]
pub(super) struct Frame<T> {
    pub(super) waiting: Waiting<T>,
    pub(super) attempts: u32,
    /// Its latest transmission.
    pub(super) start: Time,
    pub(super) end: Time,
    pub(super) state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It is to be transmitted, again if it was before.
    Due,
    /// It is at the far end, which holds it back while an earlier one is due.
    Received,
    /// All attempts failed.
    GivenUp,
}

impl<T> Shared<T> {
    /// The packets of its frames.
    pub(super) fn unacknowledged(&self) -> impl Iterator<Item = &Waiting<T>> {
        self.frames.iter().map(|frame| &frame.waiting)
    }

    /// The frames that are to be transmitted, in order.
    pub(super) fn due(&mut self) -> impl Iterator<Item = &mut Frame<T>> {
        self.frames.iter_mut().filter(|frame| frame.state == State::Due)
    }
}
