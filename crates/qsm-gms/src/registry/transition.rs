use core::fmt::Debug;

/// A state that changes by the rows of a table, and in no other way.
pub(super) trait State: Copy + Eq + Debug + 'static {
    /// What happens to it.
    type Event: Copy + Eq + Debug + 'static;

    /// In this state, on this event, the next state.
    const TABLE: &'static [(Self, Self::Event, Self)];

    /// The next state; `None`: the table has no such row.
    fn next(self, event: Self::Event) -> Option<Self> {
        let row = |row: &&(Self, Self::Event, Self)| row.0 == self && row.1 == event;
        Self::TABLE.iter().find(row).map(|row| row.2)
    }

    /// Goes on to the next state. The registry asks for no transition that the table lacks,
    /// whatever a node says: such a request is a mistake in here. It panics where assertions are
    /// on, and changes nothing elsewhere.
    fn advance(&mut self, event: Self::Event) {
        let next = self.next(event);
        debug_assert!(next.is_some(), "{self:?} does not know {event:?}");
        #[cfg(test)]
        seen::note(*self, event);
        *self = next.unwrap_or(*self);
    }
}

/// The rows that the tests of this thread have used.
#[cfg(test)]
pub(super) mod seen {
    use core::cell::RefCell;
    use core::fmt::Debug;
    use std::collections::BTreeSet;

    thread_local! {
        static ROWS: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
    }

    pub(crate) fn row(state: impl Debug, event: impl Debug) -> String {
        format!("{state:?} {event:?}")
    }

    pub(crate) fn note(state: impl Debug, event: impl Debug) {
        ROWS.with_borrow_mut(|rows| rows.insert(row(state, event)));
    }

    pub(crate) fn take() -> BTreeSet<String> {
        ROWS.take()
    }
}
