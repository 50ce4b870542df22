//! What Rust files may contain.

use tidy::{Repository, Source};

/// Folders that know where things are in a packet; all others ask `Kind::peek` and `Hop::peek`.
const LAYOUT: [&str; 2] = ["crates/qsm-wire/", "fuzz/"];
/// Longest Rust file, lines. Longer ones hold more than one idea.
const LINES_MAX: usize = 800;
/// Behaviour here is a function of configuration, seed and inputs.
const PURE: [&str; 9] = [
    "crates/qsm-metrics/src/",
    "crates/qsm-wire/src/",
    "crates/qsm-proto/src/",
    "crates/qsm-relay/src/",
    "crates/qsm-relay-sim/src/",
    "crates/qsm-plan/src/",
    "crates/qsm-gms/src/",
    "crates/qsm-testnet/src/",
    "crates/qsm-sim/src/",
];
/// What would let the world in, or an order that changes from run to run.
const BANNED: [&str; 12] = [
    "Instant::now",
    "SystemTime",
    "thread::",
    "HashMap",
    "HashSet",
    "RandomState",
    "std::env",
    "std::fs",
    "std::process",
    "UdpSocket",
    "rand",
    "getrandom",
];
/// Where a thread can wait for another.
const LOCKS: [&str; 5] = ["Mutex", "RwLock", "Condvar", "Once", "mpsc"];
/// Where one may, outside of the pure crates: those who sleep until a queue changes (it is entered
/// only if somebody sleeps), what is told beside a queue (only where something is missing), the
/// place of a core whose thread sleeps (senders only try), answers to commands, and the end of a
/// thread; in attached processes, whose threads take turns at a ring of one writer and one reader,
/// at the queue of a pattern, and the list of them; the groups that a pattern has found, and names of
/// receivers that a flush has asked for; the result of a thread that asks for a task; blocks of a
/// recording, which the core hands over without waiting. Nothing else is
/// on a message's way, and none of the engine's.
const WAITING: [&str; 20] = [
    "crates/qsm-record/src/disk.rs",
    "crates/qsm/src/attach/client.rs",
    "crates/qsm/src/attach/funnel.rs",
    "crates/qsm/src/attach/link.rs",
    "crates/qsm/src/attach/session.rs",
    "crates/qsm/src/attach/share.rs",
    "crates/qsm/src/attach/subscription.rs",
    "crates/qsm/src/handle/errand.rs",
    "crates/qsm/src/handle/follow.rs",
    "crates/qsm/src/handle/names.rs",
    "crates/qsm/src/handle/service.rs",
    "crates/qsm/src/handoff/aside.rs",
    "crates/qsm/src/handoff/reply.rs",
    "crates/qsm/src/handoff/shared/core.rs",
    "crates/qsm/src/handoff/shared/mod.rs",
    "crates/qsm/src/handoff/sleepers.rs",
    "crates/qsm/src/runtime/core/loan.rs",
    "crates/qsm/src/runtime/core/start.rs",
    "crates/qsm/src/runtime/engine.rs",
    "crates/qsm/src/runtime/service.rs",
];
/// The crates that a message passes through at a node.
const DATA_PATH: [&str; 7] = [
    "crates/qsm-metrics/src/",
    "crates/qsm-wire/src/",
    "crates/qsm-proto/src/",
    "crates/qsm-gms/src/",
    "crates/qsm-net/src/",
    "crates/qsm-record/src/",
    "crates/qsm/src/",
];
/// Where decisions must be the same on every platform.
const INTEGER: [&str; 5] = [
    "crates/qsm-metrics/src/",
    "crates/qsm-proto/src/",
    "crates/qsm-relay/src/",
    "crates/qsm-plan/src/",
    "crates/qsm-gms/src/",
];
/// Where the operating system is called, or instructions that not every processor has.
const UNSAFE: [&str; 8] = [
    "crates/qsm-net/",
    "crates/qsm-capi/",
    "crates/qsm-java/",
    "crates/qsm-python/",
    "crates/groupcast/",
    "crates/qsm-parity/",
    "lab/",
    "bench/",
];
/// A counting allocator for tests cannot be written without it.
const ALLOCATION_TEST: &str = "/tests/allocation.rs";
/// How far above an unsafe block its reason may stand, lines: a statement may begin before it.
const REASON_LINES: usize = 8;
/// Marks of unfinished work.
const UNFINISHED: [&str; 5] = ["FIXME", "XXX", "todo!", "unimplemented!", "dbg!"];

/// Every Rust file with its path.
fn sources() -> Vec<(String, Source)> {
    let repository = Repository::open().expect("the repository can be read");
    let paths = repository.ending(".rs");
    paths
        .map(|path| (path.to_owned(), Source::new(&repository.text(path))))
        .collect()
}

fn assert_none(faults: &[String]) {
    assert!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults.join("\n")
    );
}

#[test]
fn files_are_short_enough_to_be_one_idea() {
    let mut faults = Vec::new();
    for (path, source) in sources() {
        if source.len() > LINES_MAX {
            faults.push(format!(
                "{path}: {} lines, at most {LINES_MAX}",
                source.len()
            ));
        }
    }
    assert_none(&faults);
}

fn banned(folders: &[&str], words: &[&str]) -> Vec<String> {
    let mut faults = Vec::new();
    let sources = sources();
    let inside = |path: &str| folders.iter().any(|folder| path.starts_with(folder));
    for (path, source) in sources
        .iter()
        .filter(|(path, _)| inside(path) && !Source::is_test(path))
    {
        for (number, line) in source.product() {
            for word in words.iter().filter(|word| Source::has_word(line, word)) {
                faults.push(format!("{path}:{number}: {word} is banned here"));
            }
        }
    }
    faults
}

#[test]
fn pure_crates_see_no_clock_thread_environment_or_hash_order() {
    assert_none(&banned(&PURE, &BANNED));
}

#[test]
fn messages_pass_no_lock() {
    let mut faults = banned(&DATA_PATH, &LOCKS);
    faults.retain(|fault| !WAITING.iter().any(|path| fault.starts_with(path)));
    assert_none(&faults);
}

#[test]
fn protocol_decisions_are_made_without_floating_point() {
    assert_none(&banned(&INTEGER, &["f32", "f64"]));
}

#[test]
fn only_the_wire_crate_knows_the_bytes_of_a_packet() {
    let mut faults = Vec::new();
    for (path, source) in sources() {
        if LAYOUT.iter().any(|folder| path.starts_with(folder)) {
            continue;
        }
        for (number, line) in source.code() {
            let value = ["Kind::", "Hop::"].iter().any(|name| line.contains(name));
            if value && line.contains(" as u8") {
                faults.push(format!("{path}:{number}: compares bytes instead of kinds"));
            }
        }
    }
    assert_none(&faults);
}

#[test]
fn unsafe_stays_at_the_operating_system() {
    let mut faults = Vec::new();
    for (path, source) in sources() {
        let allowed = UNSAFE.iter().any(|folder| path.starts_with(folder));
        if allowed || path.ends_with(ALLOCATION_TEST) {
            continue;
        }
        for (number, _) in source
            .code()
            .filter(|(_, line)| Source::has_word(line, "unsafe"))
        {
            faults.push(format!(
                "{path}:{number}: unsafe is allowed only in {UNSAFE:?}"
            ));
        }
    }
    assert_none(&faults);
}

#[test]
fn pure_crates_forbid_unsafe_code() {
    let repository = Repository::open().expect("the repository can be read");
    for folder in PURE {
        let text = repository.text(&format!("{folder}lib.rs"));
        assert!(
            text.contains("#![forbid(unsafe_code)]"),
            "{folder}lib.rs does not forbid it"
        );
    }
}

#[test]
fn every_unsafe_block_says_why_it_is_sound() {
    let mut faults = Vec::new();
    for (path, source) in sources() {
        for (number, line) in source.code() {
            let block = Source::has_word(line, "unsafe")
                && (line.contains("unsafe {") || line.contains("unsafe impl"));
            let first = number.saturating_sub(REASON_LINES);
            let reason = (first..=number).any(|at| source.comment(at).contains("SAFETY:"));
            if block && !reason {
                faults.push(format!("{path}:{number}: no SAFETY comment"));
            }
        }
    }
    assert_none(&faults);
}

#[test]
fn nothing_is_marked_as_unfinished() {
    let mut faults = Vec::new();
    for (path, source) in sources() {
        for (number, line) in source.code() {
            let comment = source.comment(number);
            for word in UNFINISHED {
                if Source::has_word(line, word) || Source::has_word(comment, word) {
                    faults.push(format!("{path}:{number}: {word}"));
                }
            }
            if comment.contains("TODO") && !comment.contains("TODO(#") {
                faults.push(format!("{path}:{number}: TODO without an open issue"));
            }
        }
    }
    assert_none(&faults);
}

/// A skip that the harness swallows is a test that passes by: the lab tells it, and can forbid it.
#[test]
fn tests_are_skipped_by_the_labs_word_only() {
    let repository = Repository::open().expect("the repository can be read");
    let mut faults = Vec::new();
    let tests = repository
        .ending(".rs")
        .filter(|path| Source::is_test(path));
    // Tests of that word say it.
    for path in tests.filter(|path| *path != "lab/tests/skip.rs") {
        let text = repository.text(path);
        let lines = text.lines().zip(1..);
        let own = lines.filter(|(line, _)| {
            let line = line.to_lowercase();
            line.contains(concat!("\"", "skipp")) && !line.contains("assert")
        });
        faults.extend(own.map(|(_, number)| format!("{path}:{number}: use `lab::skip`")));
    }
    assert_none(&faults);
}

/// The functions of a text whose parameters take a tuple apart. A limit on parameters is no reason
/// to pack them: they become a struct where they are a thing, and plain parameters where they are
/// not.
fn tuple_parameters(text: &str) -> Vec<&str> {
    let starts = text.match_indices("fn ").map(|(at, _)| &text[at + 3..]);
    let found = starts.filter(|rest| {
        let parameters = rest.find(['(', '{', ';']).map(|at| rest.split_at(at).1);
        parameters.is_some_and(|parameters| parameters.starts_with('(') && packs(parameters))
    });
    found
        .map(|rest| rest.split(['(', '<']).next().unwrap_or(rest))
        .collect()
}

/// Whether a parameter of this list, which begins with its parenthesis, is a tuple pattern.
fn packs(list: &str) -> bool {
    let (mut depth, mut fresh) = (0, false);
    for letter in list.chars() {
        match letter {
            '(' if depth == 1 && fresh => return true,
            '(' | '[' | '<' => {
                depth += 1;
                fresh = depth == 1;
            }
            ')' | ']' if depth == 1 => return false,
            ')' | ']' | '>' => depth -= 1,
            ',' if depth == 1 => fresh = true,
            _ if letter.is_whitespace() => {}
            _ => fresh = false,
        }
    }
    false
}

#[test]
fn parameters_are_not_packed_into_tuples() {
    assert_eq!(
        tuple_parameters("fn a(x: (u8, u8)) {} fn b<T>(x: u8, (y, z): (u8, u8)) {}"),
        ["b"]
    );
    let mut faults = Vec::new();
    for (path, source) in sources() {
        let outside = path.contains("/benches/") || path.contains("/examples/");
        if Source::is_test(&path) || outside {
            continue;
        }
        let lines: Vec<&str> = source.product().map(|(_, line)| line).collect();
        let text = lines.join("\n");
        let found = tuple_parameters(&text).into_iter();
        faults.extend(found.map(|name| format!("{path}: {name}")));
    }
    assert_none(&faults);
}

/// Paragraphs of doc comments, and of them those that begin with a question: what something is, in
/// the words of an asker, where a noun or a verb would say it.
fn questions(text: &str) -> (usize, usize) {
    const WORDS: [&str; 7] = ["What", "Whether", "How", "Who", "Whose", "Whom", "That"];
    let (mut paragraphs, mut questions, mut inside) = (0, 0, false);
    for line in text.lines().map(str::trim_start) {
        let comment = line
            .strip_prefix("///")
            .or_else(|| line.strip_prefix("//!"));
        let words = comment.map(str::trim).filter(|words| !words.is_empty());
        if let (Some(words), false) = (words, inside) {
            paragraphs += 1;
            let first = words.split_whitespace().next().unwrap_or_default();
            questions += usize::from(WORDS.contains(&first));
        }
        inside = words.is_some();
    }
    (paragraphs, questions)
}

#[test]
fn doc_comments_seldom_begin_with_a_question() {
    let text =
        "/// What it is.\n/// How so.\n///\n/// Whether it is.\nlet it; // What.\n//! A noun.\n";
    assert_eq!(questions(text), (3, 2));
    let repository = Repository::open().expect("the repository can be read");
    // The library's is what users read; the rest is to become less, and not more.
    for (folder, per_mille) in [("crates/qsm/src/", 80), ("", 110)] {
        let paths = repository.ending(".rs");
        let (mut all, mut asked) = (0, 0);
        for path in paths.filter(|path| path.starts_with(folder)) {
            let (paragraphs, questions) = questions(&repository.text(path));
            (all, asked) = (all + paragraphs, asked + questions);
        }
        assert!(
            asked * 1000 <= all * per_mille,
            "{asked} of {all} doc comments below {folder:?} begin with a question, more than \
             {per_mille} in a thousand: begin with a noun or a verb (CONTRIBUTING.md)"
        );
    }
}
