//! Relays that are killed in mid-stream.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use lab::LinkShape;

use super::layout::{CACHE, Layout, Sites};
use super::repair::whole;
use super::stage::Receiver;
use super::stream::Load;
use crate::cluster::Failure;
use crate::figure::{Bar, Finding};

/// Links between the sites.
const WIDE: LinkShape = LinkShape {
    delay: Duration::from_millis(50),
    jitter: Duration::ZERO,
    loss_ppm: 5000,
    rate: None,
    queue: u64::MAX,
    mark: u64::MAX,
    seed: 1,
};
/// Longest time without a message.
const GAP_MAX: f64 = 1.0;

/// Successor of a relay that is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Successor {
    /// A new process at the same address, at once, as a supervisor starts it.
    Restart,
    /// Another relay of the site, which all its receivers name as their second parent.
    SecondParent,
}

/// A relay that is killed by SIGKILL.
#[derive(Debug, Clone, Copy)]
pub struct Kill {
    /// Successor.
    pub successor: Successor,
    /// Its site: 0 is the source's, where the other site's relay is below it.
    pub site: usize,
    /// The stream; the kill is in its middle.
    pub load: Load,
}

impl Kill {
    /// Its name in tables.
    #[must_use]
    pub fn name(&self) -> String {
        let whose = match self.site {
            0 => "the source's site",
            _ => "the far site",
        };
        match self.successor {
            Successor::Restart => format!("relay of {whose} killed, started again at once"),
            Successor::SecondParent => format!("relay of {whose} killed, second parent"),
        }
    }

    /// Runs it once.
    ///
    /// # Errors
    /// A process fails.
    pub fn run(&self, program: &Path) -> Result<Vec<Finding>, Failure> {
        let layout = Layout {
            sites: 2,
            wide: WIDE,
            local: None,
        };
        let mut sites = layout.open(program, &[])?;
        let receivers = match self.successor {
            Successor::Restart => sites.start_receivers()?,
            Successor::SecondParent => self.start_with_second(&mut sites)?,
        };
        let feeder = sites.stage.publish(&mut sites.source, self.load)?;
        sleep(self.load.lasts / 2);
        let killed = sites.stage.now();
        sites.relays[self.site].kill()?;
        if self.successor == Successor::Restart {
            let parent = match self.site {
                0 => sites.source_address(),
                _ => sites.stage.at(sites.sites[0].relay),
            };
            sites.relays[self.site] = sites.start_relay(self.site, &parent)?;
        }
        let outcome = sites.stage.finish(feeder, receivers)?;
        let mut found = whole(&outcome);
        let gaps = outcome.ends.iter().map(|end| end.tape.gap_from(killed));
        let gap = gaps.max().unwrap_or(Duration::MAX).as_secs_f64();
        let what = "longest time without a message at any receiver, s";
        found.push(Finding::new(what, gap, Bar::Most(GAP_MAX)));
        if self.successor == Successor::SecondParent {
            let moved = outcome.ends.iter();
            let moved = moved.filter(|end| end.counter("parents_changed") > 0);
            let moved = moved.count() as f64;
            let what = "receivers that went on with the second parent";
            let own = sites.sites[self.site].receivers.len() as f64;
            found.push(Finding::new(what, moved, Bar::Least(own)));
        }
        Ok(found)
    }

    /// Starts the receivers, and a second relay at the host of the last of the site.
    fn start_with_second(&self, sites: &mut Sites) -> Result<Vec<Receiver>, Failure> {
        let parent = match self.site {
            0 => sites.source_address(),
            _ => sites.stage.at(sites.sites[0].relay),
        };
        let host = sites.sites[self.site].receivers.last().copied();
        let host = host.ok_or("a site has no receivers")?;
        let second = sites.stage.at(host);
        let relay = sites.stage.relay(host, &second, &parent, &CACHE)?;
        sites.relays.push(relay);
        let mut started = Vec::new();
        for (place, site) in sites.sites.iter().enumerate() {
            let first = sites.stage.at(site.relay);
            let parents = match place == self.site {
                true => vec![first.as_str(), second.as_str()],
                false => vec![first.as_str()],
            };
            for host in &site.receivers {
                started.push(sites.stage.receiver(*host, &parents, &[])?);
            }
        }
        Ok(started)
    }
}
