//! The paper eten2004 and its experiments.

use super::Collection;

pub(super) static COLLECTION: Collection = Collection {
    key: "eten2004",
    title: "Explicit Transport Error Notification (ETEN) for Error-Prone Wireless and Satellite Networks",
    authors: "R. Krishnan, J. P. G. Sterbenz, W. M. Eddy, C. Partridge, M. Allman",
    published: "2004",
    files: &[],
};
