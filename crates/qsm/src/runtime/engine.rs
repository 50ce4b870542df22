//! A core thread as the rest of the node sees it, and all those of a node. They share nothing;
//! what concerns the whole node is asked of each.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use qsm_wire::NodeId;

use crate::error::{CloseReason, RequestError};
use crate::handoff::command::Command;
use crate::handoff::reply::{Answer, Reply};
use crate::handoff::shared::Shared;
use crate::runtime::core::CoreLoan;
use crate::shard::Shards;

/// How long dropping the last handle of a node may take.
const DROP_TIMEOUT: Duration = Duration::from_millis(500);

/// One core thread, with sockets and a protocol endpoint of its own: a member of the cluster.
pub(crate) struct Engine {
    pub(crate) shared: Arc<Shared>,
    pub(crate) loan: Arc<CoreLoan>,
    pub(crate) thread: Mutex<Option<JoinHandle<()>>>,
    pub(crate) id: NodeId,
}

impl Engine {
    /// Waits for the core thread's end.
    fn join(&self) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take() {
            // A panic of the core thread was caught and told within it.
            drop(thread.join());
        }
    }
}

/// The engines of a node, at least one. Dropping them ends them.
pub(crate) struct Engines(pub(crate) Box<[Engine]>);

impl Engines {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Engine> {
        self.0.iter()
    }

    /// The one for what any can do.
    pub(crate) fn first(&self) -> &Arc<Shared> {
        &self.at(0).shared
    }

    pub(crate) fn at(&self, core: usize) -> &Engine {
        &self.0[core]
    }

    pub(crate) fn shards(&self) -> Shards {
        Shards(self.0.len())
    }

    /// Asks each at once; their answers, in order, or the first error.
    pub(crate) fn ask_all<T>(
        &self,
        doing: &'static str,
        timeout: Option<Duration>,
        command: impl Fn(Reply<T>, Instant) -> Command,
    ) -> Result<Vec<T>, RequestError> {
        let requests = self
            .iter()
            .map(|engine| engine.shared.request(doing, timeout, &command));
        let answers = requests.collect::<Result<Vec<_>, _>>()?;
        // All are waited for: none is still at work when this returns, whatever another said.
        let answers: Vec<_> = answers.into_iter().map(Answer::wait).collect();
        RequestError::join(answers)
    }

    /// Why the node has ended, if it has: all of it, or a part, which ends the rest.
    pub(crate) fn closed(&self) -> Option<&CloseReason> {
        let reasons = self.iter().map(|engine| engine.shared.closed());
        let reasons: Vec<_> = reasons.collect();
        let mut failures = reasons.iter().flatten();
        match failures.find(|reason| ***reason != CloseReason::ShutDown) {
            Some(failure) => Some(failure),
            None if reasons.contains(&None) => None,
            None => reasons.first().copied().flatten(),
        }
    }

    pub(crate) fn join(&self) {
        self.iter().for_each(Engine::join);
    }
}

impl Drop for Engines {
    fn drop(&mut self) {
        let deadline = Instant::now() + DROP_TIMEOUT;
        for engine in self
            .iter()
            .filter(|engine| engine.shared.closed().is_none())
        {
            engine.shared.tell(Command::Shutdown {
                deadline,
                reason: CloseReason::ShutDown,
                reply: None,
            });
        }
        if !self.first().on_core_thread() {
            self.join();
        }
    }
}
