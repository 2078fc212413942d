//! stub
use crate::failure::Failure;
/// Run an experiment of your own
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}
pub(crate) fn sweep(_args: &Args, _quiet: bool) -> Result<(), Failure> {
    Err(Failure::Failed("not wired up yet".into()))
}
