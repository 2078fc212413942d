//! Places of strangers: how many of one address may be at the door at once.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use crate::sync::lock;

/// Most strangers of one address at once, in a handshake or before their first message. One address
/// cannot take all places.
pub(crate) const OF_ONE_ADDRESS: usize = 16;

/// Counts of strangers by address: IPv4 addresses, and networks of 64 bits of IPv6, which one host
/// may have whole.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    counts: Mutex<HashMap<IpAddr, usize>>,
}

/// A place in a crowd, which is free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Guest {
    crowd: Arc<Crowd>,
    origin: IpAddr,
}

impl Crowd {
    /// A place for a stranger; `None` if its address has too many already.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Guest> {
        let origin = origin(address);
        let mut counts = lock(&self.counts);
        let count = counts.entry(origin).or_default();
        if *count >= OF_ONE_ADDRESS {
            return None;
        }
        *count += 1;
        Some(Guest { crowd: Arc::clone(self), origin })
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut counts = lock(&self.crowd.counts);
        if let Some(count) = counts.get_mut(&self.origin) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.origin);
            }
        }
    }
}

fn origin(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let network = u128::from(v6) >> 64 << 64;
            IpAddr::V6(network.into())
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_has_so_many_places_and_gets_them_back() {
        let crowd = Arc::new(Crowd::default());
        let at = |text: &str| text.parse::<IpAddr>().expect(text);
        let enter = |text: &str| crowd.enter(at(text));
        let mut guests: Vec<_> = (0..OF_ONE_ADDRESS).map_while(|_| enter("192.0.2.1")).collect();
        assert_eq!(guests.len(), OF_ONE_ADDRESS);
        // The same address as a socket of IPv6 names it.
        assert!(enter("192.0.2.1").is_none() && enter("::ffff:192.0.2.1").is_none());
        let other = (enter("192.0.2.2"), enter("2001:db8::1"));
        assert!(other.0.is_some() && other.1.is_some());
        guests.pop();
        guests.extend(enter("192.0.2.1"));
        assert!(guests.len() == OF_ONE_ADDRESS && enter("192.0.2.1").is_none());
        // A host may have all of 2^64 addresses.
        let many: Vec<_> =
            (2..100).filter_map(|host| enter(&format!("2001:db8::{host:x}"))).collect();
        assert_eq!(many.len(), OF_ONE_ADDRESS - 1);
        drop((guests, other, many));
        assert!(lock(&crowd.counts).is_empty());
    }
}
