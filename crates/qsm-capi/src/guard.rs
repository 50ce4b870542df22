//! Calls from C, kept from panicking across the border.

use std::any::Any;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{Code, Failure, Outcome, Own};

/// Runs a call; its code. What it had begun when it panicked is valid: the library's handles are
/// shared between threads, and hold no half-made state.
pub(crate) fn call(work: impl FnOnce() -> Outcome) -> Code {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => Own::Ok as Code,
        Ok(Err(failure)) => failure.tell(),
        Err(panic) => Failure::own(Own::Panicked, said(&*panic)).tell(),
    }
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    let text = text.unwrap_or_default();
    format!("the library has a fault: {text}")
}

/// What a pointer of C points to.
///
/// # Safety
/// Null, or to something that lives as long as the call and is not written to meanwhile.
pub(crate) unsafe fn at<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller promises it.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(name))
}

/// As [`at`], to be written.
///
/// # Safety
/// Null, or to something that lives as long as the call and that nobody else uses meanwhile.
pub(crate) unsafe fn at_mut<'a, T>(pointer: *mut T, name: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: the caller promises it.
    unsafe { pointer.as_mut() }.ok_or_else(|| null(name))
}

/// Bytes of C; none if there are none, wherever they are.
///
/// # Safety
/// `start` is null, or points to `length` bytes that live as long as the call.
pub(crate) unsafe fn bytes<'a>(
    start: *const c_void,
    length: usize,
    name: &str,
) -> Result<&'a [u8], Failure> {
    if length == 0 {
        return Ok(&[]);
    }
    // SAFETY: the caller promises it.
    let first = unsafe { at(start.cast::<u8>(), name) }?;
    // SAFETY: as above.
    Ok(unsafe { std::slice::from_raw_parts(first, length) })
}

/// Ends the life of a handle; of null, nothing.
///
/// # Safety
/// Null, or a handle of this library that is not used any more.
pub(crate) unsafe fn free<T>(handle: *mut T) {
    if !handle.is_null() {
        // SAFETY: handles are boxes, and the caller gives this one up.
        let handle = unsafe { Box::from_raw(handle) };
        call(|| {
            drop(handle);
            Ok(())
        });
    }
}

/// Gives a handle to C.
///
/// # Safety
/// `place` is null, or may be written to.
pub(crate) unsafe fn give<T>(place: *mut *mut T, handle: T, name: &str) -> Result<(), Failure> {
    // SAFETY: the caller promises it.
    let place = unsafe { at_mut(place, name) }?;
    *place = Box::into_raw(Box::new(handle));
    Ok(())
}

fn null(name: &str) -> Failure {
    Failure::own(Own::Null, format!("{name} is null; give a pointer"))
}
