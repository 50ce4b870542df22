//! Codes of calls, and the text of a thread's last error.

use std::cell::RefCell;
use std::ffi::{CString, c_char};

use qsm::ErrorCode;

/// Outcome of a call: 0, or the number of an error, of the library or of this interface.
pub type Code = u16;

/// Codes of this interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum Own {
    /// Done.
    Ok = 0,
    /// A pointer is null that must not be.
    Null = 1701,
    /// A text is not UTF-8.
    Text = 1702,
    /// There is no such setting, or the text is no value of it.
    Setting = 1703,
    /// The library has a fault: it panicked, and the call did nothing more.
    Panicked = 1704,
}

impl Own {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Ok,
        Self::Null,
        Self::Text,
        Self::Setting,
        Self::Panicked,
    ];

    /// The meaning, and the remedy.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Ok => "Done.",
            Self::Null => "A pointer is null. Give what the call's description asks for.",
            Self::Text => "A text is not UTF-8. Give it in that encoding.",
            Self::Setting => "There is no such setting or value. Do as the text says.",
            Self::Panicked => "The library has a fault. Report it with the text.",
        }
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// The text of this thread's last error, until the next.
pub(crate) fn last() -> *const c_char {
    LAST.with_borrow(|last| last.as_ptr())
}

/// Outcome of what a call does.
pub(crate) type Outcome<E = Failure> = Result<(), E>;

/// An error on its way to the caller.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn own(code: Own, text: impl Into<String>) -> Self {
        let (code, text) = (code as Code, text.into());
        Self { code, text }
    }

    pub(crate) fn of(code: ErrorCode, error: &impl ToString) -> Self {
        let (code, text) = (code.number(), error.to_string());
        Self { code, text }
    }

    pub(crate) fn descriptor(error: &std::io::Error) -> Self {
        let text = format!("no descriptor: {error}; raise `ulimit -n`");
        Self::of(ErrorCode::StartSystem, &text)
    }

    /// Keeps the text for this thread.
    pub(crate) fn tell(self) -> Code {
        LAST.with_borrow_mut(|last| *last = c_string(&self.text));
        self.code
    }
}

/// For C: without a nul within.
pub(crate) fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default()
}

macro_rules! codes_of {
    ($($error:ty),+) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::of(error.code(), &error)
            }
        })+
    };
}

codes_of!(
    qsm::StartError,
    qsm::RequestError,
    qsm::SendError,
    qsm::RecvError,
    qsm::attach::AttachError,
    qsm_history::HistoryError,
    qsm_replica::ReplicaError,
    qsm_replica::LiveError
);

impl From<qsm_binding::SettingError> for Failure {
    fn from(error: qsm_binding::SettingError) -> Self {
        Self::own(Own::Setting, error.to_string())
    }
}
