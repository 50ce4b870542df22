//! Two membership services of one cluster, by mistake: one gives way, and says to whom.

mod support;

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use support::{Cluster, Running, assert_code};

/// More than a slow machine needs; a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A service, and what it says on stderr.
struct Rival {
    process: Running,
    address: String,
}

impl Rival {
    /// Each line that it says goes to the sender with its address.
    fn start(cluster: &Cluster, said: &std::sync::mpsc::Sender<(String, String)>) -> Self {
        let (mut process, address) = cluster.start_gms(&[], Stdio::piped());
        let pipe = BufReader::new(process.0.stderr.take().unwrap());
        let (said, name) = (said.clone(), address.clone());
        thread::spawn(move || {
            for line in pipe.lines().map_while(Result::ok) {
                drop(said.send((name.clone(), line)));
            }
        });
        Self { process, address }
    }
}

/// The lines of all until one says this; who said it, and the line.
fn wait_for(said: &Receiver<(String, String)>, words: &str, all: &mut String) -> (String, String) {
    loop {
        let (who, line) = said.recv_timeout(PATIENCE).expect(words);
        all.push_str(&format!("{who} {line}\n"));
        if line.contains(words) {
            return (who, line);
        }
    }
}

#[test]
fn of_two_services_one_gives_way_and_its_nodes_go_to_the_other() {
    let mut cluster = Cluster::without_service();
    let (sender, said) = channel();
    let mut rivals = [(), ()].map(|()| Rival::start(&cluster, &sender));
    drop(sender);
    // A node at each.
    let nodes = rivals.each_ref().map(|rival| {
        cluster.use_service(&rival.address);
        cluster.start(&["sub", "news"])
    });
    let mut all = String::new();
    let (lesser, line) = wait_for(&said, "gives way to the one at", &mut all);
    if rivals[0].address != lesser {
        rivals.swap(0, 1);
    }
    let [lesser, other] = rivals;
    assert!(line.contains(&other.address), "{all}");
    let (_, error) = wait_for(&said, "qsm: error: ", &mut all);
    assert!(error.contains(&other.address), "{all}");
    assert_code(&lesser.process.output(), 5);
    // The other one goes on, and serves both nodes.
    cluster.use_service(&other.address);
    let published = cluster.run(&["pub", "news", "--wait-members", "2"], b"hello\n");
    assert_code(&published, 0);
    for node in nodes {
        let mut line = String::new();
        let mut node = node;
        BufReader::new(node.0.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "hello\n");
    }
    other.process.terminate();
    assert_code(&other.process.output(), 0);
    all.extend(said.iter().map(|(who, line)| format!("{who} {line}\n")));
    let conflict = |of: &str, names: &str| {
        let mut lines = all.lines().filter(|line| line.starts_with(of));
        lines.any(|line| line.contains("CONFLICT") && line.contains(names))
    };
    assert!(conflict(&other.address, &lesser.address), "{all}");
}
