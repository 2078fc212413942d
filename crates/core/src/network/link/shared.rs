//! A link that shares a medium with others: its frames, and their retransmission.

use std::collections::VecDeque;

use super::frames::{Frame, Shared, State, Waiting};
use super::queued::QueuedLink;
use super::{Departure, Fate, Packets};
use crate::network::medium::{MediumConfig, Transmission};
use crate::units::{Duration, Time};

impl<T> QueuedLink<T> {
    /// Lets the link share a [medium](crate::network::Medium), before the first packet: packets
    /// leave by [`QueuedLink::transmit`] only.
    pub fn share(&mut self) {
        self.shared = Some(Box::new(Shared { frames: VecDeque::new() }));
    }

    /// The arrival time of the packet that is transmitted next on a shared medium, if there is
    /// one.
    pub fn next_in_turn(&self) -> Option<Time> {
        // The first frame is always due.
        let again = self.shared.as_ref()?.frames.front().map(|frame| frame.waiting.arrived);
        again.or_else(|| self.first_waiting().map(|(arrived, _)| arrived))
    }

    /// Transmits frames to the far end from `now` on, which is the next access of the link to its
    /// medium: first those that failed before, then as many as the medium allows in one PPDU.
    /// `collides` is true if another station transmits at the same time. The fates of packets that
    /// are now decided are added to `fates`, in order. Returns `None` if there was nothing to
    /// transmit.
    pub fn transmit(
        &mut self,
        now: Time,
        medium: &MediumConfig,
        collides: bool,
        packets: &mut (impl Packets<T> + ?Sized),
        fates: &mut Vec<Fate<T>>,
    ) -> Option<Transmission> {
        self.look(now);
        let mut shared = self.shared.take()?;
        let count = self.gather(&mut shared, now, medium, packets, fates);
        let sent = (count > 0).then(|| {
            let sent = self.send_frames(&mut shared, count, now, medium, collides, packets);
            deliver(&mut shared, self.wire.delay, fates);
            sent
        });
        self.shared = Some(shared);
        sent
    }

    /// Gathers the frames of a PPDU: those that failed before, then packets that wait. Returns
    /// their number.
    fn gather(
        &mut self,
        shared: &mut Shared<T>,
        now: Time,
        medium: &MediumConfig,
        packets: &mut (impl Packets<T> + ?Sized),
        fates: &mut Vec<Fate<T>>,
    ) -> usize {
        let rate = self.told;
        let most = medium.frames as usize;
        let (mut count, mut bytes) = (0, 0);
        let with = |bytes: u64, size| bytes + medium.frame_bytes(size, true);
        let fits = |count, bytes, size| {
            count == 0 || count < most && medium.allows(rate, with(bytes, size))
        };
        let due = shared.due().count();
        for frame in shared.due() {
            let size = frame.waiting.size;
            if !fits(count, bytes, size) {
                break;
            }
            (count, bytes) = (count + 1, with(bytes, size));
        }
        while count >= due
            && shared.frames.len() < most
            && let Some((_, size)) = self.first_waiting()
            && fits(count, bytes, size)
        {
            match self.take(now, packets) {
                Some(Ok((waiting, _))) => {
                    (count, bytes) = (count + 1, with(bytes, waiting.size));
                    shared.frames.push_back(Frame {
                        waiting,
                        attempts: 0,
                        start: now,
                        end: now,
                        state: State::Due,
                    });
                }
                Some(Err(fate)) => fates.push(fate),
                None => break,
            }
        }
        count
    }

    /// Sends the first `count` frames that are due in a PPDU.
    fn send_frames(
        &mut self,
        shared: &mut Shared<T>,
        count: usize,
        now: Time,
        medium: &MediumConfig,
        collides: bool,
        packets: &mut (impl Packets<T> + ?Sized),
    ) -> Transmission {
        let is_aggregated = count > 1;
        let (mut sent, mut end, mut is_acknowledged) = (0, now, false);
        for frame in shared.due().take(count) {
            let Waiting { handle, label, size, .. } = &frame.waiting;
            sent += medium.frame_bytes(*size, is_aggregated);
            frame.start = end;
            end = now + medium.data_time(self.told, sent);
            frame.end = end;
            frame.attempts += 1;
            let fails = collides || self.wire.destroys(end, *label, packets.packet(handle));
            frame.state = match fails {
                false => State::Received,
                true if frame.attempts >= medium.attempts => State::GivenUp,
                true => State::Due,
            };
            is_acknowledged |= !fails;
        }
        self.sent_until(end);
        Transmission { end, is_aggregated, is_acknowledged }
    }
}

/// Delivers the frames at the front that are not due again, in order.
fn deliver<T>(shared: &mut Shared<T>, delay: Duration, fates: &mut Vec<Fate<T>>) {
    let mut heard = Time::ZERO;
    while shared.frames.front().is_some_and(|frame| frame.state != State::Due)
        && let Some(frame) = shared.frames.pop_front()
    {
        let Frame { waiting: Waiting { handle, arrived, .. }, start, end, state, .. } = frame;
        heard = heard.max(end);
        let destroyed = state == State::GivenUp;
        let departure = Departure { start, end, arrival: heard + delay, destroyed };
        fates.push(Fate::Sent { handle, arrived, departure });
    }
}
