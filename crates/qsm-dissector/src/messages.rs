//! Formats of membership messages, as listed in PROTOCOL.md, section 6.

use crate::format::{
    Field, Shape, Variant, address, flag, list, named, optional, origin, text, u8, u32, u64,
};

/// Lists of the membership service.
const LISTS: &[(u64, &str)] = &[(1, "nodes"), (2, "groups"), (3, "regions")];

/// Roles of a node in a group.
const ROLES: &[(u64, &str)] = &[(1, "subscriber"), (2, "publisher")];

const REGION_KINDS: &[(u64, &str)] = &[(1, "exact"), (2, "common"), (3, "merged"), (4, "private")];

/// Reasons why a member is away.
const AWAY: &[(u64, &str)] = &[
    (1, "silent"),
    (2, "unreachable for members"),
    (3, "unreported to a new service"),
    (4, "slower than the others"),
    (5, "slower than the others, loses what it misses"),
];

/// A limit of repairs, and the number by which it is newer than others.
const REPAIRS_NUMBER: Field = u64(
    "repairs_number",
    "number of the limit of repairs, 0 if none was told",
)
.drawn("number of the limit");
const REPAIR_RATE: Field =
    u64("repair_rate", "bytes a second that a node may send again").drawn("bytes per second");
const REPAIR_SHARE: Field =
    u32("repair_share", "such bytes of a million that are new").drawn("share of a million");

const REGION: Field = u32("region", "region");
const VIEW: Field = u32("view", "view of the region");
const CHANNEL: Field = u32("channel", "channel of a region");
/// An address.
pub(crate) const ADDRESS: Field = address("address", "address and port");
/// A speaker of a region.
pub(crate) const SPEAKER: Field = origin("speaker", "speaker that is heard, or not");
/// Member that asks whether a speaker is heard.
pub(crate) const ASKER: Field = origin("asker", "member that asks");
/// One of the service's lists.
pub(crate) const LIST: Field = named("list", LISTS, "list that is asked for");
const REQUEST: Field = u32("request", "number that the answer repeats");
const ORIGIN: Field = origin("origin", "node and incarnation");
/// A name.
pub(crate) const NAME: Field = text("name", "name of a node or group");
const GROUP: Field = u32("group", "number of the group");
/// The term of a membership service.
pub(crate) const TERM: Field = u64("term", "term of the membership service");
const ROLE: Field = named("role", ROLES, "role in the groups");
const REGION_KIND: Field = named("region_kind", REGION_KINDS, "kind of the region").drawn("kind");
const GROUPS: Field = list("groups", &GROUP, "numbers of groups");
const NAMES: Field = list("names", &NAME, "names of groups");

const LEFT: Field = u32("member.left", "view in which the member left");
const AWAY_REASON: Field = named("member.away", AWAY, "reason for being away");
const MEMBER: &[Field] = &[
    ORIGIN,
    ADDRESS,
    u32("member.joined", "view in which the member joined"),
    optional("member.left_given", &LEFT).drawn("left"),
    optional("member.away_given", &AWAY_REASON).drawn("away"),
];
const A_MEMBER: Field = Field::new("member", Shape::Record(MEMBER), "a member");
const MEMBERS: Field = list("members", &A_MEMBER, "members of the region, in order");

const SENDER: &[Field] = &[ORIGIN, ADDRESS];
const A_SENDER: Field = Field::new("sender", Shape::Record(SENDER), "a sender");
const SENDERS: Field = list("senders", &A_SENDER, "senders to the region");

const GROUP_REPORT: &[Field] = &[
    optional("group_given", &GROUP).drawn("optional group"),
    NAME,
    ROLE,
];
const A_GROUP_REPORT: Field = Field::new("group_report", Shape::Record(GROUP_REPORT), "a group");

const REGION_REPORT: &[Field] = &[
    REGION,
    VIEW,
    CHANNEL,
    ADDRESS,
    MEMBERS,
    GROUPS,
    flag("merged", "its members have different groups"),
];
const A_REGION_REPORT: Field =
    Field::new("region_report", Shape::Record(REGION_REPORT), "a region");

const SECOND: Field = address("second_address", "address on the second network");
/// The address on a second network, if there is one.
pub(crate) const SECOND_GIVEN: Field = optional("second_given", &SECOND);
const ABOUT: &[Field] = &[
    text("host", "name of the host"),
    text("version_of_program", "version of the program").drawn("version"),
    u64("uptime", "time since the node started")
        .unit("ms")
        .drawn("uptime ms"),
];
const AN_ABOUT: Field = Field::new("about", Shape::Record(ABOUT), "what a node says of itself");
const RATES: &[Field] = &[
    u32("sent_per_second", "messages sent per second")
        .unit("messages/s")
        .drawn("messages sent per second"),
    u32("received_per_second", "messages received per second").unit("messages/s"),
];
const SOME_RATES: Field = Field::new("rates", Shape::Record(RATES), "rates of a node");

const fn variant(number: u8, name: &'static str, fields: &'static [Field]) -> Variant {
    Variant {
        number,
        name,
        fields,
    }
}

/// Messages of a node to the membership service.
pub const TO_SERVICE: &[Variant] = &[
    variant(
        1,
        "Hello",
        &[
            NAME,
            ADDRESS,
            SECOND_GIVEN.drawn("optional second address"),
            u32("incarnation_wanted", "incarnation, 0 in a first Hello").drawn("incarnation"),
            TERM,
            list("group_reports", &A_GROUP_REPORT, "groups of the node").drawn("groups"),
            list("region_reports", &A_REGION_REPORT, "regions of the node").drawn("regions"),
            u32("last_region", "highest region heard of"),
            u32("last_channel", "highest channel heard of"),
            u32("group_end", "number after the highest group heard of").drawn("group end"),
            u32("last_incarnation", "highest incarnation heard of"),
            list("dead", &ORIGIN, "nodes known to be dead"),
            list("own_senders", &ORIGIN, "senders heard").drawn("senders"),
            flag("published", "the node has published"),
            REPAIRS_NUMBER,
            REPAIR_RATE,
            REPAIR_SHARE,
        ],
    ),
    variant(2, "Enter", &[REQUEST, ROLE, NAMES]),
    variant(3, "Exit", &[REQUEST, ROLE, NAMES]),
    variant(4, "Drained", &[REGION, VIEW]),
    variant(
        5,
        "Suspect",
        &[
            ORIGIN,
            u32("silent", "time without a word")
                .unit("ms")
                .drawn("silent ms"),
        ],
    ),
    variant(6, "Query", &[REQUEST, LIST]),
    variant(7, "Goodbye", &[]),
    variant(8, "CaughtUp", &[REGION, VIEW]),
    variant(
        9,
        "Deaf",
        &[
            REGION,
            SPEAKER.drawn("speaker origin"),
            flag("deaf", "the speaker is not heard"),
        ],
    ),
    variant(
        10,
        "Strained",
        &[
            REGION,
            u8("behind", "part of the last second that the node was behind").unit("%"),
            u8("held", "part of the last second that it held back senders").unit("%"),
        ],
    ),
    variant(11, "About", ABOUT),
    variant(12, "Rates", RATES),
    variant(
        13,
        "GroupRates",
        &[
            list(
                "group_rates",
                &A_GROUP_RATE,
                "messages of the node to groups",
            )
            .drawn("groups"),
            flag("rates_whole", "it publishes to no other group").drawn("whole"),
        ],
    ),
    variant(14, "Foreign", &[REGION]),
    variant(
        15,
        "NothingOwed",
        &[list(
            "owed_nothing",
            &ORIGIN,
            "members that lack nothing that they receive",
        )
        .drawn("members")],
    ),
    variant(16, "Description", &[DESCRIPTION.drawn("text")]),
];

const DESCRIPTION: Field = text("description", "the node's word on itself");
const GRANT: Field = text("grant", "key and rights of the node");
const NODE_ROW: &[Field] = &[
    ORIGIN,
    NAME,
    ADDRESS,
    optional("region_given", &REGION).drawn("optional region"),
    u32("subscriptions", "groups subscribed to"),
    u32("publications", "groups published to"),
    optional("member.away_given", &AWAY_REASON).drawn("optional reason for being away"),
    flag("hears_badly", "it does not hear a speaker").drawn("deaf"),
    optional("about_given", &AN_ABOUT).drawn("optional About"),
    optional("rates_given", &SOME_RATES).drawn("optional Rates"),
    optional("grant_given", &GRANT).drawn("optional grant"),
    optional("description_given", &DESCRIPTION).drawn("optional description"),
];
const GROUP_ROW: &[Field] = &[
    GROUP,
    NAME,
    u32("members_count", "members of the group").drawn("members"),
    u32("regions_count", "regions of the group").drawn("regions"),
    u32("publishers_count", "publishers to the group").drawn("publishers"),
];
const REGION_ROW: &[Field] = &[
    REGION,
    VIEW,
    ADDRESS,
    REGION_KIND,
    u32("groups_count", "groups of the region").drawn("groups"),
    MEMBERS,
];
const A_NODE_ROW: Field = Field::new("node_row", Shape::Record(NODE_ROW), "a node");
const GROUP_RATE: &[Field] = &[
    GROUP,
    u32("messages_in_1000_s", "messages in 1000 s").drawn("messages in 1000 s"),
];
const A_GROUP_RATE: Field = Field::new("group_rate", Shape::Record(GROUP_RATE), "a group");
const A_GROUP_ROW: Field = Field::new("group_row", Shape::Record(GROUP_ROW), "a group");
const A_REGION_ROW: Field = Field::new("region_row", Shape::Record(REGION_ROW), "a region");

/// Rows of a list.
pub(crate) const NODE_ROWS: Field = list("node_rows", &A_NODE_ROW, "nodes").drawn("rows");
/// Rows of a list.
pub(crate) const GROUP_ROWS: Field = list("group_rows", &A_GROUP_ROW, "groups").drawn("rows");
/// Rows of a list.
pub(crate) const REGION_ROWS: Field = list("region_rows", &A_REGION_ROW, "regions").drawn("rows");

const UNWANTED: Field = u32(
    "unwanted_ppm",
    "deliveries of a million that nobody wants, each group having as many messages",
);
const PACKETS: Field = u32("packets", "packets that a message takes");
const COST: Field = u64("cost", "CPU time of a message")
    .unit("ns")
    .drawn("cost ns");
const RATE: Field = u32("rate_in_1000_s", "messages of the group in 1000 s").drawn("rate");
const COMMON: Field = u32(
    "common_saves",
    "packets in a second that a common region has to save",
)
.drawn("common");
const LIMITS: &[Field] = &[
    UNWANTED,
    optional("common_given", &COMMON).drawn("optional common"),
];
const SOME_LIMITS: Field = Field::new("limits", Shape::Record(LIMITS), "limits of plans");
const PIN: Field = text("pin", "channel that a hint pins the group to");
const DOMAIN: Field = text("domain", "security domain of the members");
const HINTS: &[Field] = &[
    optional("domain_given", &DOMAIN).drawn("optional domain"),
    u32("compartment", "compartment of the members"),
    flag("together", "a hint has the members together"),
];
const NEAREST: &[Field] = &[REGION, UNWANTED];
const A_NEAREST: Field = Field::new(
    "nearest",
    Shape::Record(NEAREST),
    "region that this one fits with best",
);
const REGION_DECISION: &[Field] = &[
    REGION,
    REGION_KIND,
    u32(
        "members_there",
        "members of the region that are not leaving",
    )
    .drawn("members"),
    u32("receivers", "nodes that receive the group"),
    u32("groups_count", "groups of the region").drawn("groups"),
    UNWANTED,
    Field::new("hints", Shape::Record(HINTS), "hints that bind the members"),
    optional("nearest_given", &A_NEAREST).drawn("optional nearest"),
];
const A_REGION_DECISION: Field = Field::new(
    "region_decision",
    Shape::Record(REGION_DECISION),
    "a region of the group",
);
const WAYS: &[Variant] = &[
    variant(1, "exact", &[PACKETS, COST]),
    variant(2, "copies", &[PACKETS, COST]),
    variant(
        3,
        "common",
        &[
            PACKETS,
            COST,
            u32("groups_count", "groups of the region").drawn("groups"),
            u64("saved", "packets that are saved in 1000 s"),
            u64("spent", "packets that tokens cost in 1000 s"),
        ],
    ),
    variant(4, "merged", &[PACKETS, COST, UNWANTED]),
];
const WAY: Field = Field::new("way", Shape::Choice(WAYS), "a way of the group's messages");
const DECISION: &[Field] = &[
    GROUP,
    u32("receivers", "nodes that receive the group"),
    u32("publishers_count", "publishers to the group").drawn("publishers"),
    PACKETS,
    COST,
    optional("rate_given", &RATE).drawn("optional rate"),
    optional("limits_given", &SOME_LIMITS).drawn("optional limits"),
    optional("pin_given", &PIN).drawn("optional pin"),
    list(
        "region_decisions",
        &A_REGION_DECISION,
        "regions of the group",
    )
    .drawn("regions"),
    u32("left_out", "regions that there was no room for"),
    list("ways", &WAY, "other ways of its messages"),
];
const A_DECISION: Field = Field::new(
    "decision",
    Shape::Record(DECISION),
    "account of a group by the membership service",
);
/// The account of a group, if there is such a group.
pub(crate) const DECISION_GIVEN: Field = optional("decision_given", &A_DECISION);

const GROUP_START: &[Field] = &[GROUP, VIEW];
const A_GROUP_START: Field = Field::new("group_start", Shape::Record(GROUP_START), "a group");
const FILTER: &[Field] = &[
    ORIGIN,
    list(
        "unwanted",
        &GROUP,
        "groups that the member does not receive",
    ),
    list(
        "since",
        &A_GROUP_START,
        "groups received since a later view",
    ),
];
const LIFETIME: &[Field] = &[
    GROUP,
    u32("lifetime", "lifetime of the group's messages")
        .unit("ms")
        .drawn("lifetime ms"),
];
const A_LIFETIME: Field = Field::new("group_lifetime", Shape::Record(LIFETIME), "a group");
const DEMANDS: &[(u64, &str)] = &[(1, "audit"), (2, "verified")];
const SIGNER: &[Field] = &[
    ORIGIN,
    text("signer.key", "key by which the node signs").drawn("key"),
    list("barred", &GROUP, "groups to which it may not publish"),
];
const A_SIGNER: Field = Field::new("signer", Shape::Record(SIGNER), "a publisher");
const A_FILTER: Field = Field::new("filter", Shape::Record(FILTER), "a member");

/// Updates in a Batch.
pub const UPDATES: &[Variant] = &[
    variant(1, "Named", &[GROUP, NAME]),
    variant(2, "Region", &[REGION, CHANNEL, ADDRESS, GROUPS]),
    variant(
        3,
        "View",
        &[
            REGION,
            VIEW,
            u32("base", "view that this one changes"),
            list("removed", &ORIGIN, "members that are gone"),
            list("leaving", &ORIGIN, "members that leave"),
            list("changed", &A_MEMBER, "members that are otherwise now"),
            list("added", &A_MEMBER, "members that are new"),
        ],
    ),
    variant(4, "Closed", &[REGION]),
    variant(5, "Dead", &[ORIGIN]),
    variant(6, "Settled", &[REGION, VIEW, SENDERS]),
    variant(7, "Second", &[ADDRESS, SECOND]),
    variant(8, "Sources", &[REGION, SENDERS]),
    variant(
        9,
        "Filters",
        &[
            REGION,
            flag("whole", "it replaces all that was said of the region"),
            list(
                "filters",
                &A_FILTER,
                "members that do not receive all groups",
            ),
        ],
    ),
    variant(
        10,
        "Lifetimes",
        &[
            REGION,
            list(
                "lifetimes",
                &A_LIFETIME,
                "groups whose messages have a lifetime",
            )
            .drawn("groups"),
        ],
    ),
    variant(11, "Repairs", &[REPAIRS_NUMBER, REPAIR_RATE, REPAIR_SHARE]),
    variant(
        12,
        "MinimumRate",
        &[
            REGION,
            u32("minimum_rate", "rate below which no sender is held")
                .unit("packets/s")
                .drawn("packets per second"),
        ],
    ),
    variant(13, "NothingOwed", &[ORIGIN]),
    variant(
        14,
        "Proof",
        &[
            REGION,
            named("proof", DEMANDS, "proof that is demanded of senders").drawn("demand"),
        ],
    ),
    variant(
        15,
        "Signers",
        &[
            REGION,
            list("signers", &A_SIGNER, "publishers with their keys"),
        ],
    ),
];
const UPDATE: Field = Field::new("update", Shape::Choice(UPDATES), "a change");

/// Messages of the membership service to a node.
pub const FROM_SERVICE: &[Variant] = &[
    variant(
        1,
        "Welcome",
        &[
            u32("incarnation_given", "incarnation of the node").drawn("incarnation"),
            TERM,
            u32("heartbeat", "time between heartbeats")
                .unit("ms")
                .drawn("heartbeat ms"),
            flag(
                "expelled",
                "the former life is over because the node was slow",
            ),
        ],
    ),
    variant(
        2,
        "Batch",
        &[
            u64("batch", "number of the batch").drawn("number"),
            list("updates", &UPDATE, "changes"),
        ],
    ),
    variant(3, "Done", &[REQUEST]),
    variant(
        4,
        "Refused",
        &[REQUEST, text("reason", "reason of the refusal")],
    ),
    variant(5, "Nodes", &[REQUEST, NODE_ROWS]),
    variant(6, "Groups", &[REQUEST, GROUP_ROWS]),
    variant(7, "Regions", &[REQUEST, REGION_ROWS]),
    variant(8, "Redirect", &[ADDRESS]),
];
