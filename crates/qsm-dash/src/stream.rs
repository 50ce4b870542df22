//! Server-sent events: what a browser is told.

use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;

use crate::cluster::lookout::{Told, Watcher};

/// Time after which a comment is sent where nothing else is, so that an end that is gone is found.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The events of a watcher.
pub(crate) fn events(watcher: Watcher) -> Response {
    let next = async |mut watcher: Watcher| {
        let told = watcher.next().await?;
        let event = match told {
            Told::Whole(text) => Event::default().event("whole").data(text),
            Told::Change(text) => Event::default().event("change").data(text),
        };
        Some((Ok::<_, Infallible>(event), watcher))
    };
    let events = Sse::new(stream::unfold(watcher, next));
    events
        .keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
        .into_response()
}
