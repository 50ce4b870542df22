//! The groups that an attached process has published to, by which it is told of its own messages only.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::error::{Flushed, RequestError, Unconfirmed};

/// Names kept of groups that the process does not publish to any more. Beyond them it is told of all
/// that the engine has sent.
const NAMES_MAX: usize = 1 << 16;

/// Groups that the process has ever published to.
#[derive(Debug, Default)]
pub(super) struct Published {
    groups: BTreeSet<Arc<str>>,
    /// There were too many.
    all: bool,
}

impl Published {
    /// It publishes to these from now on.
    pub(super) fn add(&mut self, groups: &[Arc<str>]) {
        self.groups.extend(groups.iter().cloned());
        if self.groups.len() > NAMES_MAX {
            (self.groups, self.all) = (BTreeSet::new(), true);
        }
    }

    /// What of the engine's outcome concerns the process.
    pub(super) fn own(
        &self,
        outcome: Result<Flushed, RequestError>,
    ) -> Option<Result<Flushed, RequestError>> {
        Some(match outcome {
            Ok(mut flushed) => {
                flushed.of_engine = true;
                flushed.unserved.retain_mut(|unserved| {
                    self.retain(&mut unserved.messages) || unserved.messages_more > 0
                });
                flushed.away.retain_mut(|lacking| {
                    self.retain(&mut lacking.messages) || lacking.messages_more > 0
                });
                Ok(flushed)
            }
            Err(RequestError::Unconfirmed { mut ranges, more }) => {
                if !self.retain(&mut ranges) && more == 0 {
                    // All of it is of other processes.
                    return None;
                }
                Err(RequestError::Unconfirmed { ranges, more })
            }
            Err(RequestError::Timeout {
                doing,
                after,
                mut outstanding,
            }) => {
                if let Some(left) = &mut outstanding {
                    left.lacking.retain_mut(|lacking| {
                        self.retain(&mut lacking.messages) || lacking.messages_more > 0
                    });
                }
                Err(RequestError::Timeout {
                    doing,
                    after,
                    outstanding,
                })
            }
            other => other,
        })
    }

    /// Keeps ranges of the process's groups; a group that the engine has left has no name. False if
    /// none are left.
    fn retain(&self, messages: &mut Vec<Unconfirmed>) -> bool {
        messages.retain(|range| {
            self.all || range.group.is_empty() || self.groups.contains(&range.group)
        });
        !messages.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use qsm_proto::UnservedCause;
    use qsm_wire::Incarnation;

    use super::*;
    use crate::error::Unserved;

    fn range(group: &str) -> Unconfirmed {
        Unconfirmed {
            group: group.into(),
            incarnation: Incarnation(1),
            first: 3,
            last: 5,
        }
    }

    fn unserved(groups: &[&str]) -> Unserved {
        Unserved {
            receivers: Vec::new(),
            receivers_more: 1,
            messages: groups.iter().map(|group| range(group)).collect(),
            messages_more: 0,
            cause: UnservedCause::Gone,
        }
    }

    fn published() -> Published {
        let mut published = Published::default();
        published.add(&["mine".into(), "too".into()]);
        published
    }

    #[test]
    fn a_process_is_told_of_its_own_groups_only() {
        let flushed = Flushed {
            unserved: vec![unserved(&["mine", "other"]), unserved(&["other"])],
            ..Flushed::default()
        };
        let own = published().own(Ok(flushed)).unwrap().unwrap();
        assert_eq!(own.unserved, [unserved(&["mine"])]);
        assert!(own.of_engine && !own.is_complete());
    }

    #[test]
    fn what_others_have_lost_is_no_error_of_this_process() {
        let error = |ranges: Vec<Unconfirmed>, more| {
            published().own(Err(RequestError::Unconfirmed { ranges, more }))
        };
        assert_eq!(error(vec![range("other")], 0), None);
        let ranges = vec![range("mine")];
        let told = error(vec![range("other"), range("mine")], 0);
        assert_eq!(
            told,
            Some(Err(RequestError::Unconfirmed { ranges, more: 0 }))
        );
        assert!(
            error(vec![range("other")], 2).is_some(),
            "it may be of its own"
        );
    }

    #[test]
    fn with_too_many_groups_it_is_told_of_all() {
        let mut published = published();
        let many: Vec<Arc<str>> = (0..NAMES_MAX).map(|n| n.to_string().into()).collect();
        published.add(&many);
        let flushed = Flushed {
            unserved: vec![unserved(&["other"])],
            ..Flushed::default()
        };
        let own = published.own(Ok(flushed)).unwrap().unwrap();
        assert_eq!(own.unserved.len(), 1);
    }
}
