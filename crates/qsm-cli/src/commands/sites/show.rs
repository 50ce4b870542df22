//! Sites for people and for programs.

use std::time::Duration;

use qsm_console::figures::{bytes, count, counted, duration, percent};
use qsm_console::passage::Passage;
use qsm_console::table::{Align, Table, printable};
use serde_json::{Value, json};

use super::faults::{Fault, list};
use super::{Gateway, GatewayState, LinkState, OtherSite, OutwardState, Role, Sites};

const COLUMNS: [(&str, Align); 10] = [
    ("  SITE", Align::Left),
    ("GATEWAY", Align::Left),
    ("WAY", Align::Left),
    ("ROLE", Align::Left),
    ("STATE", Align::Left),
    ("ROUND TRIP", Align::Right),
    ("LOSS", Align::Right),
    ("MESSAGES/S", Align::Right),
    ("BYTES/S", Align::Right),
    ("CPU", Align::Right),
];

impl Sites {
    /// For people: the sites that are joined, and how.
    pub(crate) fn words(&self) -> Vec<Passage> {
        let mut passages: Vec<Passage> = self.joined().map(Passage::Text).collect();
        let sends = self.0.iter().filter(|gateway| !gateway.silent);
        let sends: Vec<&str> = sends.map(|gateway| &*gateway.name).collect();
        if !sends.is_empty() {
            let line = format!(
                "What is published here is sent to other sites by {}.",
                list(sends)
            );
            passages.push(Passage::Text(line));
        }
        passages.extend([Passage::Gap, Passage::Table(self.table()), Passage::Gap]);
        let faults = self.faults();
        match faults.is_empty() {
            true => passages.push(Passage::Text("Nothing is wrong with them.".to_owned())),
            false => passages.extend(faults.iter().map(Fault::text).map(Passage::Finding)),
        }
        passages
    }

    /// For people: a group, and the sites that it is joined with.
    pub(crate) fn words_of_group(&self, group: &str, cluster: &str) -> Vec<Passage> {
        let others = self.others();
        let others = list(others.keys().copied());
        let with = match others.is_empty() {
            true => "only sent to others: its gateways receive none".to_owned(),
            false => format!("joined with {others}"),
        };
        let heading = format!(
            "group {}, as gateways of cluster {} join sites: {with}",
            printable(group),
            printable(cluster)
        );
        let mut passages = vec![Passage::Heading(heading)];
        passages.extend(self.doubts(group).map(Passage::Text));
        passages.extend(self.words());
        passages
    }

    /// Gateways that have no room to say whether they join the group.
    fn doubts(&self, group: &str) -> impl Iterator<Item = String> {
        let doubtful = self.0.iter().filter(|one| !one.state.names(group));
        doubtful.map(|gateway| {
            format!(
                "Gateway {} joins {} that it has no room to name: this may be one of them.",
                printable(&gateway.name),
                counted(gateway.state.groups_left_out as u64, "group")
            )
        })
    }

    /// A line for each other site: who publishes its messages, and who stands by.
    fn joined(&self) -> impl Iterator<Item = String> {
        let others = self.others().into_iter();
        others.map(|(site, gateways)| {
            let of = |role: Role| {
                let gateways = gateways
                    .iter()
                    .filter(|(one, other)| one.role(other) == role);
                let names: Vec<&str> = gateways.map(|(one, _)| &*one.name).collect();
                (!names.is_empty()).then(|| format!("{} ({})", list(names), role.word()))
            };
            let roles = [Role::Publishing, Role::StandingBy, Role::Silent];
            let gateways: Vec<String> = roles.into_iter().filter_map(of).collect();
            format!(
                "Site {} is joined by {}.",
                printable(site),
                gateways.join(", ")
            )
        })
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&COLUMNS);
        for gateway in &self.0 {
            if gateway.silent {
                table.row([
                    format!("  {}", gateway.state.site),
                    gateway.name.clone(),
                    String::new(),
                    Role::Silent.word().to_owned(),
                ]);
                continue;
            }
            table.row(outward_cells(gateway));
            for other in &gateway.state.from {
                for link in &other.links {
                    table.row(link_cells(gateway, other, link));
                }
            }
        }
        table
    }

    /// For programs.
    pub(crate) fn json(&self) -> Value {
        let joined = self.others().into_iter().map(|(site, gateways)| {
            let of = |role: Role| {
                let gateways = gateways
                    .iter()
                    .filter(|(one, other)| one.role(other) == role);
                gateways.map(|(one, _)| &*one.name).collect::<Vec<_>>()
            };
            json!({
                "site": site,
                "publishing": of(Role::Publishing),
                "standing_by": of(Role::StandingBy),
                "silent": of(Role::Silent),
            })
        });
        json!({
            "joined": joined.collect::<Vec<_>>(),
            "gateways": self.0.iter().map(Gateway::json).collect::<Vec<_>>(),
            "faults": self.faults().iter().map(Fault::json).collect::<Vec<_>>(),
        })
    }
}

fn outward_cells(gateway: &Gateway) -> [String; 10] {
    let GatewayState {
        site, cpu_us, out, ..
    } = &gateway.state;
    let OutwardState {
        gateways,
        round_trip_us,
        loss_ppm,
        messages,
        bytes: traffic,
    } = *out;
    [
        format!("  {site}"),
        gateway.name.clone(),
        "to others".to_owned(),
        String::new(),
        counted(gateways.into(), "gateway"),
        trip(round_trip_us),
        percent(loss_ppm.into(), 1_000_000),
        count(messages),
        bytes(traffic),
        percent((*cpu_us).into(), 1_000_000),
    ]
}

fn link_cells(gateway: &Gateway, other: &OtherSite, link: &LinkState) -> [String; 10] {
    let LinkState {
        at,
        reach,
        round_trip_us,
        loss_ppm,
        messages,
        bytes: traffic,
    } = *link;
    [
        format!("  {}", gateway.state.site),
        gateway.name.clone(),
        format!("from {} at {at}", other.site),
        gateway.role(other).word().to_owned(),
        reach.word().to_owned(),
        trip(round_trip_us),
        percent(loss_ppm.into(), 1_000_000),
        count(messages),
        bytes(traffic),
        String::new(),
    ]
}

fn trip(micros: u32) -> String {
    match micros {
        0 => "-".to_owned(),
        micros => duration(Duration::from_micros(micros.into())),
    }
}

impl Gateway {
    /// For programs. Figures of a silent one are of the past, and left out.
    pub(crate) fn json(&self) -> Value {
        let state = &self.state;
        let live = |value: Value| if self.silent { Value::Null } else { value };
        let from = state.from.iter().map(|other| {
            json!({
                "site": other.site,
                "role": self.role(other).word().replace(' ', "_"),
                "kept_bytes": live(other.kept_bytes.into()),
                "links": live(other.links.iter().map(link_json).collect()),
            })
        });
        let out = &state.out;
        json!({
            "site": state.site,
            "name": self.name,
            "node": self.node,
            "away": self.away,
            "silent": self.silent,
            "cpu_us_per_second": live(state.cpu_us.into()),
            "groups": state.groups,
            "groups_left_out": state.groups_left_out,
            "links_left_out": state.links_left_out,
            "to": live(json!({
                "gateways": out.gateways,
                "round_trip_us": known(out.round_trip_us),
                "loss_ppm": out.loss_ppm,
                "messages_per_second": out.messages,
                "bytes_per_second": out.bytes,
            })),
            "from": from.collect::<Vec<_>>(),
        })
    }
}

fn link_json(link: &LinkState) -> Value {
    json!({
        "address": link.at,
        "state": link.reach,
        "round_trip_us": known(link.round_trip_us),
        "loss_ppm": link.loss_ppm,
        "messages_per_second": link.messages,
        "bytes_per_second": link.bytes,
    })
}

fn known(micros: u32) -> Option<u32> {
    (micros > 0).then_some(micros)
}
