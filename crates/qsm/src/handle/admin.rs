//! Knowledge of a node, as the data of its answers to those who ask it by its local socket.

use std::collections::BTreeMap;
use std::time::Duration;

use qsm_admin::{
    Came, DescribedNode, GapState, GroupState, MemberState, MessageState, MessageStreamState,
    NodeState, PartsState, Reach, ReceivingState, RegionState, SendingState, Standing as Stands,
};
use qsm_proto::account::{
    GapAccount, GroupAccount, MemberAccount, MessageAccount, MessageStream, Parts, Reached,
    ReceivingAccount, RegionAccount, SendingAccount, Standing,
};
use qsm_wire::membership::{AwayReason, NodeRow};
use qsm_wire::{Hop, Incarnation, NodeId, Origin};

use crate::snapshot::Snapshot;

pub(crate) fn node_state(snapshot: Snapshot) -> NodeState {
    let program = std::env::current_exe().ok();
    let program = program.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    let interface = &snapshot.io.interface;
    let medium = (!interface.medium.suits_multicast())
        .then(|| format!("{} is {}", interface.name, interface.medium));
    NodeState {
        medium,
        name: snapshot.name,
        node: format!("{:x}", snapshot.node.0),
        cluster: snapshot.cluster,
        address: snapshot.address,
        service: snapshot.service,
        program: program.unwrap_or_default(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// Names of nodes; of a node that is not there its id.
#[derive(Debug, Default)]
pub(crate) struct Names {
    names: BTreeMap<Origin, String>,
    described: Vec<DescribedNode>,
}

impl Names {
    pub(crate) fn new(rows: Vec<NodeRow>) -> Self {
        Self {
            described: rows.iter().filter_map(described).collect(),
            names: rows.into_iter().map(|row| (row.origin, row.name)).collect(),
        }
    }

    fn name(&self, node: NodeId) -> String {
        let mut lives = self.names.iter().filter(|(origin, _)| origin.node == node);
        let name = lives.next().map(|(_, name)| name.clone());
        name.unwrap_or_else(|| format!("{:x}", node.0))
    }

    /// The node of this name, or of this id and life.
    ///
    /// # Errors
    /// There is none, or several have the name.
    pub(crate) fn origin(&self, text: &str) -> Result<Origin, String> {
        if let Some(origin) = parse_origin(text) {
            return Ok(origin);
        }
        let mut named = self.names.iter().filter(|(_, name)| *name == text);
        match (named.next(), named.next()) {
            (Some((origin, _)), None) => Ok(*origin),
            (None, _) => Err(format!(
                "no node of the cluster has the name {text}; say its id and life, as `qsm sub --json` writes them"
            )),
            (Some(_), Some(_)) => Err(format!(
                "several nodes have the name {text}; say the id and life, as `qsm sub --json` writes them"
            )),
        }
    }
}

pub(crate) fn group_state(name: String, account: &GroupAccount, names: &Names) -> GroupState {
    let regions = account.regions.iter();
    GroupState {
        name,
        number: account.group.0,
        publishes: account.publishes,
        published: account.published,
        receives: account.receives,
        regions: regions.map(|region| region_state(region, names)).collect(),
        described: names.described.clone(),
    }
}

/// The node of a row, if it describes itself.
fn described(row: &NodeRow) -> Option<DescribedNode> {
    let is_silent = |reason| matches!(reason, AwayReason::Silent | AwayReason::Unreported);
    Some(DescribedNode {
        description: row.description.clone()?,
        name: row.name.clone(),
        node: row.origin.to_string(),
        away: row.away.map(|reason| away(reason).to_owned()),
        silent: row.away.is_some_and(is_silent),
    })
}

fn region_state(region: &RegionAccount, names: &Names) -> RegionState {
    let members = region.members.iter();
    let streams = region.receiving.iter();
    RegionState {
        region: region.region.0,
        view: region.view.0,
        address: region.address(),
        private: !region.path.is_multicast(),
        partitions: region.partitions,
        leader: region.leader.map(|leader| names.name(leader.node)),
        member: region.member,
        datagrams: region.datagrams(),
        members: members.map(|member| member_state(member, names)).collect(),
        sending: region.sending.as_ref().map(sending_state),
        receiving: streams
            .map(|stream| receiving_state(stream, names))
            .collect(),
    }
}

fn member_state(account: &MemberAccount, names: &Names) -> MemberState {
    let member = &account.member;
    MemberState {
        name: names.name(member.origin.node),
        address: member.address,
        leaving: member.leaving(),
        away: member.away.map(|reason| away(reason).to_owned()),
        reached: match account.reached {
            Reached::Itself => Reach::Itself,
            Reached::Copies => Reach::Copies,
            Reached::Alone => Reach::Alone,
            Reached::NoMulticast => Reach::NoMulticast,
            _ => Reach::Multicast,
        },
        drops: account.drops,
    }
}

/// The words of the book.
fn away(reason: AwayReason) -> &'static str {
    match reason {
        AwayReason::Silent => "silent",
        AwayReason::Unreachable => "other members do not hear it",
        AwayReason::Unreported => "it has not reported to a new service",
        AwayReason::Slow => "slower than the others",
        AwayReason::Demoted => "slower than the others, and loses what it misses",
        _ => "for a reason that this version does not know",
    }
}

fn sending_state(account: &SendingAccount) -> SendingState {
    SendingState {
        packets: account.packets,
        stable_upto: account.stable_upto,
        unsent_messages: account.unsent_messages,
        in_flight_bytes: account.in_flight_bytes,
        window_bytes: account.window_bytes,
        rate: (account.rate != u32::MAX).then_some(account.rate),
        minimum_rate: account.minimum_rate,
    }
}

fn receiving_state(account: &ReceivingAccount, names: &Names) -> ReceivingState {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    ReceivingState {
        sender: names.name(account.sender.node),
        packets: account.highest,
        contiguous: account.contiguous,
        stable_upto: account.stable_upto,
        dead: account.dead,
        unheard_millis: account.unheard_for.map(millis),
    }
}

/// An id in hexadecimal, a point, and the number of a life.
fn parse_origin(text: &str) -> Option<Origin> {
    let (node, life) = text.split_once('.')?;
    Some(Origin {
        node: NodeId(u64::from_str_radix(node, 16).ok()?),
        incarnation: Incarnation(life.parse().ok()?),
    })
}

pub(crate) fn message_state(
    group: String,
    account: &MessageAccount,
    names: &Names,
) -> MessageState {
    let streams = account.streams.iter();
    MessageState {
        group,
        sender: names.name(account.sender.node),
        origin: account.sender.to_string(),
        number: account.number,
        standing: standing(account.standing),
        next: account.next,
        streams: streams.map(|stream| stream_state(stream, names)).collect(),
    }
}

fn standing(standing: Standing) -> Stands {
    match standing {
        Standing::Unpublished => Stands::Unpublished,
        Standing::Unsent => Stands::Unsent,
        Standing::Unacknowledged => Stands::Unacknowledged,
        Standing::Acknowledged => Stands::Acknowledged,
        Standing::NotReceived => Stands::NotReceived,
        Standing::Unheard => Stands::Unheard,
        Standing::Past => Stands::Past,
        Standing::Waits => Stands::Waits,
        Standing::Partial => Stands::Partial,
        Standing::Missing => Stands::Missing,
        _ => Stands::Unknown,
    }
}

fn stream_state(stream: &MessageStream, names: &Names) -> MessageStreamState {
    let gaps = stream.gaps.iter();
    MessageStreamState {
        region: stream.region.0,
        channel: stream.channel.0,
        packets: stream.highest,
        contiguous: stream.contiguous,
        stable_upto: stream.stable_upto,
        parts: stream.parts.map(parts_state),
        cut_short: stream.cut_short,
        dead: stream.dead,
        missing: stream.missing,
        gaps: gaps.map(|gap| gap_state(gap, names)).collect(),
    }
}

fn parts_state(parts: Parts) -> PartsState {
    PartsState {
        first: parts.first,
        last: parts.last,
        packets: parts.packets,
        view: parts.view.0,
        came: match parts.hop {
            Hop::SenderRepair => Came::SenderRepair,
            Hop::CacherRepair => Came::CacherRepair,
            Hop::Push => Came::Push,
            Hop::PullRepair => Came::PullRepair,
            Hop::Copy => Came::Copy,
            _ => Came::Direct,
        },
        complete: parts.complete,
    }
}

fn gap_state(gap: &GapAccount, names: &Names) -> GapState {
    let asked = gap.asked.map(|origin| names.name(origin.node));
    GapState {
        first: gap.first,
        last: gap.last,
        age_micros: u64::try_from(gap.age.as_micros()).unwrap_or(u64::MAX),
        requests: gap.requests,
        asked,
        put_off: gap.put_off,
    }
}
