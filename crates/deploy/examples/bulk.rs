//! Bytes from memory to memory over loopback, both ends on one thread:
//! `cargo run --release -p windward-deploy --example bulk [PROTOCOL [MIB]]`.
//!
//! Prints the rate of the contents, so that files, hashes and disks can be told from QUIC:
//! encryption, sockets and the congestion controller.

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let protocol = words.next().unwrap_or_else(|| "upwind".to_owned());
    let mebibytes = words.next().map_or(Ok(1024), |word| word.parse())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(linux::transfer(&protocol, mebibytes))
}

#[cfg(target_os = "linux")]
mod linux {
    use std::error::Error;
    use std::net::{Ipv4Addr, SocketAddr};
    use std::sync::Arc;

    use bytes::Bytes;
    use tokio::task::JoinSet;
    use windward_deploy::{Connection, Endpoint, Identity, Options, Service, Trust, clock};

    /// As many as in a transfer.
    const STREAMS: usize = 16;
    const PIECE: usize = 256 << 10;

    pub(super) async fn transfer(protocol: &str, mebibytes: usize) -> Result<(), Box<dyn Error>> {
        let home = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
        let options = Options { protocol: protocol.to_owned(), ..Options::default() };
        let far = Arc::new(Identity::generate()?);
        let (server, mut listener) =
            Endpoint::server(home, Arc::clone(&far), &[Service::Transfer], options.clone())?;
        let client = Endpoint::client(home, Arc::new(Identity::generate()?), options)?;
        let to = server.local_address()?;

        let receiver = tokio::spawn(async move {
            let connection = listener.accept().await.expect("a connection");
            read(&connection).await
        });
        let trust = Trust::Pinned(far.fingerprint());
        let connection = client.connect(to, Service::Transfer, trust).await?;
        let pieces = (mebibytes << 20) / PIECE / STREAMS;
        let start = clock::now();
        let mut streams = JoinSet::new();
        for _ in 0..STREAMS {
            let quic = connection.quic.clone();
            streams.spawn(async move {
                let mut stream = quic.open_uni().await?;
                let piece = Bytes::from(vec![7; PIECE]);
                for _ in 0..pieces {
                    stream.write_chunk(piece.clone()).await?;
                }
                stream.finish()?;
                Ok::<_, Box<dyn Error + Send + Sync>>(())
            });
        }
        while let Some(stream) = streams.join_next().await {
            stream?.map_err(|error| error.to_string())?;
        }
        let read = receiver.await??;
        let seconds = start.elapsed().as_secs_f64();
        assert_eq!(read, pieces * PIECE * STREAMS, "bytes that arrived");
        let path = connection.quic.stats().path;
        println!(
            "{protocol}: {:.2} Gbit/s, datagrams of {} bytes, {} of {} lost",
            read as f64 * 8e-9 / seconds,
            path.current_mtu,
            path.lost_packets,
            path.sent_packets,
        );
        client.close("done").await;
        Ok(())
    }

    /// Reads every stream to its end, and returns the number of bytes.
    async fn read(connection: &Connection) -> Result<usize, quinn::ConnectionError> {
        let mut streams = JoinSet::new();
        for _ in 0..STREAMS {
            let mut stream = connection.quic.accept_uni().await?;
            streams.spawn(async move {
                let mut chunks = vec![Bytes::new(); 32];
                let mut read = 0;
                while let Ok(Some(count)) = stream.read_chunks(&mut chunks).await {
                    read += chunks[..count].iter().map(Bytes::len).sum::<usize>();
                }
                read
            });
        }
        Ok(streams.join_all().await.into_iter().sum())
    }
}
