//! One message, as the nodes of this host see it.

use std::time::Duration;

use qsm::admin::{
    Came, GapState, MessageState, MessageStreamState, NodeState, PartsState, Question, Standing,
};
use qsm_console::figures::{counted, duration};
use qsm_console::passage::Passage;
use qsm_console::table::printable;
use serde_json::{Value, json};

/// A message of a group by its sender and its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MessageName {
    sender: String,
    number: u64,
}

impl MessageName {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let parts = text
            .rsplit_once('#')
            .filter(|(sender, _)| !sender.is_empty());
        let (sender, number) =
            parts.ok_or("not a message, such as desk#17 or 43867905517da040.201588738#17")?;
        let number = number.parse().ok().filter(|number| *number > 0);
        Ok(Self {
            sender: sender.to_owned(),
            number: number.ok_or("messages have numbers from 1 on")?,
        })
    }

    /// The question after it.
    pub(super) fn question(&self, group: &str) -> Question {
        Question::Message {
            group: group.to_owned(),
            sender: self.sender.clone(),
            number: self.number,
        }
    }
}

/// A node that has to do with the message's group.
pub(super) struct MessageWitness {
    pub(super) pid: u32,
    pub(super) node: NodeState,
    pub(super) message: MessageState,
}

impl MessageWitness {
    pub(super) fn json(&self) -> Value {
        json!({ "pid": self.pid, "node": self.node, "message": self.message })
    }

    /// For people.
    pub(super) fn words(&self) -> Vec<Passage> {
        let (node, message) = (&self.node, &self.message);
        let heading = format!(
            "message {} of {} ({}) to {}, as node {} sees it: {} in process {}, at {} in cluster {}",
            message.number,
            printable(&message.sender),
            message.origin,
            printable(&message.group),
            printable(&node.name),
            printable(&node.program),
            self.pid,
            node.address,
            printable(&node.cluster),
        );
        let mut passages = vec![Passage::Heading(heading), Passage::Text(standing(message))];
        let own = matches!(
            message.standing,
            Standing::Unpublished
                | Standing::Unsent
                | Standing::Unacknowledged
                | Standing::Acknowledged
        );
        for stream in &message.streams {
            passages.extend(stream_words(stream, own).into_iter().map(Passage::Text));
        }
        passages
    }
}

fn standing(message: &MessageState) -> String {
    let next = message.next.unwrap_or_default();
    match message.standing {
        Standing::Unpublished => "This node has not published so many messages to the group.".to_owned(),
        Standing::Unsent => {
            "It is published, and waits to be sent: `qsm explain GROUP` has the window and the rate.".to_owned()
        }
        Standing::Unacknowledged => "It is sent, and not all live members are known to have it.".to_owned(),
        Standing::Acknowledged => "All live members have it.".to_owned(),
        Standing::NotReceived => "This node does not receive the group.".to_owned(),
        Standing::Unheard => "Nothing of this sender to the group has come here.".to_owned(),
        Standing::Past => format!(
            "Its turn is past: it was delivered, or the application was told that it is lost; {next} is next. \
             A node notes neither when, nor which of the two: a recording (--record) has both."
        ),
        Standing::Waits => format!("It is here, and waits: {next} is delivered next."),
        Standing::Partial => "A part of it is here.".to_owned(),
        Standing::Missing => "It is in no packet here; packets are missing that may have it.".to_owned(),
        _ => format!(
            "It is in no packet here, and as far as this node knows no packet is missing: it has not been sent, or \
             its packet is not known of yet; {next} is next."
        ),
    }
}

fn stream_words(stream: &MessageStreamState, own: bool) -> Vec<String> {
    let mut lines = vec![format!(
        "  region {}, channel {}: {}, of which all up to {} {}, and all live members have those up to {}{}",
        stream.region,
        stream.channel,
        counted(stream.packets, "packet"),
        stream.contiguous,
        if own { "are sent" } else { "came or are lost" },
        stream.stable_upto,
        if stream.dead {
            "; the sender is gone"
        } else {
            ""
        },
    )];
    if let Some(parts) = &stream.parts {
        lines.push(parts_words(parts, own));
    } else if stream.cut_short {
        lines.push("    there are more packets than are looked through".to_owned());
    }
    lines.extend(stream.gaps.iter().map(gap_words));
    let named: u64 = stream.gaps.iter().map(|gap| gap.last - gap.first + 1).sum();
    if stream.missing > named {
        lines.push(format!(
            "    and {} more are missing",
            stream.missing - named
        ));
    }
    lines
}

fn parts_words(parts: &PartsState, own: bool) -> String {
    let place = match parts.first == parts.last {
        true => format!("in packet {}", parts.first),
        false => format!("in packets {} to {}", parts.first, parts.last),
    };
    let all = match parts.complete {
        true => "it is",
        false => "parts of it are",
    };
    let came = match parts.came {
        _ if own => "",
        Came::Direct => ", which came from the sender at first",
        Came::SenderRepair => ", which the sender repaired",
        Came::CacherRepair => ", which another receiver repaired on request",
        Came::Push => ", which another receiver repaired unasked",
        Came::PullRepair => ", which another receiver repaired in a round of tokens",
        Came::Copy => ", which came as a copy by unicast",
        _ => ", which came in a way that this version does not know",
    };
    format!("    {all} {place}, view {}{came}", parts.view)
}

fn gap_words(gap: &GapState) -> String {
    let (what, verb) = match gap.first == gap.last {
        true => (format!("packet {}", gap.first), "is"),
        false => (format!("packets {} to {}", gap.first, gap.last), "are"),
    };
    let asked = match (gap.requests, gap.asked.as_deref()) {
        (0, _) if gap.put_off => "not asked for yet: enough others are".to_owned(),
        (0, _) => "not asked for yet".to_owned(),
        (requests, asked) => format!(
            "asked for {}, last of {}",
            counted(requests.into(), "time"),
            asked.map_or_else(|| "the sender".to_owned(), printable),
        ),
    };
    let age = duration(Duration::from_micros(gap.age_micros));
    format!("    {what} {verb} missing for {age}, {asked}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_named_by_sender_and_number() {
        let read = MessageName::parse("desk-7/qsm/4021#17").unwrap();
        assert_eq!((&*read.sender, read.number), ("desk-7/qsm/4021", 17));
        assert_eq!(MessageName::parse("a#b#3").unwrap().sender, "a#b");
        for wrong in ["17", "#17", "desk#", "desk#0", "desk#x"] {
            assert!(MessageName::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_missing_is_said_with_whom_was_asked() {
        let gap = |requests, asked: Option<&str>| GapState {
            first: 7,
            last: 9,
            age_micros: 2_000,
            requests,
            asked: asked.map(str::to_owned),
            put_off: false,
        };
        let said = gap_words(&gap(2, Some("lamp")));
        assert_eq!(
            said,
            "    packets 7 to 9 are missing for 2.0 ms, asked for 2 times, last of lamp"
        );
        let said = gap_words(&gap(1, None));
        assert!(
            said.ends_with("asked for 1 time, last of the sender"),
            "{said}"
        );
        let said = gap_words(&gap(0, None));
        assert!(said.ends_with("not asked for yet"), "{said}");
    }
}
