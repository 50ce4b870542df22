use std::net::SocketAddr;
use std::time::Duration;

use qsm_proto::view::Layout;
use qsm_proto::{Limits, Pace, Recovery};
use qsm_wire::Coverage;

use crate::error::StartError;
use crate::handoff::gate::GateLimits;
use crate::runtime::network::{ChannelOptions, NetworkOptions};
use crate::runtime::tap::Tap;
use crate::runtime::threads::ThreadOptions;

/// Longest name of a node or a cluster, bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// Whether a node runs a membership service of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Embedded {
    /// If it was told of none and has found none for about a second. When several nodes do so,
    /// all but one of the services yield.
    #[default]
    IfNoneFound,
    /// Never; it waits until it finds one.
    Never,
    /// At once.
    Always,
}

/// Settings of a node.
#[derive(Debug, Clone)]
pub(crate) struct NodeSettings {
    pub(crate) name: Option<String>,
    pub(crate) version: String,
    pub(crate) cluster: String,
    pub(crate) service: Option<SocketAddr>,
    pub(crate) embedded: Embedded,
    pub(crate) network: NetworkOptions,
    pub(crate) channels: ChannelOptions,
    /// Of a service that it embeds.
    pub(crate) gone_after: Option<Duration>,
    /// Likewise.
    pub(crate) slow_after: Option<Duration>,
    /// Likewise.
    pub(crate) plan_every: Option<Duration>,
    pub(crate) datagram_bytes: Option<usize>,
    pub(crate) coverage: Coverage,
    pub(crate) layout: Layout,
    pub(crate) limits: Limits,
    pub(crate) recovery: Recovery,
    pub(crate) pace: Pace,
    pub(crate) queues: GateLimits,
    pub(crate) request_timeout: Duration,
    pub(crate) threads: ThreadOptions,
    pub(crate) tap: Option<Tap>,
}

pub(crate) fn check_name(of: &'static str, name: &str) -> Result<(), StartError> {
    let (length, max) = (name.len(), NAME_BYTES_MAX);
    if length == 0 || length > max || name.chars().any(char::is_control) {
        return Err(StartError::Name { of, length, max });
    }
    Ok(())
}
