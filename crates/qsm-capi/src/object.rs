//! Live objects that C holds, of whatever kind.

use std::ffi::c_int;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;

use qsm_binding::{Changes, await_live};
use qsm_replica::{Replica, Watched};

use crate::error::{Failure, Outcome};
use crate::text;

/// An object, and the place up to which its changes were polled.
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

    pub(crate) fn wait_live(&self, milliseconds: i64) -> Outcome {
        Ok(await_live(&self.object, text::wait(milliseconds))?)
    }

    pub(crate) fn poll(&self, most: usize, milliseconds: i64) -> Result<Vec<S::Change>, Failure> {
        if most == 0 {
            return Ok(Vec::new());
        }
        let taken = self.changes.take(most, text::wait(milliseconds))?;
        // It is held here, so it was not dropped.
        Ok(taken.unwrap_or_default())
    }

    pub(crate) fn descriptor(&self) -> Result<c_int, Failure> {
        let found = self.changes.descriptor();
        let found = found.map_err(|error| Failure::descriptor(&error))?;
        Ok(found.as_raw_fd())
    }

    /// Counters, as one object of JSON.
    pub(crate) fn stats(&self) -> String {
        qsm::metrics::json(&self.object.stats())
    }
}
