use super::Arrival;
use super::history::History;
use crate::content::{Sizes, key, length, matches};
use crate::violation::Violation;

/// What is delivered was published by this sender in this group under this number (architecture
/// §7: none is invented), and holds the bytes that were published.
pub(crate) fn check(
    history: &History,
    sizes: Sizes,
    arrival: &Arrival<'_>,
) -> Result<(), Violation> {
    let Arrival {
        receiver,
        group,
        sender,
        number,
        bytes,
    } = *arrival;
    let published = history.published(sender, group);
    if number == 0 || number > published {
        return Err(Violation::new(
            "creation",
            format!(
                "{receiver} delivers {sender}/group {group} #{number}, published are {published}"
            ),
        ));
    }
    let key = key(group, sender, number);
    if bytes.len() != length(sizes, key) || !matches(key, bytes) {
        return Err(Violation::new(
            "creation",
            format!(
                "{receiver} delivers {sender}/group {group} #{number} with wrong content: {} bytes \
                 instead of {}",
                bytes.len(),
                length(sizes, key)
            ),
        ));
    }
    Ok(())
}
