//! A group as its membership service decided on it: why its regions are such, and what else is possible.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use qsm::admin::NodeState;
use qsm::{
    GroupDecision, GroupWay, Observer, PlanLimits, RegionDecision, RegionId, RegionKind, interfaces,
};
use qsm_console::figures::{count, counted, duration};
use qsm_console::passage::Passage;
use qsm_console::table::{Align, Table, printable};
use serde_json::{Value, json};

use super::super::list::regions::kind;

/// Time that a service has for its answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// Seconds that rates and savings are told for.
const RATE_SECONDS: f64 = 1000.0;

/// A membership service's word on a group, or why there is none.
pub(crate) struct ServiceWitness {
    cluster: String,
    service: Option<SocketAddr>,
    decision: Result<GroupDecision, String>,
}

impl ServiceWitness {
    /// Asks each of the services that these nodes use, once.
    pub(crate) fn all<'a>(
        group: &str,
        nodes: impl IntoIterator<Item = &'a NodeState>,
    ) -> Vec<Self> {
        let mut services: BTreeMap<(&str, Option<SocketAddr>), &NodeState> = BTreeMap::new();
        for node in nodes {
            services
                .entry((&node.cluster, node.service))
                .or_insert(node);
        }
        let asked = services.into_iter().map(|((cluster, service), node)| Self {
            cluster: cluster.to_owned(),
            service,
            decision: match service {
                Some(service) => ask(group, node, service),
                None => Err("the node knows none that answers".to_owned()),
            },
        });
        asked.collect()
    }

    /// Tells whether it is the service of a node.
    pub(super) fn is_of(&self, node: &NodeState) -> bool {
        (&self.cluster, self.service) == (&node.cluster, node.service)
    }

    /// For programs.
    pub(super) fn json(&self) -> Value {
        match &self.decision {
            Ok(decision) => of_decision(decision),
            Err(_) => Value::Null,
        }
    }

    /// For people.
    pub(crate) fn words(&self, group: &str) -> Vec<Passage> {
        let at = self
            .service
            .map_or_else(String::new, |at| format!(" at {at}"));
        let heading = format!(
            "group {}, as the membership service{at} of cluster {} decided",
            printable(group),
            printable(&self.cluster)
        );
        let mut passages = vec![Passage::Heading(heading)];
        match &self.decision {
            Ok(decision) => passages.extend(decision_words(decision)),
            Err(cause) => passages.push(Passage::Text(format!(
                "It does not say: {}.",
                printable(cause)
            ))),
        }
        passages
    }
}

/// Asks by the network that the node is on.
fn ask(group: &str, node: &NodeState, service: SocketAddr) -> Result<GroupDecision, String> {
    let interface =
        interfaces().map_err(|error| format!("interfaces cannot be listed: {error}"))?;
    let own = |interface: &qsm::Interface| interface.addr == node.address.ip();
    let builder = Observer::builder().cluster(node.cluster.clone());
    let builder = match interface.into_iter().find(own) {
        Some(interface) => builder.interface(interface.name),
        None => builder,
    };
    let observer = builder.service(service).timeout(PATIENCE).open();
    let answer = observer
        .map_err(|error| error.to_string())?
        .explain_group(group);
    let decision = answer.map_err(|error| error.to_string())?;
    decision.ok_or_else(|| "it knows no group of this name".to_owned())
}

fn decision_words(decision: &GroupDecision) -> Vec<Passage> {
    let packets = counted(decision.packets.into(), "packet");
    let receivers = counted(decision.receivers.into(), "receiver");
    let mut lines = vec![format!(
        "A message takes {packets} to {receivers}, and costs {} of CPU time in all. {}",
        micros(decision.cost_ns),
        rate_words(decision)
    )];
    if let Some(pin) = &decision.pin {
        lines.push(format!(
            "A hint pins the group to channel {}, which has addresses of its own.",
            printable(pin)
        ));
    }
    lines.push(limit_words(decision.limits));
    let mut passages: Vec<Passage> = lines.into_iter().map(Passage::Text).collect();
    passages.extend([Passage::Gap, Passage::Table(regions(decision))]);
    if decision.left_out > 0 {
        let more = counted(decision.left_out.into(), "more region");
        passages.push(Passage::Text(format!("  and {more}")));
    }
    passages.extend([Passage::Gap, Passage::Table(ways(decision))]);
    passages
}

fn rate_words(decision: &GroupDecision) -> String {
    match decision.rate {
        None if decision.publishers == 0 => {
            "Nobody publishes to it now: plans count with 1 message/s.".to_owned()
        }
        Some(rate) => format!(
            "Its publishers say that they send {}.",
            each_second(rate.into(), "message")
        ),
        None => {
            "Its publishers have not all said how much they send: plans count with 1 message/s."
                .to_owned()
        }
    }
}

fn limit_words(limits: Option<PlanLimits>) -> String {
    let Some(limits) = limits else {
        return "The service makes no plans (--plan-every 0): regions follow from groups and hints."
            .to_owned();
    };
    let common = match limits.common {
        Some(least) => format!(
            "common regions have to save {}",
            each_second(thousandths(least), "packet")
        ),
        None => "there are no common regions (--plan-common none)".to_owned(),
    };
    let merged = match limits.unwanted_ppm {
        0 => "none are merged (--plan-unwanted 0)".to_owned(),
        ppm => format!("merged ones may have {} unwanted deliveries", percent(ppm)),
    };
    format!("Plans: {common}; {merged}.")
}

fn regions(decision: &GroupDecision) -> Table {
    let mut table = Table::new(&[
        ("  REGION", Align::Left),
        ("KIND", Align::Left),
        ("MEMBERS", Align::Right),
        ("RECEIVE IT", Align::Right),
        ("GROUPS", Align::Right),
        ("UNWANTED", Align::Right),
        ("WHY", Align::Left),
    ]);
    for region in &decision.regions {
        table.row([
            format!("  {}", region.region),
            kind(region.kind).to_owned(),
            count(region.members.into()),
            count(region.receivers.into()),
            count(region.groups.into()),
            percent(region.unwanted_ppm),
            why(region, decision),
        ]);
    }
    table
}

/// The reason for a region, with the hints that bind it.
fn why(region: &RegionDecision, decision: &GroupDecision) -> String {
    let hints = &region.hints;
    let reason = match region.kind {
        _ if region.members == 0 => "all its members are leaving it",
        RegionKind::Exact => "its members receive the same groups",
        RegionKind::Common if decision.pin.is_some() => "a hint: groups of this channel alone",
        RegionKind::Common => "a plan: its members have these groups in common",
        RegionKind::Merged if hints.together => "a hint: its members are together",
        RegionKind::Merged => "a plan: its members receive similar groups",
        RegionKind::Private => "groups that would divide a region that its member shares",
    };
    let domain = hints.domain.as_ref();
    let domain = domain.map(|domain| format!("; hint: domain {}", printable(domain)));
    let apart = match (hints.compartment, &domain) {
        (1.., None) => Some(format!(
            "; hint: apart from others (compartment {})",
            hints.compartment
        )),
        _ => None,
    };
    let parts = domain.into_iter().chain(apart);
    format!("{reason}{}", parts.collect::<String>())
}

/// Other ways, with what speaks against them.
fn ways(decision: &GroupDecision) -> Table {
    let mut table = Table::new(&[
        ("  ALSO POSSIBLE", Align::Left),
        ("PACKETS", Align::Right),
        ("CPU TIME", Align::Right),
        ("UNWANTED", Align::Right),
        ("WHAT IT MEANS", Align::Left),
    ]);
    for way in &decision.ways {
        let Figures {
            packets,
            cost_ns,
            unwanted_ppm,
        } = Figures::of(way);
        table.row([
            format!("  {}", name(way)),
            count(packets.into()),
            micros(cost_ns),
            unwanted_ppm.map_or_else(|| "-".to_owned(), percent),
            verdict(way, decision),
        ]);
    }
    let mut told = BTreeSet::new();
    for region in &decision.regions {
        if let Some(nearest) = region.nearest
            && told.insert(pair(region.region, nearest.region))
        {
            table.row([
                format!("  region {} merged with {}", region.region, nearest.region),
                count(decision.packets.saturating_sub(1).into()),
                String::new(),
                percent(nearest.unwanted_ppm),
                merge_verdict(nearest.unwanted_ppm, decision.limits),
            ]);
        }
    }
    table
}

/// Both regions, in the same order whichever is named first.
fn pair(one: RegionId, other: RegionId) -> [RegionId; 2] {
    [one.min(other), one.max(other)]
}

/// Figures that all ways have.
struct Figures {
    packets: u32,
    cost_ns: u64,
    /// `None`: nothing is unwanted in any case.
    unwanted_ppm: Option<u32>,
}

impl Figures {
    fn of(way: &GroupWay) -> Self {
        let (packets, cost_ns, unwanted_ppm) = match *way {
            GroupWay::Exact { packets, cost_ns }
            | GroupWay::Copies { packets, cost_ns }
            | GroupWay::Common {
                packets, cost_ns, ..
            } => (packets, cost_ns, None),
            GroupWay::Merged {
                packets,
                cost_ns,
                unwanted_ppm,
            } => (packets, cost_ns, Some(unwanted_ppm)),
            _ => (0, 0, None),
        };
        Self {
            packets,
            cost_ns,
            unwanted_ppm,
        }
    }
}

fn name(way: &GroupWay) -> String {
    match way {
        GroupWay::Exact { .. } => "a region for each set of groups".to_owned(),
        GroupWay::Copies { .. } => "a copy for each receiver".to_owned(),
        GroupWay::Common { groups, .. } => {
            format!("a common region of {}", counted((*groups).into(), "group"))
        }
        GroupWay::Merged { .. } => "all receivers in a merged region".to_owned(),
        _ => "a way that this program does not know".to_owned(),
    }
}

/// Whether a way is in force, or what speaks for and against it.
fn verdict(way: &GroupWay, decision: &GroupDecision) -> String {
    let has = |kind| decision.regions.iter().any(|region| region.kind == kind);
    let shared = decision
        .regions
        .iter()
        .any(|it| it.kind != RegionKind::Private);
    match *way {
        GroupWay::Exact { packets, .. } => {
            match packets == decision.packets && !has(RegionKind::Merged) {
                true if !has(RegionKind::Common) => "this is so".to_owned(),
                _ => "without plans and hints that join or divide".to_owned(),
            }
        }
        GroupWay::Copies { .. } if !shared => "this is so".to_owned(),
        GroupWay::Copies { cost_ns, .. } => match cost_ns > decision.cost_ns {
            true => "costs more CPU time".to_owned(),
            false => {
                "costs less for this group; a plan does so with few receivers, where regions get \
                      fewer by it"
                    .to_owned()
            }
        },
        GroupWay::Common { saved, spent, .. } => common_verdict(
            Saving { saved, spent },
            has(RegionKind::Common),
            decision.limits,
        ),
        GroupWay::Merged { unwanted_ppm, .. } => {
            let regions = decision.regions.iter();
            let all = regions.filter(|it| it.receivers == decision.receivers);
            match all.filter(|it| it.kind == RegionKind::Merged).count() {
                0 => merge_verdict(unwanted_ppm, decision.limits),
                _ => "this is so, but for what members have beside".to_owned(),
            }
        }
        _ => String::new(),
    }
}

/// Packets in 1000 seconds.
#[derive(Clone, Copy)]
struct Saving {
    saved: u64,
    spent: u64,
}

fn common_verdict(saving: Saving, in_force: bool, limits: Option<PlanLimits>) -> String {
    let Saving { saved, spent } = saving;
    let figures = format!(
        "saves {}, its tokens cost {}",
        each_second(saved, "packet"),
        per_second(spent)
    );
    let least = limits.and_then(|limits| limits.common);
    match (in_force, least) {
        (true, _) => format!("this is so: {figures}"),
        (false, None) => format!("{figures}; switched off"),
        (false, Some(least)) if saved.saturating_sub(spent) < thousandths(least).max(1) => {
            format!("{figures}: less than the {least} that it has to save")
        }
        (false, Some(_)) => {
            format!("{figures}: a plan makes it where it is among a node's best three")
        }
    }
}

fn merge_verdict(unwanted_ppm: u32, limits: Option<PlanLimits>) -> String {
    match limits.map(|limits| limits.unwanted_ppm) {
        None | Some(0) => "switched off: nobody is to receive what it does not want".to_owned(),
        Some(most) if unwanted_ppm > most => format!("more than the {} that may be", percent(most)),
        Some(_) => {
            "within the limit: a plan does it where it costs less CPU time in all".to_owned()
        }
    }
}

fn of_decision(decision: &GroupDecision) -> Value {
    let regions = decision.regions.iter().map(|region| {
        json!({
            "region": region.region.0,
            "kind": kind(region.kind),
            "members": region.members,
            "receivers": region.receivers,
            "groups": region.groups,
            "unwanted_ppm": region.unwanted_ppm,
            "domain": region.hints.domain,
            "compartment": region.hints.compartment,
            "together": region.hints.together,
            "nearest": region.nearest.map(|nearest| json!({
                "region": nearest.region.0,
                "unwanted_ppm": nearest.unwanted_ppm,
            })),
        })
    });
    json!({
        "number": decision.group.0,
        "receivers": decision.receivers,
        "publishers": decision.publishers,
        "packets": decision.packets,
        "cost_ns": decision.cost_ns,
        "rate": decision.rate.map(|rate| f64::from(rate) / RATE_SECONDS),
        "limits": decision.limits.map(|limits| json!({
            "unwanted_ppm": limits.unwanted_ppm,
            "common": limits.common,
        })),
        "pin": decision.pin,
        "regions": regions.collect::<Vec<_>>(),
        "left_out": decision.left_out,
        "ways": decision.ways.iter().map(of_way).collect::<Vec<_>>(),
    })
}

fn of_way(way: &GroupWay) -> Value {
    let Figures {
        packets,
        cost_ns,
        unwanted_ppm,
    } = Figures::of(way);
    let name = match way {
        GroupWay::Exact { .. } => "exact",
        GroupWay::Copies { .. } => "copies",
        GroupWay::Common { .. } => "common",
        GroupWay::Merged { .. } => "merged",
        _ => "unknown",
    };
    let mut json = json!({ "way": name, "packets": packets, "cost_ns": cost_ns });
    if let Some(unwanted_ppm) = unwanted_ppm {
        json["unwanted_ppm"] = unwanted_ppm.into();
    }
    if let GroupWay::Common {
        groups,
        saved,
        spent,
        ..
    } = way
    {
        json["groups"] = (*groups).into();
        json["saved_per_second"] = (*saved as f64 / RATE_SECONDS).into();
        json["spent_per_second"] = (*spent as f64 / RATE_SECONDS).into();
    }
    json
}

/// Of so many in a second those in 1000.
fn thousandths(per_second: u32) -> u64 {
    u64::from(per_second) * 1000
}

/// So many in 1000 seconds, as a rate.
fn per_second(in_1000: u64) -> String {
    let rate = in_1000 as f64 / RATE_SECONDS;
    match rate.fract() == 0.0 || rate >= 100.0 {
        true => qsm_console::figures::rate(rate),
        false => format!("{rate:.1}"),
    }
}

fn each_second(in_1000: u64, noun: &str) -> String {
    let plural = if in_1000 == 1000 { "" } else { "s" };
    format!("{} {noun}{plural}/s", per_second(in_1000))
}

fn percent(ppm: u32) -> String {
    match ppm {
        0 => "0 %".to_owned(),
        ppm => format!("{:.1} %", f64::from(ppm) / 1e4),
    }
}

fn micros(nanos: u64) -> String {
    duration(Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use qsm::{GroupId, NearRegion, RegionHints};

    use super::*;

    fn region(number: u32, kind: RegionKind, members: u32) -> RegionDecision {
        RegionDecision {
            region: RegionId(number),
            kind,
            members,
            receivers: members,
            groups: 3,
            unwanted_ppm: 0,
            hints: RegionHints::default(),
            nearest: None,
        }
    }

    fn decision(regions: Vec<RegionDecision>) -> GroupDecision {
        GroupDecision {
            group: GroupId(3),
            receivers: regions.iter().map(|region| region.receivers).sum(),
            publishers: 1,
            packets: regions.len() as u32,
            cost_ns: 5000 * regions.len() as u64,
            rate: Some(2500),
            limits: Some(PlanLimits {
                unwanted_ppm: 100_000,
                common: Some(10),
            }),
            pin: None,
            regions,
            left_out: 0,
            ways: Vec::new(),
        }
    }

    fn text(decision: GroupDecision) -> String {
        let witness = ServiceWitness {
            cluster: "demo".to_owned(),
            service: Some(SocketAddr::from(([10, 0, 0, 1], 4481))),
            decision: Ok(decision),
        };
        Passage::render(&witness.words("news"))
    }

    #[test]
    fn two_regions_are_told_with_what_would_join_them() {
        let mut first = region(17, RegionKind::Exact, 40);
        let mut second = region(18, RegionKind::Exact, 2);
        let near = |number, unwanted_ppm| {
            Some(NearRegion {
                region: RegionId(number),
                unwanted_ppm,
            })
        };
        (first.nearest, second.nearest) = (near(18, 333_333), near(17, 333_333));
        second.hints.domain = Some("red".to_owned());
        let mut decision = decision(vec![first, second]);
        decision.ways = vec![
            GroupWay::Exact {
                packets: 2,
                cost_ns: 10_000,
            },
            GroupWay::Copies {
                packets: 42,
                cost_ns: 252_000,
            },
            GroupWay::Common {
                packets: 1,
                cost_ns: 5_000,
                groups: 1,
                saved: 2500,
                spent: 4200,
            },
        ];
        let expected = "\
group news, as the membership service at 10.0.0.1:4481 of cluster demo decided
A message takes 2 packets to 42 receivers, and costs 10 µs of CPU time in all. Its publishers say that \
they send 2.5 messages/s.
Plans: common regions have to save 10 packets/s; merged ones may have 10.0 % unwanted deliveries.

  REGION  KIND   MEMBERS  RECEIVE IT  GROUPS  UNWANTED  WHY
  17      exact       40          40       3       0 %  its members receive the same groups
  18      exact        2           2       3       0 %  its members receive the same groups; hint: \
domain red

  ALSO POSSIBLE                    PACKETS  CPU TIME  UNWANTED  WHAT IT MEANS
  a region for each set of groups        2     10 µs         -  this is so
  a copy for each receiver              42    252 µs         -  costs more CPU time
  a common region of 1 group             1      5 µs         -  saves 2.5 packets/s, its tokens cost 4.2: \
less than the 10 that it has to save
  region 17 merged with 18               1              33.3 %  more than the 10.0 % that may be
";
        assert_eq!(text(decision), expected);
    }

    #[test]
    fn what_plans_and_hints_made_is_told_as_theirs() {
        let mut merged = region(4, RegionKind::Merged, 5);
        merged.unwanted_ppm = 123_456;
        merged.nearest = Some(NearRegion {
            region: RegionId(9),
            unwanted_ppm: 50_000,
        });
        let mut alone = region(6, RegionKind::Private, 1);
        alone.hints.compartment = 2;
        let mut decision = decision(vec![
            region(3, RegionKind::Common, 7),
            merged.clone(),
            alone,
        ]);
        decision.rate = None;
        decision.left_out = 2;
        decision.ways = vec![GroupWay::Common {
            packets: 3,
            cost_ns: 5_000,
            groups: 2,
            saved: 90_000,
            spent: 700,
        }];
        let said = text(decision.clone());
        for part in [
            "plans count with 1 message/s",
            "a plan: its members have these groups in common",
            "12.3 %  a plan: its members receive similar groups",
            "shares; hint: apart from others (compartment 2)",
            "  and 2 more regions",
            "5.0 %  within the limit: a plan does it where it costs less",
            "this is so: saves 90 packets/s, its tokens cost 0.7",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        merged.hints.together = true;
        decision.regions = vec![merged];
        decision.pin = Some("fast".to_owned());
        decision.limits = None;
        let said = text(decision);
        for part in [
            "A hint pins the group to channel fast",
            "The service makes no plans",
            "a hint: its members are together",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}
