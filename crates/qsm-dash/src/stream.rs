//! Server-sent events: what a browser is told.

use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;

/// Time after which a comment is sent where nothing else is, so that an end that is gone is found.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Something to tell a browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told {
    /// Name of the event.
    pub(crate) kind: &'static str,
    /// JSON in one line.
    pub(crate) data: String,
}

/// Events for a browser, one after the other. The next is asked for once the one before is written, so a browser
/// that does not read makes nothing wait but itself.
pub(crate) trait Telling: Send + 'static {
    /// The next event; `None`: it is over.
    fn next(&mut self) -> impl Future<Output = Option<Told>> + Send;
}

/// The answer that tells.
pub(crate) fn events(telling: impl Telling) -> Response {
    let next = async |mut telling| {
        let Told { kind, data } = Telling::next(&mut telling).await?;
        let event = Event::default().event(kind).data(data);
        Some((Ok::<_, Infallible>(event), telling))
    };
    let events = Sse::new(stream::unfold(telling, next));
    events
        .keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
        .into_response()
}
