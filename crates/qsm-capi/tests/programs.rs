//! The examples, compiled against the header and linked with the static and the shared library.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where Cargo has built the libraries: beside the folder of this test.
fn built() -> PathBuf {
    let test = std::env::current_exe().expect("this test runs from a file");
    let deps = test.parent().expect("a file lies in a folder");
    deps.to_owned()
}

fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {complaint}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A folder with the library under the name that programs ask for.
fn library(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    for (built_as, asked_as) in [
        ("libqsm_capi.so", "libqsm.so.2"),
        ("libqsm_capi.a", "libqsm.a"),
    ] {
        let link = folder.join(asked_as);
        std::fs::remove_file(&link).ok();
        std::os::unix::fs::symlink(built().join(built_as), &link).expect("a link can be made");
    }
    folder
}

/// Compiles an example and runs it; what it printed.
fn example(compiler: &[&str], source: &str, linked: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let name = format!("{source}-{linked}");
    let folder = library(&name);
    let program = folder.join("program");
    let mut command = Command::new(compiler[0]);
    command
        .args(&compiler[1..])
        .args(["-Wall", "-Wextra", "-Werror", "-I"])
        .arg(root.join("include"))
        .arg(root.join("examples/c").join(source))
        .arg(folder.join(linked))
        .args(["-lpthread", "-ldl", "-lm", "-lgcc_s", "-o"])
        .arg(&program);
    run(&mut command);
    let cluster = format!("capi-{name}-{}", std::process::id());
    run(Command::new(&program)
        .arg(cluster)
        .env("LD_LIBRARY_PATH", &folder))
}

#[test]
fn the_example_in_c_runs_with_both_libraries() {
    for linked in ["libqsm.a", "libqsm.so.2"] {
        let said = example(&["cc", "-std=c11"], "news.c", linked);
        assert!(said.contains("news/world #3: story 3"), "{said}");
        assert!(
            said.ends_with("3 messages; receivers without everything: 0\n"),
            "{said}"
        );
    }
}

#[test]
fn the_example_of_a_late_subscriber_runs() {
    let said = example(&["cc", "-std=c11"], "late.c", "libqsm.so.2");
    let past = "#4: story 4\n#5: story 5\n2 kept, 0 missing; now live\n";
    assert!(said.starts_with(past), "{said}");
    assert!(said.ends_with(" 5 news\n"), "{said}");
}

#[test]
fn the_example_of_a_live_map_runs() {
    let said = example(&["cc", "-std=c11"], "map.c", "libqsm.so.2");
    assert_eq!(said, "eur 1.0842\neur 1.0851\neur is gone\n0 left\n");
}

#[test]
fn the_example_in_cpp_runs() {
    let said = example(&["c++", "-std=c++17"], "quotes.cpp", "libqsm.so.2");
    assert_eq!(said, "EUR 1.0842\nCHF 1.1305\n");
}
