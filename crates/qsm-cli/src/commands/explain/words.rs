//! The state of a group in words.

use std::time::Duration;

use qsm::admin::{
    GroupState, MemberState, NodeState, Reach, ReceivingState, RegionState, SendingState,
};
use qsm_console::figures::{bytes, count, counted, duration, rate};
use qsm_console::passage::Passage;
use qsm_console::table::{Align, Table, printable};

/// All that a node says of a group.
pub(super) fn explanation(pid: u32, node: &NodeState, group: &GroupState) -> Vec<Passage> {
    let heading = format!(
        "group {} (number {}), as node {} sees it: {} in process {pid}, at {} in cluster {}",
        printable(&group.name),
        group.number,
        printable(&node.name),
        printable(&node.program),
        node.address,
        printable(&node.cluster),
    );
    let mut passages = vec![Passage::Heading(heading), Passage::Text(summary(group))];
    passages.extend(by_unicast(node, group).map(Passage::Text));
    for region in &group.regions {
        passages.push(Passage::Gap);
        passages.extend(region_words(region));
    }
    passages
}

/// The cost of a message, and its receivers.
fn summary(group: &GroupState) -> String {
    let published = counted(group.published, "message");
    let mine = match (group.publishes, group.receives) {
        (true, false) => format!("It publishes to the group ({published} so far)."),
        (true, true) => format!("It publishes to the group ({published} so far) and receives it."),
        (false, _) => "It receives the group.".to_owned(),
    };
    if group.regions.is_empty() {
        return format!("{mine} Nobody else receives it: messages go nowhere.");
    }
    let packets = group.regions.len();
    let datagrams: usize = group.regions.iter().map(|region| region.datagrams).sum();
    let regions = counted(packets as u64, "region");
    let copies = match datagrams == packets {
        true => String::new(),
        false => format!(", sent as {}", counted(datagrams as u64, "datagram")),
    };
    let cost = counted(packets as u64, "packet");
    match group.publishes {
        true => format!("{mine} A message takes {cost}{copies}: the group has {regions}."),
        false => format!("{mine} It knows its own region; a publisher knows all of them."),
    }
}

/// The reason for which the node does not multicast, if that is its interface.
fn by_unicast(node: &NodeState, group: &GroupState) -> Option<String> {
    let medium = node.medium.as_ref()?;
    let mut members = group.regions.iter().flat_map(|region| &region.members);
    members
        .any(|member| member.reached == Reach::NoMulticast)
        .then(|| {
            format!(
                "{}, where nodes do not multicast unless they are told to (--multicast asm).",
                printable(medium)
            )
        })
}

fn region_words(region: &RegionState) -> Vec<Passage> {
    let heading = format!(
        "region {}, view {}: {}",
        region.region,
        region.view,
        path(region)
    );
    let mut passages = vec![Passage::Heading(heading)];
    if let Some(sending) = &region.sending {
        passages.push(Passage::Text(format!("  {}", sending_words(sending))));
    }
    let mut members = Table::new(&[
        ("  MEMBER", Align::Left),
        ("ADDRESS", Align::Left),
        ("STATE", Align::Left),
        ("REACHED", Align::Left),
    ]);
    for member in &region.members {
        members.row([
            format!("  {}", member.name),
            member.address.to_string(),
            state(member),
            reached(member.reached).to_owned(),
        ]);
    }
    passages.push(Passage::Table(members));
    if !region.receiving.is_empty() {
        let mut streams = Table::new(&[
            ("  SENDER", Align::Left),
            ("PACKETS", Align::Right),
            ("BEHIND", Align::Right),
            ("HEARD", Align::Left),
        ]);
        for stream in &region.receiving {
            streams.row([
                format!("  {}", stream.sender),
                count(stream.packets),
                count(stream.packets.saturating_sub(stream.contiguous)),
                heard(stream),
            ]);
        }
        passages.push(Passage::Table(streams));
    }
    passages
}

/// Destination of its packets, and the reason.
fn path(region: &RegionState) -> String {
    let members = counted(region.members.len() as u64, "member");
    if region.private {
        return format!(
            "unicast to {}, of {members}: a private region, for groups that would divide those \
             that many nodes share",
            region.address
        );
    }
    let leader = region.leader.as_deref().map(printable);
    let leader = leader.unwrap_or_else(|| "nobody".to_owned());
    let partitions = counted(region.partitions as u64, "partition");
    format!(
        "multicast to {}, {members} in {partitions}, led by {leader}",
        region.address
    )
}

/// State of the node's stream.
fn sending_words(sending: &SendingState) -> String {
    let sent = counted(sending.packets, "packet");
    let waiting = sending.packets.saturating_sub(sending.stable_upto);
    let in_flight = bytes(sending.in_flight_bytes as u64);
    let window = bytes(sending.window_bytes as u64);
    let acknowledged = match waiting {
        0 => "all live members have them".to_owned(),
        some => format!(
            "of the last {} it is not known that all live members have them ({in_flight} of a \
             window of {window})",
            count(some)
        ),
    };
    let unsent = match sending.unsent_messages {
        0 => String::new(),
        some => format!("; {} wait to be sent", counted(some, "message")),
    };
    let limit = sending
        .rate
        .map(|limit| format!("; at most {} packets/s", rate(limit.into())));
    let limit = limit.unwrap_or_default();
    let minimum = match sending.minimum_rate {
        0 => String::new(),
        u32::MAX => "; no receiver holds it up".to_owned(),
        least => format!(
            "; no receiver holds it below {} packets/s",
            rate(least.into())
        ),
    };
    format!("sent {sent}: {acknowledged}{unsent}{limit}{minimum}")
}

fn state(member: &MemberState) -> String {
    match (&member.away, member.leaving) {
        (Some(reason), _) => format!("away: {reason}"),
        (None, true) => "leaving: it has not got everything sent before yet".to_owned(),
        (None, false) if member.drops => "live, and drops messages of this group".to_owned(),
        (None, false) => "live".to_owned(),
    }
}

fn reached(reach: Reach) -> &'static str {
    match reach {
        Reach::Itself => "is this node",
        Reach::Multicast => "by multicast",
        Reach::Copies => "by copies: this node's multicast does not reach it",
        Reach::Alone => "by unicast: it is alone in the region",
        Reach::NoMulticast => "by copies: this node does not multicast",
        _ => "in a way that this program does not know",
    }
}

fn heard(stream: &ReceivingState) -> String {
    if stream.dead {
        return "it is gone".to_owned();
    }
    match stream.unheard_millis {
        None => "yes".to_owned(),
        Some(millis) => {
            let time = duration(Duration::from_millis(millis));
            format!("not by multicast for {time}: it sends copies")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn member(name: &str, last: u8, reached: Reach) -> MemberState {
        MemberState {
            name: name.to_owned(),
            address: SocketAddr::from(([10, 0, 0, last], 4484)),
            leaving: false,
            away: None,
            reached,
            drops: false,
        }
    }

    fn region(members: Vec<MemberState>) -> RegionState {
        RegionState {
            region: 17,
            view: 4,
            address: SocketAddr::from(([239, 192, 0, 17], 4484)),
            private: false,
            partitions: 1,
            leader: Some("lamp".to_owned()),
            member: false,
            datagrams: 2,
            members,
            sending: Some(SendingState {
                packets: 1200,
                stable_upto: 1188,
                unsent_messages: 40,
                in_flight_bytes: 17_664,
                window_bytes: 65_536,
                rate: Some(9000),
                minimum_rate: 2000,
            }),
            receiving: Vec::new(),
        }
    }

    fn explained(group: &GroupState) -> String {
        let node = NodeState {
            name: "desk".to_owned(),
            node: "5".to_owned(),
            cluster: "demo".to_owned(),
            address: SocketAddr::from(([10, 0, 0, 1], 4484)),
            service: None,
            program: "qsm".to_owned(),
            version: "0.2.0".to_owned(),
            medium: None,
        };
        Passage::render(&explanation(4711, &node, group))
    }

    fn group(publishes: bool, regions: Vec<RegionState>) -> GroupState {
        GroupState {
            described: Vec::new(),
            name: "news".to_owned(),
            number: 3,
            publishes,
            published: 12_345,
            receives: !publishes,
            regions,
        }
    }

    #[test]
    fn a_publisher_says_what_a_message_costs_and_how_it_reaches_whom() {
        let mut away = member("vase", 4, Reach::Multicast);
        away.away = Some("silent".to_owned());
        let members = vec![
            member("lamp", 2, Reach::Multicast),
            member("chair", 3, Reach::Copies),
            away,
        ];
        let text = explained(&group(true, vec![region(members)]));
        let expected = "\
group news (number 3), as node desk sees it: qsm in process 4711, at 10.0.0.1:4484 in cluster demo
It publishes to the group (12,345 messages so far). A message takes 1 packet, sent as 2 datagrams: \
the group has 1 region.

region 17, view 4: multicast to 239.192.0.17:4484, 3 members in 1 partition, led by lamp
  sent 1,200 packets: of the last 12 it is not known that all live members have them (17.7 kB of a \
window of 65.5 kB); 40 messages wait to be sent; at most 9.0 k packets/s; no receiver holds it below \
2.0 k packets/s
  MEMBER  ADDRESS        STATE         REACHED
  lamp    10.0.0.2:4484  live          by multicast
  chair   10.0.0.3:4484  live          by copies: this node's multicast does not reach it
  vase    10.0.0.4:4484  away: silent  by multicast
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_receiver_says_whom_it_hears_and_how_far_it_is_behind() {
        let stream = |sender: &str, unheard_millis| ReceivingState {
            sender: sender.to_owned(),
            packets: 1200,
            contiguous: 1000,
            stable_upto: 900,
            dead: false,
            unheard_millis,
        };
        let mut gone = stream("vase", None);
        gone.dead = true;
        let receiving = vec![stream("desk", None), stream("lamp", Some(3200)), gone];
        let private = RegionState {
            private: true,
            address: SocketAddr::from(([10, 0, 0, 3], 4484)),
            sending: None,
            receiving,
            ..region(vec![member("chair", 3, Reach::Itself)])
        };
        let text = explained(&group(false, vec![private]));
        let lines = [
            "It receives the group. It knows its own region; a publisher knows all of them.",
            "region 17, view 4: unicast to 10.0.0.3:4484, of 1 member: a private region, for groups \
             that would divide those that many nodes share",
            "  chair   10.0.0.3:4484  live   is this node",
            "  desk      1,200     200  yes",
            "  lamp      1,200     200  not by multicast for 3.20 s: it sends copies",
            "  vase      1,200     200  it is gone",
        ];
        for line in lines {
            assert!(text.lines().any(|it| it == line), "{line}: {text}");
        }
    }

    #[test]
    fn messages_to_a_group_that_nobody_receives_go_nowhere() {
        let text = explained(&group(true, Vec::new()));
        assert!(text.contains("Nobody else receives it"), "{text}");
    }
}
