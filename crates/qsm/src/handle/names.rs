//! Names of receivers, for those who are told of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use qsm_wire::Origin;
use qsm_wire::membership::{AnswerRows, QueryKind};

use crate::error::{Flushed, RequestError};
use crate::handle::cores::Cores;
use crate::receivers::{Lacking, Receiver};

/// How long names are waited for. Without a service there are none.
const PATIENCE: Duration = Duration::from_secs(1);

/// Names kept; beyond them they are asked for again.
const NAMES_MAX: usize = 1 << 14;

/// Names of nodes as the membership service told them last.
#[derive(Debug, Default)]
pub(crate) struct Names(Mutex<BTreeMap<Origin, Arc<str>>>);

impl Names {
    /// Adds names to what a request came to, and asks the service for them if it must.
    pub(crate) fn add<T: Named>(
        &self,
        outcome: Result<T, RequestError>,
        cores: &Cores,
    ) -> Result<T, RequestError> {
        let mut outcome = outcome;
        let mut receivers = match &mut outcome {
            Ok(done) => done.receivers(),
            Err(error) => error.receivers(),
        };
        let known = self.lock();
        let mut origins = receivers.iter().map(|receiver| &receiver.origin);
        let all = origins.all(|origin| known.contains_key(origin));
        drop(known);
        if !all {
            self.learn(cores);
        }
        let names = self.lock();
        for receiver in &mut receivers {
            receiver.name = names.get(&receiver.origin).cloned();
        }
        drop(names);
        outcome
    }

    fn learn(&self, cores: &Cores) {
        let Ok(AnswerRows::Nodes(rows)) = cores.query_within(QueryKind::Nodes, Some(PATIENCE))
        else {
            return;
        };
        let mut names = self.lock();
        // Who was there before may still be named.
        if names.len() + rows.len() > NAMES_MAX {
            names.clear();
        }
        names.extend(
            rows.into_iter()
                .map(|row| (row.origin, Arc::from(row.name))),
        );
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Origin, Arc<str>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An answer that names receivers.
pub(crate) trait Named {
    /// All of them.
    fn receivers(&mut self) -> Vec<&mut Receiver>;
}

impl Named for () {
    fn receivers(&mut self) -> Vec<&mut Receiver> {
        Vec::new()
    }
}

impl Named for Flushed {
    fn receivers(&mut self) -> Vec<&mut Receiver> {
        of_lacking(&mut self.away)
    }
}

impl Named for RequestError {
    fn receivers(&mut self) -> Vec<&mut Receiver> {
        match self {
            Self::Timeout {
                outstanding: Some(left),
                ..
            } => of_lacking(&mut left.lacking),
            Self::TooFewReceivers { receivers, .. } => {
                let live = receivers.live.iter_mut();
                live.chain(&mut receivers.away).collect()
            }
            _ => Vec::new(),
        }
    }
}

fn of_lacking(all: &mut [Lacking]) -> Vec<&mut Receiver> {
    let all = all.iter_mut();
    all.flat_map(|lacking| &mut lacking.receivers).collect()
}
