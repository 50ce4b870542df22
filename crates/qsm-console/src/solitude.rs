//! A node that finds no others, and what may be the reason.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use qsm::{Event, Interface, Node, choose_interface, interfaces};

use crate::{loopback, reach};

/// A node that found no membership service and has had no other node for so long says why that may
/// be. Longer than starting a second program by hand takes.
const LONELY: Duration = Duration::from_secs(10);

/// Interfaces that are named, of those that a node does not use.
const NETWORKS_SHOWN: usize = 4;

/// A node that looked for a membership service in vain. That is so of the first one of a cluster, so
/// it is a reason to doubt multicast only when nobody has come for a while.
#[derive(Debug, Default)]
pub(crate) struct Solitude {
    say_at: Option<(SystemTime, SocketAddr)>,
    /// The node's own service.
    own: Option<SocketAddr>,
}

impl Solitude {
    pub(crate) fn take(&mut self, event: &Event, now: SystemTime) {
        match event {
            Event::ServiceEmbedded { address, discovery } => {
                self.say_at = discovery.map(|discovery| (now + LONELY, discovery));
                self.own = Some(*address);
            }
            // Until now nobody could be heard.
            Event::AddressLost { .. } | Event::Moved { .. } => {
                if let Some((at, _)) = &mut self.say_at {
                    *at = now + LONELY;
                }
            }
            Event::ServiceFound { address } if self.own == Some(*address) => {}
            // Another service, so there are others.
            Event::ServiceFound { .. } | Event::ServiceYielded => self.say_at = None,
            _ => {}
        }
    }

    /// The address at which no service answered, once, when it is time to see whether somebody has
    /// come.
    pub(crate) fn look(&mut self, now: SystemTime) -> Option<SocketAddr> {
        let (_, discovery) = self.say_at.take_if(|(at, _)| *at <= now)?;
        Some(discovery)
    }
}

/// Reasons, other than multicast, for which a node may find no others.
#[derive(Debug, Default)]
pub struct Doubts {
    cluster: Option<String>,
    /// Packets of other clusters that have come.
    strangers: u64,
    /// The node goes by loopback.
    loopback: Option<String>,
    /// It goes by one network, and the host has others.
    networks: Option<String>,
}

impl Doubts {
    /// As far as the node knows; an attached one knows nothing.
    #[must_use]
    pub fn of(node: &Node) -> Self {
        let Ok(snapshot) = node.stats() else {
            return Self::default();
        };
        Self {
            strangers: snapshot.protocol.discard_cluster,
            loopback: by_loopback(&snapshot.io.interface),
            networks: match snapshot.second {
                None => other_networks(&snapshot.io.interface, &interfaces().unwrap_or_default()),
                Some(_) => None,
            },
            cluster: Some(snapshot.cluster.to_string()),
        }
    }

    /// The reasons that show, if any do.
    #[must_use]
    pub fn sentence(&self) -> Option<String> {
        let cluster = self.cluster.as_deref().unwrap_or_default();
        let strangers = strangers(self.strangers, cluster);
        let reasons = [strangers, self.loopback.clone()].into_iter().flatten();
        let reasons = reasons.collect::<Vec<_>>().join("; ");
        (!reasons.is_empty()).then_some(reasons)
    }

    /// The option for the cluster, as it was given.
    #[must_use]
    pub fn option(&self) -> String {
        match &self.cluster {
            Some(cluster) => format!("--cluster {}", crate::table::printable(cluster)),
            None => "--cluster".to_owned(),
        }
    }
}

/// A line about so many packets of other clusters; `None` of none.
#[must_use]
pub fn strangers(packets: u64, cluster: &str) -> Option<String> {
    let cluster = crate::table::printable(cluster);
    (packets > 0)
        .then(|| format!("packets of another cluster arrive here: is --cluster {cluster} right?"))
}

/// A line about interfaces that the node does not use.
fn other_networks(chosen: &Interface, all: &[Interface]) -> Option<String> {
    let others = all.iter().filter(|other| {
        !other.loopback && other.name != chosen.name && other.family() == chosen.family()
    });
    let others: Vec<String> = others
        .take(NETWORKS_SHOWN)
        .map(ToString::to_string)
        .collect();
    (!chosen.loopback && !others.is_empty()).then(|| {
        let others = others.join(", ");
        format!("this node goes by {chosen}, and this host has {others} too (--interface)")
    })
}

fn by_loopback(chosen: &Interface) -> Option<String> {
    if !chosen.loopback {
        return None;
    }
    // What would be chosen now: other interfaces may be up again.
    match choose_interface(None, Some(chosen.family())) {
        Ok((now, _)) if now.loopback => loopback::reason(chosen),
        _ => Some(format!(
            "this node goes by {chosen}, which reaches this host alone (--interface)"
        )),
    }
}

/// Nobody has come.
pub(crate) fn still_alone(discovery: SocketAddr, doubts: &Doubts) -> String {
    let begin = format!(
        "still alone after {} s, which is no fault if no other node has been started",
        LONELY.as_secs()
    );
    if let Some(sentence) = doubts.sentence() {
        return format!("{begin}; {sentence}");
    }
    let networks = doubts.networks.as_deref();
    let networks = networks.map(|line| format!("are on another network: {line}, or "));
    format!(
        "{begin}. If others are running, they {}are of another cluster ({}), or multicast to \
         {discovery} does not pass between them and this node: {}, or start `qsm gms` and name it \
         with --service HOST:PORT at all",
        networks.unwrap_or_default(),
        doubts.option(),
        reach::REMEDY
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISCOVERY: &str = "239.192.83.77:4483";

    fn embedded(discovery: Option<SocketAddr>) -> Event {
        let address = "10.0.0.1:4481".parse().unwrap();
        Event::ServiceEmbedded { address, discovery }
    }

    #[test]
    fn a_first_node_doubts_multicast_only_after_a_while_and_once() {
        let address = "10.0.0.1:4481".parse().unwrap();
        let group: SocketAddr = DISCOVERY.parse().unwrap();
        let (mut solitude, start) = (Solitude::default(), SystemTime::UNIX_EPOCH);
        solitude.take(&embedded(Some(group)), start);
        // It is found like any other.
        solitude.take(&Event::ServiceFound { address }, start);
        assert_eq!(solitude.look(start + LONELY / 2), None);
        assert_eq!(solitude.look(start + LONELY), Some(group));
        assert_eq!(solitude.look(start + 2 * LONELY), None);
        solitude.take(&embedded(Some(group)), start);
        let address = "10.0.0.2:4481".parse().unwrap();
        solitude.take(&Event::ServiceFound { address }, start);
        assert_eq!(solitude.look(start + 2 * LONELY), None);
        solitude.take(&embedded(None), start);
        assert_eq!(solitude.look(start + 2 * LONELY), None);
    }

    #[test]
    fn a_node_whose_interface_was_down_has_its_time_from_when_it_is_back() {
        let group: SocketAddr = DISCOVERY.parse().unwrap();
        let (mut solitude, start) = (Solitude::default(), SystemTime::UNIX_EPOCH);
        solitude.take(&embedded(Some(group)), start);
        let at = "10.0.0.1:5000".parse().unwrap();
        let back = start + LONELY / 2;
        solitude.take(&Event::Moved { from: at, to: at }, back);
        assert_eq!(solitude.look(start + LONELY), None);
        assert_eq!(solitude.look(back + LONELY), Some(group));
    }

    #[test]
    fn a_lonely_node_blames_what_shows_before_multicast() {
        let discovery = DISCOVERY.parse().unwrap();
        let doubts = |strangers, loopback: Option<&str>| Doubts {
            cluster: Some("blue".to_owned()),
            strangers,
            loopback: loopback.map(str::to_owned),
            networks: None,
        };
        let line = still_alone(discovery, &doubts(0, None));
        for part in [
            "multicast to 239.192.83.77:4483",
            "--service",
            "IGMP",
            "another cluster (--cluster blue)",
        ] {
            assert!(line.contains(part), "{line}");
        }
        let line = still_alone(discovery, &doubts(3, None));
        let expected = "still alone after 10 s, which is no fault if no other node has been started; \
                        packets of another cluster arrive here: is --cluster blue right?";
        assert_eq!(line, expected);
        let line = still_alone(discovery, &doubts(3, Some("eth0 is down")));
        assert_eq!(line, format!("{expected}; eth0 is down"));
        let line = still_alone(discovery, &doubts(0, Some("eth0 is down")));
        assert!(
            line.ends_with("; eth0 is down") && !line.contains("multicast"),
            "{line}"
        );
    }
}
