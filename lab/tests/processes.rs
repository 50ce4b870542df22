//! Processes run on their host, can be frozen, thawed, ended and killed, and their output is kept.

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use lab::{LabError, Output};
use support::lab_with;

/// The state letter of a process, as in `man 5 proc_pid_stat`.
fn state(pid: u32) -> char {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after_name = stat.rsplit(") ").next().unwrap();
    after_name.chars().next().unwrap()
}

#[test]
fn a_command_runs_on_its_host() {
    let Some((lab, hosts)) = lab_with(2) else {
        return;
    };
    for host in hosts {
        let shown = lab
            .command(host, "ip")
            .args(["-o", "-4", "addr"])
            .output()
            .unwrap();
        let shown = String::from_utf8(shown.stdout).unwrap();
        let address = lab.host(host).address();
        assert!(shown.contains(&format!("{address}/16")), "{shown}");
        assert!(shown.contains("127.0.0.1/8"), "loopback is up: {shown}");
        assert_eq!(shown.lines().count(), 2, "{shown}");
    }
}

#[test]
fn output_goes_to_files() {
    let Some((mut lab, hosts)) = lab_with(1) else {
        return;
    };
    let mut command = Command::new("sh");
    command.args(["-c", "echo said; echo complained >&2; exit 7"]);
    let mut process = lab.spawn(hosts[0], command, Output::Files).unwrap();
    assert_eq!(process.wait().unwrap().code(), Some(7));
    assert_eq!(process.stdout_text().unwrap(), "said\n");
    assert_eq!(process.stderr_text().unwrap(), "complained\n");
    let path = process.stdout_path().unwrap().to_owned();
    assert!(path.exists());
    drop(lab);
    assert!(!path.exists(), "the lab's files go with it");
}

#[test]
fn a_frozen_process_stands_still_until_thawed() {
    let Some((mut lab, hosts)) = lab_with(1) else {
        return;
    };
    let mut command = lab.command(hosts[0], "cat");
    command.stdin(Stdio::piped());
    let mut echo = lab.spawn(hosts[0], command, Output::Piped).unwrap();
    let mut input = echo.take_stdin().unwrap();
    let mut output = BufReader::new(echo.take_stdout().unwrap());
    for round in 0..3 {
        echo.freeze().unwrap();
        assert_eq!(state(echo.pid()), 'T', "round {round}");
        echo.freeze().unwrap();
        writeln!(input, "line {round}").unwrap();
        assert_eq!(state(echo.pid()), 'T', "input does not wake it");
        echo.thaw().unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, format!("line {round}\n"));
    }
    drop(input);
    assert!(echo.wait().unwrap().success());
}

#[test]
fn kill_ends_even_a_frozen_process() {
    let Some((mut lab, hosts)) = lab_with(1) else {
        return;
    };
    let mut command = Command::new("sleep");
    command.arg("1000");
    let mut sleeper = lab.spawn(hosts[0], command, Output::Inherited).unwrap();
    assert_eq!(sleeper.try_wait().unwrap(), None);
    assert_eq!(sleeper.wait_at_most(Duration::ZERO).unwrap(), None);
    sleeper.freeze().unwrap();
    let status = sleeper.kill().unwrap();
    assert_eq!(status.signal(), Some(libc::SIGKILL));
    assert_eq!(
        sleeper.kill().unwrap(),
        status,
        "killing twice does no harm"
    );
    let error = sleeper.thaw().unwrap_err();
    assert!(
        matches!(error, LabError::ProcessEnded { pid, .. } if pid == sleeper.pid()),
        "{error}"
    );
}

#[test]
fn terminate_asks_politely() {
    let Some((mut lab, hosts)) = lab_with(1) else {
        return;
    };
    let mut command = Command::new("sh");
    // The shell says when its handler is in place.
    command.args([
        "-c",
        "trap 'exit 3' TERM; echo ready; while :; do sleep 0.01; done",
    ]);
    let mut shell = lab.spawn(hosts[0], command, Output::Piped).unwrap();
    let mut line = String::new();
    BufReader::new(shell.take_stdout().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "ready\n");
    shell.terminate().unwrap();
    assert_eq!(shell.wait().unwrap().code(), Some(3));
}

#[test]
fn a_missing_program_is_reported() {
    let Some((mut lab, hosts)) = lab_with(1) else {
        return;
    };
    let error = lab
        .spawn(hosts[0], Command::new("no-such-program"), Output::Files)
        .unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("cannot start no-such-program: "),
        "{error}"
    );
}
