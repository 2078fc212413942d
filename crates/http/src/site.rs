//! The answer to a request.

use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use tokio::sync::mpsc;

use crate::feed::Reader;
use crate::host;

/// Maximum number of bytes that are handed over for a client at a time.
const PIECE: usize = 16 << 10;

/// Content at a path.
pub enum Content {
    /// An HTML page: as gzip, and as a function that gives the same page unpacked.
    Page(&'static [u8], fn() -> Vec<u8>),
    /// Metrics in the text format of OpenMetrics, made for each request.
    Metrics(Box<dyn Fn() -> String + Send + Sync>),
    /// Server-sent events.
    Events(Reader),
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Content::Page(..) => "Page",
            Content::Metrics(_) => "Metrics",
            Content::Events(_) => "Events",
        })
    }
}

/// Contents of a server by path, such as `/metrics`.
#[derive(Debug)]
pub struct Site(Vec<(&'static str, Content)>);

impl Site {
    /// A site with these contents, of which the first is named to clients that ask for another.
    pub fn new(contents: impl IntoIterator<Item = (&'static str, Content)>) -> Self {
        Site(contents.into_iter().collect())
    }

    /// The answer of a server at `ours`.
    pub(crate) fn answer<T>(&self, request: &Request<T>, ours: SocketAddr) -> Response<Answer> {
        let path = request.uri().path();
        let content = self.0.iter().find(|(of, _)| *of == path).map(|(_, content)| content);
        match (addressed(request, ours), request.method(), content) {
            (Err(status), ..) => plain(
                status,
                "write the IP address of this server in place of a name, and its own port\n",
            ),
            (_, &Method::GET | &Method::HEAD, Some(content)) => content.answer(request.headers()),
            (_, &Method::GET | &Method::HEAD, None) => {
                let path = self.0.first().map_or("/", |(path, _)| path);
                plain(StatusCode::NOT_FOUND, &format!("see {path}\n"))
            }
            _ => {
                let mut answer =
                    plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered\n");
                answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
                answer
            }
        }
    }
}

/// Fails unless a request names the server at `ours`: in one field `Host`, and in its target if
/// that names a host (RFC 9112 section 3.2).
fn addressed<T>(request: &Request<T>, ours: SocketAddr) -> Result<(), StatusCode> {
    let mut fields = request.headers().get_all(header::HOST).iter();
    let (Some(field), None) = (fields.next(), fields.next()) else {
        return Err(StatusCode::BAD_REQUEST);
    };
    let target = request.uri().authority();
    let is_ours = field.to_str().is_ok_and(|field| host::is_of(field, ours))
        && target.is_none_or(|target| host::is_of(target.as_str(), ours));
    if is_ours { Ok(()) } else { Err(StatusCode::FORBIDDEN) }
}

impl Content {
    fn answer(&self, asked: &HeaderMap) -> Response<Answer> {
        let field = |name| asked.get(name).and_then(|value| value.to_str().ok());
        let text = |kind, bytes| answer(StatusCode::OK, kind, Answer::Bytes(bytes));
        match self {
            Content::Page(packed, unpack) => {
                let is_packed = field(header::ACCEPT_ENCODING).is_some_and(takes_gzip);
                let bytes =
                    if is_packed { Bytes::from_static(packed) } else { Bytes::from(unpack()) };
                let mut answer = text("text/html; charset=utf-8", bytes);
                if is_packed {
                    let gzip = HeaderValue::from_static("gzip");
                    answer.headers_mut().insert(header::CONTENT_ENCODING, gzip);
                }
                answer
            }
            Content::Metrics(make) => text(
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
                Bytes::from(make()),
            ),
            Content::Events(reader) => {
                let name = HeaderName::from_static("last-event-id");
                let last = field(name).and_then(|number| number.parse().ok());
                let (sender, pieces) = mpsc::channel(1);
                // Ends when the client does, since the receiver is dropped with the answer.
                tokio::spawn(reader.clone().stream(last, sender));
                let kind = "text/event-stream; charset=utf-8";
                answer(StatusCode::OK, kind, Answer::Events(pieces))
            }
        }
    }
}

/// True if a field `Accept-Encoding` names gzip and does not refuse it (`gzip;q=0`).
fn takes_gzip(field: &str) -> bool {
    field.split(',').any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, "q=1"));
        let weight = weight.trim().strip_prefix("q=").and_then(|q| q.parse::<f64>().ok());
        name.trim().eq_ignore_ascii_case("gzip") && weight > Some(0.0)
    })
}

fn plain(status: StatusCode, text: &str) -> Response<Answer> {
    let bytes = Bytes::copy_from_slice(text.as_bytes());
    answer(status, "text/plain; charset=utf-8", Answer::Bytes(bytes))
}

/// The fields that every answer has. A page has its own policy; these add what it cannot say of
/// itself.
fn answer(status: StatusCode, kind: &'static str, body: Answer) -> Response<Answer> {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer.headers_mut().extend(
        [
            (header::CONTENT_TYPE, kind),
            (header::CONTENT_SECURITY_POLICY, "frame-ancestors 'none'"),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "no-referrer"),
            (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
            (header::CACHE_CONTROL, "no-store"),
        ]
        .map(|(name, value)| (name, HeaderValue::from_static(value))),
    );
    answer
}

/// Content of an answer.
#[derive(Debug)]
pub(crate) enum Answer {
    Bytes(Bytes),
    Events(mpsc::Receiver<Bytes>),
}

/// Content of an answer that says when a client takes a part of it.
pub(crate) struct Taken<F> {
    pub(crate) answer: Answer,
    pub(crate) on_taken: Arc<F>,
}

impl<F: Fn() + Send + Sync> Body for Taken<F> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let taken = self.get_mut();
        (taken.on_taken)();
        let piece = match &mut taken.answer {
            Answer::Bytes(rest) if rest.is_empty() => return Poll::Ready(None),
            Answer::Bytes(rest) => Poll::Ready(Some(rest.split_to(rest.len().min(PIECE)))),
            Answer::Events(pieces) => pieces.poll_recv(context),
        };
        piece.map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.answer, Answer::Bytes(rest) if rest.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.answer {
            Answer::Bytes(rest) => SizeHint::with_exact(rest.len() as u64),
            Answer::Events(_) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_sent_to_those_that_take_it() {
        for (field, takes) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("deflate, gzip;q=1.0, *;q=0.5", true),
            ("gzip;q=0", false),
            ("identity", false),
            ("gzipped", false),
            ("", false),
        ] {
            assert_eq!(takes_gzip(field), takes, "{field}");
        }
    }
}
