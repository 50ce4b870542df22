//! Handles that applications hold: they queue, ask and wait, and do no work of the protocol.

mod admin;
pub(crate) mod back;
pub(crate) mod builder;
pub(crate) mod cores;
pub(crate) mod errand;
pub(crate) mod events;
pub(crate) mod feed;
pub(crate) mod follow;
pub(crate) mod group;
pub(crate) mod latest;
pub(crate) mod lookup;
pub(crate) mod names;
pub(crate) mod node;
pub(crate) mod observer;
pub(crate) mod options;
pub(crate) mod own;
pub(crate) mod own_publisher;
pub(crate) mod pattern;
pub(crate) mod publisher;
pub(crate) mod reservation;
pub(crate) mod service;
pub(crate) mod subscription;
