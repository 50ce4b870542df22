//! Packets that the liar makes up, from what it knows of a region.

use std::net::SocketAddr;

use qsm_proto::receive::ReceiveStream;
use qsm_proto::region::Region;
use qsm_proto::ring::CALL;
use qsm_wire::{
    Absent, AbsentCause, Ack, Chunk, Coverage, Data, DataHeader, GroupId, Header, Heartbeat, Hop,
    Kind, MemberIndex, Opening, Origin, Part, Request, RequestHead, SeqRange, SlotHead, StreamId,
    Summary, SummarySlot, Token, TokenHead, TokenWriter, cluster_number, seal,
};

use super::{Liar, Lie};
use crate::machine::Machine;

/// Longest packet that it makes up.
const LIMIT_BYTES: usize = 1400;
/// Farthest that it gives out its own stream to go: others ask for each of the packets, again and again, and
/// each request is some inputs of theirs.
const AHEAD_MAX: u64 = 200;

/// Group of chunks that say they are seals.
const SEAL_GROUP: GroupId = GroupId(u32::MAX - 1);

/// A member of a region, as it is addressed.
#[derive(Debug, Clone, Copy)]
struct Peer {
    origin: Origin,
    address: SocketAddr,
    index: MemberIndex,
}

/// Another's stream in a region.
#[derive(Debug, Clone, Copy)]
struct Known {
    id: StreamId,
    highest: u64,
    address: Option<SocketAddr>,
}

/// What it knows of the region of which it lies.
#[derive(Debug)]
struct Scene<'a> {
    me: Origin,
    region: &'a Region,
    peers: Vec<Peer>,
    streams: Vec<Known>,
    leader: Option<Origin>,
}

impl<'a> Scene<'a> {
    /// `None` where it is alone.
    fn new(me: Origin, region: &'a Region) -> Option<Self> {
        let view = region.view();
        let peer = |index: usize| {
            let index = MemberIndex(u16::try_from(index).ok()?);
            let member = view.member(index)?;
            Some(Peer {
                origin: member.origin,
                address: member.address,
                index,
            })
        };
        let peers = (0..view.members().len()).filter_map(peer);
        let peers: Vec<Peer> = peers.filter(|peer| peer.origin != me).collect();
        let streams = region.streams().map(|stream| Known {
            id: stream.id(),
            highest: stream.highest(),
            address: stream.sender_address(),
        });
        let leader = view.leader().and_then(|at| view.member(at));
        let there = view.index_of(me).is_some() && !peers.is_empty();
        there.then(|| Self {
            me,
            region,
            streams: streams.collect(),
            leader: leader.map(|leader| leader.origin),
            peers,
        })
    }

    fn header(&self, origin: Origin) -> Header {
        Header {
            cluster: cluster_number("sim"),
            origin,
            hop: Hop::Copy,
        }
    }

    fn leads(&self) -> bool {
        self.leader == Some(self.me)
    }

    /// The packet for each other member.
    fn to_all(&self, bytes: &[u8]) -> Vec<(SocketAddr, Vec<u8>)> {
        let peers = self.peers.iter();
        peers.map(|peer| (peer.address, bytes.to_vec())).collect()
    }

    /// Where a stream's sender is.
    fn sender(&self, stream: &Known) -> Option<SocketAddr> {
        let mut peers = self.peers.iter();
        let member = peers.find(|peer| peer.origin == stream.id.origin);
        member.map(|peer| peer.address).or(stream.address)
    }
}

impl Liar {
    /// One lie about one region, for whoever is to believe it.
    pub(super) fn forge(&mut self, machine: &Machine) -> Vec<(SocketAddr, Vec<u8>)> {
        let Some(me) = machine.origin() else {
            return Vec::new();
        };
        let scenes: Vec<Scene<'_>> = machine
            .all_regions()
            .filter_map(|region| Scene::new(me, region))
            .collect();
        let at = self.random.below(scenes.len().max(1) as u64);
        let scene = usize::try_from(at).ok().and_then(|at| scenes.get(at));
        let lies: Vec<Lie> = self.plan.lies.iter().copied().collect();
        let (Some(scene), Some(lie)) = (scene, self.pick(&lies)) else {
            return Vec::new();
        };
        let mut made = match lie {
            Lie::Requests => self.request(scene),
            Lie::Absences => self.absence(scene),
            Lie::Leadership => self.lead(scene),
            Lie::Rounds => self.far_round(scene),
            Lie::Deaths => self.death(scene),
            Lie::Ahead => self.ahead(scene),
            Lie::Extents => self.extent(scene),
            Lie::Names => self.in_name(scene),
            Lie::Limits | Lie::Silence | Lie::Watermarks => Vec::new(),
        };
        made.iter_mut()
            .for_each(|(_, bytes)| seal(bytes, Coverage::Head));
        made
    }

    /// Data that another is to have sent: what it sends next, or what somebody may miss; now and then a seal of nobody.
    fn in_name(&mut self, scene: &Scene<'_>) -> Vec<(SocketAddr, Vec<u8>)> {
        let groups: Vec<GroupId> = scene.region.groups().to_vec();
        let (Some(stream), Some(group)) = (self.pick(&scene.streams), self.pick(&groups)) else {
            return Vec::new();
        };
        let next = stream.highest.saturating_add(1);
        let sequence = match self.random.below(3) {
            0 => next + self.random.below(8),
            1 => next,
            _ => next.saturating_sub(self.random.below(16)).max(1),
        };
        let head = DataHeader {
            channel: stream.id.channel,
            view: scene.region.view().number(),
            sequence,
            view_age: 0,
        };
        let mut bytes = Vec::new();
        head.encode(&scene.header(stream.id.origin), &mut bytes);
        let (group, content) = match self.chance(4) {
            true => (SEAL_GROUP, [7; 80]),
            false => (group, [9; 80]),
        };
        let message = u32::try_from(sequence % (1 << 20)).unwrap_or(0);
        let message = if group == SEAL_GROUP { 0 } else { message };
        let forged = Chunk {
            group,
            message,
            part: Part::Whole,
            content: &content,
        };
        forged.encode(&mut bytes);
        scene.to_all(&bytes)
    }

    /// A number beside this one, or absurd.
    fn number(&mut self, highest: u64) -> u64 {
        let far = [
            highest,
            highest + 1,
            highest + 1000,
            1 << 40,
            (1 << 63) - 1,
            u64::MAX,
        ];
        self.pick(&far).unwrap_or(highest)
    }

    /// Asks for everything, for what is to come, or for anything, itself or for others as well.
    fn request(&mut self, scene: &Scene<'_>) -> Vec<(SocketAddr, Vec<u8>)> {
        let (Some(stream), Some(peer)) = (self.pick(&scene.streams), self.pick(&scene.peers))
        else {
            return Vec::new();
        };
        let far = self.number(stream.highest);
        let ranges = [
            SeqRange::new(1, stream.highest.max(1)),
            SeqRange::new(stream.highest + 1, stream.highest + 65_536),
            SeqRange::new(
                far.min(u64::MAX - 70_000),
                far.min(u64::MAX - 70_000) + 65_536,
            ),
        ];
        let range = self.pick(&ranges).flatten();
        let (tried, others) = (self.random.bits(), self.chance(2));
        let indexes = scene.peers.iter().map(|peer| peer.index);
        let requesters: Vec<MemberIndex> = indexes.filter(|_| others).take(8).collect();
        let tried = u32::try_from(tried >> 32).unwrap_or(0);
        let head = RequestHead {
            stream: stream.id,
            view: scene.region.view().number(),
            tried: self.pick(&[0, u32::MAX, tried]).unwrap_or(0),
            for_itself: self.chance(2),
            takes_parity: self.chance(4),
        };
        let kind = self.pick(&[Kind::Nak, Kind::Pull]).unwrap_or(Kind::Nak);
        let to = scene.sender(&stream).filter(|_| self.chance(3));
        let mut bytes = Vec::new();
        let ranges: Vec<SeqRange> = range.into_iter().collect();
        Request::encode(
            &scene.header(scene.me),
            kind,
            &head,
            &requesters,
            &ranges,
            &mut bytes,
        );
        vec![(to.unwrap_or(peer.address), bytes)]
    }

    /// Says that it does not hold what it was sent, for one reason or the other.
    fn absence(&mut self, scene: &Scene<'_>) -> Vec<(SocketAddr, Vec<u8>)> {
        let Some(stream) = self.pick(&scene.streams) else {
            return Vec::new();
        };
        let causes = [AbsentCause::Gone, AbsentCause::Expired];
        let cause = self.pick(&causes).unwrap_or_default();
        let range = SeqRange::new(1, stream.highest + 1000);
        let ranges: Vec<SeqRange> = range.into_iter().collect();
        let mut bytes = Vec::new();
        Absent::encode(
            &scene.header(scene.me),
            stream.id,
            cause,
            &ranges,
            &mut bytes,
        );
        scene.to_all(&bytes)
    }

    /// Speaks as the leader does. The leader of a region speaks for it, so that is no lie of one.
    fn lead(&mut self, scene: &Scene<'_>) -> Vec<(SocketAddr, Vec<u8>)> {
        let Some(leader) = scene.leader.filter(|_| !scene.leads()) else {
            return Vec::new();
        };
        let name = if self.as_leader { leader } else { scene.me };
        let header = scene.header(name);
        match self.random.below(3) {
            0 => self.acknowledge(scene, &header),
            1 => self.summarise(scene, &header),
            _ => {
                let level = self.pick(&[CALL, 0]).unwrap_or(CALL);
                let round = self.random.below(1 << 20);
                let head = TokenHead {
                    level,
                    ..Self::token_head(scene, name, round)
                };
                let mut bytes = Vec::new();
                let mut writer = TokenWriter::new(&header, &head, &[], LIMIT_BYTES, &mut bytes);
                for stream in &scene.streams {
                    let highest = stream.highest;
                    writer.slot(&raised(stream.id.origin, highest), &[], &[]);
                }
                scene.to_all(&bytes)
            }
        }
    }

    /// Says to senders that everybody has everything.
    fn acknowledge(&mut self, scene: &Scene<'_>, header: &Header) -> Vec<(SocketAddr, Vec<u8>)> {
        let view = scene.region.view();
        let streams = scene.streams.iter();
        let acks = streams.filter_map(|stream| {
            let upto = match self.chance(2) {
                true => stream.highest,
                false => self.number(stream.highest),
            };
            let ack = Ack {
                stream: stream.id,
                region: view.region(),
                view: view.number(),
                round: self.number(1),
                stable_upto: upto,
                cached_upto: upto,
                arrived_upto: upto,
                rate_packets: self.pick(&[0, 1, u32::MAX])?,
                credit_bytes: self.pick(&[0, u32::MAX])?,
                losers: u16::MAX,
            };
            let mut bytes = Vec::new();
            ack.encode(header, &mut bytes);
            Some((scene.sender(stream)?, bytes))
        });
        acks.collect()
    }

    /// Says to all that everybody has everything.
    fn summarise(&mut self, scene: &Scene<'_>, header: &Header) -> Vec<(SocketAddr, Vec<u8>)> {
        let (view, far) = (scene.region.view(), self.chance(2));
        let slots = scene.streams.iter().map(|stream| {
            let upto = stream.highest.saturating_add(if far { 1 << 40 } else { 0 });
            SummarySlot {
                origin: stream.id.origin,
                cutoff: upto,
                stable_upto: upto,
                cached_upto: upto,
            }
        });
        let (round, mut bytes) = (self.number(1), Vec::new());
        Summary::encode(
            header,
            view.region(),
            view.number(),
            round,
            slots,
            &mut bytes,
        );
        scene.to_all(&bytes)
    }

    fn token_head(scene: &Scene<'_>, leader: Origin, round: u64) -> TokenHead {
        let view = scene.region.view();
        let ring = view
            .index_of(scene.me)
            .map_or(0, |me| view.partition_of(me));
        TokenHead {
            region: view.region(),
            view: view.number(),
            leader,
            round,
            level: 0,
            ring: u16::try_from(ring).unwrap_or(0),
            visited: 1,
            rate_packets: u32::MAX,
            credit_bytes: u32::MAX,
        }
    }

    /// Passes on a token of a round that its leader has not begun.
    fn far_round(&mut self, scene: &Scene<'_>) -> Vec<(SocketAddr, Vec<u8>)> {
        let Some(leader) = scene.leader.filter(|_| !scene.leads()) else {
            return Vec::new();
        };
        let round = self.number(scene.region.ring_stats().rounds + 1000);
        let head = Self::token_head(scene, leader, round);
        let mut bytes = Vec::new();
        TokenWriter::new(&scene.header(scene.me), &head, &[], LIMIT_BYTES, &mut bytes);
        scene.to_all(&bytes)
    }

    /// Says that the stream of a live member has ended.
    fn death(&mut self, scene: &Scene<'_>) -> Vec<(SocketAddr, Vec<u8>)> {
        let lives = |stream: &&Known| scene.region.history().takes_part(stream.id.origin);
        let lives: Vec<Known> = scene.streams.iter().filter(lives).copied().collect();
        let Some(known) = self.pick(&lives) else {
            return Vec::new();
        };
        let stream = scene.region.stream(known.id.origin);
        let nothing = self.chance(3);
        let openings = stream.into_iter().flat_map(ReceiveStream::openings);
        let openings: Vec<Opening> = openings.filter(|_| !nothing).collect();
        let highest = if nothing { 0 } else { known.highest };
        let mut bytes = Vec::new();
        let (header, openings) = (scene.header(scene.me), openings.into_iter());
        Heartbeat::encode(&header, known.id, highest, true, openings, &mut bytes);
        scene.to_all(&bytes)
    }

    /// Says that its own stream goes far, or sends one of its packets with a far number.
    fn ahead(&mut self, scene: &Scene<'_>) -> Vec<(SocketAddr, Vec<u8>)> {
        let Some(own) = scene.region.own_stream() else {
            return Vec::new();
        };
        let (header, jump) = (scene.header(scene.me), self.random.below(AHEAD_MAX) + 1);
        let mut bytes = Vec::new();
        let packet = own.packet(own.highest()).and_then(Data::read_again);
        match packet.filter(|_| self.chance(2)) {
            Some(data) => {
                let head = DataHeader {
                    sequence: data.head.sequence + jump,
                    view_age: data
                        .head
                        .view_age
                        .saturating_add(u32::try_from(jump).unwrap_or(0)),
                    ..data.head
                };
                head.encode(&header, &mut bytes);
                data.chunks().for_each(|chunk| chunk.encode(&mut bytes));
            }
            None => {
                let openings: Vec<Opening> = own.openings().iter().rev().copied().collect();
                let (id, highest) = (own.id(), own.highest() + jump);
                Heartbeat::encode(
                    &header,
                    id,
                    highest,
                    false,
                    openings.into_iter(),
                    &mut bytes,
                );
            }
        }
        scene.to_all(&bytes)
    }

    /// Says that another's stream goes far.
    fn extent(&mut self, scene: &Scene<'_>) -> Vec<(SocketAddr, Vec<u8>)> {
        let Some(known) = self.pick(&scene.streams) else {
            return Vec::new();
        };
        let highest = known.highest + 1 + self.random.below(100_000);
        let (header, mut bytes) = (scene.header(scene.me), Vec::new());
        let none = core::iter::empty();
        Heartbeat::encode(&header, known.id, highest, false, none, &mut bytes);
        scene.to_all(&bytes)
    }

    /// The token that it passes on in the place of a true one; `None`: it is left as it is.
    pub(super) fn turn_token(
        &mut self,
        header: &Header,
        token: &Token<'_>,
        length: usize,
    ) -> Option<Vec<u8>> {
        let (limits, raises) = (self.has(Lie::Limits), self.has(Lie::Watermarks));
        let leads = token.head.leader == header.origin;
        if leads || !(limits || raises) || self.chance(2) {
            return None;
        }
        let mut head = token.head;
        let mut suspects: Vec<MemberIndex> = token.suspects().collect();
        if limits {
            head.rate_packets = self.pick(&[0, 1, 1000])?;
            head.credit_bytes = self.pick(&[0, 1, 65_536])?;
            head.visited = self.pick(&[0, head.visited, u16::MAX])?;
            let named = self.random.below(8);
            suspects.push(MemberIndex(u16::try_from(named).unwrap_or(0)));
        }
        let mut bytes = Vec::with_capacity(length);
        let room = length + 2;
        let mut writer = TokenWriter::new(header, &head, &suspects, room, &mut bytes);
        for slot in token.slots() {
            let mut said = slot.head;
            if limits {
                said.losers = u16::MAX;
            }
            if raises {
                said = raised(said.origin, said.highest.max(said.cutoff));
            }
            let [naks, common] = [slot.naks, slot.common].map(|set| set.iter().collect::<Vec<_>>());
            writer.slot(&said, &naks, &common);
        }
        seal(&mut bytes, Coverage::Head);
        Some(bytes)
    }
}

/// A slot by which everybody has everything.
fn raised(origin: Origin, upto: u64) -> SlotHead {
    SlotHead {
        origin,
        cutoff: upto,
        highest: upto,
        arrived: upto,
        cached: upto,
        stable: upto,
        stable_upto: upto,
        cached_upto: upto,
        losers: 0,
        naks_cut: false,
        common_cut: false,
    }
}
