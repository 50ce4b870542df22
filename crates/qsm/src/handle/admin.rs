//! Knowledge of a node, as the data of its answers to those who ask it by its local socket.

use std::collections::BTreeMap;
use std::time::Duration;

use qsm_admin::{
    GroupState, MemberState, NodeState, Reach, ReceivingState, RegionState, SendingState,
};
use qsm_proto::account::{
    GroupAccount, MemberAccount, Reached, ReceivingAccount, RegionAccount, SendingAccount,
};
use qsm_wire::NodeId;
use qsm_wire::membership::{AwayReason, NodeRow};

use crate::snapshot::Snapshot;

pub(crate) fn node_state(snapshot: Snapshot) -> NodeState {
    let program = std::env::current_exe().ok();
    let program = program.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    NodeState {
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
pub(crate) struct Names(BTreeMap<NodeId, String>);

impl Names {
    pub(crate) fn new(rows: Vec<NodeRow>) -> Self {
        let names = rows.into_iter().map(|row| (row.origin.node, row.name));
        Self(names.collect())
    }

    fn name(&self, node: NodeId) -> String {
        let name = self.0.get(&node).cloned();
        name.unwrap_or_else(|| format!("{:x}", node.0))
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
    }
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
