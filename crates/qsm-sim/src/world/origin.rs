//! Keys by which nodes prove what they send (R-SEC-30), and which services know (R-SEC-34): those of a host.

use std::sync::Arc;

use qsm_identity::NodeKey;

use super::World;
use crate::hosts::node_id;
use crate::machine::Machine;
use crate::violation::Violation;

/// Processes of one host that services know the keys of; runs start fewer.
const STARTS: u64 = 32;

impl World {
    /// The machine of this host, if it could be made. A node has its key, and a service knows those of all.
    pub(super) fn with_origin(
        &self,
        host: usize,
        machine: Result<Machine, String>,
    ) -> Result<Machine, Violation> {
        let refused = |reason| Violation::new("machine", format!("host {host}: {reason}"));
        let mut machine = machine.map_err(refused)?;
        if self.options.origin.is_none() {
            return Ok(machine);
        }
        match &mut machine {
            Machine::Node(node) => node.sign_by(key_of(host)?),
            Machine::Service(service) => {
                for other in 0..=self.options.nodes {
                    let key = key_of(other)?.public().to_string();
                    for start in 0..STARTS {
                        let node = node_id(self.options.seed, other, start);
                        service.note_key(node, key.clone());
                    }
                }
            }
            Machine::Observer(_) => {}
            #[cfg(test)]
            Machine::Toy(_) => {}
        }
        Ok(machine)
    }
}

fn key_of(host: usize) -> Result<Arc<NodeKey>, Violation> {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&(host as u64).to_le_bytes());
    let failed = |error| Violation::new("machine", format!("host {host}: {error}"));
    NodeKey::from_seed(&seed).map(Arc::new).map_err(failed)
}
