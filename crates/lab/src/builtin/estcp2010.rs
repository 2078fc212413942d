//! The paper estcp2010 and its experiments.

use super::Collection;

pub(super) static COLLECTION: Collection = Collection {
    key: "estcp2010",
    title: "Wireless Loss-Tolerant Congestion Control Protocol Based on Dynamic AIMD Theory",
    authors: "H. Nishiyama, N. Ansari, N. Kato",
    published: "2010",
    files: &[],
};
