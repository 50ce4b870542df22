//! Keys of a cluster and tokens, as files and as commands.

mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use qsm_identity::{Claims, ClusterRoot, Token};
use serde_json::Value;
use support::{Cluster, Lines, QSM, Running, assert_code, qsm, stderr, text};

fn run(words: &[&str]) -> Output {
    qsm().args(words).output().unwrap()
}

/// Output of a command that ends well.
#[track_caller]
fn said(words: &[&str]) -> String {
    let output = run(words);
    assert_code(&output, 0);
    String::from_utf8(output.stdout).unwrap()
}

/// The objects that a command writes that ends well.
#[track_caller]
fn objects(words: &[&str]) -> Vec<Value> {
    let said = said(words);
    let lines = said.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

#[track_caller]
fn object(words: &[&str]) -> Value {
    objects(words).remove(0)
}

/// The error of a command that fails so.
#[track_caller]
fn refused(words: &[&str], code: i32) -> String {
    let output = run(words);
    assert_code(&output, code);
    stderr(&output)
}

/// A folder of a root, of the test's cluster.
fn initiated(cluster: &Cluster) -> String {
    let folder = text(&cluster.folder.join("plant"));
    said(&["init", &folder, "--cluster", "plant"]);
    folder
}

/// A token that says the same as this one, by the same root, and expired in 1970.
fn expired(folder: &str, token: &str) -> String {
    let root = fs::read_to_string(format!("{folder}/root.secret")).unwrap();
    let root: ClusterRoot = root.parse().unwrap();
    let token: Token = token.parse().unwrap();
    let claims = Claims {
        not_before: 1,
        expires: 2,
        ..token.claims().clone()
    };
    root.issue(claims).unwrap().to_string()
}

fn mode(path: impl AsRef<Path>) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn shell(cluster: &Cluster, command: &str) -> Command {
    let folder = Path::new(QSM).parent().unwrap().display().to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut shell = Command::new("sh");
    shell.args(["-c", command]);
    for (name, value) in qsm().get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
        .envs(cluster.variables())
        .env("PATH", format!("{folder}:{path}"));
    shell
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    shell
}

#[test]
fn a_new_cluster_has_its_keys_and_secret_ones_are_for_their_owner_alone() {
    let cluster = Cluster::without_service();
    let folder = text(&cluster.folder.join("plant"));
    let told = said(&["init", &folder]);
    assert_eq!(mode(&folder), 0o700);
    for (name, expected) in [
        ("root.secret", 0o600),
        ("root.pub", 0o644),
        ("service.key", 0o600),
        ("service.token", 0o600),
        ("reader.key", 0o600),
        ("reader.token", 0o600),
        ("writer.key", 0o600),
        ("writer.token", 0o600),
        ("issued", 0o600),
        ("revoked.list", 0o644),
    ] {
        assert_eq!(mode(Path::new(&folder).join(name)), expected, "{name}");
        assert!(told.contains(name), "{told}");
    }
    for secret in ["root.secret", "service.key", "reader.key", "writer.token"] {
        let path = Path::new(&folder).join(secret);
        let secret = fs::read_to_string(path).unwrap();
        let (_, digits) = secret.trim().split_once('.').unwrap();
        assert!(!told.contains(digits));
    }
    let [root, token] = ["root.pub", "service.token"].map(|name| format!("{folder}/{name}"));
    let service = object(&["token", "inspect", &token, "--root", &root, "--json"]);
    assert_eq!(service["valid"], true);
    assert_eq!(service["roles"], serde_json::json!(["service"]));
    assert!(
        service["node_key"]
            .as_str()
            .unwrap()
            .starts_with("qsm-node-1.")
    );
    // Never over another.
    let before = fs::read(Path::new(&folder).join("root.secret")).unwrap();
    assert!(refused(&["init", &folder], 1).contains("is not empty"));
    assert_eq!(
        fs::read(Path::new(&folder).join("root.secret")).unwrap(),
        before
    );
    let nameless = text(&cluster.folder.join("nameless"));
    assert!(refused(&["init", &nameless, "--cluster", ""], 2).contains("cluster's name"));
    assert!(!Path::new(&nameless).exists());
}

#[test]
fn the_three_commands_make_a_cluster_that_takes_tokens() {
    let mut cluster = Cluster::without_service();
    let folder = text(&cluster.folder.join("my plant"));
    let name = cluster.option("--cluster").to_owned();
    let made = object(&["init", &folder, "--cluster", &name, "--json"]);
    let commands = made["commands"].as_array().unwrap();
    let [service, sub, publish] = [0, 1, 2].map(|at| commands[at].as_str().unwrap());
    let service = format!("exec {service} --listen 127.0.0.1:0 --json");
    let mut gms = Running(shell(&cluster, &service).spawn().unwrap());
    let mut line = String::new();
    let stdout = gms.0.stdout.as_mut().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    let line: Value = serde_json::from_str(&line).unwrap();
    cluster.use_service(line["address"].as_str().unwrap());

    let mut sub = Running(shell(&cluster, &format!("exec {sub}")).spawn().unwrap());
    let lines = Lines::of_stdout(&mut sub.0);
    let published = shell(&cluster, publish).output().unwrap();
    assert_code(&published, 0);
    lines.wait("the message", |line| line == "hello");
    // Who has no token is not in.
    let closed = cluster.run(&["nodes", "--timeout", "1"], b"");
    assert_code(&closed, 3);
}

#[test]
fn a_token_is_made_shown_listed_and_revoked() {
    let cluster = Cluster::without_service();
    let folder = initiated(&cluster);
    let key = text(&cluster.folder.join("press.key"));
    let public = said(&["keygen", &key, "--node"]);
    assert_eq!(mode(&key), 0o600);
    let [file, root, revoked] = ["press.token", "plant/root.pub", "plant/revoked.list"]
        .map(|name| text(&cluster.folder.join(name)));
    let words = [
        "token",
        "new",
        &folder,
        "--name",
        "press-7/**",
        "--publish",
        "states/press-7",
    ];
    let more = [
        "--subscribe",
        "orders/*",
        "--node",
        &key,
        "--ttl",
        "12h",
        "--output",
        &file,
    ];
    let made = object(&[&words[..], &more, &["--json"]].concat());
    assert_eq!(mode(&file), 0o600);
    let serial = made["serial"].as_str().unwrap();

    let shown = object(&["token", "inspect", &file, "--json"]);
    assert_eq!(shown["valid"], Value::Null);
    assert_eq!(shown["cluster"], "plant");
    assert_eq!(shown["node_key"], public.trim());
    assert_eq!(shown["publish"], serde_json::json!(["states/press-7"]));
    assert_eq!(shown["roles"], serde_json::json!(["publish", "subscribe"]));
    let verified = [
        "token",
        "inspect",
        &file,
        "--root",
        &root,
        "--revoked",
        &revoked,
    ];
    assert!(said(&verified).contains("the token holds"));
    let token = fs::read_to_string(&file).unwrap();
    assert!(said(&["token", "inspect", token.trim()]).contains(serial));

    let state = || {
        let rows = objects(&["token", "list", &folder, "--json"]);
        assert_eq!(rows.len(), 4);
        let row = rows.iter().find(|row| row["serial"] == serial).unwrap();
        row["state"].as_str().unwrap().to_owned()
    };
    assert_eq!(state(), "valid");
    let told = said(&["token", "revoke", &folder, serial]);
    assert!(
        told.contains("list 2 now, of 1 tokens and 0 keys"),
        "{told}"
    );
    assert!(told.contains("bring it to the service"), "{told}");
    assert_eq!(state(), "revoked");
    let error = refused(&verified, 1);
    assert!(
        error.contains(&format!("the token {serial} was revoked")),
        "{error}"
    );
    assert!(said(&["token", "list", &folder]).contains("revoked"));
    assert!(!Path::new(&folder).join("revoked.next").exists());
}

#[test]
fn a_key_is_revoked_with_all_its_tokens() {
    let cluster = Cluster::without_service();
    let folder = initiated(&cluster);
    let key = text(&cluster.folder.join("press.key"));
    let public = object(&["keygen", &key, "--node", "--json"]);
    let public = public["node_key"].as_str().unwrap();
    let token = said(&[
        "token",
        "new",
        &folder,
        "--name",
        "a",
        "--subscribe",
        "**",
        "--node",
        public,
    ]);
    said(&["token", "revoke", &folder, "--node", public]);
    let [root, revoked] = ["root.pub", "revoked.list"].map(|name| format!("{folder}/{name}"));
    let words = [
        "token",
        "inspect",
        token.trim(),
        "--root",
        &root,
        "--revoked",
        &revoked,
    ];
    assert!(refused(&words, 1).contains("the node's key was revoked"));
}

#[test]
fn a_token_that_expired_or_is_of_another_root_or_cluster_is_refused() {
    let cluster = Cluster::without_service();
    let folder = initiated(&cluster);
    let words = ["token", "new", &folder, "--name", "a", "--subscribe", "**"];
    let root = format!("{folder}/root.pub");
    let token = said(&words);
    let token = token.trim();
    let inspect = ["token", "inspect", token, "--root", &root];
    let expired = expired(&folder, token);
    let error = refused(&["token", "inspect", &expired, "--root", &root], 1);
    assert!(
        error.contains("expired at") && error.contains("if the clock is right"),
        "{error}"
    );

    let error = refused(&[&inspect[..], &["--cluster", "yard"]].concat(), 1);
    assert!(
        error.contains("for the cluster \"plant\", and this is \"yard\""),
        "{error}"
    );
    let other = text(&cluster.folder.join("other"));
    said(&["init", &other, "--cluster", "plant"]);
    let foreign = format!("{other}/root.pub");
    let error = refused(&["token", "inspect", token, "--root", &foreign], 1);
    assert!(
        error.contains("not signed by this cluster's root"),
        "{error}"
    );
    let json = run(&["token", "inspect", token, "--root", &foreign, "--json"]);
    assert_code(&json, 1);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["valid"], false);
    assert!(json["reason"].as_str().unwrap().contains("not signed"));
    // A list of another root says nothing of this one.
    let list = format!("{other}/revoked.list");
    let error = refused(&[&inspect[..], &["--revoked", &list]].concat(), 1);
    assert!(
        error.contains("not signed by this cluster's root"),
        "{error}"
    );
    let cut = &token[..token.len() - 4];
    assert!(refused(&["token", "inspect", cut], 1).contains("damaged"));
    let error = refused(&["token", "inspect", &format!("{folder}/root.pub")], 1);
    assert!(
        error.contains("the public key of a cluster's root, and not a token"),
        "{error}"
    );
}

#[test]
fn what_is_wrong_with_files_and_words_is_named_with_the_remedy() {
    let cluster = Cluster::without_service();
    let folder = initiated(&cluster);
    let new = ["token", "new", &folder, "--name", "a"];
    let with = |more: &[&str], code: i32| refused(&[&new[..], more].concat(), code);
    assert!(with(&[], 2).contains("--publish, --subscribe or --role"));
    assert!(with(&["--role", "publish"], 2).contains("--publish GROUP"));
    assert!(with(&["--publish", "a*"], 2).contains("no group can match"));
    assert!(with(&["--role", "relay", "--ttl", "soon"], 2).contains("12h or 30d"));
    let long = "x".repeat(65);
    assert!(
        refused(
            &["token", "new", &folder, "--name", &long, "--role", "relay"],
            2
        )
        .contains("node's name")
    );
    // Nothing of these was noted.
    assert_eq!(objects(&["token", "list", &folder, "--json"]).len(), 3);

    let unknown = ["token", "revoke", &folder, "00c0ffee00c0ffee"];
    assert!(refused(&unknown, 1).contains("--unknown"));
    said(&[&unknown[..], &["--unknown"]].concat());
    assert!(refused(&["token", "revoke", &folder, "12"], 2).contains("16 hexadecimal digits"));

    let secret = format!("{folder}/root.secret");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).unwrap();
    let error = with(&["--role", "relay"], 1);
    assert!(
        error.contains("mode 644") && error.contains("chmod 600"),
        "{error}"
    );
    let key = format!("{folder}/service.key");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(with(&["--role", "relay", "--node", &key], 1).contains("chmod 600"));
    // A secret that stands where another should.
    let other = text(&cluster.folder.join("cluster.key"));
    said(&["keygen", &other]);
    fs::copy(&other, &secret).unwrap();
    let error = with(&["--role", "relay"], 1);
    assert!(
        error.contains("the key that protects a cluster's packets"),
        "{error}"
    );
    assert!(refused(&["token", "list", "/nowhere"], 1).contains("`qsm init`"));
}

#[test]
fn the_key_of_a_node_never_overwrites_another() {
    let cluster = Cluster::without_service();
    let key = text(&cluster.folder.join("press.key"));
    said(&["keygen", &key, "--node"]);
    let before = fs::read(&key).unwrap();
    assert!(refused(&["keygen", &key, "--node"], 1).contains("must not be overwritten"));
    assert_eq!(fs::read(&key).unwrap(), before);
    refused(&["keygen", &key, "--node", "--cipher", "aes-256-gcm"], 2);
    // It is no key of a cluster.
    let error = refused(&["nodes", "--key", &key], 2);
    assert!(error.contains("holds no key"), "{error}");
}
