//! stub
use crate::failure::Failure;
/// Reproduce
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}
pub(crate) fn reproduce(_args: &Args, _quiet: bool) -> Result<(), Failure> {
    Err(Failure::Failed("not wired up yet".into()))
}
