//! Formats of packets, as drawn in PROTOCOL.md, section 5.

use qsm_wire::{Heartbeat, Kind, Marks, Numbers, Ranges, Request, Summary, Token};

use crate::format::{Field, PacketFormat, Shape, counted, flag, named, origin, u8, u16, u32, u64};
use crate::messages::{
    ADDRESS, ASKER, DECISION_GIVEN, FROM_SERVICE, GROUP_ROWS, LIST, NAME, NODE_ROWS, REGION_ROWS,
    SECOND_GIVEN, SPEAKER, TERM, TO_SERVICE,
};

/// Ways by which packets come to a receiver.
const HOPS: &[(u64, &str)] = &[
    (0, "direct"),
    (1, "repair by the sender"),
    (2, "repair by a cacher"),
    (3, "push"),
    (4, "repair after a pull"),
    (5, "copy by unicast"),
];

/// Bytes that a checksum covers, or that there is none.
const COVERAGE: &[(u64, &str)] = &[
    (0, "the header of data"),
    (1, "the whole datagram"),
    (2, "protected by a key instead"),
];

/// Stages of what is said of identities and keys.
const STAGES: &[(u64, &str)] = &[(1, "seek"), (2, "here"), (3, "handshake"), (4, "word")];

/// Words of a member on how it hears a speaker.
const HEARING: &[(u64, &str)] = &[(0, "unsure"), (1, "deaf"), (2, "hears again")];

const CHANNEL: Field = u32("channel", "channel of a region").brief();
const REGION: Field = u32("region", "region").brief();
const VIEW: Field = u32("view", "view of the region").brief();
const STREAM: Field = origin("stream", "sender of the stream that is spoken of")
    .drawn("origin")
    .brief();
const ROUND: Field = u64("round", "round of tokens").brief();

/// The header of every packet.
pub const HEADER: &[Field] = &[
    u8("version", "version of the formats"),
    u8("kind", "kind of packet"),
    named("flags", COVERAGE, "coverage of the checksum"),
    named("hop", HOPS, "way by which the packet came"),
    u32("cluster", "FNV-1a of the cluster's name").hex(),
    u64("node", "node that made the packet").hex(),
    u32("incarnation", "incarnation of the node that made it"),
    u32(
        "checksum",
        "lower 32 bits of XXH3-64, not compared here; or number of the key",
    )
    .hex(),
];

const CHUNK: &[Field] = &[
    u32("chunk.group", "number of the group"),
    u32("chunk.message", "low 32 bits of the message's number"),
    u16("chunk.length", "bytes of content in this chunk")
        .unit("B")
        .drawn("L F length(14)"),
    Field::new("chunk.last", Shape::Bit, "last part of its message").drawn(""),
    Field::new("chunk.first", Shape::Bit, "first part of its message").drawn(""),
    u32("chunk.total", "length of the whole message").unit("B"),
    Field::new("chunk.content", Shape::Bytes, "content"),
    Field::new(
        "chunk.padding",
        Shape::Bytes,
        "padding, which carries nothing",
    )
    .drawn(""),
];

const OPENING: &[Field] = &[
    u32("opening.view", "view"),
    u64("opening.start", "first number sent in the view"),
];
const AN_OPENING: Field = Field::new("opening", Shape::Record(OPENING), "start of a view");

const REQUESTER: Field = u16("requester", "member index of one who misses the packets");
const RANGE: Field = Field::new("range", Shape::Range, "packets").drawn("ranges");
const MISSING: Field = Field::new("missing", Shape::Range, "packets that are missing");
const COMMON: Field = Field::new("common", Shape::Range, "packets that all miss");

const REQUEST: &[Field] = &[
    CHANNEL,
    STREAM,
    VIEW,
    u32("tried", "bit r: the cacher of rank r misses all of them").hex(),
    flag("for_itself", "the maker misses them too").drawn("self"),
    u8("requesters_count", "number of requesters").drawn("nreq"),
    u8("ranges_count", "number of ranges").drawn("nrange"),
    flag(
        "takes_parity",
        "the maker can use parities of the packets' blocks",
    )
    .drawn("parity"),
    counted(
        "requesters",
        "requesters_count",
        Request::REQUESTERS_MAX as u32,
        &REQUESTER,
        "who misses the packets",
    ),
    counted(
        "ranges",
        "ranges_count",
        Ranges::MAX as u32,
        &RANGE,
        "packets, ascending",
    ),
];

const SUSPECT: Field = u16("suspect", "member index of one that is silent");
const MARK: &[Field] = &[u64("mark", "progress of a partition, 0 if unknown")];
const SLOT: &[Field] = &[
    origin("slot.origin", "sender of the stream").drawn("origin"),
    u64("slot.cutoff", "number up to which the round speaks"),
    u64("slot.highest", "highest number known"),
    u64(
        "slot.arrived",
        "smallest of the highest that each node received from the sender",
    ),
    u64("slot.cached", "progress of the cachers so far"),
    u64("slot.stable", "progress of all so far"),
    u64("slot.stable_upto", "number up to which all have everything").drawn("stable_upto"),
    u64(
        "slot.cached_upto",
        "number up to which cachers have everything",
    )
    .drawn("cached_upto"),
    u16("slot.losers", "members that miss packets"),
    flag("slot.naks_cut", "more is missing than the ranges say").drawn("naks cut"),
    flag("slot.common_cut", "more is missing than the ranges say").drawn("common cut"),
    u8("slot.naks_count", "number of ranges").drawn("nnaks"),
    u8("slot.common_count", "number of ranges").drawn("ncommon"),
    counted(
        "slot.naks",
        "slot.naks_count",
        Ranges::MAX as u32,
        &MISSING,
        "packets missing",
    )
    .drawn("NAK ranges"),
    counted(
        "slot.commons",
        "slot.common_count",
        Ranges::MAX as u32,
        &COMMON,
        "packets missing in common",
    )
    .drawn("common ranges"),
];
const A_SLOT: Field = Field::new("slot", Shape::Record(SLOT), "a stream's state in the round");

const LEVEL: Field = u8("level", "0: ring of a partition; above: rings of leaders")
    .all_ones("the call")
    .brief();
const RATE: Field = u32("rate", "smallest receive rate so far")
    .unit("packets/s")
    .all_ones("nobody objects");
const CREDIT: Field = u32("credit", "smallest receive buffer so far").unit("B");
const TOKEN: &[Field] = &[
    REGION,
    VIEW,
    origin("leader", "leader of the region"),
    ROUND,
    LEVEL,
    u16("ring", "ring at this level"),
    u16("visited", "members that have had the token"),
    RATE,
    CREDIT,
    u8("suspects_count", "number of suspects").drawn("nsusp"),
    counted(
        "suspects",
        "suspects_count",
        Token::SUSPECTS_MAX as u32,
        &SUSPECT,
        "members that are silent",
    )
    .drawn("s × member index"),
    u8("slots_count", "number of slots").drawn("nslots"),
    counted("slots", "slots_count", 255, &A_SLOT, "states of streams"),
    Field::new(
        "slot_marks",
        Shape::Special("slot_marks", MARK),
        "progress of the partitions in each slot",
    )
    .drawn(""),
];

const TOKEN_ACK: &[Field] = &[
    REGION,
    origin("leader", "leader of the region"),
    ROUND,
    LEVEL,
];

const SUMMARY_SLOT: &[Field] = &[
    origin("slot.origin", "sender of the stream").drawn("origin"),
    u64("slot.cutoff", "number up to which the round speaks"),
    u64("slot.stable_upto", "number up to which all have everything").drawn("stable_upto"),
    u64(
        "slot.cached_upto",
        "number up to which cachers have everything",
    )
    .drawn("cached_upto"),
];
const A_SUMMARY_SLOT: Field = Field::new(
    "summary_slot",
    Shape::Record(SUMMARY_SLOT),
    "a stream's state",
);

const SUMMARY: &[Field] = &[
    REGION,
    VIEW,
    ROUND,
    u8("slots_count", "number of slots").drawn("count"),
    counted(
        "summary_slots",
        "slots_count",
        Summary::SLOTS_MAX as u32,
        &A_SUMMARY_SLOT,
        "states of streams",
    )
    .drawn("count × (origin, cutoff, stable_upto, cached_upto)"),
];

const ACK: &[Field] = &[
    CHANNEL,
    STREAM,
    REGION,
    VIEW,
    ROUND,
    u64("stable_upto", "number up to which all have everything").drawn("stable_upto"),
    u64("cached_upto", "number up to which cachers have everything").drawn("cached_upto"),
    u64(
        "arrived_upto",
        "smallest of the highest that each node received from the sender",
    )
    .drawn("arrived_upto"),
    RATE,
    CREDIT,
    u16("losers", "members that miss packets"),
    Field::new(
        "marks",
        Shape::Special("marks", MARK),
        "progress of the partitions",
    )
    .drawn(""),
];

const NUMBERS_QUERY: &[Field] = &[
    CHANNEL,
    STREAM,
    u32("joined", "view in which the asker joined"),
    u64("position", "packet passed over, or the last spoken of"),
    u32("from_group", "first group asked about"),
];
const NUMBERS_ROW: &[Field] = &[
    u32("numbers.group", "number of the group"),
    u64(
        "numbers.first",
        "first message owed, 0 if that is not known",
    ),
    u64("numbers.last", "last message up to the position"),
];
const A_NUMBERS_ROW: Field = Field::new("numbers", Shape::Record(NUMBERS_ROW), "a group's numbers");
const NUMBERS: &[Field] = &[
    CHANNEL,
    STREAM,
    u32("joined", "view in which the asker joined"),
    u64("position", "packet passed over, or the last spoken of"),
    u32("from_group", "first group asked about"),
    u32("next_group", "first group of the next part").all_ones("none: this is the last part"),
    u8("numbers_count", "number of groups").drawn("count"),
    counted(
        "numbers_rows",
        "numbers_count",
        Numbers::GROUPS_MAX as u32,
        &A_NUMBERS_ROW,
        "numbers of groups",
    )
    .drawn("count × (group, first, last)"),
];

const PARITY: &[Field] = &[
    CHANNEL,
    STREAM,
    u64("parity.first", "first packet of the block")
        .min(1)
        .brief(),
    u8("parity.count", "packets of the block").min(1),
    u8("parity.row", "number of this parity of the block").brief(),
    Field::new(
        "parity.sum",
        Shape::Special("sum", &[]),
        "sum of the packets' shards",
    )
    .drawn("sum"),
];

const SUBJECT: Field = origin("subject", "node that is asked about").drawn("origin");
const NONCE: Field = u64("nonce", "tells answers apart").hex();
const REACH_NONCE: Field = u32("reach.nonce", "tells answers apart").hex();
const SESSION: Field = u64("session", "number of the session").hex().brief();
const HEARD: Field = u64("heard_upto", "last frame heard from the other side").drawn("heard up to");
const LIST_VERSION: Field = u64(
    "list.version",
    "version of the list; in a question 0: the newest",
)
.drawn("version");
const LIST_OFFSET: Field = u32("list.offset", "where in the list this part begins")
    .unit("B")
    .drawn("offset");

/// Messages of sessions, by direction.
const MESSAGES: &[Field] = &[
    Field::new(
        "to_service",
        Shape::Choice(TO_SERVICE),
        "message to the service",
    ),
    Field::new(
        "from_service",
        Shape::Choice(FROM_SERVICE),
        "message from the service",
    ),
];
/// Rows of list replies, by list.
const ROW_LISTS: &[Field] = &[NODE_ROWS, GROUP_ROWS, REGION_ROWS];
const GROUP_ANSWER: &[Field] = &[DECISION_GIVEN];

/// A kind of packet without a check of its own.
const fn packet(kind: Kind, fields: &'static [Field]) -> PacketFormat {
    PacketFormat {
        kind,
        fields,
        check: "",
    }
}

/// The same, with a check of fields against each other.
const fn checked(kind: Kind, fields: &'static [Field], check: &'static str) -> PacketFormat {
    PacketFormat {
        kind,
        fields,
        check,
    }
}

/// Kinds of packets, in the order of their numbers.
pub const PACKETS: &[PacketFormat] = &[
    checked(
        Kind::Data,
        &[
            CHANNEL,
            VIEW,
            u64("sequence", "number of the packet in its stream")
                .min(1)
                .brief(),
            u32("view_age", "packets of the same view before this one")
                .all_ones("too many to tell"),
            Field::new(
                "chunks",
                Shape::Special("chunks", CHUNK),
                "parts of messages",
            ),
        ],
        "data",
    ),
    packet(
        Kind::Heartbeat,
        &[
            CHANNEL,
            STREAM,
            u64("highest", "last number sent, 0 before the first").brief(),
            flag("finished", "nothing follows"),
            u8("openings_count", "number of openings").drawn("count"),
            counted(
                "openings",
                "openings_count",
                Heartbeat::OPENINGS_MAX as u32,
                &AN_OPENING,
                "starts of views, newest first",
            )
            .drawn("count × (view, start)"),
        ],
    ),
    checked(Kind::Nak, REQUEST, "request"),
    checked(Kind::Pull, REQUEST, "request"),
    packet(Kind::Token, TOKEN),
    packet(Kind::TokenAck, TOKEN_ACK),
    packet(Kind::Summary, SUMMARY),
    checked(Kind::Ack, ACK, "ack"),
    packet(Kind::StreamQuery, &[CHANNEL, STREAM]),
    packet(
        Kind::Session,
        &[
            SESSION,
            u64("number", "number of the frame in its direction")
                .min(1)
                .brief(),
            HEARD,
            flag("more", "the message goes on in the next frame"),
            Field::new(
                "content",
                Shape::Special("message", MESSAGES),
                "a membership message, or a part of one",
            ),
        ],
    ),
    packet(
        Kind::Beacon,
        &[
            ADDRESS.drawn("family, IP, port").brief(),
            TERM,
            flag("embedded", "the service runs inside a node"),
            SECOND_GIVEN.drawn("second address or a 0"),
        ],
    ),
    packet(Kind::Solicit, &[]),
    packet(Kind::Probe, &[SUBJECT, NONCE]),
    packet(Kind::ProbeReply, &[SUBJECT, NONCE]),
    packet(
        Kind::Absent,
        &[
            CHANNEL,
            STREAM,
            flag("expired", "the lifetime of their messages is over").drawn("cause"),
            u8("ranges_count", "number of ranges").drawn("count"),
            counted(
                "ranges",
                "ranges_count",
                Ranges::MAX as u32,
                &RANGE,
                "packets, ascending",
            ),
        ],
    ),
    packet(Kind::SessionAck, &[SESSION, HEARD]),
    packet(Kind::SessionReset, &[SESSION]),
    packet(Kind::CatchUp, &[REGION, VIEW, NONCE]),
    packet(
        Kind::Reach,
        &[
            REGION,
            SPEAKER.brief(),
            ASKER.brief(),
            REACH_NONCE,
            named("hearing", HEARING, "how the asker hears the speaker").brief(),
        ],
    ),
    packet(
        Kind::ReachReply,
        &[
            REGION,
            REACH_NONCE,
            u32("spoken", "number of the newest reply by multicast"),
            flag("multicast", "this is that reply"),
        ],
    ),
    packet(Kind::NumbersQuery, NUMBERS_QUERY),
    checked(Kind::Numbers, NUMBERS, "numbers"),
    packet(
        Kind::ListQuery,
        &[
            NONCE,
            LIST.brief(),
            LIST_VERSION,
            LIST_OFFSET,
            Field::new("zeros", Shape::Special("zeros", &[]), "room for the answer"),
        ],
    ),
    checked(
        Kind::ListReply,
        &[
            NONCE,
            LIST.brief(),
            LIST_VERSION,
            u32("list.total", "bytes of the whole list")
                .unit("B")
                .drawn("total"),
            LIST_OFFSET,
            Field::new(
                "rows",
                Shape::Special("part_of_list", ROW_LISTS),
                "rows of the list, or a part of them",
            )
            .drawn("content"),
        ],
        "list_reply",
    ),
    checked(
        Kind::GroupQuery,
        &[
            NONCE,
            NAME.brief(),
            Field::new("zeros", Shape::Special("zeros", &[]), "room for the answer"),
        ],
        "group_query",
    ),
    packet(
        Kind::GroupReply,
        &[
            NONCE,
            Field::new(
                "answer",
                Shape::Special("group_answer", GROUP_ANSWER),
                "account of the group, if there is one of that name",
            ),
        ],
    ),
    checked(Kind::Parity, PARITY, "parity"),
    packet(
        Kind::Admission,
        &[
            named("stage", STAGES, "what it is for").min(1).brief(),
            Field::new(
                "words",
                Shape::Special("remainder", &[]),
                "the rest, by stage",
            )
            .drawn("content"),
        ],
    ),
];

/// Most marks in a list of them.
pub const MARKS_MAX: usize = Marks::MAX;
