use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// A random number of the operating system's making; every hash table of this process gets its
/// keys in the same way.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
