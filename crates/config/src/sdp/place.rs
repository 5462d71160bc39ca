//! Addresses and ports of a rule: `ip[/length][:port[-port]]`, with `*` for any.
//!
//! Addresses of both families are kept as IPv6 has them: IPv4 is ::ffff:0:0/96, so that a rule for IPv4 holds for
//! connections over IPv4 through AF_INET6 sockets too.

use crate::notice::quoted;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What precedes an IPv4 address in IPv6.
const MAPPED_BITS: u32 = 96;

/// Addresses and ports that a rule covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    network: Option<Network>,
    /// First and last; `None` is `*`.
    ports: Option<(u16, u16)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    /// Host bits are zero.
    bits: u128,
    /// Of the 128.
    length: u32,
}

/// Whether ports may be left away.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ports {
    Needed,
    Optional,
}

/// A value, and what its writer should know about it.
pub(super) type Read<T> = Result<(T, Option<String>), String>;

impl Place {
    pub(super) fn covers(&self, address: SocketAddr) -> bool {
        let port = address.port();
        self.network.is_none_or(|network| network.covers(address.ip()))
            && self.ports.is_none_or(|(low, high)| (low..=high).contains(&port))
    }

    /// Reads address and ports in one word.
    pub(super) fn parse(text: &str, ports: Ports) -> Read<Place> {
        if text == "*.*" {
            let place = Place { network: None, ports: None };
            return Ok((place, Some("'*.*' is taken for '*:*', any address and any port".to_owned())));
        }
        let (network, after) = split(text, ports)?;
        let (network, warning) = network_of(network)?;
        let ports = match (after, ports) {
            (Some(after), _) => ports_of(after, 1)?,
            (None, Ports::Optional) => None,
            (None, Ports::Needed) => {
                return Err(format!("{} has no port; write {text}:PORT, or {text}:* for any", quoted(text)));
            }
        };
        Ok((Place { network, ports }, warning))
    }

    /// Reads address and ports in two words, as Java has them.
    pub(super) fn parse_two(address: &str, ports: &str) -> Read<Place> {
        let (network, warning) = network_of(unbracketed(address)?)?;
        Ok((Place { network, ports: ports_of(ports, 0)? }, warning))
    }

    /// Address and ports as the three dialects write them, here apart.
    pub(super) fn shown(&self) -> (String, String) {
        let network = self.network.map_or("*".to_owned(), |network| network.shown());
        let ports = match self.ports {
            None => "*".to_owned(),
            Some((low, high)) if low == high => low.to_string(),
            Some((low, high)) => format!("{low}-{high}"),
        };
        (network, ports)
    }
}

impl Network {
    fn covers(self, address: IpAddr) -> bool {
        bits(address) & mask(self.length) == self.bits
    }

    fn shown(self) -> String {
        let address = Ipv6Addr::from_bits(self.bits);
        match address.to_ipv4_mapped().filter(|_| self.length >= MAPPED_BITS) {
            Some(address) if self.length == 128 => address.to_string(),
            Some(address) => format!("{address}/{}", self.length - MAPPED_BITS),
            None => format!("[{address}]/{}", self.length),
        }
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn mask(length: u32) -> u128 {
    u128::MAX.checked_shl(128 - length).unwrap_or(0)
}

/// The address with its length, and what follows the colon before the ports.
fn split(text: &str, ports: Ports) -> Result<(&str, Option<&str>), String> {
    if text.starts_with('[') {
        let (inside, rest) = bracketed(text)?;
        // The length stands inside or behind: `[fe80::/64]:80`, `[fe80::]/64:80`.
        return match rest.find(':') {
            None if rest.is_empty() => Ok((inside, None)),
            Some(0) => Ok((inside, Some(&rest[1..]))),
            Some(colon) => Ok((&text[..text.len() - rest.len() + colon], Some(&rest[colon + 1..]))),
            None => Ok((text, None)),
        };
    }
    let colons = text.bytes().filter(|byte| *byte == b':').count();
    match (colons, ports) {
        (0, _) => Ok((text, None)),
        (1, _) | (_, Ports::Needed) => Ok(text.rsplit_once(':').map_or((text, None), |(a, b)| (a, Some(b)))),
        (_, Ports::Optional) => {
            Err(format!("{}: an IPv6 address stands in brackets here, as in [fe80::/64]:80", quoted(text)))
        }
    }
}

/// What stands between the brackets that a word begins with, and what follows.
fn bracketed(text: &str) -> Result<(&str, &str), String> {
    text[1..].split_once(']').ok_or_else(|| format!("{} has no ']'", quoted(text)))
}

/// An address that may stand in brackets, alone.
fn unbracketed(text: &str) -> Result<&str, String> {
    match text.starts_with('[') {
        false => Ok(text),
        true => bracketed(text).map(|(inside, rest)| if rest.is_empty() { inside } else { text }),
    }
}

/// `*`, an address, or an address with a length.
fn network_of(text: &str) -> Read<Option<Network>> {
    if text == "*" {
        return Ok((None, None));
    }
    let (address, length) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
    let address = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(address);
    let parsed: IpAddr = if let Ok(address) = address.parse::<Ipv4Addr>() {
        address.into()
    } else if let Ok(address) = address.parse::<Ipv6Addr>() {
        address.into()
    } else {
        return Err(format!(
            "{} is no address; write one such as 192.168.1.0/24, or * (names are not looked up)",
            quoted(address)
        ));
    };
    let (most, before) = if parsed.is_ipv4() { (32, MAPPED_BITS) } else { (128, 0) };
    let length = match length {
        None => most,
        Some(length) => number(length)
            .filter(|length| *length <= most)
            .ok_or_else(|| format!("{} is no length of a prefix; expected 0 to {most}", quoted(length)))?,
    } + before;
    let network = Network { bits: bits(parsed) & mask(length), length };
    let warning = (network.bits != bits(parsed))
        .then(|| format!("{} has bits beyond its length; {} is meant", quoted(text), network.shown()));
    Ok((Some(network), warning))
}

/// `*`, `N`, `N-N`, `N-*`.
fn ports_of(text: &str, least: u32) -> Result<Option<(u16, u16)>, String> {
    if text == "*" {
        return Ok(None);
    }
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let (low, high) = (port(low, least, least)?, port(high, least, u32::from(u16::MAX))?);
    if low > high {
        return Err(format!("the range of ports {low}-{high} is empty"));
    }
    Ok(Some((low, high)))
}

/// A port, or the bound that `*` stands for.
fn port(text: &str, least: u32, star: u32) -> Result<u16, String> {
    let number = if text == "*" { Some(star) } else { number(text) };
    number.filter(|number| *number >= least).and_then(|number| u16::try_from(number).ok()).ok_or_else(|| {
        format!("{} is no port; expected {least} to 65535, a range such as 5001-5010, or *", quoted(text))
    })
}

/// Decimal digits and nothing else.
pub(super) fn number(text: &str) -> Option<u32> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| text.parse().ok()).flatten()
}
