//! What a machine puts out after an input: datagrams go into the network, events and deliveries
//! to the caller.

use std::net::SocketAddr;
use std::rc::Rc;

use qsm_proto::{Event, Instant, Reason};
use qsm_testnet::{Fate, damaged};

use super::networks::Way;
use super::{Datagram, Engine, Happening};
use crate::checkers::expiry::Repaired;
use crate::checkers::rate::Train;
use crate::checkers::sending::Leaving;
use crate::checkers::{cutoff, watermarks};
use crate::machine::Machine;
use crate::trace::TraceEntry;
use crate::violation::Violation;

/// Trains that one input may cause before it counts as an endless loop.
const TRANSMITS_PER_INPUT_MAX: usize = 1_000_000;
/// Inputs of a host in one second, on average over all hosts, that no workload here needs: more is
/// a storm.
const INPUTS_PER_SECOND_MAX: u64 = 20_000;
/// Datagrams kept for replays and mutations.
const SAMPLES: usize = 64;

impl Engine {
    /// Sends what the machine wants to send, train by train.
    pub(super) fn transmit(&mut self, host: usize, local: Instant) -> Result<(), Violation> {
        for _ in 0..TRANSMITS_PER_INPUT_MAX {
            let Some(machine) = self.hosts[host].machine.as_mut() else {
                return Ok(());
            };
            let life = machine.origin().unwrap_or_default();
            let Some(train) = machine.poll_transmit(local) else {
                return Ok(());
            };
            self.digest.bytes(train.bytes);
            let (to, reason) = (train.to.address(), train.reason);
            self.outputs.data.extend(Train::of(&train));
            if self.sends_limited {
                self.outputs.leaving.push(Leaving::of(&train));
            }
            let packets = train.bytes.chunks(train.segment_bytes.max(1));
            let count = packets.len() as u64;
            let saboteur = &mut self.saboteur;
            let packets = packets.filter_map(|bytes| saboteur.outgoing(life, reason, bytes));
            let now = self.now;
            let mut liar = self.liar.as_mut().filter(|liar| liar.lies(host, now));
            let packets = packets.filter_map(|bytes| match &mut liar {
                Some(liar) => liar.outgoing(reason, bytes),
                None => Some(bytes),
            });
            let packets: Vec<Rc<[u8]>> = packets.map(|bytes| Rc::from(&*bytes)).collect();
            self.count(host, reason, count);
            for bytes in packets {
                self.send(host, to, reason, &bytes);
            }
            self.lie(host, reason);
        }
        let message = format!("host {host}: transmits without end");
        Err(Violation::new("progress", message))
    }

    pub(super) fn count(&mut self, host: usize, reason: Reason, packets: u64) {
        self.traffic.counts[reason as usize] += packets;
        self.traffic.last[reason as usize] = self.now;
        self.hosts[host].capture.sent[reason as usize] += packets;
    }

    /// Sends a datagram by all networks that the host is on.
    pub(super) fn send(&mut self, host: usize, to: SocketAddr, reason: Reason, bytes: &Rc<[u8]>) {
        if self.invariants_every > 0 && reason != Reason::Data {
            self.outputs.claims.extend(watermarks::claims(bytes));
            self.outputs.tokens.extend(cutoff::said(bytes));
        }
        if self.invariants_every > 0 && reason == Reason::Repair {
            self.outputs.repairs.extend(Repaired::of(bytes));
        }
        let state = &mut self.hosts[host];
        let leaves = match &mut state.cpu {
            Some(cpu) => cpu.sends(self.now, reason, bytes.len()),
            None => self.now,
        };
        let way = Way {
            link: host,
            from: state.address,
            to,
        };
        let ways = match &state.second {
            Some(second) => second.ways(way, &self.network),
            None => [Some(way), None],
        };
        let tag = self.guard.tag(bytes);
        for way in ways.into_iter().flatten() {
            self.serial += 1;
            let datagram = Datagram {
                serial: self.serial,
                from: way.from,
                to: way.to,
                reason: Some(reason),
                tag,
                bytes: Rc::clone(bytes),
            };
            self.carry(way.link, leaves, &Rc::new(datagram));
        }
    }

    /// Puts every copy of a datagram on its way.
    fn carry(&mut self, link: usize, leaves: Instant, datagram: &Rc<Datagram>) {
        let (to, bytes) = (datagram.to, &datagram.bytes);
        let network = &mut self.network;
        network.send(leaves, link, to, bytes, &mut self.fates);
        if self.samples.len() >= SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(Rc::clone(datagram));
        let sent = TraceEntry::Sent(Rc::clone(datagram));
        self.trace.add(self.now, network.host_of(link), sent);
        let ports = network.has_ports();
        for (link, fate) in self.fates.drain(..) {
            let host = network.host_of(link);
            let (at, copy) = match fate {
                Fate::Arrives(at) => (at, Rc::clone(datagram)),
                Fate::Damaged(at, seed) => {
                    let bytes = damaged(&datagram.bytes, seed).into();
                    (
                        at,
                        Rc::new(Datagram {
                            bytes,
                            ..**datagram
                        }),
                    )
                }
                Fate::Dropped(cause) => {
                    let copy = Rc::clone(datagram);
                    self.trace
                        .add(self.now, host, TraceEntry::Dropped(cause, copy));
                    continue;
                }
            };
            let happens = match ports {
                true => Happening::Port(link, copy),
                false => Happening::Arrival(host, copy),
            };
            self.queue.push(at, happens);
        }
    }

    pub(super) fn check_storm(&mut self) -> Result<(), Violation> {
        let second = self.now.0 / 1_000_000_000;
        if self.second.0 != second {
            self.second = (second, self.inputs);
        }
        let inputs = self.inputs - self.second.1;
        let most = INPUTS_PER_SECOND_MAX * self.hosts.len() as u64;
        // Where nothing is checked, work may be as much as is asked for.
        if inputs > most && self.invariants_every > 0 {
            let message = format!("more than {most} inputs within a second: a storm");
            return Err(Violation::new("storm", message));
        }
        Ok(())
    }

    /// Takes events; those about addresses are for the network, the others are kept.
    pub(super) fn collect(&mut self, host: usize) {
        while let Some(event) = self.hosts[host]
            .machine
            .as_mut()
            .and_then(Machine::poll_event)
        {
            if let Some(event) = self.listen(host, event) {
                self.outputs.events.push(event);
            }
        }
        if self.trace.is_on() {
            for event in &self.outputs.events {
                let entry = TraceEntry::Event(Box::new(event.clone()));
                self.trace.add(self.now, host, entry);
            }
        }
        for (_, loss) in self.outputs.deliveries.losses() {
            self.trace.add(self.now, host, TraceEntry::Lost(*loss));
        }
        for row in self.outputs.deliveries.rows() {
            self.digest.number(self.now.0 ^ ((host as u64) << 48));
            self.digest
                .number(u64::from(row.group.0) ^ row.sender.node.0 ^ row.number);
            let length = self.outputs.deliveries.bytes(row).len();
            let entry = TraceEntry::Delivered(row.group, row.sender, row.number, length);
            self.trace.add(self.now, host, entry);
        }
    }

    /// Carries out an event about addresses; hands back all others.
    fn listen(&mut self, host: usize, event: Event) -> Option<Event> {
        let [add, end] = self.network.latencies();
        let state = &mut self.hosts[host];
        let process = state.process;
        let (at, address, on) = match &event {
            Event::Listen { address } | Event::ListenTo { address, .. } => (add, *address, true),
            Event::Unlisten { address } => (end, *address, false),
            Event::SecondAddress { address, second } => {
                if let Some(own) = &mut state.second {
                    own.learn(*address, *second);
                }
                return None;
            }
            _ => return Some(event),
        };
        if on {
            state.listening.insert(address);
            self.network.join(host, address);
        } else {
            state.listening.remove(&address);
        }
        let happening = match event {
            Event::ListenTo { address, senders } => {
                Happening::ListenTo(host, process, address, senders)
            }
            _ => Happening::Listen(host, process, address, on),
        };
        self.queue.push(self.now.after(at), happening);
        self.trace
            .add(self.now, host, TraceEntry::Listens(address, on));
        None
    }
}
