//! The example runs, ends by itself, and says what it should.

use std::process::Command;

#[test]
fn late() {
    let test = std::env::current_exe().unwrap();
    let profile = test.ancestors().nth(2).unwrap();
    let output = Command::new(profile.join("examples").join("late"))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    let text = String::from_utf8(output.stdout).unwrap();
    let expected = "missing 2..=2\n\
                    kept 3: 1.10\nkept 4: 1.11\nkept 5: 1.12\nkept 6: 1.13\n\
                    live with 1 missing\n\
                    live 7: 1.14\n\
                    kept 8: 1.15\n\
                    live with 0 missing\n";
    assert_eq!(text, expected, "{told}");
}
