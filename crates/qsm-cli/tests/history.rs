//! Late join as processes: keepers, subscribers that begin with the past, and positions.

mod support;

use std::fs;
use std::io::Write;
use std::process::Stdio;

use support::{Cluster, Lines, Running, assert_code, stderr, text as path_of};

/// Starts `qsm keep` and waits until it keeps.
fn keep(cluster: &Cluster, words: &[&str]) -> Running {
    kept(cluster, words).0
}

/// As [`keep`], with what it says from then on.
fn kept(cluster: &Cluster, words: &[&str]) -> (Running, Lines) {
    let words: Vec<&str> = [&["keep", "news"], words].concat();
    let mut keeper = cluster.start(&words);
    let lines = Lines::of_stderr(&mut keeper.0);
    lines.wait("that it keeps", |line| line.contains("keeping news"));
    (keeper, lines)
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
    let words = ["sub", "news", "--last", "3", "--count", "3"];
    let seen = cluster.run(&[&words[..], &["--stats", "prometheus"]].concat(), b"");
    assert_code(&seen, 0);
    assert_eq!(text(&seen), lines(6..=8));
    let counted = stderr(&seen);
    assert!(
        counted.contains("\nqsm_history_kept_total 3\n"),
        "{counted}"
    );

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
    let (keeper, said) = kept(&cluster, &["--stats", "prometheus"]);
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
    said.wait("counters", |line| line == "qsm_keeper_senders 2");
    assert_code(&keeper.output(), 0);
}

#[test]
fn a_reader_that_is_killed_goes_on_without_a_gap() {
    let cluster = Cluster::new();
    let _keeper = keep(&cluster, &["--last", "5000"]);
    let path = path_of(&cluster.folder.join("news.position"));
    let resume = ["sub", "news", "--resume", &path];
    let mut killed = cluster.start(&resume);
    let written = Lines::of_stdout(&mut killed.0);
    let input = cluster.file("numbers", lines(1..=4000).as_bytes());
    let words = ["pub", "news", "--file", &input, "--rate", "1500"];
    let publisher = cluster.start(&[&words[..], &["--wait-members", "2"]].concat());
    written.wait("the middle", |line| line == "2500");
    drop(killed);
    let last = written.iter().last();
    let last: u32 = last.map_or(2500, |line| line.parse().unwrap());
    // The killed one may be said to lack something.
    drop(publisher.output());
    let seen = cluster.run(&[&resume[..], &["--until-idle", "2"]].concat(), b"");
    assert_code(&seen, 0);
    let seen = text(&seen);
    let first: u32 = seen.lines().next().unwrap().parse().unwrap();
    assert!(1 < first && first <= last + 1, "{first} behind {last}");
    assert_eq!(seen, lines(first..=4000));
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
    // The reader may have left before it acknowledged what it got.
    let ended = publisher.output().status.code();
    assert!(matches!(ended, Some(0 | 4)), "{ended:?}");
}

#[test]
fn attached_processes_keep_and_begin_with_the_past() {
    let cluster = Cluster::new();
    let path = path_of(&cluster.folder.join("engine"));
    let mut engine = cluster.start(&["engine", "--at", &path]);
    Lines::of_stdout(&mut engine.0).wait("that it is there", |line| line.contains("sharing at"));
    let attached = |words: &[&str]| {
        let mut command = support::qsm();
        command.args(words).args(["--attach", &path]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        Running(command.stderr(Stdio::piped()).spawn().unwrap())
    };
    let mut keeper = attached(&["keep", "news"]);
    let said = Lines::of_stderr(&mut keeper.0);
    said.wait("that it keeps", |line| line.contains("keeping news"));
    publish(&cluster, 1..=4);
    let seen = attached(&["sub", "news", "--last", "3", "--count", "3"]).output();
    assert_code(&seen, 0);
    assert_eq!(text(&seen), lines(2..=4));
}
