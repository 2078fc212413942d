//! Common parts of the commands that move files, and of those that forward services.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration as StdDuration;

use windward_core::units::Duration;
use windward_deploy::identity::{Identity, default_directory, make_private_directory};
use windward_deploy::{Error, Options, Qlog};
use windward_sim::input;

use crate::failure::Failure;
use crate::output;

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

/// Environment variable with a ticket.
const TICKET: &str = "WINDWARD_TICKET";
/// Longest first line of a file with a ticket, bytes.
const LONGEST_LINE: u64 = 64 << 10;

/// Sources of a ticket other than the arguments, which every user of the machine can read.
#[derive(Debug, clap::Args)]
pub(crate) struct TicketArgs {
    /// Read the ticket from the first line of a file, or of standard input (`-`). The variable
    /// WINDWARD_TICKET may have it too. As an argument, every user of this machine could read it
    #[arg(long, value_name = "FILE")]
    ticket_file: Option<PathBuf>,
}

impl TicketArgs {
    /// The ticket or HOST:PORT, and whether it is what `word` says. A word that is one goes before
    /// the variable.
    pub(crate) fn find(
        &self,
        word: Option<&OsStr>,
        is_one: impl Fn(&OsStr) -> bool,
    ) -> Result<Option<(String, bool)>, Failure> {
        let from_word = |word: &OsStr| match word == "-" {
            true => read_ticket(Path::new("-")),
            false => Ok(word.to_string_lossy().into_owned()),
        };
        match (&self.ticket_file, word, std::env::var_os(TICKET)) {
            (Some(_), Some(word), _) if is_one(word) => Err(Failure::Input(format!(
                "there are two of them, in --ticket-file and as {}: write one",
                word.display()
            ))),
            (Some(file), ..) => Ok(Some((read_ticket(file)?, false))),
            (None, Some(word), _) if is_one(word) => Ok(Some((from_word(word)?, true))),
            (None, _, Some(text)) if !text.is_empty() => {
                Ok(Some((last_word(&text.to_string_lossy()), false)))
            }
            (None, word, _) => word.map(|word| Ok((from_word(word)?, true))).transpose(),
        }
    }

    /// True if a word is a ticket, `-`, or looks like HOST:PORT and is no file.
    pub(crate) fn is_peer(word: &OsStr) -> bool {
        let bytes = word.as_bytes();
        bytes == b"-"
            || bytes.starts_with(b"ww1.")
            || bytes.contains(&b':') && !Path::new(word).exists()
    }
}

/// The last word of the first line, as `windward receive` and `windward serve` print it.
fn read_ticket(file: &Path) -> Result<String, Failure> {
    let failed = |error: std::io::Error| {
        Failure::Failed(format!("--ticket-file {}: {error}", file.display()))
    };
    let source: Box<dyn Read> = if file.as_os_str() == "-" {
        Box::new(std::io::stdin())
    } else {
        let opened = File::open(file).map_err(failed)?;
        let metadata = opened.metadata().map_err(failed)?;
        if metadata.is_file() && metadata.permissions().mode() & 0o044 != 0 {
            output::note(&format!(
                "warning: {0}: others can read this ticket: chmod 600 {0}",
                file.display()
            ));
        }
        Box::new(opened)
    };
    let mut line = Vec::new();
    BufReader::new(source.take(LONGEST_LINE)).read_until(b'\n', &mut line).map_err(failed)?;
    let wrong = |what: String| Failure::Input(format!("--ticket-file {}: {what}", file.display()));
    let ticket = last_word(&input::text(line).map_err(|error| wrong(error.to_string()))?);
    if ticket.is_empty() {
        return Err(wrong("its first line is empty".to_owned()));
    }
    Ok(ticket)
}

fn last_word(text: &str) -> String {
    text.split_whitespace().next_back().unwrap_or_default().to_owned()
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

/// The value of `--patience`.
pub(crate) fn patience(time: Duration) -> Result<StdDuration, Failure> {
    match StdDuration::from_secs_f64(time.as_secs_f64()) {
        StdDuration::ZERO => {
            Err(Failure::Input("--patience: must be greater than zero".to_owned()))
        }
        patience => Ok(patience),
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
