//! The beginning of help texts.

/// Examples, for in front of the options of a help text.
#[macro_export]
macro_rules! examples {
    ($($line:literal)*) => {
        concat!("Examples:", $("\n  ", $line,)*)
    };
}
