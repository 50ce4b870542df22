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

/// The bytes that these hexadecimal digits stand for, between which there may be blanks.
pub fn bytes_of(digits: &str) -> Vec<u8> {
    let digits: Vec<u32> = digits
        .chars()
        .filter_map(|digit| digit.to_digit(16))
        .collect();
    let pairs = digits.chunks_exact(2);
    pairs
        .map(|pair| u8::try_from(pair[0] * 16 + pair[1]).expect("two digits"))
        .collect()
}
