//! Events of nodes, in the words of the protocol.

use qsm_proto::{Deafness, Event, UnconfirmedCause, UnservedCause};
use qsm_wire::membership::Answer;

use super::describe::Names;
use crate::machine::Loss;

/// An event in one line.
pub(super) fn event(event: &Event, names: &Names) -> String {
    match event {
        Event::Admitted { incarnation } => format!("admitted, life {incarnation}"),
        Event::Expelled => "expelled: slower than the others".to_owned(),
        Event::Excluded => "excluded: taken for dead by the service".to_owned(),
        Event::ServiceLost => "the membership service does not answer".to_owned(),
        Event::ServiceFound { address } => format!("membership service at {address}"),
        Event::ServiceMissing => "no membership service was heard of".to_owned(),
        Event::Answer(answer) => self::answer(answer),
        Event::RegionView {
            region,
            view,
            members,
        } => format!("region {region}: view {view}, {members} members"),
        Event::Away { region, reason } => format!("region {region}: away, {reason:?}"),
        Event::Back { region, away } => format!("region {region}: back after {away:?}"),
        Event::Damaged(damage) => format!("damaged: {damage}"),
        Event::Deaf(deafness) => hearing(deafness, "does not hear", names),
        Event::Hears(deafness) => hearing(deafness, "hears", names),
        Event::Unconfirmed {
            group,
            incarnation,
            first,
            last,
            cause,
        } => {
            let cause = match cause {
                UnconfirmedCause::NewLife => "the sender has a new life",
                UnconfirmedCause::NoReceivers => "no receiver is left",
                _ => "given up",
            };
            format!("not confirmed: {group} #{first}..={last} of life {incarnation}, {cause}")
        }
        Event::Unserved {
            receivers, cause, ..
        } => {
            let receivers: Vec<String> = receivers.iter().map(|node| names.node(*node)).collect();
            let state = match cause {
                UnservedCause::Away => "away",
                UnservedCause::Demoted => "demoted",
                UnservedCause::Ended => "left behind",
                UnservedCause::Overrun => "away for longer than is kept",
                _ => "gone",
            };
            format!("not served: {}, {state}", receivers.join(" "))
        }
        Event::Listen { address } => format!("to listen to {address}"),
        Event::ListenTo { address, senders } => {
            format!("to listen to {address} from {} senders", senders.len())
        }
        Event::Unlisten { address } => format!("to listen to {address} no longer"),
        Event::SecondAddress { address, second } => {
            format!("{address} is also at {second}")
        }
        other => format!("{other:?}"),
    }
}

fn answer(answer: &Answer) -> String {
    match &answer.result {
        Ok(_) => format!("request {}: done", answer.request),
        Err(reason) => format!("request {}: refused, {reason}", answer.request),
    }
}

fn hearing(deafness: &Deafness, verb: &str, names: &Names) -> String {
    format!(
        "region {}: {} {verb} multicast of {}",
        deafness.region,
        names.node(deafness.listener),
        names.node(deafness.speaker)
    )
}

/// A loss that is told to the application, in one line.
pub(super) fn loss(loss: &Loss, names: &Names) -> String {
    match loss {
        Loss::Messages {
            group,
            sender,
            first,
            last,
            expired,
        } => {
            let why = if *expired { "expired" } else { "lost" };
            format!("{why}: {} {group}#{first}..={last}", names.node(*sender))
        }
        Loss::Packets { sender, packets } => {
            format!("lost: {packets} packets of {}", names.node(*sender))
        }
    }
}

#[cfg(test)]
mod tests {
    use qsm_wire::{Incarnation, NodeId, Origin, RegionId, ViewNumber};

    use super::*;

    #[test]
    fn nodes_are_named_by_their_hosts() {
        let node = |id| Origin {
            node: NodeId(id),
            incarnation: Incarnation(1),
        };
        let mut names = Names::default();
        names.nodes.insert(node(17), 3);
        let event = |it: &Event| event(it, &names);
        let view = Event::RegionView {
            region: RegionId(7),
            view: ViewNumber(2),
            members: 5,
        };
        assert_eq!(event(&view), "region 7: view 2, 5 members");
        let unserved = Event::Unserved {
            receivers: vec![node(17)],
            receivers_more: 0,
            incarnation: Incarnation(1),
            messages: Vec::new(),
            messages_more: 0,
            cause: UnservedCause::Gone,
        };
        assert_eq!(event(&unserved), "not served: n3, gone");
        let lost = Loss::Packets {
            sender: node(17),
            packets: 4,
        };
        assert_eq!(loss(&lost, &names), "lost: 4 packets of n3");
    }
}
