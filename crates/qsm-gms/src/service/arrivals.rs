use std::net::SocketAddr;

use qsm_proto::{Destination, Instant, Reason};
use qsm_wire::{Body, DecodeError, NodeId, Packet, Reset};

use super::Service;
use super::rivals::BEACON_AGAIN;
use super::sessions::SessionError;
use crate::ServiceEvent;
use crate::registry::Command;

/// Datagrams from the network.
impl Service {
    /// The host at this address says that no process takes what is sent there. If the node is in
    /// doubt its life is over; if not, it is from now on. Rule R-MEM-15.
    pub fn handle_unreachable(&mut self, now: Instant, address: SocketAddr) {
        let now = self.advance(now);
        if let Some(node) = self.registry.node_at(address)
            && self.detector.refused(now, node)
        {
            self.stats.refused_probes += 1;
            self.end_silent(now, node);
        }
        self.step(now);
    }

    fn note_damage(&mut self, now: Instant, from: SocketAddr) {
        self.stats.discard_damaged += 1;
        if let Some(damage) = self.damage.note(now, from) {
            self.event(ServiceEvent::Damaged(damage));
        }
    }

    /// Takes a datagram.
    pub fn handle_datagram(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]) {
        let now = self.advance(now);
        self.notice_lateness(now);
        let packet = match Packet::open(datagram) {
            Ok(packet) => packet,
            Err(DecodeError::Damaged) => return self.note_damage(now, from),
            Err(_) => return self.stats.discard_malformed += 1,
        };
        if packet.header.cluster != self.header.cluster {
            self.stats.discard_cluster += 1;
            return;
        }
        let origin = packet.header.origin;
        let node = origin.node;
        match packet.body {
            Body::Session(frame) => {
                let result = self.clients.handle_frame(now, node, from, &frame);
                self.after_session(now, node, from, frame.head.session, result);
            }
            Body::SessionAck(heard) => {
                let outbox = &mut self.outbox;
                let result = self.clients.handle_heard(now, node, from, heard, outbox);
                self.after_session(now, node, from, heard.session, result);
            }
            Body::ProbeReply(probe) => {
                if probe.subject == origin && self.registry.origin(node) == Some(origin) {
                    self.detector.answered(now, node, probe.nonce);
                }
            }
            Body::Solicit => {
                self.announce(Destination::Node(from));
                self.beacon_at = self.beacon_at.min(self.beaconed.after(BEACON_AGAIN));
            }
            Body::Beacon(beacon) if node != self.config.node => self.meet(node, beacon),
            Body::Beacon(_) => {}
            Body::ListQuery(query) => self.take_list_query(now, from, &query),
            Body::GroupQuery(query) => self.take_group_query(now, from, &query),
            _ => self.stats.discard_kind += 1,
        }
        self.step(now);
    }

    fn after_session(
        &mut self,
        now: Instant,
        node: NodeId,
        from: SocketAddr,
        session: u64,
        result: Result<(), SessionError>,
    ) {
        match result {
            Ok(()) => {}
            Err(SessionError::Ignore) => return,
            Err(SessionError::Full) => {
                self.stats.discard_nodes += 1;
                return;
            }
            Err(SessionError::Reset) => {
                self.stats.resets_sent += 1;
                let header = self.header;
                self.outbox
                    .push(Reason::Membership, Destination::Node(from), |out| {
                        Reset { session }.encode(&header, out);
                    });
                return;
            }
        }
        self.detector.heard(now, node);
        if let Some(round_trip) = self.clients.answers_in(node) {
            self.detector.note_round_trip(node, round_trip);
        }
        if let Some(batch) = self.clients.poll_confirmed(node) {
            self.command(now, Command::Confirm { node, batch });
        }
        self.take_messages(now, node);
        if self.clients.is_broken(node) {
            self.stats.sessions_broken += 1;
            self.clients.close(node, &mut self.outbox);
        }
    }
}
