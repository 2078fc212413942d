//! The paper eten2004 and its experiments.

use super::{Collection, file};

pub(super) static COLLECTION: Collection = Collection {
    key: "eten2004",
    title: "Explicit Transport Error Notification (ETEN) for Error-Prone Wireless and Satellite Networks",
    authors: "R. Krishnan, J. P. G. Sterbenz, W. M. Eddy, C. Partridge, M. Allman",
    published: "Computer Networks 46, 2004",
    files: &[
        file!("papers/eten2004/fig1"),
        file!("papers/eten2004/fig2"),
        file!("papers/eten2004/fig3"),
        file!("papers/eten2004/fig4"),
        file!("papers/eten2004/fig8"),
        file!("papers/eten2004/fig9"),
    ],
    proposes: "Explicit Transport Error Notification (ETEN) tells a TCP sender which losses were \
        corruption, so that it need not reduce its window for them. The paper bounds the \
        possible gain by an Oracle that reports each corrupted packet at once, and classifies \
        the mechanisms that could notify a sender. It then proposes cumulative ETEN (CETEN), \
        in which routers report corruption rates: the sender skips a share of its reductions \
        (CETEN_P), or makes each one smaller (CETEN_A).",
    beside: &[file!("papers/eten2004/readings"), file!("papers/eten2004/ns2")],
    worlds: Some(file!("papers/eten2004/worlds")),
    terms: &[
        (
            "LFN, SFN, LTN",
            "long fat, short fat and long thin network: 10 Mbit/s with 250 ms, 10 Mbit/s with 25 ms, 1.5 Mbit/s with 250 ms one way",
        ),
        ("BER", "bit error rate"),
        ("RTO", "expiry of the retransmission timer"),
        ("Oracle", "SACK with a notification of each corrupted packet"),
    ],
};
