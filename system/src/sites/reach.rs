//! Ends that are hard to reach: behind translators of addresses, in a site without multicast, and on a
//! host whose address changes.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use lab::{HostId, Lab, LinkShape, Traffic};

use super::layout::CACHE;
use super::repair::whole;
use super::router::{Router, run};
use super::stage::{PORT, Stage, counter};
use super::stream::Load;
use crate::cluster::Failure;
use crate::figure::{Bar, Finding};

/// Link between the sites.
const WIDE: LinkShape = LinkShape {
    delay: Duration::from_millis(50),
    jitter: Duration::ZERO,
    loss_ppm: 5000,
    rate: None,
    queue: u64::MAX,
    mark: u64::MAX,
    seed: 1,
};
/// Added to an address that changes.
const ELSEWHERE: u32 = 1 << 14;
/// Longest time without a message when an address changes: reports are a second apart at most.
const GAP_MAX: f64 = 2.0;

/// Obstacle on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hurdle {
    /// Nothing.
    None,
    /// The far site is behind a translator.
    FarTranslator,
    /// Both are, each behind its own; at the source's one port is forwarded.
    BothTranslators,
    /// No multicast reaches the hosts of the far site.
    NoMulticast,
    /// A receiver's host gets another address in mid-stream.
    Laptop,
}

impl Hurdle {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::None,
        Self::FarTranslator,
        Self::BothTranslators,
        Self::NoMulticast,
        Self::Laptop,
    ];
}

/// A stream from one site to a relay and two receivers at another, over a link of 50 ms that loses half
/// a percent.
#[derive(Debug, Clone, Copy)]
pub struct Reach {
    /// Obstacle on the way.
    pub hurdle: Hurdle,
    /// The stream; an address changes in its middle.
    pub load: Load,
}

/// Hosts of the sites.
struct Hosts {
    source: HostId,
    relay: HostId,
    receivers: [HostId; 2],
    /// Of the source's site, and of the far one.
    routers: [HostId; 2],
}

/// Where the processes are.
struct Places {
    /// Where the source listens, and where others reach it.
    source: [String; 2],
    relay: String,
}

impl Reach {
    /// Its name in tables.
    #[must_use]
    pub fn name(&self) -> String {
        let name = match self.hurdle {
            Hurdle::None => "nothing in the way",
            Hurdle::FarTranslator => "the far site behind NAT",
            Hurdle::BothTranslators => "both sites behind NAT, the source's port forwarded",
            Hurdle::NoMulticast => "a site without multicast",
            Hurdle::Laptop => "a laptop that changes its address",
        };
        name.to_owned()
    }

    /// Runs it once.
    ///
    /// # Errors
    /// A process fails.
    pub fn run(&self, program: &Path) -> Result<Vec<Finding>, Failure> {
        let mut lab = Lab::new()?;
        let far = lab.add_site()?;
        lab.link(lab.first_site(), far, WIDE)?;
        let near = lab.add_hosts(2)?;
        let mut add = || lab.add_host_at(far);
        let hosts = Hosts {
            source: near[0],
            relay: add()?,
            receivers: [add()?, add()?],
            routers: [near[1], add()?],
        };
        let mut stage = Stage::new(lab, program);
        let places = self.prepare(&stage, &hosts)?;
        let [listen, source] = &places.source;
        let mut publisher = stage.source(hosts.source, listen, 2, &[])?;
        let relay = stage.relay(hosts.relay, &places.relay, source, &CACHE)?;
        let receivers = hosts.receivers;
        let receivers = receivers.map(|host| stage.receiver(host, &[&places.relay], &[]));
        let receivers = receivers.into_iter().collect::<Result<Vec<_>, _>>()?;
        let feeder = stage.publish(&mut publisher, self.load)?;
        sleep(self.load.lasts / 2);
        let middle = stage.now();
        if self.hurdle == Hurdle::Laptop {
            change_address(&stage.lab, hosts.receivers[0])?;
        }
        let outcome = stage.finish(feeder, receivers)?;
        let mut found = whole(&outcome);
        let gaps = outcome.ends.iter().map(|end| end.tape.gap_from(middle));
        let gap = gaps.max().unwrap_or(Duration::MAX).as_secs_f64();
        let what = "longest time without a message, s";
        found.push(Finding::new(what, gap, Bar::Most(GAP_MAX)));
        if self.hurdle == Hurdle::Laptop {
            let counters = relay.end()?;
            let moved = counter(&counters, "children_moved") as f64;
            found.push(Finding::new(
                "children whose move the relay followed",
                moved,
                Bar::Least(1.0),
            ));
        }
        Ok(found)
    }

    fn prepare(&self, stage: &Stage, hosts: &Hosts) -> Result<Places, Failure> {
        let (lab, [a, b]) = (&stage.lab, hosts.receivers);
        let mut places = Places {
            source: [stage.at(hosts.source), stage.at(hosts.source)],
            relay: stage.at(hosts.relay),
        };
        match self.hurdle {
            Hurdle::None | Hurdle::Laptop => {}
            Hurdle::NoMulticast => {
                for host in [hosts.relay, a, b] {
                    lab.set_loss(host, 1_000_000, Traffic::Multicast)?;
                }
            }
            Hurdle::FarTranslator | Hurdle::BothTranslators => {
                let far = Router::open(lab, hosts.routers[1], 2, &[hosts.relay, a, b])?;
                places.relay = at(far, 1);
            }
        }
        if self.hurdle == Hurdle::BothTranslators {
            let near = Router::open(lab, hosts.routers[0], 1, &[hosts.source])?;
            near.forward(lab, 1)?;
            places.source = [at(near, 1), stage.at(hosts.routers[0])];
        }
        Ok(places)
    }
}

fn at(router: Router, place: u8) -> String {
    format!("{}:{PORT}", router.address(place))
}

/// Takes a host's address away, and gives it another one.
fn change_address(lab: &Lab, host: HostId) -> Result<(), Failure> {
    let from = lab.host(host).address();
    let to = std::net::Ipv4Addr::from_bits(from.to_bits() + ELSEWHERE);
    run(lab, host, &format!("ip addr del {from}/16 dev eth0"))?;
    run(lab, host, &format!("ip addr add {to}/16 dev eth0"))
}
