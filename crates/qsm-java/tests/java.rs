//! The package's own tests, by JUnit: `make deps` installs a JDK and JUnit's console for them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use qsm::{Embedded, Node};

/// JUnit's console with all that it needs, where Debian has it. `QSM_JUNIT` names another one.
const JUNIT: &str = "/usr/share/java/junit-platform-console-standalone.jar";

/// The oldest Java that the package is for.
const RELEASE: &str = "17";

/// JUnit's console; `None` if it or a compiler is missing.
fn junit() -> Option<PathBuf> {
    let jar = PathBuf::from(std::env::var_os("QSM_JUNIT").unwrap_or_else(|| JUNIT.into()));
    let compiler = Command::new("javac").arg("-version").output();
    let has = jar.is_file() && compiler.is_ok_and(|output| output.status.success());
    has.then_some(jar)
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All sources below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the sources are there") {
        let path = entry.expect("a file").path();
        match path.is_dir() {
            true => found.extend(sources(&path)),
            false => found.push(path),
        }
    }
    found.retain(|path| path.extension().is_some_and(|end| end == "java"));
    found
}

fn assert_done(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{complaint}");
    said
}

/// Compiles the package and its tests, with all warnings and with documentation, as errors.
fn compile(to: &Path, junit: &Path) {
    std::fs::remove_dir_all(to).ok();
    std::fs::create_dir_all(to).expect("a folder can be made");
    let output = Command::new("javac")
        .args(["--release", RELEASE, "-Werror", "-Xlint:all"])
        .args(["-Xdoclint:all/protected", "-encoding", "UTF-8", "-d"])
        .arg(to)
        .arg("-cp")
        .arg(junit)
        .args(sources(&root().join("java/src")))
        .output();
    assert_done(&output.expect("the compiler starts"));
}

/// A property of the virtual machine.
fn property(name: &str, value: &Path) -> OsString {
    let mut property = OsString::from(format!("-Dqsm.{name}="));
    property.push(value);
    property
}

#[test]
fn the_package_keeps_its_promises() {
    let Some(junit) = junit() else {
        lab::skip("no JDK with JUnit's console: `make deps` installs them");
        return;
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("java");
    let classes = folder.join("classes");
    compile(&classes, &junit);
    let engine = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("j{}", std::process::id()));
    let node = Node::builder()
        .cluster(format!("java-engine-{}", std::process::id()))
        .embedded_service(Embedded::Always)
        .interface("lo")
        .start()
        .expect("a node starts on lo");
    let share = node.share(&engine).expect("the node can be shared");
    let test = std::env::current_exe().expect("this test runs from a file");
    let resources = root().join("java/src/test/resources");
    let paths = std::env::join_paths([&classes, &junit, &resources]).expect("no colon in a path");
    let output = Command::new("java")
        // Misuse of the interface to Java is told, and ends the test below.
        .arg("-Xcheck:jni")
        .arg(property(
            "library.path",
            &test.with_file_name("libqsm_java.so"),
        ))
        .arg(property(
            "golden",
            &root().join("../qsm-object/tests/golden.txt"),
        ))
        .arg(property("examples", &root().join("examples")))
        .arg(property("examples.output", &folder))
        .arg("-cp")
        .arg(paths)
        .args(["org.junit.platform.console.ConsoleLauncher"])
        .args(["-p", "io.quicksilver.qsm", "--disable-banner"])
        .args(["--details", "tree", "--disable-ansi-colors"])
        .env("QSM_ENGINE", &engine)
        .output()
        .expect("Java starts");
    drop(share);
    let said = assert_done(&output);
    assert!(said.contains(" 0 tests skipped"), "{said}");
    assert!(!said.contains(" 0 tests successful"), "{said}");
    for complaint in ["WARNING in native method", "FATAL ERROR"] {
        assert!(!said.contains(complaint), "{said}");
    }
}

#[test]
fn the_jar_has_the_version_of_the_library() {
    let build = std::fs::read_to_string(root().join("java/pom.xml")).expect("it is there");
    let ours = format!(
        "<artifactId>qsm</artifactId>\n  <version>{}</version>",
        env!("CARGO_PKG_VERSION")
    );
    assert!(
        build.contains(&ours),
        "java/pom.xml has another version than {ours}"
    );
}
