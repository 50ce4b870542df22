//! States whose changes can be followed.

use crate::machine::StateMachine;

use super::arrivals::Cursor;

/// State whose changes can be followed from a [`Cursor`] on: what is there first, then what changes. That takes no memory
/// of the state, however slow whoever follows it.
///
/// ```
/// use qsm_replica::{MapBounds, MapChange, MapState, Watched};
///
/// let mut map = MapState::new(MapBounds::default());
/// let mut cursor = map.begin();
/// assert_eq!(map.changes(&mut cursor, 10), None);
/// map.set(1, "eur", b"1.08")?;
/// map.set(2, "eur", b"1.09")?;
/// let (key, value) = ("eur".to_owned(), b"1.09".to_vec());
/// assert_eq!(map.changes(&mut cursor, 10), Some(vec![MapChange::Set { key, value }]));
/// # Ok::<(), qsm_replica::LiveError>(())
/// ```
pub trait Watched: StateMachine {
    /// Change of it.
    type Change;

    /// The place before everything that is there.
    fn begin(&self) -> Cursor;

    /// The next change behind a place, which is behind that then.
    fn change(&self, cursor: &mut Cursor) -> Option<Self::Change>;

    /// The next ones, at most `most`; `None` if there are none.
    fn changes(&self, cursor: &mut Cursor, most: usize) -> Option<Vec<Self::Change>> {
        let next = std::iter::from_fn(|| self.change(cursor));
        let changes: Vec<_> = next.take(most).collect();
        (!changes.is_empty()).then_some(changes)
    }
}
