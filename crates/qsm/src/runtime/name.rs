//! The name of a node that was given none: `host/program/pid`.

use std::path::Path;
use std::{env, fs, process};

use qsm_wire::membership::About;

/// Longest part of a name, bytes: two of them, the process's number and the place of a core thread fit
/// into a name.
const PART_BYTES_MAX: usize = 22;

/// The name of a node of this process.
pub(crate) fn of_process() -> String {
    let host = host();
    let program = env::args_os().next().unwrap_or_default();
    let program = Path::new(&program).file_name().unwrap_or_default();
    compose(&host, &program.to_string_lossy(), process::id())
}

/// The name of this host, as the kernel knows it; at most so many bytes as a node may say.
pub(crate) fn host() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    cut(&host, About::HOST_BYTES_MAX)
}

/// A version as a node may say it.
pub(crate) fn version(text: &str) -> String {
    cut(text, About::VERSION_BYTES_MAX)
}

/// Without control characters, and not longer.
fn cut(text: &str, max: usize) -> String {
    let mut short = String::new();
    for letter in text.trim().chars().filter(|letter| !letter.is_control()) {
        if short.len() + letter.len_utf8() > max {
            break;
        }
        short.push(letter);
    }
    short
}

fn compose(host: &str, program: &str, process: u32) -> String {
    let host = host.split('.').next().unwrap_or_default();
    format!(
        "{}/{}/{process}",
        part(host, "host"),
        part(program, "program")
    )
}

/// The letters that may stand in a name, as many as fit.
fn part(text: &str, otherwise: &str) -> String {
    let part = cut(&text.replace('/', ""), PART_BYTES_MAX);
    match part.is_empty() {
        true => otherwise.to_owned(),
        false => part,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::settings::{NAME_BYTES_MAX, check_name};
    use crate::shard::CORES_MAX;

    #[test]
    fn a_name_tells_host_program_and_process() {
        assert_eq!(
            compose("desk-7.example\n", "ticker", 12),
            "desk-7/ticker/12"
        );
        assert_eq!(compose("", "a/b\u{7}", 1), "host/ab/1");
        check_name("node", &of_process()).unwrap();
    }

    #[test]
    fn what_a_node_says_of_itself_has_a_limit() {
        assert_eq!(version(" 1.2\n\u{7}-rc"), "1.2-rc");
        assert_eq!(version(&"ä".repeat(99)).len(), About::VERSION_BYTES_MAX);
        assert!(!host().is_empty() && host().len() <= About::HOST_BYTES_MAX);
    }

    #[test]
    fn the_longest_name_has_room_for_the_place_of_a_core_thread() {
        let longest = compose(&"ä".repeat(99), &"x".repeat(99), u32::MAX);
        assert!(format!("{longest}/{CORES_MAX}").len() <= NAME_BYTES_MAX);
    }
}
