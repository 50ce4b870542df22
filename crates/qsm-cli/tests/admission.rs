//! Clusters that take tokens or certificates, as processes: who has one is in, with its rights; who has none, a bad one or one that
//! is revoked is told why.

#[path = "../../qsm-x509/tests/support/mod.rs"]
mod authority;
mod plant;
mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use authority::{Authority, Issued};
use plant::Plant;
use serde_json::Value;
use support::{Lines, assert_code, qsm, stderr, text};

#[test]
fn members_have_the_rights_of_their_tokens_and_strangers_are_told() {
    let plant = Plant::new();
    let [reader, writer] = ["reader.key", "writer.key"].map(|name| plant.file(name));
    let mut sub = plant.start(&["sub", "news", "--count", "3"], &reader);
    let told = Lines::of_stderr(&mut sub.0);
    told.wait("that it is in", |line| line.contains("subscribed to"));
    let mut stranger = plant.cluster.start(&["sub", "news"]);
    let strange = Lines::of_stderr(&mut stranger.0);
    strange.wait("that it is not in", |line| {
        line.contains("this cluster is protected")
    });
    drop(stranger);

    let nodes = plant.run(&["nodes", "--json"], &reader, b"");
    assert_code(&nodes, 0);
    let nodes = String::from_utf8(nodes.stdout).unwrap();
    let rows: Vec<Value> = serde_json::from_str(&nodes).unwrap();
    let [row] = &rows[..] else {
        panic!("{nodes}");
    };
    assert!(
        row["rights"].as_str().unwrap().contains("receives **"),
        "{row}"
    );

    // Not by the token of who only reads.
    let other = plant.member("other", &["--subscribe", "**"]);
    let refused = plant.run(&["pub", "news"], &other, b"1\n");
    assert_code(&refused, 1);
    let reason = stderr(&refused);
    assert!(reason.contains("publish to the group \"news\""), "{reason}");
    let published = plant.run(&["pub", "news"], &writer, b"1\n2\n3\n");
    assert_code(&published, 0);
    let received = sub.output();
    assert_code(&received, 0);
    assert_eq!(received.stdout, b"1\n2\n3\n");
}

#[test]
fn late_join_takes_rights_to_the_groups_of_its_words() {
    let plant = Plant::new();
    let keeping = ["news/history/*", "news", "news/history"];
    let [answers, news, questions] = keeping;
    let rights = [
        "--publish",
        answers,
        "--subscribe",
        news,
        "--subscribe",
        questions,
    ];
    let keeper = plant.member("keeper", &rights);
    let rights = [
        "--publish",
        questions,
        "--subscribe",
        news,
        "--subscribe",
        answers,
    ];
    let late = plant.member("late", &rights);
    let reader = plant.member("reads", &["--subscribe", news]);
    let mut keep = plant.start(&["keep", "news"], &keeper);
    let told = Lines::of_stderr(&mut keep.0);
    told.wait("that it keeps", |line| line.contains("keeping news"));
    let published = plant.run(&["pub", "news"], &plant.file("writer.key"), b"1\n2\n3\n");
    assert_code(&published, 0);
    let words = ["sub", "news", "--last", "2", "--count", "2"];
    let seen = plant.run(&words, &late, b"");
    assert_code(&seen, 0);
    assert_eq!(seen.stdout, b"2\n3\n");
    let refused = plant.run(&words, &reader, b"");
    assert_code(&refused, 1);
    let reason = stderr(&refused);
    assert!(reason.contains("group \"news/history"), "{reason}");
}

#[test]
fn a_revoked_member_ends_in_mid_stream_and_says_why() {
    let mut plant = Plant::new();
    let events = plant.service_events();
    let [reader, writer] = ["reader.key", "writer.key"].map(|name| plant.file(name));
    let other = plant.member("other", &["--subscribe", "news"]);
    let mut stays = plant.start(&["sub", "news", "--count", "2"], &other);
    let told = Lines::of_stderr(&mut stays.0);
    told.wait("that it is in", |line| line.contains("subscribed to"));
    let mut goes = plant.start(&["sub", "news"], &reader);
    let lines = Lines::of_stdout(&mut goes.0);
    let published = plant.run(&["pub", "news", "--wait-members", "2"], &writer, b"1\n");
    assert_code(&published, 0);
    lines.wait("the message", |line| line == "1");

    let revoke = ["token", "revoke", &plant.folder, "--node", &reader];
    assert_code(&qsm().args(revoke).output().unwrap(), 0);
    events.wait("that it is shut out", |line| {
        line.contains("\"event\":\"expelled\"")
    });
    let ended = goes.output();
    assert_code(&ended, 1);
    assert!(stderr(&ended).contains("was revoked"), "{}", stderr(&ended));
    let published = plant.run(&["pub", "news"], &writer, b"2\n");
    assert_code(&published, 0);
    let received = stays.output();
    assert_code(&received, 0);
    assert_eq!(received.stdout, b"1\n2\n");
    // And it does not come in again.
    let again = plant.run(&["sub", "news"], &reader, b"");
    assert_code(&again, 1);
    assert!(stderr(&again).contains("was revoked"), "{}", stderr(&again));
}

#[test]
fn what_is_wrong_with_an_identity_is_named_with_the_remedy() {
    let plant = Plant::new();
    let [reader, token] = ["reader.key", "reader.token"].map(|name| plant.file(name));
    let sub = |more: &[&str]| {
        let output = plant.run(&[&["sub", "news"], more].concat(), &reader, b"");
        assert_ne!(output.status.code(), Some(0));
        stderr(&output)
    };
    let whole = fs::read_to_string(&token).unwrap();
    fs::write(&token, &whole[..whole.len() - 9]).unwrap();
    let error = sub(&[]);
    assert!(
        error.contains("damaged") && error.contains("copy it again"),
        "{error}"
    );
    fs::write(&token, &whole).unwrap();
    let error = sub(&["--root", &token]);
    assert!(
        error.contains("holds not the public key of a root"),
        "{error}"
    );
    let error = sub(&["--key", &reader]);
    assert!(error.contains("holds no key"), "{error}");
    let lonely = plant.cluster.run(&["sub", "news", "--token", &token], b"");
    assert_code(&lonely, 2);
    assert!(
        stderr(&lonely).contains("--identity"),
        "{}",
        stderr(&lonely)
    );
    let foreign = text(&plant.cluster.folder.join("foreign"));
    assert_code(&qsm().args(["init", &foreign]).output().unwrap(), 0);
    let error = sub(&["--root", &format!("{foreign}/root.pub")]);
    assert!(
        error.contains("not signed by this cluster's root"),
        "{error}"
    );
    fs::set_permissions(&reader, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(sub(&[]).contains("chmod 600"));
    // A service needs a token of a service.
    let writer = plant.file("writer.key");
    let name = plant.cluster.option("--cluster");
    let words = [
        "gms",
        "--listen",
        "127.0.0.1:0",
        "--cluster",
        name,
        "--identity",
        &writer,
    ];
    let output = qsm().args(words).output().unwrap();
    assert_code(&output, 1);
    assert!(
        stderr(&output).contains("not one of a membership service"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn members_whose_tokens_are_of_services_need_no_other() {
    let plant = Plant::without_service();
    let rights = ["--publish", "**", "--subscribe", "**", "--role", "service"];
    let [one, two] = ["one", "two"].map(|name| plant.member(name, &rights));
    let words = ["sub", "news", "other", "--cores", "2", "--count", "2"];
    let mut sub = plant.start(&words, &one);
    let told = Lines::of_stderr(&mut sub.0);
    told.wait("that it is in", |line| line.contains("subscribed to"));
    for group in ["news", "other"] {
        let words = ["pub", group, "--cores", "2", "--wait-members", "1"];
        assert_code(&plant.run(&words, &two, b"1\n"), 0);
    }
    let received = sub.output();
    assert_code(&received, 0);
    // Who only reads runs none, and says what it takes.
    let reader = plant.member("other", &["--subscribe", "**"]);
    let refused = plant.run(&["sub", "news", "--embedded-gms"], &reader, b"");
    assert_code(&refused, 1);
    let error = stderr(&refused);
    assert!(error.contains("not one of a membership service"), "{error}");
}

/// Files of a certificate and its key. Returns the option that names them.
fn certificate(plant: &Plant, name: &str, issued: &Issued) -> String {
    let [file, key] = ["pem", "key"].map(|ending| plant.file(&format!("{name}.{ending}")));
    fs::write(&file, &issued.certificate).unwrap();
    fs::write(&key, &issued.private_key).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    format!("--certificate={file}")
}

// Rule R-SEC-19.
#[test]
fn who_has_a_certificate_is_in_beside_who_has_a_token() {
    let mut plant = Plant::without_service();
    let [root, service, writer] =
        ["root.pub", "service.key", "writer.key"].map(|name| plant.file(name));
    let [trust, crl] = ["ca.pem", "ca.crl"].map(|name| plant.file(name));
    let authority = Authority::new("works CA");
    fs::write(&trust, authority.pem()).unwrap();
    fs::write(&crl, authority.revoke(&[3])).unwrap();
    let options = ["--identity", &service, "--trust", &trust, "--crl", &crl];
    let (_service, address) = plant.cluster.start_gms(&options, Stdio::inherit());
    plant.cluster.use_service(&address);
    let uri = format!(
        "qsm://{}/**?subscribe=news",
        plant.cluster.option("--cluster")
    );

    let reader = certificate(&plant, "press", &authority.issue(1, &[&uri]));
    let root = format!("--root={root}");
    let mut sub = plant
        .cluster
        .start(&["sub", "news", "--count", "1", &reader, &root]);
    let told = Lines::of_stderr(&mut sub.0);
    told.wait("that it is in", |line| line.contains("subscribed to"));
    let refused = |name: &str, issued: &Issued| {
        let option = certificate(&plant, name, issued);
        let ended = plant.cluster.run(&["sub", "news", &option, &root], b"");
        assert_ne!(ended.status.code(), Some(0));
        stderr(&ended)
    };
    let foreign = Authority::new("other CA").issue(2, &[&uri]);
    let error = refused("foreign", &foreign);
    assert!(
        error.contains("no authority that is trusted here"),
        "{error}"
    );
    let error = refused("revoked", &authority.issue(3, &[&uri]));
    assert!(error.contains("the certificate was revoked"), "{error}");
    let published = plant.run(&["pub", "news"], &writer, b"1\n");
    assert_code(&published, 0);
    let received = sub.output();
    assert_code(&received, 0);
    assert_eq!(received.stdout, b"1\n");

    let open = plant.file("press.key");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
    let readable = plant.cluster.run(&["sub", "news", &reader, &root], b"");
    assert_code(&readable, 2);
    assert!(
        stderr(&readable).contains("chmod 600"),
        "{}",
        stderr(&readable)
    );
    let alone = plant.cluster.run(&["sub", "news", "--trust", &trust], b"");
    assert_code(&alone, 2);
    assert!(
        stderr(&alone).contains("--certificate"),
        "{}",
        stderr(&alone)
    );
}
