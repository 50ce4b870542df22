//! Paths, and who answers there.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::answer::{answer, refusal, secure};
use crate::assets::ASSETS;
use crate::gate::{Token, is_meant, rights};
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
    pub(crate) source: Arc<dyn Source>,
    pub(crate) lookout: Arc<Lookout>,
    pub(crate) token: Token,
    pub(crate) names: Vec<String>,
    explaining: Semaphore,
}

impl Desk {
    pub(crate) fn new(
        source: Arc<dyn Source>,
        lookout: Arc<Lookout>,
        token: Token,
        names: Vec<String>,
    ) -> Self {
        Self {
            source,
            lookout,
            token,
            names,
            explaining: Semaphore::new(EXPLANATIONS_MAX),
        }
    }
}

/// All paths.
pub(crate) fn router(desk: Arc<Desk>) -> Router {
    let mut router = Router::new();
    for asset in &ASSETS {
        let page = move || async { answer(StatusCode::OK, asset.kind, asset.text.to_owned()) };
        router = router.route(asset.path, get(page));
    }
    router
        .route("/api/stream", get(watch))
        .route("/api/explain", get(explain))
        .fallback(async || refusal(StatusCode::NOT_FOUND, "there is nothing here"))
        .layer(middleware::from_fn_with_state(Arc::clone(&desk), guard))
        .with_state(desk)
}

/// Refuses who means another server, and secures every answer.
async fn guard(State(desk): State<Arc<Desk>>, request: Request, next: Next) -> Response {
    let mut answer = match is_meant(request.headers(), &desk.names) {
        true => next.run(request).await,
        false => refusal(
            StatusCode::MISDIRECTED_REQUEST,
            "this name is not one of mine: use an address, or `qsm dash --host NAME`",
        ),
    };
    secure(&mut answer);
    answer
}

async fn watch(State(desk): State<Arc<Desk>>, headers: HeaderMap) -> Response {
    match rights(&desk.token, &headers) {
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
    match rights(&desk.token, &headers) {
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
