//! Follows the membership service to another address: a thread asks where it may be while it is
//! silent.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::RecvError;
use crate::event::Event;
use crate::handle::cores::Cores;
use crate::handle::events::Events;
use crate::handoff::command::Command;
use crate::runtime::network::plain;

/// Time that each place has to answer before the next is tried, and between two questions.
const ANSWER: Duration = Duration::from_secs(2);

/// Closure that [`Builder::service_lookup`](crate::Builder::service_lookup) was given.
#[derive(Clone)]
pub(crate) struct ServiceLookup(Arc<dyn Fn() -> Vec<SocketAddr> + Send + Sync>);

impl ServiceLookup {
    pub(crate) fn new(lookup: impl Fn() -> Vec<SocketAddr> + Send + Sync + 'static) -> Self {
        Self(Arc::new(lookup))
    }

    fn places(&self) -> Vec<SocketAddr> {
        (self.0)().into_iter().map(plain).collect()
    }

    /// Starts a thread that ends with the node, and does not keep it from its end.
    pub(crate) fn follow(self, first: SocketAddr, events: Events, cores: Cores) {
        let search = Search {
            lookup: self,
            events,
            cores,
            last: first,
        };
        // Without the thread the node stays with the address that it has, as without a lookup.
        let thread = thread::Builder::new().name("qsm-lookup".to_owned());
        drop(thread.spawn(move || search.run()));
    }
}

impl fmt::Debug for ServiceLookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServiceLookup")
    }
}

struct Search {
    lookup: ServiceLookup,
    events: Events,
    cores: Cores,
    /// The address that the node was told last, or found.
    last: SocketAddr,
}

impl Search {
    fn run(mut self) {
        while let Some(event) = self.events.next() {
            let goes_on = match event {
                Event::ServiceFound { address } => {
                    self.last = address;
                    Ok(())
                }
                Event::ServiceLost => self.search(),
                _ => Ok(()),
            };
            if goes_on.is_err() {
                return;
            }
        }
    }

    /// Tries all places in turn until the service is found.
    fn search(&mut self) -> Result<(), RecvError> {
        loop {
            let places = self.lookup.places();
            let last = places.iter().position(|place| *place == self.last);
            let next = last.map_or(0, |last| (last + 1) % places.len());
            if let Some(place) = places.get(next).filter(|place| **place != self.last) {
                self.last = *place;
                self.lead_to(*place);
            }
            if self.is_found()? {
                return Ok(());
            }
        }
    }

    fn lead_to(&self, address: SocketAddr) {
        for core in self.cores.0.iter() {
            core.tell(Command::Service { address });
        }
    }

    /// Waits for the service to answer.
    fn is_found(&mut self) -> Result<bool, RecvError> {
        let deadline = Instant::now() + ANSWER;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left)? {
                Some(Event::ServiceFound { address }) => {
                    self.last = address;
                    return Ok(true);
                }
                Some(_) => {}
                None => return Ok(false),
            }
        }
    }
}
