//! The package's own tests, by JUnit: `make deps` installs a JDK and JUnit's console for them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use qsm::{Embedded, Node};
use qsm_replica::{Limits, LiveMap, MapBounds, MapState, Replica};

/// JUnit's console with all that it needs, where Debian has it. `QSM_JUNIT` names another one.
const JUNIT: &str = "/usr/share/java/junit-platform-console-standalone.jar";

/// The oldest Java that the package is for.
const RELEASE: u32 = 17;
/// The first that has foreign functions.
const FOREIGN: u32 = 22;

const PATIENCE: Duration = Duration::from_secs(60);
/// Interval in which it is seen that Java has ended.
const LOOK: Duration = Duration::from_millis(100);

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

/// Folder of a JDK that has foreign functions: that of `QSM_JDK` or `JAVA_HOME`, or one beside the others. `None` if there
/// is none.
fn newer_jdk() -> Option<PathBuf> {
    let named = ["QSM_JDK", "JAVA_HOME"].into_iter();
    let named = named.filter_map(std::env::var_os).map(PathBuf::from);
    let beside = std::fs::read_dir("/usr/lib/jvm").into_iter().flatten();
    let beside = beside.filter_map(|entry| Some(entry.ok()?.path()));
    named.chain(beside).find(|jdk| {
        let release = std::fs::read_to_string(jdk.join("release")).unwrap_or_default();
        let version = release.split("JAVA_VERSION=\"").nth(1);
        let major = version.and_then(|version| version.split(['.', '"', '-']).next());
        let major: Option<u32> = major.and_then(|major| major.parse().ok());
        major.is_some_and(|major| major >= FOREIGN) && jdk.join("bin/javac").is_file()
    })
}

/// Compiles sources, with all warnings and with documentation, as errors.
fn compile(compiler: &Path, release: u32, lint: &str, from: &str, to: &Path, with: &Path) {
    std::fs::remove_dir_all(to).ok();
    std::fs::create_dir_all(to).expect("a folder can be made");
    let output = Command::new(compiler)
        .args(["--release", &release.to_string(), "-Werror", lint])
        .args(["-Xdoclint:all/protected", "-encoding", "UTF-8", "-d"])
        .arg(to)
        .arg("-cp")
        .arg(with)
        .args(sources(&root().join("java/src").join(from)))
        .output();
    assert_done(&output.expect("the compiler starts"));
}

/// The package and its tests, as classes.
fn package(folder: &Path, junit: &Path) -> PathBuf {
    let (main, all) = (folder.join("main"), folder.join("classes"));
    compile(
        Path::new("javac"),
        RELEASE,
        "-Xlint:all",
        "main/java",
        &main,
        junit,
    );
    let with = std::env::join_paths([&main, junit]).expect("no colon in a path");
    let with = PathBuf::from(with);
    compile(
        Path::new("javac"),
        RELEASE,
        "-Xlint:all",
        "test/java",
        &all,
        &with,
    );
    done(Command::new("cp").arg("-r").arg(main.join("io")).arg(&all));
    all
}

/// A jar of these classes, with those that are for later versions.
fn jar(jdk: &Path, folder: &Path, classes: &Path) -> PathBuf {
    let (later, jar) = (folder.join("later"), folder.join("qsm.jar"));
    // Functions that may crash the virtual machine are what it is about.
    let lint = "-Xlint:all,-restricted";
    let compiler = jdk.join("bin/javac");
    compile(&compiler, FOREIGN, lint, "main/java22", &later, classes);
    done(
        Command::new(jdk.join("bin/jar"))
            .arg("--create")
            .arg("--file")
            .arg(&jar)
            .arg("-C")
            .arg(classes)
            .args([".", "--release", &FOREIGN.to_string(), "-C"])
            .arg(&later)
            .arg("."),
    );
    jar
}

/// A property of the virtual machine.
fn property(name: &str, value: &Path) -> OsString {
    let mut property = OsString::from(format!("-Dqsm.{name}="));
    property.push(value);
    property
}

/// A virtual machine, and how it is to call the library.
struct Machine<'a> {
    java: &'a Path,
    options: &'a [&'a str],
    way: &'a str,
}

impl Machine<'_> {
    /// Runs all tests, with an engine to attach to.
    fn test(&self, folder: &Path, classes: &Path, junit: &Path) {
        // Both tests run at a time.
        let own = format!("{}-{}", std::process::id(), self.options.len());
        let engine = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("j{own}"));
        let cluster = format!("java-engine-{own}");
        let node = Node::builder()
            .cluster(&*cluster)
            .embedded_service(Embedded::Always)
            .interface("lo")
            .start()
            .expect("a node starts on lo");
        let share = node.share(&engine).expect("the node can be shared");
        let map = shared_map(&node);
        let test = std::env::current_exe().expect("this test runs from a file");
        let library = test.with_file_name("libqsm_java.so");
        let resources = root().join("java/src/test/resources");
        let paths = std::env::join_paths([classes, junit, &resources]).expect("no colon");
        let golden = root().join("../qsm-object/tests/golden.txt");
        let mut tests = Command::new(self.java);
        tests
            // Misuse of the interface to Java is told, and ends the test below.
            .arg("-Xcheck:jni")
            .args(self.options)
            .arg(property("library.path", &library))
            .arg(property("way", Path::new(self.way)))
            .arg(property("cluster", Path::new(&cluster)))
            .arg(property("golden", &golden))
            .arg(property("examples", &root().join("examples")))
            .arg(property("examples.output", folder))
            .arg("-cp")
            .arg(paths)
            .args(["org.junit.platform.console.ConsoleLauncher"])
            .args(["-p", "io.quicksilver.qsm", "--disable-banner"])
            .args(["--details", "tree", "--disable-ansi-colors"])
            .env("QSM_ENGINE", &engine);
        let ended = AtomicBool::new(false);
        let output = thread::scope(|scope| {
            scope.spawn(|| answer(&map, &ended));
            let output = tests.output();
            ended.store(true, Ordering::Relaxed);
            output.expect("Java starts")
        });
        drop(share);
        let said = assert_done(&output);
        assert!(said.contains(" 0 tests skipped"), "{said}");
        assert!(!said.contains(" 0 tests successful"), "{said}");
        for complaint in ["WARNING in native method", "FATAL ERROR"] {
            assert!(!said.contains(complaint), "{said}");
        }
        let entry = |(key, value): (&str, &[u8])| format!("{key} {}", value.escape_ascii());
        let entries: Vec<_> = map.read(|map| map.iter().map(entry).collect());
        let expected = ["both seen", "java from Java", r"rust \x00 from Rust"];
        assert_eq!(entries, expected);
    }
}

/// The map that `LiveMapTest` has, too.
fn shared_map(node: &Node) -> LiveMap {
    let state = MapState::new(MapBounds::default());
    let map = Replica::join(node, "shared", state, Limits::default()).expect("joined");
    map.wait_live(PATIENCE).expect("the first is live");
    map.set("rust", b"\0 from Rust").expect("written");
    map
}

/// Says that what Java has written is here.
fn answer(map: &LiveMap, ended: &AtomicBool) {
    let written = |map: &MapState| map.get("java").map(|_| ());
    while !ended.load(Ordering::Relaxed) {
        if map.wait_for(LOOK, written) == Ok(Some(())) {
            return map.set("both", b"seen").expect("written");
        }
    }
}

fn done(command: &mut Command) {
    assert_done(&command.output().expect("it starts"));
}

#[test]
fn the_package_keeps_its_promises() {
    let Some(junit) = junit() else {
        lab::skip("no JDK with JUnit's console: `make deps` installs them");
        return;
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("java");
    let classes = package(&folder, &junit);
    let java = Machine {
        java: Path::new("java"),
        options: &[],
        way: "JNI",
    };
    java.test(&folder, &classes, &junit);
}

#[test]
fn the_package_keeps_them_by_foreign_functions_too() {
    let (Some(junit), Some(jdk)) = (junit(), newer_jdk()) else {
        // Debian 12 has none to install.
        lab::pass_over("no JDK of Java 22 or later in /usr/lib/jvm or QSM_JDK");
        return;
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("java-foreign");
    let jar = jar(&jdk, &folder, &package(&folder, &junit));
    let java = jdk.join("bin/java");
    let native = "--enable-native-access=ALL-UNNAMED";
    let later = Machine {
        java: &java,
        options: &[native],
        way: "foreign functions",
    };
    later.test(&folder, &jar, &junit);
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
