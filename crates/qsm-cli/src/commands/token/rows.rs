//! Content of a token, as rows and as JSON.

use qsm_identity::{Claims, Pattern, utc};
use serde_json::{Map, Value, json};

use crate::commands::authority;

/// Rows of name and value.
pub(super) fn rows(claims: &Claims) -> Vec<(&'static str, String)> {
    let key = claims.node_key.map(|key| key.to_string());
    let mut rows = vec![
        ("cluster", claims.cluster.clone()),
        ("serial", claims.serial.to_string()),
        ("name", claims.name.to_string()),
        ("key", key.unwrap_or_else(|| "any".to_owned())),
        ("roles", claims.roles.to_string()),
        ("holds", authority::period(claims)),
    ];
    for (name, groups) in [
        ("publish", &claims.publish),
        ("subscribe", &claims.subscribe),
    ] {
        if !groups.is_empty() {
            rows.push((name, words(groups).join(" ")));
        }
    }
    rows
}

/// The same as an object.
pub(super) fn object(claims: &Claims) -> Map<String, Value> {
    let roles: Vec<&str> = claims.roles.iter().map(|role| role.name()).collect();
    let pairs = [
        ("cluster", json!(claims.cluster)),
        ("serial", json!(claims.serial.to_string())),
        ("name", json!(claims.name.as_str())),
        (
            "node_key",
            json!(claims.node_key.map(|key| key.to_string())),
        ),
        ("roles", json!(roles)),
        ("publish", json!(words(&claims.publish))),
        ("subscribe", json!(words(&claims.subscribe))),
        ("not_before", json!(utc(claims.not_before))),
        ("expires", json!(utc(claims.expires))),
    ];
    pairs
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

fn words(groups: &[Pattern]) -> Vec<&str> {
    groups.iter().map(Pattern::as_str).collect()
}
