use core::fmt;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ureq::Agent;
use ureq::http::Uri;

/// Time that a collector has for an answer.
pub const PUSH_TIME: Duration = Duration::from_secs(5);

/// Longest answer of a collector that is read, bytes.
const ANSWER_BYTES_MAX: u64 = 8 << 10;

/// Sends metrics to a collector, again and again, until it is dropped; then once more.
pub struct Pusher {
    end: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Pusher {
    /// Sends what `body` makes to the collector at `url`, by POST, after each `every`; how each sending went
    /// goes to `told`. Both are called on a thread of the pusher. Only one request is under way at a time, and nothing
    /// is kept of one that fails: counters grow, so the next one has it.
    ///
    /// # Errors
    /// [`PusherError`], whose text says what to do.
    pub fn start(
        url: &str,
        content_type: &'static str,
        every: Duration,
        body: impl Fn() -> Result<String, String> + Send + 'static,
        told: impl FnMut(Result<(), String>) + Send + 'static,
    ) -> Result<Self, PusherError> {
        let collector = Collector::new(url, content_type)?;
        let (end, ended) = sync_channel::<()>(1);
        let mut told = told;
        let push = move || {
            loop {
                let over = ended.recv_timeout(every) != Err(RecvTimeoutError::Timeout);
                told(body().and_then(|body| collector.push(&body)));
                if over {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("qsm-pusher".to_owned());
        let thread = thread.spawn(push).map_err(|error| PusherError {
            text: format!("cannot start a thread: {error}; see the system's message"),
        })?;
        Ok(Self {
            end: Some(end),
            thread: Some(thread),
        })
    }
}

impl fmt::Debug for Pusher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pusher").finish_non_exhaustive()
    }
}

impl Drop for Pusher {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            // One that panicked has ended, too.
            drop(thread.join());
        }
    }
}

/// A collector, and the connection to it.
struct Collector {
    agent: Agent,
    url: String,
    content_type: &'static str,
}

impl Collector {
    fn new(url: &str, content_type: &'static str) -> Result<Self, PusherError> {
        let parsed: Option<Uri> = url.parse().ok();
        let plain =
            parsed.is_some_and(|uri| uri.scheme_str() == Some("http") && uri.host().is_some());
        if !plain {
            return Err(PusherError {
                text: format!(
                    "{url} is no address of a collector; name one as http://HOST:4318/v1/metrics: there is no \
                     encryption, so run a collector on this host that passes it on"
                ),
            });
        }
        let config = Agent::config_builder()
            .timeout_global(Some(PUSH_TIME))
            .http_status_as_error(false)
            // A proxy of the environment is for the world outside.
            .proxy(None)
            .build();
        Ok(Self {
            agent: config.into(),
            url: url.to_owned(),
            content_type,
        })
    }

    fn push(&self, body: &str) -> Result<(), String> {
        let request = self.agent.post(&self.url).content_type(self.content_type);
        let mut answer = request.send(body).map_err(|error| error.to_string())?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        let text = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        let text = text.read_to_string().unwrap_or_default();
        Err(format!("{status}: {text}")
            .trim_end_matches(": ")
            .to_owned())
    }
}

/// Metrics cannot be sent. The text names the cause, and after a semicolon the remedy.
#[derive(Debug)]
pub struct PusherError {
    text: String,
}

impl fmt::Display for PusherError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for PusherError {}
