//! Every protocol of the table on one link, with its properties in one table of the report, and
//! every AQM under one load.

use super::{Collection, file};

pub(super) static COLLECTION: Collection = Collection {
    key: "matrix",
    title: "Every protocol and every AQM on one link: the experiments",
    authors: "",
    published: "",
    files: &[
        file!("matrix/goodput"),
        file!("matrix/beside-newreno"),
        file!("matrix/beside-itself"),
        file!("matrix/queues"),
    ],
    proposes: "",
    beside: &[],
    worlds: None,
    terms: &[],
};
