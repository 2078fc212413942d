//! One colour, marker and dash for each protocol, the same in every chart; shades of that colour
//! for its variants; and a scale of other colours for everything that is not a protocol.

use std::fmt;

use windward_core::protocols::PROTOCOLS;

/// A colour as red, green and blue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Color(pub(crate) u8, pub(crate) u8, pub(crate) u8);

impl fmt::Display for Color {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }
}

impl Color {
    /// This share of the way to another colour.
    fn towards(self, other: Color, share: f64) -> Color {
        let mix = |a: u8, b: u8| (f64::from(a) + share * (f64::from(b) - f64::from(a))).round();
        Color(mix(self.0, other.0) as u8, mix(self.1, other.1) as u8, mix(self.2, other.2) as u8)
    }

    /// Lighter by a share of the way to white, or darker if it is negative; what is black already
    /// gets lighter both ways.
    fn shade(self, share: f64) -> Color {
        let black = u16::from(self.0) + u16::from(self.1) + u16::from(self.2) < 150;
        match share < 0.0 && !black {
            true => self.towards(Color(0, 0, 0), -share),
            false => self.towards(Color(255, 255, 255), share.abs()),
        }
    }
}

/// Okabe and Ito's colours, which people with any colour vision can tell apart, without the
/// yellow that vanishes on white; then a brown, a violet and an olive.
const COLORS: [Color; 10] = [
    Color(0x22, 0x22, 0x22),
    Color(0x00, 0x72, 0xb2),
    Color(0xe6, 0x9f, 0x00),
    Color(0x00, 0x9e, 0x73),
    Color(0xd5, 0x5e, 0x00),
    Color(0xcc, 0x79, 0xa7),
    Color(0x56, 0xb4, 0xe9),
    Color(0x7a, 0x4a, 0x1e),
    Color(0x6a, 0x3f, 0xa0),
    Color(0x8a, 0x96, 0x00),
];

/// Scale from dark to light with hues between those of protocols, for the values of an axis in
/// their order.
const SCALE: [Color; 4] = [
    Color(0x2d, 0x11, 0x60),
    Color(0x9b, 0x1d, 0x87),
    Color(0xe8, 0x3f, 0x6f),
    Color(0xf2, 0x8e, 0x6c),
];

/// Dash patterns, for readers who cannot distinguish the colours.
const DASHES: [&str; 5] = ["", "7 3", "2 3", "10 3 2 3", "14 4"];

/// The shape at each point. The hollow diamond is not one of them: it marks numbers of a paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marker {
    Circle,
    Square,
    Triangle,
    Diamond,
    Cross,
    Ring,
    Frame,
    Wedge,
}

impl Marker {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Marker::Circle => "circle",
            Marker::Square => "square",
            Marker::Triangle => "triangle",
            Marker::Diamond => "diamond",
            Marker::Cross => "cross",
            Marker::Ring => "ring",
            Marker::Frame => "frame",
            Marker::Wedge => "wedge",
        }
    }
}

const MARKERS: [Marker; 8] = [
    Marker::Circle,
    Marker::Square,
    Marker::Triangle,
    Marker::Diamond,
    Marker::Cross,
    Marker::Ring,
    Marker::Wedge,
    Marker::Frame,
];

/// Look of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
    pub(crate) color: Color,
    pub(crate) marker: Marker,
    pub(crate) dash: &'static str,
    /// True for a thicker line than the others of a chart.
    pub(crate) bold: bool,
}

/// The protocol that charts emphasise: a thick solid line in a colour of its own.
const EMPHASISED: (&str, Style) = (
    "upwind",
    Style { color: Color(0xc4, 0x00, 0x6a), marker: Marker::Circle, dash: "", bold: true },
);

impl Style {
    /// The look of variant `n` of the same protocol: its marker and its hue.
    pub(crate) fn variant(self, n: usize) -> Style {
        const SHADES: [f64; 7] = [0.0, -0.6, 0.5, -0.3, 0.7, -0.8, 0.25];
        let own = DASHES.iter().position(|dash| *dash == self.dash).unwrap_or(0);
        let color = self.color.shade(SHADES[n % SHADES.len()]);
        Style { color, dash: DASHES[(own + n) % DASHES.len()], ..self }
    }
}

/// The look of series `n` of `all` that are not protocols.
pub(crate) fn style(n: usize, all: usize) -> Style {
    let place = n as f64 / all.saturating_sub(1).max(1) as f64 * (SCALE.len() - 1) as f64;
    let below = (place.floor() as usize).min(SCALE.len() - 2);
    Style {
        color: SCALE[below].towards(SCALE[below + 1], place - below as f64),
        marker: MARKERS[n % MARKERS.len()],
        dash: DASHES[n % DASHES.len()],
        bold: false,
    }
}

/// Protocols with an assigned look: entry `n` of this list has the look [`given`] to `n`. The list
/// is closed. Other protocols get a look by a hash of their name, or the next free one, so that a
/// new row at the end of the table changes no colours.
const BY_HAND: [&str; 36] = [
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
    "hybla",
    "vegas",
    "copa",
    "prague",
    "bbr1",
    "highspeed",
];

/// Neighbours differ in colour and marker, and those with the same colour in marker and dash.
fn given(n: usize) -> Style {
    let round = n / COLORS.len();
    Style {
        color: COLORS[n % COLORS.len()],
        marker: MARKERS[(n % COLORS.len() + 3 * round) % MARKERS.len()],
        dash: DASHES[round % DASHES.len()],
        bold: false,
    }
}

/// The row of the table of protocols that a label names, with or without further words.
pub(crate) fn protocol_of(label: &str) -> Option<usize> {
    let name = label.split_once(' ').map_or(label, |(name, _)| name);
    PROTOCOLS.iter().position(|p| p.name == name)
}

/// Look of a protocol; `None` for names that the table does not have.
pub(crate) fn protocol_style(label: &str) -> Option<Style> {
    let row = protocol_of(label)?;
    if PROTOCOLS[row].name == EMPHASISED.0 {
        return Some(EMPHASISED.1);
    }
    let by_hand = BY_HAND.iter().position(|known| *known == PROTOCOLS[row].name);
    Some(by_hand.map_or_else(|| style_of_row(row), given))
}

/// The look of a row without an assigned one. Earlier rows choose first, so that a new row at the
/// end of the table changes no other look.
fn style_of_row(row: usize) -> Style {
    let mut chosen: Vec<Style> = Vec::new();
    for protocol in PROTOCOLS[..=row].iter().filter(|p| !BY_HAND.contains(&p.name)) {
        chosen.push(style_of_name(protocol.name, &chosen));
    }
    chosen.pop().unwrap_or_else(|| given(row))
}

/// A look that is neither assigned nor `chosen`, by a hash of the name (FNV-1a).
fn style_of_name(name: &str, chosen: &[Style]) -> Style {
    let hash = name
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let all = COLORS.len() * DASHES.len() * MARKERS.len();
    let look = |n: usize| Style {
        color: COLORS[n % COLORS.len()],
        dash: DASHES[n / COLORS.len() % DASHES.len()],
        marker: MARKERS[n / (COLORS.len() * DASHES.len()) % MARKERS.len()],
        bold: false,
    };
    // A dash alone does not distinguish points.
    let alike = |a: &Style, b: &Style| (a.color, a.marker) == (b.color, b.marker);
    let free = |look: &Style| {
        !(0..BY_HAND.len()).any(|n| alike(&given(n), look))
            && !chosen.iter().any(|other| alike(other, look))
    };
    let mut looks = (0..all).map(|step| look(hash as usize % all + step));
    looks.find(free).unwrap_or_else(|| look(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_protocols_look_alike() {
        // Points have no dash.
        let look = |name: &str| protocol_style(name).map(|s| (s.color, s.marker));
        for (i, a) in PROTOCOLS.iter().enumerate() {
            for b in &PROTOCOLS[..i] {
                assert_ne!(look(a.name), look(b.name), "{} and {}", a.name, b.name);
            }
        }
        assert_eq!(protocol_style("no such protocol"), None);
        for name in BY_HAND {
            assert!(protocol_style(name).is_some(), "{name}");
        }
    }

    #[test]
    fn labels_with_more_words_have_the_look_of_their_protocol() {
        assert_eq!(protocol_style("westwood adaptive"), protocol_style("westwood"));
        assert_eq!(protocol_style("reno-like"), None);
        assert_ne!(protocol_style("westwood+"), protocol_style("westwood"));
    }

    #[test]
    fn variants_keep_marker_and_hue() {
        let own = protocol_style("newreno").unwrap();
        let looks: Vec<Style> = (0..7).map(|n| own.variant(n)).collect();
        assert_eq!(looks[0], own);
        for (i, a) in looks.iter().enumerate() {
            assert_eq!(a.marker, own.marker);
            // Blue stays the strongest part.
            assert!(a.color.2 > a.color.1 && a.color.1 > a.color.0, "{}", a.color);
            assert!(looks[..i].iter().all(|b| a.color != b.color), "{i}");
        }
        // 0.4 of #0072b2: 114 and 178 give 45.6 and 71.2.
        assert_eq!(looks[1].color.to_string(), "#002e47");
        // A protocol that is dashed itself has its variants in other dashes.
        let dashed = protocol_style("lr-xcp-pa").unwrap();
        assert!(!dashed.dash.is_empty() && dashed.variant(1).dash != dashed.dash);
    }

    #[test]
    fn other_series_have_no_protocols_colour() {
        for all in 1..=12 {
            for n in 0..all {
                assert!(!COLORS.contains(&style(n, all).color), "{n} of {all}");
            }
        }
        // The ends of the scale, and in the middle of three half the way between its second and
        // third colour: (9b + e8) / 2 = c2, (1d + 3f) / 2 = 2e, (87 + 6f) / 2 = 7b.
        let colors = [0, 1, 2].map(|n| style(n, 3).color.to_string());
        assert_eq!(colors, ["#2d1160", "#c22e7b", "#f28e6c"]);
    }
}
