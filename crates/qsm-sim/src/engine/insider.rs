//! A host of which the node lies.

use std::rc::Rc;

use qsm_proto::Reason;

use super::Engine;
use crate::insider::{Insider, Liar};
use crate::mischief::Mischief;

impl Engine {
    /// From now on there is a member that lies.
    pub(crate) fn set_insider(&mut self, plan: Insider, mischief: Mischief, seed: qsm_proto::Seed) {
        let as_leader = mischief == Mischief::NameBelieved;
        self.liar = Some(Box::new(Liar::new(plan, as_leader, seed)));
    }

    /// Lies told so far.
    pub(crate) fn lies(&self) -> u64 {
        self.liar.as_ref().map_or(0, |liar| liar.told)
    }

    /// Beside a train that the host has sent: tells what its node makes up.
    pub(super) fn lie(&mut self, host: usize, reason: Reason) {
        let now = self.now;
        let liar = self.liar.as_mut().filter(|liar| liar.lies(host, now));
        let (Some(liar), Some(machine)) = (liar, self.hosts[host].machine.as_ref()) else {
            return;
        };
        if reason == Reason::Membership {
            return;
        }
        for (to, bytes) in liar.make_up(machine) {
            let bytes: Rc<[u8]> = Rc::from(bytes);
            self.count(host, Reason::Request, 1);
            self.send(host, to, Reason::Request, &bytes);
        }
    }
}
