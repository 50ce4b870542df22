//! The back-ends of a node's handles.

use crate::attach::client::Attached;
use crate::handle::own::OwnNode;

/// The back-end that does the work.
#[derive(Clone)]
pub(crate) enum NodeBack {
    Own(OwnNode),
    Attached(Attached),
}
