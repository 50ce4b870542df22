use std::collections::{BTreeMap, BTreeSet};

use qsm_relay::Kind;

use crate::plan::Plan;
use crate::step::{NOBODY, Step, What};
use crate::violation::Violation;

/// Parity goes to no child whose hop has lost nothing, takes a quarter of the data that go there at most, and is not
/// there unless a run has it. R-RELAY-70, R-RELAY-72.
#[derive(Debug)]
pub(crate) struct Parity {
    sends: bool,
    /// A packet may come behind its repair, and is then as good as lost.
    reorders: bool,
    /// Hops that have lost something; also to nobody, where a child has moved.
    lost: BTreeSet<(usize, usize)>,
    /// Bytes of data and of parity by hops.
    bytes: BTreeMap<(usize, usize), [u64; 2]>,
}

impl Parity {
    pub(crate) fn new(plan: &Plan) -> Self {
        let links = plan.links.iter().map(|(_, link)| link);
        let mut links = links.chain([&plan.link]);
        Self {
            sends: plan.parity,
            reorders: links.any(|link| link.jitter >= link.delay * 2),
            lost: BTreeSet::new(),
            bytes: BTreeMap::new(),
        }
    }

    pub(crate) fn step(&mut self, step: &Step) -> Result<(), Violation> {
        let (hop, bytes) = ((step.from, step.to), step.bytes as u64);
        if step.what == What::Lost && step.kind == Kind::Data {
            self.lost.insert(hop);
        }
        if !step.is_sent() || step.to == NOBODY {
            return Ok(());
        }
        let broken = |message: String| Err(Violation::new("parity", message));
        let (from, to) = hop;
        let [data, parity] = self.bytes.entry(hop).or_default();
        match step.kind {
            Kind::Data => *data += bytes,
            Kind::Parity | Kind::Lost if !self.sends => {
                return broken(format!(
                    "{from} sent {to} a {:?} of a run without",
                    step.kind
                ));
            }
            Kind::Parity => *parity += bytes,
            _ => return Ok(()),
        }
        let (data, parity) = (*data, *parity);
        if parity * 4 > data {
            return broken(format!(
                "{from} sent {to} {parity} bytes of parity for {data} of data"
            ));
        }
        let may = self.reorders || self.lost.contains(&hop) || self.lost.contains(&(from, NOBODY));
        if step.kind == Kind::Parity && !may {
            return broken(format!(
                "{from} sent {to} parity, and has lost nothing on the way there"
            ));
        }
        Ok(())
    }
}
