//! Tests that are skipped are seen, and fail where they have to run.

use std::process::{Command, Output};
use std::{env, fs};

/// Runs in a process of its own: it skips itself on every machine.
#[test]
#[ignore = "run by the other tests of this file"]
fn a_test_that_cannot_run() {
    lab::skip("no root here");
}

/// The same for what only the kernel lacks.
#[test]
#[ignore = "run by the other tests of this file"]
fn a_test_that_this_kernel_cannot_run() {
    lab::pass_over("no such devices");
}

fn run(test: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .env_remove("QSM_REQUIRE_LAB")
        .env_remove("QSM_SKIPPED");
    command.envs(variables.iter().copied());
    command
        .args(["--ignored", "--exact", test])
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8([&output.stdout[..], &output.stderr].concat()).unwrap()
}

#[test]
fn a_skipped_test_passes_and_is_named() {
    let file = env::temp_dir().join(format!("qsm-skipped-{}", std::process::id()));
    let path = file.to_str().unwrap();
    for variables in [
        &[("QSM_SKIPPED", path)][..],
        &[("QSM_SKIPPED", path), ("QSM_REQUIRE_LAB", "0")],
    ] {
        let output = run("a_test_that_cannot_run", variables);
        assert!(output.status.success(), "{}", said(&output));
        let line = "SKIPPED a_test_that_cannot_run: no root here\n";
        assert!(said(&output).contains(line), "{}", said(&output));
        assert_eq!(fs::read_to_string(&file).unwrap(), line);
        fs::remove_file(&file).unwrap();
    }
}

#[test]
fn a_test_that_has_to_run_fails_instead() {
    let output = run("a_test_that_cannot_run", &[("QSM_REQUIRE_LAB", "1")]);
    assert!(!output.status.success());
    let told = "QSM_REQUIRE_LAB is set, and this test cannot run: no root here";
    assert!(said(&output).contains(told), "{}", said(&output));
}

#[test]
fn what_the_kernel_lacks_is_named_and_no_failure() {
    let test = "a_test_that_this_kernel_cannot_run";
    let output = run(test, &[("QSM_REQUIRE_LAB", "1")]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("SKIPPED"), "{}", said(&output));
}
