//! The list of peers: a text file with a line for each, which says what the peer may do here.
//!
//! `receiver HOST:PORT KEY` and `server HOST:PORT KEY` are machines that this one connects to.
//! `sender NAME KEY FOLDER` may send into that folder, `client NAME KEY TARGETS` may reach those
//! targets. A line counts for its role alone. What follows `#` is a comment.

use std::fmt::{self, Write as _};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use crate::descent::{self, Descent};
use crate::error::{Error, Result};
use crate::identity::{self, Fingerprint};

/// Name of the file in the directory of the configuration.
const FILE: &str = "peers";
/// Files of earlier versions, whose lines have no role.
const EARLIER: [&str; 2] = ["known_peers", "forward_peers"];
/// Limit of the length of the file, bytes.
const MAX_LENGTH: u64 = 16 << 20;
/// Interval at which a running program looks whether the file has changed.
pub(crate) const LOOK: Duration = Duration::from_millis(200);
/// Attempts to lock the list, 20 ms each: others hold it for less.
const LOCKING: u32 = 20;

/// Relation of a peer to this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// This machine sends files to it.
    Receiver,
    /// This machine forwards services to it.
    Server,
    /// It may send files into a folder.
    Sender,
    /// It may reach targets.
    Client,
}

impl Role {
    const ALL: [Role; 4] = [Role::Receiver, Role::Server, Role::Sender, Role::Client];

    /// Word in the file.
    pub fn name(self) -> &'static str {
        match self {
            Role::Receiver => "receiver",
            Role::Server => "server",
            Role::Sender => "sender",
            Role::Client => "client",
        }
    }

    /// True if lines of the role end in a scope: a folder or targets.
    fn has_scope(self) -> bool {
        matches!(self, Role::Sender | Role::Client)
    }
}

impl FromStr for Role {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Role::ALL.into_iter().find(|role| role.name() == text).ok_or_else(|| {
            Error::Input(format!(
                "`{}` is not a role: expected receiver, server, sender or client",
                text.escape_debug()
            ))
        })
    }
}

/// A line of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its role.
    pub role: Role,
    /// Name: HOST:PORT of a receiver or server, any word for the others.
    pub name: String,
    /// Fingerprint of its certificate.
    pub key: Fingerprint,
    /// Permission: a folder as [`folder_scope`] writes it, or targets; empty for a receiver or
    /// server.
    pub scope: String,
    /// Line in the file, from 1; zero for a new one.
    pub line: usize,
}

impl Peer {
    /// A machine that this one connects to, by its address.
    fn reached(role: Role, name: &str, key: Fingerprint) -> Self {
        Peer { role, name: name.to_owned(), key, scope: String::new(), line: 0 }
    }

    /// A machine that may connect to this one.
    pub fn admitted(role: Role, key: Fingerprint, scope: &str) -> Self {
        Peer { role, name: key_name(&key.0[..4]), key, scope: scope.to_owned(), line: 0 }
    }

    /// The peer of a line without its comment.
    fn parse(text: &str, line: usize) -> Result<Self> {
        let expected = || {
            Error::Input(
                "expected `receiver HOST:PORT KEY`, `server HOST:PORT KEY`, `sender NAME KEY FOLDER` \
                 or `client NAME KEY HOST:PORTS,...`"
                    .to_owned(),
            )
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        let [role, name, key, scope @ ..] = words.as_slice() else { return Err(expected()) };
        let role: Role = role.parse().map_err(|_| expected())?;
        let key = key.parse()?;
        let scope = match (role.has_scope(), scope) {
            (true, [scope]) => (*scope).to_owned(),
            (false, []) => String::new(),
            _ => return Err(expected()),
        };
        Ok(Peer { role, name: (*name).to_owned(), key, scope, line })
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.role.name(), self.name, self.key)?;
        if self.scope.is_empty() { Ok(()) } else { write!(f, " {}", self.scope) }
    }
}

/// A name for a key, or for its first bytes.
fn key_name(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("peer-{digits}")
}

/// A folder as one word: white space, `#`, `%` and bytes beyond ASCII are `%` and two digits.
pub fn folder_scope(folder: &Path) -> String {
    let mut scope = String::new();
    for byte in folder.as_os_str().as_bytes() {
        if byte.is_ascii_graphic() && !matches!(byte, b'#' | b'%') {
            scope.push(char::from(*byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(scope, "%{byte:02X}");
        }
    }
    scope
}

/// Choice of lines: those with a name or key, and of one role if it is named.
#[derive(Debug, Clone)]
pub struct Choice {
    /// Name, or key.
    pub word: String,
    /// Role; all of them if none.
    pub role: Option<Role>,
}

impl Choice {
    fn has(&self, peer: &Peer) -> bool {
        self.role.is_none_or(|role| role == peer.role)
            && (self.word == peer.name || self.word == peer.key.to_string())
    }
}

/// State of a file; another one after each change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp(u64, u64, i64, i64);

/// The file with the list. Each question reads it anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerList {
    path: PathBuf,
}

impl PeerList {
    /// The list in a directory of the configuration, which need not exist yet.
    pub fn open(directory: &Path) -> Self {
        PeerList { path: directory.join(FILE) }
    }

    /// The list in this file.
    pub fn at(file: &Path) -> Self {
        PeerList { path: file.to_owned() }
    }

    /// Path of the file, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All lines; none if there is no file.
    pub fn read(&self) -> Result<Vec<Peer>> {
        let text = self.text()?;
        self.lines(&text).filter_map(|(_, peer, _)| peer.transpose()).collect()
    }

    /// Key of a receiver or server with this name, or with one of the addresses to which the name
    /// leads.
    pub fn find(
        &self,
        role: Role,
        name: &str,
        addresses: &[SocketAddr],
    ) -> Result<Option<Fingerprint>> {
        let peers = self.read()?;
        let by = |name: &str| peers.iter().find(|peer| peer.role == role && peer.name == name);
        let found = by(name).or_else(|| addresses.iter().find_map(|to| by(&address_name(*to))));
        Ok(found.map(|peer| peer.key))
    }

    /// True if a peer of this key may use this scope.
    pub fn admits(&self, role: Role, key: Fingerprint, scope: &str) -> Result<bool> {
        let fits = |peer: &Peer| (peer.role, peer.key, &*peer.scope) == (role, key, scope);
        Ok(self.read()?.iter().any(fits))
    }

    /// Adds a line for a peer that may use a scope, unless there is one. A key keeps the name that
    /// it has.
    pub fn admit(&self, mut new: Peer) -> Result<()> {
        let _lock = self.lock()?;
        let peers = self.read()?;
        if let Some(same) = peers.iter().find(|peer| peer.role.has_scope() && peer.key == new.key) {
            new.name.clone_from(&same.name);
        } else if peers.iter().any(|peer| peer.name == new.name) {
            // Somebody can search for a key whose first bytes are those of another one.
            new.name = key_name(&new.key.0);
        }
        if self.admits(new.role, new.key, &new.scope)? { Ok(()) } else { self.append(&[new]) }
    }

    /// Adds the names by which a receiver or server was reached. Names that are there stay as they
    /// are.
    pub fn remember(&self, role: Role, names: &[String], key: Fingerprint) -> Result<()> {
        let _lock = self.lock()?;
        let peers = self.read()?;
        let is_new = |name: &&String| {
            let is_name = !name.contains(|c: char| c.is_whitespace() || c.is_control() || c == '#');
            is_name && !peers.iter().any(|peer| peer.role == role && peer.name == **name)
        };
        let new = names.iter().filter(is_new).map(|name| Peer::reached(role, name, key));
        self.append(&new.collect::<Vec<_>>())
    }

    /// Gives the chosen lines another name, and returns them.
    ///
    /// # Errors
    ///
    /// If none is chosen, the name is invalid or that of another key, or the file cannot be read or
    /// written.
    pub fn rename(&self, choice: &Choice, name: &str) -> Result<Vec<Peer>> {
        let invalid = |why: &str| {
            Err(Error::Input(format!("`{}` is not a name: {why}", name.escape_debug())))
        };
        let is_word = !name.is_empty()
            && !name.contains(|c: char| c.is_whitespace() || c.is_control() || c == '#');
        if !is_word {
            return invalid("it must be one word");
        }
        if name.parse::<Fingerprint>().is_ok() {
            return invalid("it is a key");
        }
        let _lock = self.lock()?;
        let peers = self.read()?;
        let chosen: Vec<&Peer> = peers.iter().filter(|peer| choice.has(peer)).collect();
        if let Some(peer) = chosen.iter().find(|peer| !peer.role.has_scope() && !is_address(name)) {
            return Err(Error::Input(format!(
                "`{name}` is not the name of a {}: expected HOST:PORT, by which it is reached",
                peer.role.name()
            )));
        }
        // A name leads to one key: that of a server, and that which `revoke` removes.
        let named = peers.iter().filter(|peer| peer.name == name);
        let others = chosen.iter().copied().chain(named).map(|peer| peer.key);
        if let Some(other) = others.skip(1).find(|key| *key != chosen[0].key) {
            return Err(Error::Input(format!(
                "`{name}` would be the name of two keys, {} and {other}: choose another name, or a \
                 peer by its key",
                chosen[0].key
            )));
        }
        self.change(choice, |peer| Some(Peer { name: name.to_owned(), ..peer }))
    }

    /// Removes the chosen lines, and returns them. Programs that run refuse these peers from now
    /// on.
    ///
    /// # Errors
    ///
    /// If none is chosen, or the file cannot be read or written.
    pub fn revoke(&self, choice: &Choice) -> Result<Vec<Peer>> {
        let _lock = self.lock()?;
        self.change(choice, |_| None)
    }

    /// Advice for those who have files of an earlier version, whose peers count for nothing.
    pub fn advice(&self) -> Option<String> {
        let directory = self.path.parent()?;
        let earlier =
            EARLIER.into_iter().map(|name| directory.join(name)).find(|file| file.exists())?;
        Some(format!(
            "{} is of an earlier version, and its peers are not known any more, since its lines have \
             no role: write those that you still trust into {}, as `receiver HOST:PORT KEY`, `server \
             HOST:PORT KEY`, `sender NAME KEY FOLDER` or `client NAME KEY HOST:PORTS`, and remove it",
            crate::error::shown(&earlier),
            crate::error::shown(&self.path)
        ))
    }

    /// State of the file; none if there is no file.
    pub(crate) fn stamp(&self) -> Option<Stamp> {
        let now = fs::metadata(&self.path).ok()?;
        Some(Stamp(now.ino(), now.len(), now.ctime(), now.ctime_nsec()))
    }

    fn text(&self) -> Result<String> {
        let failed = || Error::file(&self.path, "cannot read");
        let invalid =
            |why: &str| Error::Input(format!("{}: {why}", crate::error::shown(&self.path)));
        let file = match fs::metadata(&self.path) {
            // A FIFO would be waited for.
            Ok(found) if !found.is_file() => return Err(invalid("not a file")),
            Ok(_) => descent::open_named(&self.path).map_err(failed())?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
            Err(error) => return Err(failed()(error)),
        };
        if file.metadata().map_err(failed())?.mode() & 0o002 != 0 {
            return Err(invalid(
                "everybody can write into this list, and it says who may do what here: chmod o-w it, \
                 and look at its lines",
            ));
        }
        let mut bytes = Vec::new();
        file.take(MAX_LENGTH + 1).read_to_end(&mut bytes).map_err(failed())?;
        if bytes.len() as u64 > MAX_LENGTH {
            return Err(invalid(&format!("longer than {MAX_LENGTH} bytes")));
        }
        let text = String::from_utf8(bytes)
            .map_err(|_| invalid("not text in UTF-8: save it as such in the editor"))?;
        // Some editors begin texts with a mark.
        Ok(text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned())
    }

    /// Each line as it is, its peer, and its comment.
    fn lines<'a>(
        &'a self,
        text: &'a str,
    ) -> impl Iterator<Item = (&'a str, Result<Option<Peer>>, &'a str)> {
        text.lines().enumerate().map(|(index, line)| {
            let (content, comment) = line.split_at(line.find('#').unwrap_or(line.len()));
            let peer = if content.trim().is_empty() {
                Ok(None)
            } else {
                Peer::parse(content, index + 1).map(Some).map_err(|error| {
                    Error::Input(format!("{}:{}: {error}", self.path.display(), index + 1))
                })
            };
            (line, peer, comment)
        })
    }

    /// Adds lines. The caller has the lock.
    fn append(&self, new: &[Peer]) -> Result<()> {
        if new.is_empty() {
            return Ok(());
        }
        let mut text = self.text()?;
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        for peer in new {
            let _ = writeln!(text, "{peer}");
        }
        self.write(&text)
    }

    /// Changes or removes the chosen lines. Comments and other lines stay. The caller has the lock.
    fn change(
        &self,
        choice: &Choice,
        mut to: impl FnMut(Peer) -> Option<Peer>,
    ) -> Result<Vec<Peer>> {
        let before = self.text()?;
        let (mut text, mut chosen) = (String::new(), Vec::new());
        for (line, peer, comment) in self.lines(&before) {
            match peer? {
                Some(peer) if choice.has(&peer) => {
                    chosen.push(peer.clone());
                    if let Some(peer) = to(peer) {
                        let gap = if comment.is_empty() { "" } else { " " };
                        let _ = writeln!(text, "{peer}{gap}{comment}");
                    }
                }
                _ => {
                    let _ = writeln!(text, "{line}");
                }
            }
        }
        if chosen.is_empty() {
            return Err(Error::Input(format!(
                "`{}`: no {} in {} has this name or key; `windward peers list` shows them",
                choice.word.escape_debug(),
                choice.role.map_or("peer", Role::name),
                crate::error::shown(&self.path)
            )));
        }
        self.write(&text)?;
        Ok(chosen)
    }

    /// Keeps other processes from changing the file. It is the directory that is locked, since the
    /// file is replaced.
    fn lock(&self) -> Result<File> {
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = parent.unwrap_or(Path::new("."));
        identity::make_private_directory(directory)?;
        let lock = File::open(directory).map_err(Error::file(directory, "cannot open"))?;
        // Another user who can read the directory can hold this lock for ever, and some network
        // file systems have none: the file is whole without one too.
        for _ in 0..LOCKING {
            if !matches!(lock.try_lock(), Err(TryLockError::WouldBlock)) {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(lock)
    }

    /// Replaces the file. Its owner and mode stay, so that a server can read what an administrator
    /// has changed. A link stays a link.
    fn write(&self, text: &str) -> Result<()> {
        let path = match fs::symlink_metadata(&self.path) {
            Ok(_) => Descent::system()
                .and_then(|system| system.named(&self.path, None))
                .map(|place| descent::absolute(&place))
                .map_err(Error::file(&self.path, "cannot write"))?,
            Err(_) => self.path.clone(),
        };
        replace(&path, text.as_bytes()).map_err(Error::file(&self.path, "cannot write"))
    }
}

/// Writes a file that is whole at any time, also after a crash. Owner and mode stay; a new file is
/// for its owner alone.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let _ = fs::remove_file(&temporary);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    if let Ok(before) = fs::metadata(path) {
        let new = file.metadata()?;
        if (new.uid(), new.gid()) != (before.uid(), before.gid()) {
            fchown(&file, Some(before.uid()), Some(before.gid()))?;
        }
        file.set_permissions(before.permissions())?;
    }
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)
}

/// True for HOST:PORT.
fn is_address(name: &str) -> bool {
    name.rsplit_once(':').is_some_and(|(host, port)| {
        let is_bracketed = host.starts_with('[') && host.ends_with(']');
        let is_host = !host.is_empty() && (is_bracketed || !host.contains(':'));
        is_host && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}

/// The name of an address in the list.
pub fn address_name(address: SocketAddr) -> String {
    SocketAddr::new(address.ip().to_canonical(), address.port()).to_string()
}

/// Names to remember for a peer: that which the user wrote, and the address at which it answered.
/// Those of a ticket have the word of who made it; its loopback addresses count only if the peer is
/// on this machine.
pub(crate) fn names(
    written: Option<&str>,
    ticket: &[SocketAddr],
    reached: SocketAddr,
) -> Vec<String> {
    let ip = reached.ip().to_canonical();
    let is_here = ip.is_loopback()
        || if_addrs::get_if_addrs().unwrap_or_default().iter().any(|own| own.ip() == ip);
    let others =
        ticket.iter().copied().filter(|to| is_here || !to.ip().to_canonical().is_loopback());
    let mut names: Vec<String> = written.map(str::to_owned).into_iter().collect();
    names.extend(std::iter::once(reached).chain(others).map(address_name));
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn key(byte: u8) -> Fingerprint {
        Fingerprint([byte; 32])
    }

    fn chosen(word: &str, role: Option<Role>) -> Choice {
        Choice { word: word.to_owned(), role }
    }

    #[test]
    fn a_line_counts_for_its_role_and_scope_alone() {
        let home = tempfile::tempdir().expect("a folder");
        let list = PeerList::open(&home.path().join("new"));
        assert!(list.read().expect("no file").is_empty());
        let to = "127.0.0.1:4460".parse().expect("an address");
        list.remember(Role::Receiver, &["ship:1".to_owned(), address_name(to)], key(1))
            .expect("it");
        list.remember(Role::Receiver, &["ship:1".to_owned()], key(2)).expect("kept as it is");
        assert_eq!(list.find(Role::Receiver, "ship:1", &[]).expect("read"), Some(key(1)));
        assert_eq!(list.find(Role::Receiver, "localhost:4460", &[to]).expect("it"), Some(key(1)));
        assert_eq!(list.find(Role::Server, "ship:1", &[to]).expect("read"), None, "another role");

        let folder = folder_scope(Path::new("/a b#%/\u{e9}"));
        assert_eq!(folder, "/a%20b%23%25/%C3%A9");
        for role in [Role::Sender, Role::Client] {
            assert!(!list.admits(role, key(1), &folder).expect("read"), "only a receiver");
        }
        list.admit(Peer::admitted(Role::Sender, key(1), &folder)).expect("written");
        list.admit(Peer::admitted(Role::Sender, key(1), &folder)).expect("once");
        assert!(list.admits(Role::Sender, key(1), &folder).expect("read"));
        assert!(!list.admits(Role::Sender, key(1), "/a").expect("read"), "another folder");
        assert!(!list.admits(Role::Client, key(1), &folder).expect("read"), "another role");
        assert_eq!(list.read().expect("read").len(), 3);
    }

    #[test]
    fn peers_are_renamed_and_revoked_and_comments_stay() {
        let home = tempfile::tempdir().expect("a folder");
        let list = PeerList::open(home.path());
        let (one, two) = (key(1), key(2));
        let text = format!(
            "# mine\nsender a {one} /in # by hand\n\nclient a {one} h:1\nserver h:1 {two}\n"
        );
        fs::write(list.path(), text).expect("written");
        fs::set_permissions(list.path(), fs::Permissions::from_mode(0o640)).expect("set");
        // Only root can give a file away, and must not take it.
        let is_root = std::os::unix::fs::chown(list.path(), Some(12345), Some(12345)).is_ok();
        assert_eq!(list.rename(&chosen("a", Some(Role::Sender)), "b").expect("one").len(), 1);
        assert!(list.rename(&chosen("h:1", None), "ship").is_err(), "no address");
        for bad in ["", "two words", "a#b", "a\nb", &one.to_string()] {
            assert!(list.rename(&chosen("b", None), bad).is_err(), "{bad:?}");
        }
        list.admit(Peer::admitted(Role::Sender, one, "/other")).expect("it keeps its name");
        assert!(list.revoke(&chosen("a", Some(Role::Sender))).is_err(), "there is none any more");
        let gone = list.revoke(&chosen(&one.to_string(), Some(Role::Client))).expect("by key");
        assert_eq!(gone.len(), 1);
        assert_eq!(
            fs::read_to_string(list.path()).expect("read"),
            format!(
                "# mine\nsender b {one} /in # by hand\n\nserver h:1 {two}\nsender b {one} /other\n"
            )
        );
        let now = fs::metadata(list.path()).expect("there");
        assert_eq!(now.mode() & 0o777, 0o640);
        assert!(!is_root || (now.uid(), now.gid()) == (12345, 12345));
        assert_eq!(fs::read_dir(home.path()).expect("read").count(), 1, "no temporary file");
    }

    #[test]
    fn a_name_leads_to_one_key() {
        let home = tempfile::tempdir().expect("a folder");
        let list = PeerList::open(home.path());
        let (one, two) = (key(1), key(2));
        let text = format!(
            "server a:1 {one}\nserver b:1 {two}\nreceiver b:1 {two}\nclient x {one} h:1\n\
             sender x {two} /in\nclient y {two} h:1\n"
        );
        fs::write(list.path(), &text).expect("written");
        for (word, name) in
            [("a:1", "b:1"), ("a:1", ":"), ("a:1", "b:"), ("a:1", "b:1:0"), ("y", "x"), ("x", "z")]
        {
            assert!(list.rename(&chosen(word, None), name).is_err(), "{word} to {name}");
            assert_eq!(fs::read_to_string(list.path()).expect("read"), text);
        }
        list.rename(&chosen("x", Some(Role::Sender)), "y").expect("the same key");
        list.rename(&chosen("b:1", None), "[::1]:1").expect("both roles of one key");

        // The same first bytes.
        list.admit(Peer::admitted(Role::Client, key(3), "h:1")).expect("written");
        list.admit(Peer::admitted(Role::Client, key(3), "h:2")).expect("the same");
        let mut like = key(3);
        like.0[31] = 9;
        list.admit(Peer::admitted(Role::Client, like, "h:1")).expect("written");
        assert_eq!(list.revoke(&chosen("peer-03030303", None)).expect("one key").len(), 2);
    }

    #[test]
    fn a_list_that_others_can_change_or_that_is_no_file_is_refused_and_links_stay() {
        let home = tempfile::tempdir().expect("a folder");
        let list = PeerList::open(home.path());
        let real = home.path().join("dotfiles");
        fs::write(&real, format!("\u{feff}client a {} h:1\n", key(1))).expect("written");
        std::os::unix::fs::symlink("dotfiles", list.path()).expect("a link");
        list.rename(&chosen("a", None), "b").expect("through the link, behind a mark");
        assert!(fs::symlink_metadata(list.path()).expect("there").is_symlink());
        assert!(fs::read_to_string(&real).expect("read").starts_with("client b "));
        fs::set_permissions(&real, fs::Permissions::from_mode(0o666)).expect("set");
        let error = list.read().expect_err("refused").to_string();
        assert!(error.contains("everybody can write"), "{error}");
        fs::remove_file(&real).expect("removed");
        rustix::fs::mkfifoat(rustix::fs::CWD, &real, 0o600.into()).expect("a FIFO");
        assert!(list.read().expect_err("not waited for").to_string().contains("not a file"));
    }

    #[test]
    fn lines_without_a_role_are_errors_and_earlier_files_are_named() {
        let home = tempfile::tempdir().expect("a folder");
        let list = PeerList::open(home.path());
        let one = key(1);
        assert_eq!(list.advice(), None);
        for line in [
            format!("ship {one}"),
            format!("{one} 127.0.0.1:22"),
            format!("sender a {one}"),
            format!("server h:1 {one} more"),
            "client a SHA256:abc h:1".to_owned(),
        ] {
            fs::write(list.path(), format!("# peers\n\n{line}\n")).expect("written");
            let error = list.read().expect_err(&line).to_string();
            assert!(error.contains("peers:3: "), "{error}");
            assert!(list.revoke(&chosen("a", None)).is_err(), "nothing is lost");
            assert!(fs::read_to_string(list.path()).expect("read").contains(&line));
        }
        fs::write(home.path().join("known_peers"), "").expect("written");
        assert!(list.advice().expect("advice").contains("known_peers is of an earlier version"));
    }

    #[test]
    fn a_ticket_says_nothing_of_loopback_on_another_machine() {
        let at = |text: &str| text.parse::<SocketAddr>().expect(text);
        let ticket = [at("192.0.2.1:5"), at("127.0.0.1:5")];
        assert_eq!(names(None, &ticket, at("192.0.2.1:5")), ["192.0.2.1:5"]);
        assert_eq!(
            names(Some("ship:5"), &ticket, at("[::ffff:127.0.0.1]:5")),
            ["ship:5", "127.0.0.1:5", "192.0.2.1:5"]
        );
    }

    /// Another user can hold the lock of a directory that they can read.
    #[test]
    fn a_lock_that_is_held_for_ever_delays_a_change_only() {
        let home = tempfile::tempdir().expect("a folder");
        let holder = File::open(home.path()).expect("open");
        holder.lock().expect("locked");
        let list = PeerList::open(home.path());
        let key = Fingerprint([1; 32]);
        list.remember(Role::Receiver, &["a:1".to_owned()], key).expect("written");
        assert_eq!(list.read().expect("read").len(), 1);
    }
}
