//! State of a running node, as data for operators, and the local socket that it is asked by.
//!
//! ```text
//!  asker ── question, one line of JSON ──► @qsm/PID/N ──► the node's answer, one line of JSON
//! ```
//!
//! The socket has a name of Linux's abstract namespace: it is no file, so nothing is left of a process
//! that was killed, and there is one namespace for each network namespace. Whoever may end a process
//! may ask it: its own user, and root. An asker, too, looks who answers.
//!
//! Membership services have sockets of their own, `@qsm-gms/PID/N`.
//!
//! One client is served at a time; what it may cost has a limit: [`QUESTION_BYTES_MAX`],
//! [`QUESTION_TIME`], [`ANSWER_TIME`].
//!
//! ```
//! use qsm_admin::{Answer, AdminSocket, NodeSocket, Question};
//!
//! let socket = AdminSocket::open(|question| match question {
//!     Question::Counters => Ok(Answer::Counters(serde_json::json!({ "data_sent": 3 }))),
//!     _ => Err("it was only made for this example".to_owned()),
//! })?;
//! let node = NodeSocket::all()?.into_iter().find(|node| node.name() == socket.name());
//! let answer = node.expect("it is there").ask(&Question::Counters)?;
//! assert!(matches!(answer, Answer::Counters(counters) if counters["data_sent"] == 3));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod client;
mod message;
mod question;
mod server;
mod service;
mod state;

pub use client::{AskError, NodeSocket};
pub use message::{Came, GapState, MessageState, MessageStreamState, PartsState, Standing};
pub use question::{Answer, Question};
pub use server::{ANSWER_TIME, AdminSocket, QUESTION_BYTES_MAX, QUESTION_TIME};
pub use service::{RepairLimitState, ServiceState};
pub use state::{
    DescribedNode, GroupState, MemberState, NodeState, Reach, ReceivingState, RegionState,
    SendingState,
};
