use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use qsm_gms::ServiceHints;
use qsm_proto::view::Layout;
use qsm_proto::{Limits, Pace, Recovery};
use qsm_record::JournalOptions;
use qsm_wire::Coverage;

use crate::error::StartError;
use crate::handoff::gate::GateLimits;
use crate::latency::LatencyBudget;
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

/// Where the inputs of the state machines go.
#[derive(Debug, Clone)]
pub(crate) struct RecordingSettings {
    /// The file of the first core; those of the others have a number behind the name.
    pub(crate) path: Option<PathBuf>,
    /// Most bytes of each file.
    pub(crate) limit_bytes: u64,
}

impl RecordingSettings {
    /// Of the core in this place.
    pub(crate) fn of_core(&self, place: usize) -> Option<JournalOptions> {
        let mut path = self.path.clone()?.into_os_string();
        if place > 0 {
            path.push(format!(".{}", place + 1));
        }
        Some(JournalOptions {
            path: path.into(),
            limit_bytes: self.limit_bytes,
        })
    }
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
    /// Likewise.
    pub(crate) plan_unwanted_ppm: u32,
    /// Packets a second that a common region saves, if it embeds the service; `None`: none is made.
    pub(crate) plan_common: Option<u32>,
    /// Hints of the designer, if it embeds the service.
    pub(crate) hints: ServiceHints,
    /// File of the list of revocations, if it embeds the service of a cluster that takes tokens.
    pub(crate) revoked: Option<PathBuf>,
    /// Operators may ask the node, and the service if it embeds it.
    pub(crate) admin: bool,
    pub(crate) datagram_bytes: Option<usize>,
    pub(crate) coverage: Coverage,
    pub(crate) layout: Layout,
    pub(crate) limits: Limits,
    pub(crate) recovery: Recovery,
    pub(crate) pace: Pace,
    pub(crate) queues: GateLimits,
    pub(crate) request_timeout: Duration,
    pub(crate) threads: ThreadOptions,
    pub(crate) latency_budget: Option<LatencyBudget>,
    /// Delivers to its own subscriptions what it publishes, too.
    pub(crate) own_messages: bool,
    pub(crate) tap: Option<Tap>,
    pub(crate) recording: RecordingSettings,
}

pub(crate) fn check_name(of: &'static str, name: &str) -> Result<(), StartError> {
    let (length, max) = (name.len(), NAME_BYTES_MAX);
    if length == 0 || length > max || name.chars().any(char::is_control) {
        return Err(StartError::Name { of, length, max });
    }
    Ok(())
}
