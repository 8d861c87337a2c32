//! Which addresses `web_fetch` may connect to: those of the public Internet.
//!
//! A page that a model was told to fetch must not be one that only this machine or this network can reach: a local
//! service, a router, the metadata of a cloud machine. A name is looked up once, by [`PublicResolver`], and the
//! connection goes to one of the addresses that it has passed, so a name that means something else the next time (DNS
//! rebinding) gains nothing.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// How far `web_fetch` reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebReach {
    /// Addresses of the public Internet.
    Public,
    /// These and this machine itself, for servers of tests. Nothing that a user or a model says leads here.
    PublicAndLoopback,
}

impl WebReach {
    /// Whether a connection to the address is allowed.
    pub(crate) fn allows(self, address: IpAddr) -> bool {
        match self {
            Self::Public => is_public(address),
            Self::PublicAndLoopback => address.is_loopback() || is_public(address),
        }
    }
}

/// An address that may not be connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) host: String,
    pub(crate) address: IpAddr,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, address } = self;
        if *host == address.to_string() {
            write!(f, "{address} is not a public address")
        } else {
            write!(f, "`{host}` is at {address}, which is not a public address")
        }
    }
}

impl std::error::Error for Refused {}

/// Looks up names as the system does and passes on what may be connected to.
#[derive(Debug)]
pub(crate) struct PublicResolver(pub(crate) WebReach);

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = self.0;
        Box::pin(async move {
            let host = name.as_str();
            // The port comes from the URL.
            let found: Vec<SocketAddr> = tokio::net::lookup_host((host, 0)).await?.collect();
            let allowed: Vec<SocketAddr> = found
                .iter()
                .filter(|found| reach.allows(found.ip()))
                .copied()
                .collect();
            match found.first() {
                Some(first) if allowed.is_empty() => Err(Refused {
                    host: host.to_owned(),
                    address: first.ip(),
                }
                .into()),
                _ => Ok(Box::new(allowed.into_iter()) as Addrs),
            }
        })
    }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// By the registry of special-purpose addresses (RFC 6890 and its successors).
fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(a == 0 // this network
        || address.is_private()
        || address.is_loopback()
        || address.is_link_local() // metadata of cloud machines among them
        || (a == 100 && (64..128).contains(&b)) // shared by customers of a provider
        || (a == 192 && b == 0 && c == 0) // protocol assignments
        || address.is_documentation()
        || (a == 192 && b == 88 && c == 99) // relays of 6to4
        || (a == 198 && (18..20).contains(&b)) // benchmarks
        || address.is_multicast()
        || a >= 240) // reserved, broadcast
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let [a, b, ..] = segments;
    // An IPv4 address behind a translator is what it is there.
    if (a, b) == (0x64, 0xff9b) && segments[2..6] == [0; 4] {
        return is_public_v4(v4(segments[6], segments[7]));
    }
    if a == 0x2002 {
        return is_public_v4(v4(segments[1], segments[2]));
    }
    // Global unicast addresses are in 2000::/3. Mapped IPv4 addresses, loopback, unique local, link-local, site-local
    // and multicast addresses are not.
    a & 0xe000 == 0x2000
        && !(a == 0x2001 && b < 0x200) // protocol assignments, Teredo
        && (a, b) != (0x2001, 0x0db8) // documentation
        && !(a == 0x3fff && b < 0x1000) // documentation
}

fn v4(high: u16, low: u16) -> Ipv4Addr {
    let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
    Ipv4Addr::new(a, b, c, d)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(reach: WebReach, addresses: &[&str]) -> Vec<String> {
        addresses
            .iter()
            .filter(|text| reach.allows(text.parse().unwrap()))
            .map(|text| (*text).to_owned())
            .collect()
    }

    const NOT_PUBLIC: [&str; 44] = [
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "10.255.255.255",
        "100.64.0.1",
        "100.127.255.255",
        "127.0.0.1",
        "127.8.9.10",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.8",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.1.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:93.184.216.34",
        "64:ff9b::10.0.0.1",
        "64:ff9b::169.254.169.254",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:10::1",
        "2001:db8::1",
        "2002:7f00:1::1",
        "2002:a9fe:a9fe::1",
        "3fff::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "febf::1",
        "fec0::1",
        "ff02::1",
    ];

    const PUBLIC: [&str; 11] = [
        "1.1.1.1",
        "100.63.255.255",
        "100.128.0.1",
        "172.15.0.1",
        "172.32.0.1",
        "192.0.1.1",
        "198.20.0.1",
        "223.255.255.255",
        "2606:4700:4700::1111",
        "64:ff9b::1.1.1.1",
        "2002:101:101::1",
    ];

    #[test]
    fn only_public_addresses_are_allowed() {
        assert_eq!(allowed(WebReach::Public, &NOT_PUBLIC), Vec::<String>::new());
        assert_eq!(allowed(WebReach::Public, &PUBLIC), PUBLIC);
    }

    #[test]
    fn tests_may_reach_this_machine_and_nothing_else_besides() {
        assert_eq!(
            allowed(WebReach::PublicAndLoopback, &NOT_PUBLIC),
            ["127.0.0.1", "127.8.9.10", "::1"]
        );
    }
}
