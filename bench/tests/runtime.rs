//! A short case of `make figures-runtime`: real receivers in each language, and the page that comes of it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn done(command: &mut Command) -> Output {
    let output = command.output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    output
}

/// Tells whether Java can be compiled, and Python loads extensions for 3.11.
fn has_runtimes(python: &str) -> bool {
    let runs = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
    let version = "import sys; sys.exit(sys.version_info < (3, 11))";
    runs(Command::new("javac").arg("-version")) && runs(Command::new(python).args(["-c", version]))
}

#[test]
fn receivers_of_each_runtime_are_measured_over_groups_and_rate() {
    let python = std::env::var("QSM_PYTHON").unwrap_or_else(|_| "python3".into());
    if !has_runtimes(&python) {
        lab::skip("no JDK, or no Python from 3.11 on: `make deps` installs them");
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("runtime");
    let (built, page) = (folder.join("built"), folder.join("page"));
    let test = std::env::current_exe().expect("this test runs from a file");
    let libraries = test.parent().expect("a file lies in a folder");
    let build = root().join("peers/bindings/build.sh");
    let build = done(
        Command::new(build)
            .args([libraries, &built])
            .args(["java", "python"]),
    );
    drop(build);
    let short = "runtime --rounds 1 --millis 600 --busy --groups 1,50 --rates 2000";
    done(
        Command::new(env!("CARGO_BIN_EXE_qsm-bench"))
            .args(short.split(' '))
            .arg("--from")
            .arg(&built)
            .args(["--python", &python])
            .arg("--output")
            .arg(&page),
    );
    let runs = fs::read_to_string(page.join("runtime.csv")).expect("a table");
    let rows: Vec<Vec<&str>> = runs.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 1 + 3 * 3, "{runs}");
    for row in &rows[1..] {
        let number = |at: usize| row[at].parse::<f64>().expect("a number");
        let [rate, memory, most, gap] = [5, 7, 8, 9].map(number);
        // How much of the rate it gets says nothing on a busy machine.
        assert!(rate > 0.0, "{row:?}");
        assert!(1.0 < memory && memory <= most, "{row:?}");
        assert!(0.0 < gap && gap < 600_000.0, "{row:?}");
    }
    let text = fs::read_to_string(page.join("README.md")).expect("a page");
    for told in [
        "| 50 | java |",
        "| 2000 | python-batches |",
        "did other work meanwhile",
    ] {
        assert!(text.contains(told), "{told}: {text}");
    }
    for picture in [
        "memory-groups.svg",
        "gaps-groups.svg",
        "memory-rate.svg",
        "gaps-rate.svg",
    ] {
        assert!(text.contains(&format!("]({picture})")), "{picture}");
        assert!(page.join(picture).is_file(), "{picture}");
    }
}
