//! Sharing a node: who may attach, and those who have.

use core::fmt;
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use qsm_net::{LocalListener, LocalSocket, Peer, SharedMemory, effective_user};

use super::error::{ShareError, ShareEvent};
use super::line::{End, Line};
use super::log::Logs;
use super::options::ShareOptions;
use super::requests::{PACKET_BYTES_MAX, Reply, Request, VERSION, travels};
use super::ring::{memory_words, message_bytes_max};
use super::session::Session;
use super::tally::{ClientRow, ShareStats, ShareTally};
use crate::error::{CloseReason, RecvError};
use crate::event::Event;
use crate::handle::back::NodeBack;
use crate::handle::events::Events;
use crate::handle::node::Node;
use crate::handle::own::OwnNode;
use crate::handoff::inbox::Inbox;

/// How long a process may take to say hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause between two attempts to tell a process that it has missed events.
const TELL_AGAIN: Duration = Duration::from_millis(100);
/// Pause after the system could not let a process in.
const PAUSE: Duration = Duration::from_millis(100);
/// A node being shared. It is a handle of the node; dropping it ends the sharing: all attached
/// processes are told, and the path is removed.
///
/// When the node ends before, they are told why.
pub struct Share {
    hall: Arc<Hall>,
    /// The events that the herald reads.
    inboxes: Vec<Arc<Inbox<Event>>>,
    threads: Vec<JoinHandle<()>>,
}

/// What the threads of a share have in common.
struct Hall {
    node: OwnNode,
    options: Arc<ShareOptions>,
    logs: Arc<Logs>,
    listener: LocalListener,
    ended: AtomicBool,
    guests: Mutex<Guests>,
    /// Somebody has left.
    left: Condvar,
    tally: ShareTally,
}

#[derive(Default)]
struct Guests {
    sessions: BTreeMap<u32, Arc<Session>>,
    next: u32,
    /// Threads of sessions, those that have yet to say hello included.
    threads: usize,
}

/// Room for a process; free again when dropped, however its thread ends.
struct Seat(Arc<Hall>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.guests().threads -= 1;
        self.0.left.notify_all();
    }
}

impl Share {
    fn open(node: &OwnNode, options: ShareOptions) -> Result<Self, ShareError> {
        options.check()?;
        let path = options.path.clone();
        let failed = |source| ShareError::of(path.clone(), source);
        let cores = node.cores.shards().0;
        let logs = Logs::create(cores, options.log_bytes).map_err(failed)?;
        let listener = LocalListener::bind(&path, options.mode).map_err(failed)?;
        let hall = Arc::new(Hall {
            node: node.clone(),
            options: Arc::new(options),
            logs: Arc::new(logs),
            listener,
            ended: AtomicBool::new(false),
            guests: Mutex::default(),
            left: Condvar::new(),
            tally: ShareTally::default(),
        });
        let events = node.events();
        // Made first: if a thread cannot start, dropping it ends the others.
        let mut share = Self {
            inboxes: events.mailbox.inboxes().map(Arc::clone).collect(),
            hall,
            threads: Vec::new(),
        };
        let hall = Arc::clone(&share.hall);
        share.spawn("qsm-herald", move || hall.herald(events))?;
        let hall = Arc::clone(&share.hall);
        share.spawn("qsm-share", move || Hall::listen(&hall))?;
        Ok(share)
    }

    /// Where it is shared.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.hall.options.path
    }

    /// What it has done.
    #[must_use]
    pub fn stats(&self) -> ShareStats {
        ShareStats {
            clients: self.hall.guests().sessions.len() as u64,
            ..self.hall.tally.read()
        }
    }

    /// The processes attached now, in the order of their coming.
    #[must_use]
    pub fn clients(&self) -> Vec<ClientRow> {
        let guests = self.hall.guests();
        guests
            .sessions
            .values()
            .map(|session| session.row())
            .collect()
    }

    fn spawn(
        &mut self,
        name: &str,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<(), ShareError> {
        let thread = thread::Builder::new().name(name.to_owned());
        let started = thread.spawn(work);
        let thread = started.map_err(|source| ShareError::Io {
            path: self.hall.options.path.clone(),
            source,
        })?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.hall.end("it is not shared any more");
        for inbox in &self.inboxes {
            inbox.close(RecvError::Closed(CloseReason::ShutDown));
        }
        for thread in self.threads.drain(..) {
            // A panic there was told by the panic's own message.
            drop(thread.join());
        }
        let mut guests = self.hall.guests();
        while guests.threads > 0 {
            guests = self
                .hall
                .left
                .wait(guests)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

// Here and not beside the rest of `Node`, which needs not know who shares it.
impl Node {
    /// Lets other processes of this host use this node, through a file at this path; see
    /// [`attach`](crate::attach).
    ///
    /// # Errors
    /// [`ShareError`], whose text says what to do.
    pub fn share(&self, path: impl Into<PathBuf>) -> Result<Share, ShareError> {
        self.share_with(ShareOptions::at(path))
    }

    /// As [`Node::share`], with limits of one's own choice.
    ///
    /// # Errors
    /// As [`Node::share`].
    pub fn share_with(&self, options: ShareOptions) -> Result<Share, ShareError> {
        match &self.back {
            NodeBack::Own(node) => Share::open(node, options),
            NodeBack::Attached(_) => Err(ShareError::Attached),
        }
    }
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Share")
            .field("path", &self.hall.options.path)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

impl Hall {
    /// Lets processes in, until the end.
    fn listen(hall: &Arc<Self>) {
        loop {
            let accepted = hall.listener.accept();
            if hall.ended.load(Ordering::SeqCst) {
                return;
            }
            let started = accepted.and_then(|socket| Self::receive(hall, socket));
            if let Err(error) = started {
                hall.refuse(0, format!("the engine cannot let it in: {error}"));
                // Descriptors or threads are short; some come back when somebody leaves.
                let waited = hall.left.wait_timeout(hall.guests(), PAUSE);
                drop(waited.unwrap_or_else(PoisonError::into_inner));
            }
        }
    }

    /// Starts a thread for a process that has connected, if there is room.
    fn receive(hall: &Arc<Self>, socket: LocalSocket) -> std::io::Result<()> {
        let peer = socket.peer()?;
        if let Err(reason) = hall.admit(peer) {
            let cause = reason.clone();
            drop(socket.try_send(&Reply::Closed { cause }.encode()));
            hall.refuse(peer.pid, reason);
            return Ok(());
        }
        let seat = Seat(Arc::clone(hall));
        let thread = thread::Builder::new().name("qsm-session".to_owned());
        // If it cannot start, its seat is free again with what it would have run.
        thread
            .spawn(move || Self::serve(seat, socket, peer))
            .map(drop)
    }

    fn admit(&self, peer: Peer) -> Result<(), String> {
        if peer.uid != effective_user() && peer.uid != 0 {
            return Err(format!(
                "user {} may not attach to the engine of user {}; run as that user or as root",
                peer.uid,
                effective_user()
            ));
        }
        let mut guests = self.guests();
        let max = self.options.clients_max;
        if guests.threads >= max {
            return Err(format!(
                "the engine has {max} processes attached already; stop one, or let it have more \
                 (`ShareOptions::clients_max`, `qsm engine --clients`)"
            ));
        }
        guests.threads += 1;
        Ok(())
    }

    fn refuse(&self, pid: u32, reason: String) {
        self.tally.refused.add(1);
        self.tell(&ShareEvent::Refused { pid, reason });
    }

    /// The thread of one process.
    fn serve(seat: Seat, socket: LocalSocket, peer: Peer) {
        let hall = Arc::clone(&seat.0);
        let session = match hall.welcome(socket, peer) {
            Ok(session) => session,
            Err(reason) => return hall.refuse(peer.pid, reason),
        };
        let (client, pid) = (session.number, peer.pid);
        hall.tally.attached.add(1);
        hall.tell(&ShareEvent::Attached { client, pid });
        session.run();
        if let Some(End::Cut(reason)) = session.line.ended() {
            hall.tally.cut_off.add(1);
            let reason = *reason;
            hall.tell(&ShareEvent::CutOff {
                client,
                pid,
                reason,
            });
        }
        hall.guests().sessions.remove(&client);
        // Whoever hears of it finds the seat free.
        drop(seat);
        hall.tell(&ShareEvent::Detached { client, pid });
    }

    /// The handshake.
    fn welcome(&self, socket: LocalSocket, peer: Peer) -> Result<Arc<Session>, String> {
        let failed = |error: std::io::Error| format!("the handshake failed: {error}");
        socket.set_timeout(Some(HELLO_TIMEOUT)).map_err(failed)?;
        let mut packet = vec![0; PACKET_BYTES_MAX];
        let length = socket.recv(&mut packet).map_err(failed)?;
        let Some(Request::Hello { version }) = Request::decode(&packet[..length]) else {
            return Err("it did not say hello; is it a program of qsm?".to_owned());
        };
        socket.set_timeout(None).map_err(failed)?;
        let words = self.options.publish_ring_bytes / size_of::<u64>();
        let made = SharedMemory::create(memory_words(1, words));
        let (memory, descriptor) = made.map_err(failed)?;
        let (doorbell, other_end) = LocalSocket::pair().map_err(failed)?;
        // Numbered and listed at once, so that the end of the share reaches it.
        let session = {
            let mut guests = self.guests();
            guests.next += 1;
            let number = guests.next;
            let line = Line::new(socket, doorbell);
            let memory = Arc::new(memory);
            let (node, options, logs) = (&self.node, &self.options, &self.logs);
            let session = Session::new(number, peer, node, options, logs, &memory, line);
            let session = Arc::new(session);
            guests.sessions.insert(number, Arc::clone(&session));
            session
        };
        let longest = message_bytes_max(words, 0);
        let welcome = Reply::Welcome {
            version: VERSION,
            client: session.number,
            node: self.node.id(),
            message_bytes_max: longest.min(self.node.message_bytes_max()) as u64,
            ring_words: words as u64,
            log_words: self.logs.words() as u64,
        };
        let descriptors = [
            descriptor.as_fd(),
            other_end.as_fd(),
            self.logs.descriptor(),
        ];
        let sent = session
            .line
            .socket
            .send_with(&welcome.encode(), &descriptors);
        let same = match version {
            VERSION => sent.map_err(failed),
            other => Err(format!(
                "it speaks version {other} of the handshake and the engine {VERSION}"
            )),
        };
        if let Err(reason) = same {
            self.guests().sessions.remove(&session.number);
            return Err(reason);
        }
        if self.ended.load(Ordering::SeqCst) {
            session.end(ended());
        }
        Ok(session)
    }

    /// Tells all processes what happens to the node, until it ends.
    fn herald(&self, events: Events) {
        let mut all_told = true;
        loop {
            let patience = if all_told { Duration::MAX } else { TELL_AGAIN };
            let event = match events.recv_timeout(patience) {
                Err(_) => return,
                Ok(Some(Event::Closed { reason })) => return self.end(&reason.to_string()),
                Ok(event) => event.filter(travels),
            };
            let packet = event.map(|event| Reply::Event(event).encode());
            let sessions: Vec<_> = self.guests().sessions.values().cloned().collect();
            all_told = true;
            for session in sessions {
                let line = &session.line;
                if packet
                    .as_ref()
                    .is_some_and(|packet| !line.tell_event(packet))
                {
                    session.tally.events_dropped.add(1);
                }
                all_told &= line.tell_missed();
            }
        }
    }

    /// Nobody is let in any more, and all are told why.
    fn end(&self, cause: &str) {
        if self.ended.swap(true, Ordering::SeqCst) {
            return;
        }
        self.listener.shutdown();
        let sessions: Vec<_> = self.guests().sessions.values().cloned().collect();
        for session in sessions {
            let cause = cause.to_owned();
            session.end(End::Closed { cause });
        }
    }

    fn tell(&self, event: &ShareEvent) {
        if let Some(tell) = &self.options.on_event {
            tell(event);
        }
    }

    fn guests(&self) -> MutexGuard<'_, Guests> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn ended() -> End {
    End::Closed {
        cause: "the engine ends".to_owned(),
    }
}
