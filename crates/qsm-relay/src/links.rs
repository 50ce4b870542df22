/// A set of children by their places in the list of children: a subcast list (S1, 3.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Links(u64);

impl Links {
    /// Most places.
    pub const MAX: usize = 64;

    /// The child at this place alone.
    #[must_use]
    pub fn one(place: usize) -> Self {
        let mut links = Self::default();
        links.insert(place);
        links
    }

    /// Adds a place; one beyond [`Links::MAX`] is passed over.
    pub fn insert(&mut self, place: usize) {
        self.0 |= Self::bit(place);
    }

    /// Takes a place out.
    pub fn remove(&mut self, place: usize) {
        self.0 &= !Self::bit(place);
    }

    /// Tells whether it holds this place.
    #[must_use]
    pub fn contains(self, place: usize) -> bool {
        self.0 & Self::bit(place) != 0
    }

    /// Its places without those of the other.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The places of both.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Its lowest place.
    #[must_use]
    pub fn first(self) -> Option<usize> {
        (self.0 != 0).then_some(self.0.trailing_zeros() as usize)
    }

    /// Number of its places.
    #[must_use]
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Tells whether it holds none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Its places, ascending.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self;
        core::iter::from_fn(move || {
            let place = rest.first()?;
            rest.remove(place);
            Some(place)
        })
    }

    fn bit(place: usize) -> u64 {
        if place < Self::MAX { 1 << place } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_was_inserted_and_nothing_beyond_its_end() {
        let mut links = Links::one(63);
        links.insert(0);
        links.insert(5);
        links.insert(64);
        links.remove(0);
        links.remove(64);
        assert_eq!(links.iter().collect::<Vec<_>>(), [5, 63]);
        assert_eq!((links.first(), links.len()), (Some(5), 2));
        assert!(links.contains(63) && !links.contains(64));
        assert!(links.without(links).is_empty());
        assert_eq!(links.with(Links::one(1)).len(), 3);
    }
}
