//! Paths that all pages have: their files, and refusals. Every answer is secured.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::get;

use crate::answer::{answer, refusal, secure};
use crate::assets::{Asset, SHARED};
use crate::gate::is_meant;

/// Paths of a page beside these of its own, at a server of these names.
pub(crate) fn paths(own: Router, files: &'static [Asset], names: Vec<String>) -> Router {
    let mut router = own;
    for asset in SHARED.iter().chain(files) {
        let page = move || async { answer(StatusCode::OK, asset.kind, asset.text.to_owned()) };
        router = router.route(asset.path, get(page));
    }
    router
        .fallback(async || refusal(StatusCode::NOT_FOUND, "there is nothing here"))
        .layer(middleware::from_fn_with_state(Arc::new(names), guard))
}

/// Refuses who means another server, and secures every answer.
async fn guard(State(names): State<Arc<Vec<String>>>, request: Request, next: Next) -> Response {
    let mut answer = match is_meant(request.headers(), &names) {
        true => next.run(request).await,
        false => refusal(
            StatusCode::MISDIRECTED_REQUEST,
            "this name is not one of mine: use an address, or give it by `--host NAME`",
        ),
    };
    secure(&mut answer);
    answer
}
