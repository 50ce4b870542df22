//! Keys by which nodes prove what they send (R-SEC-30): those of a host, which all others know.

use qsm_identity::NodeKey;

use super::World;
use crate::hosts::node_id;
use crate::machine::Machine;
use crate::violation::Violation;

/// Processes of one host that others know the keys of; runs start fewer.
const STARTS: u64 = 32;

impl World {
    /// The machine of this host, if it could be made; a node proves what it sends, and demands it of others.
    pub(super) fn with_origin(
        &self,
        host: usize,
        machine: Result<Machine, String>,
    ) -> Result<Machine, Violation> {
        let refused = |reason| Violation::new("machine", format!("host {host}: {reason}"));
        let mut machine = machine.map_err(refused)?;
        let (Some(demand), Machine::Node(node)) = (self.options.origin, &mut machine) else {
            return Ok(machine);
        };
        node.prove_origin(demand, key_of(host)?);
        for other in 0..=self.options.nodes {
            let key = key_of(other)?.public();
            for start in 0..STARTS {
                node.trust(node_id(self.options.seed, other, start), key);
            }
        }
        Ok(machine)
    }
}

fn key_of(host: usize) -> Result<NodeKey, Violation> {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&(host as u64).to_le_bytes());
    let failed = |error| Violation::new("machine", format!("host {host}: {error}"));
    NodeKey::from_seed(&seed).map_err(failed)
}
