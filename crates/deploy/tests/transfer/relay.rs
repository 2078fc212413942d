//! A path between two sockets that does to packets what real paths do.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::UdpSocket;
use windward_deploy::clock;

use crate::place::LOOPBACK;

/// Damage to packets, in both directions alike but for `lost`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trouble {
    /// Probability that a packet to the server is lost, and one from it.
    pub(crate) lost: [f64; 2],
    /// Probability that it arrives twice.
    pub(crate) twice: f64,
    /// Probability that it arrives behind the next three.
    pub(crate) late: f64,
    /// Probability that one of its bits is wrong.
    pub(crate) wrong: f64,
    /// Largest UDP payload that passes, bytes; none if zero.
    pub(crate) largest: usize,
    /// Time after the first packet in which nothing passes.
    pub(crate) dead: Option<Range<Duration>>,
    /// The client gets another address, as by a NAT, after so many of its packets.
    pub(crate) moves_after: Option<u64>,
}

/// A path to a server.
pub(crate) struct Relay {
    /// Where the client sends to.
    pub(crate) address: SocketAddr,
    /// Packets that came in.
    pub(crate) packets: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    pub(crate) fn to(server: SocketAddr, trouble: Trouble) -> Relay {
        let (stop, packets) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (told, heard) = std::sync::mpsc::channel();
        let path = Path {
            trouble,
            random: 0x9e37_79b9_7f4a_7c15,
            held: Vec::new(),
            begun: None,
            packets: Arc::clone(&packets),
        };
        let ends = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("made");
            runtime.block_on(async {
                let front = UdpSocket::bind(LOOPBACK).await.expect("bound");
                told.send(front.local_addr().expect("an address")).expect("heard");
                path.carry(front, server, &ends).await;
            });
        });
        let address = heard.recv().expect("an address");
        Relay { address, packets, stop, thread: Some(thread) }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(matches!(ended, Some(Ok(()))) || std::thread::panicking(), "the path failed");
    }
}

struct Path {
    trouble: Trouble,
    random: u64,
    /// Packets that wait for so many others, in the direction of the server if true.
    held: Vec<(u32, bool, Vec<u8>)>,
    begun: Option<std::time::Instant>,
    packets: Arc<AtomicU64>,
}

impl Path {
    async fn carry(mut self, front: UdpSocket, server: SocketAddr, stop: &AtomicBool) {
        let mut back = UdpSocket::bind(LOOPBACK).await.expect("bound");
        let mut client = None;
        let mut outgoing = 0;
        let (mut up, mut down) = (vec![0; 65_536], vec![0; 65_536]);
        while !stop.load(Ordering::Relaxed) {
            let (goes_up, bytes) = tokio::select! {
                Ok((length, from)) = front.recv_from(&mut up) => {
                    client = Some(from);
                    outgoing += 1;
                    if self.trouble.moves_after == Some(outgoing) {
                        back = UdpSocket::bind(LOOPBACK).await.expect("bound");
                    }
                    (true, &mut up[..length])
                }
                Ok((length, from)) = back.recv_from(&mut down) => {
                    if from != server {
                        continue;
                    }
                    (false, &mut down[..length])
                }
                () = tokio::time::sleep(Duration::from_millis(20)) => continue,
            };
            let Some(client) = client else { continue };
            for (goes_up, bytes) in self.pass(goes_up, bytes) {
                // A full buffer of the kernel loses packets, as any queue does.
                let _ = match goes_up {
                    true => back.send_to(&bytes, server).await,
                    false => front.send_to(&bytes, client).await,
                };
            }
        }
    }

    /// Passes a packet, and returns those that leave the path.
    fn pass(&mut self, goes_up: bool, bytes: &mut [u8]) -> Vec<(bool, Vec<u8>)> {
        self.packets.fetch_add(1, Ordering::Relaxed);
        let begun = *self.begun.get_or_insert_with(clock::now);
        let age = clock::now().duration_since(begun);
        let Trouble { lost, twice, late, wrong, largest, .. } = self.trouble;
        let mut out = Vec::new();
        self.held.retain_mut(|(left, goes_up, bytes)| {
            *left -= 1;
            if *left == 0 {
                out.push((*goes_up, std::mem::take(bytes)));
            }
            *left > 0
        });
        let is_dead = self.trouble.dead.as_ref().is_some_and(|dead| dead.contains(&age));
        if is_dead
            || (largest > 0 && bytes.len() > largest)
            || self.happens(lost[usize::from(!goes_up)])
        {
            return out;
        }
        if self.happens(wrong) {
            let bit = self.draw() as usize % (8 * bytes.len().max(1));
            if let Some(byte) = bytes.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
        }
        if self.happens(late) {
            self.held.push((3, goes_up, bytes.to_vec()));
            return out;
        }
        if self.happens(twice) {
            out.push((goes_up, bytes.to_vec()));
        }
        out.push((goes_up, bytes.to_vec()));
        out
    }

    fn happens(&mut self, probability: f64) -> bool {
        // 53 bits of a random number are a number from 0 to 1.
        (self.draw() >> 11) as f64 / (1u64 << 53) as f64 >= 1.0 - probability
    }

    /// xorshift64 (Marsaglia 2003).
    fn draw(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}
