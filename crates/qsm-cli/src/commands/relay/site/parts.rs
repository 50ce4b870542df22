//! Things that the parts of a gateway have in common.

use std::sync::Arc;

use super::end::End;
use super::stats::SiteCounts;
use super::turns::Turns;

/// Accounts and turns of all parts.
pub(super) struct Common {
    pub(super) counts: Arc<SiteCounts>,
    pub(super) turns: Arc<Turns>,
    pub(super) end: Arc<End>,
    pub(super) json: bool,
}

/// A packet of a stream of another site.
pub(super) struct Piece {
    /// Which of the site's gateways sent it, counted.
    pub(super) gateway: usize,
    pub(super) number: u64,
    pub(super) bytes: Arc<[u8]>,
}
