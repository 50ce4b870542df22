//! The package's own tests, by pytest: `make deps` makes the environment that they run in.

use std::path::{Path, PathBuf};
use std::process::Command;

use qsm::{Embedded, Node};

/// The interpreter that has pytest and numpy; `None` if there is none.
fn interpreter() -> Option<PathBuf> {
    let named = std::env::var_os("QSM_PYTHON").map(PathBuf::from);
    let python = named.unwrap_or_else(|| "python3".into());
    let imports = Command::new(&python)
        .args(["-c", "import pytest, numpy"])
        .output();
    let has = imports.is_ok_and(|output| output.status.success());
    has.then_some(python)
}

/// The package with its native part, as a wheel would have it.
fn package() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let site = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python");
    let package = site.join("qsm");
    std::fs::create_dir_all(&package).expect("a folder can be made");
    for entry in std::fs::read_dir(root.join("python/qsm")).expect("the package is there") {
        let file = entry.expect("a file").path();
        if let Some(name) = file.file_name().filter(|_| file.is_file()) {
            std::fs::copy(&file, package.join(name)).expect("a file can be copied");
        }
    }
    let test = std::env::current_exe().expect("this test runs from a file");
    let native = test.with_file_name("libqsm_python.so");
    let placed = package.join("_native.abi3.so");
    // Another run of this test may have it loaded.
    std::fs::remove_file(&placed).ok();
    std::fs::copy(native, placed).expect("Cargo has built the native part");
    site
}

#[test]
fn the_package_keeps_its_promises() {
    let Some(python) = interpreter() else {
        lab::skip("no Python with pytest and numpy: `make deps` makes one");
        return;
    };
    let engine = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("e{}", std::process::id()));
    let node = Node::builder()
        .cluster(format!("python-engine-{}", std::process::id()))
        .embedded_service(Embedded::Always)
        .interface("lo")
        .start()
        .expect("a node starts on lo");
    let share = node.share(&engine).expect("the node can be shared");
    let output = Command::new(python)
        .args([
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "tests/package",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("PYTHONPATH", package())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("QSM_ENGINE", &engine)
        .output()
        .expect("Python starts");
    drop(share);
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{complaint}");
    assert!(!said.contains("skipped"), "{said}");
}
