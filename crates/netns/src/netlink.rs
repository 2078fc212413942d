//! Devices, addresses and routes, read and set over a route netlink socket (rtnetlink(7)).

use std::io;
use std::net::IpAddr;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage, AddressScope,
};
use netlink_packet_route::link::{
    AfSpecInet6, AfSpecUnspec, In6AddrGenMode, LinkAttribute, LinkFlags, LinkMessage,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use crate::addresses::Prefix;
use crate::error::{Context, Error, Result};

/// A connection to the network namespace in which it was opened, usable from any thread.
#[derive(Debug)]
pub(crate) struct Netlink {
    socket: Socket,
    sequence: u32,
}

/// Settings of a device that is switched on.
#[derive(Default)]
pub(crate) struct Device {
    /// Bytes.
    pub(crate) mtu: Option<u32>,
    /// Packets that wait to be read.
    pub(crate) tx_queue_len: Option<u32>,
    /// True for no link-local address, so that the kernel itself sends nothing.
    pub(crate) silent: bool,
}

fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

impl Netlink {
    /// Opens a connection to the namespace of the calling thread.
    pub(crate) fn new() -> Result<Self> {
        let open = || -> io::Result<Socket> {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            Ok(socket)
        };
        Ok(Netlink {
            socket: open().context(|| "cannot open a route netlink socket")?,
            sequence: 0,
        })
    }

    /// Sends one request, passes each answer to `each`, and returns when the kernel is done.
    fn ask(
        &mut self,
        request: RouteNetlinkMessage,
        flags: u16,
        mut each: impl FnMut(RouteNetlinkMessage),
    ) -> io::Result<()> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(request));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        loop {
            let (datagram, _) = self.socket.recv_from_full()?;
            let mut rest = &datagram[..];
            while !rest.is_empty() {
                let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                // Messages begin at multiples of four bytes (NLMSG_ALIGN).
                let length = (message.header.length as usize).next_multiple_of(4);
                rest = rest.get(length.max(4)..).unwrap_or_default();
                if message.header.sequence_number != self.sequence {
                    continue;
                }
                match message.payload {
                    NetlinkPayload::Done(_) => return Ok(()),
                    NetlinkPayload::Error(error) if error.code.is_none() => return Ok(()),
                    NetlinkPayload::Error(error) => return Err(error.to_io()),
                    NetlinkPayload::InnerMessage(answer) => each(answer),
                    _ => {}
                }
            }
        }
    }

    /// The number of the device `name`.
    pub(crate) fn index(&mut self, name: &str) -> Result<u32> {
        let mut request = LinkMessage::default();
        request.attributes.push(LinkAttribute::IfName(name.into()));
        let mut index = 0;
        self.ask(RouteNetlinkMessage::GetLink(request), NLM_F_ACK, |answer| {
            if let RouteNetlinkMessage::NewLink(link) = answer {
                index = link.header.index;
            }
        })
        .context(|| format!("cannot find the device {name}"))?;
        Ok(index)
    }

    /// Packets for a device that were dropped, because they were not read in time.
    pub(crate) fn overflow(&mut self, index: u32) -> Result<u64> {
        let mut request = LinkMessage::default();
        request.header.index = index;
        let mut dropped = 0;
        self.ask(RouteNetlinkMessage::GetLink(request), NLM_F_ACK, |answer| {
            let RouteNetlinkMessage::NewLink(link) = answer else { return };
            for attribute in link.attributes {
                if let LinkAttribute::Stats64(counters) = attribute {
                    dropped = counters.tx_dropped;
                }
            }
        })
        .context(|| format!("cannot read the counters of device number {index}"))?;
        Ok(dropped)
    }

    /// Applies the settings of `device` and switches the device on.
    pub(crate) fn switch_on(&mut self, index: u32, device: &Device) -> Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        link.attributes.extend(device.mtu.map(LinkAttribute::Mtu));
        link.attributes.extend(device.tx_queue_len.map(LinkAttribute::TxQueueLen));
        if device.silent {
            let mut quiet = LinkMessage::default();
            quiet.header.index = index;
            let mode = AfSpecInet6::AddrGenMode(In6AddrGenMode::None);
            let mode = AfSpecUnspec::Inet6(vec![mode]);
            quiet.attributes.push(LinkAttribute::AfSpecUnspec(vec![mode]));
            // Without IPv6 in the kernel nothing is sent either.
            let _ = self.ask(RouteNetlinkMessage::SetLink(quiet), NLM_F_ACK, |_| {});
        }
        link.header.flags = LinkFlags::Up;
        link.header.change_mask = LinkFlags::Up;
        self.ask(RouteNetlinkMessage::SetLink(link), NLM_F_ACK, |_| {})
            .context(|| format!("cannot switch on the device number {index}"))
    }

    /// Gives a device an address, without a route to its neighbours. Duplicate addresses are not
    /// detected, since the device has only two ends.
    pub(crate) fn add_address(&mut self, index: u32, address: IpAddr) -> Result<()> {
        let mut message = AddressMessage::default();
        message.header.family = family(address);
        message.header.prefix_len = if address.is_ipv4() { 32 } else { 128 };
        message.header.index = index;
        message.header.scope = AddressScope::Universe;
        message.header.flags = AddressHeaderFlags::Nodad;
        message.attributes = vec![
            AddressAttribute::Local(address),
            AddressAttribute::Address(address),
            AddressAttribute::Flags(AddressFlags::Nodad | AddressFlags::Noprefixroute),
        ];
        let flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
        self.ask(RouteNetlinkMessage::NewAddress(message), flags, |_| {})
            .context(|| format!("cannot give the address {address} to device number {index}"))
    }

    /// Adds a route to `to` (`None` for the default route) over a device, through `gateway` or
    /// directly. Fails with [`io::ErrorKind::AlreadyExists`] if there is one to the same prefix.
    pub(crate) fn add_route(
        &mut self,
        index: u32,
        to: Option<Prefix>,
        source: IpAddr,
        gateway: Option<IpAddr>,
    ) -> Result<()> {
        let mut message = RouteMessage::default();
        let header = &mut message.header;
        header.address_family = family(source);
        header.table = RouteHeader::RT_TABLE_MAIN;
        header.protocol = RouteProtocol::Static;
        let direct = gateway.is_none() && source.is_ipv4();
        header.scope = if direct { RouteScope::Link } else { RouteScope::Universe };
        header.kind = RouteType::Unicast;
        header.destination_prefix_length = to.map_or(0, |to| to.length);
        message.attributes.push(RouteAttribute::Oif(index));
        message.attributes.push(RouteAttribute::PrefSource(source.into()));
        message.attributes.extend(to.map(|to| RouteAttribute::Destination(network(to).into())));
        message.attributes.extend(gateway.map(|gateway| RouteAttribute::Gateway(gateway.into())));
        let flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
        self.ask(RouteNetlinkMessage::NewRoute(message), flags, |_| {}).context(|| match to {
            Some(to) => format!("cannot add a route to {}/{}", to.address, to.length),
            None => "cannot add a default route".into(),
        })
    }

    /// Prefixes of all addresses and routes of this namespace, except default routes.
    pub(crate) fn used(&mut self) -> Result<Vec<Prefix>> {
        let mut used = Vec::new();
        let addresses = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        self.ask(addresses, NLM_F_DUMP, |answer| {
            let RouteNetlinkMessage::NewAddress(message) = answer else { return };
            for attribute in message.attributes {
                match attribute {
                    AddressAttribute::Address(address) | AddressAttribute::Local(address) => {
                        used.push(Prefix { address, length: message.header.prefix_len });
                    }
                    _ => {}
                }
            }
        })
        .context(|| "cannot list the addresses in use")?;
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut routes = RouteMessage::default();
            routes.header.address_family = family;
            self.ask(RouteNetlinkMessage::GetRoute(routes), NLM_F_DUMP, |answer| {
                let RouteNetlinkMessage::NewRoute(message) = answer else { return };
                let length = message.header.destination_prefix_length;
                // Tunnels write default routes as two halves.
                if length <= 1 {
                    return;
                }
                for attribute in message.attributes {
                    let address = match attribute {
                        RouteAttribute::Destination(RouteAddress::Inet(address)) => address.into(),
                        RouteAttribute::Destination(RouteAddress::Inet6(address)) => address.into(),
                        _ => continue,
                    };
                    used.push(Prefix { address, length });
                }
            })
            .context(|| "cannot list the routes in use")?;
        }
        Ok(used)
    }
}

/// The first address of a prefix, which the kernel requires in routes.
fn network(prefix: Prefix) -> IpAddr {
    match prefix.address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix.length)).unwrap_or(0);
            std::net::Ipv4Addr::from_bits(address.to_bits() & mask).into()
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix.length)).unwrap_or(0);
            std::net::Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
    }
}

/// True if the error means that the kernel has no IPv6, or has it switched off.
pub(crate) fn no_ipv6(error: &Error) -> bool {
    use rustix::io::Errno;
    let codes = [Errno::ACCESS, Errno::OPNOTSUPP, Errno::AFNOSUPPORT];
    codes.iter().any(|code| error.os_code() == Some(code.raw_os_error()))
}
