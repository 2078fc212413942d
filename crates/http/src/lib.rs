//! The HTTP server (RFC 9112, by hyper) of everything here that a browser or a scraper reads:
//! pages, server-sent events and metrics.
//!
//! - `host`: names by which a client may address a server.
//! - `feed`: events for any number of clients, in bounded memory.
//! - `site`: the answer to a request.
//! - `server`: connections, their number and their time-outs.

mod feed;
mod host;
mod server;
mod site;

pub use feed::{Feed, Reader};
pub use server::{Listener, Server};
pub use site::{Content, Site};
