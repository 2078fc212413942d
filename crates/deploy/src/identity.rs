//! The identity of this machine: an Ed25519 key and its self-signed certificate, kept in a file.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use data_encoding::BASE64_NOPAD;
use rustix::fs::Mode;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::descent::{self, Descent};
use crate::error::{Error, Result, shown};

/// Name of the file in the directory of the configuration.
const FILE: &str = "identity.pem";
/// Limit of the length of a file with a key and certificates, bytes.
const MAX_PEM: u64 = 64 << 10;

/// SHA-256 of a certificate in DER, as `openssl x509 -fingerprint -sha256` computes it.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// Fingerprint of a certificate.
    pub fn of(certificate: &CertificateDer<'_>) -> Self {
        let digest = ring::digest::digest(&ring::digest::SHA256, certificate);
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest.as_ref());
        Fingerprint(bytes)
    }
}

impl fmt::Display for Fingerprint {
    /// As ssh prints keys: `SHA256:` and 43 characters of base64.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SHA256:{}", BASE64_NOPAD.encode(&self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Fingerprint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bytes = text
            .strip_prefix("SHA256:")
            .and_then(|text| BASE64_NOPAD.decode(text.as_bytes()).ok())
            .and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        bytes.map(Fingerprint).ok_or_else(|| {
            Error::Input(format!(
                "`{}` is not a fingerprint; expected SHA256: and 43 characters of base64",
                text.escape_debug()
            ))
        })
    }
}

/// A private key with its certificate.
#[derive(Debug)]
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    /// Makes a key and a certificate that no file keeps.
    pub fn generate() -> Result<Self> {
        let (_, identity) = make()?;
        Ok(identity)
    }

    /// Reads the identity in a directory, or makes it there at the first call.
    ///
    /// # Errors
    ///
    /// If the file can be read by others, is invalid, or cannot be written.
    pub fn open(directory: &Path) -> Result<Self> {
        make_private_directory(directory)?;
        let path = directory.join(FILE);
        match read_private(&path) {
            Ok(pem) => return Self::parse(&path, &pem, &pem),
            Err(Error::File { error, .. }) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let (pem, _) = make()?;
        publish(directory, &path, &pem)?;
        // Another process may have been faster: the file is the truth.
        let pem = read_private(&path)?;
        Self::parse(&path, &pem, &pem)
    }

    /// Reads a certificate (the first of its chain) and its key from files of the user, in PEM.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or has no certificate or key, or if others can read the key.
    pub fn from_files(certificate: &Path, key: &Path) -> Result<Self> {
        let pem = read_limited(certificate, open_file(certificate)?)?;
        Self::parse(key, &pem, &read_private(key)?)
    }

    fn parse(path: &Path, certificate: &[u8], key: &[u8]) -> Result<Self> {
        let invalid = |what: &str| {
            Error::Input(format!(
                "{}: there is no {what} in PEM; correct the file, or remove it to get a new identity",
                path.display()
            ))
        };
        let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate)
            .collect::<std::result::Result<_, _>>()
            .map_err(|_| invalid("valid certificate"))?;
        if chain.is_empty() {
            return Err(invalid("certificate"));
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| invalid("private key"))?;
        Ok(Identity { chain, key })
    }

    /// Fingerprint of the certificate.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.chain[0])
    }

    /// Certificates, the own one first.
    pub(crate) fn chain(&self) -> Vec<CertificateDer<'static>> {
        self.chain.clone()
    }

    /// A secret for one use, which follows from the private key.
    pub(crate) fn secret(&self, usage: &str) -> [u8; 32] {
        blake3::derive_key(&format!("windward 2026 {usage}"), self.key.secret_der())
    }

    /// Private key.
    pub(crate) fn key(&self) -> PrivateKeyDer<'static> {
        self.key.clone_key()
    }
}

/// Directory of the configuration of the user: `WINDWARD_CONFIG`, or `windward` in
/// `XDG_CONFIG_HOME`, or `~/.config/windward`.
///
/// # Errors
///
/// If none of these variables and `HOME` is set.
pub fn default_directory() -> Result<PathBuf> {
    let variable =
        |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("WINDWARD_CONFIG")
        .or_else(|| variable("XDG_CONFIG_HOME").map(|path| path.join("windward")))
        .or_else(|| variable("HOME").map(|path| path.join(".config/windward")))
        .ok_or_else(|| {
            Error::Input(
                "no directory for the identity: set HOME, XDG_CONFIG_HOME or WINDWARD_CONFIG"
                    .to_owned(),
            )
        })
}

/// Makes a directory that only its owner can enter, with its parents, unless it is there. Its path
/// without links.
///
/// # Errors
///
/// If it cannot be made, if a link of another user leads to it, or if others can change what is in
/// it: they would choose keys and peers.
pub fn make_private_directory(path: &Path) -> Result<PathBuf> {
    let found = (|| {
        let system = Descent::system()?;
        let place = system.named(path, Some(Mode::RWXU))?;
        system.folder(&place)?;
        Ok((system.look(&place)?, descent::absolute(&place)))
    })();
    let (stat, real) = found.map_err(Error::file(path, "cannot make the directory"))?;
    if !descent::is_trusted(&stat) {
        return Err(Error::Input(format!(
            "{}: belongs to another user (uid {}), and keys and peers are kept in it: name a \
             directory of your own, or run this as that user",
            shown(path),
            stat.st_uid
        )));
    }
    if stat.st_mode & 0o002 != 0 {
        return Err(Error::Input(format!(
            "{0}: everybody can write into this directory, and keys and peers are kept in it: \
             chmod 700 {0}",
            shown(path)
        )));
    }
    Ok(real)
}

fn make() -> Result<(String, Identity)> {
    let failed = |error: rcgen::Error| Error::Input(format!("cannot make a key: {error}"));
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).map_err(failed)?;
    let mut parameters =
        rcgen::CertificateParams::new(vec![SERVER_NAME.to_owned()]).map_err(failed)?;
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    parameters.distinguished_name.push(rcgen::DnType::CommonName, SERVER_NAME);
    let certificate = parameters.self_signed(&key).map_err(failed)?;
    let pem = format!("{}{}", key.serialize_pem(), certificate.pem());
    let identity = Identity {
        chain: vec![certificate.der().clone()],
        key: PrivateKeyDer::Pkcs8(key.serialize_der().into()),
    };
    Ok((pem, identity))
}

/// Name in certificates. Peers are known by fingerprints, not by names.
pub(crate) const SERVER_NAME: &str = "windward";

/// Writes a file that appears whole, and does not replace one that is there already.
fn publish(directory: &Path, path: &Path, pem: &str) -> Result<()> {
    let temporary = directory.join(format!(".{FILE}.{}", std::process::id()));
    let write = |file: io::Result<File>| -> io::Result<()> {
        let mut file = file?;
        file.write_all(pem.as_bytes())?;
        file.sync_all()
    };
    // A process that was killed may have left one.
    let _ = fs::remove_file(&temporary);
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary);
    let written = write(opened).map_err(Error::file(&temporary, "cannot write"));
    let linked = written.and_then(|()| match fs::hard_link(&temporary, path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(Error::file(path, "cannot write")(error))
        }
        _ => Ok(()),
    });
    let _ = fs::remove_file(&temporary);
    linked
}

fn open_file(path: &Path) -> Result<File> {
    descent::open_named(path).map_err(Error::file(path, "cannot open"))
}

fn read_limited(path: &Path, file: File) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MAX_PEM).read_to_end(&mut bytes).map_err(Error::file(path, "cannot read"))?;
    Ok(bytes)
}

/// Reads a file that only its owner can read, as ssh requires of keys.
fn read_private(path: &Path) -> Result<Vec<u8>> {
    let file = open_file(path)?;
    let metadata = file.metadata().map_err(Error::file(path, "cannot open"))?;
    if ![0, rustix::process::geteuid().as_raw()].contains(&metadata.uid()) {
        return Err(Error::Input(format!(
            "{0}: belongs to another user (uid {1}), who knows this private key: chown {2} {0}, if \
             you trust it, or make a new one",
            shown(path),
            metadata.uid(),
            rustix::process::geteuid().as_raw()
        )));
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(Error::Input(format!(
            "{0}: others can read this private key: chmod 600 {0}",
            path.display()
        )));
    }
    read_limited(path, file)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn an_identity_lasts_and_is_private() {
        let home = tempfile::tempdir().expect("a folder");
        let directory = home.path().join("a/b");
        let first = Identity::open(&directory).expect("made");
        let again = Identity::open(&directory).expect("read");
        assert_eq!(first.fingerprint(), again.fingerprint());
        let file = directory.join(FILE);
        assert_eq!(fs::metadata(&file).expect("there").mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&directory).expect("there").mode() & 0o777, 0o700);
        assert_eq!(fs::read_dir(&directory).expect("a folder").count(), 1, "no temporary file");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("changed");
        let error = Identity::open(&directory).expect_err("others can read it").to_string();
        assert!(error.contains("chmod 600"), "{error}");
    }

    #[test]
    fn a_directory_that_others_can_change_is_refused() {
        let home = tempfile::tempdir().expect("a folder");
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o777)).expect("set");
        let error = make_private_directory(home.path()).expect_err("refused").to_string();
        assert!(error.contains("chmod 700"), "{error}");
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).expect("set");
        let real = make_private_directory(home.path()).expect("only its owner can");
        assert_eq!(real, home.path().canonicalize().expect("there"));
        if std::os::unix::fs::chown(home.path(), Some(65534), None).is_ok() {
            let error = Identity::open(home.path()).expect_err("refused").to_string();
            assert!(error.contains("belongs to another user (uid 65534)"), "{error}");
            // A key in a directory of the own, too.
            let own = tempfile::tempdir().expect("a folder");
            Identity::open(own.path()).expect("made");
            let file = own.path().join(FILE);
            std::os::unix::fs::chown(&file, Some(65534), None).expect("given away");
            for refused in [Identity::open(own.path()), Identity::from_files(&file, &file)] {
                let error = refused.expect_err("refused").to_string();
                assert!(error.contains("who knows this private key"), "{error}");
            }
        }
    }

    #[test]
    fn a_damaged_identity_is_refused_and_kept() {
        let home = tempfile::tempdir().expect("a folder");
        fs::write(home.path().join(FILE), "-----BEGIN").expect("written");
        fs::set_permissions(home.path().join(FILE), fs::Permissions::from_mode(0o600))
            .expect("set");
        assert!(Identity::open(home.path()).is_err());
        assert_eq!(fs::read(home.path().join(FILE)).expect("kept"), b"-----BEGIN");
    }

    #[test]
    fn fingerprints_are_read_as_they_are_written() {
        let own = Identity::generate().expect("made").fingerprint();
        assert_eq!(own.to_string().parse::<Fingerprint>().expect("read"), own);
        // SHA-256 of nothing, FIPS 180-4 examples: e3b0c442...; base64 of these bytes.
        let empty = Fingerprint::of(&CertificateDer::from(vec![]));
        assert_eq!(empty.to_string(), "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU");
        for bad in ["", "SHA256:", "MD5:47DE", "SHA256:47DEQpj8HBSa"] {
            assert!(bad.parse::<Fingerprint>().is_err(), "{bad}");
        }
    }
}
