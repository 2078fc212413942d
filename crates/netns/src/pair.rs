//! Two TUN devices, one outside and one inside a namespace.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::addresses::{Block, Prefix, choose};
use crate::error::{Context, Result};
use crate::namespace::Namespace;
use crate::netlink::{Device, Netlink, no_ipv6};
use crate::tun::Tun;

/// Properties of the devices of a pair.
#[derive(Debug, Clone)]
pub struct PairOptions {
    /// The largest IP packet, bytes; at least 1280 for IPv6 (RFC 8200 section 5).
    pub mtu: u16,
    /// Number of packets that the kernel holds until they are read, before it drops further ones.
    /// This is not the queue of the link; it holds packets while the reader is late, and
    /// [`End::overflow`] should stay zero.
    pub tx_queue_len: u32,
    /// True if the kernel may pass many packets at once in both directions; see [`Tun`].
    pub offload: bool,
    /// True if default routes inside lead to the device there.
    pub default_routes: bool,
}

impl Default for PairOptions {
    /// 1500 bytes, 10,000 packets, no offload, default routes.
    fn default() -> Self {
        PairOptions { mtu: 1500, tx_queue_len: 10_000, offload: false, default_routes: true }
    }
}

/// One device of a pair.
#[derive(Debug)]
pub struct End {
    /// The device.
    pub tun: Tun,
    /// Its IPv4 address.
    pub ipv4: Ipv4Addr,
    /// Its IPv6 address; `None` if the kernel has no IPv6 or has it switched off.
    pub ipv6: Option<Ipv6Addr>,
    netlink: Netlink,
    index: u32,
}

impl End {
    /// Number of packets for this device that the kernel has dropped so far because too many waited
    /// to be read. Links do not see these drops, which invalidate a measurement.
    pub fn overflow(&mut self) -> Result<u64> {
        self.netlink.overflow(self.index)
    }
}

/// Two devices that are not connected: the owner carries packets from one to the other.
///
/// Only packets of programs are sent over them. But if the outside is an existing namespace, the
/// kernel may repeat the last segments of connections over an earlier pair with the same addresses:
/// measurements need a new namespace outside too.
///
/// The optional default routes inside lead to the device outside. Packets go beyond it only if the
/// kernel outside forwards them and answers are routed back: see [`Pair::masquerade`].
#[derive(Debug)]
pub struct Pair {
    /// The device in the present namespace or in the given one.
    pub outside: End,
    /// The device in the namespace with the default routes.
    pub inside: End,
}

/// Number of attempts to find free addresses, since other processes may take the same ones at the
/// same time.
const ATTEMPTS: usize = 64;

impl Pair {
    /// A pair with one device in `outside` (`None`: in the namespace of the calling thread) and one
    /// `inside`, both up.
    ///
    /// # Errors
    /// Without the capability CAP_NET_ADMIN in both namespaces, without /dev/net/tun, if there is a
    /// default route inside, if the kernel refuses the MTU, and if no addresses are free.
    pub fn new(
        outside: Option<&Namespace>,
        inside: &Namespace,
        options: &PairOptions,
    ) -> Result<Self> {
        let open = || Half::open(options);
        let mut outside = outside.map_or_else(open, |namespace| namespace.run(open)?)?;
        let mut inside = inside.run(open)??;
        let mut used = outside.netlink.used()?;
        used.extend(inside.netlink.used()?);
        for _ in 0..ATTEMPTS {
            let none = || io::Error::from(io::ErrorKind::AddrNotAvailable);
            let block = choose(&used)
                .ok_or_else(none)
                .context(|| "cannot find addresses for a pair of devices")?;
            match outside.claim(&block, 0, false) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    used.extend(block.prefixes());
                }
                Err(error) => return Err(error),
                Ok(ipv6) => {
                    let inside_ipv6 = inside.claim(&block, 1, options.default_routes)?;
                    let both = ipv6 && inside_ipv6;
                    return Ok(Pair {
                        outside: outside.end(&block, 0, both),
                        inside: inside.end(&block, 1, both),
                    });
                }
            }
        }
        let taken = io::Error::from(io::ErrorKind::AddrInUse);
        Err(taken).context(|| "cannot find addresses for a pair of devices")
    }
}

/// A device that is being set up.
struct Half {
    tun: Tun,
    netlink: Netlink,
    index: u32,
}

impl Half {
    fn open(options: &PairOptions) -> Result<Self> {
        let tun = Tun::open(options.mtu, options.offload)?;
        let mut netlink = Netlink::new()?;
        let index = netlink.index(tun.name())?;
        let device = Device {
            mtu: Some(options.mtu.into()),
            tx_queue_len: Some(options.tx_queue_len),
            silent: true,
        };
        netlink.switch_on(index, &device)?;
        Ok(Half { tun, netlink, index })
    }

    /// Takes the addresses of one side, with a route to the other and optionally default routes
    /// through it. Returns true if there is IPv6. If the addresses are taken the route fails, since
    /// there can be only one.
    fn claim(&mut self, block: &Block, side: usize, default: bool) -> Result<bool> {
        let [ipv4, ipv6] = block.prefixes();
        self.claim_one(ipv4, block.ipv4[side].into(), block.ipv4[0].into(), default)?;
        match self.claim_one(ipv6, block.ipv6[side].into(), block.ipv6[0].into(), default) {
            Err(error) if no_ipv6(&error) => Ok(false),
            other => other.map(|()| true),
        }
    }

    fn claim_one(
        &mut self,
        prefix: Prefix,
        address: IpAddr,
        gateway: IpAddr,
        default: bool,
    ) -> Result<()> {
        self.netlink.add_address(self.index, address)?;
        self.netlink.add_route(self.index, Some(prefix), address, None)?;
        if default {
            self.netlink.add_route(self.index, None, address, Some(gateway))?;
        }
        Ok(())
    }

    fn end(self, block: &Block, side: usize, ipv6: bool) -> End {
        let Half { tun, netlink, index } = self;
        End { tun, ipv4: block.ipv4[side], ipv6: ipv6.then_some(block.ipv6[side]), netlink, index }
    }
}
