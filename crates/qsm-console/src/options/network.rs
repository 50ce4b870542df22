//! The options of everything that opens sockets.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use qsm::{ChannelOptions, Cipher, DATA_PORT, Family, Identity, IdentityError, ServiceHints};

use super::address::Place;
use super::quantity::{Threshold, loss_ppm, seconds};
use crate::failure::Failure;
use crate::log::LogOptions;

/// Help of `--discovery`: in a doc comment the address would be taken for a link.
const DISCOVERY_HELP: &str = "Multicast address at which membership services are announced and \
                              looked for [default: 239.192.83.77:4483, with IPv6 \
                              [ff15::8000:534d]:4483]";

/// Options of everything that opens sockets.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Network")]
pub struct NetworkOptions {
    /// Network interface, by name or address: eth0, 10.0.0.1, fd00::1, fe80::1%eth0 [default: the
    /// most fitting one]. Given twice: everything goes by both networks, of which one may fail; in
    /// the same order on all hosts
    #[arg(long, value_name = "INTERFACE")]
    pub interface: Vec<String>,
    /// Use IPv6, where the addresses given do not say it [default: IPv4 where there is a choice]
    #[arg(long)]
    pub ipv6: bool,
    /// Cluster; clusters do not see each other
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub cluster: String,
    /// Multicast address at which membership services are announced and looked for.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = multicast, help = DISCOVERY_HELP)]
    pub discovery: Option<SocketAddr>,
    /// Port of the multicast addresses that the membership service hands out: for a membership
    /// service, and all nodes that may run one; other nodes take what they are given
    #[arg(long, value_name = "PORT", default_value_t = DATA_PORT)]
    pub data_port: u16,
    /// Whom nodes receive from at the addresses that the membership service hands out: anybody, or
    /// the senders that it names, by addresses of 232.192.0.0/14, with IPv6 ff35::/96; or no multicast
    /// at all: everything goes to each receiver by unicast, and nodes need --service
    #[arg(long, value_name = "KIND", value_enum, default_value_t = Multicast::Auto, conflicts_with = "data_range")]
    pub multicast: Multicast,
    /// Range of the multicast addresses that the membership service hands out [default:
    /// 239.192.0.0/14, with IPv6 ff15::/64]
    #[arg(long, value_name = "ADDRESS/LENGTH", value_parser = range)]
    pub data_range: Option<(IpAddr, u8)>,
    /// Exclude a node when it has been silent for so long. Until then it is away: nobody waits for
    /// it, and what it misses is kept for it (--retention). 0: at once. For a membership service,
    /// and all nodes that may run one [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub gone_after: Option<Duration>,
    /// Wait so long for a node that reads as fast as it can while the others could take more, all in
    /// all; then it is away until it has caught up. 0: for ever. For a membership service, and all
    /// nodes that may run one [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub slow_after: Option<Duration>,
    /// Plan at most so often which groups of a few nodes go to each of these alone, so that the nodes
    /// share a region with others. 0: never; then only groups of one node do. For a membership
    /// service, and all nodes that may run one [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub plan_every: Option<Duration>,
    /// Share of the deliveries in a region that its members may not want, percent: nodes with similar
    /// groups then share a region by the same plans, and drop what they do not want. Likewise
    /// [default: 0]
    #[arg(long, value_name = "PERCENT", value_parser = loss_ppm)]
    pub plan_unwanted: Option<u32>,
    /// Packets a second that a region for groups that several others have in common has to save; such
    /// a group then takes one packet for a message. none: there are no such regions. Likewise
    /// [default: 10]
    #[arg(long, value_name = "PACKETS")]
    pub plan_common: Option<Threshold>,
    /// File of hints, which go before plans: lines `domain NAME: NODE…`, `apart: NODE…`, `together:
    /// NODE…`, `pin CHANNEL: GROUP…`, `lifetime TIME: GROUP…`, `pace …: GROUP…`, `origin …:
    /// GROUP…`; see docs/operate/planning.md. For a membership service, and all nodes that may run one
    #[arg(long, value_name = "FILE")]
    pub hints: Option<PathBuf>,
    /// File with the cluster's key, as `qsm keygen` makes it: all packets are protected by it, and those of
    /// others dropped. All nodes and services of the cluster need the same [default: the cluster is open to
    /// everybody on its network]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// File with the key of this node or service, as `qsm keygen --node` makes it: in a cluster that takes tokens
    /// everybody has one, proves it, and is let in by a token. Instead of --key
    #[arg(long, value_name = "FILE")]
    pub identity: Option<PathBuf>,
    /// File with the token, as `qsm token new` makes it [default: that of --identity, with the ending .token]
    #[arg(long, value_name = "FILE")]
    pub token: Option<PathBuf>,
    /// File with the public key of the cluster's root, whose tokens are believed [default: root.pub beside
    /// --identity; with --certificate none]
    #[arg(long, value_name = "FILE")]
    pub root: Option<PathBuf>,
    /// File with the X.509 certificate of this node or service in PEM, and behind it those between it and an
    /// authority: the alternative to --identity and --token
    #[arg(long, value_name = "FILE", conflicts_with_all = ["identity", "token", "key"])]
    pub certificate: Option<PathBuf>,
    /// File with the private key of --certificate in PEM, Ed25519 [default: that of --certificate, with the ending
    /// .key]
    #[arg(long, value_name = "FILE")]
    pub private_key: Option<PathBuf>,
    /// File with certificates of authorities in PEM: whom they have certified is believed, as with --root who has a
    /// token of it
    #[arg(long, value_name = "FILE")]
    pub trust: Option<PathBuf>,
    /// File with the authorities' lists of revoked certificates in PEM; a membership service reads it again when it
    /// changes
    #[arg(long, value_name = "FILE", requires = "trust")]
    pub crl: Option<PathBuf>,
    /// Cipher of the keys that a service with --identity gives out: aes-256-gcm, chacha20-poly1305 or aegis-128x2. For a
    /// membership service, and all nodes that may run one; with --key the file says it
    #[arg(long, value_name = "CIPHER", default_value_t = Cipher::default())]
    pub cipher: Cipher,
    /// Say on stderr what happens, and at the end what was counted
    #[arg(long, short)]
    pub verbose: bool,
    /// How notices are written
    #[command(flatten)]
    pub notices: LogOptions,
}

impl NetworkOptions {
    /// The hints in the file that is named; none without one.
    ///
    /// # Errors
    /// The file cannot be read, or its hints cannot be carried out.
    pub fn read_hints(&self) -> Result<ServiceHints, Failure> {
        let Some(path) = &self.hints else {
            return Ok(ServiceHints::default());
        };
        let name = path.display();
        let text = fs::read_to_string(path).map_err(|error| {
            let cause = format!("hints in {name} cannot be read: {error}");
            Failure::usage(cause, "name a file by --hints that this user may read")
        })?;
        ServiceHints::parse(&text).map_err(|error| {
            let text = error.to_string();
            let parts = text.rsplit_once("; ");
            let (cause, remedy) = parts.unwrap_or((&text, "see docs/operate/planning.md"));
            Failure::usage(format!("{name}, {cause}"), remedy)
        })
    }

    /// The sockets that these options describe, of a node or of a membership service.
    ///
    /// # Errors
    /// A file of the key, or of the identity, cannot be used.
    pub fn sockets(&self) -> Result<qsm::NetworkOptions, Failure> {
        let mut sockets = qsm::NetworkOptions::new()
            .interfaces(&self.interface)
            .cipher(self.cipher);
        if let Some(discovery) = self.discovery {
            sockets = sockets.discovery(discovery);
        }
        if self.ipv6 {
            sockets = sockets.family(Family::V6);
        }
        if let Some(file) = &self.key {
            let key = qsm::read_key(file)
                .map_err(|error| Failure::usage(error.to_string(), error.remedy()))?;
            sockets = sockets.key(key);
        }
        if let Some(identity) = self.read_identity()? {
            sockets = sockets.identity(identity);
        }
        Ok(match self.multicast {
            Multicast::Auto => sockets,
            Multicast::Asm | Multicast::Ssm => sockets.multicast(true),
            Multicast::None => sockets.multicast(false),
        })
    }

    /// The identity that is named, if one is.
    fn read_identity(&self) -> Result<Option<Identity>, Failure> {
        let failed = |error: IdentityError| Failure::usage(error.cause(), error.remedy());
        let identity = match (&self.identity, &self.certificate) {
            (Some(key), _) => {
                let token = self.token.clone();
                let token = token.unwrap_or_else(|| key.with_extension("token"));
                Identity::read(key, token, self.root_of(key))
            }
            (None, Some(certificate)) => self.read_certificate(certificate),
            (None, None) => return self.check_nobody().map(|()| None),
        };
        let identity = identity.and_then(|identity| self.add_trust(identity));
        identity.map(Some).map_err(failed)
    }

    /// Checks that nothing is said about an identity where there is none.
    fn check_nobody(&self) -> Result<(), Failure> {
        let given = [&self.token, &self.root, &self.private_key, &self.trust];
        if given.iter().all(|file| file.is_none()) {
            return Ok(());
        }
        Err(Failure::usage(
            "--token, --root, --private-key and --trust say nothing without --identity or --certificate",
            "name the file of the node's key by --identity, which `qsm keygen FILE --node` makes, or that of its \
             certificate by --certificate",
        ))
    }

    fn read_certificate(&self, certificate: &Path) -> Result<Identity, IdentityError> {
        let key = self.private_key.clone();
        let key = key.unwrap_or_else(|| certificate.with_extension("key"));
        let identity = Identity::read_certificate(certificate, key)?;
        match &self.root {
            Some(root) => identity.trust_root_of(root),
            None => Ok(identity),
        }
    }

    fn add_trust(&self, mut identity: Identity) -> Result<Identity, IdentityError> {
        if let Some(trust) = &self.trust {
            identity = identity.trust_of(trust)?;
        }
        match &self.crl {
            Some(crl) => identity.revoked_of(crl),
            None => Ok(identity),
        }
    }

    /// File of the root's public key, for the key of a node in this file.
    fn root_of(&self, key: &Path) -> PathBuf {
        let root = self.root.clone();
        root.unwrap_or_else(|| key.with_file_name("root.pub"))
    }

    /// Returns whether nothing protects the cluster.
    pub fn is_open(&self) -> bool {
        let protected = [&self.key, &self.identity, &self.certificate];
        protected.iter().all(|file| file.is_none())
    }

    /// File of the list of revocations beside the root's public key, if there is one.
    pub fn revocations(&self) -> Option<PathBuf> {
        let root = match &self.identity {
            Some(key) => self.root_of(key),
            None => self.root.clone()?,
        };
        let list = root.with_file_name("revoked.list");
        list.exists().then_some(list)
    }

    /// The addresses that a membership service gives to regions.
    pub fn channels(&self) -> ChannelOptions {
        let channels = ChannelOptions::new()
            .port(self.data_port)
            .source_specific(self.multicast == Multicast::Ssm);
        match self.data_range {
            Some((first, prefix)) => channels.range(first, prefix),
            None => channels,
        }
    }
}

/// Whom a multicast address is received from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Multicast {
    /// As the interface suits it: anybody, on wireless ones and tunnels nobody
    Auto,
    /// Anybody
    Asm,
    /// Named senders (source-specific, RFC 4607)
    Ssm,
    /// Nobody: by unicast
    None,
}

fn range(text: &str) -> Result<(IpAddr, u8), String> {
    let parsed = text
        .split_once('/')
        .and_then(|(first, prefix)| Some((first.parse().ok()?, prefix.parse().ok()?)));
    let (first, prefix): (IpAddr, u8) =
        parsed.ok_or("not a range, such as 239.192.0.0/14 or ff15::/64")?;
    if !first.is_multicast() {
        return Err("not multicast addresses: those begin with 224 to 239, or ff".to_owned());
    }
    Ok((first, prefix))
}

/// A multicast address and a port.
///
/// # Errors
/// Not such an address.
pub fn multicast(text: &str) -> Result<SocketAddr, String> {
    let Place { address, zone } = Place::parse(text)?;
    if zone.is_some() {
        return Err("say the interface by --interface, not after the address".to_owned());
    }
    if !address.ip().is_multicast() {
        return Err("not a multicast address: those begin with 224 to 239, or ff".to_owned());
    }
    Ok(address)
}
