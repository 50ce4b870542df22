//! Names of groups, and patterns of them, on a command line.

use qsm::{GROUP_NAME_BYTES_MAX, Pattern, RequestError};
use qsm_console::failure::Failure;

/// Checks the name of a group to publish to.
///
/// # Errors
/// No group can be called so: it is empty, too long, or has control characters or stars.
pub(crate) fn check_name(name: &str) -> Result<(), Failure> {
    match check_pattern(name)?.is_name() {
        true => Ok(()),
        false => Err(Failure::usage(
            format!("{name:?} stands for all groups so named, and messages go to groups by name"),
            "name each group; patterns are for `qsm sub`",
        )),
    }
}

/// Checks a name, or a pattern of names, of groups to receive.
///
/// # Errors
/// It is empty, too long, or has control characters, or stars beside others in a segment.
pub(crate) fn check_pattern(name: &str) -> Result<Pattern, Failure> {
    let length = name.len();
    if length == 0 {
        return Err(Failure::usage(
            "a group's name is empty",
            "give each group a name",
        ));
    }
    if length > GROUP_NAME_BYTES_MAX {
        let start: String = name.chars().take(24).collect();
        return Err(Failure::usage(
            format!("the group name {start:?}… has {length} bytes"),
            format!("use at most {GROUP_NAME_BYTES_MAX} bytes"),
        ));
    }
    if name.chars().any(char::is_control) {
        return Err(Failure::usage(
            format!("the group name {name:?} has control characters"),
            "use printable characters",
        ));
    }
    Ok(name.parse::<Pattern>().map_err(RequestError::from)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use qsm_console::failure::Code;

    #[test]
    fn names_that_no_group_can_have_are_refused() {
        for name in ["", "a\nb", "a\u{7f}", &"x".repeat(256)] {
            let failure = check_name(name).unwrap_err();
            assert_eq!(failure.code, Code::Usage, "{name:?}");
            assert!(!failure.remedy.is_empty());
        }
        assert!(check_name(&"x".repeat(255)).is_ok());
    }

    #[test]
    fn patterns_are_for_receiving_and_those_that_never_match_for_nothing() {
        for pattern in ["*", "a/*", "a/**/b", "**"] {
            assert!(check_pattern(pattern).is_ok(), "{pattern}");
            let failure = check_name(pattern).unwrap_err();
            assert_eq!(failure.code, Code::Usage);
            assert!(failure.remedy.contains("name each group"), "{failure}");
        }
        for wrong in ["a*", "a/b*/c", "***"] {
            for refused in [check_name(wrong).map(drop), check_pattern(wrong).map(drop)] {
                let failure = refused.unwrap_err();
                assert_eq!(failure.code, Code::Usage);
                assert!(failure.cause.contains("no group can match"), "{failure}");
                assert!(failure.remedy.contains("`**`"), "{failure}");
            }
        }
    }
}
