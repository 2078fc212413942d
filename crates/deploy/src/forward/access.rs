//! Keys that a server accepts, and the targets that each may reach: the lines `client` of lists of
//! peers, and what the user adds for this run.

use std::collections::HashMap;

use super::target::Rules;
use crate::error::Error;
use crate::identity::Fingerprint;
use crate::peers::{Peer, PeerList, Role, Stamp};

/// Keys of peers with their rules.
#[derive(Debug, Default)]
pub struct Access {
    /// Lists with their state when they were read. The first one has the peers of tickets.
    lists: Vec<(PeerList, Option<Stamp>)>,
    listed: HashMap<Fingerprint, Rules>,
    /// Peers of this run alone.
    named: HashMap<Fingerprint, Rules>,
    /// Rules of a peer that uses the ticket, as the user wrote them.
    invited: Vec<String>,
}

impl Access {
    /// Adds a word of `--allow`: `RULES` for the peer that uses the ticket, or `KEY=RULES` for the
    /// peer with this key.
    pub fn allow(&mut self, text: &str) -> Result<(), Error> {
        match text.split_once('=') {
            Some((key, rules)) => {
                let key = key.parse().map_err(|error| Error::Input(format!("{error}")))?;
                self.named.entry(key).or_default().0.extend(rules.parse::<Rules>()?.0);
            }
            None => {
                text.parse::<Rules>()?;
                self.invited.push(text.to_owned());
            }
        }
        Ok(())
    }

    /// Accepts the clients of a list, as it is at any time.
    pub fn follow(&mut self, list: PeerList) -> Result<(), Error> {
        self.lists.push((list, None));
        self.read()
    }

    /// Reads the lists again if one has changed, and returns whether one had. After an error,
    /// everything is as before, and only the next change is looked at.
    pub fn refresh(&mut self) -> Result<bool, Error> {
        let has_changed = self.lists.iter().any(|(list, stamp)| list.stamp() != *stamp);
        if has_changed { self.read().map(|()| true) } else { Ok(false) }
    }

    fn read(&mut self) -> Result<(), Error> {
        let mut listed: HashMap<Fingerprint, Rules> = HashMap::new();
        for (list, stamp) in &mut self.lists {
            // The state before, so that a change while it is read is seen later.
            *stamp = list.stamp();
        }
        for (list, _) in &self.lists {
            for peer in list.read()?.into_iter().filter(|peer| peer.role == Role::Client) {
                let rules = peer.scope.parse::<Rules>().map_err(|error| {
                    Error::Input(format!("{}:{}: {error}", list.path().display(), peer.line))
                })?;
                listed.entry(peer.key).or_default().0.extend(rules.0);
            }
        }
        self.listed = listed;
        Ok(())
    }

    /// Accepts a peer that used the ticket, with the rules of its `--allow`, and writes it into the
    /// first list.
    pub fn invite(&mut self, key: Fingerprint) -> Result<(), Error> {
        let scope = self.invited.join(",");
        match self.lists.first() {
            Some((list, _)) => {
                list.admit(Peer::admitted(Role::Client, key, &scope))?;
                self.read()
            }
            None => self.allow(&format!("{key}={scope}")),
        }
    }

    /// True if a peer may use the server.
    pub fn has(&self, key: Fingerprint) -> bool {
        self.named.contains_key(&key) || self.listed.contains_key(&key)
    }

    /// Rules of a peer; none if it may not use the server.
    pub(super) fn rules(&self, key: Fingerprint) -> Rules {
        let own = self.named.get(&key).into_iter().chain(self.listed.get(&key));
        Rules(own.flat_map(|rules| &rules.0).cloned().collect())
    }

    /// True if a peer of a ticket could reach something.
    pub fn has_invited(&self) -> bool {
        !self.invited.is_empty()
    }

    /// Number of peers of the lists.
    pub fn listed(&self) -> usize {
        self.listed.len()
    }

    /// True if no peer may use the server.
    pub fn is_empty(&self) -> bool {
        self.named.is_empty() && self.listed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn may(access: &Access, key: Fingerprint, target: &str) -> bool {
        let target: std::net::SocketAddr = target.parse().expect(target);
        access.rules(key).allow_address(target.ip(), target.port())
    }

    #[test]
    fn keys_have_the_rules_of_their_lines_and_of_this_run() {
        let home = tempfile::tempdir().expect("a folder");
        let list = PeerList::open(home.path());
        let (one, two) = (Fingerprint([1; 32]), Fingerprint([2; 32]));
        let text = format!("client ship {one} 10.0.0.1:22 # mine\nsender two {two} /in\n");
        fs::write(list.path(), text).expect("written");
        let mut access = Access::default();
        access.follow(list.clone()).expect("read");
        access.allow(&format!("{one}=10.0.0.2:80")).expect("a rule");
        access.allow("10.0.0.3:1-2").expect("a rule");
        assert!(may(&access, one, "10.0.0.1:22") && may(&access, one, "10.0.0.2:80"));
        // Rules for a ticket open nothing for others.
        assert!(!may(&access, one, "10.0.0.3:1"));
        assert!(!access.has(two), "a sender is no client");
        access.invite(two).expect("written");
        assert!(may(&access, two, "10.0.0.3:2") && !may(&access, two, "10.0.0.1:22"));

        // A later run with other services.
        let mut later = Access::default();
        later.follow(list.clone()).expect("read");
        later.allow("10.0.0.4:5").expect("a rule");
        assert!(may(&later, two, "10.0.0.3:1") && !may(&later, two, "10.0.0.4:5"));
        assert!(!later.refresh().expect("as it was"));
        let choice = crate::peers::Choice { word: two.to_string(), role: Some(Role::Client) };
        list.revoke(&choice).expect("removed");
        assert!(later.refresh().expect("read") && !later.has(two));
        fs::write(list.path(), "nonsense\n").expect("written");
        assert!(later.refresh().is_err(), "as before");
        assert!(later.has(one) && !later.refresh().expect("told once"));
    }

    #[test]
    fn an_invalid_line_is_told_with_its_number() {
        let home = tempfile::tempdir().expect("a folder");
        let list = PeerList::open(home.path());
        let key = Fingerprint([1; 32]);
        for (text, part) in [
            ("\nclient a SHA256:abc a:1", "peers:2: "),
            (&*format!("client a {key} a:x"), "peers:1: `x` is not a port"),
            (&*format!("client a {key} a:1 b:2"), "HOST:PORTS,..."),
        ] {
            fs::write(list.path(), text).expect("written");
            let error = Access::default().follow(list.clone()).expect_err(text).to_string();
            assert!(error.contains(part), "{error}");
        }
        assert!(Access::default().allow("KEY=a:1").is_err());
    }
}
