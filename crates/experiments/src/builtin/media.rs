//! The test cases of RFC 8867 and RFC 8869 for controllers of live media; they run only on request.

use super::{Collection, file};

pub(super) static COLLECTION: Collection = Collection {
    key: "media",
    title: "Test cases for live media (RFC 8867, RFC 8869)",
    authors: "",
    published: "",
    files: &[
        file!("media/variable-single"),
        file!("media/variable-multiple"),
        file!("media/feedback"),
        file!("media/same"),
        file!("media/rtts"),
        file!("media/long-tcp"),
        file!("media/short-tcp"),
        file!("media/pause"),
        file!("media/two-bottlenecks"),
        file!("media/wifi-wired"),
        file!("media/wifi-shared"),
        file!("media/wifi-tcp"),
        file!("media/wifi-rates"),
        file!("media/cellular-load"),
        file!("media/cellular-coverage"),
    ],
    proposes: "",
    beside: &[],
    worlds: None,
    terms: &[],
};
