//! Counters of a node of this host at a moment, and what they have grown by.

use std::time::{Duration, Instant};

use qsm::admin::{Answer, NodeSocket, Question};
use serde_json::Value;

/// Counters at a moment.
#[derive(Debug, Clone)]
pub(crate) struct Counted {
    at: Instant,
    counters: Value,
}

impl Counted {
    pub(crate) fn new(at: Instant, counters: Value) -> Self {
        Self { at, counters }
    }

    /// Asks a node, which has so long to answer.
    ///
    /// # Errors
    /// There is no answer, with the reason.
    pub(crate) fn ask(node: &NodeSocket, patience: Duration) -> Result<Self, String> {
        let answer = node.ask_within(&Question::Counters, patience);
        let at = Instant::now();
        match answer {
            Ok(Answer::Counters(counters)) => Ok(Self::new(at, counters)),
            Ok(_) => Err("it answers another question".to_owned()),
            Err(cause) => Err(cause.to_string()),
        }
    }

    /// The node's name.
    pub(crate) fn name(&self) -> &str {
        self.counters["name"].as_str().unwrap_or("?")
    }

    /// A number by its path in the JSON; 0 if there is none.
    pub(crate) fn value(&self, path: &str) -> f64 {
        let value = self.counters.pointer(path);
        value.and_then(Value::as_f64).unwrap_or(0.0)
    }

    /// A list by its path in the JSON; empty if there is none.
    pub(crate) fn list(&self, path: &str) -> &[Value] {
        let list = self.counters.pointer(path).and_then(Value::as_array);
        list.map_or(&[], Vec::as_slice)
    }

    /// Seconds since another moment.
    pub(crate) fn since(&self, before: &Self) -> f64 {
        (self.at - before.at).as_secs_f64()
    }

    /// Growth of a counter each second. A node that has begun anew counts from zero: none.
    pub(crate) fn rate(&self, before: &Self, path: &str) -> f64 {
        let (grown, passed) = (self.value(path) - before.value(path), self.since(before));
        match grown > 0.0 && passed > 0.0 {
            true => grown / passed,
            false => 0.0,
        }
    }
}
