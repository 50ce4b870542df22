//! Follows patterns: a thread asks the membership service which groups there are, and enters those
//! that a pattern means.

use core::mem;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use qsm_wire::membership::{AnswerRows, QueryKind};

use crate::attach::client::Client;
use crate::attach::funnel::Funnel;
use crate::attach::subscription::AttachedUpcalls;
use crate::error::{RecvError, RequestError};
use crate::handle::cores::{Cores, Membership};
use crate::handle::pattern::Patterns;
use crate::handoff::inbox::Inbox;
use crate::handoff::mode::DeliveryMode;
use crate::handoff::received::Received;
use crate::handoff::sink::Sink;
use crate::handoff::sleepers::Sleepers;
use crate::shard::Share;

/// Pause after new groups were found, before the service is asked again.
const PAUSE_MIN: Duration = Duration::from_millis(250);
/// It doubles up to this while there are none.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// So many times longer than the question took, at least.
const PAUSE_PER_QUESTION: u32 = 9;

/// Groups of a subscription that its patterns have found; see
/// [`Subscription::followed`](crate::Subscription::followed).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Followed {
    /// Entered so far.
    pub groups: usize,
    /// Groups that the patterns mean and that were not entered, when the service was last asked:
    /// there are more than [`GroupOptions::groups_max`](crate::GroupOptions::groups_max), or the
    /// engine or the service refused them.
    pub left_out: usize,
}

/// Follows the patterns of a subscription until it is dropped; then it leaves the groups.
#[derive(Debug)]
pub(crate) struct Follower {
    pub(crate) names: Box<[Arc<str>]>,
    progress: Arc<Progress>,
}

/// Shared by the follower and its thread.
#[derive(Debug)]
struct Progress {
    /// `None` once nothing is wanted any more.
    entered: Mutex<Option<Vec<Entered>>>,
    groups: AtomicUsize,
    left_out: AtomicUsize,
    over: AtomicBool,
    /// Of an attached node, whose end ends the pause.
    client: Option<Client>,
    pausing: Sleepers,
}

/// Dropping it leaves the groups.
#[derive(Debug)]
enum Entered {
    Own { _membership: Membership },
    Attached { _pump: AttachedUpcalls },
}

/// Where groups are looked for and entered.
pub(crate) enum Source {
    Own {
        cores: Cores,
        /// One for each core.
        inboxes: Vec<Arc<Inbox<Received>>>,
        delivery: DeliveryMode,
    },
    Attached {
        client: Client,
        funnel: Arc<Funnel>,
        delivery: DeliveryMode,
    },
}

impl Source {
    fn groups(&self) -> Result<AnswerRows, RequestError> {
        match self {
            Self::Own { cores, .. } => cores.query(QueryKind::Groups),
            Self::Attached { client, .. } => client.query(QueryKind::Groups),
        }
    }

    /// Those that are known from the beginning. Each core takes part, so that each inbox hears of
    /// the end.
    fn enter_first(&self, names: Vec<Arc<str>>) -> Result<Option<Entered>, RequestError> {
        match self {
            Self::Own { cores, .. } => {
                let shares = cores.shards().split_among_all(&names);
                self.enter_own(names, shares).map(Some)
            }
            Self::Attached { .. } if names.is_empty() => Ok(None),
            Self::Attached { .. } => self.enter(names).map(Some),
        }
    }

    fn enter(&self, names: Vec<Arc<str>>) -> Result<Entered, RequestError> {
        match self {
            Self::Own { cores, .. } => {
                let shares = cores.shards().split(&names);
                self.enter_own(names, shares)
            }
            Self::Attached {
                client,
                funnel,
                delivery,
            } => {
                let pump = client.subscribe_into(names, funnel, *delivery)?;
                Ok(Entered::Attached { _pump: pump })
            }
        }
    }

    fn enter_own(&self, names: Vec<Arc<str>>, shares: Vec<Share>) -> Result<Entered, RequestError> {
        let Self::Own {
            cores,
            inboxes,
            delivery,
        } = self
        else {
            return Err(RequestError::mixed_up());
        };
        let sinks = shares.into_iter().map(|share| {
            let inbox = Arc::clone(&inboxes[share.core]);
            (share, Sink::Queue(inbox))
        });
        let membership = cores.enter(names, *delivery, sinks)?;
        Ok(Entered::Own {
            _membership: membership,
        })
    }

    /// The subscription has ended, or its node.
    fn is_over(&self) -> bool {
        match self {
            Self::Own { inboxes, .. } => inboxes.iter().any(|inbox| inbox.is_over()),
            Self::Attached { client, funnel, .. } => client.closed().is_some() || funnel.is_over(),
        }
    }

    fn client(&self) -> Option<&Client> {
        match self {
            Self::Own { .. } => None,
            Self::Attached { client, .. } => Some(client),
        }
    }
}

impl Follower {
    /// Enters the groups that there are, and goes on in a thread of its own.
    pub(crate) fn start(
        source: Source,
        names: &[Arc<str>],
        groups_max: usize,
    ) -> Result<Self, RequestError> {
        let progress = Arc::new(Progress {
            entered: Mutex::new(Some(Vec::new())),
            groups: AtomicUsize::new(0),
            left_out: AtomicUsize::new(0),
            over: AtomicBool::new(false),
            client: source.client().cloned(),
            pausing: Sleepers::default(),
        });
        // Dropped in case of an error, it leaves what was entered.
        let follower = Self {
            names: names.into(),
            progress: Arc::clone(&progress),
        };
        let patterns = Patterns::of(names)?;
        let mut search = GroupSearch {
            known: patterns.names.iter().cloned().collect(),
            patterns,
            source,
            groups_max,
            batch_max: usize::MAX,
            progress,
        };
        search.enter_first()?;
        let thread = thread::Builder::new().name("qsm-follow".to_owned());
        let started = thread.spawn(move || search.run());
        started.map_err(|error| RequestError::Refused {
            reason: format!("cannot start a thread: {error}; check `ulimit -u`"),
        })?;
        Ok(follower)
    }

    pub(crate) fn followed(&self) -> Followed {
        Followed {
            groups: self.progress.groups.load(Ordering::Relaxed),
            left_out: self.progress.left_out.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.progress.over.store(true, Ordering::SeqCst);
        let entered = self.progress.entered().take();
        drop(entered);
        self.progress.sleepers().wake();
    }
}

impl Progress {
    /// The thread is among these while it pauses.
    fn sleepers(&self) -> &Sleepers {
        self.client.as_ref().map_or(&self.pausing, Client::turns)
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    fn entered(&self) -> MutexGuard<'_, Option<Vec<Entered>>> {
        self.entered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what was entered, or leaves it at once if nothing is wanted any more.
    fn keep(&self, new: Entered, groups: usize) {
        match &mut *self.entered() {
            None => return,
            Some(entered) => entered.push(new),
        }
        self.groups.fetch_add(groups, Ordering::Relaxed);
    }
}

/// The thread's part.
struct GroupSearch {
    source: Source,
    patterns: Patterns,
    /// Plain names, and groups entered.
    known: BTreeSet<Arc<str>>,
    groups_max: usize,
    /// Groups to enter in one request: fewer after a refusal, in case some have room.
    batch_max: usize,
    progress: Arc<Progress>,
}

impl GroupSearch {
    /// Groups to be entered, as many as may be, and how many are left out.
    fn find(&self) -> Result<(Vec<Arc<str>>, usize), RequestError> {
        let AnswerRows::Groups(rows) = self.source.groups()? else {
            return Err(RequestError::mixed_up());
        };
        let existing = rows.iter().map(|row| row.name.as_str());
        let mut fresh = self.patterns.fresh(existing, &self.known);
        let found = self.progress.groups.load(Ordering::Relaxed);
        let room = (self.groups_max - found).min(self.batch_max);
        let left_out = fresh.split_off(fresh.len().min(room));
        Ok((fresh, left_out.len()))
    }

    fn enter_first(&mut self) -> Result<(), RequestError> {
        let (found, left_out) = self.find()?;
        if left_out > 0 {
            return Err(self.too_many(found.len() + left_out));
        }
        let mut names = mem::take(&mut self.patterns.names);
        names.extend(found.iter().cloned());
        if let Some(entered) = self.source.enter_first(names)? {
            self.progress.keep(entered, found.len());
        }
        self.known.extend(found);
        Ok(())
    }

    /// Enters groups that are new; returns whether there were some.
    fn look(&mut self) -> Result<bool, RequestError> {
        let (found, left_out) = self.find()?;
        self.progress.left_out.store(left_out, Ordering::Relaxed);
        if found.is_empty() {
            return Ok(false);
        }
        let entered = self.source.enter(found.clone()).inspect_err(|error| {
            let left_out = left_out + found.len();
            self.progress.left_out.store(left_out, Ordering::Relaxed);
            if matches!(error, RequestError::Refused { .. }) {
                self.batch_max = (found.len() / 2).max(1);
            }
        })?;
        self.batch_max = self.batch_max.saturating_mul(2);
        self.progress.keep(entered, found.len());
        self.known.extend(found);
        Ok(true)
    }

    fn run(mut self) {
        let mut pause = PAUSE_MIN;
        let mut question = Duration::ZERO;
        loop {
            let long_enough = question.saturating_mul(PAUSE_PER_QUESTION);
            let until = Instant::now() + pause.max(long_enough);
            let over = || (self.progress.is_over() || self.source.is_over()).then_some(());
            if self.progress.sleepers().wait(Some(until), over).is_some() {
                break;
            }
            let asked = Instant::now();
            pause = match self.look() {
                Ok(true) => PAUSE_MIN,
                // The subscription itself says why.
                Err(RequestError::Closed(_)) => break,
                // If the service is away, or refuses, those entered go on.
                Ok(false) | Err(_) => (pause * 2).min(PAUSE_MAX),
            };
            question = asked.elapsed();
        }
        if let Source::Attached { client, funnel, .. } = &self.source
            && let Some(reason) = client.closed()
        {
            funnel.tell_end(RecvError::Closed(reason));
        }
    }

    fn too_many(&self, found: usize) -> RequestError {
        RequestError::Refused {
            reason: format!(
                "the patterns mean {found} groups, and at most {} are followed; name fewer, or \
                 raise `GroupOptions::groups_max`",
                self.groups_max
            ),
        }
    }
}
