//! The paper xcpr2005 and its experiments.

use super::Collection;

pub(super) static COLLECTION: Collection = Collection {
    key: "xcpr2005",
    title: "Robust Transport Protocol for Dynamic High-Speed Networks: enhancing the XCP approach",
    authors: "D. M. Lopez-Pacheco, C. Pham",
    published: "2005",
    files: &[],
};
