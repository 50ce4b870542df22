//! An endpoint whose inputs are recorded, or are not.

use core::ops::Deref;
use core::time::Duration;
use std::net::SocketAddr;

use qsm_proto::send::Batching;
use qsm_proto::{
    CopiesLeft, Datagram, Delays, Deliver, Endpoint, Event, FullReaders, Instant, Promptness,
    Publication, PublishError, Transmit,
};
use qsm_wire::GroupId;
use qsm_wire::membership::{QueryKind, Role};

use crate::error::Stopped;
use crate::input::Input;
use crate::journal::Journal;
use crate::witness::Witness;

/// An [`Endpoint`], with the calls that change it; what only looks goes to the endpoint by
/// dereference. Each call does what the endpoint's of the same name does, and is noted before if
/// there is a journal. Without one it costs a comparison.
#[derive(Debug)]
pub struct Recorded {
    endpoint: Endpoint,
    journal: Option<Box<Journal>>,
}

impl Recorded {
    /// An endpoint that was just made, and the journal that has what it was made of.
    #[must_use]
    pub fn new(endpoint: Endpoint, journal: Option<Journal>) -> Self {
        Self {
            endpoint,
            journal: journal.map(Box::new),
        }
    }

    /// Tells whether it is being recorded.
    #[must_use]
    pub fn is_recording(&self) -> bool {
        self.journal.is_some()
    }

    /// To be called now and then: brings what was noted to the disk. Returns why recording has
    /// stopped, once.
    #[inline]
    pub fn turn(&mut self, now: Instant) -> Option<Stopped> {
        let journal = self.journal.as_mut()?;
        let stopped = journal.turn(now)?;
        self.journal = None;
        Some(stopped)
    }

    /// Ends the recording, and waits until the file is written.
    ///
    /// # Errors
    /// Not all is in the file.
    pub fn end(&mut self) -> Result<(), Stopped> {
        let journal = self.journal.take();
        journal.map_or(Ok(()), |journal| journal.close())
    }

    /// To be said before datagrams are handed over of buffers that were filled anew.
    #[inline]
    pub fn refill(&mut self) {
        if let Some(journal) = &mut self.journal {
            journal.refill();
        }
    }

    /// As [`Endpoint::handle_datagram`].
    #[inline]
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: Datagram<'_>,
        out: &mut dyn Deliver,
    ) {
        let Some(journal) = &mut self.journal else {
            return self.endpoint.handle_datagram(now, from, datagram, out);
        };
        journal.datagram(now, from, &datagram);
        let outputs = journal.outputs();
        let mut out = Witness { out, outputs };
        self.endpoint.handle_datagram(now, from, datagram, &mut out);
        journal.done();
    }

    /// As [`Endpoint::handle_timeout`].
    pub fn handle_timeout(&mut self, now: Instant, out: &mut dyn Deliver) {
        let Some(journal) = &mut self.journal else {
            return self.endpoint.handle_timeout(now, out);
        };
        journal.input(now, &Input::Timeout);
        let outputs = journal.outputs();
        let mut out = Witness { out, outputs };
        self.endpoint.handle_timeout(now, &mut out);
        journal.done();
    }

    /// As [`Endpoint::poll_transmit`].
    #[inline]
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit<'_>> {
        if let Some(journal) = &mut self.journal {
            journal.input(now, &Input::Transmit);
        }
        let transmit = self.endpoint.poll_transmit(now);
        if let Some(journal) = &mut self.journal {
            if let Some(transmit) = &transmit {
                journal.outputs().transmit(transmit);
            }
            journal.done();
        }
        transmit
    }

    /// As [`Endpoint::poll_copies`]; none while it is recorded: then each is polled for by itself.
    #[inline]
    pub fn poll_copies(&mut self) -> Option<CopiesLeft<'_>> {
        match self.journal {
            None => self.endpoint.poll_copies(),
            Some(_) => None,
        }
    }

    /// As [`Endpoint::poll_event`].
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.endpoint.poll_event()?;
        if let Some(journal) = &mut self.journal {
            journal.input_now(&Input::Event);
            journal.outputs().event(&event);
            journal.done();
        }
        Some(event)
    }

    /// As [`Endpoint::publication`].
    ///
    /// # Errors
    /// The same.
    #[inline]
    pub fn publication(
        &mut self,
        now: Instant,
        group: GroupId,
    ) -> Result<RecordedPublication<'_>, PublishError> {
        if let Some(journal) = &mut self.journal {
            journal.input(now, &Input::Open { group });
        }
        let publication = self.endpoint.publication(now, group);
        if let Some(journal) = &mut self.journal {
            if let Err(error) = &publication {
                journal.outputs().result(error);
            }
            journal.done();
        }
        Ok(RecordedPublication {
            publication: publication?,
            journal: self.journal.as_deref_mut(),
        })
    }

    /// As [`Endpoint::take_delays`], which changes nothing of what is replayed.
    pub fn take_delays(&mut self, now: Instant) -> Delays {
        self.endpoint.take_delays(now)
    }

    /// As [`Endpoint::enter`].
    pub fn enter(&mut self, now: Instant, role: Role, names: Vec<String>) -> u32 {
        self.note(now, || Input::Enter {
            role,
            groups: texts(&names),
        });
        let request = self.endpoint.enter(now, role, names);
        self.note_request(request)
    }

    /// As [`Endpoint::exit`].
    pub fn exit(&mut self, now: Instant, role: Role, names: Vec<String>) -> u32 {
        self.note(now, || Input::Exit {
            role,
            groups: texts(&names),
        });
        let request = self.endpoint.exit(now, role, names);
        self.note_request(request)
    }

    /// As [`Endpoint::want`].
    pub fn want(&mut self, now: Instant, name: &str, modes: &[Promptness]) {
        self.note(now, || Input::Want {
            group: name,
            modes: modes.to_vec(),
        });
        self.endpoint.want(now, name, modes);
        self.done();
    }

    /// As [`Endpoint::query`].
    pub fn query(&mut self, now: Instant, list: QueryKind) -> u32 {
        self.note(now, || Input::Query { list });
        let request = self.endpoint.query(now, list);
        self.note_request(request)
    }

    /// As [`Endpoint::set_service`].
    pub fn set_service(&mut self, now: Instant, address: SocketAddr) {
        self.note(now, || Input::Service { address });
        self.endpoint.set_service(now, address);
        self.done();
    }

    /// As [`Endpoint::describe`].
    pub fn describe(&mut self, now: Instant, text: String) {
        self.note(now, || Input::Describe { text: &text });
        self.endpoint.describe(now, text);
        self.done();
    }

    /// As [`Endpoint::note_drops`].
    pub fn note_drops(&mut self, now: Instant, packets: u64) {
        self.note(now, || Input::Drops { packets });
        self.endpoint.note_drops(now, packets);
        self.done();
    }

    /// As [`Endpoint::note_foreign`].
    pub fn note_foreign(&mut self, now: Instant, at: SocketAddr) {
        self.note(now, || Input::Foreign { at });
        self.endpoint.note_foreign(now, at);
        self.done();
    }

    /// As [`Endpoint::set_backlog`].
    #[inline]
    pub fn set_backlog(&mut self, now: Instant, waiting: bool) {
        self.note(now, || Input::Backlog { waiting });
        self.endpoint.set_backlog(now, waiting);
        self.done();
    }

    /// As [`Endpoint::note_sojourn`].
    #[inline]
    pub fn note_sojourn(&mut self, now: Instant, waited: Duration) {
        self.note(now, || Input::Sojourn { waited });
        self.endpoint.note_sojourn(now, waited);
        self.done();
    }

    /// As [`Endpoint::note_wait`].
    pub fn note_wait(&mut self, now: Instant, time: Duration) {
        self.note(now, || Input::Wait { time });
        self.endpoint.note_wait(now, time);
        self.done();
    }

    /// As [`Endpoint::set_full_readers`].
    pub fn set_full_readers(&mut self, now: Instant, full: FullReaders) {
        self.note(now, || Input::Readers { full: full.clone() });
        self.endpoint.set_full_readers(now, full);
        self.done();
    }

    /// As [`Endpoint::move_to`].
    pub fn move_to(&mut self, now: Instant, address: SocketAddr, second: Option<SocketAddr>) {
        self.note(now, || Input::Move { address, second });
        self.endpoint.move_to(now, address, second);
        self.done();
    }

    /// As [`Endpoint::close`].
    pub fn close(&mut self, now: Instant) {
        self.note(now, || Input::Close);
        self.endpoint.close(now);
        self.done();
    }

    #[inline]
    fn note<'a>(&mut self, now: Instant, input: impl FnOnce() -> Input<'a>) {
        if let Some(journal) = &mut self.journal {
            journal.input(now, &input());
        }
    }

    fn note_request(&mut self, request: u32) -> u32 {
        if let Some(journal) = &mut self.journal {
            journal.outputs().number(request.into());
            journal.done();
        }
        request
    }

    #[inline]
    fn done(&mut self) {
        if let Some(journal) = &mut self.journal {
            journal.done();
        }
    }
}

impl Drop for Recorded {
    /// Writes what is left.
    fn drop(&mut self) {
        // Nobody is left to be told.
        self.end().ok();
    }
}

impl Deref for Recorded {
    type Target = Endpoint;

    #[inline]
    fn deref(&self) -> &Endpoint {
        &self.endpoint
    }
}

/// As [`Publication`], of a [`Recorded`].
#[derive(Debug)]
pub struct RecordedPublication<'a> {
    publication: Publication<'a>,
    journal: Option<&'a mut Journal>,
}

impl RecordedPublication<'_> {
    /// As [`Publication::within`].
    #[must_use]
    pub fn within(mut self, batching: Batching) -> Self {
        if let Some(journal) = &mut self.journal {
            journal.input_now(&Input::Batching { batching });
            journal.done();
        }
        self.publication = self.publication.within(batching);
        self
    }

    /// As [`Publication::push`].
    ///
    /// # Errors
    /// The same.
    #[inline]
    pub fn push(&mut self, payload: &[u8], out: &mut dyn Deliver) -> Result<u64, PublishError> {
        let Some(journal) = &mut self.journal else {
            return self.publication.push(payload, out);
        };
        journal.input_now(&Input::Push { payload });
        let outputs = journal.outputs();
        let result = self
            .publication
            .push(payload, &mut Witness { out, outputs });
        match &result {
            Ok(number) => journal.outputs().number(*number),
            Err(error) => journal.outputs().result(error),
        }
        journal.done();
        result
    }
}

fn texts(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}
