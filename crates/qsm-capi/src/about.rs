//! The library itself: its version, and its errors in words.

use std::ffi::c_char;

use qsm::ErrorCode;

use crate::error::{Code, Own, last};
use crate::text;

/// Number of this interface, raised when programs have to be compiled anew: the one that the
/// library has, to be compared with `QSM_ABI`, which the program was compiled with.
pub const ABI: u32 = 2;

/// The number of the interface that the library has: [`ABI`].
#[unsafe(no_mangle)]
pub extern "C" fn qsm_abi() -> u32 {
    ABI
}

/// The library's version, such as `0.2.0`.
#[unsafe(no_mangle)]
pub extern "C" fn qsm_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Text of the last error that a call of this thread returned, cause and remedy; empty before the
/// first. It lasts until the thread's next error.
#[unsafe(no_mangle)]
pub extern "C" fn qsm_error() -> *const c_char {
    last()
}

/// Length of a code's meaning and remedy, in bytes, without the nul; writes as much of it as
/// `size` bytes hold, and a nul. 0 of a number that is no code.
///
/// # Safety
/// `place` points to `size` bytes, or `size` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_meaning(code: Code, place: *mut c_char, size: usize) -> usize {
    let of_library = ErrorCode::ALL.iter().find(|known| known.number() == code);
    let meaning = match of_library {
        Some(known) => format!("{} {}", known.meaning(), known.remedy()),
        None => own_meaning(code).to_owned(),
    };
    // SAFETY: the caller promises so many bytes.
    unsafe { text::write(&meaning, place, size) };
    meaning.len()
}

fn own_meaning(code: Code) -> &'static str {
    let own = Own::ALL.iter().find(|own| **own as Code == code);
    own.map_or("", |own| own.meaning())
}
