//! Numbers, texts and addresses as bytes: short numbers are short.

use core::time::Duration;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use qsm_wire::nanoseconds;

/// Bytes that are no such field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Appends fields to a block.
pub(crate) trait Put {
    /// A number in groups of seven bits, the lowest first.
    fn number(&mut self, value: u64);

    /// A count of things in memory.
    fn count(&mut self, value: usize) {
        self.number(value as u64);
    }

    /// A truth value.
    fn flag(&mut self, value: bool) {
        self.number(value.into());
    }

    /// A duration, in nanoseconds.
    fn duration(&mut self, value: Duration) {
        self.number(nanoseconds(value));
    }

    /// Bytes with their length before them.
    fn bytes(&mut self, value: &[u8]);

    /// A text, likewise.
    fn text(&mut self, value: &str) {
        self.bytes(value.as_bytes());
    }

    /// An address with its port and, of IPv6, its zone.
    fn address(&mut self, value: SocketAddr);

    /// An address, or none.
    fn address_if(&mut self, value: Option<SocketAddr>) {
        self.flag(value.is_some());
        if let Some(address) = value {
            self.address(address);
        }
    }
}

impl Put for Vec<u8> {
    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.push(value.to_le_bytes()[0]);
    }

    fn bytes(&mut self, value: &[u8]) {
        self.count(value.len());
        self.extend_from_slice(value);
    }

    fn address(&mut self, value: SocketAddr) {
        match value.ip() {
            IpAddr::V4(ip) => {
                self.push(4);
                self.extend_from_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                self.push(6);
                self.extend_from_slice(&ip.octets());
            }
        }
        self.number(value.port().into());
        if let SocketAddr::V6(address) = value {
            self.number(address.scope_id().into());
        }
    }
}

/// Takes fields out of a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    /// Tells whether there is nothing more.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One byte.
    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        let (first, rest) = self.0.split_first().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*first)
    }

    /// So many bytes.
    pub(crate) fn slice(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (slice, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(slice)
    }

    /// As many bytes as the array has.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.slice(N)?.try_into().map_err(|_| Malformed)
    }

    /// A number.
    pub(crate) fn number(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(Malformed);
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    /// A number of another type.
    pub(crate) fn narrow<T: TryFrom<u64>>(&mut self) -> Result<T, Malformed> {
        T::try_from(self.number()?).map_err(|_| Malformed)
    }

    /// A truth value.
    pub(crate) fn flag(&mut self) -> Result<bool, Malformed> {
        match self.number()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    /// A duration.
    pub(crate) fn duration(&mut self) -> Result<Duration, Malformed> {
        self.number().map(Duration::from_nanos)
    }

    /// Bytes with their length before them.
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.narrow()?;
        self.slice(length)
    }

    /// A text.
    pub(crate) fn text(&mut self) -> Result<&'a str, Malformed> {
        str::from_utf8(self.bytes()?).map_err(|_| Malformed)
    }

    /// An address.
    pub(crate) fn address(&mut self) -> Result<SocketAddr, Malformed> {
        match self.byte()? {
            4 => {
                let ip: [u8; 4] = self.array()?;
                Ok(SocketAddr::from((ip, self.narrow()?)))
            }
            6 => {
                let ip: [u8; 16] = self.array()?;
                let (port, zone) = (self.narrow()?, self.narrow()?);
                let address = SocketAddrV6::new(Ipv6Addr::from(ip), port, 0, zone);
                Ok(SocketAddr::V6(address))
            }
            _ => Err(Malformed),
        }
    }

    /// An address, or none.
    pub(crate) fn address_if(&mut self) -> Result<Option<SocketAddr>, Malformed> {
        self.flag()?.then(|| self.address()).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_they_were_written() {
        let numbers = [0, 1, 127, 128, 300, u64::MAX / 2, u64::MAX];
        let addresses = ["10.1.2.3:4", "[fe80::1%7]:65535", "[ff15::9]:0"];
        let addresses = addresses.map(|text| text.parse::<SocketAddr>().unwrap());
        let mut block = Vec::new();
        numbers.iter().for_each(|number| block.number(*number));
        addresses.iter().for_each(|address| block.address(*address));
        block.address_if(None);
        block.text("ä");
        block.flag(true);
        let mut fields = Fields(&block);
        for number in numbers {
            assert_eq!(fields.number(), Ok(number));
        }
        for address in addresses {
            assert_eq!(fields.address(), Ok(address));
        }
        assert_eq!(fields.address_if(), Ok(None));
        assert_eq!(fields.text(), Ok("ä"));
        assert_eq!(fields.flag(), Ok(true));
        assert!(fields.is_empty() && fields.byte() == Err(Malformed));
    }

    #[test]
    fn what_is_too_large_or_cut_short_is_refused() {
        let mut long = vec![0xff; 9];
        long.push(2);
        assert_eq!(Fields(&long).number(), Err(Malformed));
        assert_eq!(Fields(&[0x80]).number(), Err(Malformed));
        assert_eq!(Fields(&[5, 1, 2]).bytes(), Err(Malformed));
        assert_eq!(Fields(&[0x80, 2]).narrow::<u8>(), Err(Malformed));
        assert_eq!(Fields(&[9]).address(), Err(Malformed));
    }
}
