//! Counters sent to a collector of OpenTelemetry.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use qsm::Pusher;
use qsm::metrics::otlp::{CONTENT_TYPE, Export, request};
use qsm::metrics::prometheus::Page;
use qsm_console::failure::Failure;
use qsm_console::log::Note;
use qsm_console::options::StatsOptions;

/// Sends pages until the pusher is dropped, if that is asked for. The first sending that fails after one that did
/// not is told of.
///
/// # Errors
/// No collector can be at that address.
pub(super) fn start(
    options: StatsOptions,
    page: Arc<impl Fn() -> Result<Page, String> + Send + Sync + 'static>,
) -> Result<Option<Pusher>, Failure> {
    let Some(url) = options.otlp else {
        return Ok(None);
    };
    let start = now();
    let body = move || {
        let export = Export {
            service: "qsm",
            version: env!("CARGO_PKG_VERSION"),
            start,
            now: now(),
        };
        Ok(request(&page()?, &export))
    };
    let mut failed = false;
    let told = move |result: Result<(), String>| {
        if let Err(cause) = &result
            && !failed
        {
            let line = format!("METRICS NOT SENT to {url}: {cause}");
            Note::warn("metrics-not-sent", &line)
                .remedy("look whether the collector runs, and takes OTLP by HTTP; they are sent again later")
                .say();
        }
        failed = result.is_err();
    };
    let pusher = Pusher::start(url, CONTENT_TYPE, options.otlp_every, body, told);
    pusher.map(Some).map_err(|error| {
        let text = error.to_string();
        let (cause, remedy) = text.split_once("; ").unwrap_or((&text, "see --otlp"));
        Failure::usage(cause, remedy)
    })
}

/// The time since 1970.
fn now() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default()
}
