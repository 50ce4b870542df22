//! Nodes that come from another service.
