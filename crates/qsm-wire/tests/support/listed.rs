//! The golden packets and messages in a file, so that other readers of the formats can be tested by
//! them too.

/// Lines of a word and hexadecimal digits: `packet`, `to-service` or `from-service`.
const LIST: &str = include_str!("../golden.txt");

/// Fails unless the list has these bytes.
#[track_caller]
pub fn assert_listed(what: &str, bytes: &[u8]) {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let line = format!("{what} {digits}");
    assert!(
        LIST.lines().any(|listed| listed == line),
        "add to crates/qsm-wire/tests/golden.txt:\n{line}"
    );
}

/// All bytes of this kind in the list.
pub fn listed(what: &str) -> Vec<Vec<u8>> {
    let lines = LIST.lines().filter_map(|line| line.split_once(' '));
    lines
        .filter(|(word, _)| *word == what)
        .map(|(_, digits)| bytes_of(digits))
        .collect()
}

fn bytes_of(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks_exact(2);
    pairs
        .map(|pair| str::from_utf8(pair).expect("digits"))
        .map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal digits"))
        .collect()
}
