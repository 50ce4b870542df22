//! Quicksilver for Java: the native part of `io.quicksilver:qsm`.
//!
//! It has what the class `Native` declares, and nothing that decides; loops, losses, reactive
//! streams and typed messages are in `java/`.
//!
//! No thread of the library calls Java: the caller takes what has come, many messages at a call,
//! which are written one behind the other into a buffer of the caller's (`qsm_binding::Inlet` says how). So a
//! program that collects garbage, or is stopped, fills its own queue and harms nobody; and the
//! virtual machine sees no object, no reference and no allocation for a message.

// Java 22 and later call the interface for C, out of the same library.
use qsm_capi as _;

mod call;
mod event;
mod handle;
mod keeper;
mod log;
mod map;
mod node;
mod object;
mod publisher;
mod subscription;
mod waiter;
