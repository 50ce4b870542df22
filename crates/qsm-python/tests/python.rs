//! The package's own tests, by pytest: `make deps` makes the environment that they run in.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use qsm::{Embedded, Node};
use qsm_replica::{Limits, LiveMap, MapBounds, MapState, Replica};

const PATIENCE: Duration = Duration::from_secs(60);
/// Interval in which it is seen that Python has ended.
const LOOK: Duration = Duration::from_millis(100);

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
    let cluster = format!("python-engine-{}", std::process::id());
    let node = Node::builder()
        .cluster(&*cluster)
        .embedded_service(Embedded::Always)
        .interface("lo")
        .start()
        .expect("a node starts on lo");
    let share = node.share(&engine).expect("the node can be shared");
    let map = shared_map(&node);
    let mut pytest = Command::new(python);
    pytest
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
        .env("QSM_CLUSTER", &cluster);
    let ended = AtomicBool::new(false);
    let output = std::thread::scope(|scope| {
        scope.spawn(|| answer(&map, &ended));
        let output = pytest.output();
        ended.store(true, Ordering::Relaxed);
        output.expect("Python starts")
    });
    drop(share);
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{complaint}");
    assert!(!said.contains("skipped"), "{said}");
    let entries = map.read(|map| {
        map.iter()
            .map(|(key, value)| format!("{key} {}", value.escape_ascii()))
            .collect::<Vec<_>>()
    });
    assert_eq!(
        entries,
        ["both seen", "python from Python", r"rust \x00 from Rust"]
    );
}

/// The map that `test_map.py` has, too.
fn shared_map(node: &Node) -> LiveMap {
    let state = MapState::new(MapBounds::default());
    let map = Replica::join(node, "shared", state, Limits::default()).expect("joined");
    map.wait_live(PATIENCE).expect("the first is live");
    map.set("rust", b"\0 from Rust").expect("written");
    map
}

/// Says that what Python has written is here.
fn answer(map: &LiveMap, ended: &AtomicBool) {
    let written = |map: &MapState| map.get("python").map(|_| ());
    while !ended.load(Ordering::Relaxed) {
        if map.wait_for(LOOK, written) == Ok(Some(())) {
            return map.set("both", b"seen").expect("written");
        }
    }
}
