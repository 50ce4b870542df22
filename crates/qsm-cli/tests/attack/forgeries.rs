//! Packets by which anybody could end the traffic of an open cluster, made by who knows all that is to be seen.

use std::net::SocketAddr;

use qsm_wire::membership::{FromService, Hello, ToService};
use qsm_wire::{
    Absent, AbsentCause, Ack, AdmissionFrame, AdmissionStage, Beacon, CHECKSUM_AT, CatchUp,
    ChannelId, Chunk, Coverage, DataHeader, FLAGS_AT, Frame, FrameHead, GroupId, GroupNumbers,
    HEADER_BYTES, Header, Hearing, Heartbeat, Incarnation, Kind, NodeId, Numbers, NumbersQuery,
    Opening, Origin, Parity, Part, Reach, ReachReply, RegionId, Request, RequestHead, Reset,
    SEALED, SeqRange, SlotHead, StreamId, StreamQuery, Summary, SummarySlot, TAIL_BYTES, TokenAck,
    TokenHead, TokenWriter, ViewNumber, seal,
};

/// Numbers far ahead of all that there are.
const FAR: u64 = 1 << 40;
/// Level of a token that calls all to a round.
const CALL: u8 = u8::MAX;
/// Streams of strangers in one attack.
const STRANGERS: u64 = 1024;

/// Knowledge of a cluster that an attacker has.
pub(crate) struct Known {
    pub(crate) cluster: u32,
    pub(crate) sender: Origin,
    pub(crate) receivers: Vec<Origin>,
    pub(crate) region: RegionId,
    pub(crate) view: ViewNumber,
    pub(crate) channel: ChannelId,
    /// Last number of the sender's stream.
    pub(crate) last: u64,
    /// Number of the key that packets are sealed by.
    pub(crate) key: u32,
    /// Where somebody else listens who says to be the service.
    pub(crate) rogue: SocketAddr,
}

/// An attack by its name.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    pub(crate) packets: Vec<Vec<u8>>,
}

impl Known {
    fn header(&self, origin: Origin) -> Header {
        Header {
            cluster: self.cluster,
            origin,
            ..Header::default()
        }
    }

    fn stream(&self) -> StreamId {
        StreamId {
            origin: self.sender,
            channel: self.channel,
        }
    }

    /// Everybody who might say something.
    fn makers(&self) -> impl Iterator<Item = Origin> + '_ {
        self.receivers.iter().copied().chain([self.sender])
    }

    /// All attacks, each packet in clear, and once more as if the cluster's key had sealed it.
    pub(crate) fn attacks(&self) -> Vec<Attack> {
        let both = |attack: Attack| {
            let posed = attack.packets.iter().map(|packet| self.posed(packet));
            let packets = [&attack.packets[..], &posed.collect::<Vec<_>>()].concat();
            Attack { packets, ..attack }
        };
        self.in_clear().into_iter().map(both).collect()
    }

    /// Attacks by what members say of themselves, in others' names: all kinds but data.
    pub(crate) fn of_members(&self) -> Vec<Attack> {
        let mut attacks = self.in_clear();
        attacks.push(Attack {
            name: "what members ask and answer",
            packets: self.makers().flat_map(|it| self.questions(it)).collect(),
        });
        for attack in &mut attacks {
            attack.packets.retain(|packet| {
                let kind = Kind::peek(packet);
                !matches!(
                    kind,
                    Some(Kind::Data | Kind::Beacon | Kind::Admission) | None
                )
            });
        }
        attacks.retain(|attack| !attack.packets.is_empty());
        attacks
    }

    fn in_clear(&self) -> Vec<Attack> {
        let service = self.service();
        let attacks = [
            ("a watermark far ahead", self.watermarks(self.view, 1)),
            ("a round far ahead", self.watermarks(self.view, FAR)),
            ("a member's word that the sender is dead", self.deaths()),
            ("an opening of a view to come", self.openings()),
            (
                "data ahead of the stream",
                self.data(self.last + 1000, self.view),
            ),
            (
                "data of an unknown view",
                self.data(self.last + 1, ViewNumber(self.view.0 + 7)),
            ),
            (
                "data in the place of the next packet",
                self.data(self.last + 1, self.view),
            ),
            ("acknowledgements of what nobody has", self.acks()),
            ("a batch of the service", service),
            (
                "a hello with an absurd incarnation",
                self.hellos(NodeId(1 << 20), 1),
            ),
            ("a session with a larger id", self.takeovers()),
            ("a rogue service", self.rogues()),
            ("streams of strangers", self.strangers()),
            ("requests for repair", self.requests()),
        ];
        let named = attacks.into_iter();
        named
            .map(|(name, packets)| Attack { name, packets })
            .collect()
    }

    /// As if it were sealed.
    fn posed(&self, packet: &[u8]) -> Vec<u8> {
        let mut packet = packet.to_vec();
        packet[FLAGS_AT] = SEALED;
        packet[CHECKSUM_AT].copy_from_slice(&self.key.to_le_bytes());
        packet.resize(packet.len() + TAIL_BYTES, 0x5a);
        packet
    }

    fn watermarks(&self, view: ViewNumber, round: u64) -> Vec<Vec<u8>> {
        let slot = SummarySlot {
            origin: self.sender,
            cutoff: FAR,
            stable_upto: FAR,
            cached_upto: FAR,
        };
        let mut packets = Vec::new();
        for maker in self.makers() {
            let header = self.header(maker);
            packets.push(whole(|out| {
                let slots = [slot].into_iter();
                Summary::encode(&header, self.region, view, round, slots, out);
            }));
            for level in [0, CALL] {
                packets.push(whole(|out| self.token(maker, round, level, out)));
            }
        }
        packets
    }

    fn token(&self, maker: Origin, round: u64, level: u8, out: &mut Vec<u8>) {
        let head = TokenHead {
            region: self.region,
            view: self.view,
            leader: maker,
            round,
            level,
            ring: 0,
            visited: 1,
            rate_packets: u32::MAX,
            credit_bytes: u32::MAX,
        };
        let slot = SlotHead {
            origin: self.sender,
            cutoff: FAR,
            highest: FAR,
            arrived: FAR,
            cached: FAR,
            stable: FAR,
            stable_upto: FAR,
            cached_upto: FAR,
            losers: 0,
            naks_cut: false,
            common_cut: false,
        };
        let mut token = TokenWriter::new(&self.header(maker), &head, &[], 1400, out);
        assert!(token.slot(&slot, &[], &[]));
    }

    fn deaths(&self) -> Vec<Vec<u8>> {
        let ranges = [SeqRange::new(1, self.last + 10_000).unwrap()];
        let of = |maker| {
            let header = self.header(maker);
            whole(|out| {
                Absent::encode(&header, self.stream(), AbsentCause::Gone, &ranges, out);
            })
        };
        self.makers().map(of).collect()
    }

    fn openings(&self) -> Vec<Vec<u8>> {
        let openings = (1..10).map(|ahead| Opening {
            view: ViewNumber(self.view.0 + ahead),
            start: self.last + 1,
        });
        let of = |opening| {
            let header = self.header(self.sender);
            whole(|out| {
                let openings = [opening].into_iter();
                Heartbeat::encode(&header, self.stream(), FAR, true, openings, out);
            })
        };
        openings.map(of).collect()
    }

    fn data(&self, sequence: u64, view: ViewNumber) -> Vec<Vec<u8>> {
        vec![self.packet(self.sender, sequence, view)]
    }

    fn packet(&self, origin: Origin, sequence: u64, view: ViewNumber) -> Vec<u8> {
        let head = DataHeader {
            channel: self.channel,
            view,
            sequence,
            view_age: 0,
        };
        let mut packet = Vec::new();
        head.encode(&self.header(origin), &mut packet);
        let chunk = Chunk {
            group: GroupId(1),
            message: 1,
            part: Part::Whole,
            content: b"forged",
        };
        chunk.encode(&mut packet);
        seal(&mut packet, Coverage::Whole);
        packet
    }

    fn acks(&self) -> Vec<Vec<u8>> {
        let of = |maker| {
            let ack = Ack {
                stream: self.stream(),
                region: self.region,
                view: self.view,
                round: FAR,
                stable_upto: FAR,
                cached_upto: FAR,
                arrived_upto: FAR,
                rate_packets: 1,
                credit_bytes: 1,
                losers: 9,
            };
            whole(|out| ack.encode(&self.header(maker), out))
        };
        self.makers().map(of).collect()
    }

    /// Questions and answers of a member, and receipts.
    fn questions(&self, maker: Origin) -> Vec<Vec<u8>> {
        let (header, region, view) = (self.header(maker), self.region, self.view);
        let stream = self.stream();
        let query = NumbersQuery {
            stream,
            joined: view,
            position: FAR,
            from: GroupId(0),
        };
        let group = GroupNumbers {
            group: GroupId(1),
            first: 0,
            last: FAR,
        };
        let reach = Reach {
            region,
            speaker: self.sender,
            asker: maker,
            nonce: 7,
            hearing: Hearing::Deaf,
        };
        let reply = ReachReply {
            region,
            nonce: 7,
            spoken: u32::MAX / 2,
            multicast: true,
        };
        let parity = Parity {
            stream,
            first: 1,
            count: 16,
            row: 0,
            sum: &[0x5a; 600],
        };
        let receipt = TokenAck {
            region,
            leader: self.receivers[0],
            round: FAR,
            level: 0,
        };
        let question = StreamQuery {
            channel: self.channel,
            stream: self.sender,
        };
        let nonce = 7;
        let catch_up = CatchUp {
            region,
            view,
            nonce,
        };
        vec![
            whole(|out| query.encode(&header, out)),
            whole(|out| Numbers::encode(&header, &query, None, &[group], out)),
            whole(|out| reach.encode(&header, out)),
            whole(|out| reply.encode(&header, out)),
            whole(|out| parity.encode(&header, out)),
            whole(|out| receipt.encode(&header, out)),
            whole(|out| question.encode(&header, out)),
            whole(|out| catch_up.encode(&header, out)),
        ]
    }

    fn frame(&self, maker: Origin, session: u64, content: &[u8]) -> Vec<u8> {
        let head = FrameHead {
            session,
            number: 1,
            heard_upto: 0,
            more: false,
        };
        let header = self.header(maker);
        whole(|out| Frame { head, content }.encode(&header, out))
    }

    fn service(&self) -> Vec<Vec<u8>> {
        let orders = [
            FromService::Batch {
                number: 1,
                updates: Vec::new(),
            },
            FromService::Redirect {
                address: self.rogue,
            },
        ];
        let of = |order: &FromService| {
            let mut content = Vec::new();
            order.encode(&mut content);
            let makers = self.makers().chain([stranger(0)]);
            let frames = makers.map(|maker| self.frame(maker, 1, &content));
            frames.collect::<Vec<_>>()
        };
        orders.iter().flat_map(of).collect()
    }

    fn hellos(&self, node: NodeId, session: u64) -> Vec<Vec<u8>> {
        let hello = Hello {
            name: "reader".to_owned(),
            address: self.rogue,
            second: None,
            incarnation: Incarnation(u32::MAX - 1),
            term: u64::MAX,
            groups: Vec::new(),
            regions: Vec::new(),
            region_last: RegionId(u32::MAX - 1),
            channel_last: ChannelId(u32::MAX - 1),
            group_end: GroupId(u32::MAX - 1),
            incarnation_last: Incarnation(u32::MAX - 1),
            dead: self.receivers.clone(),
            senders: Vec::new(),
            published: true,
            repairs: qsm_wire::membership::ToldLimit::default(),
        };
        let mut content = Vec::new();
        ToService::Hello(hello).encode(&mut content);
        let maker = Origin {
            node,
            incarnation: Incarnation(u32::MAX - 1),
        };
        vec![self.frame(maker, session, &content)]
    }

    fn takeovers(&self) -> Vec<Vec<u8>> {
        let session = u64::MAX;
        let of = |maker: Origin| {
            let mut packets = self.hellos(maker.node, session);
            let header = self.header(maker);
            packets.push(whole(|out| Reset { session }.encode(&header, out)));
            packets
        };
        self.makers().flat_map(of).collect()
    }

    fn rogues(&self) -> Vec<Vec<u8>> {
        let header = self.header(stranger(0));
        let beacon = Beacon {
            address: self.rogue,
            second: None,
            term: u64::MAX,
            embedded: false,
        };
        let beacon = whole(|out| beacon.encode(&header, out));
        let content = &beacon[HEADER_BYTES..];
        let stage = AdmissionStage::Here;
        let here = whole(|out| AdmissionFrame { stage, content }.encode(&header, out));
        vec![beacon, here]
    }

    fn strangers(&self) -> Vec<Vec<u8>> {
        let packet = |number| self.packet(stranger(number), 1, self.view);
        (0..STRANGERS).map(packet).collect()
    }

    fn requests(&self) -> Vec<Vec<u8>> {
        let head = RequestHead {
            stream: self.stream(),
            view: self.view,
            tried: 0,
            for_itself: true,
            takes_parity: false,
        };
        let ranges = [SeqRange::new(1, self.last).unwrap()];
        let of = |maker| {
            [Kind::Nak, Kind::Pull].map(|kind| {
                let header = self.header(maker);
                whole(|out| Request::encode(&header, kind, &head, &[], &ranges, out))
            })
        };
        self.makers().flat_map(of).collect()
    }
}

/// Somebody who is not in the cluster.
fn stranger(number: u64) -> Origin {
    Origin {
        node: NodeId((1 << 50) + number * 64),
        incarnation: Incarnation(1),
    }
}

/// A packet in clear, with its checksum.
fn whole(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut packet = Vec::new();
    encode(&mut packet);
    seal(&mut packet, Coverage::Whole);
    packet
}
