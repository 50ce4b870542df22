//! Messages from stdin or elsewhere, read by a thread of their own.

use std::io::{self, BufReader, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread;

use qsm_console::failure::Failure;
use qsm_relay::PAYLOAD_MAX;
use qsm_seal::{CONTENT_GROWTH, ContentSealer};

use crate::frames::{Framing, Reader};

/// Messages that are read ahead.
const AHEAD: usize = 256;

/// Input of a stream.
pub(super) struct Input {
    messages: Receiver<Result<Vec<u8>, Failure>>,
    /// Has a byte for each message, so that it can be waited for beside a socket.
    bell: PipeReader,
    ended: bool,
}

/// Takes what the thread of an input reads.
pub(super) struct Feeder {
    put: SyncSender<Result<Vec<u8>, Failure>>,
    ring: PipeWriter,
}

impl Feeder {
    /// Waits for room for a message, or says why there are no more; false if nobody wants any.
    pub(super) fn put(&mut self, next: Result<Vec<u8>, Failure>) -> bool {
        self.put.send(next).is_ok() && self.ring.write_all(&[0]).is_ok()
    }
}

/// Fate of a message for an input.
pub(super) enum Fed {
    Taken,
    /// There is no room for it yet.
    Full(Vec<u8>),
    /// Nobody wants any more.
    Closed,
}

impl Feeder {
    /// As [`Feeder::put`], without waiting.
    pub(super) fn try_put(&mut self, message: Vec<u8>) -> Fed {
        match self.put.try_send(Ok(message)) {
            Ok(()) if self.ring.write_all(&[0]).is_ok() => Fed::Taken,
            Err(TrySendError::Full(Ok(message))) => Fed::Full(message),
            _ => Fed::Closed,
        }
    }
}

impl Input {
    /// Reads messages from stdin from now on, and seals them.
    pub(super) fn read(
        framing: Framing,
        mut sealer: Option<ContentSealer>,
    ) -> Result<Self, Failure> {
        Self::of("stdin", move |feeder| {
            let mut reader = Reader::new(BufReader::new(io::stdin()), framing);
            loop {
                let next = match reader.next_message() {
                    Ok(None) => break,
                    Ok(Some(message)) => prepared(message, sealer.as_mut()),
                    Err(error) => Err(Failure::io("read stdin", &error)),
                };
                let failed = next.is_err();
                if !feeder.put(next) || failed {
                    break;
                }
            }
        })
    }

    /// Messages that a thread of this name reads from now on; they end when it does.
    pub(super) fn of(
        name: &str,
        read: impl FnOnce(&mut Feeder) + Send + 'static,
    ) -> Result<Self, Failure> {
        let made = io::pipe();
        let (bell, ring) = made.map_err(|error| Failure::io("make a pipe", &error))?;
        let (put, messages) = sync_channel(AHEAD);
        let mut feeder = Feeder { put, ring };
        let started = thread::Builder::new().name(name.to_owned()).spawn(move || {
            read(&mut feeder);
            let Feeder { put, mut ring } = feeder;
            drop(put);
            // That nobody waits any more is fine.
            ring.write_all(&[0]).unwrap_or_default();
        });
        started.map_err(|error| Failure::io("start a thread", &error))?;
        Ok(Self {
            messages,
            bell,
            ended: false,
        })
    }

    /// The next message, if there is one.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        if self.ended {
            return Ok(None);
        }
        match self.messages.try_recv() {
            Ok(message) => {
                self.take_byte()?;
                message.map(Some)
            }
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => {
                self.ended = true;
                Ok(None)
            }
        }
    }

    /// Tells whether everything has been read.
    pub(super) fn is_ended(&self) -> bool {
        self.ended
    }

    /// Something to wait for the next message by; none after the end.
    pub(super) fn bell(&self) -> Option<BorrowedFd<'_>> {
        (!self.ended).then(|| self.bell.as_fd())
    }

    /// The byte of a message follows it at once.
    fn take_byte(&mut self) -> Result<(), Failure> {
        let taken = self.bell.read_exact(&mut [0]);
        taken.map_err(|error| Failure::io("read a pipe", &error))
    }
}

/// The message as it is sent.
fn prepared(message: &[u8], sealer: Option<&mut ContentSealer>) -> Result<Vec<u8>, Failure> {
    let growth = sealer.as_ref().map_or(0, |_| CONTENT_GROWTH);
    let (length, max) = (message.len(), PAYLOAD_MAX - growth);
    if length > max {
        return Err(Failure::failed(
            format!("a message of {length} bytes does not fit a datagram, at most {max} do"),
            "cut it into several; with --frames each has its length in front",
        ));
    }
    match sealer {
        None => Ok(message.to_vec()),
        Some(sealer) => sealed(sealer, message),
    }
}

/// A content, sealed.
pub(super) fn sealed(sealer: &mut ContentSealer, content: &[u8]) -> Result<Vec<u8>, Failure> {
    let refused = || Failure::failed("the cipher of --content-key refuses", "make another key");
    sealer.seal(content).ok_or_else(refused)
}
