//! Tickets: everything that a sender needs to reach a receiver, in one word.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::identity::Fingerprint;

/// Beginning of a ticket, with the version of its format.
const PREFIX: &str = "ww1.";
/// Longest ticket, characters.
const MAX_LENGTH: usize = 1024;
/// Most addresses of a ticket.
pub const MAX_ADDRESSES: usize = 8;

/// 128 random bits that admit a sender.
pub type Token = [u8; 16];

/// Draws a token.
pub fn draw_token() -> Result<Token> {
    use ring::rand::SecureRandom;
    let mut token = [0; 16];
    ring::rand::SystemRandom::new()
        .fill(&mut token)
        .map_err(|_| Error::Input("the system gives no random numbers".to_owned()))?;
    Ok(token)
}

/// A ticket.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// Addresses of the receiver, the most probable first.
    pub addresses: Vec<SocketAddr>,
    /// Fingerprint of the receiver.
    pub fingerprint: Fingerprint,
    /// Token.
    pub token: Token,
    /// Second since 1970 in UTC at which the ticket expires. The receiver decides by its own clock,
    /// and the sender that has begun may go on.
    pub expires: u64,
}

impl fmt::Debug for Ticket {
    /// Without the token, so that no log has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ticket({:?}, {})", self.addresses, self.fingerprint)
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = postcard::to_stdvec(self).map_err(|_| fmt::Error)?;
        let sum = blake3::hash(&bytes);
        bytes.extend_from_slice(&sum.as_bytes()[..4]);
        write!(f, "{PREFIX}{}", BASE64URL_NOPAD.encode(&bytes))
    }
}

impl FromStr for Ticket {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let invalid = |why: &str| Error::Input(why.to_owned());
        let word = text.trim();
        let Some(encoded) = word.strip_prefix(PREFIX) else {
            return Err(invalid(&format!("it does not begin with `{PREFIX}`")));
        };
        if word.len() > MAX_LENGTH {
            return Err(invalid("it is too long"));
        }
        let damaged = || invalid("it is damaged or cut");
        let bytes = BASE64URL_NOPAD.decode(encoded.as_bytes()).map_err(|_| damaged())?;
        let at = bytes.len().checked_sub(4).ok_or_else(damaged)?;
        let (body, sum) = bytes.split_at(at);
        if blake3::hash(body).as_bytes()[..4] != *sum {
            return Err(damaged());
        }
        match postcard::take_from_bytes::<Ticket>(body) {
            Ok((ticket, [])) if (1..=MAX_ADDRESSES).contains(&ticket.addresses.len()) => Ok(ticket),
            _ => Err(damaged()),
        }
    }
}

impl Ticket {
    /// Reads a ticket that this command has printed.
    ///
    /// # Errors
    ///
    /// If the text is not a ticket, with the command to copy it from.
    pub fn read(text: &str, printed_by: &str) -> Result<Self> {
        text.parse().map_err(|why| {
            Error::Input(format!(
                "not a ticket, nor HOST:PORT of a known peer: {why}; copy the word that `{printed_by}` \
                 printed"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket() -> Ticket {
        Ticket {
            addresses: vec![
                "192.0.2.1:4460".parse().expect("v4"),
                "[2001:db8::1]:4460".parse().expect("v6"),
            ],
            fingerprint: Fingerprint([3; 32]),
            token: [5; 16],
            expires: 2_000_000_000,
        }
    }

    #[test]
    fn a_ticket_is_one_word_and_is_read_as_it_was_written() {
        let word = ticket().to_string();
        assert!(word.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c)), "{word}");
        assert_eq!(word.parse::<Ticket>().expect("read"), ticket());
        assert_eq!(format!(" {word}\n").parse::<Ticket>().expect("read"), ticket());
        let shown = format!("{:?}", ticket());
        assert!(!shown.contains("5, 5") && !shown.contains("0505"), "the token is shown: {shown}");
    }

    #[test]
    fn a_damaged_ticket_is_refused() {
        let word = ticket().to_string();
        for at in 0..word.len() {
            assert!(word[..at].parse::<Ticket>().is_err(), "cut at {at}");
            let mut other = word.clone().into_bytes();
            other[at] = if other[at] == b'A' { b'B' } else { b'A' };
            let other = String::from_utf8(other).expect("ASCII");
            assert!(other.parse::<Ticket>().is_err(), "changed at {at}");
        }
        let none = Ticket { addresses: vec![], ..ticket() };
        assert!(none.to_string().parse::<Ticket>().is_err());
        assert!("x".repeat(5000).parse::<Ticket>().is_err());
    }
}
