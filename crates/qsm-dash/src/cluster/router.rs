//! Paths, and who answers there.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::answer::{answer, refusal};
use crate::assets::CLUSTER;
use crate::gate::{Shown, Token, shown};
use crate::paths::paths;
use crate::stream;

use super::explanation::Subject;
use super::look::Source;
use super::lookout::{Lookout, Watcher};
use super::state::Rights;

/// Explanations that are made at a time.
const EXPLANATIONS_MAX: usize = 4;
/// Longest name that is asked for, in bytes.
const NAME_BYTES_MAX: usize = 4096;
/// Words for a token that is not the right one.
const WRONG: &str = "this is not the token that `qsm dash` has said";

/// State that answers need.
pub(crate) struct Desk {
    source: Arc<dyn Source>,
    lookout: Arc<Lookout>,
    token: Token,
    explaining: Semaphore,
}

impl Desk {
    pub(crate) fn new(source: Arc<dyn Source>, lookout: Arc<Lookout>, token: Token) -> Self {
        Self {
            source,
            lookout,
            token,
            explaining: Semaphore::new(EXPLANATIONS_MAX),
        }
    }

    /// Rights that a request has; `None`: it gives a wrong token.
    fn rights(&self, headers: &HeaderMap) -> Option<Rights> {
        match shown(&self.token, headers) {
            Shown::Nothing => Some(Rights::Lists),
            Shown::Token => Some(Rights::All),
            Shown::Wrong => None,
        }
    }
}

/// All paths, at a server of these names.
pub(crate) fn router(desk: Arc<Desk>, names: Vec<String>) -> Router {
    let own = Router::new()
        .route("/api/stream", get(watch))
        .route("/api/explain", get(explain))
        .with_state(desk);
    paths(own, &CLUSTER, names)
}

async fn watch(State(desk): State<Arc<Desk>>, headers: HeaderMap) -> Response {
    match desk.rights(&headers) {
        Some(rights) => stream::events(Watcher::new(&desk.lookout, rights)),
        None => refusal(StatusCode::FORBIDDEN, WRONG),
    }
}

#[derive(Debug, Deserialize)]
struct Asked {
    kind: Kind,
    name: String,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Node,
    Group,
}

async fn explain(
    State(desk): State<Arc<Desk>>,
    Query(asked): Query<Asked>,
    headers: HeaderMap,
) -> Response {
    match desk.rights(&headers) {
        Some(Rights::All) => {}
        Some(Rights::Lists) => return refusal(StatusCode::UNAUTHORIZED, "it needs the token"),
        None => return refusal(StatusCode::FORBIDDEN, WRONG),
    }
    if asked.name.len() > NAME_BYTES_MAX {
        return refusal(StatusCode::URI_TOO_LONG, "no name is so long");
    }
    let Ok(_turn) = desk.explaining.try_acquire() else {
        return refusal(
            StatusCode::SERVICE_UNAVAILABLE,
            "others have just asked; try again",
        );
    };
    let subject = match asked.kind {
        Kind::Node => Subject::Node(asked.name),
        Kind::Group => Subject::Group(asked.name),
    };
    let source = Arc::clone(&desk.source);
    match spawn_blocking(move || source.explain(&subject)).await {
        Ok(Ok(explanation)) => match serde_json::to_string(&explanation) {
            Ok(text) => answer(StatusCode::OK, "application/json", text),
            Err(error) => refusal(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        },
        Ok(Err(why)) => refusal(StatusCode::NOT_FOUND, why),
        Err(_) => refusal(
            StatusCode::INTERNAL_SERVER_ERROR,
            "asking the nodes has panicked",
        ),
    }
}
