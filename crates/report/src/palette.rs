//! One colour, marker and dash for each protocol, the same in every chart; shades of that colour
//! for its variants; and a scale of other colours for everything that is not a protocol. Each
//! colour is a pair, for light and for dark pages.
//!
//! The playground and live pages have the same looks: a test writes `crates/web/page/palette.json`.

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

    /// Lighter by a share of the way to white, or darker if it is negative; half as much the other
    /// way if there is no room.
    fn shade(self, share: f64) -> Color {
        let sum = u16::from(self.0) + u16::from(self.1) + u16::from(self.2);
        let (darkens, has_room) = (share < 0.0, if share < 0.0 { sum >= 150 } else { sum <= 615 });
        let end = if darkens == has_room { 0 } else { 255 };
        self.towards(Color(end, end, end), if has_room { 1.0 } else { 0.5 } * share.abs())
    }
}

/// A colour on light pages, which is the one that is written, and its counterpart on dark ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tint {
    pub(crate) light: Color,
    pub(crate) dark: Color,
}

impl fmt::Display for Tint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.light.fmt(f)
    }
}

impl Tint {
    const fn new(light: (u8, u8, u8), dark: (u8, u8, u8)) -> Tint {
        Tint { light: Color(light.0, light.1, light.2), dark: Color(dark.0, dark.1, dark.2) }
    }

    fn towards(self, other: Tint, share: f64) -> Tint {
        let (light, dark) =
            (self.light.towards(other.light, share), self.dark.towards(other.dark, share));
        Tint { light, dark }
    }

    /// Nearer to the page, or away from it if it is negative.
    fn shade(self, share: f64) -> Tint {
        Tint { light: self.light.shade(share), dark: self.dark.shade(-share) }
    }
}

/// Okabe and Ito's colours and four others, moved so far that any two of them and
/// [`EMPHASISED`] are told apart with any colour vision, and all stand out from the page.
const COLORS: [Tint; 10] = [
    Tint::new((0x22, 0x22, 0x22), (0xe6, 0xe6, 0xe6)),
    Tint::new((0x00, 0x72, 0xb2), (0x56, 0xb4, 0xe9)),
    Tint::new((0xbe, 0x8d, 0x00), (0xe6, 0xa3, 0x2e)),
    Tint::new((0x09, 0x9b, 0x62), (0x2f, 0xd7, 0xa0)),
    Tint::new((0xe6, 0x65, 0x63), (0xdf, 0x7f, 0x3c)),
    Tint::new((0xcb, 0x77, 0xa5), (0xd0, 0xaf, 0xd3)),
    Tint::new((0x0e, 0x9e, 0xd7), (0xa6, 0xdb, 0xff)),
    Tint::new((0x76, 0x48, 0x1c), (0xc2, 0x92, 0x67)),
    Tint::new((0x55, 0x28, 0x84), (0x94, 0x80, 0xe2)),
    Tint::new((0x6a, 0x7b, 0x01), (0xdb, 0xdf, 0x54)),
];

/// The background of charts on dark pages.
pub(crate) const DARK_PAGE: Color = Color(0x16, 0x18, 0x1a);

/// Scale with hues between those of protocols, for the values of an axis in their order: from the
/// strongest contrast to the page to the weakest.
const SCALE: [Tint; 4] = [
    Tint::new((0x2d, 0x11, 0x60), (0xff, 0xe3, 0xd6)),
    Tint::new((0x9b, 0x1d, 0x87), (0xff, 0x9e, 0x7d)),
    Tint::new((0xe8, 0x3f, 0x6f), (0xe8, 0x4a, 0x78)),
    Tint::new((0xf2, 0x8e, 0x6c), (0xa6, 0x38, 0xa0)),
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
    pub(crate) color: Tint,
    pub(crate) marker: Marker,
    pub(crate) dash: &'static str,
    /// True for a thicker line than the others of a chart.
    pub(crate) bold: bool,
}

/// The protocol that charts emphasise: a thick solid line in a colour of its own.
const EMPHASISED: (&str, Style) = (
    "upwind",
    Style {
        color: Tint::new((0xc4, 0x00, 0x6a), (0xff, 0x6f, 0xb0)),
        marker: Marker::Circle,
        dash: "",
        bold: true,
    },
);

/// Rules of style for an SVG document: each colour of a presentation attribute, as it is written,
/// and what it becomes on a dark page.
pub(crate) fn dark_rules(pairs: impl IntoIterator<Item = (String, String)>) -> String {
    let mut rules: Vec<String> = Vec::new();
    for (light, dark) in pairs {
        let rule = ["fill", "stroke"].map(|name| format!("[{name}=\"{light}\"]{{{name}:{dark}}}"));
        let rule = rule.concat();
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    format!("<style>@media screen and (prefers-color-scheme: dark){{{}}}</style>\n", rules.concat())
}

impl Style {
    /// The look of variant `n` of the same protocol: its marker and its hue.
    pub(crate) fn variant(self, n: usize) -> Style {
        const SHADES: [f64; 7] = [0.0, -0.7, 0.5, -0.3, 0.7, -0.85, 0.25];
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
            for Color(red, green, blue) in [a.color.light, a.color.dark] {
                assert!(blue > green && green > red, "{}", a.color);
            }
            assert!(looks[..i].iter().all(|b| a.color != b.color), "{i}");
        }
        // 0.3 of #0072b2: 114 and 178 give 34.2 and 53.4. 0.7 of the way from #56b4e9 to white: 86,
        // 180 and 233 give 204.3, 232.5 and 248.4.
        assert_eq!(looks[1].color.to_string(), "#002235");
        assert_eq!(looks[1].color.dark.to_string(), "#cce9f8");
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

    /// Linear red, green and blue.
    type Light = [f64; 3];

    fn light(Color(red, green, blue): Color) -> Light {
        [red, green, blue].map(|byte| {
            let c = f64::from(byte) / 255.0;
            if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        })
    }

    fn times(matrix: [[f64; 3]; 3], light: Light) -> Light {
        matrix.map(|row| row.iter().zip(light).map(|(a, b)| a * b).sum::<f64>().clamp(0.0, 1.0))
    }

    /// sRGB to XYZ, each divided by that of white.
    const XYZ: [[f64; 3]; 3] = [
        [0.433_953, 0.376_220, 0.189_828],
        [0.212_673, 0.715_152, 0.072_175],
        [0.017_757, 0.109_476, 0.872_767],
    ];

    /// CIE L*a*b* under D65.
    fn lab(light: Light) -> [f64; 3] {
        let [x, y, z] = times(XYZ, light).map(|t| {
            if t > 216.0 / 24389.0 { t.cbrt() } else { (24389.0 / 27.0 * t + 16.0) / 116.0 }
        });
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    /// Usual vision, then protanopia, deuteranopia and tritanopia as in Machado, Oliveira and
    /// Fernandes (2009), severity 1.
    const VISIONS: [[[f64; 3]; 3]; 4] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [
            [0.152_286, 1.052_583, -0.204_868],
            [0.114_503, 0.786_281, 0.099_216],
            [-0.003_882, -0.048_116, 1.051_998],
        ],
        [
            [0.367_322, 0.860_646, -0.227_968],
            [0.280_085, 0.672_501, 0.047_413],
            [-0.011_820, 0.042_940, 0.968_881],
        ],
        [
            [1.255_528, -0.076_749, -0.178_779],
            [-0.078_411, 0.930_809, 0.147_602],
            [0.004_733, 0.691_367, 0.303_900],
        ],
    ];

    /// The least distance of two colours (CIE 1976, `ΔE*ab`) for any vision.
    fn distance(a: Color, b: Color) -> f64 {
        let apart = VISIONS.map(|vision| {
            let [a, b] = [a, b].map(|color| lab(times(vision, light(color))));
            a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
        });
        apart.into_iter().fold(f64::INFINITY, f64::min)
    }

    /// The contrast ratio of WCAG 2.
    fn contrast(a: Color, b: Color) -> f64 {
        let [a, b] = [a, b].map(|color| {
            XYZ[1].iter().zip(light(color)).map(|(share, part)| share * part).sum::<f64>() + 0.05
        });
        (a / b).max(b / a)
    }

    /// The least distance between any two of these, on light and on dark pages.
    fn least(tints: &[Tint]) -> f64 {
        let mut least = f64::INFINITY;
        for (n, a) in tints.iter().enumerate() {
            for b in &tints[..n] {
                least = least.min(distance(a.light, b.light)).min(distance(a.dark, b.dark));
            }
        }
        least
    }

    #[test]
    fn colours_are_told_apart_with_any_vision_and_stand_out() {
        // Black and white are 100 apart in L*, and 21 in contrast.
        assert!((distance(Color(0, 0, 0), Color(255, 255, 255)) - 100.0).abs() < 0.01);
        assert!((contrast(Color(0, 0, 0), Color(255, 255, 255)) - 21.0).abs() < 0.01);
        let all: Vec<Tint> = COLORS.into_iter().chain([EMPHASISED.1.color]).collect();
        assert!(least(&all) >= 12.0, "{}", least(&all));
        for tint in &all {
            let [light, dark] =
                [contrast(tint.light, Color(255, 255, 255)), contrast(tint.dark, DARK_PAGE)];
            assert!(light >= 3.0 && dark >= 3.0, "{tint}: {light} {dark}");
        }
        // As far as a chart has so many: beyond, dashes and markers alone differ.
        for all in 2..=5 {
            let series: Vec<Tint> = (0..all).map(|n| style(n, all).color).collect();
            assert!(least(&series) >= 12.0, "{all} series: {}", least(&series));
        }
        for own in all {
            let shades: Vec<Tint> =
                (0..3).map(|n| Style { color: own, ..given(1) }.variant(n).color).collect();
            assert!(least(&shades) >= 12.0, "{own}: {}", least(&shades));
        }
    }

    #[test]
    fn the_page_has_these_looks() {
        let colors: Vec<[String; 2]> = COLORS
            .iter()
            .chain([&EMPHASISED.1.color])
            .map(|tint| [tint.light.to_string(), tint.dark.to_string()])
            .collect();
        let protocols = PROTOCOLS.iter().map(|protocol| {
            let Style { color, marker, .. } = protocol_style(protocol.name).unwrap();
            let color = COLORS.iter().position(|own| *own == color).unwrap_or(COLORS.len());
            let marker = MARKERS.iter().position(|own| *own == marker);
            (protocol.name.to_owned(), serde_json::json!([color, marker]))
        });
        let protocols: serde_json::Map<String, serde_json::Value> = protocols.collect();
        let palette = serde_json::json!({
            "colors": colors,
            "markers": MARKERS.map(Marker::name),
            "protocols": protocols,
        });
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../web/page/palette.json");
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(path, format!("{palette}\n")).unwrap();
        }
        // The order of keys depends on the features of serde_json.
        let known: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(path).unwrap_or_default())
                .unwrap_or_default();
        assert_eq!(known, palette, "run BLESS=1 cargo test -p windward-report palette");
    }
}
