use std::net::SocketAddr;

use qsm_proto::Instant;
use qsm_wire::NodeId;
use qsm_wire::membership::Hello;

use super::sessions::Standing;
use super::{EVENTS_MAX, Phase, Service};
use crate::ServiceEvent;
use crate::registry::{Command, ERAS, NUMBER_MAX};

/// What is believed of a hello.
impl Service {
    pub(super) fn take_hello(&mut self, now: Instant, node: NodeId, mut hello: Hello) {
        let regions = hello.regions.iter();
        let regions = regions.map(|report| report.region.0.max(report.channel.0));
        let highest = [
            hello.incarnation.0,
            hello.region_last.0,
            hello.channel_last.0,
            hello.incarnation_last.0,
        ];
        let highest = regions.chain(highest).max().unwrap_or(0);
        let long = hello.name.len() > usize::from(u8::MAX);
        if highest > NUMBER_MAX || long || hello.address.ip().is_multicast() {
            self.stats.discard_message += 1;
            self.clients.close(node, &mut self.outbox);
            return;
        }
        if !self.rights.takes(node, &mut hello) {
            self.stats.discard_message += 1;
            self.clients.close(node, &mut self.outbox);
            return;
        }
        if hello.address.is_ipv4() != self.config.address.is_ipv4() {
            self.turn_away(node, hello);
            return;
        }
        let family = |second: &SocketAddr| second.is_ipv4() == hello.address.is_ipv4();
        hello.second = hello.second.filter(family);
        if let (address, Some(second)) = (hello.address, hello.second) {
            self.event(ServiceEvent::SecondAddress { address, second });
        }
        match &mut self.phase {
            Phase::Holding(hold) => {
                hold.add(now, node, hello);
                self.clients.set_standing(node, Standing::Held);
            }
            Phase::Open => self.command(now, Command::Greet { node, hello }),
            Phase::Yielded { .. } => {}
        }
    }

    /// A node whom other members could not reach (R-MEM-11).
    fn turn_away(&mut self, node: NodeId, hello: Hello) {
        self.stats.discard_message += 1;
        self.clients.close(node, &mut self.outbox);
        if self.foreign_nodes.len() < EVENTS_MAX && self.foreign_nodes.insert(node) {
            let (name, address) = (hello.name, hello.address);
            self.event(ServiceEvent::OtherFamily { name, address });
        }
    }

    /// The hold is over.
    pub(super) fn open(&mut self, now: Instant) {
        let phase = core::mem::replace(&mut self.phase, Phase::Open);
        let Phase::Holding(hold) = phase else { return };
        let era = u32::try_from(self.eras.below(u64::from(ERAS))).unwrap_or(0);
        let hellos = hold.into_hellos();
        self.command(now, Command::Open { hellos, era });
    }
}
