//! Upwind alone, competing with others, and without each of its mechanisms; its goals, with bounds;
//! and the worst links that a search found. These run only on request.

use super::{Collection, file};

pub(super) static COLLECTION: Collection = Collection {
    key: "upwind",
    title: "Upwind: results, goals, and the ablation of its mechanisms",
    authors: "",
    published: "",
    files: &[
        file!("upwind/alone"),
        file!("upwind/beside"),
        file!("upwind/ablation"),
        file!("upwind/ablation-beside"),
        file!("upwind/growth"),
        file!("upwind/help"),
        file!("upwind/help-beside"),
        file!("upwind/marks"),
        file!("upwind/goals-alone"),
        file!("upwind/goals-jitter"),
        file!("upwind/goals-beside"),
        file!("upwind/goals-itself"),
        file!("upwind/goals-small"),
        file!("upwind/goals-opening"),
        file!("upwind/goals-aqm"),
        file!("upwind/worst-alone"),
        file!("upwind/worst-beside"),
    ],
    proposes: "",
    beside: &[],
    worlds: None,
    terms: &[],
};
