//! Live objects that Java holds, of whatever kind.

use std::sync::Arc;

use jni::sys::{jint, jlong};
use qsm_binding::{Changes, await_live};
use qsm_replica::{Replica, Watched};

use crate::call::{Failure, limit};

/// An object, and the place up to which its changes were taken.
#[derive(Debug)]
pub(crate) struct Held<S> {
    pub(crate) object: Arc<Replica<S>>,
    changes: Changes<S>,
}

impl<S: Watched + Send + 'static> Held<S> {
    pub(crate) fn new(object: Arc<Replica<S>>) -> Self {
        let changes = Changes::new(&object);
        Self { object, changes }
    }

    pub(crate) fn await_live(&self, nanoseconds: jlong) -> Result<(), Failure> {
        Ok(await_live(&self.object, Some(limit(nanoseconds)))?)
    }

    /// Takes what has changed, and waits so long for the first change.
    pub(crate) fn take(&self, most: jint, nanoseconds: jlong) -> Result<Vec<S::Change>, Failure> {
        let most = usize::try_from(most).unwrap_or(0);
        let taken = self.changes.take(most, Some(limit(nanoseconds)))?;
        // It is held here, so it was not dropped.
        Ok(taken.unwrap_or_default())
    }

    /// Counters, as an object of JSON.
    pub(crate) fn stats(&self) -> String {
        qsm::metrics::json(&self.object.stats())
    }
}
