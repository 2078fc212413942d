//! Axis 1: how the congestion window grows and shrinks.

/// The window laws by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowLaw {
    /// AIMD(1, 1/2) with slow start (RFC 5681).
    Reno,
    /// CUBIC (RFC 9438).
    Cubic,
    /// The window follows the feedback of XCP routers.
    Xcp,
    /// AIMD on a congestion flag.
    Xtcp {
        /// Artificial back-off (lr2008 section 8.1).
        tcp_friendly: bool,
    },
}
