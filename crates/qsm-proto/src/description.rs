//! A text on the node for lists, which its program gives: said when it has changed, and not often (R-MEM-21).

use core::time::Duration;

use crate::Instant;

/// Least time between two words to one run of the service.
const INTERVAL: Duration = Duration::from_secs(2);

/// Says the description.
#[derive(Debug, Default)]
pub(crate) struct Describer {
    text: String,
    /// The service knows another one.
    has_changed: bool,
    /// When something may be said again; `None` before the node is admitted.
    from: Option<Instant>,
}

impl Describer {
    /// The description is this from now on; none if it is empty.
    pub(crate) fn describe(&mut self, text: String) {
        self.has_changed |= self.text != text;
        self.text = text;
    }

    /// The node is admitted, perhaps by another service than before, which knows of no description.
    pub(crate) fn admitted(&mut self, now: Instant) {
        self.has_changed = !self.text.is_empty();
        self.from = Some(now);
    }

    /// When [`Describer::word`] has one.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.from.filter(|_| self.has_changed)
    }

    /// The description, if it is to be said now.
    pub(crate) fn word(&mut self, now: Instant) -> Option<String> {
        if self.due().is_none_or(|due| now < due) {
            return None;
        }
        self.has_changed = false;
        self.from = Some(now.after(INTERVAL));
        Some(self.text.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    fn describes(describer: &mut Describer, text: &str) {
        describer.describe(text.to_owned());
    }

    // Rule R-MEM-21.
    #[test]
    fn a_description_is_said_when_it_has_changed_and_not_often() {
        let mut describer = Describer::default();
        describes(&mut describer, "one");
        assert_eq!((describer.due(), describer.word(at(0))), (None, None));
        describer.admitted(at(300));
        assert_eq!(describer.due(), Some(at(300)));
        assert_eq!(describer.word(at(300)).as_deref(), Some("one"));
        describes(&mut describer, "one");
        assert_eq!((describer.due(), describer.word(at(9000))), (None, None));
        describes(&mut describer, "two");
        assert_eq!(describer.word(at(9000)).as_deref(), Some("two"));
        describes(&mut describer, "three");
        assert_eq!(describer.due(), Some(at(11_000)));
        describes(&mut describer, "four");
        assert_eq!(describer.word(at(10_999)), None);
        assert_eq!(describer.word(at(11_000)).as_deref(), Some("four"));
        describes(&mut describer, "");
        assert_eq!(describer.word(at(20_000)).as_deref(), Some(""));
        assert_eq!(describer.due(), None);
    }

    // Rule R-MEM-21.
    #[test]
    fn another_service_is_told_at_once() {
        let mut describer = Describer::default();
        describer.admitted(at(0));
        assert_eq!(describer.due(), None);
        describes(&mut describer, "one");
        assert!(describer.word(at(0)).is_some());
        describer.admitted(at(100));
        assert_eq!(describer.word(at(100)).as_deref(), Some("one"));
    }
}
