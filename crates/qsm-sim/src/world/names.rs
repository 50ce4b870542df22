//! Names of hosts and nodes, and a line on each.

use super::World;
use crate::trace::Names;

impl World {
    /// Names of nodes and addresses in a trace.
    pub(crate) fn names(&self) -> Names {
        let lives = self.checkers.history.lives();
        Names {
            hosts: (0..self.apps.len())
                .flat_map(|host| {
                    let second = self.options.second_address(host);
                    let addresses = [Some(self.engine.address(host)), second];
                    addresses.into_iter().flatten().map(move |at| (at, host))
                })
                .collect(),
            nodes: lives
                .iter()
                .map(|(origin, life)| (*origin, life.host))
                .collect(),
        }
    }

    /// One line for each host.
    pub(crate) fn describe(&self) -> Vec<String> {
        let lines = self.apps.iter().enumerate().map(|(host, app)| {
            let state = match self.engine.machine(host) {
                Some(machine) => machine.describe(),
                None => "down".to_owned(),
            };
            let origin = app
                .origin
                .map_or_else(|| "-".to_owned(), |origin| origin.to_string());
            let frozen = if self.engine.is_running(host) {
                ""
            } else {
                " frozen"
            };
            format!(
                "host {host} {}{frozen} {origin} {state}",
                self.engine.address(host)
            )
        });
        lines.collect()
    }
}
