//! Names of links and flows, kept for the outcome.

pub(super) use crate::name::Names;
