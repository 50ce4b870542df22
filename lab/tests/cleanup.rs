//! Nothing of a lab is left behind, however it ends.

mod support;

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use lab::{Lab, Output};
use support::lab_with;

/// Everything on this machine that carries the prefix.
fn remains(prefix: &str) -> Vec<PathBuf> {
    let of = |name: &str| name == prefix || name.starts_with(&format!("{prefix}-"));
    let temporary = env::temp_dir();
    [
        Path::new("/run/netns"),
        Path::new("/run/qsm-lab"),
        &temporary,
    ]
    .into_iter()
    .filter_map(|folder| fs::read_dir(folder).ok())
    .flatten()
    .filter_map(Result::ok)
    .filter(|item| item.file_name().to_str().is_some_and(of))
    .map(|item| item.path())
    .collect()
}

/// Whether a process with this id runs; a zombie does not.
fn runs(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit(") ")
        .next()
        .and_then(|rest| rest.chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}

fn sleeper() -> Command {
    let mut command = Command::new("sleep");
    command.arg("1000");
    command
}

#[test]
fn dropping_a_lab_removes_everything() {
    let Some((mut lab, hosts)) = lab_with(2) else {
        return;
    };
    let prefix = lab.prefix().to_owned();
    let process = lab.spawn(hosts[0], sleeper(), Output::Files).unwrap();
    // The switch, two hosts, the entry, the folder for output.
    assert_eq!(remains(&prefix).len(), 5, "{:?}", remains(&prefix));
    assert!(runs(process.pid()));
    drop(lab);
    assert_eq!(remains(&prefix), Vec::<PathBuf>::new());
    assert!(!runs(process.pid()));
}

#[test]
fn a_panic_removes_everything() {
    let mut left = None;
    let result = panic::catch_unwind(AssertUnwindSafe(|| {
        let Some((mut lab, hosts)) = lab_with(2) else {
            return;
        };
        let process = lab.spawn(hosts[1], sleeper(), Output::Files).unwrap();
        let _inside = lab.enter(hosts[0]).unwrap();
        left = Some((lab.prefix().to_owned(), process.pid()));
        panic!("on purpose");
    }));
    let Some((prefix, pid)) = left else {
        return result.unwrap();
    };
    result.unwrap_err();
    assert_eq!(remains(&prefix), Vec::<PathBuf>::new());
    assert!(!runs(pid));
}

#[test]
fn grandchildren_end_with_the_lab() {
    let Some((mut lab, hosts)) = lab_with(1) else {
        return;
    };
    let mut command = Command::new("sh");
    command.args(["-c", "sleep 1000 </dev/null >/dev/null 2>&1 & echo $!"]);
    let mut shell = lab.spawn(hosts[0], command, Output::Files).unwrap();
    assert!(shell.wait().unwrap().success());
    let pid = shell.stdout_text().unwrap().trim().parse().unwrap();
    assert!(runs(pid));
    drop(lab);
    assert!(!runs(pid));
}

/// Set for the helper process.
const HELPER: &str = "LAB_TEST_HELPER";

/// Not a test: the process that the next test kills. It makes a lab, says so, and waits to be
/// killed.
#[test]
#[ignore = "helper process of a_lab_of_a_killed_process_is_reaped"]
fn a_process_that_is_about_to_be_killed() {
    if env::var_os(HELPER).is_none() {
        return lab::pass_over(format_args!("{HELPER} is not set"));
    }
    let Some((mut lab, hosts)) = lab_with(1) else {
        return;
    };
    let process = lab.spawn(hosts[0], sleeper(), Output::Files).unwrap();
    println!("\nLAB {} {}", lab.prefix(), process.pid());
    // The end of standard input means that the test has given up.
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

/// Kills the helper also when an assertion fails.
struct Helper(Child);

impl Helper {
    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.kill();
    }
}

#[test]
fn a_lab_of_a_killed_process_is_reaped() {
    if !lab::ready() {
        return;
    }
    let mut command = Command::new(env::current_exe().unwrap());
    command.env(HELPER, "1");
    command.args([
        "--ignored",
        "--exact",
        "a_process_that_is_about_to_be_killed",
        "--nocapture",
    ]);
    let child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut helper = Helper(child);
    let output = BufReader::new(helper.0.stdout.take().unwrap());
    let told = output
        .lines()
        .map(Result::unwrap)
        .find(|line| line.starts_with("LAB "))
        .unwrap();
    let words: Vec<&str> = told.split(' ').collect();
    let (prefix, pid) = (words[1], words[2].parse().unwrap());

    let reaped = Lab::reap_stale().unwrap();
    assert!(!reaped.contains(&prefix.to_owned()), "its creator lives");
    assert_eq!(remains(prefix).len(), 4, "{:?}", remains(prefix));
    assert!(runs(pid));

    helper.kill();
    // Another test's new lab may have reaped it already; what counts is that it is gone.
    Lab::reap_stale().unwrap();
    assert_eq!(remains(prefix), Vec::<PathBuf>::new());
    assert!(!runs(pid));
}
