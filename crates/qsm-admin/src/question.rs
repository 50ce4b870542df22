use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::MessageState;
use crate::service::{RepairLimitState, ServiceState};
use crate::state::{GroupState, NodeState};

/// A question to a node, or to a membership service. As JSON: `{"ask":"node"}`, `{"ask":"group","name":"news"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Question {
    /// Its name, addresses and program.
    Node,
    /// Its counters.
    Counters,
    /// The ways of a group's messages.
    Group {
        /// The group's name.
        name: String,
    },
    /// Where a message stands.
    Message {
        /// Its group's name.
        group: String,
        /// Its sender: the name of a node, or its id and life as `qsm sub --json` writes them.
        sender: String,
        /// Its number among the sender's messages to the group.
        number: u64,
    },
    /// To a membership service: what it is, and the limit of repairs.
    Service,
    /// To a membership service: this limit of repairs is to hold from now on.
    LimitRepairs(RepairLimitState),
}

/// Its answer: the same word, and its state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Answer {
    /// To [`Question::Node`].
    Node(NodeState),
    /// To [`Question::Counters`]: an object, whose names `docs/operate/metrics.md` explains.
    Counters(Value),
    /// To [`Question::Group`]; `None`: the node neither publishes to it nor receives it.
    Group(Option<GroupState>),
    /// To [`Question::Message`]; `None`: the node neither publishes to the group nor receives it.
    Message(Option<MessageState>),
    /// To [`Question::Service`] and [`Question::LimitRepairs`]: as it is then.
    Service(ServiceState),
}

impl Answer {
    /// To [`Question::Counters`], from an object of JSON.
    ///
    /// # Errors
    /// The text is no JSON.
    pub fn counters(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text).map(Self::Counters)
    }
}

/// A line that goes back.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    Answer(Answer),
    Error(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_answers_are_lines_that_one_can_write_by_hand() {
        let question = Question::Group {
            name: "news".to_owned(),
        };
        let line = r#"{"ask":"group","name":"news"}"#;
        assert_eq!(serde_json::to_string(&question).unwrap(), line);
        assert_eq!(serde_json::from_str::<Question>(line).unwrap(), question);
        let limit = Question::LimitRepairs(RepairLimitState {
            bytes_per_second: 0,
            share_ppm: 50_000,
        });
        let line = r#"{"ask":"limit_repairs","bytes_per_second":0,"share_ppm":50000}"#;
        assert_eq!(serde_json::to_string(&limit).unwrap(), line);
        assert_eq!(serde_json::from_str::<Question>(line).unwrap(), limit);
        let line = serde_json::to_string(&Reply::Answer(Answer::Group(None))).unwrap();
        assert_eq!(line, r#"{"answer":{"group":null}}"#);
    }
}
