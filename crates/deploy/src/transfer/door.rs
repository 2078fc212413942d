//! Admission of senders: by the ticket, or by the list of peers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use quinn::{RecvStream, SendStream};
use tokio::time::{sleep, timeout};

use crate::book::Book;
use crate::clock;
use crate::endpoint::Connection;
use crate::error::{Error, Result};
use crate::identity::Fingerprint;
use crate::peers::{self, Peer, PeerList, Role};
use crate::sync::lock;
use crate::transfer::wire::{self, ToReceiver, ToSender};

/// Time in which a sender must say what it wants after the handshake.
const PATIENCE: Duration = Duration::from_secs(5);
const REVOKED: &str = "the receiver has revoked this key: ask for a new ticket";

/// A refusal that passes.
pub(super) fn busy(why: &str) -> Error {
    Error::Busy(why.to_owned())
}

/// Admission of senders.
#[derive(Debug)]
pub(super) struct Door {
    pub(super) book: Mutex<Book>,
    pub(super) list: PeerList,
    /// The folder in the list.
    pub(super) scope: String,
    /// True to admit listed senders without a ticket.
    pub(super) opens_to_known: bool,
}

/// An admitted sender: its connection, its control stream and its wishes.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) control: (SendStream, RecvStream),
    pub(super) dry_run: bool,
    pub(super) checksum: bool,
    /// Where it was admitted.
    pub(super) door: Arc<Door>,
}

impl Door {
    /// Reads the first message of a peer, and admits it or not.
    pub(super) async fn admit(self: &Arc<Self>, connection: &Connection) -> Result<Admitted> {
        let hello = async {
            let (send, mut receive) = connection.quic.accept_bi().await?;
            let message = wire::read::<ToReceiver>(&mut receive).await?;
            Ok::<_, Error>((message, send, receive))
        };
        let hello = timeout(PATIENCE, hello).await;
        let (message, mut send, receive) = hello.map_err(|_| busy("the sender says nothing"))??;
        let Some(ToReceiver::Hello { token, dry_run, checksum }) = message else {
            return Err(Error::Peer("the sender does not begin with a greeting".to_owned()));
        };
        let peer = connection.peer;
        let is_listed = self.list.admits(Role::Sender, peer, &self.scope)?;
        if !(self.opens_to_known && token.is_none() && is_listed) {
            let mut book = lock(&self.book);
            // The line comes after the first use, so that a line that is gone was revoked.
            let is_first = book.record.sender.is_none();
            book.admit(token, peer, clock::time_of_day().as_secs())?;
            if is_first {
                self.list.admit(Peer::admitted(Role::Sender, peer, &self.scope))?;
            } else if !is_listed {
                return Err(Error::Refused(REVOKED.to_owned()));
            }
        }
        let welcome = timeout(PATIENCE, wire::write(&mut send, &ToSender::Welcome)).await;
        welcome.map_err(|_| busy("the sender hears nothing"))??;
        Ok(Admitted { control: (send, receive), dry_run, checksum, door: Arc::clone(self) })
    }

    /// Ends with an error as soon as the list does not have a sender any more.
    pub(super) async fn await_revocation(&self, peer: Fingerprint) -> Error {
        let mut seen = None;
        loop {
            let stamp = self.list.stamp();
            if stamp != seen || stamp.is_none() {
                seen = stamp;
                // A file that cannot be read revokes nobody.
                if let Ok(false) = self.list.admits(Role::Sender, peer, &self.scope) {
                    return Error::Refused(REVOKED.to_owned());
                }
            }
            sleep(peers::LOOK).await;
        }
    }
}
