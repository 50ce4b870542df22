//! Reads this repository, so that rules about it can be tests.
//!
//! The rules are in `tests/`, one file per subject; here is what they share: the list of files,
//! Rust sources cut into code, comments and tests, manifests, Markdown, and the book. Nothing but the
//! standard library, and no more understanding of Rust and TOML than the rules need.

#![forbid(unsafe_code)]

mod book;
mod manifest;
mod markdown;
mod repository;
mod rules;
mod source;

pub use book::Book;
pub use manifest::Manifest;
pub use markdown::Markdown;
pub use repository::Repository;
pub use rules::{requirement_ids, rule_ids};
pub use source::Source;
