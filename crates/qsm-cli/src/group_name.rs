//! Names of groups on a command line.

use qsm::GROUP_NAME_BYTES_MAX;
use qsm_console::failure::Failure;

/// The name, if a group can be called so.
///
/// # Errors
/// It is empty, too long, or has control characters.
pub(crate) fn check_name(name: &str) -> Result<&str, Failure> {
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
    Ok(name)
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
}
