//! Paths that are being received: several senders may write into a folder, and each path has one
//! temporary file.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};

use crate::sync::lock;
use crate::transfer::path::RelPath;

/// The claims of all sessions of a folder.
#[derive(Debug, Default)]
pub struct Claims(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    sessions: u64,
    /// Session of each path, and its number of claims.
    paths: HashMap<RelPath, (u64, usize)>,
}

/// A session that claims paths.
#[derive(Debug)]
pub struct Claimant {
    claims: Arc<Claims>,
    session: u64,
}

/// A path that no other session may write until this is dropped.
#[derive(Debug)]
pub struct Claim {
    claims: Arc<Claims>,
    /// The path.
    pub path: RelPath,
}

impl Claims {
    /// A new session.
    pub fn session(self: &Arc<Self>) -> Claimant {
        let mut table = lock(&self.0);
        table.sessions += 1;
        Claimant { claims: Arc::clone(self), session: table.sessions }
    }
}

impl Claimant {
    /// Claims a path, which a session may do more than once: what was on its way of a file that was
    /// withdrawn may still be written when the file is offered again.
    ///
    /// # Errors
    ///
    /// If another session has it.
    pub fn claim(&self, path: &RelPath) -> io::Result<Arc<Claim>> {
        let mut table = lock(&self.claims.0);
        let (session, count) = table.paths.entry(path.clone()).or_insert((self.session, 0));
        if *session != self.session {
            return Err(io::Error::other("another sender sends it at the moment"));
        }
        *count += 1;
        Ok(Arc::new(Claim { claims: Arc::clone(&self.claims), path: path.clone() }))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut table = lock(&self.claims.0);
        if let Some((_, count)) = table.paths.get_mut(&self.path) {
            *count -= 1;
            if *count == 0 {
                table.paths.remove(&self.path);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_of_one_session_until_its_last_claim_ends() {
        let claims = Arc::new(Claims::default());
        let (one, other) = (claims.session(), claims.session());
        let path = RelPath::parse(b"a/b").expect("a path");
        let (first, again) = (one.claim(&path).expect("free"), one.claim(&path).expect("own"));
        assert!(other.claim(&RelPath::parse(b"a/c").expect("a path")).is_ok());
        drop(first);
        assert!(other.claim(&path).is_err());
        drop(again);
        assert!(other.claim(&path).is_ok() && one.claim(&path).is_ok());
        assert!(lock(&claims.0).paths.is_empty());
    }
}
