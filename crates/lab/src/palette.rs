//! One colour, marker and dash for each protocol, the same in every chart.

use windward_core::protocols::PROTOCOLS;

/// Okabe and Ito's colours, which people with any colour vision can tell apart, without the
/// yellow that vanishes on white; a brown in its place.
const COLORS: [&str; 8] = [
    "#222222", "#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#8c6d46",
];

/// Dash patterns, told apart by anybody who cannot use the colours.
const DASHES: [&str; 5] = ["", "7 3", "2 3", "10 3 2 3", "14 4"];

/// The shape at each point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marker {
    Circle,
    Square,
    Triangle,
    Diamond,
    Cross,
    Ring,
}

const MARKERS: [Marker; 6] = [
    Marker::Circle,
    Marker::Square,
    Marker::Triangle,
    Marker::Diamond,
    Marker::Cross,
    Marker::Ring,
];

/// How a series looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
    pub(crate) color: &'static str,
    pub(crate) marker: Marker,
    pub(crate) dash: &'static str,
}

/// The look of number `n` in any enumeration.
pub(crate) fn style(n: usize) -> Style {
    Style {
        color: COLORS[n % COLORS.len()],
        marker: MARKERS[(n + n / COLORS.len()) % MARKERS.len()],
        dash: DASHES[n / COLORS.len() % DASHES.len()],
    }
}

/// The look of a protocol: its place in the table.
pub(crate) fn protocol_style(name: &str) -> Option<Style> {
    PROTOCOLS.iter().position(|p| p.name == name).map(style)
}

/// The dash that tells the n-th variant of one protocol from the others.
pub(crate) fn variant_dash(n: usize) -> &'static str {
    DASHES[n % DASHES.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_protocols_look_alike() {
        for (i, a) in PROTOCOLS.iter().enumerate() {
            for b in &PROTOCOLS[..i] {
                assert_ne!(protocol_style(a.name), protocol_style(b.name), "{}", a.name);
            }
        }
        assert_eq!(protocol_style("no such protocol"), None);
    }
}
