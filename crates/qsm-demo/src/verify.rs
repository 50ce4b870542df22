//! Whether everybody received everything: what receivers say they received, against what senders
//! say they published.

use std::collections::{BTreeMap, BTreeSet};

use crate::messages::{Published, Range, Stream};
use crate::plan::Plan;

/// What a sender published, by group.
pub(crate) type ByGroup = BTreeMap<usize, Published>;

/// What was published and received.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    /// By sender.
    pub(crate) published: BTreeMap<String, ByGroup>,
    /// By receiver of the plan.
    pub(crate) received: Vec<Vec<Stream>>,
    /// The receiver that was killed and came back.
    pub(crate) restarted: Option<usize>,
}

/// A hash to compare: of what a receiver got, with what the sender says of the same numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claim {
    /// Which receiver of the plan.
    pub(crate) receiver: usize,
    /// Who published.
    pub(crate) sender: String,
    /// Which messages.
    pub(crate) range: Range,
    /// What the receiver says.
    pub(crate) hash: String,
}

impl Evidence {
    /// What is wrong already by the numbers, and the hashes that remain to be compared.
    #[must_use]
    pub(crate) fn check(&self, plan: &Plan) -> (Vec<String>, Vec<Claim>) {
        let mut faults = Vec::new();
        let mut claims = Vec::new();
        for (receiver, streams) in self.received.iter().enumerate() {
            let whole = self.restarted != Some(receiver);
            let mut seen = BTreeSet::new();
            for stream in streams {
                if !seen.insert((stream.group, stream.sender.as_str())) {
                    faults.push(describe(plan, receiver, stream, "came under two numbers"));
                }
                match self.fault(plan, receiver, stream, whole) {
                    Some(fault) => faults.push(describe(plan, receiver, stream, &fault)),
                    None => claims.push(claim(receiver, stream)),
                }
            }
            faults.extend(self.missing(plan, receiver, &seen, whole));
        }
        (faults, claims)
    }

    fn fault(&self, plan: &Plan, receiver: usize, stream: &Stream, whole: bool) -> Option<String> {
        if !plan.receives(receiver, stream.group) {
            return Some("is not subscribed".to_owned());
        }
        let published = self
            .published
            .get(&stream.sender)
            .and_then(|by| by.get(&stream.group));
        let Some(published) = published else {
            return Some("nobody published it".to_owned());
        };
        let Stream {
            first, last, count, ..
        } = *stream;
        // A receiver that came back may begin anywhere up to the first message after that.
        let first_max = if whole { 1 } else { published.mark + 1 };
        if first == 0 || first > first_max {
            return Some(format!(
                "begins with {first}, not with {first_max} or before"
            ));
        }
        if last != published.count {
            return Some(format!("ends with {last}, not with {}", published.count));
        }
        // Not the difference of unordered numbers.
        let expected = (last + 1).checked_sub(first)?;
        (count != expected).then(|| format!("{count} messages, not {expected}"))
    }

    /// Groups of a sender of which nothing came at all.
    fn missing(
        &self,
        plan: &Plan,
        receiver: usize,
        seen: &BTreeSet<(usize, &str)>,
        whole: bool,
    ) -> Vec<String> {
        let mut faults = Vec::new();
        for (sender, groups) in &self.published {
            let missing = groups.values().filter(|published| {
                let due = if whole {
                    published.count
                } else {
                    published.count - published.mark
                };
                let came = seen.contains(&(published.group, sender.as_str()));
                due > 0 && plan.receives(receiver, published.group) && !came
            });
            faults.extend(missing.map(|published| {
                let name = &plan.groups[published.group].name;
                format!(
                    "receiver-{} got nothing of {name} from {sender}",
                    receiver + 1
                )
            }));
        }
        faults
    }
}

fn claim(receiver: usize, stream: &Stream) -> Claim {
    let Stream {
        group, first, last, ..
    } = *stream;
    Claim {
        receiver,
        sender: stream.sender.clone(),
        range: Range { group, first, last },
        hash: stream.hash.clone(),
    }
}

fn describe(plan: &Plan, receiver: usize, stream: &Stream, fault: &str) -> String {
    let name = plan
        .groups
        .get(stream.group)
        .map_or("an unknown group", |group| &group.name);
    format!(
        "receiver-{}: {name} from {}: {fault}",
        receiver + 1,
        stream.sender
    )
}

/// The different ranges of each sender that claims ask about: many receivers ask the same.
#[must_use]
pub(crate) fn questions(claims: &[Claim]) -> BTreeMap<String, Vec<Range>> {
    let mut sets: BTreeMap<String, BTreeSet<Range>> = BTreeMap::new();
    for claim in claims {
        sets.entry(claim.sender.clone())
            .or_default()
            .insert(claim.range);
    }
    sets.into_iter()
        .map(|(sender, set)| (sender, set.into_iter().collect()))
        .collect()
}

/// The claims that the senders' answers do not confirm.
#[must_use]
pub(crate) fn compare(
    plan: &Plan,
    claims: &[Claim],
    answers: &BTreeMap<(String, Range), String>,
) -> Vec<String> {
    let wrong = claims
        .iter()
        .filter(|claim| answers.get(&(claim.sender.clone(), claim.range)) != Some(&claim.hash));
    wrong
        .map(|claim| {
            let name = plan
                .groups
                .get(claim.range.group)
                .map_or("?", |group| &group.name);
            let (receiver, Range { first, last, .. }) = (claim.receiver + 1, claim.range);
            format!(
                "receiver-{receiver}: {name} from {}: messages {first} to {last} differ",
                claim.sender
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Size;

    const COUNT: u64 = 5;
    const MARK: u64 = 3;

    /// Everybody received everything; the victim from number 3 on.
    fn perfect() -> (Plan, Evidence) {
        let plan = Plan::new(Size::Quick);
        let row = |group| Published {
            group,
            count: COUNT,
            mark: MARK,
        };
        let published: ByGroup = (0..plan.groups.len()).map(|at| (at, row(at))).collect();
        let stream = |group, first| Stream {
            group,
            sender: "s".to_owned(),
            first,
            last: COUNT,
            count: COUNT + 1 - first,
            hash: format!("{group}:{first}"),
        };
        let streams = |receiver| {
            let first = if receiver == plan.victim() { 3 } else { 1 };
            plan.groups_of(receiver)
                .into_iter()
                .map(|group| stream(group, first))
                .collect()
        };
        let evidence = Evidence {
            published: BTreeMap::from([("s".to_owned(), published)]),
            received: (0..plan.receivers()).map(streams).collect(),
            restarted: Some(plan.victim()),
        };
        (plan, evidence)
    }

    fn faults_after(change: impl FnOnce(&mut Vec<Vec<Stream>>)) -> Vec<String> {
        let (plan, mut evidence) = perfect();
        change(&mut evidence.received);
        evidence.check(&plan).0
    }

    #[test]
    fn all_is_well_when_all_received_all() {
        let (plan, evidence) = perfect();
        let (faults, claims) = evidence.check(&plan);
        assert_eq!(faults, Vec::<String>::new());
        assert_eq!(
            claims.len(),
            evidence.received.iter().map(Vec::len).sum::<usize>()
        );
        let mut answers = BTreeMap::new();
        for (sender, ranges) in questions(&claims) {
            assert!(ranges.len() < claims.len());
            for range in ranges {
                let hash = format!("{}:{}", range.group, range.first);
                answers.insert((sender.clone(), range), hash);
            }
        }
        assert_eq!(compare(&plan, &claims, &answers), Vec::<String>::new());
        let wrong = answers.iter_mut().next().unwrap();
        wrong.1.push('x');
        assert!(!compare(&plan, &claims, &answers).is_empty());
        assert_eq!(
            compare(&plan, &claims, &BTreeMap::new()).len(),
            claims.len()
        );
    }

    #[test]
    fn every_kind_of_gap_is_found() {
        type Change = fn(&mut Vec<Vec<Stream>>);
        let changes: [Change; 8] = [
            |all| drop(all[0].pop()),
            |all| all[0][0].first = 2,
            |all| all[0][0].last = COUNT - 1,
            |all| all[0][0].last = COUNT + 1,
            |all| all[0][0].count -= 1,
            |all| all[0][0].sender = "x".to_owned(),
            |all| all[0][0].group = usize::MAX,
            |all| {
                let again = all[0][0].clone();
                all[0].push(again);
            },
        ];
        for (at, change) in changes.into_iter().enumerate() {
            assert!(!faults_after(change).is_empty(), "change {at}");
        }
    }

    #[test]
    fn who_came_back_has_everything_since_and_may_lack_what_was_before() {
        let victim = Plan::new(Size::Quick).victim();
        let begin = |first: u64| {
            faults_after(|all| {
                all[victim][0].first = first;
                all[victim][0].count = COUNT + 1 - first;
            })
        };
        assert!(begin(1).is_empty());
        assert!(begin(MARK + 1).is_empty());
        assert_eq!(begin(MARK + 2).len(), 1);
        assert_eq!(faults_after(|all| drop(all[victim].pop())).len(), 1);
    }
}
