//! Verdicts about what was seen between peers.

use std::net::SocketAddr;
use std::time::Duration;

use super::evidence::{Course, Evidence, Kind, Path, Peer};
use super::lead::{HOPS, HOPS_OF_NODES};
use super::place::{Ends, Place};
use super::probe::Way;
use super::report::{HostFindings, PathFindings, PeersReport};
use crate::report::{Finding, Verdict};

/// A loss from here on is a fault: one of a hundred.
const FAULT_SHARE: u64 = 100;
/// Linux forgets a membership after 260 s without an answer (RFC 3376, section 8.4), and so do switches.
const MEMBERSHIP: Duration = Duration::from_secs(260);
/// Probability from which on losses are no chance: one report of a million would be wrong.
const CHANCE: f64 = 1e-6;
/// Rounds of the watch without an arrival that are more than chance.
const ROUNDS: usize = 2;

/// Judges what was seen.
#[must_use]
pub fn judge(evidence: &Evidence) -> PeersReport {
    let hosts = evidence.peers.iter().map(|peer| HostFindings {
        host: peer.address.to_string(),
        name: peer.name.clone(),
        findings: vec![
            sight(peer),
            querier(evidence, peer),
            foreign(evidence, peer),
        ],
    });
    let absent = evidence.absent.iter().map(|one| HostFindings {
        host: one.name.clone(),
        name: String::new(),
        findings: vec![
            finding("reachable", Verdict::Fault, format!("no doctor answers: {}", one.reason)).with(
                "run `qsm doctor --listen` there, with the same version of qsm, and let TCP to its port pass",
            ),
        ],
    });
    let paths = evidence.paths.iter().map(|path| {
        let ends = Ends::of(evidence, path);
        PathFindings {
            from: ends.from.address.to_string(),
            to: ends.to.address.to_string(),
            findings: examine(evidence, path),
        }
    });
    PeersReport {
        hosts: hosts.chain(absent).collect(),
        paths: paths.collect(),
    }
}

fn examine(evidence: &Evidence, path: &Path) -> Vec<Finding> {
    let one = One { evidence, path };
    vec![
        one.reach("unicast", Way::Unicast),
        one.reach("multicast", Way::Multicast),
        one.size(),
        one.fragments(),
        one.trains(),
        one.order(),
        one.hops(),
        one.beside(),
        one.survival(),
    ]
}

fn finding(id: &'static str, verdict: Verdict, evidence: impl Into<String>) -> Finding {
    Finding {
        id,
        verdict,
        evidence: evidence.into(),
        remedy: String::new(),
        changes: Vec::new(),
    }
}

impl Finding {
    fn with(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }
}

fn sight(peer: &Peer) -> Finding {
    let id = "sight";
    match &peer.blind {
        None => finding(id, Verdict::Ok, "it sees packets at its card"),
        Some(why) => finding(
            id,
            Verdict::Unknown,
            format!("it does not see packets at its card: {why}"),
        )
        .with("run its doctor as root to be told where something is lost"),
    }
}

fn querier(evidence: &Evidence, peer: &Peer) -> Finding {
    let (id, seconds) = ("querier", evidence.watched.as_secs());
    if peer.queries > 0 {
        let queries = peer.queries;
        return finding(
            id,
            Verdict::Ok,
            format!("somebody asks for memberships: {queries} queries came"),
        );
    }
    if peer.blind.is_some() {
        return finding(id, Verdict::Unknown, "it does not see packets at its card");
    }
    let survived = evidence.paths.iter().all(|path| {
        let one = One { evidence, path };
        one.survival().verdict == Verdict::Ok
    });
    match evidence.watched >= MEMBERSHIP && survived {
        true => finding(
            id,
            Verdict::Ok,
            format!(
                "nobody asks for memberships, and multicast passes after {seconds} s all the same"
            ),
        ),
        false => finding(
            id,
            Verdict::Unknown,
            match seconds {
                0 => "queries for memberships were not waited for".to_owned(),
                _ => format!(
                    "no query for memberships came within {seconds} s; queriers ask every 125 s"
                ),
            },
        )
        .with("look for longer: --for 300"),
    }
}

fn foreign(evidence: &Evidence, peer: &Peer) -> Finding {
    let (id, group) = ("foreign-traffic", evidence.group);
    match peer.foreign {
        0 => finding(id, Verdict::Ok, format!("nobody else sends to {group}")),
        count => finding(
            id,
            Verdict::Warning,
            format!("{count} datagrams of another program came to {group}"),
        )
        .with("give nodes a range of multicast addresses that nobody else uses (--data-range)"),
    }
}

/// A path that is judged.
#[derive(Clone, Copy)]
struct One<'a> {
    evidence: &'a Evidence,
    path: &'a Path,
}

impl<'a> One<'a> {
    fn ends(self) -> Ends<'a> {
        Ends::of(self.evidence, self.path)
    }

    fn target(self, way: Way) -> SocketAddr {
        match way {
            Way::Unicast => self.ends().to.unicast,
            Way::Multicast => self.evidence.group,
            Way::Beside => self.evidence.beside,
        }
    }

    fn course(self, way: Way, kind: Kind) -> Option<&'a Course> {
        self.path.course(way, kind)
    }

    /// Something arrives, and more than half of it: so that the rest can be judged.
    fn passes(self, way: Way) -> bool {
        let single = self.course(way, Kind::Single);
        single.is_some_and(|course| 2 * course.arrived > course.wanted)
    }

    /// The ways that can be judged.
    fn ways(self) -> impl Iterator<Item = (Way, &'static str)> {
        let ways = [(Way::Unicast, "unicast"), (Way::Multicast, "multicast")];
        ways.into_iter().filter(move |(way, _)| self.passes(*way))
    }

    /// Packets of the interface's size pass.
    fn full(self, way: Way) -> bool {
        let mtu = self.ends().from.mtu;
        self.course(way, Kind::Sizes)
            .is_some_and(|course| course.sizes.keys().any(|size| *size >= mtu.min(65_535)))
    }

    /// A loss, with its place and what to do.
    fn loss(self, id: &'static str, way: Way, course: &Course) -> Finding {
        let (ends, target) = (self.ends(), self.target(way));
        let place = Place::of(course);
        let (lost, wanted) = (course.lost(), course.wanted);
        let verdict = match lost * FAULT_SHARE >= wanted {
            true => Verdict::Fault,
            false => Verdict::Warning,
        };
        let evidence = format!(
            "{lost} of {wanted} datagrams to {target} are lost: {}",
            ends.place(&place)
        );
        finding(id, verdict, evidence).with(ends.remedy(&place, target))
    }

    fn reach(self, id: &'static str, way: Way) -> Finding {
        let Some(course) = self.course(way, Kind::Single) else {
            return finding(id, Verdict::Unknown, "nothing was sent");
        };
        if course.lost() == 0 {
            let (wanted, target) = (course.wanted, self.target(way));
            return finding(
                id,
                Verdict::Ok,
                format!("all of {wanted} datagrams to {target} arrive"),
            );
        }
        let mut found = self.loss(id, way, course);
        if self.passes_back(way) {
            found.evidence += "; the other way they pass";
        }
        found
    }

    /// The other way nothing is lost.
    fn passes_back(self, way: Way) -> bool {
        let mut paths = self.evidence.paths.iter();
        let back = paths.find(|path| path.from == self.path.to && path.to == self.path.from);
        let course = back.and_then(|path| path.course(way, Kind::Single));
        course.is_some_and(|course| course.lost() == 0)
    }

    /// The finding that is worst, or that nothing can be said.
    fn worst(id: &'static str, found: impl Iterator<Item = Finding>) -> Finding {
        let worst = found.max_by_key(|one| one.verdict);
        worst.unwrap_or_else(|| finding(id, Verdict::Unknown, "too little arrives to tell"))
    }

    fn size(self) -> Finding {
        let id = "packet-size";
        let mtu = self.ends().from.mtu;
        let some = |(way, _): &(Way, _)| {
            let course = self.course(*way, Kind::Sizes);
            course.is_some_and(|course| course.arrived > 0)
        };
        let found = self.ways().filter(some).map(|(way, name)| {
            if self.full(way) {
                return finding(
                    id,
                    Verdict::Ok,
                    format!("packets of {mtu} bytes pass, as large as the interface sends"),
                );
            }
            let course = self.course(way, Kind::Sizes);
            let most = course.and_then(|course| course.sizes.keys().max().copied());
            let most = most.unwrap_or(0);
            let Ends { from, to } = self.ends();
            let place = course.map_or(Place::Network, Place::of);
            let evidence = format!(
                "{name} passes up to {most} bytes; {} sends packets of {mtu}: {}",
                from.interface,
                self.ends().place(&place)
            );
            finding(id, Verdict::Fault, evidence).with(format!(
                "the same MTU on all hosts and switches; until then on {} and {}: ip link set dev {} mtu {most}",
                from.address, to.address, from.interface
            ))
        });
        Self::worst(id, found)
    }

    fn fragments(self) -> Finding {
        let id = "fragments";
        let found = self.ways().filter_map(|(way, name)| {
            let course = self.course(way, Kind::Fragments)?;
            let found = match course.arrived {
                0 => finding(
                    id,
                    Verdict::Warning,
                    format!(
                        "{name} in fragments does not arrive: {}",
                        self.ends().place(&Place::of(course))
                    ),
                )
                .with("packets no larger than the MTU, as nodes send them; or let fragments pass"),
                _ => finding(id, Verdict::Ok, "datagrams in fragments arrive"),
            };
            Some(found)
        });
        Self::worst(id, found)
    }

    fn trains(self) -> Finding {
        let id = "trains";
        let found = self.ways().filter_map(|(way, name)| {
            let trains = self.course(way, Kind::Trains)?;
            let single = self.course(way, Kind::Single)?;
            if !self.full(way) {
                let evidence = "their packets are too large, see packet-size";
                return Some(finding(id, Verdict::Unknown, evidence));
            }
            let more = match single.lost() {
                0 => trains.lost() > 0,
                _ => chance_of_as_many(trains, single) < CHANCE,
            };
            let found = match more {
                true => {
                    let mut found = self.loss(id, way, trains);
                    found.evidence = format!("{name} in trains, sent at once: {}", found.evidence);
                    found
                }
                false => {
                    let (wanted, lost) = (trains.wanted, trains.lost());
                    let evidence = match lost {
                        0 => format!("all of {wanted} datagrams sent at once arrive"),
                        _ => format!(
                            "{lost} of {wanted} datagrams sent at once are lost: by chance, as single ones are"
                        ),
                    };
                    finding(id, Verdict::Ok, evidence)
                }
            };
            Some(found)
        });
        Self::worst(id, found)
    }

    fn order(self) -> Finding {
        let id = "order";
        let found = self.ways().map(|(way, name)| {
            let kinds = [Kind::Single, Kind::Trains].into_iter();
            let courses = kinds.filter_map(|kind| self.course(way, kind));
            let (late, all) = courses.fold((0, 0), |(late, all), course| {
                (late + course.late, all + course.arrived)
            });
            match late {
                0 => finding(id, Verdict::Ok, "what is sent later comes later"),
                _ => finding(
                    id,
                    Verdict::Warning,
                    format!("{late} of {all} {name} datagrams come after later ones"),
                )
                .with(
                    "bonds and switches that spread packets must choose by address and port (layer3+4), \
                     not in turn; nodes repair it, at some cost",
                ),
            }
        });
        Self::worst(id, found)
    }

    fn hops(self) -> Finding {
        let id = "hops";
        let arrives = |hops: &u8| {
            let course = self.course(Way::Multicast, Kind::Hops(*hops));
            course.is_some_and(|course| course.arrived > 0)
        };
        let Some(least) = HOPS.into_iter().find(arrives) else {
            return finding(id, Verdict::Unknown, "no multicast arrives");
        };
        let limit = HOPS_OF_NODES;
        match least {
            1 => finding(id, Verdict::Ok, "no router is on the way"),
            _ if least <= limit => finding(
                id,
                Verdict::Ok,
                format!("it takes up to {least} hops; nodes allow {limit}"),
            ),
            _ => finding(
                id,
                Verdict::Fault,
                format!("it takes more than {limit} hops, which nodes allow (TTL): {least} arrive"),
            )
            .with(
                "a filter of the TTL, or too many routers: lower the thresholds of multicast routers, and of \
                 rules such as `ip ttl lt N drop`; programs allow more by `NetworkOptions::ttl`",
            ),
        }
    }

    fn beside(self) -> Finding {
        let (id, group, beside) = ("cross-talk", self.evidence.group, self.evidence.beside);
        let Some(course) = self.course(Way::Beside, Kind::Beside) else {
            return finding(id, Verdict::Unknown, "nothing was sent");
        };
        match course.astray {
            0 if course.arrived == 0 => finding(id, Verdict::Unknown, "no multicast arrives"),
            0 => finding(
                id,
                Verdict::Ok,
                format!("what is sent to {beside} comes to its socket alone"),
            ),
            astray => finding(
                id,
                Verdict::Fault,
                format!("{astray} datagrams to {beside} came to the socket of another address than theirs"),
            )
            .with(format!(
                "something translates addresses on the way (`nft list ruleset`): take {group} and {beside} out"
            )),
        }
    }

    /// Multicast passed at first, and then no more.
    fn stopped(self) -> bool {
        let after = self.path.courses.iter().filter(|((way, kind), _)| {
            *way == Way::Multicast && matches!(kind, Kind::Trains | Kind::Hops(_))
        });
        self.passes(Way::Multicast) && after.into_iter().all(|(_, course)| course.arrived == 0)
    }

    fn survival(self) -> Finding {
        let id = "survival";
        let rounds = self.path.courses.iter().filter_map(|((_, kind), course)| {
            let Kind::After(time) = *kind else {
                return None;
            };
            (time > Duration::ZERO).then_some((time, course))
        });
        let rounds: Vec<(Duration, &Course)> = rounds.collect();
        if rounds.is_empty() && self.stopped() {
            let evidence = "multicast stopped while it was examined";
            return finding(id, Verdict::Fault, evidence)
                .with("look for how long it goes on, and who asks for memberships: --for 60");
        }
        if rounds.is_empty() {
            return finding(id, Verdict::Unknown, "multicast was not watched")
                .with("watch for longer than switches keep memberships: --for 300");
        }
        if !self.passes(Way::Multicast) {
            return finding(id, Verdict::Unknown, "too little multicast arrives to tell");
        }
        let silent = rounds.iter().rev();
        let silent = silent.take_while(|(_, course)| course.arrived == 0).count();
        let seconds = |time: Duration| time.as_secs_f64();
        if silent >= ROUNDS {
            let (last, course) = rounds[rounds.len() - silent];
            let asked = match self.ends().to.queries {
                0 => "; nobody asked for memberships",
                _ => "",
            };
            let evidence = format!(
                "multicast stopped {:.1} s after it was joined{asked}: {}",
                seconds(last),
                self.ends().place(&Place::of(course))
            );
            return finding(id, Verdict::Fault, evidence).with(
                "an IGMP querier for this network: on the switch (`ip igmp snooping querier`), on a bridge of \
                 Linux ip link set dev BRIDGE type bridge mcast_querier 1; or no snooping",
            );
        }
        let longest = rounds.split(|(_, course)| course.arrived > 0);
        let longest = longest.map(<[_]>::len).max().unwrap_or(0);
        let all = seconds(self.evidence.watched);
        match longest >= ROUNDS {
            true => finding(
                id,
                Verdict::Warning,
                format!("multicast was interrupted within {all:.0} s"),
            )
            .with("queries that are lost make switches forget memberships: look at the querier"),
            false => finding(
                id,
                Verdict::Ok,
                format!("multicast still passes after {all:.0} s"),
            ),
        }
    }
}

/// Probability that so many are lost in trains, or more, if each train is lost whole as often as a
/// single datagram is: a filter before the card's segmentation sees it as one packet. How often
/// that is, is known from those that were sent only: three standard deviations more are assumed.
fn chance_of_as_many(trains: &Course, single: &Course) -> f64 {
    let together = trains.together.max(1);
    let count = trains.wanted.div_ceil(together);
    let least = trains.lost().div_ceil(together);
    let (lost, wanted) = (single.lost() as f64, single.wanted.max(1) as f64);
    let each = ((lost + 3.0 * lost.sqrt() + 3.0) / wanted).min(1.0);
    let of = |lost: u64| {
        let ways = (1..=lost).fold(1.0, |ways, at| {
            ways * (count - lost + at) as f64 / at as f64
        });
        ways * each.powf(lost as f64) * (1.0 - each).powf((count - lost) as f64)
    };
    (least..=count).map(of).sum()
}
