//! Links of today; run only when asked for.

use super::Collection;

pub(super) static COLLECTION: Collection =
    Collection { key: "field", title: "Links of today", authors: "", published: "", files: &[] };
