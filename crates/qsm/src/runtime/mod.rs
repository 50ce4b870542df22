//! Threads that do a node's work: the core threads, and that of the membership service.

pub(crate) mod clock;
pub(crate) mod core;
pub(crate) mod embedding;
pub(crate) mod engine;
pub(crate) mod name;
pub(crate) mod network;
pub(crate) mod observer;
pub(crate) mod protection;
pub(crate) mod random;
pub(crate) mod service;
pub(crate) mod settings;
pub(crate) mod shield;
pub(crate) mod tap;
pub(crate) mod threads;
pub(crate) mod transmit;
