//! A node by the interface for C, and the text of an error.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::ffi::{CStr, CString};
use std::ptr::null_mut;

use qsm_capi::*;

/// A cluster of a test's own.
pub(crate) fn cluster(test: &str) -> String {
    format!("capi-{test}-{}", std::process::id())
}

pub(crate) fn error() -> String {
    // SAFETY: the library's text, until the next error.
    let text = unsafe { CStr::from_ptr(qsm_error()) };
    text.to_string_lossy().into_owned()
}

/// A node of a cluster of its own.
pub(crate) fn node(test: &str) -> *mut QsmNode {
    let (mut settings, mut node) = (null_mut(), null_mut());
    let cluster = CString::new(cluster(test)).expect("no nul");
    let given = [
        (c"cluster", &*cluster),
        (c"interface", c"lo"),
        (c"embedded", c"always"),
    ];
    // SAFETY: handles of the library, and texts that outlive the calls.
    unsafe {
        assert_eq!(qsm_settings_new(&mut settings), 0);
        for (name, value) in given {
            assert_eq!(qsm_set(settings, name.as_ptr(), value.as_ptr()), 0);
        }
        assert_eq!(qsm_start(settings, &mut node), 0, "{}", error());
        qsm_settings_free(settings);
    }
    node
}
