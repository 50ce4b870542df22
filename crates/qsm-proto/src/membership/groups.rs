use std::collections::BTreeMap;
use std::sync::Arc;

use qsm_wire::GroupId;
use qsm_wire::membership::{GROUP_NAME_BYTES_MAX, GroupReport, MESSAGE_BYTES_MAX, Role};

/// Bytes that the names of all groups of a node may take together: they must fit into one
/// `Hello`, with as much again for both roles and its regions.
const NAMES_BYTES_MAX: usize = MESSAGE_BYTES_MAX / 4;
/// Bytes of a name in a report, beside its text.
const NAME_EXTRA_BYTES: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Roles {
    subscriber: bool,
    publisher: bool,
}

impl Roles {
    fn slot(&mut self, role: Role) -> &mut bool {
        match role {
            Role::Subscriber => &mut self.subscriber,
            Role::Publisher => &mut self.publisher,
        }
    }

    fn has(mut self, role: Role) -> bool {
        *self.slot(role)
    }

    fn any(self) -> bool {
        self.subscriber || self.publisher
    }
}

/// `wanted` is what the application asked for last; `held` what the service confirmed.
#[derive(Debug, Default)]
struct Group {
    id: Option<GroupId>,
    wanted: Roles,
    held: Roles,
}

/// The groups of this node: names, numbers and roles. Both maps share the text of a name (R146).
#[derive(Debug, Default)]
pub(super) struct Groups {
    by_name: BTreeMap<Arc<str>, Group>,
    names: BTreeMap<GroupId, Arc<str>>,
    /// What numbers meant in the life before, until that is asked.
    former: BTreeMap<GroupId, Arc<str>>,
    /// The number after the highest heard of, in any life.
    end: GroupId,
    bytes: usize,
}

/// Why a request of the application is not passed on to the service.
fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("a group name is empty; give it at least one character".to_owned());
    }
    if name.len() > GROUP_NAME_BYTES_MAX {
        return Err(format!(
            "group name of {} bytes is longer than {GROUP_NAME_BYTES_MAX}; shorten it",
            name.len()
        ));
    }
    if name.chars().any(char::is_control) {
        return Err(format!(
            "group name {name:?} has control characters; remove them"
        ));
    }
    Ok(())
}

impl Groups {
    /// Notes that the application wants this role; all names or none.
    pub(super) fn want(
        &mut self,
        role: Role,
        names: &[String],
        groups_max: usize,
    ) -> Result<(), String> {
        for name in names {
            check_name(name)?;
        }
        let fresh = names
            .iter()
            .filter(|name| !self.by_name.contains_key(name.as_str()));
        let (count, bytes) = fresh.fold((0, 0), |(count, bytes), name| {
            (count + 1, bytes + name.len() + NAME_EXTRA_BYTES)
        });
        if self.by_name.len() + count > groups_max {
            return Err(format!(
                "{count} more groups than the {} entered exceed the limit of {groups_max}; \
                 exit some or raise the limit",
                self.by_name.len()
            ));
        }
        if self.bytes + bytes > NAMES_BYTES_MAX {
            return Err(format!(
                "group names of {} bytes together exceed {NAMES_BYTES_MAX}; use shorter names",
                self.bytes + bytes
            ));
        }
        for name in names {
            if !self.by_name.contains_key(name.as_str()) {
                self.bytes += name.len() + NAME_EXTRA_BYTES;
                self.by_name.insert(name.as_str().into(), Group::default());
            }
            if let Some(group) = self.by_name.get_mut(name.as_str()) {
                *group.wanted.slot(role) = true;
            }
        }
        Ok(())
    }

    /// Whether the application wants this role.
    pub(super) fn wants(&self, role: Role, name: &str) -> bool {
        self.by_name
            .get(name)
            .is_some_and(|group| group.wanted.has(role))
    }

    /// Whether the service has confirmed this role, and the application wants it still.
    pub(super) fn holds(&self, role: Role, name: &str) -> bool {
        self.by_name
            .get(name)
            .is_some_and(|group| group.wanted.has(role) && group.held.has(role))
    }

    /// Notes that the application does not want this role any more.
    pub(super) fn unwant(&mut self, role: Role, names: &[String]) {
        for name in names {
            if let Some(group) = self.by_name.get_mut(name.as_str()) {
                *group.wanted.slot(role) = false;
            }
        }
    }

    /// The service entered these groups.
    pub(super) fn entered(&mut self, role: Role, names: &[String]) {
        for name in names {
            if let Some(group) = self.by_name.get_mut(name.as_str()) {
                *group.held.slot(role) = true;
            }
        }
    }

    /// The service exited these groups; those without any role left are forgotten and returned.
    pub(super) fn exited(&mut self, role: Role, names: &[String]) -> Vec<GroupId> {
        for name in names {
            if let Some(group) = self.by_name.get_mut(name.as_str()) {
                *group.held.slot(role) = false;
            }
        }
        self.forget_unused(names)
    }

    /// The service refused to enter these groups: wanted is again what is held.
    pub(super) fn refused(&mut self, role: Role, names: &[String]) -> Vec<GroupId> {
        for name in names {
            if let Some(group) = self.by_name.get_mut(name.as_str()) {
                *group.wanted.slot(role) = group.held.has(role);
            }
        }
        self.forget_unused(names)
    }

    fn forget_unused(&mut self, names: &[String]) -> Vec<GroupId> {
        let mut gone = Vec::new();
        for name in names {
            let unused = |group: &&Group| !group.wanted.any() && !group.held.any();
            if self.by_name.get(name.as_str()).filter(unused).is_none() {
                continue;
            }
            self.bytes -= name.len() + NAME_EXTRA_BYTES;
            if let Some(id) = self
                .by_name
                .remove(name.as_str())
                .and_then(|group| group.id)
            {
                self.names.remove(&id);
                gone.push(id);
            }
        }
        gone
    }

    /// The service told a group's number. `false`: it is known, or of no interest any more.
    pub(super) fn named(&mut self, id: GroupId, name: &str) -> bool {
        self.heard_of(id);
        let Some(text) = self
            .by_name
            .get_key_value(name)
            .map(|(text, _)| Arc::clone(text))
        else {
            return false;
        };
        let group = self.by_name.entry(Arc::clone(&text)).or_default();
        if group.id == Some(id) {
            return false;
        }
        if let Some(old) = group.id.replace(id) {
            self.names.remove(&old);
        }
        self.names.insert(id, text);
        true
    }

    /// Notes that this number means a group, of this node or of another.
    pub(super) fn heard_of(&mut self, id: GroupId) {
        self.end = self.end.max(GroupId(id.0.saturating_add(1)));
    }

    /// The number after the highest heard of, 0 if none.
    pub(super) fn end(&self) -> GroupId {
        self.end
    }

    /// A new life begins: numbers are void. What they meant can be asked once.
    pub(super) fn forget_numbers(&mut self) {
        self.former = core::mem::take(&mut self.names);
        for group in self.by_name.values_mut() {
            group.id = None;
        }
    }

    /// What numbers meant in the life before.
    pub(super) fn take_former(&mut self) -> BTreeMap<GroupId, Arc<str>> {
        core::mem::take(&mut self.former)
    }

    pub(super) fn id(&self, name: &str) -> Option<GroupId> {
        self.by_name.get(name)?.id
    }

    pub(super) fn name(&self, id: GroupId) -> Option<&str> {
        self.names.get(&id).map(AsRef::as_ref)
    }

    /// What a service that knows nothing has to know: what this node has, and what it has asked
    /// for, since others may know already that it was granted.
    pub(super) fn reports(&self) -> Vec<GroupReport> {
        let mut reports = Vec::new();
        for (name, group) in &self.by_name {
            for role in [Role::Subscriber, Role::Publisher] {
                if group.held.has(role) || group.wanted.has(role) {
                    reports.push(GroupReport {
                        group: group.id,
                        name: name.to_string(),
                        role,
                    });
                }
            }
        }
        reports
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_name_must_be_short_visible_and_within_the_limits() {
        let mut groups = Groups::default();
        let long = "x".repeat(256);
        for bad in ["", "a\nb", &long] {
            let refused = groups.want(Role::Subscriber, &names(&["good", bad]), 10);
            assert!(refused.is_err(), "{bad:?}");
        }
        assert!(groups.by_name.is_empty());
        groups
            .want(Role::Subscriber, &names(&["a", "b"]), 2)
            .unwrap();
        groups
            .want(Role::Publisher, &names(&["a", "b"]), 2)
            .unwrap();
        assert!(groups.want(Role::Publisher, &names(&["c"]), 2).is_err());
    }

    #[test]
    fn a_group_entered_again_before_its_exit_was_confirmed_keeps_its_number() {
        let mut groups = Groups::default();
        let a = names(&["a"]);
        groups.want(Role::Subscriber, &a, 9).unwrap();
        assert!(groups.named(GroupId(4), "a"));
        groups.entered(Role::Subscriber, &a);
        groups.unwant(Role::Subscriber, &a);
        groups.want(Role::Subscriber, &a, 9).unwrap();
        assert!(groups.exited(Role::Subscriber, &a).is_empty());
        groups.entered(Role::Subscriber, &a);
        assert_eq!(groups.id("a"), Some(GroupId(4)));
        groups.unwant(Role::Subscriber, &a);
        assert_eq!(groups.exited(Role::Subscriber, &a), [GroupId(4)]);
        assert_eq!(groups.name(GroupId(4)), None);
        assert_eq!(groups.bytes, 0);
    }

    #[test]
    fn a_refused_request_takes_back_only_its_own_wishes() {
        let mut groups = Groups::default();
        groups.want(Role::Subscriber, &names(&["a"]), 9).unwrap();
        groups.named(GroupId(1), "a");
        groups.entered(Role::Subscriber, &names(&["a"]));
        groups
            .want(Role::Subscriber, &names(&["a", "b"]), 9)
            .unwrap();
        groups.refused(Role::Subscriber, &names(&["a", "b"]));
        assert_eq!(groups.id("a"), Some(GroupId(1)));
        assert!(!groups.by_name.contains_key("b"));
        assert_eq!(groups.reports().len(), 1);
    }
}
