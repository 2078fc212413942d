//! Upwind alone, competing with others, and without each of its mechanisms; these run only on
//! request.

use super::{Collection, file};

pub(super) static COLLECTION: Collection = Collection {
    key: "upwind",
    title: "Upwind and the ablation of its mechanisms",
    authors: "",
    published: "",
    files: &[
        file!("upwind/alone"),
        file!("upwind/beside"),
        file!("upwind/ablation"),
        file!("upwind/ablation-beside"),
        file!("upwind/doubt"),
        file!("upwind/growth"),
        file!("upwind/help"),
        file!("upwind/help-beside"),
    ],
    beside: &[],
    worlds: None,
    terms: &[],
};
