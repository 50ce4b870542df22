use core::fmt::Write;
use core::net::SocketAddr;
use std::collections::BTreeMap;

use qsm_wire::{
    AbsentCause, Body, Data, Heartbeat, Hop, Origin, Packet, Part, Ranges, Request, Summary, Token,
};

/// What nodes and addresses are called in a trace: by the numbers of their hosts.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) hosts: BTreeMap<SocketAddr, usize>,
    pub(crate) nodes: BTreeMap<Origin, usize>,
}

impl Names {
    pub(super) fn host_at(&self, address: SocketAddr) -> Option<usize> {
        self.hosts.get(&address).copied()
    }

    /// `3` for the node on host 3, with its incarnation if there were several on that host.
    pub(super) fn node(&self, origin: Origin) -> String {
        let Some(host) = self.nodes.get(&origin) else {
            return origin.to_string();
        };
        let several = self.nodes.values().filter(|other| *other == host).count() > 1;
        match several {
            true => format!("n{host}.{}", origin.incarnation),
            false => format!("n{host}"),
        }
    }
}

/// A datagram in one line.
pub(super) fn datagram(bytes: &[u8], names: &Names) -> String {
    let packet = match Packet::decode(bytes) {
        Ok(packet) => packet,
        Err(error) => return format!("no packet: {} bytes, {error}", bytes.len()),
    };
    let maker = names.node(packet.header.origin);
    match packet.body {
        Body::Data(data) => self::data(&maker, packet.header.hop, &data),
        Body::Heartbeat(beat) => heartbeat(&beat, names),
        Body::Nak(nak) => request("Nak", &nak, names),
        Body::Pull(pull) => request("Pull", &pull, names),
        Body::Token(token) => self::token(&token, names),
        Body::TokenAck(ack) => format!(
            "TokenAck round {} of {}, level {}",
            ack.round,
            names.node(ack.leader),
            ack.level
        ),
        Body::Summary(summary) => self::summary(&summary, names),
        Body::Ack(ack, _) => format!(
            "Ack to {} after round {}: stable {} cached {}",
            names.node(ack.stream.origin),
            ack.round,
            ack.stable_upto,
            ack.cached_upto
        ),
        Body::StreamQuery(query) => format!(
            "StreamQuery for {} in {}",
            names.node(query.stream),
            query.channel
        ),
        Body::Absent(absent) => format!(
            "Absent of {}:{}{}",
            names.node(absent.stream.origin),
            ranges(&absent.ranges),
            match absent.cause {
                AbsentCause::Gone => "",
                AbsentCause::Expired => ", expired",
            }
        ),
        Body::Session(frame) => format!(
            "Session frame of {maker}, {} bytes {:?}",
            frame.content.len(),
            frame.head
        ),
        Body::ListReply(reply) => format!(
            "ListReply of {maker}, {:?} version {}, {} bytes from {} of {}",
            reply.list,
            reply.version,
            reply.content.len(),
            reply.offset,
            reply.total
        ),
        Body::GroupReply(reply) => format!("GroupReply of {maker}, {} bytes", reply.answer.len()),
        other => format!("{other:?}"),
    }
}

fn heartbeat(beat: &Heartbeat<'_>, names: &Names) -> String {
    let mut text = format!(
        "Heartbeat of {} in {}: sent #{}",
        names.node(beat.stream.origin),
        beat.stream.channel,
        beat.highest
    );
    if beat.finished {
        text.push_str(", finished");
    }
    for opening in beat.openings() {
        push(
            &mut text,
            format_args!(", view {} from #{}", opening.view, opening.start),
        );
    }
    text
}

fn summary(summary: &Summary<'_>, names: &Names) -> String {
    let mut text = format!(
        "Summary of round {} in view {}:",
        summary.round, summary.view
    );
    for (at, slot) in summary.slots().enumerate() {
        let mark = if at == 0 { "" } else { ";" };
        push(
            &mut text,
            format_args!(
                "{mark} {} stable {} cached {} cutoff {}",
                names.node(slot.origin),
                slot.stable_upto,
                slot.cached_upto,
                slot.cutoff
            ),
        );
    }
    text
}

fn data(maker: &str, hop: Hop, data: &Data<'_>) -> String {
    let head = data.head;
    let repair = match hop {
        Hop::Direct => "",
        _ => " (repair)",
    };
    let mut text = format!(
        "Data {maker} #{} in {}, view {}{repair}:",
        head.sequence, head.channel, head.view
    );
    for chunk in data.chunks() {
        let part = match chunk.part {
            Part::Whole => "",
            _ => " (part)",
        };
        push(
            &mut text,
            format_args!(" {}#{}{part}", chunk.group, chunk.message),
        );
    }
    text
}

fn request(kind: &str, request: &Request<'_>, names: &Names) -> String {
    let head = request.head;
    let sender = names.node(head.stream.origin);
    let mut text = format!("{kind} for {sender}{}", ranges(&request.ranges));
    if head.tried != 0 {
        push(&mut text, format_args!(", tried {:b}", head.tried));
    }
    if !head.for_itself {
        text.push_str(", passed on");
    }
    text
}

fn token(token: &Token<'_>, names: &Names) -> String {
    let head = token.head;
    let leader = names.node(head.leader);
    let mut text = match head.level {
        u8::MAX => format!("Token: {leader} calls round {}", head.round),
        level => format!(
            "Token of round {} of {leader}, level {level} ring {}",
            head.round, head.ring
        ),
    };
    for slot in token.slots() {
        let head = slot.head;
        push(
            &mut text,
            format_args!(
                "; {} highest {} cutoff {}",
                names.node(head.origin),
                head.highest,
                head.cutoff
            ),
        );
        for (name, number) in [("cached", head.cached), ("stable", head.stable)] {
            if number < u64::MAX {
                push(&mut text, format_args!(" {name} {number}"));
            }
        }
        if slot.naks.iter().next().is_some() {
            push(&mut text, format_args!(" missing{}", ranges(&slot.naks)));
        }
    }
    text
}

fn ranges(ranges: &Ranges<'_>) -> String {
    let mut text = String::new();
    for range in ranges.iter() {
        match (range.first(), range.last()) {
            (first, last) if first == last => push(&mut text, format_args!(" #{first}")),
            (first, last) => push(&mut text, format_args!(" #{first}-{last}")),
        }
    }
    text
}

fn push(text: &mut String, more: core::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let written = text.write_fmt(more);
    debug_assert!(written.is_ok());
}

#[cfg(test)]
mod tests {
    use qsm_wire::{ChannelId, Header, StreamQuery};

    use super::*;

    #[test]
    fn nodes_are_called_by_the_numbers_of_their_hosts() {
        let mut names = Names::default();
        let origin = Origin::default();
        names.nodes.insert(origin, 4);
        let query = StreamQuery {
            channel: ChannelId(3),
            stream: origin,
        };
        let mut bytes = Vec::new();
        query.encode(&Header::default(), &mut bytes);
        assert!(datagram(&bytes, &names).starts_with("StreamQuery for n4 in"));
        assert!(datagram(&[9, 9], &names).starts_with("no packet: 2 bytes"));
    }
}
