//! The examples run, end by themselves, and say what they should.

use std::process::Command;

/// Output of an example.
#[track_caller]
fn output(example: &str) -> String {
    let test = std::env::current_exe().unwrap();
    let profile = test.ancestors().nth(2).unwrap();
    let output = Command::new(profile.join("examples").join(example))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn late() {
    let expected = "missing 2..=2\n\
                    kept 3: 1.10\nkept 4: 1.11\nkept 5: 1.12\nkept 6: 1.13\n\
                    live with 1 missing\n\
                    live 7: 1.14\n\
                    kept 8: 1.15\n\
                    live with 0 missing\n";
    assert_eq!(output("late"), expected);
}

#[test]
fn media() {
    let text = output("media");
    let numbers = |line: &str| -> Vec<u64> {
        let words = line.split(|letter: char| !letter.is_ascii_digit());
        words.filter_map(|word| word.parse().ok()).collect()
    };
    let [van, hall] = text.lines().collect::<Vec<_>>()[..] else {
        panic!("{text}");
    };
    // Each frame is drawn, useless or given up.
    let of_van = numbers(van);
    assert_eq!(
        (of_van.len(), of_van.iter().sum::<u64>()),
        (3, 151),
        "{text}"
    );
    assert!(of_van[2] > 0, "{text}");
    assert!(hall.ends_with("right: true"), "{text}");
    // It began with a key frame of the past, one in thirty; the last one is one, too.
    let drawn = numbers(hall)[0];
    assert!(drawn < 151 && drawn % 30 == 1, "{text}");
    let source = include_str!("../examples/media.rs");
    assert!(source.lines().count() <= 150);
}
