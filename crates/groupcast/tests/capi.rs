//! The C example, compiled against the header and linked with the static and the shared library.

use std::path::Path;
use std::process::Command;

fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {complaint}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_c_example_runs_with_both_libraries() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("capi");
    for kind in ["staticlib", "cdylib"] {
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args([
                "rustc",
                "--locked",
                "--offline",
                "--lib",
                "--crate-type",
                kind,
            ])
            .current_dir(root)
            .env("CARGO_TARGET_DIR", &target);
        run(&mut cargo);
    }
    let built = target.join("debug");
    for library in ["libgroupcast.a", "libgroupcast.so"] {
        let program = target.join(library.replace('.', "-"));
        let mut cc = Command::new("cc");
        cc.args(["-Wall", "-Wextra", "-Werror", "-I"])
            .arg(root.join("include"))
            .arg(root.join("examples/c/fanout.c"))
            .arg(built.join(library))
            .args(["-lpthread", "-ldl", "-lm", "-lgcc_s", "-o"])
            .arg(&program);
        run(&mut cc);
        let said = run(Command::new(&program).env("LD_LIBRARY_PATH", &built));
        assert!(
            said.contains("sent to 16 of 17, the last: Invalid argument"),
            "{said}"
        );
        assert!(said.contains("every client got its line"), "{said}");
    }
}
