//! Late join as processes: keepers, subscribers that begin with the past, and positions.

mod support;

use std::fs;
use std::io::Write;
use std::process::Stdio;

use support::{Cluster, Lines, Running, assert_code, stderr};

/// Starts `qsm keep` and waits until it keeps.
fn keep(cluster: &Cluster, words: &[&str]) -> Running {
    let words: Vec<&str> = [&["keep", "news"], words].concat();
    let mut keeper = cluster.start(&words);
    let lines = Lines::of_stderr(&mut keeper.0);
    lines.wait("that it keeps", |line| line.contains("keeping news"));
    keeper
}

/// Publishes lines of these numbers, all of which a receiver gets.
fn publish(cluster: &Cluster, numbers: std::ops::RangeInclusive<u32>) {
    let lines: String = numbers.map(|number| format!("{number}\n")).collect();
    let output = cluster.run(&["pub", "news"], lines.as_bytes());
    assert_code(&output, 0);
}

fn lines(numbers: std::ops::RangeInclusive<u32>) -> String {
    numbers.map(|number| format!("{number}\n")).collect()
}

fn text(output: &std::process::Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn sub_begins_with_the_last_messages_and_says_what_is_not_kept() {
    let cluster = Cluster::new();
    let _keeper = keep(&cluster, &["--last", "5"]);
    publish(&cluster, 1..=8);
    let seen = cluster.run(&["sub", "news", "--last", "3", "--count", "3"], b"");
    assert_code(&seen, 0);
    assert_eq!(text(&seen), lines(6..=8));

    let seen = cluster.run(&["sub", "news", "--last", "7", "--count", "5"], b"");
    assert_code(&seen, 4);
    assert_eq!(text(&seen), lines(4..=8));
    let said = stderr(&seen);
    assert!(said.contains("NOT KEPT: group news sender"), "{said}");
    assert!(
        said.contains("messages 2..=3: no keeper has them"),
        "{said}"
    );
    assert!(
        said.contains("2 messages were asked for and not kept"),
        "{said}"
    );
}

#[test]
fn sub_goes_on_behind_what_it_has_written() {
    let cluster = Cluster::new();
    let keeper = keep(&cluster, &[]);
    let path = cluster.folder.join("news.position");
    let resume = path.to_str().unwrap();
    publish(&cluster, 1..=4);
    // Nothing was written before: the file does not go back to before it was there.
    let words = [
        "sub", "news", "--resume", resume, "--last", "2", "--count", "2",
    ];
    let seen = cluster.run(&words, b"");
    assert_code(&seen, 0);
    assert_eq!(text(&seen), lines(3..=4));
    let position = fs::read_to_string(&path).unwrap();
    assert!(position.starts_with("qsm-position 1\n"), "{position}");
    assert!(position.ends_with(" 4 news\n"), "{position}");

    // A new publisher is another sender, whose messages are all behind the position.
    publish(&cluster, 5..=9);
    let seen = cluster.run(&["sub", "news", "--resume", resume, "--count", "3"], b"");
    assert_eq!(text(&seen), lines(5..=7));
    let seen = cluster.run(&["sub", "news", "--resume", resume, "--count", "2"], b"");
    assert_code(&seen, 0);
    assert_eq!(text(&seen), lines(8..=9));

    // What is no position is not overwritten.
    fs::write(&path, "a letter\n").unwrap();
    let refused = cluster.run(&["sub", "news", "--resume", resume], b"");
    assert_code(&refused, 2);
    assert!(stderr(&refused).contains("it does not begin with `qsm-position 1`"));
    assert_eq!(fs::read_to_string(&path).unwrap(), "a letter\n");
    let refused = cluster.run(&["sub", "news/*", "--last", "3"], b"");
    assert_code(&refused, 2);
    assert!(
        stderr(&refused).contains("name each group"),
        "{}",
        stderr(&refused)
    );

    keeper.terminate();
    assert_code(&keeper.output(), 0);
}

#[test]
fn a_second_keeper_goes_on_where_the_first_is_killed_and_pub_keeps_too() {
    let cluster = Cluster::new();
    let first = keep(&cluster, &["--rate", "300k"]);
    let second = keep(&cluster, &[]);
    let message = vec![b'x'; 999];
    let messages: Vec<u8> = (0..900)
        .flat_map(|_| [&message[..], b"\n"].concat())
        .collect();
    let input = cluster.file("messages", &messages);
    let sent = cluster.run(
        &["pub", "news", "--file", &input, "--wait-members", "2"],
        b"",
    );
    assert_code(&sent, 0);
    let mut seen = cluster.start(&["sub", "news", "--last", "900", "--count", "900", "--tag"]);
    let seen_lines = Lines::of_stdout(&mut seen.0);
    seen_lines.wait("the first message", |line| line.contains(" 1: "));
    drop(first);
    let rest = seen_lines.iter().count();
    assert_eq!(rest, 899);
    assert_code(&seen.output(), 0);
    drop(second);

    // A publisher that goes on keeps what it has sent.
    let mut command = cluster.command(&["pub", "late", "--keep", "10", "--wait-members", "0"]);
    let mut publisher = Running(command.stdin(Stdio::piped()).spawn().unwrap());
    let mut input = publisher.0.stdin.take().unwrap();
    input.write_all(b"one\ntwo\n").unwrap();
    let seen = cluster.run(&["sub", "late", "--last", "2", "--count", "2"], b"");
    assert_code(&seen, 0);
    assert_eq!(text(&seen), "one\ntwo\n");
    drop(input);
    assert_code(&publisher.output(), 0);
}
