//! A thread that looks while somebody watches, and tells what differs.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::broadcast::{self, Receiver, Sender};

use crate::stream::{Telling, Told};

use super::look::Source;
use super::state::{Change, Rights, State};

/// Shortest time from the beginning of a look to the next.
pub const INTERVAL: Duration = Duration::from_secs(1);
/// A look that took long is followed by a pause of so many times its length.
const REST: u32 = 4;
/// Longest pause.
const REST_MAX: Duration = Duration::from_secs(30);
/// Changes that a slow browser may be behind; then it gets everything anew.
const BEHIND_MAX: usize = 8;

/// Everything that browsers are told.
#[derive(Debug)]
pub(crate) struct Lookout {
    state: Mutex<State>,
    changes: Sender<Arc<Change>>,
    watched: Mutex<Watched>,
    woken: Condvar,
}

/// Browsers that watch.
#[derive(Debug, Default)]
struct Watched {
    watchers: usize,
    ended: bool,
}

/// A browser that watches, until it is dropped.
#[derive(Debug)]
pub(crate) struct Watcher {
    lookout: Arc<Lookout>,
    rights: Rights,
    changes: Option<Receiver<Arc<Change>>>,
}

impl Lookout {
    /// Begins.
    ///
    /// # Errors
    /// There is no thread.
    pub(crate) fn start(source: Arc<dyn Source>) -> io::Result<Arc<Self>> {
        let lookout = Arc::new(Self {
            state: Mutex::default(),
            changes: broadcast::channel(BEHIND_MAX).0,
            watched: Mutex::default(),
            woken: Condvar::new(),
        });
        let work = Arc::clone(&lookout);
        // It may be in the middle of a look at the end, and nobody waits for it.
        thread::Builder::new()
            .name("dash-look".to_owned())
            .spawn(move || work.run(&*source))?;
        Ok(lookout)
    }

    /// Looks no more.
    pub(crate) fn end(&self) {
        self.watched().ended = true;
        self.woken.notify_all();
    }

    fn run(&self, source: &dyn Source) {
        while self.wait_for_watchers() {
            let begun = Instant::now();
            let look = source.look();
            let time = SystemTime::now().duration_since(UNIX_EPOCH);
            let time = u64::try_from(time.unwrap_or_default().as_millis()).unwrap_or(u64::MAX);
            let mut state = lock(&self.state);
            let change = state.take(time, look);
            // Nobody watches any longer: who comes gets everything. Told while the state is locked, so
            // that a new watcher gets this change either with the whole or after it.
            let _told = self.changes.send(Arc::new(change));
            drop(state);
            self.rest(pause(begun.elapsed()));
        }
    }

    /// Waits until somebody watches; `false`: it is over.
    fn wait_for_watchers(&self) -> bool {
        let idle = |it: &mut Watched| it.watchers == 0 && !it.ended;
        let watched = self.woken.wait_while(self.watched(), idle);
        !watched.unwrap_or_else(PoisonError::into_inner).ended
    }

    fn rest(&self, time: Duration) {
        let waiting = |it: &mut Watched| !it.ended;
        let waited = self.woken.wait_timeout_while(self.watched(), time, waiting);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        lock(&self.watched)
    }
}

/// Time from the end of a look that took so long to the next.
fn pause(took: Duration) -> Duration {
    let pause = INTERVAL.saturating_sub(took);
    pause.max(REST * took).min(REST_MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watcher {
    /// A browser with these rights.
    pub(crate) fn new(lookout: &Arc<Lookout>, rights: Rights) -> Self {
        lookout.watched().watchers += 1;
        lookout.woken.notify_all();
        Self {
            lookout: Arc::clone(lookout),
            rights,
            changes: None,
        }
    }
}

impl Telling for Watcher {
    /// First everything, then what differs, and everything again for one that is far behind.
    async fn next(&mut self) -> Option<Told> {
        if let Some(changes) = &mut self.changes {
            match changes.recv().await {
                Ok(change) => {
                    let data = change.text(self.rights).to_owned();
                    let kind = "change";
                    return Some(Told { kind, data });
                }
                Err(broadcast::error::RecvError::Closed) => return None,
                Err(broadcast::error::RecvError::Lagged(_)) => {}
            }
        }
        let state = lock(&self.lookout.state);
        self.changes = Some(self.lookout.changes.subscribe());
        Some(Told {
            kind: "whole",
            data: state.whole(self.rights),
        })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.lookout.watched().watchers -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_takes_a_fifth_of_the_time_at_most() {
        let ms = Duration::from_millis;
        assert_eq!(pause(ms(0)), ms(1000));
        assert_eq!(pause(ms(200)), ms(800));
        assert_eq!(pause(ms(500)), ms(2000));
        assert_eq!(pause(ms(60_000)), REST_MAX);
    }
}
