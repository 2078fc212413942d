//! The application of a sender: the data left to write, and the streams for it.

use std::sync::OnceLock;

use bytes::Bytes;
use windward_sim::stack::StackSetup;

/// Bytes written to one stream before the next one.
const CHUNK: u64 = 64 << 10;

/// Bytes that are written ahead of sent data, in addition to the window.
const AHEAD: u64 = 1 << 20;

/// Data to send: zeros.
#[derive(Debug)]
pub(crate) struct Application {
    /// Bytes that are left to write; bulk data never runs out.
    left: u64,
    written: u64,
    /// Bytes that the connection has put into packets of any kind.
    sent: u64,
    /// Number of streams that it uses.
    streams: u32,
}

impl Application {
    pub(crate) fn new(setup: &StackSetup) -> Self {
        let left = setup.bytes.unwrap_or(u64::MAX);
        let most = u64::from(setup.config.streams);
        // One more stream for each chunk.
        let streams = left.div_ceil(CHUNK).clamp(1, most) as u32;
        Application { left, written: 0, sent: 0, streams }
    }

    pub(crate) fn streams(&self) -> u32 {
        self.streams
    }

    /// True if everything is written.
    pub(crate) fn is_finished(&self) -> bool {
        self.left == 0
    }

    /// Stops writing.
    pub(crate) fn stop(&mut self) {
        self.left = 0;
    }

    /// Notes a packet that the connection has sent.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.sent += bytes as u64;
    }

    /// Data to write now to the next stream, so that a connection with this window always has data
    /// to send.
    pub(crate) fn next(&self, window: u64) -> Option<Bytes> {
        static ZEROS: OnceLock<Bytes> = OnceLock::new();
        let goal = self.sent.saturating_add(window).saturating_add(AHEAD);
        let size = self.left.min(CHUNK);
        let zeros = ZEROS.get_or_init(|| Bytes::from(vec![0; CHUNK as usize]));
        (size > 0 && self.written < goal).then(|| zeros.slice(..size as usize))
    }

    /// Notes how many of these bytes the stream took.
    pub(crate) fn wrote(&mut self, bytes: usize) {
        self.written += bytes as u64;
        if self.left != u64::MAX {
            self.left -= bytes as u64;
        }
    }
}
