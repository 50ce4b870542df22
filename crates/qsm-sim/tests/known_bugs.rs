//! Known bugs are caught, each by drawn runs and within so many seeds: checkers that notice
//! nothing would let a swarm pass that tests nothing (style 3.10, mutation check).

use core::time::Duration;
use std::thread;

use qsm_gms::GroupPace;
use qsm_proto::{OriginDemand, Pace, Recovery};
use qsm_sim::{
    Fault, Flow, Garbage, Insider, Lie, Mischief, NetworkOptions, SimOptions, SwarmOptions, draw,
    run,
};

/// Bugs that show only where a sender dies while others still miss some of its packets. The swarm
/// draws that too seldom: these runs are drawn with another fault, see [`death`], and no merged regions.
const DEATHS: &[&str] = &["dead-forgotten", "copy-denied"];

/// Bugs that show where a receiver stands still for a while, and nothing else is wrong: see [`pause`].
const PAUSES: &[&str] = &[
    "away-excluded",
    "silence-ignored",
    "nothing-retained",
    "caught-up-unasked",
];

/// Bugs that show where a sender has to wait for a receiver, and nothing else is wrong: see [`slow`].
const SLOW: &[&str] = &["slowness-ignored"];

/// Bugs that show where a receiver stands still while more is sent than is kept for it, and nothing
/// else is wrong: see [`overrun`].
const OVERRUNS: &[&str] = &["numbers-withheld", "overrun-unsaid"];

/// Bugs that show where a receiver stands still for longer than messages live: see [`aged`].
const LIFETIMES: &[&str] = &["lifetime-halved", "lifetime-extended"];

/// Bugs that show where more is lost than may be sent again at once: see [`limited`].
const LIMITS: &[&str] = &["limit-raised"];
/// Bugs that show where no receiver may hold a sender, and one is slow: see [`uncontrolled`].
const MINIMA: &[&str] = &["minimum-forgotten"];
/// Bugs that show where a receiver that is slow is to be shut out: see [`expelled`].
const FATES: &[&str] = &["laggard-kept"];
/// Bugs that show where a sender has more to send than its node may: see [`throttled`].
const THROTTLES: &[&str] = &["send-limit-raised"];
/// Bugs that show where packets of another cluster come, and nothing else is wrong: see [`invaded`].
const INVASIONS: &[&str] = &["foreign-ignored"];
/// Bugs that show where strangers send, and nothing else is wrong: see [`estranged`].
const STRANGERS: &[&str] = &["tag-ignored"];
/// Bugs that show where a member lies, and little is sent again in time: see [`betrayed`].
const INSIDERS: &[&str] = &["name-believed", "proof-weakened"];

/// A bug, the checkers that may notice it, and the number of seeds within which one of them does.
const BUGS: &[(&str, &[&str], u64)] = &[
    ("drop", &["order", "completeness"], 5),
    ("double", &["duplicate"], 5),
    ("swap", &["order"], 5),
    ("corrupt", &["creation"], 5),
    ("repair-dropped", &["completeness", "liveness", "rest"], 5),
    // Who is the only cacher of a packet and misses it asks the sender, by a NAK.
    (
        "nak-ignored",
        &["planes", "traffic", "copies", "completeness", "progress"],
        100,
    ),
    ("duplicate-not-filtered", &["duplicate"], 5),
    ("stable-early", &["watermarks"], 5),
    ("cutoff-not-late", &["cutoff"], 5),
    ("view-without-opening", &["completeness", "order"], 5),
    ("token-dropped", &["completeness", "liveness", "rest"], 5),
    ("rate-ignored", &["rate"], 60),
    ("memory-ignored", &["memory"], 10),
    ("view-reordered", &["agreement"], 5),
    ("dead-forgotten", &["survivors"], 30),
    ("copy-denied", &["copies"], 30),
    (
        "damage-believed",
        &["completeness", "liveness", "rest", "cutoff", "watermarks"],
        20,
    ),
    ("away-excluded", &["pauses"], 5),
    ("silence-ignored", &["delays"], 20),
    ("nothing-retained", &["flush"], 20),
    ("caught-up-unasked", &["flush"], 60),
    ("slowness-ignored", &["slowness"], 5),
    // Hints divide nodes in a fifth of the runs.
    ("hints-ignored", &["divisions"], 20),
    ("numbers-withheld", &["completeness"], 5),
    ("overrun-unsaid", &["flush"], 5),
    ("prompt-doubled", &["prompt"], 10),
    ("prompt-silent", &["prompt"], 10),
    ("lifetime-halved", &["expiry"], 5),
    ("lifetime-extended", &["expiry"], 5),
    ("limit-raised", &["repairs"], 5),
    ("minimum-forgotten", &["minimum"], 5),
    ("laggard-kept", &["slowness"], 5),
    ("send-limit-raised", &["sending"], 5),
    // A quarter of the runs has groups whose messages wait.
    ("batch-stretched", &["batching"], 30),
    // A share less than all is drawn for a quarter of the runs.
    ("unwanted-ignored", &["plans"], 60),
    // Addresses are few in a quarter of the runs.
    ("budget-ignored", &["addresses"], 20),
    ("foreign-ignored", &["foreign"], 5),
    ("credit-lost", &["credit"], 10),
    ("tag-ignored", &["tagged"], 5),
    ("name-believed", &["insider"], 20),
    ("proof-weakened", &["insider"], 5),
];

/// In place of all faults of the run: half of the others do not hear the first sender at first, and
/// soon it dies.
fn death(options: SimOptions) -> SimOptions {
    let Some(flow) = options.flows.first() else {
        return options;
    };
    let others = (1..=options.nodes).filter(|host| *host != flow.host);
    let at = |millis| flow.start + Duration::from_millis(millis);
    let cut = Fault::Split {
        from: vec![flow.host],
        to: others.step_by(2).collect(),
        both_ways: false,
    };
    let crash = Fault::Crash { host: flow.host };
    let faults = vec![(at(50), cut), (at(150), crash), (at(160), Fault::Heal)];
    SimOptions {
        faults,
        insider: None,
        ..options
    }
}

/// In place of all faults, changes and defects of the run: while the first sender publishes, a member
/// of its group begins to sleep for nine seconds, half of the time that it may be away.
fn pause(options: SimOptions) -> SimOptions {
    let Some(flow) = options.flows.first().copied() else {
        return options;
    };
    let members = &options.groups[flow.group].subscribers;
    let Some(host) = members.iter().copied().find(|host| *host != flow.host) else {
        return options;
    };
    let flow = Flow {
        messages: flow.messages.min(50),
        interval: Duration::from_millis(20),
        start: Duration::from_secs(1),
        ..flow
    };
    let time = Duration::from_secs(9);
    SimOptions {
        flows: vec![flow],
        churn: Vec::new(),
        faults: vec![(Duration::from_millis(1100), Fault::Sleep { host, time })],
        network: NetworkOptions::PERFECT,
        recovery: Recovery::default(),
        pace: Pace::default(),
        duration: Duration::from_secs(15),
        gone_after: Duration::from_secs(18),
        insider: None,
        ..options
    }
}

/// The same with a member that is slow for nine seconds, while the first sender has four times as much
/// to send as it can read.
fn slow(options: SimOptions) -> SimOptions {
    let mut run = pause(options);
    let [(_, fault)] = &mut run.faults[..] else {
        return run;
    };
    let Fault::Sleep { host, time } = *fault else {
        return run;
    };
    *fault = Fault::Slow {
        host,
        per_datagram: Duration::from_millis(4),
        time,
    };
    let flows = run.flows.iter().map(|flow| Flow {
        messages: 10_000,
        interval: Duration::from_millis(1),
        burst: 1,
        ..*flow
    });
    SimOptions {
        flows: flows.collect(),
        network: NetworkOptions {
            receive_buffer_bytes: 65_536,
            ..NetworkOptions::PERFECT
        },
        slow_after: Duration::from_secs(1),
        ..run
    }
}

/// The same with a member that sleeps for nine seconds, while the first sender publishes much more than
/// it keeps, and meanwhile something to another group, of which nothing comes before or after.
fn overrun(options: SimOptions) -> SimOptions {
    let mut run = pause(options);
    let [flow] = run.flows[..] else {
        return run;
    };
    let mut group = run.groups[flow.group].clone();
    group.publishers.insert(flow.host);
    let other = Flow {
        group: run.groups.len(),
        start: Duration::from_secs(2),
        ..flow
    };
    let much = Flow {
        messages: 10_000,
        interval: Duration::from_millis(1),
        burst: 1,
        ..flow
    };
    run.groups.push(group);
    run.flows = vec![much, other];
    run.limits.retention_bytes = 1 << 17;
    run
}

/// The same with messages that live for a while, of which some are younger than that when the member
/// goes on, and others are not.
fn aged(options: SimOptions) -> SimOptions {
    let mut run = pause(options);
    let [flow] = &mut run.flows[..] else {
        return run;
    };
    flow.messages = 450;
    let group = flow.group;
    run.lifetimes = [(group, Duration::from_secs(4))].into();
    run
}

/// In place of all faults, changes and defects of the run: the first sender publishes 2 MB a second, of
/// which a tenth is lost, and each node may send 100 kB a second again.
fn limited(options: SimOptions) -> SimOptions {
    let run = pause(options);
    let flows = run.flows.iter().map(|flow| Flow {
        messages: 2000,
        interval: Duration::from_millis(5),
        burst: 10,
        ..*flow
    });
    SimOptions {
        flows: flows.collect(),
        faults: Vec::new(),
        network: NetworkOptions {
            loss_ppm: 100_000,
            ..NetworkOptions::PERFECT
        },
        repair_bytes_per_second: 100_000,
        ..run
    }
}

/// The same as [`slow`], with a member that nobody waits for and nobody sets aside.
fn uncontrolled(options: SimOptions) -> SimOptions {
    let mut run = slow(options);
    run.slow_after = Duration::ZERO;
    let groups = 0..run.groups.len();
    run.paces = groups
        .map(|group| (group, GroupPace::Uncontrolled))
        .collect();
    run
}

/// The same as [`slow`], with groups that shut out who is slow.
fn expelled(options: SimOptions) -> SimOptions {
    let mut run = slow(options);
    let pace = GroupPace::Expels(run.slow_after);
    run.paces = (0..run.groups.len()).map(|group| (group, pace)).collect();
    run
}

/// In place of all faults, changes and defects of the run: the first sender publishes more than its node may
/// send.
fn throttled(options: SimOptions) -> SimOptions {
    let mut run = limited(options);
    run.network = NetworkOptions::PERFECT;
    run.repair_bytes_per_second = 0;
    run.pace.node_bytes_per_second = 100_000;
    run
}

/// In place of all faults, changes and defects of the run: while the first sender publishes, packets of
/// another cluster come to a member of its group.
fn invaded(options: SimOptions) -> SimOptions {
    let mut run = pause(options);
    for (_, fault) in &mut run.faults {
        if let Fault::Sleep { host, .. } = *fault {
            *fault = Fault::Foreign { host };
        }
    }
    run
}

/// In place of all faults, changes and defects of the run: while the first sender publishes, a stranger
/// sends forged datagrams to a member of its group.
fn estranged(options: SimOptions) -> SimOptions {
    let mut run = pause(options);
    run.tagged = true;
    for (_, fault) in &mut run.faults {
        if let Fault::Sleep { host, .. } = *fault {
            *fault = Fault::Garbage {
                host,
                kind: Garbage::Forged,
                count: 50,
            };
        }
    }
    run
}

/// In place of all faults, changes and defects of the run: a tenth of all packets is lost, and the last member
/// says that everybody has everything, or sends messages in the names of others.
fn betrayed(name: &str, options: SimOptions) -> SimOptions {
    let run = limited(options);
    let (lie, origin) = match name {
        "proof-weakened" => (Lie::Names, Some(OriginDemand::Verified)),
        _ => (Lie::Leadership, None),
    };
    let host = run.flows.first().map_or(1, |flow| {
        let mut members = run.groups[flow.group].subscribers.iter().rev();
        members
            .find(|host| **host != flow.host)
            .map_or(1, |host| *host)
    });
    SimOptions {
        repair_bytes_per_second: 0,
        insider: Some(Insider {
            host,
            lies: [lie].into(),
            from: Duration::from_secs(1),
            until: Duration::from_secs(10),
        }),
        origin,
        ..run
    }
}

/// The run without proof of origin, which shows some bugs in another way, and without what only that bears.
fn undemanding(mut run: SimOptions) -> SimOptions {
    run.origin = None;
    if let Some(insider) = &mut run.insider {
        insider.lies.remove(&Lie::Names);
    }
    run
}

/// The first seed that fails with the bug and not without it, and what is said of it.
fn caught(name: &str, mischief: Mischief, seeds: u64) -> Option<(u64, String)> {
    (0..seeds).find_map(|seed| {
        let sizes = SwarmOptions {
            merging: !DEATHS.contains(&name),
            ..SwarmOptions::default()
        };
        let drawn = undemanding(draw(seed, &sizes));
        let drawn = match name {
            _ if DEATHS.contains(&name) => death(drawn),
            _ if PAUSES.contains(&name) => pause(drawn),
            _ if SLOW.contains(&name) => slow(drawn),
            _ if OVERRUNS.contains(&name) => overrun(drawn),
            _ if LIFETIMES.contains(&name) => aged(drawn),
            _ if LIMITS.contains(&name) => limited(drawn),
            _ if MINIMA.contains(&name) => uncontrolled(drawn),
            _ if FATES.contains(&name) => expelled(drawn),
            _ if THROTTLES.contains(&name) => throttled(drawn),
            _ if INVASIONS.contains(&name) => invaded(drawn),
            _ if STRANGERS.contains(&name) => estranged(drawn),
            _ if INSIDERS.contains(&name) => betrayed(name, drawn),
            _ => drawn,
        };
        let sound = SimOptions {
            trace_lines: 0,
            ..drawn
        };
        let buggy = SimOptions {
            mischief,
            ..sound.clone()
        };
        let failure = run(buggy).err()?;
        run(sound).ok()?;
        Some((seed, failure.violation.to_string()))
    })
}

#[test]
fn every_known_bug_is_caught_within_its_number_of_seeds() {
    let named = |name: &str| Mischief::ALL.iter().find(|(known, _)| *known == name);
    assert_eq!(BUGS.len(), Mischief::ALL.len(), "a bug is in no list");
    let judge = move |(name, checkers, seeds): &(&str, &[&str], u64)| {
        let (_, mischief) = named(name).expect("the bug has this name");
        match caught(name, *mischief, *seeds) {
            None => Some(format!("{name} is not caught within {seeds} seeds")),
            Some((seed, said)) => {
                println!("{name}: seed {seed}, {said}");
                let checker = said.split(':').next().unwrap_or_default();
                (!checkers.contains(&checker))
                    .then(|| format!("{name} is caught by another checker, seed {seed}: {said}"))
            }
        }
    };
    let faults: Vec<String> = thread::scope(|scope| {
        let half = BUGS.len() / 2;
        let work =
            move |bugs: &'static [(&str, &[&str], u64)]| bugs.iter().filter_map(judge).collect();
        let first = scope.spawn(move || -> Vec<String> { work(&BUGS[..half]) });
        let mut faults: Vec<String> = work(&BUGS[half..]);
        faults.extend(first.join().unwrap());
        faults
    });
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
