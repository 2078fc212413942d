//! Choice of the addresses for a pair of devices.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A block of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prefix {
    pub(crate) address: IpAddr,
    /// Number of leading bits that count.
    pub(crate) length: u8,
}

impl Prefix {
    /// True if both have an address in common.
    pub(crate) fn overlaps(self, other: Prefix) -> bool {
        let length = u32::from(self.length.min(other.length));
        match (self.address, other.address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                (a.to_bits() ^ b.to_bits()).checked_shr(32 - length).unwrap_or(0) == 0
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                (a.to_bits() ^ b.to_bits()).checked_shr(128 - length).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

/// The addresses of a pair: a /30 of IPv4 and a /64 of IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) ipv4: [Ipv4Addr; 2],
    pub(crate) ipv6: [Ipv6Addr; 2],
}

/// Ranges for the blocks, the preferred one first: 198.18.0.0/15 for measurements between networks
/// (RFC 2544 appendix C.2.2), then the first half of 100.64.0.0/10 (RFC 6598), in which resolvers
/// of providers may lie without a route telling so.
const RANGES: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 0, 0), Ipv4Addr::new(100, 64, 0, 0)];

/// Blocks per range: the number of /30s in a /15; of the other range the same number is used.
const BLOCKS: u32 = 1 << 15;

/// A unique local prefix with a random global identifier (RFC 4193 section 3.2). Programs prefer
/// IPv4 to it (RFC 6724), as they should if nothing beyond the other end has IPv6.
const LOCAL: Ipv6Addr = Ipv6Addr::new(0xfd9e, 0x4c1b, 0x72d5, 0, 0, 0, 0, 0);

impl Block {
    fn new(range: usize, number: u32) -> Self {
        let first = RANGES[range].to_bits() + number * 4;
        let subnet = (range as u128 * u128::from(BLOCKS) + u128::from(number)) << 64;
        let local = LOCAL.to_bits() | subnet;
        Block {
            ipv4: [1, 2].map(|host| Ipv4Addr::from_bits(first + host)),
            ipv6: [1, 2].map(|host| Ipv6Addr::from_bits(local + host)),
        }
    }

    pub(crate) fn prefixes(&self) -> [Prefix; 2] {
        [
            Prefix { address: self.ipv4[0].into(), length: 30 },
            Prefix { address: self.ipv6[0].into(), length: 64 },
        ]
    }

    fn is_free(&self, used: &[Prefix]) -> bool {
        !self.prefixes().iter().any(|mine| used.iter().any(|other| mine.overlaps(*other)))
    }
}

/// Returns a block that does not overlap any prefix of `used`, which has no default routes.
///
/// The block follows all blocks in use if there is room. So a namespace within a namespace, which
/// does not see the outer blocks, does not take one of them.
pub(crate) fn choose(used: &[Prefix]) -> Option<Block> {
    (0..RANGES.len()).find_map(|range| {
        let start = RANGES[range].to_bits();
        let behind = used
            .iter()
            .filter_map(|prefix| match prefix.address {
                // Other subnets do not show how deep this namespace is nested.
                IpAddr::V4(address) if prefix.length >= 30 => address.to_bits().checked_sub(start),
                _ => None,
            })
            .map(|offset| offset / 4 + 1)
            .filter(|&number| number <= BLOCKS)
            .max()
            .unwrap_or(0);
        (behind..BLOCKS)
            .chain(0..behind)
            .map(|number| Block::new(range, number))
            .find(|block| block.is_free(used))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn prefix(address: &str, length: u8) -> Prefix {
        Prefix { address: address.parse().unwrap(), length }
    }

    #[test]
    fn the_first_block_and_those_behind_it() {
        let first = choose(&[prefix("192.0.2.2", 24), prefix("127.0.0.1", 8)]).unwrap();
        assert_eq!(first.ipv4.map(|a| a.to_string()), ["198.18.0.1", "198.18.0.2"]);
        assert_eq!(first.ipv6[0].to_string(), "fd9e:4c1b:72d5::1");
        // Three levels deep, each seeing only the one around it.
        let second = choose(&first.prefixes()).unwrap();
        let third = choose(&second.prefixes()).unwrap();
        assert_eq!(third.ipv4[0].to_string(), "198.18.0.9");
        assert_eq!(third.ipv6[1].to_string(), "fd9e:4c1b:72d5:2::2");
    }

    #[test]
    fn a_range_in_use_is_left_for_the_next() {
        let block = choose(&[prefix("198.18.0.0", 15)]).unwrap();
        assert_eq!(block.ipv4[0].to_string(), "100.64.0.1");
        assert_eq!(choose(&[prefix("198.18.0.0", 15), prefix("100.0.0.0", 8)]), None);
        let block = choose(&[prefix("198.18.0.0", 16)]).unwrap();
        assert_eq!(block.ipv4[0].to_string(), "198.19.0.1");
        // The last block is taken: the search continues at the beginning.
        let block = choose(&[prefix("198.19.255.252", 30)]).unwrap();
        assert_eq!(block.ipv4[0].to_string(), "198.18.0.1");
        assert!(choose(&[prefix("fd9e:4c1b:72d5::", 48)]).is_none());
    }

    proptest! {
        #[test]
        fn what_is_chosen_is_free(used in prop::collection::vec((0_u32..1 << 17, 16_u8..=32), 0..20)) {
            let used: Vec<Prefix> = used
                .into_iter()
                .map(|(offset, length)| Prefix {
                    address: Ipv4Addr::from_bits(RANGES[0].to_bits() + offset).into(),
                    length,
                })
                .collect();
            let block = choose(&used).unwrap();
            prop_assert!(block.is_free(&used));
        }
    }
}
