//! The registry as a machine: its tables of states, and that it is a function of its commands.

use core::fmt::Debug;
use std::panic::{UnwindSafe, catch_unwind};

use qsm_wire::membership::{Answer, AwayReason, Hello, Role, ToService};

use super::super::transition::{State, seen};
use super::reports::{hello, region_of_node_0};
use super::*;
use crate::registry::command::{Command, EndCause, Updates};

/// Tries every event in every state: a row of the table is what happens, anything else panics.
fn walk<S>(states: &[S], events: &[S::Event])
where
    S: State + UnwindSafe,
    S::Event: UnwindSafe,
{
    let mut rows = 0;
    for state in states {
        for event in events {
            let (state, event) = (*state, *event);
            let same = |row: &&(S, S::Event, S)| row.0 == state && row.1 == event;
            let row = S::TABLE.iter().filter(same).collect::<Vec<_>>();
            assert!(row.len() <= 1, "{state:?} {event:?} is in the table twice");
            let after = catch_unwind(move || {
                let mut after = state;
                after.advance(event);
                after
            });
            assert_eq!(after.ok(), row.first().map(|row| row.2));
            rows += row.len();
        }
    }
    assert_eq!(rows, S::TABLE.len(), "a state or an event is missing here");
}

#[test]
fn a_life_takes_the_transitions_of_its_table_and_no_other() {
    use LifeEvent::{Admit, End, Remove, Resume, Tell};
    walk(
        &[
            Life::Unknown,
            Life::Unsynced,
            Life::Synced,
            Life::Ending,
            Life::Ended,
        ],
        &[Admit, Resume, Tell, End, Remove],
    );
}

#[test]
fn a_departure_takes_the_transitions_of_its_table_and_no_other() {
    use DepartureEvent::{Close, Drain, Leave, Part, Remove, Return, Settle};
    use DepartureState::{Drained, Leaving, Over, Parted, Parting, Settled, Staying};
    walk(
        &[Staying, Leaving, Settled, Drained, Parting, Parted, Over],
        &[Leave, Part, Settle, Drain, Remove, Close, Return],
    );
}

fn some_names(random: &mut Random) -> Vec<String> {
    let count = 1 + random.below(3);
    names((0..count).map(|_| random.below(5)).collect::<Vec<_>>())
}

fn some_hello(random: &mut Random, registry: &Registry, node: NodeId) -> Hello {
    let present = registry.origin(node);
    let present = present.filter(|_| random.below(3) > 0);
    let rows = registry.region_rows();
    let rows = rows.iter().filter(|_| random.below(2) == 0);
    let regions = rows.map(|row| RegionReport {
        region: row.region,
        view: row.view,
        channel: qsm_wire::ChannelId(row.region.0),
        address: row.address,
        members: row.members.clone(),
        groups: Vec::new(),
        merged: false,
    });
    let regions: Vec<RegionReport> = regions.collect();
    let groups = some_names(random).into_iter();
    let groups = groups.map(|name| GroupReport {
        group: registry.groups.find(&name),
        name,
        role: Role::Subscriber,
    });
    let groups: Vec<GroupReport> = groups.skip(usize::from(random.below(2) == 0)).collect();
    let incarnation = u32::try_from(random.below(4)).unwrap();
    let elsewhere = random.below(3);
    let dead = (random.below(8) == 0).then(|| origin(random.below(9)));
    Hello {
        incarnation: present.map_or(Incarnation(incarnation), |origin| origin.incarnation),
        // Of this service, or of another one.
        term: present.map_or(0, |_| registry.term() + elsewhere.saturating_sub(1)),
        groups,
        regions,
        dead: dead.into_iter().collect(),
        senders: vec![origin(random.below(9))],
        ..hello()
    }
}

/// Says of a node that it is away, or has the node say that it is not.
fn some_absence(random: &mut Random, registry: &Registry, node: NodeId) -> Input {
    let reasons = [AwayReason::Silent, AwayReason::Unreachable];
    let home = registry.nodes.get(&node).and_then(|node| node.home);
    let region = home.filter(|_| random.below(4) > 0).unwrap_or(RegionId(1));
    let view = registry.regions.get(region).map(|region| region.view);
    let view = view.filter(|_| random.below(4) > 0).unwrap_or_default();
    match random.below(2) {
        0 => Input::Request(node, ToService::CaughtUp { region, view }),
        _ => Input::Command(Command::SetAway {
            node,
            reason: reasons[usize::from(random.below(2) == 0)],
        }),
    }
}

/// One entry of the log of a replicated service.
#[derive(Debug, Clone)]
pub(super) enum Input {
    Command(Command),
    Request(NodeId, ToService),
}

/// The updates that follow from it.
pub(super) type Output = (Updates, Option<Answer>);

fn take(registry: &mut Registry, at: Instant, input: Input) -> Output {
    match input {
        Input::Command(command) => (registry.apply(at, command), None),
        Input::Request(node, message) => (Updates::default(), registry.request(at, node, message)),
    }
}

/// An input that nodes could cause now, sense or nonsense.
fn some_input(random: &mut Random, registry: &Registry, batch: u64) -> Input {
    let node = NodeId(random.below(6));
    let request = 1 + u32::try_from(random.below(9)).unwrap();
    let role = if random.below(2) == 0 {
        Role::Subscriber
    } else {
        Role::Publisher
    };
    Input::Command(match random.below(25) {
        0 => Command::End {
            node,
            cause: EndCause::Silence,
        },
        1..=3 => Command::Greet {
            node,
            hello: some_hello(random, registry, node),
        },
        4..=7 => {
            let names = some_names(random);
            return Input::Request(
                node,
                ToService::Enter {
                    request,
                    role,
                    names,
                },
            );
        }
        8..=10 => {
            let names = some_names(random);
            return Input::Request(
                node,
                ToService::Exit {
                    request,
                    role,
                    names,
                },
            );
        }
        11..=12 => {
            let departures = registry.nodes.iter().flat_map(|(id, node)| {
                let departures = node.departures.iter();
                departures.map(|(region, departure)| (*id, *region, departure.view))
            });
            let departures: Vec<_> = departures.collect();
            let count = u64::try_from(departures.len()).unwrap();
            let pick = usize::try_from(random.below(count + 1)).unwrap();
            let fallback = (node, RegionId(1), ViewNumber(1));
            let (node, region, view) = departures.get(pick).copied().unwrap_or(fallback);
            return Input::Request(node, ToService::Drained { region, view });
        }
        13..=14 => Command::Confirm { node, batch },
        15 => Command::Expire,
        16..=20 => return some_absence(random, registry, node),
        _ => Command::Batch,
    })
}

/// A registry that has taken drawn inputs, what they were, and what it said.
fn drawn(seed: u64) -> (Registry, Vec<(Instant, Input)>, Vec<Output>) {
    drawn_before(seed, |_, _, _| {})
}

/// The same before a witness of each input and what it leads to.
pub(super) fn drawn_before(
    seed: u64,
    mut witness: impl FnMut(&Registry, &Input, &Output),
) -> (Registry, Vec<(Instant, Input)>, Vec<Output>) {
    let mut random = Random::new(Seed(seed), "commands");
    let mut registry = registry(seed);
    let (mut log, mut said) = (Vec::new(), Vec::new());
    let mut hellos = BTreeMap::new();
    for node in 0..random.below(5) {
        let mut hello = some_hello(&mut random, &registry, NodeId(node));
        hello.term = random.below(3);
        let member = |node| Member {
            origin: origin(node),
            address: hello.address,
            joined: ViewNumber(1),
            left: (node % 3 == 2).then_some(ViewNumber(1)),
            away: (node % 4 == 1).then_some(AwayReason::Silent),
        };
        hello.regions = vec![RegionReport {
            members: (0..4).map(member).collect(),
            ..region_of_node_0()
        }];
        hellos.insert(NodeId(node), hello);
    }
    let mut at = NOW;
    let mut input = Input::Command(Command::Open { hellos, era: 3 });
    for _ in 0..60 {
        log.push((at, input.clone()));
        let output = take(&mut registry, at, input.clone());
        witness(&registry, &input, &output);
        said.push(output);
        at = at.after(Duration::from_secs(random.below(8)));
        input = some_input(&mut random, &registry, registry.batch);
    }
    (registry, log, said)
}

fn replay(registry: &mut Registry, log: &[(Instant, Input)]) -> Vec<Output> {
    let log = log.iter().cloned();
    log.map(|(at, input)| take(registry, at, input)).collect()
}

fn assert_same<T: PartialEq + Debug>(one: &T, other: &T, seed: u64) {
    assert!(one == other, "seed {seed}: {one:?} is not {other:?}");
}

#[test]
fn the_same_commands_make_the_same_registry_and_the_same_updates() {
    for seed in 0..1000 {
        let (original, log, said) = drawn(seed);
        let mut rebuilt = registry(seed);
        let again = replay(&mut rebuilt, &log);
        assert_same(&again, &said, seed);
        assert_same(&rebuilt, &original, seed);
    }
}

#[test]
fn a_snapshot_and_the_rest_of_the_commands_make_the_same_registry() {
    for seed in 0..300 {
        let (original, log, said) = drawn(seed);
        let (before, after) = log.split_at(log.len() / 2);
        let mut first = registry(seed);
        replay(&mut first, before);
        let mut snapshot = first.clone();
        assert_same(
            &replay(&mut snapshot, after),
            &said[before.len()..].to_vec(),
            seed,
        );
        assert_same(&snapshot, &original, seed);
    }
}

#[test]
fn commands_reach_every_transition_of_the_tables() {
    seen::take();
    for seed in 0..2000 {
        drawn(seed);
    }
    let lives = Life::TABLE.iter().map(|row| seen::row(row.0, row.1));
    let departures = DepartureState::TABLE.iter();
    let departures = departures.map(|row| seen::row(row.0, row.1));
    let rows: BTreeSet<String> = lives.chain(departures).collect();
    assert_eq!(seen::take(), rows);
}
