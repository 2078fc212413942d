//! XTCP's congestion counter.
/// The counter.
#[derive(Debug, Clone, Default)]
pub struct CongestionCounter {}
