//! The paper tcpwbr2003 and its experiments.

use super::Collection;

pub(super) static COLLECTION: Collection = Collection {
    key: "tcpwbr2003",
    title: "TCPW with Bulk Repeat in Next Generation Wireless Networks",
    authors: "G. Yang, R. Wang, M. Y. Sanadidi, M. Gerla",
    published: "2003",
    files: &[],
};
