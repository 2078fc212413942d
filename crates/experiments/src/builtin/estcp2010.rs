//! The paper estcp2010 and its experiments.

use super::{Collection, file};

pub(super) static COLLECTION: Collection = Collection {
    key: "estcp2010",
    title: "Wireless Loss-Tolerant Congestion Control Protocol Based on Dynamic AIMD Theory",
    authors: "H. Nishiyama, N. Ansari, N. Kato",
    published: "IEEE Wireless Communications 17(2), 2010",
    files: &[
        file!("papers/estcp2010/fig1"),
        file!("papers/estcp2010/fig2"),
        file!("papers/estcp2010/fig3a"),
        file!("papers/estcp2010/fig3b"),
        file!("papers/estcp2010/fig4"),
        file!("papers/estcp2010/gamma"),
        file!("papers/estcp2010/classes"),
    ],
    proposes: "Explicitly Synchronized TCP (ESTCP) lets the bottleneck pace the additive increase and \
        time the multiplicative decrease of all flows. The bottleneck sends g, the time in \
        which a window grows by a packet, which it adjusts until the time between two \
        overflows is D; at an overflow all windows are cut together, by the ratio of the least \
        to the current RTT. In the paper's ns-2 simulations only ESTCP is both efficient and \
        fair among different RTTs, and its throughput withstands random losses better than \
        TCP's and Westwood+'s.",
    beside: &[file!("papers/estcp2010/readings"), file!("papers/estcp2010/ns2")],
    worlds: Some(file!("papers/estcp2010/worlds")),
    terms: &[
        ("N", "number of flows"),
        ("PER", "packet error rate"),
        ("g", "the time in which a window grows by one packet, which the bottleneck announces"),
        ("D", "the target length of a phase at the bottleneck"),
        ("cut", "reduction of the windows at a phase shift"),
    ],
};
