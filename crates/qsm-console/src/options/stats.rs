//! The option of commands that count.

use std::net::{Ipv4Addr, SocketAddr};
#[cfg(feature = "otlp")]
use std::time::Duration;

use clap::{Args, ValueEnum};

/// Form in which counters are said at the end.
#[derive(Debug, Clone, Copy, Args)]
pub struct StatsOptions {
    /// Say on stderr at the end what was counted, in this format; --verbose alone means text
    #[arg(long, value_name = "FORMAT", value_enum)]
    stats: Option<StatsFormat>,
    /// Serve what is counted by HTTP while it runs, for Prometheus and the like: /metrics in the
    /// format of OpenMetrics, at this address or, with a port alone, at 127.0.0.1; port 0: any, which
    /// a line on stderr names
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = local_address)]
    pub metrics: Option<SocketAddr>,
    /// Send what is counted to a collector of OpenTelemetry (OTLP, HTTP with JSON), as well at the end:
    /// http://localhost:4318/v1/metrics
    #[cfg(feature = "otlp")]
    #[arg(long, value_name = "URL", value_parser = for_ever)]
    pub otlp: Option<&'static str>,
    /// Time between two such sendings
    #[cfg(feature = "otlp")]
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = super::seconds, requires = "otlp")]
    pub otlp_every: Duration,
}

/// Options are copied; there is one of these in a process.
#[cfg(feature = "otlp")]
fn for_ever(text: &str) -> Result<&'static str, std::convert::Infallible> {
    Ok(text.to_owned().leak())
}

/// Reads an address and a port; a port alone is one of this host.
///
/// # Errors
/// It is neither, in words.
pub fn local_address(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse().ok();
    let local = port.map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    local.or_else(|| text.parse().ok()).ok_or_else(|| {
        "not a port, nor an address and a port, such as 9464, 0.0.0.0:9464 or [::1]:9464".to_owned()
    })
}

/// Form of what was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StatsFormat {
    /// Lines for people, of what is not zero
    Text,
    /// One JSON object in a line
    Json,
    /// The text that Prometheus reads
    Prometheus,
}

impl StatsOptions {
    /// The format, if anything is to be said.
    #[must_use]
    pub fn format(self, verbose: bool) -> Option<StatsFormat> {
        let spoken = verbose.then_some(StatsFormat::Text);
        self.stats.or(spoken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_one_of_loopback() {
        let parsed = |text| local_address(text).map(|at| at.to_string());
        assert_eq!(parsed("9464").as_deref(), Ok("127.0.0.1:9464"));
        assert_eq!(parsed("0.0.0.0:9464").as_deref(), Ok("0.0.0.0:9464"));
        assert_eq!(parsed("[::1]:0").as_deref(), Ok("[::1]:0"));
        for wrong in ["", "70000", "host", "10.0.0.1", ":9464"] {
            let error = parsed(wrong).unwrap_err();
            assert!(error.contains("such as 9464"), "{wrong}: {error}");
        }
    }
}
