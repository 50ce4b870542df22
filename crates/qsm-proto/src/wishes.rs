//! Groups that the application wants promptly as well as in order, by their names: numbers are
//! those of a life.

use std::collections::BTreeMap;

use qsm_wire::GroupId;

use crate::Promptness;
use crate::receive::Cursors;

/// In which ways each group is wanted beside its order.
#[derive(Debug, Default)]
pub(crate) struct Wishes(BTreeMap<String, Box<[Promptness]>>);

impl Wishes {
    /// The application wants a group so from now on.
    pub(crate) fn set(&mut self, name: &str, modes: &[Promptness]) {
        match modes.is_empty() {
            true => self.0.remove(name),
            false => self.0.insert(name.to_owned(), modes.into()),
        };
    }

    /// A group has this number in this life.
    pub(crate) fn bind(&self, cursors: &mut Cursors, group: GroupId, name: &str) {
        let modes = self.0.get(name).map_or(&[][..], |modes| modes);
        cursors.want(group, modes);
    }
}
