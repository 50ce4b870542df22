//! State that is replicated.

use std::fmt;

/// State that changes by updates alone. Updates of one source come in its order, those of several in another order
/// at each replica, so they must commute; under [`Order::Total`](crate::Order::Total) all come in the same order.
pub trait StateMachine {
    /// Changes the state. It must depend on the state and these bytes alone: no clock, no chance.
    fn apply(&mut self, update: &[u8]);

    /// Appends the whole state to `out`. Called while updates wait, so it holds them up.
    fn snapshot(&self, out: &mut Vec<u8>);

    /// Replaces the state by what [`StateMachine::snapshot`] wrote at another replica.
    ///
    /// # Errors
    /// The bytes are not of a state, for example of another version of the program. Another donor is asked then.
    fn restore(&mut self, snapshot: &[u8]) -> Result<(), RestoreError>;

    /// A hash of the state, equal where the same updates were applied. Of two live replicas that have the same updates
    /// and different hashes one binds anew ([`Cause::Differs`](crate::Cause::Differs)). Asked for twice a second and
    /// more, so it is to be quick. `None`, the default: states are not compared.
    fn digest(&self) -> Option<u64> {
        None
    }

    /// Bytes of the state, for [`ReplicaStats::state_bytes`](crate::ReplicaStats::state_bytes). 0, the default: not
    /// known.
    fn size(&self) -> u64 {
        0
    }
}

/// Bytes that are no snapshot of this state machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestoreError;

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("these bytes are no snapshot of this state; do all replicas run the same version of the program?")
    }
}

impl std::error::Error for RestoreError {}
