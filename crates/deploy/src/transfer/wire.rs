//! Messages of a transfer on the wire. docs/deploy/transfer.md describes them.
//!
//! The control stream has messages in both directions: four bytes of length, little endian, and
//! postcard. Each data stream has a sequence of frames: a header in postcard, and its bytes.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::transfer::blocks::{Hash, LEAST_BLOCK};

/// Largest message, bytes.
pub const MAX_MESSAGE: usize = 64 << 10;
/// Largest number of offered entries without an outcome. A receiver ends the connection above it.
pub const MAX_OPEN: usize = 16 << 10;
/// Limit of the sum of their paths, bytes.
pub const MAX_OPEN_PATHS: usize = 4 << 20;
/// Largest number of files of several blocks among them that have data on their way.
pub const MAX_LARGE: usize = 64;
/// Largest number of bytes in a frame.
pub const MAX_FRAME: u64 = LEAST_BLOCK;
/// Number of block hashes in a message.
pub const HASHES: usize = 1024;
/// Number of data streams. A receiver allows twice as many.
pub const STREAMS: u32 = 16;

/// Time of the last change of a file, as the time since 1970 in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Seconds; negative before 1970.
    pub seconds: i64,
    /// Nanoseconds, below 10^9.
    pub nanos: u32,
}

/// Kind of an entry, with its properties.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A folder.
    Folder,
    /// A regular file.
    File {
        /// Size, bytes.
        size: u64,
        /// Space that it occupies at the sender, bytes; less than its size if it has holes.
        space: u64,
    },
    /// A symbolic link.
    Link {
        /// Target.
        target: Vec<u8>,
    },
}

/// An entry that the sender offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Number of the offer; later offers have greater ones.
    pub id: u64,
    /// Path below the folder, as bytes.
    pub path: Vec<u8>,
    /// Permissions: the lowest twelve bits of the mode.
    pub mode: u16,
    /// Time of the last change.
    pub changed: Stamp,
    /// Kind.
    pub kind: Kind,
}

/// Messages from the sender.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToReceiver {
    /// The first message.
    Hello {
        /// Token of the ticket; `None` for a peer that is known without.
        token: Option<[u8; 16]>,
        /// True if nothing must be written.
        dry_run: bool,
        /// True if contents are compared also where size and time agree.
        checksum: bool,
    },
    /// Entries, each folder before its contents.
    Offer(Vec<Entry>),
    /// All blocks of a file that differ are on their way: it is complete if it has this hash.
    Finish {
        /// Number of the offer.
        id: u64,
        /// Hash of the file.
        hash: Hash,
        /// Number of blocks that were sent. Data streams may be later than this message.
        sent: u32,
    },
    /// The sender withdraws an offer, for instance of a file that changed meanwhile.
    Withdraw {
        /// Number of the offer.
        id: u64,
    },
    /// Permissions and times of folders whose contents are complete.
    Folders(Vec<Entry>),
    /// Every offer has an outcome, and no other follows.
    End,
    /// The sender compares blocks, and none has differed for a while.
    Comparing,
}

/// Messages from the receiver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToSender {
    /// The token is accepted.
    Welcome,
    /// The whole contents of these files are needed.
    Want(Vec<u64>),
    /// There is a file to begin from, with these hashes of blocks.
    Compare {
        /// Number of the offer.
        id: u64,
        /// Hashes of its blocks, which continue those of the previous message.
        hashes: Vec<Hash>,
    },
    /// These entries were there already.
    Same(Vec<u64>),
    /// These entries are stored under their names.
    Stored(Vec<u64>),
    /// An entry cannot be stored.
    Failed {
        /// Number of the offer.
        id: u64,
        /// Reason, as a clause.
        reason: String,
    },
    /// All that was stored is on the disk.
    Complete,
}

/// Encodes a message with its length.
pub fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    let written = postcard::to_extend(message, bytes);
    bytes = written.unwrap_or_else(|error| unreachable!("messages can be encoded: {error}"));
    let length = bytes.len() - 4;
    debug_assert!(length <= MAX_MESSAGE, "a message of {length} bytes");
    bytes[..4].copy_from_slice(&(length as u32).to_le_bytes());
    bytes
}

/// Decodes a message without its length.
///
/// # Errors
///
/// If the bytes are malformed or too many.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        _ => Err(Error::Peer("the peer sent a malformed message".to_owned())),
    }
}

/// Reads a message from a control stream; `None` at its end.
///
/// # Errors
///
/// If the connection is lost, or the message is malformed or too long.
pub async fn read<T: DeserializeOwned>(stream: &mut quinn::RecvStream) -> Result<Option<T>> {
    let mut length = [0; 4];
    match stream.read_exact(&mut length).await {
        Ok(()) => {}
        Err(quinn::ReadExactError::FinishedEarly(0)) => return Ok(None),
        Err(error) => return Err(read_error(error)),
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_MESSAGE {
        return Err(Error::Peer(format!("the peer announces a message of {length} bytes")));
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).await.map_err(read_error)?;
    decode(&bytes).map(Some)
}

fn read_error(error: quinn::ReadExactError) -> Error {
    match error {
        quinn::ReadExactError::ReadError(quinn::ReadError::ConnectionLost(error)) => error.into(),
        other => Error::Peer(format!("the peer ended a stream in a message: {other}")),
    }
}

/// Writes a message to a control stream.
pub async fn write<T: Serialize>(stream: &mut quinn::SendStream, message: &T) -> Result<()> {
    stream.write_all(&encode(message)).await.map_err(write_error)
}

/// The error of a stream that cannot be written.
pub fn write_error(error: quinn::WriteError) -> Error {
    match error {
        quinn::WriteError::ConnectionLost(error) => error.into(),
        other => Error::Unreachable(format!("the peer reads no more: {other}")),
    }
}

/// Header of a frame of a data stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// Number of the offer.
    pub id: u64,
    /// Contents.
    pub part: Part,
}

/// Contents of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// A file of one block: so many bytes, and its hash.
    Whole(u64),
    /// Part of a block at an offset: so many bytes. The parts of a block follow each other on one
    /// stream.
    Data(u64, u64),
    /// Part of a block at an offset that has only zeros, which are not sent.
    Zeros(u64, u64),
    /// End of the block with this index: its hash.
    End(u32),
}

impl Part {
    /// Number of bytes that follow the header.
    pub fn tail(self) -> u64 {
        match self {
            Part::Whole(length) => length + 32,
            Part::Data(_, length) => length,
            Part::Zeros(..) => 0,
            Part::End(_) => 32,
        }
    }

    /// True if no length exceeds its limit.
    pub fn is_bounded(self) -> bool {
        match self {
            Part::Whole(length) | Part::Data(_, length) | Part::Zeros(_, length) => {
                length <= MAX_FRAME
            }
            Part::End(_) => true,
        }
    }
}

/// Longest header of a frame, bytes: two tags and three integers.
pub const MAX_HEADER: usize = 32;

impl Frame {
    /// Appends the header to a buffer.
    pub fn put(self, buffer: &mut Vec<u8>) {
        let mut header = [0; MAX_HEADER];
        let used = postcard::to_slice(&self, &mut header)
            .unwrap_or_else(|error| unreachable!("a header is short: {error}"));
        buffer.extend_from_slice(used);
    }

    /// The header at the beginning of some bytes, and its length; `None` if more bytes are needed.
    ///
    /// # Errors
    ///
    /// If it is malformed, or announces more bytes than a frame can have.
    pub fn take(bytes: &[u8]) -> Result<Option<(Frame, usize)>> {
        match postcard::take_from_bytes::<Frame>(bytes) {
            Ok((frame, rest)) if frame.part.is_bounded() => {
                Ok(Some((frame, bytes.len() - rest.len())))
            }
            Err(postcard::Error::DeserializeUnexpectedEnd) if bytes.len() < MAX_HEADER => Ok(None),
            _ => Err(Error::Peer("the peer sent a malformed frame".to_owned())),
        }
    }

    /// True if some bytes are the beginning of a frame, and do not have its end.
    pub fn is_partial(bytes: &[u8]) -> Result<bool> {
        let taken = Frame::take(bytes)?;
        Ok(taken.is_none_or(|(frame, header)| ((bytes.len() - header) as u64) < frame.part.tail()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let entry = Entry {
            id: 7,
            path: b"a/\xff".to_vec(),
            mode: 0o644,
            changed: Stamp { seconds: -1, nanos: 999_999_999 },
            kind: Kind::Link { target: b"../x".to_vec() },
        };
        let message = ToReceiver::Offer(vec![entry]);
        let bytes = encode(&message);
        assert_eq!(bytes.len() - 4, bytes[0] as usize);
        assert_eq!(decode::<ToReceiver>(&bytes[4..]).expect("read"), message);
        assert!(decode::<ToReceiver>(&bytes[4..bytes.len() - 1]).is_err(), "cut");
        assert!(decode::<ToReceiver>(&[&bytes[4..], &[0]].concat()).is_err(), "too long");
        // A length of 2^60 entries in a message of few bytes.
        assert!(
            decode::<ToReceiver>(&[1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f])
                .is_err()
        );
    }

    #[test]
    fn frames_are_read_as_they_were_written_and_bounded() {
        for part in [
            Part::Whole(0),
            Part::Data(u64::MAX, MAX_FRAME),
            Part::Zeros(1, 2),
            Part::End(u32::MAX),
        ] {
            let frame = Frame { id: u64::MAX, part };
            let mut bytes = Vec::new();
            frame.put(&mut bytes);
            for cut in 0..bytes.len() {
                assert_eq!(Frame::take(&bytes[..cut]).expect("no error"), None);
            }
            assert_eq!(Frame::take(&bytes).expect("read"), Some((frame, bytes.len())));
        }
        let mut bytes = Vec::new();
        Frame { id: 1, part: Part::Data(0, MAX_FRAME + 1) }.put(&mut bytes);
        assert!(Frame::take(&bytes).is_err());
        assert!(Frame::take(&[0xff; MAX_HEADER]).is_err());
    }
}
