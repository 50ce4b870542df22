use core::fmt;

/// A broken promise, as a checker states it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Name of the checker.
    pub checker: &'static str,
    /// Account of what it saw.
    pub message: String,
}

impl Violation {
    pub(crate) fn new(checker: &'static str, message: String) -> Self {
        Self { checker, message }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.checker, self.message)
    }
}
