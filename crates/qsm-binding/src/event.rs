//! Kinds of events.

use qsm::Event;

/// The kind of an event, such as `Admitted`: the name that [`Event`] has for it.
///
/// ```
/// use qsm_binding::event_kind;
///
/// assert_eq!(event_kind(&qsm::Event::ServiceLost), "ServiceLost");
/// ```
#[must_use]
pub fn event_kind(event: &Event) -> String {
    let shown = format!("{event:?}");
    let name = shown.split(|c: char| !c.is_ascii_alphanumeric()).next();
    name.unwrap_or_default().to_owned()
}
