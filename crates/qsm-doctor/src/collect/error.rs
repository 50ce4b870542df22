use core::fmt;

/// The interface cannot be examined. The text names the cause, and after a semicolon the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CollectError {
    /// The program `ip` is missing, or tells nothing.
    NoIp,
    /// There is no such interface.
    NoInterface {
        /// Its name.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
}

impl fmt::Display for CollectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoIp => {
                f.write_str("the program `ip` is missing or does not know -json; install iproute2")
            }
            Self::NoInterface { name, known } => write!(
                f,
                "there is no interface {name}; choose one of {}",
                known.join(", ")
            ),
        }
    }
}

impl std::error::Error for CollectError {}
