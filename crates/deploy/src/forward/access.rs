//! Keys that a server accepts, and the targets that each may reach.

use std::collections::HashMap;

use super::target::Rules;
use crate::error::Error;
use crate::identity::Fingerprint;

/// Keys of peers with their rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    peers: HashMap<Fingerprint, Rules>,
    /// Rules for every peer.
    common: Rules,
}

impl Access {
    /// Adds a word of `--allow`: `RULES` for every peer, or `KEY=RULES` for one.
    ///
    /// # Errors
    ///
    /// If the key or a rule is invalid.
    pub fn allow(&mut self, text: &str) -> Result<(), Error> {
        match text.split_once('=') {
            Some((key, rules)) => {
                let key = key.parse().map_err(|error| Error::Input(format!("{error}")))?;
                self.peers.entry(key).or_default().0.extend(rules.parse::<Rules>()?.0);
            }
            None => self.common.0.extend(text.parse::<Rules>()?.0),
        }
        Ok(())
    }

    /// Adds the lines of a file: `KEY [RULES]`, and what follows `#` is a comment. `name` is the
    /// name of the file in errors.
    ///
    /// # Errors
    ///
    /// If a line is invalid, with its number.
    pub fn read(&mut self, name: &str, text: &str) -> Result<(), Error> {
        for (index, line) in text.lines().enumerate() {
            let at = |error: &dyn std::fmt::Display| {
                Error::Input(format!("{name}:{}: {error}", index + 1))
            };
            let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
            let Some(key) = words.next() else { continue };
            let key: Fingerprint = key.parse().map_err(|error| at(&error))?;
            let rules =
                words.next().map(str::parse::<Rules>).transpose().map_err(|error| at(&error))?;
            if words.next().is_some() {
                return Err(at(&"expected `KEY` or `KEY RULES`, with commas between rules"));
            }
            self.peers.entry(key).or_default().0.extend(rules.unwrap_or_default().0);
        }
        Ok(())
    }

    /// Adds a peer with the rules of all.
    pub fn add(&mut self, key: Fingerprint) {
        self.peers.entry(key).or_default();
    }

    /// True if a peer may use the server.
    pub fn has(&self, key: Fingerprint) -> bool {
        self.peers.contains_key(&key)
    }

    /// Rules of a peer; none if it may not use the server.
    pub(super) fn rules(&self, key: Fingerprint) -> Option<Rules> {
        let own = self.peers.get(&key)?;
        Some(Rules(own.0.iter().chain(&self.common.0).cloned().collect()))
    }

    /// True if nobody may reach anything.
    pub fn is_useless(&self) -> bool {
        self.common.is_empty() && self.peers.values().all(Rules::is_empty)
    }

    /// Number of peers.
    pub fn len(&self) -> usize {
        self.peers.len()
    }

    /// True if no peer may use the server.
    pub fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_their_rules_and_those_of_all() {
        let (one, two) = (Fingerprint([1; 32]), Fingerprint([2; 32]));
        let mut access = Access::default();
        assert!(access.is_useless());
        access
            .read("keys", &format!("# comment\n\n{one} 10.0.0.1:22 # ship\n{two}\n"))
            .expect("read");
        access.allow(&format!("{one}=10.0.0.2:80")).expect("a rule");
        access.allow("10.0.0.3:1-2").expect("a rule");
        let may = |key, host: &str, port| {
            access
                .rules(key)
                .is_some_and(|rules| rules.allow_address(host.parse().expect("an address"), port))
        };
        assert!(may(one, "10.0.0.1", 22) && may(one, "10.0.0.2", 80) && may(one, "10.0.0.3", 2));
        assert!(!may(two, "10.0.0.1", 22) && may(two, "10.0.0.3", 1));
        assert!(!may(Fingerprint([3; 32]), "10.0.0.3", 1));
    }

    #[test]
    fn an_invalid_line_is_told_with_its_number() {
        let key = Fingerprint([1; 32]);
        for (text, part) in [
            ("\nSHA256:abc a:1", "keys:2: "),
            (&*format!("{key} a:x"), "keys:1: `x` is not a port"),
            (&*format!("{key} a:1 b:2"), "commas"),
        ] {
            let error = Access::default().read("keys", text).expect_err(text).to_string();
            assert!(error.contains(part), "{error}");
        }
        assert!(Access::default().allow("KEY=a:1").is_err());
    }
}
