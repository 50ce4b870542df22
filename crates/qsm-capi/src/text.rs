//! Texts and times of C.

use std::ffi::{CStr, c_char};
use std::time::Duration;

use crate::error::{Failure, Own};

/// A text of C.
///
/// # Safety
/// Null, or to a text with a nul at its end, which lasts as long as the call.
pub(crate) unsafe fn read<'a>(text: *const c_char, name: &str) -> Result<&'a str, Failure> {
    if text.is_null() {
        let text = format!("{name} is null; give a text");
        return Err(Failure::own(Own::Null, text));
    }
    // SAFETY: the caller promises it.
    let text = unsafe { CStr::from_ptr(text) };
    let utf8 = text.to_str();
    utf8.map_err(|_| Failure::own(Own::Text, format!("{name} is not UTF-8: {text:?}")))
}

/// Writes as much of a text as fits, and a nul.
///
/// # Safety
/// `place` points to `size` bytes, or `size` is 0.
pub(crate) unsafe fn write(text: &str, place: *mut c_char, size: usize) {
    if size == 0 || place.is_null() {
        return;
    }
    let mut length = text.len().min(size - 1);
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    // SAFETY: `length` is less than `size`.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), place.cast(), length);
        *place.add(length) = 0;
    }
}

/// Milliseconds of C: negative ones are for ever.
pub(crate) fn wait(milliseconds: i64) -> Option<Duration> {
    u64::try_from(milliseconds).ok().map(Duration::from_millis)
}

/// As [`wait`], for calls that need an end: a century.
pub(crate) fn limit(milliseconds: i64) -> Duration {
    const CENTURY: Duration = Duration::from_secs(100 * 366 * 86_400);
    wait(milliseconds).unwrap_or(CENTURY).min(CENTURY)
}
