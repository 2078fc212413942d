//! The paper tcpwbr2003 and its experiments.

use super::{Collection, file};

pub(super) static COLLECTION: Collection = Collection {
    key: "tcpwbr2003",
    title: "TCPW with Bulk Repeat in Next Generation Wireless Networks",
    authors: "G. Yang, R. Wang, M. Y. Sanadidi, M. Gerla",
    published: "2003",
    files: &[
        file!("papers/tcpwbr2003/fig2"),
        file!("papers/tcpwbr2003/fig3"),
        file!("papers/tcpwbr2003/fig4"),
        file!("papers/tcpwbr2003/fig5"),
        file!("papers/tcpwbr2003/fig6"),
        file!("papers/tcpwbr2003/fig7"),
        file!("papers/tcpwbr2003/fig8"),
        file!("papers/tcpwbr2003/fig9"),
        file!("papers/tcpwbr2003/fig10"),
        file!("papers/tcpwbr2003/bulk-repeat-readings"),
        file!("papers/tcpwbr2003/timers"),
        file!("papers/tcpwbr2003/rate-gap"),
        file!("papers/tcpwbr2003/friendliness"),
        file!("papers/tcpwbr2003/sojourns"),
    ],
    proposes: "Bulk Repeat (BR) extends TCP Westwood for wireless links that lose many packets by \
        errors: while losses look like errors, the sender retransmits its whole window on a \
        partial acknowledgment, keeps its timeout fixed and does not reduce cwnd. Whether a \
        loss was an error is decided from the RTT (Spike) and from the gap between the \
        expected and the achieved rate (RGT). In the paper's ns-2 simulations BR carries ten \
        times as much as Westwood and a hundred times as much as NewReno at 30 % errors, and \
        is fair to itself and to NewReno.",
    beside: &[file!("papers/tcpwbr2003/readings"), file!("papers/tcpwbr2003/ns2")],
    worlds: Some(file!("papers/tcpwbr2003/worlds")),
    terms: &[
        ("BE, ERE", "the older and the adaptive bandwidth estimate of TCP Westwood"),
        ("newreno alone", "the same flow without competing flows"),
    ],
};
