//! The parts of a protocol in words, for `windward explain`, the pages of `docs/protocols` and the
//! tables of the documentation.
//!
//! The parts describe themselves; this module adds the full titles of the sources.

use windward_core::protocols::Protocol;
use windward_experiments::builtin::PAPERS;
pub use windward_sim::catalogue::axes as parts;

/// Short and full titles of sources, besides the papers that come with experiments.
const TITLES: &[(&str, &str)] = &[
    (
        "Katabi 2002",
        "D. Katabi, M. Handley, C. Rohrs, \"Congestion control for high bandwidth-delay \
         product networks\", SIGCOMM 2002",
    ),
    (
        "draft-falk-xcp-spec-03",
        "A. Falk et al., \"Specification for the Explicit Control Protocol (XCP)\", \
         Internet-Draft, 2007",
    ),
    (
        "draft-ietf-ccwg-bbr-06",
        "N. Cardwell, I. Swett, J. Beshay (eds.), \"BBR Congestion Control\", Internet-Draft, 2026",
    ),
    (
        "draft-kazuho-ccwg-cuback-00",
        "K. Oku, \"CUBACK: CUBIC Driven by the ACK Clock\", Internet-Draft, 2026",
    ),
    (
        "draft-kazuho-ccwg-abba",
        "K. Oku, \"Accelerated Bottleneck Bandwidth Adaptation (ABBA)\", Internet-Draft, editor's \
         copy, 2026",
    ),
    (
        "draft-kazuho-ccwg-rapid-start",
        "K. Oku, M. Welzl, \"Rapid Startup of Congestion Control\", Internet-Draft, editor's copy, \
         2026",
    ),
    (
        "h2o/quicly#687",
        "K. Oku, \"Adding random-loss resilience to loss-based congestion controllers\", GitHub, 2026",
    ),
    ("h2o/quicly#445", "J. Iyengar, \"Makes Reno CC slightly loss tolerant\", GitHub, 2021"),
    (
        "private-octopus/picoquic#1222",
        "C. Huitema, \"Let Cubic ignore isolated losses\", GitHub, 2021",
    ),
    (
        "Casetti 2001",
        "C. Casetti, M. Gerla, S. Mascolo, M. Y. Sanadidi, R. Wang, \"TCP Westwood: bandwidth \
         estimation for enhanced transport over wireless links\", MobiCom 2001",
    ),
    (
        "Grieco and Mascolo 2004",
        "L. A. Grieco, S. Mascolo, \"Performance evaluation and comparison of Westwood+, New Reno, \
         and Vegas TCP congestion control\", Computer Communication Review 34(2), 2004",
    ),
    (
        "Fu and Liew 2003",
        "C. P. Fu, S. C. Liew, \"TCP Veno: TCP enhancement for transmission over wireless access \
         networks\", IEEE JSAC 21(2), 2003",
    ),
    (
        "Wu and Chen 2004",
        "E. H.-K. Wu, M.-Z. Chen, \"JTCP: Jitter-based TCP for heterogeneous wireless \
         networks\", IEEE JSAC 22(4), 2004",
    ),
    (
        "Xu, Tian and Ansari 2005",
        "K. Xu, Y. Tian, N. Ansari, \"Improving TCP performance in integrated wireless \
         communications networks\", Computer Networks 47(2), 2005",
    ),
    (
        "Caini and Firrincieli 2004",
        "C. Caini, R. Firrincieli, \"TCP Hybla: a TCP enhancement for heterogeneous networks\", \
         International Journal of Satellite Communications and Networking 22(5), 2004",
    ),
    (
        "Brakmo and Peterson 1995",
        "L. S. Brakmo, L. L. Peterson, \"TCP Vegas: end to end congestion avoidance on a global \
         Internet\", IEEE JSAC 13(8), 1995",
    ),
    (
        "Arun and Balakrishnan 2018",
        "V. Arun, H. Balakrishnan, \"Copa: practical delay-based congestion control for the \
         Internet\", NSDI 2018",
    ),
    (
        "draft-briscoe-iccrg-prague-congestion-control-04",
        "K. De Schepper, O. Tilmans, B. Briscoe, V. Goel, \"Prague Congestion Control\", \
         Internet-Draft, 2024",
    ),
    (
        "draft-cardwell-iccrg-bbr-congestion-control-00",
        "N. Cardwell, Y. Cheng, S. Hassas Yeganeh, V. Jacobson, \"BBR Congestion Control\", \
         Internet-Draft, 2017",
    ),
];

/// The short keys in the explanation of `protocol`, with their full titles.
pub fn references(protocol: &Protocol) -> Vec<(&'static str, String)> {
    let parts = parts(protocol);
    let sources = || parts.iter().map(|(_, part)| part.source).chain([protocol.source]);
    all_references().filter(|(key, _)| sources().any(|source| source.contains(key))).collect()
}

/// The short keys of all sources, with their full titles.
pub fn all_references() -> impl Iterator<Item = (&'static str, String)> {
    let paper = |p: &&'static windward_experiments::builtin::Collection| {
        (p.key, format!("{}, \"{}\", {}", p.authors, p.title, p.published))
    };
    let others = TITLES.iter().map(|&(key, title)| (key, title.to_owned()));
    PAPERS.iter().map(paper).chain(others)
}

#[cfg(test)]
mod tests {
    use windward_core::protocols::{self, PROTOCOLS};

    use super::*;

    #[test]
    fn every_part_of_every_protocol_is_explained() {
        for protocol in PROTOCOLS {
            for (axis, part) in parts(protocol) {
                assert!(!part.name.is_empty(), "{} {axis}", protocol.name);
                assert!(part.what.len() > 10, "{} {axis}", protocol.name);
                assert!(!part.source.is_empty(), "{} {axis}", protocol.name);
            }
        }
    }

    /// Verifies that no two rows have the same parts in words.
    #[test]
    fn no_two_protocols_have_the_same_parts() {
        let names = |p| parts(p).map(|(_, part)| part.name);
        for (i, a) in PROTOCOLS.iter().enumerate() {
            for b in &PROTOCOLS[..i] {
                assert_ne!(names(a), names(b), "{} and {}", a.name, b.name);
            }
        }
    }
    #[test]
    fn short_keys_are_spelt_out() {
        let keys = |name| {
            let protocol = protocols::find(name).unwrap();
            references(protocol).into_iter().map(|(key, _)| key).collect::<Vec<_>>()
        };
        assert_eq!(keys("lr-lmxcp"), ["lr2008", "Katabi 2002", "draft-falk-xcp-spec-03"]);
        assert_eq!(keys("newreno"), Vec::<&str>::new());
    }
}
