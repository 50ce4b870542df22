//! Random membership messages of every variant.

use qsm_wire::membership::{
    About, Answer, AnswerRows, AwayReason, FromService, GroupAnswer, GroupDecision, GroupLifetime,
    GroupRate, GroupRates, GroupReport, GroupRow, GroupStart, GroupWay, Hello, Member,
    MemberFilter, NearRegion, NodeRow, OriginDemand, PlanLimits, QueryKind, Rates, RegionDecision,
    RegionHints, RegionKind, RegionReport, RegionRow, RepairLimit, Role, Sender, Signer, Strain,
    ToService, ToldLimit, Update, ViewStep,
};
use qsm_wire::{ChannelId, GroupId, Incarnation, RegionId, ViewNumber};

use super::dice::Dice;
use super::draw::{address, origin};

/// Variants of [`ToService`] that [`to_service`] draws.
pub const TO_SERVICE: usize = 16;
/// Variants of [`FromService`] that [`from_service`] draws.
pub const FROM_SERVICE: usize = 8;

/// Decodes and re-encodes arbitrary bytes as a message to the service.
pub fn check_to_service(bytes: &[u8]) -> Option<ToService> {
    let message = ToService::decode(bytes).ok()?;
    let mut again = Vec::new();
    message.encode(&mut again);
    assert_eq!(ToService::decode(&again).as_ref(), Ok(&message));
    Some(message)
}

/// Decodes and re-encodes arbitrary bytes as a message from the service.
pub fn check_from_service(bytes: &[u8]) -> Option<FromService> {
    let message = FromService::decode(bytes).ok()?;
    let mut again = Vec::new();
    message.encode(&mut again);
    assert_eq!(FromService::decode(&again).as_ref(), Ok(&message));
    Some(message)
}

/// Decodes and re-encodes arbitrary bytes as an answer on a group.
pub fn check_group_answer(bytes: &[u8]) -> Option<GroupAnswer> {
    let answer = GroupAnswer::decode(bytes).ok()?;
    let mut again = Vec::new();
    answer.encode(&mut again);
    assert_eq!(GroupAnswer::decode(&again).as_ref(), Ok(&answer));
    Some(answer)
}

pub fn group_answer(dice: &mut Dice) -> GroupAnswer {
    let decision = (dice.below(4) > 0).then(|| GroupDecision {
        group: GroupId(dice.u32()),
        receivers: dice.u32(),
        publishers: dice.u32(),
        packets: dice.u32(),
        cost_ns: dice.u64(),
        rate: dice.flag().then(|| dice.u32()),
        limits: dice.flag().then(|| PlanLimits {
            unwanted_ppm: dice.u32(),
            common: dice.flag().then(|| dice.u32()),
        }),
        pin: dice.flag().then(|| text(dice)),
        regions: dice.list(3, region_decision),
        left_out: dice.u32(),
        ways: dice.list(4, group_way),
    });
    GroupAnswer { decision }
}

fn region_decision(dice: &mut Dice) -> RegionDecision {
    RegionDecision {
        region: RegionId(dice.u32()),
        kind: region_kind(dice),
        members: dice.u32(),
        receivers: dice.u32(),
        groups: dice.u32(),
        unwanted_ppm: dice.u32(),
        hints: RegionHints {
            domain: dice.flag().then(|| text(dice)),
            compartment: dice.u32(),
            together: dice.flag(),
        },
        nearest: dice.flag().then(|| NearRegion {
            region: RegionId(dice.u32()),
            unwanted_ppm: dice.u32(),
        }),
    }
}

fn group_way(dice: &mut Dice) -> GroupWay {
    let (packets, cost_ns) = (dice.u32(), dice.u64());
    match dice.below(4) {
        0 => GroupWay::Exact { packets, cost_ns },
        1 => GroupWay::Copies { packets, cost_ns },
        2 => GroupWay::Common {
            packets,
            cost_ns,
            groups: dice.u32(),
            saved: dice.u64(),
            spent: dice.u64(),
        },
        _ => GroupWay::Merged {
            packets,
            cost_ns,
            unwanted_ppm: dice.u32(),
        },
    }
}

pub fn to_service(dice: &mut Dice, variant: usize) -> ToService {
    match variant {
        0 => ToService::Hello(Hello {
            name: text(dice),
            address: address(dice),
            second: dice.flag().then(|| address(dice)),
            incarnation: Incarnation(dice.u32()),
            term: dice.u64(),
            groups: dice.list(4, |dice| GroupReport {
                group: dice.flag().then(|| GroupId(dice.u32())),
                name: text(dice),
                role: role(dice),
            }),
            regions: dice.list(3, region_report),
            region_last: RegionId(dice.u32()),
            channel_last: ChannelId(dice.u32()),
            group_end: GroupId(dice.u32()),
            incarnation_last: Incarnation(dice.u32()),
            dead: dice.list(4, origin),
            senders: dice.list(4, origin),
            published: dice.flag(),
            repairs: told_limit(dice),
        }),
        10 => ToService::About(about(dice)),
        11 => ToService::Rates(rates(dice)),
        12 => ToService::GroupRates(group_rates(dice)),
        1 => ToService::Enter {
            request: dice.u32(),
            role: role(dice),
            names: dice.list(4, text),
        },
        2 => ToService::Exit {
            request: dice.u32(),
            role: role(dice),
            names: dice.list(4, text),
        },
        4 => ToService::Suspect {
            member: origin(dice),
            silent_ms: dice.u32(),
        },
        5 => {
            let kinds = [QueryKind::Nodes, QueryKind::Groups, QueryKind::Regions];
            ToService::Query {
                request: dice.u32(),
                kind: kinds[dice.below(3)],
            }
        }
        6 => ToService::Goodbye,
        3 | 7 => in_a_view(dice, variant),
        8 => ToService::Deaf {
            region: RegionId(dice.u32()),
            speaker: origin(dice),
            deaf: dice.flag(),
        },
        9 => ToService::Strained {
            region: RegionId(dice.u32()),
            strain: strain(dice),
        },
        13 => ToService::Foreign {
            region: RegionId(dice.u32()),
        },
        14 => ToService::NothingOwed {
            members: dice.list(4, origin),
        },
        15 => ToService::Description { text: text(dice) },
        other => panic!("no variant {other}"),
    }
}

fn in_a_view(dice: &mut Dice, variant: usize) -> ToService {
    let (region, view) = (RegionId(dice.u32()), ViewNumber(dice.u32()));
    match variant {
        3 => ToService::Drained { region, view },
        _ => ToService::CaughtUp { region, view },
    }
}

fn strain(dice: &mut Dice) -> Strain {
    Strain {
        behind: dice.below(101) as u8,
        held: dice.below(101) as u8,
    }
}

pub fn from_service(dice: &mut Dice, variant: usize) -> FromService {
    match variant {
        0 => FromService::Welcome {
            incarnation: Incarnation(dice.u32()),
            term: dice.u64(),
            heartbeat_ms: dice.u32(),
            expelled: dice.flag(),
        },
        1 => FromService::Batch {
            number: dice.u64(),
            updates: dice.list(6, update),
        },
        2 => answer(dice, |_| Ok(AnswerRows::None)),
        3 => answer(dice, |dice| Err(text(dice))),
        4 => answer(dice, |dice| Ok(AnswerRows::Nodes(dice.list(4, node_row)))),
        5 => answer(dice, |dice| Ok(AnswerRows::Groups(dice.list(4, group_row)))),
        6 => answer(dice, |dice| {
            Ok(AnswerRows::Regions(dice.list(4, region_row)))
        }),
        7 => FromService::Redirect {
            address: address(dice),
        },
        other => panic!("no variant {other}"),
    }
}

fn answer(
    dice: &mut Dice,
    result: impl FnOnce(&mut Dice) -> Result<AnswerRows, String>,
) -> FromService {
    FromService::Answer(Answer {
        request: dice.u32(),
        result: result(dice),
    })
}

fn region_report(dice: &mut Dice) -> RegionReport {
    RegionReport {
        region: RegionId(dice.u32()),
        view: ViewNumber(dice.u32()),
        channel: ChannelId(dice.u32()),
        address: address(dice),
        members: dice.list(4, member),
        groups: dice.list(3, |dice| GroupId(dice.u32())),
        merged: dice.flag(),
    }
}

fn step(dice: &mut Dice) -> ViewStep {
    ViewStep {
        region: RegionId(dice.u32()),
        view: ViewNumber(dice.u32()),
        base: ViewNumber(dice.u32()),
        removed: dice.list(3, origin),
        leaving: dice.list(3, origin),
        changed: dice.list(3, member),
        added: dice.list(3, member),
    }
}

fn update(dice: &mut Dice) -> Update {
    match dice.below(15) {
        0 => Update::Named {
            group: GroupId(dice.u32()),
            name: text(dice),
        },
        1 => Update::Region {
            region: RegionId(dice.u32()),
            channel: ChannelId(dice.u32()),
            address: address(dice),
            groups: dice.list(6, |dice| GroupId(dice.u32())),
        },
        2 => Update::View(step(dice)),
        3 => Update::Closed {
            region: RegionId(dice.u32()),
        },
        4 => Update::Settled {
            region: RegionId(dice.u32()),
            view: ViewNumber(dice.u32()),
            senders: dice.list(3, |dice| Sender {
                origin: origin(dice),
                address: address(dice),
            }),
        },
        5 => Update::Second {
            address: address(dice),
            second: address(dice),
        },
        6 => Update::Sources {
            region: RegionId(dice.u32()),
            senders: dice.list(3, |dice| Sender {
                origin: origin(dice),
                address: address(dice),
            }),
        },
        7 => Update::Filters {
            region: RegionId(dice.u32()),
            whole: dice.flag(),
            members: dice.list(3, |dice| MemberFilter {
                origin: origin(dice),
                unwanted: dice.list(4, |dice| GroupId(dice.u32())),
                since: dice.list(3, |dice| GroupStart {
                    group: GroupId(dice.u32()),
                    view: ViewNumber(dice.u32()),
                }),
            }),
        },
        8..14 => terms(dice),
        _ => Update::Dead {
            origin: origin(dice),
        },
    }
}

fn terms(dice: &mut Dice) -> Update {
    match dice.below(6) {
        0 => Update::Lifetimes {
            region: RegionId(dice.u32()),
            groups: dice.list(4, |dice| GroupLifetime {
                group: GroupId(dice.u32()),
                ms: dice.u32(),
            }),
        },
        1 => Update::Repairs {
            told: told_limit(dice),
        },
        2 => Update::MinimumRate {
            region: RegionId(dice.u32()),
            packets_per_second: dice.u32(),
        },
        3 => Update::NothingOwed {
            origin: origin(dice),
        },
        4 => Update::Proof {
            region: RegionId(dice.u32()),
            demand: match dice.flag() {
                true => OriginDemand::Audit,
                false => OriginDemand::Verified,
            },
        },
        _ => Update::Signers {
            region: RegionId(dice.u32()),
            signers: dice.list(3, |dice| Signer {
                origin: origin(dice),
                key: text(dice),
                barred: dice.list(3, |dice| GroupId(dice.u32())),
            }),
        },
    }
}

fn told_limit(dice: &mut Dice) -> ToldLimit {
    ToldLimit {
        number: dice.u64(),
        limit: repair_limit(dice),
    }
}

fn repair_limit(dice: &mut Dice) -> RepairLimit {
    RepairLimit {
        bytes_per_second: dice.u64(),
        share_ppm: dice.u32(),
    }
}

fn node_row(dice: &mut Dice) -> NodeRow {
    NodeRow {
        origin: origin(dice),
        name: text(dice),
        address: address(dice),
        region: dice.flag().then(|| RegionId(dice.u32())),
        subscriptions: dice.u32(),
        publications: dice.u32(),
        away: away(dice),
        deaf: dice.flag(),
        about: dice.flag().then(|| about(dice)),
        rates: dice.flag().then(|| rates(dice)),
        grant: dice.flag().then(|| text(dice)),
        description: dice.flag().then(|| text(dice)),
    }
}

fn about(dice: &mut Dice) -> About {
    About {
        host: text(dice),
        version: text(dice),
        uptime_ms: dice.u64(),
    }
}

fn rates(dice: &mut Dice) -> Rates {
    Rates {
        sent: dice.u32(),
        received: dice.u32(),
    }
}

fn group_rates(dice: &mut Dice) -> GroupRates {
    let rate = |dice: &mut Dice| GroupRate {
        group: GroupId(dice.u32()),
        rate: dice.u32(),
    };
    GroupRates {
        groups: dice.list(4, rate),
        whole: dice.flag(),
    }
}

fn group_row(dice: &mut Dice) -> GroupRow {
    GroupRow {
        group: GroupId(dice.u32()),
        name: text(dice),
        members: dice.u32(),
        regions: dice.u32(),
        publishers: dice.u32(),
    }
}

fn region_row(dice: &mut Dice) -> RegionRow {
    RegionRow {
        region: RegionId(dice.u32()),
        view: ViewNumber(dice.u32()),
        address: address(dice),
        kind: region_kind(dice),
        groups: dice.u32(),
        members: dice.list(4, member),
    }
}

fn region_kind(dice: &mut Dice) -> RegionKind {
    match dice.below(4) {
        0 => RegionKind::Exact,
        1 => RegionKind::Common,
        2 => RegionKind::Merged,
        _ => RegionKind::Private,
    }
}

fn member(dice: &mut Dice) -> Member {
    Member {
        origin: origin(dice),
        address: address(dice),
        joined: ViewNumber(dice.u32()),
        left: dice.flag().then(|| ViewNumber(dice.u32())),
        away: away(dice),
    }
}

fn away(dice: &mut Dice) -> Option<AwayReason> {
    Some(match dice.below(7) {
        0 => AwayReason::Silent,
        1 => AwayReason::Unreachable,
        2 => AwayReason::Unreported,
        3 => AwayReason::Demoted,
        _ => return None,
    })
}

fn role(dice: &mut Dice) -> Role {
    if dice.flag() {
        Role::Subscriber
    } else {
        Role::Publisher
    }
}

fn text(dice: &mut Dice) -> String {
    let letters = ['a', '/', '0', 'é', '漢', '🙂'];
    dice.list(12, |dice| letters[dice.below(letters.len())])
        .into_iter()
        .collect()
}
