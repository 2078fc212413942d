//! One colour, marker and dash for each protocol, the same in every chart.

use windward_core::protocols::PROTOCOLS;

/// Okabe and Ito's colours, which people with any colour vision can tell apart, without the
/// yellow that vanishes on white; a brown in its place.
const COLORS: [&str; 8] =
    ["#222222", "#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#8c6d46"];

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

/// Protocols whose looks were given out by hand: number `n` of this list looks like [`style`] of `n`.
/// It is closed. Who is not in it gets a look by its name alone, so that no new row of the table
/// changes anybody's colour.
const BY_HAND: [&str; 30] = [
    "reno",
    "newreno",
    "sack",
    "cubic",
    "bbr",
    "dctcp",
    "xcp-dumb",
    "xcp",
    "xcp-pa",
    "lr-xcp",
    "lr-xcp-pa",
    "lr-lmxcp",
    "lr-xcpq-pa",
    "xcp-katabi",
    "xcp-r",
    "lr-xtcp",
    "lr-xtcp-pa",
    "lr-lmxtcp",
    "lr-lmxtcp-tcpfriend",
    "sack-oracle",
    "ceten-p",
    "ceten-a",
    "westwood",
    "westwood+",
    "estcp",
    "estcp-ecn",
    "veno",
    "jtcp",
    "new-jersey",
    "tcpw-br",
];

/// The look of a protocol; `None` for what is no row of the table.
pub(crate) fn protocol_style(name: &str) -> Option<Style> {
    if let Some(place) = BY_HAND.iter().position(|known| *known == name) {
        return Some(style(place));
    }
    PROTOCOLS.iter().any(|p| p.name == name).then(|| style_of_name(name))
}

/// One of all looks that nobody has by hand, chosen by a hash of the name (FNV-1a).
fn style_of_name(name: &str) -> Style {
    let hash = name
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let all = COLORS.len() * DASHES.len() * MARKERS.len();
    let look = |n: usize| Style {
        color: COLORS[n % COLORS.len()],
        dash: DASHES[n / COLORS.len() % DASHES.len()],
        marker: MARKERS[n / (COLORS.len() * DASHES.len()) % MARKERS.len()],
    };
    let free = |look: &Style| !(0..BY_HAND.len()).any(|n| style(n) == *look);
    let mut looks = (0..all).map(|step| look(hash as usize % all + step));
    looks.find(free).unwrap_or_else(|| look(0))
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
        for name in BY_HAND {
            assert!(protocol_style(name).is_some(), "{name}");
        }
    }
}
