//! Settings of a node, by name and as text.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::str::FromStr;
use std::time::Duration;

use qsm::{
    Builder, ChannelOptions, Embedded, Family, LatencyBudget, NetworkOptions, Node, StartError,
};

/// A setting: its name, and its meaning with unit and default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// As [`Settings::set`] takes it; as the command line has it, without the dashes.
    pub name: &'static str,
    /// A sentence.
    pub meaning: &'static str,
}

/// All settings, by name.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "admin",
        meaning: "yes or no: operators can ask the node by its local socket (yes).",
    },
    Setting {
        name: "cluster",
        meaning: "Name of the cluster, 1 to 64 bytes (default).",
    },
    Setting {
        name: "cores",
        meaning: "Core threads, 1 to 64 (1).",
    },
    Setting {
        name: "data-port",
        meaning: "UDP port of the multicast addresses (4484).",
    },
    Setting {
        name: "embedded",
        meaning: "if-none-found, never or always: when the node runs a membership service itself \
                  (if-none-found).",
    },
    Setting {
        name: "family",
        meaning: "4 or 6: IPv4 or IPv6 (that of the addresses given, else 4).",
    },
    Setting {
        name: "gone-after",
        meaning: "Seconds that silent nodes are waited for, if the node runs a service (30).",
    },
    Setting {
        name: "interface",
        meaning: "Name or address of the network interface; two, divided by a comma, for two \
                  networks (the most fitting).",
    },
    Setting {
        name: "latency-budget",
        meaning: "Seconds that messages may take in all; the stage that takes longer than its share is \
                  named by an event (none).",
    },
    Setting {
        name: "metrics",
        meaning: "ADDRESS:PORT at which metrics are served by HTTP (nowhere).",
    },
    Setting {
        name: "multicast",
        meaning: "any, ssm or none: any source, source-specific, or copies by unicast (any).",
    },
    Setting {
        name: "name",
        meaning: "Name of the node, 1 to 64 bytes (the host's name and the process's number).",
    },
    Setting {
        name: "payload-checksums",
        meaning: "yes or no: checksums cover messages too (no).",
    },
    Setting {
        name: "queue-bytes",
        meaning: "Bytes that a publisher's queue holds before sending waits.",
    },
    Setting {
        name: "receive-buffer",
        meaning: "Bytes of each socket's receive buffer.",
    },
    Setting {
        name: "retention",
        meaning: "Bytes that are kept for nodes that are away (64M).",
    },
    Setting {
        name: "send-limit",
        meaning: "Bytes that the node sends in a second, all together (no limit).",
    },
    Setting {
        name: "service",
        meaning: "HOST:PORT of the membership service (looked for by multicast). While it is silent, the \
                  host is looked up again.",
    },
    Setting {
        name: "slow-after",
        meaning: "Seconds that slow nodes are waited for, if the node runs a service (10).",
    },
    Setting {
        name: "spin",
        meaning: "yes or no: core threads never sleep (no).",
    },
    Setting {
        name: "ttl",
        meaning: "Hops that multicast may take (1).",
    },
    Setting {
        name: "unicast-port",
        meaning: "UDP port of the node; 0 for any (0).",
    },
];

/// Why a setting was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettingError {
    /// There is no setting of that name.
    Unknown {
        /// The name.
        name: String,
    },
    /// The text is no value of the setting.
    Value {
        /// The setting.
        name: &'static str,
        /// The text.
        text: String,
        /// The remedy: what it takes.
        takes: String,
    },
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name } => {
                let names: Vec<_> = SETTINGS.iter().map(|setting| setting.name).collect();
                let names = names.join(", ");
                write!(f, "there is no setting {name:?}; there are {names}")
            }
            Self::Value { name, text, takes } => {
                write!(f, "{text:?} is no value of {name}; give {takes}")
            }
        }
    }
}

impl std::error::Error for SettingError {}

/// Settings of a node to be started.
///
/// ```
/// use qsm_binding::Settings;
///
/// let mut settings = Settings::default();
/// settings.set("retention", "1G")?;
/// let error = settings.set("retention", "much").unwrap_err().to_string();
/// assert_eq!(error, r#""much" is no value of retention; give bytes, such as 64M"#);
/// # Ok::<(), qsm_binding::SettingError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Settings {
    builder: Option<Builder>,
    network: NetworkOptions,
    channels: ChannelOptions,
}

impl Settings {
    /// Takes one of [`SETTINGS`]; the last value given counts.
    ///
    /// # Errors
    /// [`SettingError`].
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), SettingError> {
        let known = SETTINGS.iter().find(|setting| setting.name == name);
        let Some(Setting { name, .. }) = known else {
            let name = name.to_owned();
            return Err(SettingError::Unknown { name });
        };
        let value = Value { name, text };
        match *name {
            "data-port" | "multicast" | "family" | "interface" | "receive-buffer" | "ttl"
            | "unicast-port" => self.set_network(&value),
            _ => self.set_node(&value),
        }
    }

    /// Starts a node with them.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(self) -> Result<Node, StartError> {
        let builder = self.builder.unwrap_or_else(Node::builder);
        builder
            .network(self.network)
            .channels(self.channels)
            .start()
    }

    fn set_network(&mut self, value: &Value<'_>) -> Result<(), SettingError> {
        let network = self.network.clone();
        self.network = match value.name {
            "data-port" => {
                self.channels = self.channels.port(value.number("a port")?);
                network
            }
            "multicast" => {
                let kinds = [
                    ("any", (true, false)),
                    ("ssm", (true, true)),
                    ("none", (false, false)),
                ];
                let (multicast, source_specific) = value.one_of(&kinds)?;
                self.channels = self.channels.source_specific(source_specific);
                network.multicast(multicast)
            }
            "family" => network.family(value.one_of(&[("4", Family::V4), ("6", Family::V6)])?),
            "interface" => network.interfaces(value.text.split(',').map(str::trim)),
            "receive-buffer" => network.receive_buffer(value.bytes()?),
            "ttl" => network.ttl(value.number("hops, 0 to 255")?),
            _ => network.unicast_port(value.number("a port, or 0")?),
        };
        Ok(())
    }

    fn set_node(&mut self, value: &Value<'_>) -> Result<(), SettingError> {
        let builder = self.builder.clone().unwrap_or_else(Node::builder);
        self.builder = Some(match value.name {
            "admin" => builder.admin(value.yes()?),
            "cluster" => builder.cluster(value.text),
            "cores" => builder.cores(value.number("core threads, 1 to 64")?),
            "embedded" => builder.embedded_service(value.one_of(&[
                ("if-none-found", Embedded::IfNoneFound),
                ("never", Embedded::Never),
                ("always", Embedded::Always),
            ])?),
            "gone-after" => builder.gone_after(value.seconds()?),
            "latency-budget" => builder.latency_budget(LatencyBudget::new(value.seconds()?)),
            "metrics" => builder.metrics(value.number("an address and a port")?),
            "name" => builder.name(value.text),
            "payload-checksums" => builder.payload_checksums(value.yes()?),
            "queue-bytes" => builder.queue_bytes(value.bytes()?),
            "retention" => builder.retention_bytes(value.bytes()?),
            "send-limit" => builder.send_limit(value.bytes()? as u64),
            "service" => value.service(builder)?,
            "slow-after" => builder.slow_after(value.seconds()?),
            _ => builder.spin(value.yes()?),
        });
        Ok(())
    }
}

/// The text of a setting, to be read.
struct Value<'a> {
    name: &'static str,
    text: &'a str,
}

impl Value<'_> {
    fn error(&self, takes: impl Into<String>) -> SettingError {
        SettingError::Value {
            name: self.name,
            text: self.text.to_owned(),
            takes: takes.into(),
        }
    }

    fn number<T: FromStr>(&self, takes: &str) -> Result<T, SettingError> {
        self.text.parse().map_err(|_| self.error(takes))
    }

    fn yes(&self) -> Result<bool, SettingError> {
        self.one_of(&[("yes", true), ("no", false)])
    }

    fn one_of<T: Copy>(&self, values: &[(&str, T)]) -> Result<T, SettingError> {
        let named = values.iter().find(|(name, _)| *name == self.text);
        named.map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<_> = values.iter().map(|(name, _)| *name).collect();
            self.error(format!("one of {}", names.join(", ")))
        })
    }

    fn seconds(&self) -> Result<Duration, SettingError> {
        let error = || self.error("seconds, such as 0.5");
        let seconds = self.text.parse().map_err(|_| error())?;
        Duration::try_from_secs_f64(seconds).map_err(|_| error())
    }

    /// With K, M or G for powers of 1024.
    fn bytes(&self) -> Result<usize, SettingError> {
        let (digits, shift) = match self.text.as_bytes().last() {
            Some(b'K') => (&self.text[..self.text.len() - 1], 10),
            Some(b'M') => (&self.text[..self.text.len() - 1], 20),
            Some(b'G') => (&self.text[..self.text.len() - 1], 30),
            _ => (self.text, 0),
        };
        let number: Option<usize> = digits.parse().ok();
        let bytes = number.and_then(|number| number.checked_mul(1 << shift));
        bytes.ok_or_else(|| self.error("bytes, such as 64M"))
    }

    /// Where the service is, looked up again while it is silent.
    fn service(&self, builder: Builder) -> Result<Builder, SettingError> {
        let first = self.address()?;
        let place = self.text.to_owned();
        let lookup = move || {
            place
                .to_socket_addrs()
                .map_or(Vec::new(), Iterator::collect)
        };
        Ok(builder.service(first).service_lookup(lookup))
    }

    fn address(&self) -> Result<SocketAddr, SettingError> {
        let takes = "a host or an address, and a port, such as gms.example:4481";
        let found = self.text.to_socket_addrs();
        let found = found.map_err(|error| self.error(format!("{takes} ({error})")))?;
        // IPv4 first, as everywhere.
        let first = found.min_by_key(|address| Family::of(address.ip()));
        first.ok_or_else(|| self.error(takes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, text: &str) -> Result<(), String> {
        let mut settings = Settings::default();
        settings.set(name, text).map_err(|error| error.to_string())
    }

    #[test]
    fn each_setting_takes_its_values_and_no_other() {
        let good = [
            ("admin", "no"),
            ("cluster", "c"),
            ("cores", "2"),
            ("data-port", "4500"),
            ("embedded", "never"),
            ("family", "6"),
            ("gone-after", "2.5"),
            ("interface", "lo, eth0"),
            ("latency-budget", "0.005"),
            ("metrics", "127.0.0.1:0"),
            ("multicast", "ssm"),
            ("name", "n"),
            ("payload-checksums", "yes"),
            ("queue-bytes", "1K"),
            ("receive-buffer", "4194304"),
            ("retention", "1G"),
            ("send-limit", "10M"),
            ("service", "localhost:4481"),
            ("slow-after", "0"),
            ("spin", "yes"),
            ("ttl", "2"),
            ("unicast-port", "0"),
        ];
        let names: Vec<_> = SETTINGS.iter().map(|setting| setting.name).collect();
        assert_eq!(good.map(|(name, _)| name).as_slice(), names);
        for (name, text) in good {
            assert_eq!(set(name, text), Ok(()), "{name}");
            let free = ["cluster", "interface", "name"].contains(&name);
            assert_eq!(set(name, "x x").is_ok(), free, "{name}");
        }
    }

    #[test]
    fn an_unknown_setting_names_the_known_ones() {
        let error = set("colour", "red").unwrap_err();
        assert!(error.starts_with("there is no setting \"colour\"; there are admin, cluster,"));
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        for (name, text) in [
            ("ttl", "256"),
            ("retention", "99999999999G"),
            ("gone-after", "-1"),
        ] {
            assert!(set(name, text).is_err(), "{name} {text}");
        }
    }
}
