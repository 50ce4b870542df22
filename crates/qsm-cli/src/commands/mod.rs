//! The commands, one file or folder each: its arguments, and what it does.
//!
//! `qsm bench` and `qsm demo` are crates of their own, `qsm-measure` and `qsm-demo`.

pub(crate) mod advise;
mod authority;
pub(crate) mod capture;
pub(crate) mod config;
mod counted;
pub(crate) mod dash;
pub(crate) mod dissector;
pub(crate) mod doctor;
pub(crate) mod engine;
pub(crate) mod explain;
pub(crate) mod gms;
pub(crate) mod init;
pub(crate) mod keep;
pub(crate) mod keygen;
pub(crate) mod lab;
pub(crate) mod list;
mod look;
pub(crate) mod open;
pub(crate) mod plan;
pub(crate) mod publish;
pub(crate) mod relay;
pub(crate) mod repair;
pub(crate) mod shell;
pub(crate) mod sim;
mod sites;
pub(crate) mod subscribe;
pub(crate) mod token;
pub(crate) mod top;
