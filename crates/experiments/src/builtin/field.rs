//! Links that users complain about; they run only on request.

use super::{Collection, file};

pub(super) static COLLECTION: Collection = Collection {
    key: "field",
    title: "Links that users complain about",
    authors: "",
    published: "",
    files: &[
        file!("field/matrix"),
        file!("field/long-path"),
        file!("field/satellite"),
        file!("field/geo"),
        file!("field/cellular"),
        file!("field/ack-loss"),
        file!("field/many-connections"),
        file!("field/today"),
    ],
    proposes: "",
    beside: &[],
    worlds: None,
    terms: &[],
};
