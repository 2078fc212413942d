//! The part of a SOCKS5 server that talks to the program (RFC 1928), without authentication: a
//! listener on a loopback address is open to this machine, as a port of `-L` is.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::reply::Reply;
use super::target::Target;
use super::wire::{address_rest, decode_address, encode_address};

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const NO_ACCEPTABLE_METHOD: u8 = 0xff;
const ADDRESS_TYPE_NOT_SUPPORTED: u8 = 8;
const COMMAND_NOT_SUPPORTED: u8 = 7;

/// Request of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    /// A TCP connection to a target.
    Connect(Target),
    /// Datagrams to targets that each names.
    Associate,
}

/// Reads greeting and request of a program, and answers the greeting. A request that this server
/// does not know is answered.
///
/// # Errors
///
/// If the program does not speak SOCKS5, or asks for something unknown.
pub(super) async fn accept(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
) -> io::Result<Command> {
    let mut head = [0; 2];
    stream.read_exact(&mut head).await?;
    if head[0] != VERSION {
        return Err(io::Error::other(format!(
            "the program speaks version {} of SOCKS or another protocol; this is SOCKS5",
            head[0]
        )));
    }
    let mut methods = vec![0; usize::from(head[1])];
    stream.read_exact(&mut methods).await?;
    if !methods.contains(&NO_AUTHENTICATION) {
        stream.write_all(&[VERSION, NO_ACCEPTABLE_METHOD]).await?;
        return Err(io::Error::other("the program insists on authentication"));
    }
    stream.write_all(&[VERSION, NO_AUTHENTICATION]).await?;
    let mut request = [0; 5];
    stream.read_exact(&mut request).await?;
    let [version, command, _, form, first] = request;
    if version != VERSION {
        return Err(io::Error::other("the request is not of SOCKS5"));
    }
    let Some(length) = address_rest(form, first) else {
        refuse(stream, ADDRESS_TYPE_NOT_SUPPORTED).await?;
        return Err(io::Error::other("the address has an unknown form"));
    };
    let mut rest = vec![0; length];
    stream.read_exact(&mut rest).await?;
    match command {
        1 => match decode_address(form, first, &rest) {
            Some(target) => Ok(Command::Connect(target)),
            None => {
                refuse(stream, Reply::Failed.for_socks()).await?;
                Err(io::Error::other("the target is invalid"))
            }
        },
        3 => Ok(Command::Associate),
        other => {
            refuse(stream, COMMAND_NOT_SUPPORTED).await?;
            Err(io::Error::other(format!("the command {other} is not known")))
        }
    }
}

/// Answers a request with an error.
async fn refuse(stream: &mut (impl AsyncWrite + Unpin), code: u8) -> io::Result<()> {
    answer(stream, code, SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0)).await
}

/// Answers a request. `bound` is where the program sends its datagrams; for TCP, programs ignore
/// it.
pub(super) async fn answer(
    stream: &mut (impl AsyncWrite + Unpin),
    code: u8,
    bound: SocketAddr,
) -> io::Result<()> {
    let mut bytes = vec![VERSION, code, 0];
    encode_socket(bound, &mut bytes);
    stream.write_all(&bytes).await
}

fn encode_socket(address: SocketAddr, bytes: &mut Vec<u8>) {
    // Port zero is allowed here, so that it is not a target.
    encode_address(&Target { port: address.port(), ..Target::from(address) }, bytes);
}

/// Target and payload of a datagram of a program (RFC 1928 section 7); none for fragments, which
/// are optional there, and for what is invalid.
pub(super) fn unwrap(mut datagram: Bytes) -> Option<(Target, Bytes)> {
    let head: [u8; 5] = datagram.get(..5)?.try_into().ok()?;
    let [_, _, fragment, form, first] = head;
    let length = address_rest(form, first)?;
    let rest = datagram.get(5..5 + length)?;
    if fragment != 0 {
        return None;
    }
    let target = decode_address(form, first, rest)?;
    datagram.advance(5 + length);
    Some((target, datagram))
}

/// A datagram for a program, from a target.
pub(super) fn wrap(target: &Target, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 0];
    encode_address(target, &mut bytes);
    bytes.extend(payload);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Result of `accept` for a program that writes these bytes, and the answer to the program.
    async fn talk(bytes: &[u8]) -> (io::Result<Command>, Vec<u8>) {
        let (mut program, mut server) = tokio::io::duplex(1024);
        program.write_all(bytes).await.expect("written");
        program.shutdown().await.expect("ended");
        let result = accept(&mut server).await;
        drop(server);
        let mut answer = Vec::new();
        program.read_to_end(&mut answer).await.expect("read");
        (result, answer)
    }

    #[tokio::test]
    async fn requests_are_those_of_rfc_1928() {
        // Two methods, one of them `no authentication`; CONNECT to a name.
        let (command, answer) = talk(b"\x05\x02\x00\x02\x05\x01\x00\x03\x02ab\x00\x50").await;
        assert_eq!(command.expect("a command"), Command::Connect("ab:80".parse().expect("it")));
        assert_eq!(answer, [5, 0]);
        let (command, _) = talk(b"\x05\x01\x00\x05\x01\x00\x01\x7f\0\0\x01\x00\x16").await;
        let target = "127.0.0.1:22".parse().expect("a target");
        assert_eq!(command.expect("a command"), Command::Connect(target));
        let (command, _) = talk(b"\x05\x01\x00\x05\x03\x00\x01\0\0\0\0\0\0").await;
        assert_eq!(command.expect("a command"), Command::Associate);
    }

    #[tokio::test]
    async fn what_is_not_understood_is_refused() {
        let (command, answer) = talk(b"\x05\x01\x02").await;
        assert!(command.is_err());
        assert_eq!(answer, [5, 0xff]);
        // BIND.
        let (command, answer) = talk(b"\x05\x01\x00\x05\x02\x00\x01\0\0\0\0\0\0").await;
        assert!(command.is_err());
        assert_eq!(answer, [5, 0, 5, 7, 0, 1, 0, 0, 0, 0, 0, 0]);
        // An unknown form of address, then a target with port zero.
        let (command, answer) = talk(b"\x05\x01\x00\x05\x01\x00\x09\0\0\0\0\0\0").await;
        assert!(command.is_err() && answer[2..4] == [5, 8]);
        let (command, answer) = talk(b"\x05\x01\x00\x05\x01\x00\x01\x7f\0\0\x01\0\0").await;
        assert!(command.is_err() && answer[2..4] == [5, 1]);
        for text in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\x04\x01\0\x16\x7f\0\0\x01\0", b"\x05", b""]
        {
            let (command, answer) = talk(text).await;
            assert!(command.is_err() && answer.is_empty(), "{text:?}");
        }
    }

    #[test]
    fn datagrams_carry_their_target() {
        let target: Target = "192.0.2.1:53".parse().expect("a target");
        let datagram = Bytes::from(wrap(&target, b"abc"));
        assert_eq!(&datagram[..], b"\0\0\0\x01\xc0\0\x02\x01\x005abc");
        assert_eq!(unwrap(datagram.clone()), Some((target, Bytes::from_static(b"abc"))));
        for length in 0..10 {
            assert_eq!(unwrap(datagram.slice(..length)), None, "{length}");
        }
        assert_eq!(
            unwrap(Bytes::from_static(b"\0\0\x01\x01\xc0\0\x02\x01\x005abc")),
            None,
            "fragment"
        );
    }
}
