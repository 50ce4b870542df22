//! Binding to an object by its address.

use std::time::Duration;

use crate::limits::Limits;
use crate::machine::StateMachine;
use crate::replica::Replica;

use super::error::LiveError;
use super::uri::{Kind, Uri};

/// More than a replica takes until it is live or says why not.
const PATIENCE: Duration = Duration::from_secs(90);

/// Starts a node of the cluster, joins, and waits until the state is imported.
pub(super) fn bind<S: StateMachine + Send + 'static>(
    uri: &str,
    kind: Kind,
    state: S,
) -> Result<Replica<S>, LiveError> {
    let uri: Uri = uri.parse()?;
    uri.admit(kind)?;
    let node = uri.node().start()?;
    let replica = Replica::join(&node, &uri.group, state, Limits::default())?;
    replica.wait_live(PATIENCE)?;
    Ok(replica)
}
