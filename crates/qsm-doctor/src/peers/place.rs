//! Where on its way something was lost.

use std::net::SocketAddr;

use super::evidence::{Course, Evidence, Fault, Path, Peer};

/// A place of the way that can be counted at, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Point {
    SenderSocket,
    SenderCard,
    ReceiverCard,
    ReceiverSocket,
}

/// Where most of the loss was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// The sender's system refused it, with these words.
    Refused(String),
    /// It left by another interface.
    LeftBy(String),
    /// In the sender's host, before its card.
    Sender,
    /// The sender's card said so.
    SenderCard,
    /// Between the cards.
    Network,
    /// The receiver's card said so.
    ReceiverCard,
    /// It came by another interface.
    CameBy(String),
    /// In the receiver's host: no room in a buffer.
    Buffer,
    /// In the receiver's host, before a socket.
    Receiver,
    /// Behind the sender's socket.
    BehindSocket,
    /// Behind the sender's card.
    BehindCard,
    /// Before the receiver's card.
    BeforeCard,
}

impl Place {
    /// Where most of the loss of these probes was.
    pub(crate) fn of(course: &Course) -> Self {
        let unsent = course.wanted.saturating_sub(course.sent);
        if let Some(words) = &course.refused
            && 2 * unsent >= course.lost()
        {
            return Self::Refused(words.clone());
        }
        let points = [
            (Point::SenderSocket, Some(course.sent)),
            (Point::SenderCard, course.left),
            (Point::ReceiverCard, course.came),
            (Point::ReceiverSocket, Some(course.arrived)),
        ];
        let known: Vec<(Point, u64)> = points
            .into_iter()
            .filter_map(|(point, count)| Some((point, count?)))
            .collect();
        let stretches = known.windows(2).map(|two| Stretch {
            from: two[0].0,
            to: two[1].0,
            lost: two[0].1.saturating_sub(two[1].1),
        });
        // The first of equal ones, as what comes later may follow from it.
        let most = stretches.rev().max_by_key(|stretch| stretch.lost);
        most.map_or(Self::BehindSocket, |stretch| stretch.place(course))
    }
}

/// Between two points next to each other, of those that are known.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    from: Point,
    to: Point,
    lost: u64,
}

impl Stretch {
    fn place(self, course: &Course) -> Place {
        let half = |other: &Option<(String, u64)>| {
            let other = other.as_ref().filter(|(_, count)| 2 * count >= self.lost);
            other.map(|(name, _)| name.clone())
        };
        let left = half(&course.left_elsewhere).map(Place::LeftBy);
        let came = half(&course.came_elsewhere).map(Place::CameBy);
        match (self.from, self.to) {
            (_, Point::SenderCard) => left.unwrap_or(Place::Sender),
            (Point::SenderCard, Point::ReceiverCard) => match came {
                Some(came) => came,
                None if 2 * course.card_lost >= self.lost => Place::ReceiverCard,
                None if 2 * course.card_kept >= self.lost => Place::SenderCard,
                None => Place::Network,
            },
            (Point::ReceiverCard, _) | (_, Point::SenderSocket) => match course.full {
                0 => Place::Receiver,
                _ => Place::Buffer,
            },
            (_, Point::ReceiverCard) => came.unwrap_or(Place::BeforeCard),
            (Point::SenderCard, _) => match course.full {
                0 => Place::BehindCard,
                _ => Place::Buffer,
            },
            (_, Point::ReceiverSocket) => match course.full {
                0 => Place::BehindSocket,
                _ => Place::Buffer,
            },
        }
    }
}

/// A path with those at its ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends<'a> {
    pub(crate) from: &'a Peer,
    pub(crate) to: &'a Peer,
}

impl<'a> Ends<'a> {
    pub(crate) fn of(evidence: &'a Evidence, path: &Path) -> Self {
        Self {
            from: &evidence.peers[path.from],
            to: &evidence.peers[path.to],
        }
    }

    /// Words about the place.
    pub(crate) fn place(&self, place: &Place) -> String {
        let [from, to] = [self.from, self.to].map(|peer| peer.address);
        match place {
            Place::Refused(words) => format!("refused by {from} itself: {words}"),
            Place::LeftBy(name) => format!("they leave {from} by {name}"),
            Place::Sender => format!("kept back by {from} before its card"),
            Place::SenderCard => format!("lost by the card of {from}"),
            Place::Network => "lost in the network, between the cards".to_owned(),
            Place::ReceiverCard => format!("lost by the card of {to}"),
            Place::CameBy(name) => format!("they come to {to} by {name}"),
            Place::Buffer => format!("lost by {to}: no room in the receive buffer"),
            Place::Receiver => format!("kept back by {to} between its card and the socket"),
            Place::BehindSocket => {
                "where is not known: as root both would see their cards".to_owned()
            }
            Place::BehindCard => {
                format!("behind the card of {from}; as root {to} would see its own")
            }
            Place::BeforeCard => {
                format!("before the card of {to}; as root {from} would see its own")
            }
        }
    }

    /// The remedy, for datagrams to this address.
    pub(crate) fn remedy(&self, place: &Place, target: SocketAddr) -> String {
        let (from, to) = (self.from, self.to);
        let known = |peer: &Peer, ids: &[&str]| hint(peer, ids);
        match place {
            Place::Sender | Place::Refused(_) => {
                let ids = ["firewall", "multicast-route", "multicast-flag", "link"];
                known(from, &ids).unwrap_or_else(|| {
                    format!(
                        "on {}: `nft list ruleset` shows what drops udp for {target} on its way out, \
                         `tc -s qdisc show dev {}` what a queue drops",
                        from.address, from.interface
                    )
                })
            }
            Place::LeftBy(_) => format!(
                "on {}: `ip route get {}` shows the way; ip route replace {} dev {}",
                from.address,
                target.ip(),
                target.ip(),
                from.interface
            ),
            Place::CameBy(_) => format!(
                "on {}: `ip route get {}` shows the way; send by the network of {}, or name the other \
                 interface at both (--interface)",
                from.address, to.address, to.address
            ),
            Place::SenderCard => card(from),
            Place::ReceiverCard => hint(to, &["nic-ring"]).unwrap_or_else(|| card(to)),
            Place::Buffer => hint(to, &["receive-buffer"]).unwrap_or_else(|| {
                format!(
                    "on {}: larger buffers (--receive-buffer), or a CPU for the receiver",
                    to.address
                )
            }),
            Place::Receiver => self.receiver(target),
            Place::Network | Place::BeforeCard | Place::BehindCard | Place::BehindSocket => {
                self.network(target)
            }
        }
    }

    fn receiver(&self, target: SocketAddr) -> String {
        let (to, ids) = (self.to, ["firewall", "rp-filter", "softirq-backlog"]);
        hint(to, &ids).unwrap_or_else(|| {
            let ip = if target.is_ipv4() { "ip" } else { "ip6" };
            format!(
                "on {}: `nft list ruleset` shows what drops {ip} daddr {} udp dport {}, let it pass; or \
                 sysctl -w net.ipv4.conf.all.rp_filter=2 net.ipv4.conf.{}.rp_filter=2",
                to.address,
                target.ip(),
                target.port(),
                to.interface
            )
        })
    }

    fn network(&self, target: SocketAddr) -> String {
        let (from, to) = (self.from.address, self.to.address);
        match target.ip().is_multicast() {
            true => format!(
                "the switches between {from} and {to}: filters of multicast (ACL, storm control), IGMP \
                 snooping without a querier; a router needs multicast routing. Where nobody can mend it: \
                 --multicast none"
            ),
            false => format!(
                "firewalls and lists of access between {from} and {to}: let udp pass to {to}, all ports or \
                 the one of --unicast-port"
            ),
        }
    }
}

fn card(peer: &Peer) -> String {
    format!(
        "on {}: `ip -s -s link show dev {}` and `ethtool -S {}` show what the card lost; qsm doctor there",
        peer.address, peer.interface, peer.interface
    )
}

/// The remedy of the first of these checks that the peer's own examination found bad.
fn hint(peer: &Peer, ids: &[&str]) -> Option<String> {
    let found = |id: &&str| peer.faults.iter().find(|fault| fault.id == **id);
    let Fault {
        id,
        evidence,
        remedy,
    } = ids.iter().find_map(found)?;
    Some(format!("on {}: {remedy} ({id}: {evidence})", peer.address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(points: [Option<u64>; 4]) -> Course {
        let [sent, left, came, arrived] = points;
        Course {
            wanted: 100,
            sent: sent.unwrap(),
            left,
            came,
            arrived: arrived.unwrap(),
            ..Course::default()
        }
    }

    #[test]
    fn the_stretch_that_loses_most_is_the_place() {
        let all = Some(100);
        for (points, place) in [
            ([all, Some(0), Some(0), Some(0)], Place::Sender),
            ([all, all, Some(0), Some(0)], Place::Network),
            ([all, all, all, Some(0)], Place::Receiver),
            ([all, all, Some(90), Some(50)], Place::Receiver),
            ([all, all, Some(40), Some(30)], Place::Network),
            ([all, None, None, Some(0)], Place::BehindSocket),
            ([all, all, None, Some(0)], Place::BehindCard),
            ([all, None, Some(0), Some(0)], Place::BeforeCard),
            ([all, None, all, Some(0)], Place::Receiver),
        ] {
            assert_eq!(Place::of(&course(points)), place, "{points:?}");
        }
    }

    #[test]
    fn what_hosts_know_makes_it_exact() {
        let all = Some(100);
        let full = Course {
            full: 1,
            ..course([all, all, all, Some(10)])
        };
        assert_eq!(Place::of(&full), Place::Buffer);
        let card = Course {
            card_lost: 60,
            ..course([all, all, Some(0), Some(0)])
        };
        assert_eq!(Place::of(&card), Place::ReceiverCard);
        let elsewhere = Course {
            came_elsewhere: Some(("eth1".to_owned(), 100)),
            ..course([all, all, Some(0), Some(0)])
        };
        assert_eq!(Place::of(&elsewhere), Place::CameBy("eth1".to_owned()));
        let refused = Course {
            refused: Some("no".to_owned()),
            ..course([Some(0), Some(0), Some(0), Some(0)])
        };
        assert_eq!(Place::of(&refused), Place::Refused("no".to_owned()));
    }
}
