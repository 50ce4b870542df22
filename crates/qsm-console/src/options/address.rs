//! Addresses as options take them.

use std::net::SocketAddr;

/// An address and port. A link-local one may say its interface: `[fe80::1%eth0]:4481`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Without the interface.
    pub address: SocketAddr,
    /// The interface.
    pub zone: Option<String>,
}

impl Place {
    /// From a command line.
    ///
    /// # Errors
    /// Not an address and a port.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (address, zone) = match (text.find('%'), text.find(']')) {
            (Some(from), Some(to)) if from < to => {
                let zone = text[from + 1..to].to_owned();
                (format!("{}{}", &text[..from], &text[to..]), Some(zone))
            }
            _ => (text.to_owned(), None),
        };
        let address = address.parse().map_err(|_| {
            "not an address and a port, such as 10.0.0.1:4481 or [fd00::1]:4481".to_owned()
        })?;
        Ok(Self { address, zone })
    }
}
