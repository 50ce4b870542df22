//! The header is what the code says. `UPDATE_HEADER=1 cargo test -p qsm-capi --test header` writes it.

use std::fmt::Write as _;
use std::path::Path;

use cbindgen::{Builder, DocumentationStyle, EnumConfig, Language, RenameRule, Style};
use qsm::ErrorCode;
use qsm_capi::Own;

/// Names that C has for the types.
const NAMES: [(&str, &str); 36] = [
    ("ABI", "QSM_ABI"),
    ("Code", "qsm_code"),
    ("EntryKind", "qsm_change"),
    ("EventKind", "qsm_event_kind"),
    ("ItemKind", "qsm_kind"),
    ("iovec", "struct iovec"),
    ("LineKind", "qsm_line_kind"),
    ("QsmBatch", "qsm_batch"),
    ("QsmBatching", "qsm_batching"),
    ("QsmBounds", "qsm_bounds"),
    ("QsmCause", "qsm_cause"),
    ("QsmDelivery", "qsm_delivery"),
    ("QsmEntries", "qsm_entries"),
    ("QsmEntry", "qsm_entry"),
    ("QsmEntryLoan", "qsm_entry_loan"),
    ("QsmEvent", "qsm_event"),
    ("QsmEvents", "qsm_events"),
    ("QsmFlushed", "qsm_flushed"),
    ("QsmItem", "qsm_item"),
    ("QsmKeeper", "qsm_keeper"),
    ("QsmKeeping", "qsm_keeping"),
    ("QsmLine", "qsm_line"),
    ("QsmLineLoan", "qsm_line_loan"),
    ("QsmLines", "qsm_lines"),
    ("QsmLoan", "qsm_loan"),
    ("QsmLog", "qsm_log"),
    ("QsmLogBounds", "qsm_log_bounds"),
    ("QsmMap", "qsm_map"),
    ("QsmMapBounds", "qsm_map_bounds"),
    ("QsmNode", "qsm_node"),
    ("QsmOverflow", "qsm_overflow"),
    ("QsmPast", "qsm_past"),
    ("QsmPublisher", "qsm_publisher"),
    ("QsmQueue", "qsm_queue"),
    ("QsmSettings", "qsm_settings"),
    ("QsmSubscription", "qsm_subscription"),
];

const ABOUT: &str = "\
/* Quicksilver for C: reliable multicast to thousands of overlapping groups.
 *
 * Made from crates/qsm-capi; its guide is docs/guides/c.md. Link with -lqsm.
 *
 * Calls return 0, or the number of an error: those of this header, or of the table in
 * docs/reference/errors.md. qsm_error() has its text. No thread of the library calls the program.
 */";

fn header() -> String {
    let mut config = cbindgen::Config {
        language: Language::C,
        style: Style::Type,
        header: Some(ABOUT.to_owned()),
        include_guard: Some("QSM_H".to_owned()),
        cpp_compat: true,
        documentation_style: DocumentationStyle::C99,
        usize_is_size_t: true,
        sys_includes: vec!["sys/uio.h".to_owned()],
        trailer: Some(codes()),
        enumeration: EnumConfig {
            rename_variants: RenameRule::QualifiedScreamingSnakeCase,
            ..EnumConfig::default()
        },
        ..cbindgen::Config::default()
    };
    config.export.include = ["ItemKind", "EventKind", "QsmDelivery", "QsmOverflow"]
        .map(str::to_owned)
        .into();
    let renamed = NAMES.map(|(rust, c)| (rust.to_owned(), c.to_owned()));
    config.export.rename = renamed.into_iter().collect();
    let made = Builder::new()
        .with_crate(env!("CARGO_MANIFEST_DIR"))
        .with_config(config)
        .generate()
        .expect("the interface can be read");
    let mut text = Vec::new();
    made.write(&mut text);
    speak_c(&String::from_utf8(text).expect("a header is text"))
}

/// Comments with the names that C has, without the marks of Rust's documentation.
fn speak_c(text: &str) -> String {
    let mut text = text
        .replace("[`", "`")
        .replace("`]", "`")
        .replace("# Safety", "Requires:");
    for (rust, c) in NAMES.iter().filter(|(rust, _)| rust.starts_with("Qsm")) {
        text = text.replace(&format!("`{rust}`"), &format!("`{c}`"));
    }
    text
}

/// Numbers of errors.
fn codes() -> String {
    let mut text = "// Codes of this interface, then those of the library.\n".to_owned();
    let mut define = |name: String, number: u16, meaning: &str| {
        let name = screaming(&name);
        writeln!(text, "#define QSM_{name} {number} // {meaning}").expect("memory");
    };
    for own in Own::ALL {
        define(format!("{own:?}"), own as u16, own.meaning());
    }
    for code in ErrorCode::ALL {
        define(format!("{code:?}"), code.number(), code.meaning());
    }
    text
}

fn screaming(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(letter.to_ascii_uppercase());
    }
    text
}

#[test]
fn the_header_is_what_the_code_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/qsm.h");
    let made = header();
    if std::env::var_os("UPDATE_HEADER").is_some() {
        std::fs::write(&path, &made).expect("the header can be written");
    }
    let kept = std::fs::read_to_string(&path).expect("the header can be read");
    assert!(
        made == kept,
        "{} is old: UPDATE_HEADER=1 cargo test -p qsm-capi --test header",
        path.display()
    );
}
