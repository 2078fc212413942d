//! Axis 4, the end-host half: what packets carry and acknowledgments echo.

/// The congestion header a protocol uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feedback {
    /// None, or ECN where the endpoints negotiate it.
    None,
    /// XCP's header: rtt, inter-packet time, demanded change of throughput.
    Xcp,
    /// XTCP's congestion flag, copied into the acknowledgment.
    CongestionFlag,
}
