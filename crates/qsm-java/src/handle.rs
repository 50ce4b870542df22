//! Objects of ours that Java holds.

use std::fmt;
use std::marker::PhantomData;

use jni::sys::jlong;

use crate::call::Failure;

/// An object that Java holds, as the number that [`Handle::give`] made.
///
/// Only the virtual machine makes values of it, out of numbers that Java's class `Handle` keeps:
/// that lets no call begin with a number that was given up, and gives none up while a call has it.
#[repr(transparent)]
pub(crate) struct Handle<T> {
    address: jlong,
    object: PhantomData<*const T>,
}

impl<T: Send + Sync> Handle<T> {
    /// Gives an object to Java.
    pub(crate) fn give(object: T) -> jlong {
        Box::into_raw(Box::new(object)).expose_provenance() as jlong
    }

    /// The object.
    pub(crate) fn get(&self) -> Result<&T, Failure> {
        let object = std::ptr::with_exposed_provenance::<T>(self.address as usize);
        // SAFETY: null, or of `give` and not given up before the call ends, as the type says.
        let object = unsafe { object.as_ref() };
        object.ok_or_else(|| Failure::null("a handle"))
    }

    /// Ends its life.
    pub(crate) fn free(self) {
        let object = std::ptr::with_exposed_provenance_mut::<T>(self.address as usize);
        if !object.is_null() {
            // SAFETY: of `give`, and Java gives it up once.
            drop(unsafe { Box::from_raw(object) });
        }
    }
}

impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handle").field(&self.address).finish()
    }
}
