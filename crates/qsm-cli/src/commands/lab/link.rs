//! Links between the sites of a lab, as the command line has them.

use std::fmt::Write as _;
use std::str::FromStr;
use std::time::Duration;

use lab::{HostId, Lab, LabError, LinkCounters, LinkId, LinkShape, SiteId};
use qsm_advise::BitRate;
use qsm_console::failure::Failure;
use qsm_console::options::{duration, loss_ppm, size};

/// Most sites of a lab.
const SITES_MAX: usize = 64;
const BITS_PER_BYTE: f64 = 8.0;

/// A link of `--link`: two sites, and what happens to packets between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LinkOption {
    a: usize,
    b: usize,
    shape: LinkShape,
}

impl FromStr for LinkOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (sites, properties) = text.split_once(':').unwrap_or((text, ""));
        let place = |site: &str| site.parse().ok().filter(|site| *site < SITES_MAX);
        let ends = sites.split_once('-').map(|(a, b)| (place(a), place(b)));
        let Some((Some(a), Some(b))) = ends else {
            return Err(format!(
                "{sites:?} is not a pair of sites, such as 0-1; sites are numbered from 0, up to {}",
                SITES_MAX - 1
            ));
        };
        let mut shape = LinkShape::default();
        let (mut queue, mut mark) = (None, None);
        for property in properties.split(',').filter(|part| !part.is_empty()) {
            let (name, value) = property.split_once('=').unwrap_or((property, ""));
            match name {
                "delay" => shape.delay = duration(value)?,
                "jitter" => shape.jitter = duration(value)?,
                "loss" => shape.loss_ppm = loss_ppm(value)?,
                "rate" => shape = shape.with_rate(rate(value)?),
                "queue" => queue = Some(size(value)? as u64),
                "mark" => mark = Some(Mark::from_str(value)?),
                _ => {
                    return Err(format!(
                        "a link has no {name:?}; it has delay, jitter, loss, rate, queue and mark"
                    ));
                }
            }
        }
        let Some(rate) = shape.rate else {
            return match (queue, mark) {
                (None, None) => Ok(Self { a, b, shape }),
                _ => Err("a queue and marks need a rate: without one nothing waits".to_owned()),
            };
        };
        shape.queue = queue.unwrap_or(shape.queue);
        shape.mark = mark.map_or(shape.mark, |mark| mark.bytes(rate));
        Ok(Self { a, b, shape })
    }
}

/// Length of a queue behind which packets are marked.
#[derive(Debug, Clone, Copy)]
enum Mark {
    /// Bytes that wait.
    Bytes(u64),
    /// Time for which they wait.
    Time(Duration),
}

impl Mark {
    fn bytes(self, rate: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Time(time) => {
                let bytes = time.as_nanos() * u128::from(rate) / 1_000_000_000;
                u64::try_from(bytes).unwrap_or(u64::MAX)
            }
        }
    }
}

impl FromStr for Mark {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.ends_with('s') {
            true => duration(text).map(Self::Time),
            false => size(text).map(|bytes| Self::Bytes(bytes as u64)),
        }
    }
}

/// Bytes a second.
fn rate(text: &str) -> Result<u64, String> {
    let whole = match text.ends_with("/s") {
        true => text.to_owned(),
        false => format!("{text}/s"),
    };
    let BitRate(bits) = whole.parse().map_err(|error| format!("{error}"))?;
    // Not negative; what is too large is no limit at all.
    Ok((bits / BITS_PER_BYTE) as u64)
}

/// The sites of a lab, and the links between them.
pub(super) struct Sites {
    sites: Vec<SiteId>,
    links: Vec<(LinkOption, LinkId)>,
}

impl Sites {
    /// Makes the sites that links name, 0 at least, and the links.
    pub(super) fn make(lab: &mut Lab, links: &[LinkOption], seed: u64) -> Result<Self, Failure> {
        let last = links.iter().map(|link| link.a.max(link.b)).max();
        let last = last.unwrap_or(0);
        let mut sites = vec![lab.first_site()];
        for _ in 0..last {
            sites.push(lab.add_site()?);
        }
        let alone = |site: &usize| links.iter().all(|link| link.a != *site && link.b != *site);
        if let Some(site) = (0..=last).find(alone).filter(|_| last > 0) {
            return Err(Failure::usage(
                format!("no link leads to site {site}"),
                format!("give one with --link {site}-0:delay=10ms, or number sites without gaps"),
            ));
        }
        let mut made = Vec::new();
        for (link, index) in links.iter().zip(0..) {
            let seed = seed.wrapping_add(index << 32);
            let shape = LinkShape { seed, ..link.shape };
            made.push((*link, lab.link(sites[link.a], sites[link.b], shape)?));
        }
        Ok(Self { sites, links: made })
    }

    /// Adds hosts, as evenly as can be: the first ones at the first site, and so on.
    pub(super) fn add_hosts(&self, lab: &mut Lab, hosts: usize) -> Result<Vec<HostId>, LabError> {
        let place = |host| lab_site(host, hosts, self.sites.len());
        (0..hosts)
            .map(|host| lab.add_host_at(self.sites[place(host)]))
            .collect()
    }

    /// The site of a host, by its place among so many.
    pub(super) fn of_host(&self, host: usize, hosts: usize) -> usize {
        lab_site(host, hosts, self.sites.len())
    }

    /// Counts of what links have done, a line for each.
    pub(super) fn report(&self, lab: &Lab) -> Result<String, LabError> {
        let mut text = String::new();
        for (LinkOption { a, b, .. }, id) in &self.links {
            let [to, back] = lab.link_counters(*id)?;
            let (to, back) = (counted(*a, *b, to), counted(*b, *a, back));
            // Writing to a String cannot fail.
            writeln!(text, "qsm: link {a}-{b}: {to}; {back}").unwrap_or_default();
        }
        Ok(text)
    }
}

fn lab_site(host: usize, hosts: usize, sites: usize) -> usize {
    host * sites / hosts.max(1)
}

fn counted(from: usize, to: usize, of: LinkCounters) -> String {
    let marked = match of.marked_packets {
        0 => String::new(),
        packets => format!(", {packets} marked"),
    };
    format!(
        "from {from} to {to} {} packets passed, {} lost, {} overflowed{marked}",
        of.passed_packets, of.lost_packets, of.overflowed_packets
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_read() {
        let link: LinkOption = "0-1:delay=50ms,jitter=2ms,loss=0.5%,rate=1Gbit,queue=1M"
            .parse()
            .unwrap();
        assert_eq!((link.a, link.b), (0, 1));
        let expected = LinkShape {
            delay: Duration::from_millis(50),
            jitter: Duration::from_millis(2),
            loss_ppm: 5000,
            rate: Some(125_000_000),
            queue: 1 << 20,
            mark: u64::MAX,
            seed: 1,
        };
        assert_eq!(link.shape, expected);
        let plain: LinkOption = "2-0".parse().unwrap();
        assert_eq!(plain.shape, LinkShape::default());
        let rated: LinkOption = "0-1:rate=10Mbit/s".parse().unwrap();
        assert_eq!((rated.shape.queue, rated.shape.mark), (125_000, u64::MAX));
        for (mark, bytes) in [("20ms", 25_000), ("30k", 30 << 10), ("1500", 1500)] {
            let marking: LinkOption = format!("0-1:mark={mark},rate=10Mbit").parse().unwrap();
            assert_eq!(marking.shape.mark, bytes);
        }
    }

    #[test]
    fn mistakes_in_links_are_named() {
        for (text, wrong) in [
            ("0", "pair of sites"),
            ("0-x:delay=1ms", "pair of sites"),
            ("0-64", "up to 63"),
            ("0-1:lag=5ms", "no \"lag\""),
            ("0-1:delay=fast", "not a time"),
            ("0-1:queue=1M", "need a rate"),
            ("0-1:mark=20ms", "need a rate"),
            ("0-1:rate=10Mbit,mark=fast", "number of bytes"),
            ("0-1:rate=fast", "fast"),
        ] {
            let error = text.parse::<LinkOption>().unwrap_err();
            assert!(error.contains(wrong), "{text}: {error}");
        }
    }

    #[test]
    fn hosts_are_divided_evenly() {
        let of = |hosts, sites| {
            (0..hosts)
                .map(|host| lab_site(host, hosts, sites))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(5, 2), [0, 0, 0, 1, 1]);
        assert_eq!(of(4, 2), [0, 0, 1, 1]);
        assert_eq!(of(3, 3), [0, 1, 2]);
    }
}
