//! Names of nodes, which the membership service knows, and a thread that asks for them so that
//! nobody waits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use qsm::{Incarnation, Node, NodeRow, Origin};

use crate::failure::Failure;
use crate::table::printable;

/// Names of nodes, as others learn them.
#[derive(Debug, Clone, Default)]
pub struct Names(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    names: BTreeMap<Origin, String>,
    /// Those of the newest list.
    there: BTreeSet<Origin>,
    /// Lists so far.
    lists: u64,
}

impl Names {
    /// Names kept. Of those who have gone, too: they are in no list any more.
    const MAX: usize = 1 << 16;

    /// The list of all nodes.
    pub fn learn(&self, rows: Vec<NodeRow>) {
        let mut known = self.lock();
        known.lists += 1;
        known.there = rows.iter().map(|row| row.origin).collect();
        for row in rows {
            if known.names.len() < Self::MAX {
                known.names.insert(row.origin, row.name);
            }
        }
    }

    /// Asks the membership service for the names of all nodes. One that does not answer only costs
    /// the names.
    pub fn ask(&self, node: &Node) {
        if let Ok(rows) = node.list_nodes() {
            self.learn(rows);
        }
    }

    /// A node's name for people, or its identity.
    #[must_use]
    pub fn of(&self, origin: Origin) -> String {
        match self.get(origin) {
            Some(name) => printable(&name),
            None => format!("node {origin}"),
        }
    }

    /// A node's name for people with its identity, by which programs know it: `ticker (1f.3)`.
    #[must_use]
    pub fn with_identity(&self, origin: Origin) -> String {
        match self.get(origin) {
            Some(name) => format!("{} ({origin})", printable(&name)),
            None => origin.to_string(),
        }
    }

    /// The name of a node, if that is known.
    #[must_use]
    pub fn get(&self, origin: Origin) -> Option<String> {
        self.lock().names.get(&origin).cloned()
    }

    /// The node was in the newest list.
    #[must_use]
    pub fn is_there(&self, origin: Origin) -> bool {
        self.lock().there.contains(&origin)
    }

    /// A later life of the same node was in the newest list.
    #[must_use]
    pub fn is_back(&self, origin: Origin) -> bool {
        let Origin { node, incarnation } = origin;
        let of = |incarnation| Origin { node, incarnation };
        let lives = of(incarnation)..=of(Incarnation(u32::MAX));
        let known = self.lock();
        known.there.range(lives).any(|life| *life != origin)
    }

    /// Lists so far.
    #[must_use]
    pub fn lists(&self) -> u64 {
        self.lock().lists
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread that asks for names, one question at a time.
#[derive(Debug)]
pub struct Asker {
    questions: SyncSender<()>,
    answers: Receiver<()>,
}

impl Asker {
    /// Starts it; it ends when this is dropped, after the question that it asks then.
    ///
    /// # Errors
    /// There is no thread for it.
    pub fn start(node: &Node, names: &Names) -> Result<Self, Failure> {
        let (questions, asked) = sync_channel(1);
        let (answer, answers) = sync_channel(1);
        let (node, names) = (node.clone(), names.clone());
        thread::Builder::new()
            .name("names".to_owned())
            .spawn(move || {
                while asked.recv().is_ok() {
                    names.ask(&node);
                    // If one waits to be read already, it will do.
                    let _told = answer.try_send(());
                }
            })
            .map_err(|error| Failure::io("start a thread", &error))?;
        Ok(Self { questions, answers })
    }

    /// Asks, without waiting. If the last question is still waiting, it will do.
    pub fn ask(&self) {
        let _asked = self.questions.try_send(());
    }

    /// Asks, and waits for the answer for at most so long.
    pub fn ask_within(&self, patience: Duration) {
        while self.answers.try_recv().is_ok() {}
        self.ask();
        let _answered = self.answers.recv_timeout(patience);
    }
}

#[cfg(test)]
mod tests {
    use qsm::NodeId;

    use super::*;

    fn origin(node: u64, life: u32) -> Origin {
        Origin {
            node: NodeId(node),
            incarnation: Incarnation(life),
        }
    }

    fn row(origin: Origin, name: &str) -> NodeRow {
        NodeRow {
            origin,
            name: name.to_owned(),
            address: ([10, 0, 0, 1], 5000).into(),
            region: None,
            subscriptions: 0,
            publications: 0,
            away: None,
            deaf: false,
            about: None,
            rates: None,
            grant: None,
            description: None,
        }
    }

    #[test]
    fn names_outlive_the_nodes_and_who_is_there_does_not() {
        let names = Names::default();
        let (one, two, again) = (origin(1, 5), origin(2, 6), origin(1, 7));
        names.learn(vec![row(one, "one\n"), row(two, "two")]);
        assert_eq!(
            (names.of(one), names.of(again)),
            ("one\\n".to_owned(), "node 1.7".to_owned())
        );
        assert!(names.is_there(one) && !names.is_back(one));
        names.learn(vec![row(again, "one")]);
        assert_eq!(names.get(two).as_deref(), Some("two"));
        assert!(names.is_back(one) && !names.is_back(two) && !names.is_back(again));
        assert!(!names.is_there(one) && names.is_there(again));
        assert_eq!(names.lists(), 2);
    }
}
