//! The name of a node that was given none: `host/program/pid`.

use std::path::Path;
use std::{env, fs, process};

/// Longest part of a name, bytes: two of them, the process's number and the place of a core thread fit
/// into a name.
const PART_BYTES_MAX: usize = 22;

/// The name of a node of this process.
pub(crate) fn of_process() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let program = env::args_os().next().unwrap_or_default();
    let program = Path::new(&program).file_name().unwrap_or_default();
    compose(&host, &program.to_string_lossy(), process::id())
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
    let mut part = String::new();
    let good = |letter: &char| !letter.is_control() && *letter != '/';
    for letter in text.trim().chars().filter(good) {
        if part.len() + letter.len_utf8() > PART_BYTES_MAX {
            break;
        }
        part.push(letter);
    }
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
    fn the_longest_name_has_room_for_the_place_of_a_core_thread() {
        let longest = compose(&"ä".repeat(99), &"x".repeat(99), u32::MAX);
        assert!(format!("{longest}/{CORES_MAX}").len() <= NAME_BYTES_MAX);
    }
}
