//! The messages of a handshake without cryptography: the round trips of TLS 1.3 in QUIC (RFC 9001),
//! in the clear.
//!
//! The client sends a hello with its transport parameters; the server answers with a hello, which
//! brings the keys of the handshake, and with its parameters, which bring those of the connection;
//! the client finishes. Each message has a byte for its kind, its length and its body.

/// A message of the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Message {
    ClientHello = 1,
    ServerHello = 2,
    /// The server's parameters, and its end of the handshake.
    ServerFinished = 3,
    ClientFinished = 4,
}

/// Next step of a side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    ClientHello,
    AwaitServerHello,
    /// Take the keys of the handshake; send nothing until the server has finished.
    HandshakeKeys,
    AwaitServerFinished,
    ClientFinished,
    AwaitClientHello,
    ServerHello,
    ServerFinished,
    AwaitClientFinished,
    Done,
}

/// One side's handshake.
#[derive(Debug)]
pub(crate) struct Handshake {
    next: Next,
    /// Transport parameters, as they are sent.
    ours: Vec<u8>,
    theirs: Option<Vec<u8>>,
    /// Bytes of a message that is not complete.
    incoming: Vec<u8>,
}

/// Error: an invalid message of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutOfTurn;

impl Handshake {
    pub(crate) fn client(ours: Vec<u8>) -> Self {
        Handshake { next: Next::ClientHello, ours, theirs: None, incoming: Vec::new() }
    }

    pub(crate) fn server(ours: Vec<u8>) -> Self {
        Handshake { next: Next::AwaitClientHello, ours, theirs: None, incoming: Vec::new() }
    }

    /// The peer's transport parameters, once they have arrived.
    pub(crate) fn theirs(&self) -> Option<&[u8]> {
        self.theirs.as_deref()
    }

    /// True if the handshake is complete: for a client, once the server has finished.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self.next, Next::ClientFinished | Next::Done)
    }

    /// Reads bytes from the peer. Returns true if they complete its transport parameters.
    ///
    /// # Errors
    /// If a message is invalid at this point.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Result<bool, OutOfTurn> {
        self.incoming.extend(bytes);
        let mut told = false;
        while let [kind, high, low, rest @ ..] = &self.incoming[..] {
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            if rest.len() < length {
                break;
            }
            let (kind, body) = (*kind, rest[..length].to_vec());
            self.incoming.drain(..3 + length);
            told |= self.take(kind, body)?;
        }
        Ok(told)
    }

    fn take(&mut self, kind: u8, body: Vec<u8>) -> Result<bool, OutOfTurn> {
        let (awaited, next) = match self.next {
            Next::AwaitClientHello => (Message::ClientHello, Next::ServerHello),
            Next::AwaitServerHello => (Message::ServerHello, Next::HandshakeKeys),
            Next::AwaitServerFinished => (Message::ServerFinished, Next::ClientFinished),
            Next::AwaitClientFinished => (Message::ClientFinished, Next::Done),
            _ => return Err(OutOfTurn),
        };
        if kind != awaited as u8 {
            return Err(OutOfTurn);
        }
        self.next = next;
        let tells = matches!(awaited, Message::ClientHello | Message::ServerFinished);
        if tells {
            self.theirs = Some(body);
        }
        Ok(tells)
    }

    /// Appends the next messages, if any. Returns whether they bring new keys.
    pub(crate) fn write(&mut self, into: &mut Vec<u8>) -> bool {
        let (message, next) = match self.next {
            Next::ClientHello => (Some(Message::ClientHello), Next::AwaitServerHello),
            Next::HandshakeKeys => (None, Next::AwaitServerFinished),
            Next::ClientFinished => (Some(Message::ClientFinished), Next::Done),
            Next::ServerHello => (Some(Message::ServerHello), Next::ServerFinished),
            Next::ServerFinished => (Some(Message::ServerFinished), Next::AwaitClientFinished),
            _ => return false,
        };
        self.next = next;
        if let Some(message) = message {
            let tells = matches!(message, Message::ClientHello | Message::ServerFinished);
            let body = if tells { &self.ours[..] } else { &[] };
            into.push(message as u8);
            into.extend((body.len() as u16).to_be_bytes());
            into.extend(body);
        }
        message != Some(Message::ClientHello)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(of: &mut Handshake) -> (Vec<u8>, bool) {
        let mut text = Vec::new();
        let keys = of.write(&mut text);
        (text, keys)
    }

    #[test]
    fn both_learn_the_other_s_parameters() {
        let (mut client, mut server) =
            (Handshake::client(vec![1; 5]), Handshake::server(vec![2; 7]));
        let (hello, keys) = said(&mut client);
        assert!(!keys && !client.is_complete());
        assert_eq!(hello, [1, 0, 5, 1, 1, 1, 1, 1]);
        // In two pieces.
        assert_eq!(server.read(&hello[..2]), Ok(false));
        assert_eq!(server.read(&hello[2..]), Ok(true));
        assert_eq!(server.theirs(), Some(&[1; 5][..]));
        // Keys of the handshake with the first answer, and of the connection with the second.
        let ((first, keys), (second, more)) = (said(&mut server), said(&mut server));
        assert!(keys && more && !server.is_complete());
        assert_eq!(said(&mut server), (Vec::new(), false));
        assert_eq!(client.read(&first), Ok(false));
        assert_eq!(said(&mut client), (Vec::new(), true));
        assert_eq!(client.read(&second), Ok(true));
        assert_eq!(client.theirs(), Some(&[2; 7][..]));
        assert!(client.is_complete());
        let (finished, keys) = said(&mut client);
        assert!(keys);
        assert_eq!(server.read(&finished), Ok(false));
        assert!(server.is_complete());
    }

    #[test]
    fn nobody_speaks_out_of_turn() {
        let mut server = Handshake::server(Vec::new());
        assert_eq!(server.read(&[2, 0, 0]), Err(OutOfTurn));
        assert_eq!(Handshake::client(Vec::new()).read(&[1, 0, 0]), Err(OutOfTurn));
    }
}
