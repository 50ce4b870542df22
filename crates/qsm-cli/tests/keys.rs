//! Keys of clusters, as files and as options: who has the key is in, and who has not is told.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::Value;
use support::{Cluster, Lines, Running, assert_code, qsm, stderr};

fn keygen(file: &Path, more: &[&str]) -> Output {
    let mut command = qsm();
    command.arg("keygen").arg(file).args(more);
    command.output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A cluster, its service that has a key, and the file of it.
fn protected() -> (Cluster, Running, String) {
    let cluster = Cluster::without_service();
    let file = cluster.folder.join("cluster.key");
    assert_code(&keygen(&file, &[]), 0);
    let file = file.display().to_string();
    let options = ["--key", &file];
    let (service, _) = cluster.start_gms(&options, Stdio::inherit());
    (cluster, service, file)
}

#[test]
fn a_new_key_is_for_its_owner_alone_and_never_overwrites_another() {
    let cluster = Cluster::without_service();
    let file = cluster.folder.join("a.key");
    let made = keygen(&file, &["--cipher", "chacha20-poly1305", "--json"]);
    assert_code(&made, 0);
    let said: Value = serde_json::from_str(&stdout(&made)).unwrap();
    assert_eq!(said["cipher"], "chacha20-poly1305");
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = fs::read_to_string(&file).unwrap();
    let secret = text.split_whitespace().last().unwrap();
    assert!(secret.len() == 64 && !stdout(&made).contains(&secret[..8]));

    let again = keygen(&file, &[]);
    assert_code(&again, 1);
    assert!(
        stderr(&again).contains("must not be overwritten"),
        "{}",
        stderr(&again)
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    let unknown = keygen(&cluster.folder.join("b.key"), &["--cipher", "rot13"]);
    assert_code(&unknown, 2);
}

#[test]
fn a_key_that_others_may_read_or_that_is_none_is_refused_with_the_remedy() {
    let cluster = Cluster::without_service();
    let file = cluster.folder.join("a.key");
    assert_code(&keygen(&file, &[]), 0);
    let name = file.display().to_string();
    let sub = || {
        let output = cluster.command(&["sub", "news", "--key", &name]).output();
        let output = output.unwrap();
        assert_code(&output, 2);
        stderr(&output)
    };
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(sub().contains("chmod 600"));
    fs::write(&file, "something else\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(sub().contains("holds no key"));
    fs::remove_file(&file).unwrap();
    assert!(sub().contains("qsm keygen"));
}

#[test]
fn who_has_the_key_receives_and_who_has_none_is_told_so() {
    let (cluster, _service, file) = protected();
    let words = ["sub", "news", "--count", "3", "--until-idle", "60"];
    let sub = cluster.start(&[&words[..], &["--key", &file]].concat());
    let mut stranger = cluster.start(&["sub", "news"]);
    let told = Lines::of_stderr(&mut stranger.0);
    let published = cluster.run(&["pub", "news", "--key", &file], b"1\n2\n3\n");
    assert_code(&published, 0);
    let received = sub.output();
    assert_code(&received, 0);
    assert_eq!(stdout(&received), "1\n2\n3\n");
    told.wait("that there is a key", |line| {
        line.contains("this cluster is protected")
    });
    drop(stranger);

    // Lists as well.
    let nodes = cluster.run(&["nodes", "--key", &file, "--json"], b"");
    assert_code(&nodes, 0);
    let closed = cluster.run(&["nodes", "--timeout", "1"], b"");
    assert_code(&closed, 3);
    assert!(stderr(&closed).contains("key"), "{}", stderr(&closed));
}
