//! Connections: their number and their time-outs.
//!
//! One thread serves all clients. A connection carries one request. If there are too many
//! connections, the oldest without a request makes place for the next, so that nobody keeps others
//! out by connections on which nothing is sent.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{Future, ready};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime;
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::site::{Site, Taken};

/// Maximum size of the head of a request, bytes, and its maximum number of fields.
const MAX_REQUEST: usize = 8 << 10;
const MAX_FIELDS: usize = 64;
/// Maximum time in which a request arrives.
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum time in which a client takes any of its answer.
const STALL: Duration = Duration::from_secs(10);
/// Time in which clients may read the rest of their answers after the end.
const FAREWELL: Duration = Duration::from_millis(500);
/// Maximum number of clients at a time.
const MAX_CLIENTS: usize = 32;

/// A socket that waits for clients.
#[derive(Debug)]
pub struct Listener {
    socket: std::net::TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Listens at an address, in the network namespace of the calling thread. Port 0 takes a free
    /// one.
    ///
    /// # Errors
    /// If the address is not of this machine, or its port is taken or reserved.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = std::net::TcpListener::bind(address)?;
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        Ok(Listener { socket, address })
    }

    /// The address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// True if only this machine reaches it.
    pub fn is_loopback(&self) -> bool {
        self.address.ip().is_loopback()
    }

    /// The address of the page at `/`. An unspecified address is replaced by loopback.
    pub fn url(&self) -> String {
        let mut address = self.address;
        match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        format!("http://{address}/")
    }

    /// Answers clients on a thread of the current priority.
    ///
    /// # Errors
    /// If no thread can be made, or the system has no descriptors left.
    pub fn serve(self, site: Site) -> io::Result<Server> {
        let address = self.address;
        let (stop, stopped) = oneshot::channel();
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _context = runtime.enter();
            tokio::net::TcpListener::from_std(self.socket)?
        };
        let serve = move || runtime.block_on(accept(&listener, address, site, stopped));
        let thread = std::thread::Builder::new().name("http".into()).spawn(serve)?;
        Ok(Server { address, stop: Some(stop), thread: Some(thread) })
    }
}

/// A running server. When it is dropped, clients have half a second for the rest of their answers.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// The address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A connection that may have to make place.
struct Client {
    task: AbortHandle,
    pace: Arc<Pace>,
}

/// Serves clients until the other end of `stopped` is dropped.
async fn accept(
    listener: &tokio::net::TcpListener,
    ours: SocketAddr,
    site: Site,
    stopped: oneshot::Receiver<()>,
) {
    let site = Arc::new(site);
    let mut stopped = pin!(stopped);
    let mut tasks = JoinSet::new();
    let mut clients: VecDeque<Client> = VecDeque::new();
    loop {
        let accepted = tokio::select! {
            _ = &mut stopped => break,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            // A client that has left again, or too many open files for a moment.
            sleep(Duration::from_millis(50)).await;
            continue;
        };
        while tasks.try_join_next().is_some() {}
        clients.retain(|client| !client.task.is_finished());
        if clients.len() >= MAX_CLIENTS {
            let silent = clients.iter().position(|client| !client.pace.has_asked());
            let Some(silent) = silent.and_then(|oldest| clients.remove(oldest)) else { continue };
            silent.task.abort();
        }
        let pace = Arc::new(Pace::new());
        let task = tasks.spawn(attend(stream, Arc::clone(&site), ours, Arc::clone(&pace)));
        clients.push_back(Client { task, pace });
    }
    clients.iter().filter(|client| !client.pace.has_asked()).for_each(|client| client.task.abort());
    let _ = timeout(FAREWELL, async { while tasks.join_next().await.is_some() {} }).await;
}

/// Answers the request of a client, unless it is too slow.
async fn attend(stream: TcpStream, site: Arc<Site>, ours: SocketAddr, pace: Arc<Pace>) {
    let of_service = Arc::clone(&pace);
    let service = service_fn(move |request| {
        of_service.on_progress();
        let of_answer = Arc::clone(&of_service);
        let on_taken = Arc::new(move || of_answer.on_progress());
        let answer = site.answer(&request, ours);
        ready(Ok::<_, Infallible>(answer.map(|answer| Taken { answer, on_taken })))
    });
    let connection = http1::Builder::new()
        .keep_alive(false)
        .title_case_headers(true)
        .max_headers(MAX_FIELDS)
        .max_buf_size(MAX_REQUEST)
        // The time-outs are those of `Pace`.
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        // A client that leaves or sends nonsense concerns nobody else.
        _ = connection => {}
        () = pace.end() => {}
    }
}

/// When a client is too slow.
struct Pace(Mutex<(Instant, bool)>);

impl Pace {
    fn new() -> Self {
        Pace(Mutex::new((Instant::now() + PATIENCE, false)))
    }

    /// The client has sent its request, or has taken a part of its answer.
    fn on_progress(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (Instant::now() + STALL, true);
    }

    fn has_asked(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1
    }

    /// Returns when the client is too slow.
    fn end(&self) -> impl Future<Output = ()> {
        let deadline = || self.0.lock().unwrap_or_else(PoisonError::into_inner).0;
        async move {
            while deadline() > Instant::now() {
                sleep_until(deadline()).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::sync::mpsc::channel;

    use super::*;
    use crate::site::Content;

    /// Longest time of a test.
    const LIMIT: Duration = Duration::from_secs(60);

    fn serve() -> Server {
        let metrics = Content::Metrics(Box::new(|| "# EOF\n".to_owned()));
        let page = Content::Page(b"packed", || vec![0; 16 << 20]);
        let site = Site::new([("/metrics", metrics), ("/large", page)]);
        Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap().serve(site).unwrap()
    }

    fn connect(server: &Server) -> TcpStream {
        let stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream
    }

    fn ask(server: &Server, path: &str) -> TcpStream {
        let mut stream = connect(server);
        let host = server.address();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
        stream
    }

    fn read(mut stream: TcpStream) -> String {
        let mut text = Vec::new();
        // A connection that is closed early may be reset.
        let _ = stream.read_to_end(&mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn connections_without_a_request_make_place_for_a_client() {
        let server = serve();
        let silent: Vec<TcpStream> = (0..3 * MAX_CLIENTS)
            .map(|number| {
                let mut stream = connect(&server);
                if number % 2 == 0 {
                    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: ").unwrap();
                }
                stream
            })
            .collect();
        assert!(read(ask(&server, "/metrics")).ends_with("# EOF\n"));
        // All are closed in the end, without an answer.
        assert!(silent.into_iter().all(|stream| read(stream).is_empty()));
    }

    #[test]
    fn clients_that_wait_for_their_answers_are_bounded() {
        let server = serve();
        // They do not read what they have asked for.
        let _slow: Vec<TcpStream> = (0..MAX_CLIENTS).map(|_| ask(&server, "/large")).collect();
        std::thread::sleep(Duration::from_millis(500));
        let mut one_more = connect(&server);
        assert!(!matches!(one_more.read(&mut [0]), Ok(1..)));
    }

    #[test]
    fn a_request_that_is_too_large_is_refused() {
        let server = serve();
        let mut stream = connect(&server);
        let large =
            format!("GET / HTTP/1.1\r\nHost: a\r\na: {}\r\n\r\n", "a".repeat(3 * MAX_REQUEST));
        // It may be refused before all is written.
        let _ = stream.write_all(large.as_bytes());
        let answer = read(stream);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }

    #[test]
    fn clients_that_do_not_write_or_read_do_not_hold_up_the_end() {
        let server = serve();
        let _silent: Vec<TcpStream> = (0..MAX_CLIENTS / 2).map(|_| connect(&server)).collect();
        let _slow: Vec<TcpStream> = (0..MAX_CLIENTS / 2).map(|_| ask(&server, "/large")).collect();
        let (ended, end) = channel();
        std::thread::spawn(move || {
            drop(server);
            ended.send(()).unwrap();
        });
        end.recv_timeout(LIMIT).expect("it ends with clients there");
    }
}
