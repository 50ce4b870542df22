//! The sockets to an attached process, and their end.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use qsm_net::LocalSocket;

use super::error::CutReason;
use super::requests::Reply;

/// Why a session ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// The process has closed its socket, or died. What is in its ring is still sent.
    Left,
    /// The engine ends.
    Closed { cause: String },
    /// For nonsense.
    Cut(CutReason),
}

/// The sockets to a process, and whether that is over.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) socket: LocalSocket,
    pub(super) doorbell: LocalSocket,
    ended: OnceLock<End>,
    /// Nothing of the process is wanted any more, also not what is in its ring.
    void: AtomicBool,
}

impl Line {
    pub(super) fn new(socket: LocalSocket, doorbell: LocalSocket) -> Self {
        Self {
            socket,
            doorbell,
            ended: OnceLock::new(),
            void: AtomicBool::new(false),
        }
    }

    /// Ends it; the first reason stays. Never waits.
    pub(super) fn end(&self, end: End) {
        let void = end != End::Left;
        let cause = match &end {
            End::Left => None,
            End::Closed { cause } => Some(cause.clone()),
            End::Cut(reason) => Some(format!(
                "this process was cut off: {reason}; its own memory is damaged, or it is of \
                 another version of qsm"
            )),
        };
        let first = self.ended.set(end).is_ok();
        // After the reason: who sees that it is void leaves, and must not be the first to say why.
        if void {
            self.void.store(true, Ordering::SeqCst);
        }
        if !first {
            return;
        }
        if let Some(cause) = cause {
            // One that does not read sees the end of the socket.
            drop(self.socket.try_send(&Reply::Closed { cause }.encode()));
        }
        self.socket.shutdown();
        self.doorbell.shutdown();
    }

    pub(super) fn ended(&self) -> Option<&End> {
        self.ended.get()
    }

    pub(super) fn is_void(&self) -> bool {
        self.void.load(Ordering::SeqCst)
    }
}
