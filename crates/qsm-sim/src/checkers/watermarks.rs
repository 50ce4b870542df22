use std::collections::BTreeMap;

use qsm_proto::receive::ReceiveStream;
use qsm_proto::region::Region;
use qsm_proto::view::RegionView;
use qsm_wire::{Body, Kind, Origin, Packet, RegionId, ViewNumber};

use super::kept;
use crate::machine::Machine;
use crate::violation::Violation;

/// What an ACK or a summary says of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim {
    sender: Origin,
    region: RegionId,
    view: ViewNumber,
    stable_upto: u64,
    cached_upto: u64,
}

impl Claim {
    pub(crate) fn region(&self) -> RegionId {
        self.region
    }

    pub(crate) fn view(&self) -> ViewNumber {
        self.view
    }

    pub(crate) fn sender(&self) -> Origin {
        self.sender
    }

    pub(crate) fn stable_upto(&self) -> u64 {
        self.stable_upto
    }
}

/// The claims in a datagram.
pub(crate) fn claims(datagram: &[u8]) -> Vec<Claim> {
    if !matches!(Kind::peek(datagram), Some(Kind::Ack | Kind::Summary)) {
        return Vec::new();
    }
    match Packet::decode(datagram).map(|packet| packet.body) {
        Ok(Body::Ack(ack, _)) => vec![Claim {
            sender: ack.stream.origin,
            region: ack.region,
            view: ack.view,
            stable_upto: ack.stable_upto,
            cached_upto: ack.cached_upto,
        }],
        Ok(Body::Summary(summary)) => summary
            .slots()
            .map(|slot| Claim {
                sender: slot.origin,
                region: summary.region,
                view: summary.view,
                stable_upto: slot.stable_upto,
                cached_upto: slot.cached_upto,
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// What `stable_upto` and `cached_upto` say is so: all live members have everything up to the
/// one, and what is up to the other and some of them lack is in the hands of a live member
/// (R091, X06, R-TOK-4). What waits there for its proof counts for the other, not for the one (R-SEC-32). What members
/// really hold is looked at when it is said.
#[derive(Debug, Default)]
pub(crate) struct Watermarks {
    /// The highest `cached_upto` judged so far. What was cached once may be freed when it has
    /// become stable, and may die with its cachers.
    judged: BTreeMap<(RegionId, Origin), u64>,
}

impl Watermarks {
    /// `leader` has said it; `live` are the members of the view that run, and the sender. Up to
    /// `overrun` the sender has freed for want of room what members lacked that were away: they are
    /// told so when they are back (R-VIEW-13).
    pub(crate) fn check(
        &mut self,
        claim: &Claim,
        leader: &Region,
        live: &[(Origin, &Machine)],
        overrun: u64,
    ) -> Result<(), Violation> {
        let Some(view) = leader.history().exact(claim.view) else {
            return Ok(());
        };
        let members: Vec<(Origin, &Machine, &Region)> = live
            .iter()
            .filter(|(origin, _)| *origin != claim.sender)
            .filter(|(origin, _)| view.index_of(*origin).is_some_and(|at| view.is_live(at)))
            .filter_map(|(origin, machine)| {
                let region = machine.region(claim.region)?;
                // One that has left and come back, and does not know it yet, has its former stay.
                let joined = view.member(view.index_of(*origin)?)?.joined;
                let of_this_stay = region.history().joined() == Some(joined);
                of_this_stay.then_some((*origin, *machine, region))
            })
            .collect();
        let contiguous = |region: &Region| {
            let stream = region.stream(claim.sender);
            stream.map(ReceiveStream::contiguous)
        };
        let key = (claim.region, claim.sender);
        for (member, _, region) in &members {
            if let Some(has) = contiguous(region).filter(|has| *has < claim.stable_upto) {
                let message = format!(
                    "{member} has {} only up to #{has} in {:?}, but stable is said to be #{}",
                    claim.sender, claim.region, claim.stable_upto
                );
                return Err(Violation::new("watermarks", message));
            }
        }
        // When its sender is dead, a packet may be lost; nobody waits for its cachers then.
        let stream = leader.stream(claim.sender);
        if stream.is_some_and(ReceiveStream::sender_dead) {
            return Ok(());
        }
        let judged = self.judged.entry(key).or_default();
        let fresh = overrun.max(*judged) + 1;
        *judged = claim.cached_upto.max(*judged);
        let least = members.iter().filter_map(|(.., region)| contiguous(region));
        // Who does not know the stream lacks nothing of it.
        let Some(least) = least.min() else {
            return Ok(());
        };
        for sequence in fresh.max(least + 1)..=claim.cached_upto {
            let lacking = members
                .iter()
                .filter(|(member, ..)| !is_out(claim, *member, live))
                .find(|(_, _, region)| region.stream(claim.sender).is_some_and(lacks(sequence)));
            let held = || {
                let mut live = live.iter();
                live.any(|(_, node)| kept::keeps(node, claim.region, claim.sender, sequence))
            };
            let died = || gone_with_its_copies(claim, sequence, view, live);
            if let Some((member, ..)) = lacking.filter(|_| !held() && !died()) {
                let message = format!(
                    "{member} lacks {} #{sequence} in {:?}, nobody else holds it, but cached is \
                     said to be #{}",
                    claim.sender, claim.region, claim.cached_upto
                );
                return Err(Violation::new("watermarks", message));
            }
        }
        Ok(())
    }
}

/// Has not got that packet, which waits for its proof if it is here, and has not given it up: what it gave up counts as its own,
/// also where packets before it wait (R-TOK-4).
fn lacks(sequence: u64) -> impl Fn(&ReceiveStream) -> bool {
    move |stream| {
        let given_up = stream.gave_up(sequence) || stream.gave_up_expired(sequence);
        stream.contiguous() < sequence && !given_up
    }
}

/// The sender has a newer view without this member, or has ended its stream there, and owes it nothing any more: a
/// member that stood still may speak of the old view when it goes on.
fn is_out(claim: &Claim, member: Origin, live: &[(Origin, &Machine)]) -> bool {
    let sender = live.iter().find(|(origin, _)| *origin == claim.sender);
    let without = |view: &RegionView| view.number() > claim.view && view.index_of(member).is_none();
    sender.is_some_and(|(_, machine)| {
        let view = machine.region(claim.region).map(Region::view);
        view.is_none_or(without)
    })
}

/// Neither the sender nor a cacher of the packet runs any more: what was said while they did is still
/// passed on, until a view takes them out. A cacher that has heard of the sender's death before the leader,
/// and has given the packet up because nobody has it (R-NAK-8), is as one that does not run.
fn gone_with_its_copies(
    claim: &Claim,
    sequence: u64,
    view: &RegionView,
    live: &[(Origin, &Machine)],
) -> bool {
    let runs = |one: Origin| live.iter().any(|(origin, _)| *origin == one);
    let gave_up = |machine: &Machine| {
        let region = machine.region(claim.region);
        let stream = region.and_then(|region| region.stream(claim.sender));
        stream.is_some_and(|stream| stream.sender_dead() && stream.gave_up(sequence))
    };
    let may_have = |one: Origin| {
        let mut live = live.iter();
        live.any(|(origin, machine)| *origin == one && !gave_up(machine))
    };
    let mut members = view.members().iter();
    let caches = |one: Origin| {
        let index = view.index_of(one);
        index.is_some_and(|index| view.is_cacher(index, sequence))
    };
    !runs(claim.sender) && !members.any(|member| caches(member.origin) && may_have(member.origin))
}
