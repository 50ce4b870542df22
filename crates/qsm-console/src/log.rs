//! Notices: what a command says on stderr while it runs, as lines of text or as objects of JSON.
//!
//! A [`Note`] has a level, the stable name of what happened, and a sentence. It goes through `tracing`, so that a
//! program that embeds commands may take it elsewhere; [`start`] writes it on stderr. Of each name some hundred are
//! written at once, and then twenty a second; the next one says how many were left out.
//!
//! Nothing of this is known to the pure crates: they count and return what happened, and the edges say it.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{Write, stderr};
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime};

use clap::{Args, ValueEnum};
use qsm::metrics::Object;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::utc;

/// What all notices have as their target in `tracing`.
const TARGET: &str = "qsm";
/// Notices of one name that are written at once.
const BURST: u32 = 200;
/// Notices of one name that are written in a second afterwards.
const PER_SECOND: u32 = 20;

/// Names of what happens. They are stable: programs that read notices know them.
pub const EVENTS: [&str; 62] = [
    "address-lost",
    "admitted",
    "alone",
    "away",
    "away-here",
    "back",
    "conflict",
    "costs",
    "damaged",
    "dropped",
    "ending",
    "events-dropped",
    "excluded",
    "expelled",
    "failed",
    "forged",
    "goodbye",
    "holds",
    "joined",
    "keeping",
    "left-out",
    "linked",
    "list-refused",
    "live",
    "loopback",
    "looped",
    "lost",
    "metrics",
    "metrics-not-sent",
    "mismatched",
    "moved",
    "not-cloned",
    "not-kept",
    "not-listening",
    "not-live",
    "not-permitted",
    "open",
    "other",
    "other-service",
    "over-budget",
    "published",
    "reach",
    "received",
    "refused",
    "region-view",
    "replaced",
    "service-embedded",
    "service-found",
    "service-lost",
    "service-not-embedded",
    "service-yielded",
    "standing-by",
    "stranger",
    "subscribed",
    "taken-over",
    "unconfirmed",
    "unicast",
    "unlinked",
    "unopened",
    "unserved",
    "waiting",
    "yielded",
];

/// Options of notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
pub struct LogOptions {
    /// Write notices on stderr as lines of text, or as a JSON object in each line
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// Write notices of this level and graver ones; what --verbose adds is info
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = LogLevel::Info)]
    pub log: LogLevel,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            log_format: LogFormat::Text,
            log: LogLevel::Info,
        }
    }
}

/// Form of notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people
    Text,
    /// One JSON object in a line
    Json,
}

/// Gravity of notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum LogLevel {
    /// The command fails
    Error,
    /// Messages are lost or late, or may be
    Warn,
    /// What happens
    Info,
}

impl LogLevel {
    fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
        }
    }

    fn of(level: tracing::Level) -> Self {
        match level {
            tracing::Level::ERROR => Self::Error,
            tracing::Level::WARN => Self::Warn,
            _ => Self::Info,
        }
    }
}

/// Something that is said.
#[derive(Debug, Clone, Copy)]
pub struct Note<'a> {
    level: LogLevel,
    event: &'static str,
    line: &'a str,
    group: Option<&'a str>,
    sender: Option<&'a str>,
    messages: Option<u64>,
    address: Option<&'a str>,
    remedy: Option<&'a str>,
}

impl<'a> Note<'a> {
    /// What happens.
    #[must_use]
    pub fn info(event: &'static str, line: &'a str) -> Self {
        Self::new(LogLevel::Info, event, line)
    }

    /// Messages are lost or late, or may be.
    #[must_use]
    pub fn warn(event: &'static str, line: &'a str) -> Self {
        Self::new(LogLevel::Warn, event, line)
    }

    /// The command fails.
    #[must_use]
    pub fn error(event: &'static str, line: &'a str) -> Self {
        Self::new(LogLevel::Error, event, line)
    }

    fn new(level: LogLevel, event: &'static str, line: &'a str) -> Self {
        debug_assert!(EVENTS.contains(&event), "{event} is not in EVENTS");
        Self {
            level,
            event,
            line,
            group: None,
            sender: None,
            messages: None,
            address: None,
            remedy: None,
        }
    }

    /// With the group it is about.
    #[must_use]
    pub fn group(mut self, group: &'a str) -> Self {
        self.group = Some(group);
        self
    }

    /// With the sender it is about.
    #[must_use]
    pub fn sender(mut self, sender: &'a str) -> Self {
        self.sender = Some(sender);
        self
    }

    /// With a number of messages.
    #[must_use]
    pub fn messages(mut self, messages: u64) -> Self {
        self.messages = Some(messages);
        self
    }

    /// With an address.
    #[must_use]
    pub fn address(mut self, address: &'a str) -> Self {
        self.address = Some(address);
        self
    }

    /// With what to do.
    #[must_use]
    pub fn remedy(mut self, remedy: &'a str) -> Self {
        self.remedy = Some(remedy);
        self
    }

    /// Says it.
    pub fn say(self) {
        macro_rules! say {
            ($level:expr) => {
                tracing::event!(
                    target: TARGET,
                    $level,
                    event = self.event,
                    group = self.group,
                    sender = self.sender,
                    messages = self.messages,
                    address = self.address,
                    remedy = self.remedy,
                    "{}",
                    self.line
                )
            };
        }
        match self.level {
            LogLevel::Error => say!(tracing::Level::ERROR),
            LogLevel::Warn => say!(tracing::Level::WARN),
            LogLevel::Info => say!(tracing::Level::INFO),
        }
    }
}

/// Writes notices on stderr from now on, in this form. Only the first call of a process counts.
pub fn start(options: LogOptions) {
    // A program that has chosen its own place for them keeps it.
    tracing::subscriber::set_global_default(Writer {
        options,
        budgets: Mutex::default(),
    })
    .unwrap_or_default();
}

/// Writes notices on stderr.
struct Writer {
    options: LogOptions,
    /// By name of what happened.
    budgets: Mutex<BTreeMap<String, Budget>>,
}

impl Subscriber for Writer {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == TARGET && LogLevel::of(*metadata.level()) <= self.options.log
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut said = Said::default();
        event.record(&mut said);
        let mut budgets = self.budgets.lock().unwrap_or_else(PoisonError::into_inner);
        let budget = budgets.entry(said.event.clone()).or_default();
        let Some(left_out) = budget.spend(Instant::now()) else {
            return;
        };
        let level = LogLevel::of(*event.metadata().level());
        let text = match self.options.log_format {
            LogFormat::Text => said.text(left_out),
            LogFormat::Json => said.json(level, left_out, SystemTime::now()),
        };
        // Whoever has closed stderr does not want it.
        stderr()
            .lock()
            .write_all(text.as_bytes())
            .unwrap_or_default();
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

/// What a notice has.
#[derive(Debug, Default)]
struct Said {
    event: String,
    message: String,
    /// Other fields.
    texts: Vec<(&'static str, String)>,
    numbers: Vec<(&'static str, u64)>,
}

impl Visit for Said {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "event" => value.clone_into(&mut self.event),
            "message" => value.clone_into(&mut self.message),
            name => self.texts.push((name, value.to_owned())),
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.numbers.push((field.name(), value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

impl Said {
    fn text(&self, left_out: u64) -> String {
        match left_out {
            0 => format!("qsm: {}\n", self.message),
            _ => format!(
                "qsm: {left_out} lines such as the next are left out\nqsm: {}\n",
                self.message
            ),
        }
    }

    fn json(&self, level: LogLevel, left_out: u64, now: SystemTime) -> String {
        let mut object = Object::new()
            .text("time", &utc::rfc3339(now))
            .text("level", level.name())
            .text("event", &self.event)
            .text("message", &self.message);
        for (name, text) in &self.texts {
            object = object.text(name, text);
        }
        let left_out = (left_out > 0).then_some(("left_out", left_out));
        for (name, number) in self.numbers.iter().copied().chain(left_out) {
            object = object.json(name, &number.to_string());
        }
        format!("{object}\n")
    }
}

/// What may still be written of one name.
#[derive(Debug, Default)]
struct Budget {
    /// Since the budget was full, or refilled last.
    since: Option<Instant>,
    spent: u32,
    left_out: u64,
}

impl Budget {
    /// Notices left out before this one; `None` if this one is left out, too.
    fn spend(&mut self, now: Instant) -> Option<u64> {
        let since = *self.since.get_or_insert(now);
        let refill =
            now.saturating_duration_since(since).as_millis() * u128::from(PER_SECOND) / 1000;
        let refill = u32::try_from(refill).unwrap_or(u32::MAX);
        if refill > 0 {
            self.spent = self.spent.saturating_sub(refill);
            self.since = Some(now);
        }
        if self.spent >= BURST {
            self.left_out += 1;
            return None;
        }
        self.spent += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn a_flood_of_one_name_is_cut_and_counted() {
        let (start, mut budget) = (Instant::now(), Budget::default());
        let written = (0..1000).filter(|_| budget.spend(start).is_some()).count();
        assert_eq!(written, BURST as usize);
        let later = start + Duration::from_secs(1);
        assert_eq!(budget.spend(later), Some(1000 - u64::from(BURST)));
        let written = (0..1000).filter(|_| budget.spend(later).is_some()).count();
        assert_eq!(written, PER_SECOND as usize - 1);
        let much_later = later + Duration::from_secs(3600);
        let written = (0..1000)
            .filter(|_| budget.spend(much_later).is_some())
            .count();
        assert_eq!(written, BURST as usize);
    }

    #[test]
    fn a_notice_is_a_line_or_an_object() {
        let said = Said {
            event: "lost".to_owned(),
            message: "LOST: \"a\"".to_owned(),
            texts: vec![("group", "a".to_owned())],
            numbers: vec![("messages", 3)],
        };
        assert_eq!(said.text(0), "qsm: LOST: \"a\"\n");
        assert!(said.text(7).starts_with("qsm: 7 lines"));
        assert_eq!(
            said.json(LogLevel::Warn, 0, UNIX_EPOCH),
            "{\"time\":\"1970-01-01T00:00:00.000000Z\",\"level\":\"warn\",\"event\":\"lost\",\
             \"message\":\"LOST: \\\"a\\\"\",\"group\":\"a\",\"messages\":3}\n"
        );
        assert!(
            said.json(LogLevel::Warn, 7, UNIX_EPOCH)
                .contains("\"left_out\":7")
        );
    }
}
