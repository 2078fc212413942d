//! Charts and pages of experiments, logs and protocols. Nothing here measures.
//!
//! The modules, in the order of reading; each uses those before it:
//!
//! - [`plot`]: charts as SVG, with one look for each protocol (`palette`).
//! - [`explain`], [`catalogue`] and [`protocol_pages`]: protocols in words, as rows, and their
//!   pages.
//! - [`page`]: parts that all pages share. [`page_of_comparison`]: the page of a comparison of
//!   programs.
//! - [`playground`]: links that open a scenario in the playground.
//! - `section`: the stored contents of the pages for one experiment; `matrix`: its properties of
//!   protocols. `group`: the sections on one page.
//! - [`words`]: the answer of a claim, and counts of answers, in words for pages and terminals.
//!   `square`: the answer as a square. `charts`: charts on a page, plainly and in nearest worlds.
//!   `claim`: the row and the page of a claim. `worlds`: the claims that hold together, the matrix
//!   of claims and worlds, the paper's numbers. `figure`: the page of a group.
//! - [`lead`]: the first page of a report; `front`: that of a reproduction.
//! - [`reproduce()`]: runs experiments and writes their report, which grows while they run.

pub mod catalogue;
mod charts;
mod claim;
mod comparison;
pub mod explain;
mod figure;
mod front;
mod group;
pub mod lead;
mod matrix;
pub mod page;
mod palette;
pub mod playground;
pub mod plot;
pub mod protocol_pages;
mod reproduce;
mod section;
mod square;
pub mod words;
mod worlds;

pub use comparison::{page_of_comparison, write_comparison};
pub use group::Group;
pub use page::Provenance;
pub use reproduce::{
    Forecast, Means, ReportOptions, ReproductionSummary, forecast, reproduce, reproduce_with,
};
pub use words::Tally;
