//! The commands that README and book show, as they stand there: those that need one host and no
//! privilege are run over loopback, for each other one the table says who runs it.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use support::{Cluster, QSM, Running, qsm};

/// Ways to deal with a command here.
enum Fate {
    /// It ends by itself, with success.
    Ends,
    /// It goes on after a line with this, and ends with success when asked.
    Stays(&'static str),
    /// It ends, and a command that stays prints the word that it publishes.
    Publishes,
    /// It is not run here, for this reason.
    NotHere(&'static str),
}

use Fate::{Ends, NotHere, Publishes, Stays};

const SUBSCRIBED: &str = "subscribed to";
const BENCH: &str = "tests/bench.rs runs this benchmark with shorter phases and options of its own";
const KEYED: &str = "tests/keys.rs runs it, with a file and a cluster of its own";
const TOKENS: &str = "tests/identity.rs or tests/admission.rs runs it, with a folder of its own";
const PROVEN: &str =
    "tests/attacks.rs runs it, with a folder of its own and beside a member that forges";
const PIN: &str = "it takes CPUs 0 to 3; tests/engine.rs runs it with those that are there";
const HOSTS: &str = "tests/hosts.rs runs it, on hosts of a lab";
const UNICAST: &str = "tests/reach.rs runs it on hosts of a lab";
const HINTED: &str = "tests/hints.rs runs it, with nodes that the hints name";
const LIMITED: &str = "tests/repair.rs runs it, on hosts of a lab and for a cluster of its own";
const RELAYED_BY_TOKENS: &str = "tests/relays.rs runs such commands, with other names";
const SEALED: &str = "tests/contents.rs runs it, over loopback";
const TWO_PARENTS: &str = "tests/relays.rs runs it, over loopback";
const JOINED: &str = "tests/relays.rs runs it, between clusters over loopback";
const TWO_GATEWAYS: &str = "tests/gateways.rs runs them over loopback";
const RELAYED: &str = "tests/hosts.rs runs it, between sites of a lab";
const BUDGETED: &str = "tests/budget.rs runs it, with a reader";
const POD: &str =
    "it takes a network of containers; tests/reach.rs and tests/keys.rs run its options";
const SHOWN: &str = "tests/web.rs runs it, with addresses of a cluster of its own";
const OPENED: &str = "tests/objects.rs runs it, with addresses of a cluster of its own";
const KEPT: &str = "tests/history.rs runs it, with a position in a folder of its own";
const UNIT: &str = "it takes the packaged units: packaging/check runs their commands";

/// Each command, in the order in which they are run.
const COMMANDS: &[(&str, &str, Fate)] = &[
    ("README.md", "qsm sub news", Stays(SUBSCRIBED)),
    ("README.md", "echo hello | qsm pub news", Publishes),
    ("start/install.md", "qsm help", Ends),
    (
        "start/install.md",
        "qsm completion bash > ~/.local/share/bash-completion/completions/qsm",
        Ends,
    ),
    (
        "start/install.md",
        "qsm man --output ~/.local/share/man/man1",
        Ends,
    ),
    ("start/first-message.md", "qsm sub news", Stays(SUBSCRIBED)),
    (
        "start/first-message.md",
        "echo hello | qsm pub news",
        Publishes,
    ),
    (
        "start/first-message.md",
        "qsm sub 'prices/*' --json",
        Stays(SUBSCRIBED),
    ),
    (
        "start/first-message.md",
        "qsm sub news --loss 5",
        Stays(SUBSCRIBED),
    ),
    ("start/first-message.md", "qsm nodes", Ends),
    ("start/first-message.md", "qsm groups", Ends),
    ("start/first-message.md", "qsm regions", Ends),
    (
        "start/first-message.md",
        "qsm demo --quick",
        NotHere("tests/demo.rs runs it"),
    ),
    ("start/first-message.md", "qsm gms", NotHere(HOSTS)),
    (
        "guides/handling-loss.md",
        "qsm sub news --loss 5 -v",
        Stays(SUBSCRIBED),
    ),
    (
        "guides/engine.md",
        "qsm engine --at /tmp/qsm",
        Stays("sharing at"),
    ),
    (
        "guides/engine.md",
        "qsm sub news --attach /tmp/qsm",
        Stays(SUBSCRIBED),
    ),
    (
        "guides/engine.md",
        "echo hello | qsm pub news --attach /tmp/qsm --wait-members 0",
        Publishes,
    ),
    (
        "guides/several-cores.md",
        "qsm engine --at /tmp/qsm --cores 4 --pin 0,1,2,3",
        NotHere(PIN),
    ),
    ("operate/keys.md", "qsm keygen cluster.key", NotHere(KEYED)),
    (
        "operate/keys.md",
        "qsm gms --key cluster.key",
        NotHere(KEYED),
    ),
    (
        "operate/keys.md",
        "QSM_KEY=cluster.key qsm sub news",
        NotHere(KEYED),
    ),
    (
        "operate/origin.md",
        "qsm gms --identity plant/service.key --hints hints.txt",
        NotHere(PROVEN),
    ),
    ("operate/identity.md", "qsm init plant", NotHere(TOKENS)),
    (
        "operate/identity.md",
        "qsm gms --identity plant/service.key",
        NotHere(TOKENS),
    ),
    (
        "operate/identity.md",
        "qsm sub news --identity plant/reader.key",
        NotHere(TOKENS),
    ),
    (
        "operate/identity.md",
        "echo hello | qsm pub news --identity plant/writer.key",
        NotHere(TOKENS),
    ),
    (
        "operate/identity.md",
        "qsm gms --identity plant/service.key --trust ca.pem --crl ca.crl",
        NotHere(TOKENS),
    ),
    (
        "operate/identity.md",
        "qsm sub orders/steel --certificate press-7.pem --root plant/root.pub --name press-7/reader",
        NotHere(TOKENS),
    ),
    (
        "operate/identity.md",
        "qsm keygen press-7.key --node",
        NotHere(TOKENS),
    ),
    (
        "operate/identity.md",
        "qsm token new plant --name 'press-7/**' --subscribe 'orders/*' --publish states/press-7 --node press-7.key --ttl 30d --output press-7.token",
        NotHere(TOKENS),
    ),
    (
        "operate/identity.md",
        "qsm token inspect press-7.token --root plant/root.pub",
        NotHere(TOKENS),
    ),
    (
        "operate/identity.md",
        "qsm token list plant",
        NotHere(TOKENS),
    ),
    (
        "operate/identity.md",
        "qsm token revoke plant --node press-7.key",
        NotHere(TOKENS),
    ),
    (
        "operate/networks.md",
        "qsm sub probe --until-idle 10",
        Stays(SUBSCRIBED),
    ),
    (
        "operate/networks.md",
        "seq 1 1000 | qsm pub probe --rate 200",
        Publishes,
    ),
    (
        "operate/networks.md",
        "qsm gms --cluster blue --data-range 239.193.0.0/16",
        NotHere(HOSTS),
    ),
    (
        "guides/two-networks.md",
        "qsm gms --interface eth0 --interface eth1",
        NotHere(HOSTS),
    ),
    (
        "guides/two-networks.md",
        "qsm sub news --interface eth0 --interface eth1",
        NotHere(HOSTS),
    ),
    (
        "operate/networks.md",
        "qsm gms --multicast none",
        NotHere(UNICAST),
    ),
    (
        "operate/networks.md",
        "qsm sub news --multicast none --service one:4481",
        NotHere(UNICAST),
    ),
    (
        "operate/networks.md",
        "qsm pub news --multicast none --service one:4481",
        NotHere(UNICAST),
    ),
    (
        "operate/networks.md",
        "qsm sub news --service _qsm._udp.example.org --service 10.0.0.9:4481",
        NotHere("tests/services.rs asks a DNS server of its own, on a host of a lab"),
    ),
    (
        "operate/repair-limit.md",
        "qsm repair --limit 5%",
        NotHere(LIMITED),
    ),
    ("operate/repair-limit.md", "qsm repair", NotHere(LIMITED)),
    (
        "operate/repair-limit.md",
        "qsm repair --limit none",
        NotHere(LIMITED),
    ),
    (
        "operate/lab.md",
        "qsm lab run --hosts 3 -- qsm nodes",
        NotHere("tests/demo.rs runs another command on hosts"),
    ),
    (
        "operate/lab.md",
        "qsm lab run --hosts 6 --link 0-1:delay=50ms,loss=0.5%,rate=1Gbit -- qsm doctor",
        NotHere("tests/demo.rs runs another command on hosts with a link"),
    ),
    (
        "operate/relays.md",
        "qsm init plant --cluster plant",
        NotHere(RELAYED_BY_TOKENS),
    ),
    (
        "operate/relays.md",
        "qsm keygen plant/fra.key --node",
        NotHere(RELAYED_BY_TOKENS),
    ),
    (
        "operate/relays.md",
        "qsm token new plant --name fra --role relay --node plant/fra.key --output plant/fra.token",
        NotHere(RELAYED_BY_TOKENS),
    ),
    (
        "operate/relays.md",
        "qsm relay --parent source.example:4490 --identity plant/fra.key",
        NotHere(RELAYED_BY_TOKENS),
    ),
    (
        "operate/relays.md",
        "qsm relay pub news --wait-receivers 3",
        NotHere(RELAYED),
    ),
    (
        "operate/relays.md",
        "qsm relay --parent source.example:4490",
        NotHere(RELAYED),
    ),
    (
        "operate/relays.md",
        "qsm relay sub news --parent relay.example:4490",
        NotHere(RELAYED),
    ),
    ("operate/relays.md", "qsm keygen news.key", NotHere(SEALED)),
    (
        "operate/relays.md",
        "qsm relay pub news --content-key news.key",
        NotHere(SEALED),
    ),
    (
        "operate/relays.md",
        "qsm relay sub news --parent relay.example:4490 --content-key news.key",
        NotHere(SEALED),
    ),
    (
        "operate/relays.md",
        "qsm relay site fra --group 'prices/**' --from lon=gateway.lon.example:4490",
        NotHere(JOINED),
    ),
    (
        "operate/relays.md",
        "qsm relay site lon --group 'prices/**' --from fra=gateway.fra.example:4490",
        NotHere(JOINED),
    ),
    (
        "operate/relays.md",
        "qsm relay site fra --group 'prices/**' --from lon=a.lon.example:4490,lon=b.lon.example:4490",
        NotHere(TWO_GATEWAYS),
    ),
    (
        "operate/relays.md",
        "qsm relay site lon --group 'prices/**' --from fra=a.fra.example:4490,fra=b.fra.example:4490",
        NotHere(TWO_GATEWAYS),
    ),
    ("operate/relays.md", "qsm nodes --sites", Ends),
    (
        "operate/relays.md",
        "qsm token new links --name fra --publish site/fra --subscribe 'site/*' --node links/fra.key --output links/fra.token",
        NotHere(RELAYED_BY_TOKENS),
    ),
    (
        "operate/relays.md",
        "qsm relay site fra --group 'prices/**' --from lon=gateway.lon.example:4490 --link-identity links/fra.key",
        NotHere(RELAYED_BY_TOKENS),
    ),
    (
        "operate/relays.md",
        "qsm relay sub news --parent relay-a.example:4490 --parent relay-b.example:4490",
        NotHere(TWO_PARENTS),
    ),
    (
        "operate/relays.md",
        "qsm relay --parent core-a.example:4490 --parent core-b.example:4490",
        NotHere(TWO_PARENTS),
    ),
    (
        "operate/planning.md",
        "qsm gms --hints hints.txt",
        NotHere(HINTED),
    ),
    (
        "operate/containers.md",
        "docker build -f packaging/container/Dockerfile -t qsm .",
        NotHere(POD),
    ),
    (
        "operate/containers.md",
        "qsm gms --multicast none --key cluster.key",
        NotHere(POD),
    ),
    (
        "operate/containers.md",
        "qsm sub news --multicast none --service gms:4481 --key cluster.key",
        NotHere(POD),
    ),
    (
        "operate/containers.md",
        "qsm keygen cluster.key",
        NotHere(POD),
    ),
    (
        "operate/services.md",
        "qsm sub news --attach /run/qsm/alice/engine",
        NotHere(UNIT),
    ),
    (
        "operate/advice.md",
        "qsm advise buffer --rate 1Gbit/s --pause 50ms",
        Ends,
    ),
    (
        "operate/doctor.md",
        "qsm doctor",
        NotHere("it tells of this machine; tests/doctor.rs runs it on hosts of a lab"),
    ),
    (
        "operate/doctor.md",
        "qsm doctor --fix",
        NotHere("it changes the machine; tests/doctor.rs runs it on a host of a lab"),
    ),
    (
        "operate/replay.md",
        "qsm sub news --record /tmp/qsm.rec",
        Stays(SUBSCRIBED),
    ),
    ("operate/replay.md", "qsm sim replay /tmp/qsm.rec", Ends),
    (
        "operate/replay.md",
        "qsm sim replay /tmp/qsm.rec --json",
        Ends,
    ),
    (
        "operate/replay.md",
        "qsm sim replay /tmp/qsm.rec --deliveries",
        Ends,
    ),
    (
        "operate/replay.md",
        "qsm sim replay /tmp/qsm.rec --inputs",
        Ends,
    ),
    (
        "operate/replay.md",
        "qsm sim replay /tmp/qsm.rec --packets /tmp/qsm.pcap --heads 96",
        Ends,
    ),
    (
        "operate/replay.md",
        "qsm sim replay /tmp/qsm.rec --scenario /tmp/qsm-like.txt",
        Ends,
    ),
    ("operate/replay.md", "qsm sim run /tmp/qsm-like.txt", Ends),
    ("guides/late-join.md", "qsm keep news", NotHere(KEPT)),
    (
        "guides/late-join.md",
        "qsm sub news --last 20",
        NotHere(KEPT),
    ),
    (
        "guides/late-join.md",
        "qsm sub news --resume news.position",
        NotHere(KEPT),
    ),
    (
        "guides/live-objects.md",
        "qsm open 'qsm://floor/prices?type=map'",
        NotHere(OPENED),
    ),
    (
        "guides/live-objects.md",
        "qsm open 'qsm://floor/prices?type=map' --json",
        NotHere(OPENED),
    ),
    (
        "guides/live-objects.md",
        "qsm open qsm://floor/news",
        NotHere(OPENED),
    ),
    (
        "guides/live-objects.md",
        "qsm open 'qsm://floor/prices?type=map' --web",
        NotHere(SHOWN),
    ),
    (
        "guides/live-objects.md",
        "qsm open 'qsm://floor/prices?type=map' --web 10.0.0.5:4489 --access-token-file ~/.config/qsm/page.token --host desk",
        NotHere(SHOWN),
    ),
    (
        "operate/doctor.md",
        "qsm doctor --listen",
        NotHere("tests/peers.rs runs it on hosts of a lab"),
    ),
    (
        "operate/doctor.md",
        "qsm doctor --peers HOST,HOST",
        NotHere("tests/peers.rs runs it on hosts of a lab"),
    ),
    (
        "operate/dissector.md",
        "qsm dissector > ~/.local/lib/wireshark/plugins/quicksilver.lua",
        Ends,
    ),
    (
        "operate/capture.md",
        "qsm capture /tmp/qsm",
        NotHere("tests/replay.rs runs it on hosts of a lab"),
    ),
    ("operate/capture.md", "qsm dissector > /tmp/qsm.lua", Ends),
    (
        "operate/latency-budget.md",
        "qsm sub prices/eur --latency-budget 5ms",
        Stays(SUBSCRIBED),
    ),
    (
        "operate/latency-budget.md",
        "qsm pub prices/eur --latency-budget total=5ms,batching=1ms,repair=2ms",
        NotHere(BUDGETED),
    ),
    (
        "operate/latency-budget.md",
        "qsm pub samples --batch-delay 2ms --batch-bytes 1000",
        NotHere(BUDGETED),
    ),
    (
        "operate/latency-budget.md",
        "qsm advise delay --buffer 2.5MB --rate 500Mbit/s",
        Ends,
    ),
    (
        "operate/latency-budget.md",
        "qsm advise queue --queued 54kB --rate 1Gbit/s",
        Ends,
    ),
    (
        "operate/latency-budget.md",
        "qsm advise budget --total 5ms --part batching=1ms --part repair=2ms",
        Ends,
    ),
    (
        "operate/latency.md",
        "qsm latency host",
        NotHere("tests/latency.rs runs it, for a shorter time"),
    ),
    (
        "operate/top.md",
        "qsm top",
        NotHere("tests/top.rs runs it, in a terminal"),
    ),
    (
        "operate/top.md",
        "qsm top --batch --count 1",
        NotHere("tests/top.rs runs it, with a service"),
    ),
    (
        "operate/dash.md",
        "qsm dash",
        NotHere("tests/dash.rs runs it, at a port that is free"),
    ),
    (
        "operate/dash.md",
        "qsm dash --access-token-file ~/.config/qsm/dash.token",
        NotHere("tests/dash.rs runs it, with a file of its own"),
    ),
    ("operate/explain.md", "qsm sub news", Stays(SUBSCRIBED)),
    ("operate/explain.md", "qsm explain news", Ends),
    (
        "operate/explain.md",
        "qsm explain news --message desk#17",
        NotHere("tests/explain.rs asks for a message that is there"),
    ),
    ("operate/explain.md", "qsm explain", Ends),
    (
        "operate/metrics.md",
        "qsm sub news --metrics 9464",
        NotHere("tests/stats.rs runs it, at ports that are free"),
    ),
    ("operate/bench.md", "qsm bench", NotHere(BENCH)),
    (
        "operate/bench.md",
        "qsm bench throughput --receivers 3 --raw",
        NotHere(BENCH),
    ),
    (
        "operate/bench.md",
        "qsm bench latency --rate 5000 --payload 100 --raw --plot latency.svg",
        NotHere(BENCH),
    ),
    (
        "operate/bench.md",
        "qsm bench latency --receivers 4 --loss 1",
        NotHere(BENCH),
    ),
    (
        "operate/bench.md",
        "qsm bench throughput --lab --receivers 4",
        NotHere(BENCH),
    ),
    (
        "operate/bench.md",
        "qsm bench --layout private --receivers 6",
        NotHere(BENCH),
    ),
    (
        "operate/bench.md",
        "qsm bench throughput --protect none,key,tokens,verified --receivers 2",
        NotHere(BENCH),
    ),
    (
        "operate/bench.md",
        "qsm bench throughput --lab --protect none,tokens --send-limit 112M",
        NotHere(BENCH),
    ),
    (
        "operate/bench.md",
        "qsm bench throughput --layout all --receivers 16 --loss 1",
        NotHere(BENCH),
    ),
    ("operate/bench.md", "qsm bench receive", NotHere(BENCH)),
    (
        "operate/bench.md",
        "qsm bench send --receivers 2",
        NotHere(BENCH),
    ),
    (
        "operate/bench.md",
        "qsm bench send --receivers 2 --rate 1000",
        NotHere(BENCH),
    ),
    (
        "operate/bench.md",
        "qsm bench receive --echo",
        NotHere(BENCH),
    ),
    (
        "operate/bench.md",
        "qsm bench send --rate 1000 --round-trip",
        NotHere(BENCH),
    ),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The commands of the shell blocks of a page, without comments, that call the program.
fn commands_of(page: &str) -> Vec<String> {
    let (mut shell, mut found) = (false, Vec::new());
    for line in page.lines() {
        if let Some(kind) = line.strip_prefix("```") {
            shell = kind == "sh";
        } else if shell {
            let command = line.split(" #").next().unwrap_or_default().trim();
            if command.split_whitespace().any(|word| word == "qsm") {
                found.push(command.to_owned());
            }
        }
    }
    found.retain(|command| !command.starts_with("cargo ") && !command.starts_with("dpkg "));
    found
}

/// Each page of the book with its name below `docs`, and the README.
fn pages() -> Vec<(String, PathBuf)> {
    let docs = root().join("docs");
    let mut found = vec![("README.md".to_owned(), root().join("README.md"))];
    for folder in [
        "start",
        "concepts",
        "guides",
        "operate",
        "reference",
        "internals",
    ] {
        for entry in fs::read_dir(docs.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            // Pictures lie beside their pages.
            if path.extension().is_none_or(|extension| extension != "md") {
                continue;
            }
            let name = path.strip_prefix(&docs).unwrap().display().to_string();
            found.push((name, path));
        }
    }
    found
}

#[test]
fn each_command_of_readme_and_book_is_run_or_excused() {
    let mut shown = BTreeSet::new();
    for (name, path) in pages() {
        for command in commands_of(&fs::read_to_string(path).unwrap()) {
            shown.insert((name.clone(), command));
        }
    }
    let known: BTreeSet<(String, String)> = COMMANDS
        .iter()
        .map(|(page, command, _)| ((*page).to_owned(), (*command).to_owned()))
        .collect();
    let unknown: Vec<_> = shown.difference(&known).collect();
    let gone: Vec<_> = known.difference(&shown).collect();
    assert!(unknown.is_empty(), "neither run nor excused: {unknown:?}");
    assert!(gone.is_empty(), "no page shows these any more: {gone:?}");
}

/// A home of its own, and a cluster that no other test meets.
struct Stage {
    cluster: Cluster,
    home: PathBuf,
}

impl Stage {
    fn new() -> Self {
        let cluster = Cluster::new();
        let home = cluster.folder.join("home");
        for folder in [
            ".local/share/bash-completion/completions",
            ".local/lib/wireshark/plugins",
            ".local/share/man/man1",
        ] {
            fs::create_dir_all(home.join(folder)).unwrap();
        }
        Self { cluster, home }
    }

    /// The command as a shell of a user runs it, where `qsm` is in the path and variables choose
    /// the test's cluster.
    fn shell(&self, command: &str) -> Command {
        let engine = self.cluster.folder.join("engine");
        let command = command.replace("/tmp/qsm", engine.to_str().unwrap());
        let exec = if command.starts_with("qsm ") {
            "exec "
        } else {
            ""
        };
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{exec}{command}")]);
        for (name, value) in qsm().get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        let folder = Path::new(QSM).parent().unwrap();
        let path = std::env::var("PATH").unwrap();
        shell.env("PATH", format!("{}:{path}", folder.display()));
        shell.env("HOME", &self.home);
        for (name, value) in self.cluster.variables() {
            shell.env(name, value);
        }
        shell
    }

    fn ends(&self, command: &str) -> String {
        let output = self.shell(command).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{command}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Starts it; its output once a line has this in it.
    fn stays(&self, command: &str, sign: &str) -> (Running, BufReader<impl Read + use<>>) {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut shell = self.shell(command);
        shell.stdin(Stdio::null());
        shell.stdout(writer.try_clone().unwrap()).stderr(writer);
        let running = Running(shell.spawn().unwrap());
        drop(shell);
        let mut lines = BufReader::new(reader);
        let (mut line, mut all) = (String::new(), String::new());
        while !line.contains(sign) {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0, "{command}: {all}");
            all.push_str(&line);
        }
        (running, lines)
    }
}

#[test]
fn commands_of_readme_and_book_do_what_they_are_shown_for() {
    let mut page = "";
    let mut stage = Stage::new();
    let mut staying = Vec::new();
    for (of, command, fate) in COMMANDS {
        if *of != page {
            page = of;
            end(&mut staying);
            stage = Stage::new();
        }
        match fate {
            NotHere(reason) => assert!(!reason.is_empty(), "{command}"),
            Ends => {
                stage.ends(command);
            }
            Stays(sign) => staying.push((*command, stage.stays(command, sign))),
            Publishes => {
                stage.ends(command);
                let word = command.split(' ').nth(1).unwrap();
                let (_, (_, lines)) = staying.last_mut().unwrap();
                let mut line = String::new();
                while line.trim() != word {
                    line.clear();
                    assert!(
                        lines.read_line(&mut line).unwrap() > 0,
                        "{command}: no {word}"
                    );
                }
            }
        }
    }
    end(&mut staying);
}

/// Asks all to end, the last first; each has to succeed, unless it had nothing to receive.
fn end<R: Read>(staying: &mut Vec<(&str, (Running, BufReader<R>))>) {
    while let Some((command, (mut running, mut lines))) = staying.pop() {
        let ended = running.0.try_wait().unwrap();
        if ended.is_none() {
            running.terminate();
        }
        let mut rest = String::new();
        lines.read_to_string(&mut rest).unwrap();
        let status = running.0.wait().unwrap();
        assert!(status.success(), "{command}: {status}: {rest}");
    }
}
