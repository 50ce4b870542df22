//! Paths of an object's page.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::get;

use crate::answer::refusal;
use crate::assets::OBJECT;
use crate::gate::{Shown, Token, shown};
use crate::paths::paths;
use crate::stream;

use super::board::Board;
use super::browser::Browser;

/// State that answers need.
pub(crate) struct Desk {
    board: Arc<Board>,
    token: Token,
}

impl Desk {
    pub(crate) fn new(board: Arc<Board>, token: Token) -> Self {
        Self { board, token }
    }
}

/// All paths, at a server of these names.
pub(crate) fn router(desk: Arc<Desk>, names: Vec<String>) -> Router {
    let own = Router::new()
        .route("/api/stream", get(watch))
        .with_state(desk);
    paths(own, &OBJECT, names)
}

async fn watch(State(desk): State<Arc<Desk>>, headers: HeaderMap) -> Response {
    match shown(&desk.token, &headers) {
        Shown::Token => stream::events(Browser::new(&desk.board)),
        Shown::Nothing => refusal(StatusCode::UNAUTHORIZED, "it needs the token"),
        Shown::Wrong => refusal(
            StatusCode::FORBIDDEN,
            "this is not the token that `qsm open` has said",
        ),
    }
}
