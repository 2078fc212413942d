use super::{Collection, file};

pub(super) static COLLECTION: Collection = Collection {
    key: "matrix",
    title: "Every protocol on one link",
    authors: "",
    published: "",
    files: &[
        file!("matrix/goodput"),
        file!("matrix/beside-newreno"),
        file!("matrix/beside-itself"),
    ],
};
