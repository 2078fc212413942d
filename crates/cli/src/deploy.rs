//! Common parts of the commands that move files, and of those that forward services.

use std::path::PathBuf;
use std::sync::Arc;

use windward_deploy::identity::{Identity, default_directory, make_private_directory};
use windward_deploy::{Error, Options, Qlog};

use crate::failure::Failure;

/// Option of the configuration.
#[derive(Debug, clap::Args)]
pub(crate) struct ConfigArgs {
    /// Directory of the key of this machine, its known peers and its tickets [default:
    /// ~/.config/windward]
    #[arg(long, value_name = "DIR")]
    config: Option<PathBuf>,
}

impl ConfigArgs {
    /// Directory of the configuration.
    pub(crate) fn home(&self) -> Result<PathBuf, Failure> {
        let directory = self.config.clone().map_or_else(default_directory, Ok)?;
        Ok(make_private_directory(&directory)?)
    }
}

/// Options of the identity.
#[derive(Debug, clap::Args)]
pub(crate) struct IdentityArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,

    /// Certificate of this machine, in PEM, instead of the one that windward makes
    #[arg(long, value_name = "FILE", requires = "key")]
    certificate: Option<PathBuf>,

    /// Private key of the certificate, in PEM; only its owner may be able to read the file
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
}

impl IdentityArgs {
    /// Identity of this machine, made at the first use.
    pub(crate) fn identity(&self) -> Result<Identity, Failure> {
        Ok(match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => Identity::from_files(certificate, key)?,
            _ => Identity::open(&self.config.home()?)?,
        })
    }
}

/// Option of logs.
#[derive(Debug, clap::Args)]
pub(crate) struct QlogArgs {
    /// Write a qlog of each connection into a folder, several hundred bytes for each packet
    #[arg(long, value_name = "DIR")]
    qlog: Option<PathBuf>,
}

impl QlogArgs {
    /// The logs, if the user asks for them.
    pub(crate) fn open(&self) -> Result<Option<Arc<Qlog>>, Failure> {
        let opened = self.qlog.as_deref().map(Qlog::open).transpose()?;
        Ok(opened.map(Arc::new))
    }
}

/// Properties of connections with a congestion controller.
pub(crate) fn options(protocol: &str, qlog: &QlogArgs) -> Result<Options, Failure> {
    Ok(Options { protocol: protocol.to_owned(), qlog: qlog.open()?, ..Options::default() })
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Input(text) => Failure::Input(text),
            Error::Interrupted => Failure::Interrupted,
            other => Failure::Failed(other.to_string()),
        }
    }
}
