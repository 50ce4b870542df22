//! Faults of sites and links, with their remedies.

use std::collections::BTreeSet;

use qsm_console::table::printable;
use serde_json::{Value, json};

use super::{Gateway, OtherSite, Reach, Role, Sites};

/// Something that is wrong between sites.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    /// A stable word for programs.
    pub(super) id: &'static str,
    what: String,
    remedy: &'static str,
}

impl Fault {
    pub(super) fn text(&self) -> String {
        format!("{}: {}", self.what, self.remedy)
    }

    pub(super) fn json(&self) -> Value {
        json!({ "id": self.id, "what": self.what, "remedy": self.remedy })
    }
}

impl Sites {
    /// All that is wrong, as far as gateways say it.
    pub(super) fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        let names: BTreeSet<&str> = self.0.iter().map(|it| &*it.state.site).collect();
        if names.len() > 1 {
            faults.push(Fault {
                id: "several-sites",
                what: format!("gateways of this cluster have several sites' names, {}", list(names)),
                remedy: "give all gateways of a cluster one name, and clusters of one network other names \
                         (--cluster)",
            });
        }
        faults.extend(self.0.iter().filter_map(of_gateway));
        for (site, gateways) in self.others() {
            let live: Vec<(&Gateway, &OtherSite)> = gateways
                .into_iter()
                .filter(|(gateway, _)| !gateway.silent)
                .collect();
            faults.extend(of_ways(site, &live));
            faults.extend(of_turns(site, &live));
        }
        faults
    }
}

fn of_gateway(gateway: &Gateway) -> Option<Fault> {
    let name = printable(&gateway.name);
    if gateway.silent {
        return Some(Fault {
            id: "gateway-silent",
            what: format!("gateway {name} is silent; what it said last is not shown"),
            remedy: "see whether its host is there, and its process runs and is not stopped",
        });
    }
    (gateway.state.out.gateways == 0).then(|| Fault {
        id: "not-received",
        what: format!("no gateway of another site gets what {name} sends"),
        remedy: "see whether they run, name it in --from, and reach its --listen",
    })
}

/// Gateways of another site that are not reached from here.
fn of_ways(site: &str, live: &[(&Gateway, &OtherSite)]) -> Vec<Fault> {
    let links = |reached: bool| {
        let links = live.iter().flat_map(|(gateway, other)| {
            let links = other.links.iter();
            links.map(|link| (*gateway, link))
        });
        links.filter(move |(_, link)| (link.reach == Reach::Reached) == reached)
    };
    let site = printable(site);
    if links(true).next().is_none() {
        let at: BTreeSet<String> = links(false).map(|(_, link)| link.at.to_string()).collect();
        let what = match at.is_empty() {
            true => format!("site {site} is not reached: no gateway that is heard receives it"),
            false => format!(
                "site {site} is not reached: nobody answers at {}",
                list(at.iter().map(String::as_str))
            ),
        };
        return vec![Fault {
            id: "site-not-reached",
            what,
            remedy: "see whether its gateways run, UDP to them passes, and all give sites the same names",
        }];
    }
    let fault = |(gateway, link): (&Gateway, &super::LinkState)| Fault {
        id: "way-not-reached",
        what: format!(
            "gateway {} does not reach the gateway of site {site} at {}",
            printable(&gateway.name),
            link.at
        ),
        remedy: "see whether that gateway runs, and UDP to it passes; the site's messages come by others",
    };
    links(false).map(fault).collect()
}

/// Turns of gateways in publishing another site's messages.
fn of_turns(site: &str, live: &[(&Gateway, &OtherSite)]) -> Option<Fault> {
    let publishing: Vec<&str> = live
        .iter()
        .filter(|(gateway, other)| gateway.role(other) == Role::Publishing)
        .map(|(gateway, _)| &*gateway.name)
        .collect();
    let site = printable(site);
    match publishing.len() {
        0 if live.iter().any(|(_, other)| other.kept_bytes > 0) => Some(Fault {
            id: "nobody-publishes",
            what: format!("messages of site {site} wait, and no gateway publishes them"),
            remedy: "a gateway does after 2 s; if this stays so, see what the gateways say",
        }),
        0 | 1 => None,
        _ => Some(Fault {
            id: "several-publish",
            what: format!(
                "{} publish the messages of site {site} at a time, and subscribers drop what comes again",
                list(publishing)
            ),
            remedy: "one of them stands by when more messages come; if this stays so, see whether they \
                     hear each other in the cluster",
        }),
    }
}

/// `a`, `a and b`, `a, b and c`.
pub(super) fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names: Vec<String> = names.into_iter().map(printable).collect();
    let Some(last) = names.pop() else {
        return String::new();
    };
    match names.is_empty() {
        true => last,
        false => format!("{} and {last}", names.join(", ")),
    }
}
