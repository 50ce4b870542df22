//! A stand-in for tests of the simulator itself: a fixed membership, in which every sender
//! repeats every message to every receiver until the receiver acknowledges it.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use core::time::Duration;
use qsm_proto::{Deliver, Delivery, Event, Instant, PublishError, Reason, Transmit};
use qsm_wire::membership::{Answer, AnswerRows, Role};
use qsm_wire::{GroupId, Incarnation, NodeId, Origin};

const REPEAT: Duration = Duration::from_millis(20);
const WINDOW_MESSAGES: usize = 64;
const DATA: u8 = 1;
const ACK: u8 = 8;

/// One toy node.
#[derive(Debug)]
pub(crate) struct Toy {
    origin: Origin,
    peers: Vec<(SocketAddr, Origin)>,
    subscriptions: Vec<GroupId>,
    requests: u32,
    outgoing: BTreeMap<GroupId, Outgoing>,
    expected: BTreeMap<(Origin, GroupId), u64>,
    letters: VecDeque<(SocketAddr, Vec<u8>, Reason)>,
    sending: Vec<u8>,
    events: VecDeque<Event>,
    repeat_at: Option<Instant>,
    closed: bool,
}

#[derive(Debug, Default)]
struct Outgoing {
    published: u64,
    window: VecDeque<(u64, Vec<u8>)>,
    acked: BTreeMap<SocketAddr, u64>,
}

impl Toy {
    /// A node among `peers`, all of which receive every group.
    pub(crate) fn new(node: NodeId, peers: Vec<(SocketAddr, NodeId)>) -> Self {
        let origin = |node| Origin {
            node,
            incarnation: Incarnation(1),
        };
        Self {
            origin: origin(node),
            peers: peers
                .into_iter()
                .map(|(to, node)| (to, origin(node)))
                .collect(),
            subscriptions: Vec::new(),
            requests: 0,
            outgoing: BTreeMap::new(),
            expected: BTreeMap::new(),
            letters: VecDeque::new(),
            sending: Vec::new(),
            events: VecDeque::from([Event::Admitted {
                incarnation: Incarnation(1),
            }]),
            repeat_at: None,
            closed: false,
        }
    }

    pub(crate) fn handle_datagram(
        &mut self,
        _now: Instant,
        from: SocketAddr,
        datagram: &[u8],
        out: &mut dyn Deliver,
    ) {
        let Some((head, bytes)) = datagram.split_at_checked(26) else {
            return;
        };
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&head[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let node = NodeId(word(2));
        let group = GroupId(u32::try_from(word(10)).unwrap_or(0));
        let number = word(18);
        match head[1] {
            ACK => {
                if let Some(outgoing) = self.outgoing.get_mut(&group) {
                    let acked = outgoing.acked.entry(from).or_default();
                    *acked = number.max(*acked);
                }
                self.slide(group);
            }
            DATA => {
                let sender = Origin {
                    node,
                    incarnation: Incarnation(1),
                };
                let expected = self.expected.entry((sender, group)).or_insert(1);
                if *expected == number {
                    *expected += 1;
                    if self.subscriptions.contains(&group) {
                        let message = Delivery {
                            group,
                            sender,
                            number,
                            bytes,
                        };
                        out.deliver(message);
                    }
                }
                let upto = *expected - 1;
                let ack = self.packet(ACK, group, upto, &[]);
                self.letters.push_back((from, ack, Reason::Ack));
            }
            _ => {}
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.repeat_at.is_none_or(|at| at > now) {
            return;
        }
        let mut waiting = Vec::new();
        for (group, outgoing) in &self.outgoing {
            for (to, _) in &self.peers {
                let acked = outgoing.acked.get(to).copied().unwrap_or(0);
                let next = outgoing.window.iter().filter(|(number, _)| *number > acked);
                waiting.extend(next.take(4).map(|(number, bytes)| {
                    (
                        *to,
                        self.packet(DATA, *group, *number, bytes),
                        Reason::Repair,
                    )
                }));
            }
        }
        self.repeat_at = (!waiting.is_empty()).then(|| now.after(REPEAT));
        self.letters.extend(waiting);
    }

    pub(crate) fn poll_transmit(&mut self) -> Option<Transmit<'_>> {
        let (to, bytes, reason) = self.letters.pop_front()?;
        self.sending = bytes;
        Some(Transmit {
            to: qsm_proto::Destination::Node(to),
            bytes: &self.sending,
            segment_bytes: self.sending.len(),
            reason,
        })
    }

    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.repeat_at
    }

    pub(crate) fn enter(&mut self, role: Role, names: &[String]) -> u32 {
        if role == Role::Subscriber {
            let groups = names.iter().filter_map(|name| self.group(name));
            self.subscriptions.extend(groups.collect::<Vec<_>>());
        }
        self.done()
    }

    pub(crate) fn exit(&mut self, role: Role, names: &[String]) -> u32 {
        if role == Role::Subscriber {
            let groups: Vec<_> = names.iter().filter_map(|name| self.group(name)).collect();
            self.subscriptions.retain(|group| !groups.contains(group));
        }
        self.done()
    }

    /// Group names end with the group's number.
    pub(crate) fn group(&self, name: &str) -> Option<GroupId> {
        let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
        digits.parse().ok().map(GroupId)
    }

    /// Any name that ends with the group's number.
    pub(crate) fn group_name(&self, group: GroupId) -> Option<&str> {
        const NAMES: [&str; 4] = ["group-0", "group-1", "group-2", "group-3"];
        NAMES.get(usize::try_from(group.0).ok()?).copied()
    }

    pub(crate) fn receivers(&self, _group: GroupId) -> Vec<Origin> {
        self.peers.iter().map(|(_, origin)| *origin).collect()
    }

    pub(crate) fn publish(
        &mut self,
        now: Instant,
        group: GroupId,
        payload: &[u8],
    ) -> Result<u64, PublishError> {
        let outgoing = self.outgoing.entry(group).or_default();
        if outgoing.window.len() >= WINDOW_MESSAGES {
            return Err(PublishError::WindowFull {
                region: qsm_wire::RegionId(0),
            });
        }
        outgoing.published += 1;
        let number = outgoing.published;
        outgoing.window.push_back((number, payload.to_vec()));
        let packet = self.packet(DATA, group, number, payload);
        for (to, _) in &self.peers {
            self.letters.push_back((*to, packet.clone(), Reason::Data));
        }
        self.repeat_at = self.repeat_at.or_else(|| Some(now.after(REPEAT)));
        Ok(number)
    }

    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed && self.outgoing.values().all(|out| out.window.is_empty())
    }

    pub(crate) fn check_invariants(&self) {
        let full = self
            .outgoing
            .values()
            .all(|out| out.window.len() <= WINDOW_MESSAGES);
        assert!(full, "a toy's window exceeds its limit");
    }

    fn done(&mut self) -> u32 {
        self.requests += 1;
        self.events.push_back(Event::Answer(Answer {
            request: self.requests,
            result: Ok(AnswerRows::None),
        }));
        self.requests
    }

    fn slide(&mut self, group: GroupId) {
        let Some(outgoing) = self.outgoing.get_mut(&group) else {
            return;
        };
        let acked = |(to, _): &(SocketAddr, Origin)| outgoing.acked.get(to).copied().unwrap_or(0);
        let all = self.peers.iter().map(acked).min().unwrap_or(0);
        while outgoing
            .window
            .front()
            .is_some_and(|(number, _)| *number <= all)
        {
            outgoing.window.pop_front();
        }
    }

    fn packet(&self, kind: u8, group: GroupId, number: u64, bytes: &[u8]) -> Vec<u8> {
        let mut packet = vec![200, kind];
        for word in [self.origin.node.0, u64::from(group.0), number] {
            packet.extend_from_slice(&word.to_le_bytes());
        }
        packet.extend_from_slice(bytes);
        packet
    }
}
