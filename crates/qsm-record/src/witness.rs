use qsm_proto::{Deliver, Delivery, Miss, Promptness};
use qsm_wire::GroupId;

use crate::outputs::Outputs;

/// Passes on what a state machine delivers, and digests it.
pub(crate) struct Witness<'a> {
    pub(crate) out: &'a mut dyn Deliver,
    pub(crate) outputs: &'a mut Outputs,
}

impl Deliver for Witness<'_> {
    fn deliver(&mut self, message: Delivery<'_>) {
        self.outputs.deliver(&message);
        self.out.deliver(message);
    }

    fn name_group(&mut self, group: GroupId, name: &str) {
        self.outputs.name(group, name);
        self.out.name_group(group, name);
    }

    fn miss(&mut self, miss: Miss<'_>) {
        self.outputs.miss(&miss);
        self.out.miss(miss);
    }

    fn deliver_promptly(&mut self, mode: Promptness, message: Delivery<'_>) {
        self.outputs.deliver_promptly(mode, &message);
        self.out.deliver_promptly(mode, message);
    }

    fn miss_promptly(&mut self, mode: Promptness, miss: Miss<'_>) {
        self.outputs.miss_promptly(mode, &miss);
        self.out.miss_promptly(mode, miss);
    }
}
