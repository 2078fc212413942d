//! The paper lr2008 and its experiments.

use super::{Collection, file};

pub(super) static COLLECTION: Collection = Collection {
    key: "lr2008",
    title: "Loss-resilient window-based congestion control",
    authors: "C. De Vleeschouwer, P. Frossard",
    published: "Computer Networks 52, 2008",
    files: &[
        file!("papers/lr2008/fig2"),
        file!("papers/lr2008/fig3"),
        file!("papers/lr2008/dupack-threshold"),
        file!("papers/lr2008/retransmission-timeout"),
        file!("papers/lr2008/fig4"),
        file!("papers/lr2008/fig5"),
        file!("papers/lr2008/fig6"),
        file!("papers/lr2008/fig7"),
        file!("papers/lr2008/fig8"),
        file!("papers/lr2008/partial-deflation"),
        file!("papers/lr2008/fig9"),
        file!("papers/lr2008/fig10"),
    ],
    proposes: "A window-based sender starves on a lossy link for two reasons: it takes losses for \
        congestion, and a lost packet blocks its window until it is repaired. The paper lets \
        routers signal congestion, by XCP or by one bit (XTCP), so that a loss does not change \
        the window. It repairs losses with a retransmission timer beside a recovery timer that \
        every ACK restarts (LR), and with a record of the packet that carried each segment \
        last (LM).",
    beside: &[file!("papers/lr2008/readings"), file!("papers/lr2008/ns2")],
    worlds: Some(file!("papers/lr2008/worlds")),
    terms: &[
        (
            "F",
            "fairness ratio: throughput of the five lossy flows over that of the five loss-free ones",
        ),
        ("D1, D3", "a dupackthreshold of 1 or 3: number of duplicate ACKs that indicate a loss"),
        ("B1, B4", "losses of single packets, or of four in a row"),
        ("cv", "coefficient of variation of the throughput in bins of a second"),
        ("LM", "loss monitoring: lr-lmxcp, lr-lmxtcp"),
    ],
};
