//! The paper xcpr2005 and its experiments.

use super::{Collection, file};

pub(super) static COLLECTION: Collection = Collection {
    key: "xcpr2005",
    title: "Robust Transport Protocol for Dynamic High-Speed Networks: enhancing the XCP approach",
    authors: "D. M. Lopez-Pacheco, C. Pham",
    published: "2005",
    files: &[
        file!("papers/xcpr2005/fig3"),
        file!("papers/xcpr2005/fig4"),
        file!("papers/xcpr2005/fig5"),
        file!("papers/xcpr2005/fig6"),
        file!("papers/xcpr2005/fig7"),
        file!("papers/xcpr2005/fig9"),
        file!("papers/xcpr2005/fig10"),
        file!("papers/xcpr2005/fig11"),
        file!("papers/xcpr2005/phases"),
        file!("papers/xcpr2005/formula"),
        file!("papers/xcpr2005/formula-ramp"),
        file!("papers/xcpr2005/congestion-flag"),
        file!("papers/xcpr2005/red"),
        file!("papers/xcpr2005/start-up"),
    ],
    proposes: "An ACK of XCP carries an increment of the window, and a lost ACK loses the increment. \
        On links whose bandwidth changes, a sender therefore stays idle after a timeout when \
        ACKs are lost. The paper computes the window at the receiver, so that each ACK carries \
        the whole window (XCP-r); the routers stay as they are.",
    beside: &[file!("papers/xcpr2005/readings"), file!("papers/xcpr2005/readings-1gbit")],
    worlds: Some(file!("papers/xcpr2005/worlds")),
    terms: &[
        ("available", "the rate of the bottleneck minus the rate of the datagrams"),
        ("idle", "no packet on the bottleneck for longer than 200 ms"),
        ("cv", "coefficient of variation of the throughput in bins"),
    ],
};
